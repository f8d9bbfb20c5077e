"""Answers whose body the archive already holds, under another URL.

The child compares the SHA-256 of the body with that of the record that the crawler found by checksum. A record that
this run has not stored is read, so that no reference leads to a damaged one. An equal body is parsed again for the
index, and where that could show something new: the answer's headers, or the URL that relative links are resolved
against, may differ. A page in another folder of the site may have the same body and other links.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from teia.crawler.child.messages import ParsedBody, ReadTask, SeenAnswer, SeenRecord, decode_parsed
from teia.errors import StoreError
from teia.parse.headers import parse_head
from teia.records import Page
from teia.store.reader import ArchiveReader, split_head
from teia.store.warc import RevisitOf, digest_of

_PARSED_HEADERS = (
    "content-type", "content-encoding", "content-language", "link", "refresh", "x-robots-tag", "tdm-reservation",
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
    """A record with the same body: reference for a revisit record, result of parsing it, head of its answer."""

    reference: RevisitOf
    parsed: ParsedBody
    head: bytes


def find_repeated(seen: SeenRecord, digest: str) -> RepeatedBody | None:
    """Return the record whose body has this digest; None if it has another one or cannot be read."""
    answer = seen.answer or _stored_answer(seen)
    if answer is None or answer.payload_digest != digest:
        return None
    reference = RevisitOf(answer.url, answer.time_s, digest, answer.record_id)
    return RepeatedBody(reference, decode_parsed(seen.parsed), answer.head)


def _stored_answer(seen: SeenRecord) -> SeenAnswer | None:
    """Return the answer of a response record in the archive; None if there is none that is whole."""
    try:
        record = ArchiveReader(Path(seen.folder)).read(seen.file, seen.offset)
    except StoreError:
        return None
    digest, record_id = (record.headers.get(f"warc-{name}", "") for name in ("payload-digest", "record-id"))
    head, body = split_head(record.block)
    if record.kind != "response" or "warc-truncated" in record.headers or digest_of(body) != digest:
        return None
    return SeenAnswer(record.url, record.time_s, digest, record_id, head)


def has_same_links(task: ReadTask, repeated: RepeatedBody) -> bool:
    """Tell whether parsing an answer would find what parsing the repeated one found, and no shorter path."""
    parsed, url, other = repeated.parsed, task.url, repeated.reference.url
    if task.depth < parsed.depth or url.partition(":")[0] != other.partition(":")[0]:
        return False
    is_within = (
        parsed.scope == LinkScope.ANYWHERE
        or (parsed.scope == LinkScope.FOLDER and _folder(url) == _folder(other))
        or (parsed.scope == LinkScope.PATH and _path(url) == _path(other))
    )
    # Last, because to parse two heads takes as long as all the rest.
    return is_within and _parsed_headers(task.head) == _parsed_headers(repeated.head)


def _parsed_headers(head: bytes) -> list[list[str]]:
    headers = parse_head(head).headers
    return [headers.all(name) for name in _PARSED_HEADERS]


def link_scope(page: Page) -> LinkScope:
    """Return the URLs at which a page would have the same links, judged by where its links lead."""
    server = "/".join(page.url.split("/", 3)[:3]) + "/"
    # One search in all URLs: a page has a hundred links. A canonical URL contains no line end.
    urls = "\n".join(("", page.canonical, *[link.url for link in page.links]))
    if f"\n{_path(page.url)}?" in urls:
        return LinkScope.PATH
    return LinkScope.FOLDER if f"\n{server}" in urls else LinkScope.ANYWHERE


def _path(url: str) -> str:
    return url.partition("?")[0]


def _folder(url: str) -> str:
    return _path(url).rpartition("/")[0]
