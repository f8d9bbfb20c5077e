"""Access logs of proxies and web servers: the pages that users requested, and how often.

    squid      time elapsed client code/status bytes method URL user hierarchy/peer type    (Squid's native format)
    combined   client - user [time] "METHOD target HTTP/x" status bytes "referer" "agent"   (nginx, Apache)
    common     the same without the last two (Common Log Format)

A server's own log names paths, not sites: the caller names the site, unless each line begins with `host:port` (Apache's
vhost formats) or names a whole URL. The client of a request is never read. Queries and credentials are cut off unless
the caller wants them: they may identify a person. Only requests that were answered with a page or `not modified` count;
lines that match no format are counted and skipped.
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
"""Most distinct pages whose hits are counted; hits of further pages are one sum."""

SAMPLED_LINES = 50
"""Number of lines by which a format is recognised."""

_GZIP = b"\x1f\x8b"
_SQUID = re.compile(rb"\s*\d{9,11}\.\d+ +-?\d+ +\S+ +[A-Z_]+/(\d{3}) +\d+ +([A-Z]+) +(\S+) ")
_SERVER = re.compile(
    rb'(\S+) \S+ (?:\S+ )?[^\["]{0,200}\[[^\]]{1,60}\] "([A-Z]+) (\S+)(?: HTTP/[\d.]+)?" (\d{3}) \S+(.*)'
)
_VHOST = re.compile(rb"[A-Za-z0-9.-]+\.[A-Za-z0-9-]+:\d{1,5}")
_PAGE_METHODS = {b"GET", b"HEAD"}


class LoggedRequest(NamedTuple):
    """One line: the target requested, the host's name if the line has it, and the status of the answer."""

    target: str
    host: str
    method: bytes
    status: int

    @property
    def is_page_hit(self) -> bool:
        return self.method in _PAGE_METHODS and (200 <= self.status < 300 or self.status == 304)


class Hits(NamedTuple):
    """Contents of logs: hits by canonical URL, and numbers of lines by kind."""

    urls: Counter[str]
    lines: Counter[str]


def parse_line(line: bytes, form: Format) -> LoggedRequest | None:
    """Parse one line of a log; None if it has another format."""
    if form == "squid":
        match = _SQUID.match(line)
        if match is None:
            return None
        status, method, target = match.groups()
        return LoggedRequest(target.decode("utf-8", "replace"), "", method, int(status))
    match = _SERVER.match(line)
    if match is None:
        return None
    first, method, target, status, rest = match.groups()
    is_long = rest.count(b'"') >= 4
    if (form == "common" and rest.strip()) or (form == "combined" and not is_long):
        return None
    host = first.decode() if _VHOST.fullmatch(first) else ""
    return LoggedRequest(target.decode("utf-8", "replace"), host, method, int(status))


def detect_format(lines: Iterable[bytes]) -> Format | None:
    """Return the format of most of some lines; None if fewer than half have one."""
    sample = [line for line in lines if line.strip()]
    found = Counter[Format]()
    for line in sample:
        # A line may match several formats, so lines are counted for each and the most frequent wins.
        found.update(form for form in FORMATS if parse_line(line, form) is not None)
    best = found.most_common(1)
    return best[0][0] if best and 2 * best[0][1] >= len(sample) else None


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """Open a log, compressed or not. OSError if it cannot be read."""
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        if not is_packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("BinaryIO", unpacked)


def read_lines(file: BinaryIO, lines: Counter[str]) -> Iterator[bytes]:
    """Yield the lines of a log, cut to a bounded length; a torn end of a compressed log is counted."""
    is_rest = False
    try:
        while line := file.readline(MAX_LINE_BYTES):
            ends = line.endswith(b"\n")
            if not is_rest:
                yield line
            # The rest of a line that is too long is skipped; it must not pass for a line of its own.
            is_rest = not ends and len(line) == MAX_LINE_BYTES
    except (EOFError, zlib.error, gzip.BadGzipFile):
        lines["torn"] += 1


def request_url(request: LoggedRequest, site: str, *, queries: bool) -> str | None:
    """Return the canonical URL of a request; None if its site is unknown, or it is no page."""
    base = f"http://{request.host}/" if request.host else site
    if request.host.endswith(":443"):
        base = f"https://{request.host.removesuffix(':443')}/"
    # Only at the beginning: the path of a relative target may contain a whole URL (`/login?to=https://…`).
    url = (
        canonicalize(request.target) if "://" in request.target[:9] else resolve(request.target, base) if base else None
    )
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    # Credentials and queries may identify a person (see the module's docstring).
    plain = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    if not queries:
        plain = plain.partition("?")[0]
    return canonicalize(plain)


def count_hits(file: BinaryIO, form: Format, hits: Hits, site: str = "", *, queries: bool = False) -> None:
    """Add the requests of a log to the hits."""
    for line in read_lines(file, hits.lines):
        hits.lines["lines"] += 1
        request = parse_line(line, form)
        if request is None:
            hits.lines["broken"] += bool(line.strip())
            continue
        if not request.is_page_hit:
            hits.lines["not_pages"] += 1
            continue
        url = request_url(request, site, queries=queries)
        if url is None:
            hits.lines["no_url"] += 1
        elif url in hits.urls or len(hits.urls) < MAX_URLS:
            hits.urls[url] += 1
        else:
            hits.lines["dropped"] += 1
