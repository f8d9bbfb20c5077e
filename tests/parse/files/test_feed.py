from __future__ import annotations

from teia.clock import from_iso
from teia.parse.document import ListedUrl
from teia.parse.files.feed import MAX_TEXT_CHARS
from teia.parse.parse import ParseResult, parse_document
from teia.records import LinkKind


def parsed(body: str, media_type: str = "application/rss+xml") -> ParseResult:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n".encode()
    result = parse_document("http://a.test/feed", head, body.encode())
    assert result.failed == ()
    return result


RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
    <title>News &amp; more</title><link>http://a.test/</link><atom:link href="http://a.test/feed" rel="self"/>
    <item><title><![CDATA[One <b>]]></title><link>/1</link><pubDate>Thu, 05 Jan 2017 13:34:51 +0100</pubDate>
      <description>&lt;a href="/no"&gt;</description><media:thumbnail url="/no.jpg"/>
      <source url="/x"><title>no</title></source>
    </item>
    <item><title>Two</title><guid isPermaLink="true">http://a.test/2</guid></item>
    <item><title>Three</title><guid>not a url</guid></item>
    <item><title>Four</title><link>http://a.test/4"""


def test_rss_items_have_address_time_and_title() -> None:
    result = parsed(RSS)
    assert result.entries == (
        ListedUrl("http://a.test/1", from_iso("2017-01-05T12:34:51"), "One <b>"),
        ListedUrl("http://a.test/2", None, "Two"),
    )
    assert result.page.title == "News & more"
    assert result.page.metadata == {"feed": "rss", "self": "http://a.test/feed"}
    kinds = {link.url: link.kind for link in result.page.links}
    assert kinds["http://a.test/1"] is LinkKind.FEED
    assert kinds["http://a.test/"] is LinkKind.FEED, "its site is listed by it too, and not linked to"


def test_the_title_of_an_image_after_the_items_is_not_the_channels() -> None:
    image = "<image><title>Logo</title><link>http://a.test/logo</link></image>"
    result = parsed(f"<rss><channel><title>News</title><item><link>/1</link></item>{image}</channel></rss>")
    assert result.page.title == "News"
    assert [link.url for link in result.page.links] == ["http://a.test/1"]


def test_atom_entries_have_address_time_and_title() -> None:
    result = parsed(
        """<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><link href="http://a.test/feed" rel="self"/>
        <updated>2020-01-01T00:00:00Z</updated><entry><title>E</title><link rel="edit" href="/edit"/>
        <link rel='alternate' href='/e'/><updated>2024-01-01T00:00:00Z</updated>
        <content type="xhtml"><div><title>no</title><a href="/no">x</a></div></content></entry></feed>""",
        "text/html",
    )
    assert result.entries == (ListedUrl("http://a.test/e", from_iso("2024-01-01"), "E"),)
    assert result.page.media_type == "application/atom+xml"


def test_rss_1_is_read_too() -> None:
    result = parsed(
        """<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/" xmlns:dc="d"><channel><title>T</title></channel>
        <item rdf:about="x"><title>I</title><link>/i</link><dc:date>2024-01-01</dc:date></item></rdf:RDF>""",
        "application/rdf+xml",
    )
    assert result.entries == (ListedUrl("http://a.test/i", from_iso("2024-01-01"), "I"),)


def test_a_doctype_is_refused() -> None:
    result = parsed("<!DOCTYPE rss><rss><channel><item><link>/x</link></item></channel></rss>")
    assert (result.entries, result.page.metadata) == ((), {"feed": "rejected: it has a DOCTYPE"})


def test_the_text_of_a_feed_has_the_texts_of_its_items_without_tags() -> None:
    feed = """<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
        xmlns:media="http://search.yahoo.com/mrss/"><channel><title>News</title><description>no item</description>
        <item><title>First</title><link>http://a.test/1</link><description>&lt;p&gt;a &amp;amp; b&lt;br&gt;c&lt;/p&gt;
        </description></item>
        <item><title>Second</title><link>http://a.test/2</link><description>short</description>
        <content:encoded><![CDATA[<h1>the</h1><p>whole text]]></content:encoded><media:content>no</media:content></item>
        </channel></rss>"""
    assert parsed(feed).page.text.split("\n") == ["News", "First", "a & b c", "Second", "the whole text"]
    atom = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><title>One</title>
        <link href="/1"/><summary>less</summary><content type="xhtml"><div>some <b>bold</b> words</div></content>
        <author><name>Nobody</name></author></entry></feed>"""
    assert parsed(atom).page.text.split("\n") == ["News", "One", "some bold words"]


def test_the_text_of_an_item_and_of_a_feed_are_bounded() -> None:
    item = f"<item><title>t</title><link>http://a.test/1</link><description>{'word ' * 10_000}</description></item>"
    page = parsed(f"<rss><channel>{item * 100}</channel></rss>").page
    assert len(page.text) == MAX_TEXT_CHARS
    assert "text" in page.truncated
