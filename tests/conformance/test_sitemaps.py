"""crawler-commons' sitemap and feed files."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import from_iso
from teia.parse.parse import ParseResult, parse_document

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"

COUNTS = {
    # file: entries, first URL
    "atom.xml": (2, "http://example.org/2003/12/13/atom03"),
    "do-not-visit.txt": (1, "http://www.example.com/do-not-visit-here"),
    "sitemap-with-bom.txt": (2, "http://www.domain.com/page1.html"),
    "sitemap.badns.xml": (2, "http://www.example.com/1"),
    "sitemap.index.xml": (15, "https://example.com/sitemap.jss?portalCode=10260&lang=en"),
    "sitemap.ns.xml": (2, "http://www.example.com/1"),
    "sitemap.txt": (2, "http://www.domain.com/page1.html"),
    "sitemap.txt.gz": (5, "http://www.example.com/"),
    "xmlSitemap.gz": (5, "http://www.example.com/"),
    "extension/hebdenbridgetimes-articles-sitemap.xml": (
        74,
        "http://www.hebdenbridgetimes.co.uk/news/local/video-tour-de-yorkshire-in-calderdale-1-7242580",
    ),
    "extension/pagemaps-sitemap.xml": (2, "http://www.example.com/foo"),
    "extension/shinpaideshou-news-sitemap.xml": (
        3,
        "https://shinpaideshou.wordpress.com/2017/04/25/job-opening-reischauer-policy-research-fellow/",
    ),
    "extension/sitemap-images.xml": (1, "http://www.example.com/images/some_image_landing_page.html"),
    "extension/sitemap-links.xml": (3, "http://www.example.com/english/"),
    "extension/sitemap-mobile.xml": (3, "http://www.example.com/mobile-friendly-1/"),
    "extension/sitemap-news.xml": (2, "http://www.example.org/business/article55.html"),
    "extension/sitemap-videos-tvshow.xml": (1, "https://example.org/my-tv-show/23/13/"),
    "extension/sitemap-videos.xml": (3, "http://www.example.com/videos/some_video_landing_page.html"),
    "rss/feed.rss": (4, "https://www.example.com/blog/post/1"),
    "rss/xmlRss_pubDate.xml": (7, "http://www.example.com/article_1"),
}


def parsed(conformance: Path, file: str) -> ParseResult:
    body = (conformance / "sitemaps" / file).read_bytes()
    result = parse_document(f"http://host.test/{file}", HEAD, body, is_sitemap=True)
    assert result.failed == ()
    return result


def test_every_file_is_checked(conformance: Path) -> None:
    folder = conformance / "sitemaps"
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files - {"LICENSE"} == set(COUNTS)


@pytest.mark.parametrize("file", COUNTS)
def test_entries_are_found(conformance: Path, file: str) -> None:
    entries = parsed(conformance, file).entries
    assert (len(entries), entries[0].url) == COUNTS[file]


def test_times_of_a_sitemap(conformance: Path) -> None:
    times = [entry.modified_s for entry in parsed(conformance, "xmlSitemap.gz").entries]
    assert times[:3] == [from_iso("2005-01-01"), None, from_iso("2004-12-23")]


def test_times_of_a_feed_however_they_are_written(conformance: Path) -> None:
    times = [entry.modified_s for entry in parsed(conformance, "rss/xmlRss_pubDate.xml").entries]
    first = from_iso("2017-01-05T12:34:51")
    assert times == [first, first + 1, first + 2, first + 3, first + 3_600 + 4, None, None]


def test_entities_and_sections_in_a_link_are_resolved(conformance: Path) -> None:
    urls = [entry.url for entry in parsed(conformance, "rss/feed.rss").entries]
    assert urls[1:] == [
        "https://www.example.com/guid.html",
        "https://www.example.com/foo?q=a&l=en",
        "https://www.example.com/foo?q=a&l=fr",
    ]
