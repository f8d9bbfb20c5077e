"""Access logs of proxies and web servers: which pages people asked for, and how often.

    squid      time elapsed client code/status bytes method URL user hierarchy/peer type    (Squid's native format)
    combined   client - user [time] "METHOD target HTTP/x" status bytes "referer" "agent"   (nginx, Apache)
    common     the same without the last two (Common Log Format)

A server's own log names paths, not sites: whoever reads it says which site it is of, unless each line begins with
`host:port` (Apache's vhost formats) or names a whole URL. Who asked is never looked at. Queries and credentials are cut
off unless they are wanted: they may tell of a person. Only requests that were answered with a page or `not modified`
count; lines that are none of a format are counted and passed over.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from teia.urls import canonicalize, resolve

Format = Literal["squid", "combined", "common"]
FORMATS: tuple[Format, ...] = ("squid", "combined", "common")

MAX_LINE_BYTES = 16_384
MAX_URLS = 1_000_000
"""Different pages of which hits are counted; more are counted as one number."""

LOOKED_AT = 50
"""Lines by which a format is recognised."""

_GZIP = b"\x1f\x8b"
_SQUID = re.compile(rb"\s*\d{9,11}\.\d+ +-?\d+ +\S+ +[A-Z_]+/(\d{3}) +\d+ +([A-Z]+) +(\S+) ")
_SERVER = re.compile(
    rb'(\S+) \S+ (?:\S+ )?[^\["]{0,200}\[[^\]]{1,60}\] "([A-Z]+) (\S+)(?: HTTP/[\d.]+)?" (\d{3}) \S+(.*)'
)
_VHOST = re.compile(rb"[A-Za-z0-9.-]+\.[A-Za-z0-9-]+:\d{1,5}")
_ASKED = {b"GET", b"HEAD"}


class Asked(NamedTuple):
    """One line: what was asked for, by which host's name if it says, and with which status it was answered."""

    target: str
    host: str
    method: bytes
    status: int

    @property
    def counts(self) -> bool:
        return self.method in _ASKED and (200 <= self.status < 300 or self.status == 304)


class Hits(NamedTuple):
    """What logs say: hits by canonical URL, and how many lines were what."""

    urls: Counter[str]
    lines: Counter[str]


def parse_line(line: bytes, form: Format) -> Asked | None:
    """One line of a log; None if it is none."""
    if form == "squid":
        match = _SQUID.match(line)
        if match is None:
            return None
        status, method, target = match.groups()
        return Asked(target.decode("utf-8", "replace"), "", method, int(status))
    match = _SERVER.match(line)
    if match is None:
        return None
    first, method, target, status, rest = match.groups()
    is_long = rest.count(b'"') >= 4
    if (form == "common" and rest.strip()) or (form == "combined" and not is_long):
        return None
    host = first.decode() if _VHOST.fullmatch(first) else ""
    return Asked(target.decode("utf-8", "replace"), host, method, int(status))


def format_of(lines: Iterable[bytes]) -> Format | None:
    """Which format most of some lines are of; None if hardly any is of one."""
    given = [line for line in lines if line.strip()]
    found = Counter[Format]()
    for line in given:
        found.update(form for form in FORMATS if parse_line(line, form) is not None)
    best = found.most_common(1)
    return best[0][0] if best and 2 * best[0][1] >= len(given) else None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A log opened, compressed or not. OSError where it cannot be read."""
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        if not is_packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("BinaryIO", unpacked)


def lines_of(file: BinaryIO, lines: Counter[str]) -> Iterator[bytes]:
    """The lines of a log, none longer than a bound; a torn end of a compressed one is counted."""
    is_rest = False
    try:
        while line := file.readline(MAX_LINE_BYTES):
            ends = line.endswith(b"\n")
            if not is_rest:
                yield line
            is_rest = not ends and len(line) == MAX_LINE_BYTES
    except (EOFError, zlib.error, gzip.BadGzipFile):
        lines["torn"] += 1


def url_of(asked: Asked, site: str, *, queries: bool) -> str | None:
    """The canonical URL of what was asked for; None where nobody knows its site, or it is no page's."""
    base = f"http://{asked.host}/" if asked.host else site
    if asked.host.endswith(":443"):
        base = f"https://{asked.host.removesuffix(':443')}/"
    url = canonicalize(asked.target) if "://" in asked.target[:9] else resolve(asked.target, base) if base else None
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    plain = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    if not queries:
        plain = plain.partition("?")[0]
    return canonicalize(plain)


def count_hits(file: BinaryIO, form: Format, hits: Hits, site: str = "", *, queries: bool = False) -> None:
    """Add a log to what is known of hits."""
    for line in lines_of(file, hits.lines):
        hits.lines["lines"] += 1
        asked = parse_line(line, form)
        if asked is None:
            hits.lines["broken"] += bool(line.strip())
            continue
        if not asked.counts:
            hits.lines["not_pages"] += 1
            continue
        url = url_of(asked, site, queries=queries)
        if url is None:
            hits.lines["no_url"] += 1
        elif url in hits.urls or len(hits.urls) < MAX_URLS:
            hits.urls[url] += 1
        else:
            hits.lines["dropped"] += 1
