"""Sitemaps and feeds in any state."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.clock import from_iso
from teia.parse.document import ListedUrl
from teia.parse.files.sitemap import MAX_URLS
from teia.parse.parse import ParseResult, parse_document
from teia.records import LinkKind
from tests.timing import within

URL = "http://a.test/sitemap.xml"


def parsed(body: str | bytes, media_type: str = "application/xml", *, is_sitemap: bool = True) -> ParseResult:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n".encode()
    result = parse_document(URL, head, body.encode() if isinstance(body, str) else body, is_sitemap=is_sitemap)
    assert result.failed == ()
    return result


def urls(result: ParseResult) -> list[str]:
    return [entry.url for entry in result.entries]


def test_entries_have_urls_and_times() -> None:
    result = parsed("""<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
        <url><loc>http://a.test/x?a=1&amp;b=2</loc><lastmod>2024-01-02</lastmod></url>
        <url><loc> <![CDATA[http://a.test/y]]> </loc><lastmod>never</lastmod></url>
        <url><lastmod>2024-01-02</lastmod></url></urlset>""")
    assert result.entries == (
        ListedUrl("http://a.test/x?a=1&b=2", from_iso("2024-01-02")),
        ListedUrl("http://a.test/y", is_broken_date=True),
    )
    assert [link.kind for link in result.page.links] == [LinkKind.SITEMAP] * 2
    assert result.page.metadata == {"sitemap": "urls"}


def test_a_sitemap_nobody_announced_is_recognised_by_its_root() -> None:
    result = parsed("<?xml version='1.0'?><urlset><url><loc>/x</loc></url></urlset>", "text/html", is_sitemap=False)
    assert urls(result) == ["http://a.test/x"]


@pytest.mark.parametrize(
    "body",
    [
        "<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2?a&b=c</loc></url><url><loc>http://a",
        "<urlset><undeclared:x/><url><loc>http://a.test/1</loc><bad attr=></url>"
        "<url><loc>http://a.test/2?a&b=c</loc></url></oops>",
        "<sm:urlset><sm:url><sm:loc>http://a.test/1</sm:loc><image:loc>http://a.test/i</image:loc></sm:url>"
        "<sm:url><sm:loc>http://a.test/2?a&amp;b=c</sm:loc></sm:url>",
        "\n\n<URLSET><URL><LOC>http://a.test/1</LOC></URL><url><loc>http://a.test/2?a&b=c",
    ],
)
def test_broken_xml_is_read_as_far_as_it_goes(body: str) -> None:
    assert urls(parsed(body))[0] == "http://a.test/1"
    assert set(urls(parsed(body))) <= {"http://a.test/1", "http://a.test/2?a&b=c"}


def test_a_doctype_is_refused() -> None:
    for kind in (True, False):
        result = parsed('<!DOCTYPE x [<!ENTITY a "b">]><urlset><url><loc>/&a;</loc></url></urlset>', is_sitemap=kind)
        assert result.entries == ()
        assert result.page.metadata == {"sitemap": "rejected: it has a DOCTYPE"}


def test_entities_are_never_looked_up() -> None:
    assert urls(parsed("<urlset><url><loc>http://a.test/&xxe;&eacute;&#65;</loc></url></urlset>")) == [
        "http://a.test/&xxe;&eacute;A"
    ]


def test_a_list_of_urls_in_plain_text_is_a_sitemap_when_announced_as_one() -> None:
    body = b"\xef\xbb\xbfhttp://a.test/1\r\n\r\nnonsense\nhttps://b.test/2\n" + b"x" * 100_000
    assert urls(parsed(body, "text/plain")) == ["http://a.test/1", "https://b.test/2"]
    assert parsed(body, "text/plain", is_sitemap=False).entries == ()


def test_gzip_is_undone() -> None:
    body = gzip.compress(b"<urlset><url><loc>http://a.test/1</loc></url></urlset>")
    assert urls(parsed(body, "application/x-gzip")) == ["http://a.test/1"]


@pytest.mark.heavy
def test_no_more_than_the_limit_of_urls() -> None:
    body = "<urlset>" + "".join(f"<url><loc>/{n}</loc></url>" for n in range(MAX_URLS + 10))
    result = parsed(body)
    assert (len(result.entries), len(result.page.links), result.page.truncated) == (MAX_URLS, MAX_URLS, "links")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "write",
    [
        lambda: b"<urlset>" + b"<" * (10 * 2**20),
        lambda: b"<urlset>" + b"<url><loc>x" * 500_000,
        lambda: b"<urlset>" + b"<![CDATA[" * 500_000,
        lambda: b"<urlset>" + b"<!--" * 1_000_000,
        lambda: b"http://" + b"x" * (30 * 2**20),
        lambda: b"<urlset><url><loc>" + b"&amp;" * 2_000_000,
        lambda: gzip.compress(b"<urlset>" + b"<url>" * 20_000_000, 6),
        lambda: gzip.compress(b"<urlset>" + b"<url>" * 20_000_000, 1),
    ],
    ids=["no >", "never closed", "cdata", "comments", "one line", "entities", "gzip bomb", "milder gzip bomb"],
)
def test_hostile_sitemaps_take_little_time(write: Callable[[], bytes]) -> None:
    body = write()
    within(5, lambda: parsed(body))


def test_lastmod_of_the_year_9999_is_only_a_number() -> None:
    entry = parsed("<urlset><url><loc>/x</loc><lastmod>9999-12-31</lastmod></url>").entries[0]
    assert entry.modified_s is not None
    assert entry.modified_s > 2.5e11


@given(st.text(alphabet="<>/!-[]CDAT&;urlocsitemap\n x", max_size=200))
def test_any_text_is_a_sitemap(body: str) -> None:
    markups = (body, "<urlset><url><loc>" + body, "<rss><channel><item>" + body, "<feed><entry>" + body)
    for number, markup in enumerate(markups):
        found = parsed(markup, is_sitemap=number < 2)
        assert found.failed == ()
        assert all(entry.url.startswith(("http://", "https://")) for entry in found.entries)
