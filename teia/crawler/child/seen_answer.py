"""Answers whose body the archive already holds, under another URL.

The child compares the bytes with the record that the crawler found by checksum. An equal body is parsed again only
where that could show something new: the answer's headers, or the URL that relative links are resolved against, may
differ. A page in another folder of the site may have the same body and other links.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from teia.crawler.child.messages import ParsedBody, ReadTask, SeenRecord, decode_parsed
from teia.errors import StoreError
from teia.parse.headers import Headers, parse_head
from teia.records import Page
from teia.store.reader import ArchiveReader, split_head
from teia.store.warc import RevisitOf

_PARSED_HEADERS = (
    "content-type", "content-encoding", "content-language", "link", "refresh", "x-robots-tag",
)  # fmt: skip
"""Headers that change the result of parsing."""


class LinkScope(IntEnum):
    """The URLs at which a body has the same links."""

    ANYWHERE = 0
    """All URLs of its scheme: no link leads to its own server."""
    FOLDER = 1
    """URLs that differ only in the last part of the path and in the query."""
    PATH = 2
    """URLs that differ only in the query, because a link may be a query alone."""
    NOWHERE = 3
    """No other URL: the page has results that are not stored in a `ParsedBody`."""


@dataclass(frozen=True, slots=True)
class RepeatedBody:
    """A record with the same body: reference for a revisit record, result of parsing it, headers of its answer."""

    reference: RevisitOf
    parsed: ParsedBody
    headers: Headers


def find_repeated(seen: SeenRecord | None, body: bytes) -> RepeatedBody | None:
    """Return the record that has exactly this body; None if it has another one or cannot be read."""
    if seen is None:
        return None
    try:
        record = ArchiveReader(Path(seen.folder)).read(seen.file, seen.offset)
    except StoreError:
        return None
    digest = record.headers.get("warc-payload-digest", "")
    head, stored = split_head(record.block)
    if record.kind != "response" or stored != body or not digest or "warc-truncated" in record.headers:
        return None
    reference = RevisitOf(record.url, record.time_s, digest, record.headers.get("warc-record-id", ""))
    return RepeatedBody(reference, decode_parsed(seen.parsed), parse_head(head).headers)


def has_same_links(task: ReadTask, headers: Headers, repeated: RepeatedBody) -> bool:
    """Tell whether parsing an answer would find what parsing the repeated one found, and no shorter path."""
    parsed, url, other = repeated.parsed, task.url, repeated.reference.url
    if task.depth < parsed.depth or url.partition(":")[0] != other.partition(":")[0]:
        return False
    if any(headers.all(name) != repeated.headers.all(name) for name in _PARSED_HEADERS):
        return False
    if parsed.scope == LinkScope.FOLDER:
        return _folder(url) == _folder(other)
    return parsed.scope == LinkScope.ANYWHERE or (parsed.scope == LinkScope.PATH and _path(url) == _path(other))


def link_scope(page: Page) -> LinkScope:
    """Return the URLs at which a page would have the same links, judged by where its links lead."""
    own, query = page.url, _path(page.url) + "?"
    server = "/".join(own.split("/", 3)[:3]) + "/"
    urls = [page.canonical, *(link.url for link in page.links)]
    if any(url.startswith(query) for url in urls):
        return LinkScope.PATH
    return LinkScope.FOLDER if any(url.startswith(server) for url in urls) else LinkScope.ANYWHERE


def _path(url: str) -> str:
    return url.partition("?")[0]


def _folder(url: str) -> str:
    return _path(url).rpartition("/")[0]
