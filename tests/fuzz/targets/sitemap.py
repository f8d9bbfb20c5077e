"""Sitemaps: any bytes are read without an error, within the limits, and entries written anew are the same entries."""

from __future__ import annotations

import gzip
from xml.sax.saxutils import escape

from teia.parse.document import Document, ParseOptions
from teia.parse.files.sitemap import MAX_URLS, read_sitemap
from teia.parse.headers import parse_head
from teia.urls import canonicalize
from tests.fuzz.pieces import Pieces

URL = "http://a.test/sitemap.xml"
SEEDS = (
    b"\x00<?xml version='1.0'?><urlset xmlns='x'><url><loc>http://a.test/1&amp;b</loc><lastmod>2024-01-02T03:04:05Z"
    b"</lastmod><image:loc>/i</image:loc></url></urlset>",
    b"\x01<sitemapindex><sitemap><loc><![CDATA[/s.xml]]></loc><lastmod>x</lastmod></sitemap><sitemap>/2</sitemap>",
    b"\x00http://a.test/1\nhttps://b.test/2\r\nnothing\n",
    b"\x00<!DOCTYPE x [<!ENTITY a 'b'>]><urlset/>",
    b"\x02<feed><entry><link href='/e'/><updated>2024-01-02</updated></entry></feed>",
    b"\x00<x:urlset><x:url><x:loc>&#x68;ttp://a.test/&#99999999;</x:loc></x:url>",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    how, body = pieces.number(), pieces.rest()
    body = gzip.compress(body, 1) if how & 1 else body
    head = parse_head(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=%s\r\n\r\n" % (b"utf-16" if how & 2 else b"")
    )
    found = read_sitemap(Document(URL, head, body, ParseOptions()))
    assert len(found.entries) <= MAX_URLS
    assert all(canonicalize(link.url) == link.url for link in found.links)
    if "sitemap" in found.metadata:  # a feed has other links beside those of its entries
        assert {entry.url for entry in found.entries} - {URL} == {link.url for link in found.links}
    listed = "".join(f"<url><loc>{escape(entry.url)}</loc></url>" for entry in found.entries)
    again = read_sitemap(Document(URL, parse_head(b""), f"<urlset>{listed}</urlset>".encode(), ParseOptions()))
    assert [entry.url for entry in again.entries] == [entry.url for entry in found.entries]
