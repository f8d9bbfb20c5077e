"""Feeds: any bytes are read without an error and within the limits; dates are times or nothing."""

from __future__ import annotations

import math

from teia.clock import iso_utc
from teia.parse.dates import parse_date
from teia.parse.document import Document, ParseOptions
from teia.parse.files.feed import MAX_ITEMS, MAX_TITLE_CHARS, read_feed
from teia.parse.headers import parse_head
from teia.urls import canonicalize
from tests.fuzz.pieces import clean_text_of

HEAD = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\n\r\n")
SEEDS = (
    b"<rss><channel><title>T</title><link>http://a.test/</link><item><title>t</title><link>/1</link><pubDate>Mon, 01 "
    b"Jan 2024 00:00:00 +0100</pubDate></item><item><guid>http://a.test/2</guid></item></channel></rss>",
    b"<feed xmlns='x'><link rel='hub self' href='/h'/><entry><link rel='alternate' href='/e'/><updated>2024-01-02T03:04"
    b":05.5+01:00</updated><title type='html'>&lt;b&gt;</title></entry></feed>",
    b"<rdf:RDF><item><dc:date>20240102</dc:date><link><![CDATA[/x]]></link></item></rdf:RDF>",
    b"2024-02-30T25:61:61Z",
    b"Thu, 31 Dec 9999 23:59:60 -2359",
)


def fuzz_one(data: bytes) -> None:
    found = read_feed(Document("http://a.test/feed", HEAD, data, ParseOptions()))
    assert len({entry.url for entry in found.entries}) <= MAX_ITEMS
    assert all(canonicalize(link.url) == link.url for link in found.links)
    assert len(found.title) <= MAX_TITLE_CHARS
    for entry in found.entries:
        _check_time(entry.modified_s)
    _check_time(parse_date(clean_text_of(data[:200])))


def _check_time(time_s: float | None) -> None:
    if time_s is not None:
        assert math.isfinite(time_s)
        assert parse_date(iso_utc(time_s)) is not None
