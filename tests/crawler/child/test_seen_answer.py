"""The record that a parse child compares an answer with."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teia.crawler.child.messages import ParsedBody, SeenAnswer, SeenRecord, encode
from teia.crawler.child.seen_answer import LinkScope, find_repeated, link_scope
from teia.records import Link, Page
from teia.store.warc import digest_of, page_members
from tests.store.answers import START_S, fetched, writer

BODY = b"<p>" + random.Random(1).randbytes(50_000)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PARSED = encode(ParsedBody(LinkScope.FOLDER, 1, "text/html", "", "", "", False, b"", b"", 0, 0, len(BODY)))


def stored(folder: Path) -> tuple[SeenRecord, int]:
    """Store BODY in an archive; return its record as one of an earlier run, and its length."""
    with writer(folder) as archive:
        _, response = archive.append(page_members(fetched(HEAD), BODY, {}))
        archive.flush_and_sync()
    return SeenRecord(PARSED, str(folder), response.file, response.offset), response.length


def test_a_record_with_the_digest_of_the_body_is_referred_to(tmp_path: Path) -> None:
    record, _ = stored(tmp_path)
    found = find_repeated(record, digest_of(BODY))
    assert found is not None
    assert (found.reference.url, found.reference.time_s) == ("http://a.test/a", pytest.approx(START_S, abs=1e-6))
    assert found.reference.record_id.startswith("<urn:uuid:")
    assert (found.parsed.scope, found.head) == (LinkScope.FOLDER, HEAD)
    assert find_repeated(record, digest_of(BODY + b"x")) is None


def test_a_damaged_record_is_not_referred_to(tmp_path: Path) -> None:
    record, length = stored(tmp_path)
    path = tmp_path / record.file
    damaged = bytearray(path.read_bytes())
    damaged[record.offset + length - 20] ^= 0xFF
    path.write_bytes(damaged)
    assert find_repeated(record, digest_of(BODY)) is None


def test_a_record_of_this_run_needs_no_file() -> None:
    answer = SeenAnswer("http://a.test/a", START_S, digest_of(BODY), "<urn:uuid:1>", HEAD)
    found = find_repeated(SeenRecord(PARSED, answer=answer), digest_of(BODY))
    assert found is not None
    assert (found.reference.url, found.reference.record_id) == ("http://a.test/a", "<urn:uuid:1>")


@pytest.mark.parametrize(
    ("urls", "scope"),
    [
        ((), LinkScope.ANYWHERE),
        (("http://b.test/x", "http://a.test.b.test/"), LinkScope.ANYWHERE),
        (("http://b.test/http://a.test/",), LinkScope.ANYWHERE),
        (("http://b.test/x", "http://a.test/y"), LinkScope.FOLDER),
        (("http://a.test/f/page?q=1",), LinkScope.PATH),
        (("http://a.test/f/page/more?q=1",), LinkScope.FOLDER),
    ],
)
def test_the_scope_of_a_page_follows_from_where_its_links_lead(urls: tuple[str, ...], scope: LinkScope) -> None:
    page = Page(url="http://a.test/f/page?p=2", links=tuple(map(Link, urls)))
    assert link_scope(page) == scope
