"""Lines for squid.conf that attach the helper to a Squid: operators are given these, and the lab runs them (C7).

    log        each request is announced after its answer, and no client waits. Squid runs its one log daemon for every
               `daemon:` log; the helper becomes Squid's own for those that are not ours. `asked` comes first, or a
               connection without a request causes a warning in `cache.log`
    rewriter   each request is announced, and waits for the helper, for a second at most
    acl        an ACL that never matches, evaluated for each page; Squid caches the answer for `TTL_S`, and does not
               ask again meanwhile. It stands in a `cache` line, because there an ACL that fails (the helper died,
               answers nonsense, is overloaded) leaves a request as it is; in `http_access` nonsense refuses it

Rewriter and ACL are not started before they are needed (`startup=0`): Squid exits if a program that it must have at its
start dies before its first answer. It must always have a log daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

Way = Literal["log", "rewriter", "acl"]
WAYS: tuple[Way, ...] = get_args(Way)
DEFAULT: Way = "log"

PROGRAM = "/usr/local/lib/teia-announce"
PYTHON = "/usr/bin/python3 -IS"
"""Without site packages: the helper needs none, and starts sooner."""

TTL_S = 600
"""Time in seconds for which Squid caches an answer: a page is announced once in that time."""

GRACE = -100
"""Squid's `grace`: no background refresh before twice the cache time.

Squid may ask anew in the background while an answer is still valid: in the last so many hundredths of its time, and
shortly before the end by default. It does so even if the queue is full. If more than a full queue waits for three
minutes, because the helper hangs, Squid 5.7 exits, and has no setting against that here.
"""

KEPT = 65_536
"""Answers that Squid keeps, of 256 bytes and more each."""

AT_ONCE = 128
"""Largest number of open queries to the helper, and of waiting ones.

Squid sends no others, so a helper that hangs, for which Squid has no time-out here, can hold up requests for twice that
many pages and no more.
"""

_ACLS = """\
acl pages method GET
acl from_the_cache req_header Cache-Control -i only-if-cached
"""

# The format names the URL alone: no client and no user reaches the helper.
_ACL = """\
external_acl_type teia ttl={ttl_s} negative_ttl={ttl_s} grace={grace} cache={kept} children-startup=0 children-max=1 \
concurrency={at_once} queue-size={at_once} {url} {command}
acl announced external teia
{acls}# This is the last `cache` line. None before it may allow: `cache allow X` is written `cache deny !X`.
cache deny pages !from_the_cache announced
"""

_REWRITER = """\
url_rewrite_program {command}
url_rewrite_children 1 startup=0 idle=1 concurrency=1024
url_rewrite_extras "- - %>rm"
url_rewrite_bypass on
url_rewrite_timeout 1 second on_timeout=bypass
{acls}url_rewrite_access deny from_the_cache
url_rewrite_access allow pages
"""

_LOG = """\
{acls}acl asked has request
logformat announced %ru - - %rm
logfile_daemon {program}
access_log daemon:unix:{socket} announced asked pages !from_the_cache
# Squid writes its usual log only where there is no access_log line, and this was one. Unless you have named that log:
# access_log daemon:/var/log/squid/access.log squid
"""


def lines(
    way: Way,
    socket: str,
    *,
    program: str | None = None,
    words: Sequence[str] = (),
    ttl_s: int = TTL_S,
) -> str:
    """Return the lines for one way to attach the helper; `words` are the program's flags."""
    command = " ".join([PYTHON, program or PROGRAM, *words, socket])
    if way == "acl":
        # Without its query, which Squid cuts off behind the question mark in %ru; the other is the URL as it came.
        url = "%'>ru" if "--queries" in words else "%ru"
        return _ACL.format(ttl_s=ttl_s, grace=GRACE, kept=KEPT, at_once=AT_ONCE, url=url, command=command, acls=_ACLS)
    if way == "rewriter":
        return _REWRITER.format(command=command, acls=_ACLS)
    return _LOG.format(program=program or f"{PROGRAM}-log", socket=socket, acls=_ACLS)
