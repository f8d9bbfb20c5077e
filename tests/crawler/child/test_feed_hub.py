"""Which hub a feed names: in its headers before itself, never for another site (WebSub, discovery)."""

from __future__ import annotations

import pytest

from teia.crawler.child.read_answer import hub_of
from teia.parse.headers import parse_head
from teia.parse.parse import parse_document

URL = "http://blog.a.test/feed.xml"
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{links}
<entry><title>one</title><link href="/1"/><link rel="hub" href="http://evil.test/"/>
<updated>2026-01-01T00:00:00Z</updated></entry></feed>"""
RSS = """<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>x</title><link>http://blog.a.test/</link>
<atom:link rel="hub" href="https://hub.test/"/><atom:link rel="self" href="http://www.a.test/rss"/>
<item><link>http://blog.a.test/1</link></item></channel></rss>"""
OWN = '<link rel="hub" href="https://hub.test/"/><link rel="self" href="http://blog.a.test/feed"/>'


def found(body: str, *headers: str) -> tuple[str, str]:
    head = "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: application/xml", *headers, "", ""]).encode()
    parsed = parse_document(URL, head, body.encode())
    assert parsed.entries, "it is read as a feed all the same"
    return hub_of(URL, parsed.head.headers, parsed.page.metadata)


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (ATOM.format(links=OWN), (), ("https://hub.test/", "http://blog.a.test/feed")),
        (ATOM.format(links=""), (), ("", "")),
        (RSS, (), ("https://hub.test/", "http://www.a.test/rss")),
        (
            ATOM.format(links=OWN),
            ('Link: <http://h2.test/>; rel="hub"', "Link: </self>; title=x; rel=self, <http://x.test/>; rel=next"),
            ("http://h2.test/", "http://blog.a.test/self"),
        ),
        (ATOM.format(links='<link rel="hub" href="/hub"/>'), (), ("http://blog.a.test/hub", URL)),
        (
            ATOM.format(links='<link rel="hub" href="http://h.test/"/><link rel="self" href="http://b.test/feed"/>'),
            (),
            ("http://h.test/", URL),
        ),
        (ATOM.format(links='<link rel="hub" href="javascript:1"/>'), (), ("", "")),
        (ATOM.format(links=""), ("Link: <" + "x" * 5_000, 'Link: ;;; rel="hub"'), ("", "")),
    ],
)
def test_the_hub_of_a_feed(body: str, headers: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert found(body, *headers) == expected


def test_a_header_of_much_punctuation_costs_no_time() -> None:
    head = parse_head(b"HTTP/1.1 200 OK\r\nLink: " + b"<a>" + b"; a=b" * 1_500 + b" ;\r\n\r\n")
    assert hub_of(URL, head.headers, {}) == ("", "")
