"""Every link a browser would see, out of HTML as people write it (T6); requisites on demand (T12)."""

from __future__ import annotations

import pytest

from teia.config.sections import LimitSettings
from teia.parse.document import ParseOptions
from teia.parse.parse import parse_document
from teia.records import Link, LinkKind, Page

URL = "http://a.test/dir/page.html"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


def page_of(markup: str | bytes, *, headers: bytes = b"", options: ParseOptions | None = None, url: str = URL) -> Page:
    body = markup.encode() if isinstance(markup, str) else markup
    result = parse_document(url, HEAD + headers + b"\r\n", body, options or ParseOptions())
    assert result.failed == ()
    return result.page


def urls_of(markup: str | bytes) -> list[str]:
    """The paths of all links on the same host, others in full."""
    return [link.url.removeprefix("http://a.test") for link in page_of(markup).links]


def kinds_of(page: Page) -> dict[str, LinkKind]:
    return {link.url.removeprefix("http://a.test"): link.kind for link in page.links}


BROKEN: dict[str, tuple[str | bytes, list[str]]] = {
    # what is wrong: markup, the links a browser finds
    "nothing": ('<a href="/x">y</a>', ["/x"]),
    "never closed": ("<a href=/1>one<a href=/2>two<p>three", ["/1", "/2"]),
    "no quotes": ("<a href=/x?a=1&b=2>", ["/x?a=1&b=2"]),
    "single quotes": ("<a href='/x y'>", ["/x%20y"]),
    "upper case": ('<A HREF="/x"><AREA HREF="/y"><FRAMESET><FRAME SRC="/z">', ["/x", "/y"]),
    "no blank between attributes": ("<a title='t'href='/x'class=c>", ["/x"]),
    "a slash before the attribute": ("<a/href='/x'/>", ["/x"]),
    "two href": ("<a href=/first href=/second>", ["/first"]),
    "blanks and line ends in the value": ('<a href=" \n/a\tb\r\nc ">', ["/abc"]),
    "entities": ('<a href="/x?a=1&amp;b=2&#38;c=3&copy=4&eacute;">', ["/x?a=1&b=2&c=3&copy=4%C3%A9"]),
    "entity without semicolon": ('<a href="/x?a&amp b">', ["/x?a&%20b"]),
    "zeros": (b"<a href=/x\0y>t\0", ["/x%EF%BF%BDy"]),
    "a comment around it": ("<!-- <a href=/no> --><a href=/yes>", ["/yes"]),
    "a comment that ends oddly": ("<!--> <a href=/yes> --><!-- x --!><a href=/too>", ["/yes", "/too"]),
    "CDATA outside of XML": ("<![CDATA[ <a href=/a> ]]><a href=/b>", ["/b"]),
    "in a script": ("<script>'<a href=/no>'</script><a href=/yes>", ["/yes"]),
    "in a style": ("<style>a:after{content:'<a href=/no>'}</style><a href=/yes>", ["/yes"]),
    "in a text area": ("<textarea><a href=/no></textarea><a href=/yes>", ["/yes"]),
    "in a title": ("<title><a href=/no></title><a href=/yes>", ["/yes"]),
    "a tag in an attribute": ("<img alt='<a href=/no>'><a title='a > b' href=/yes>", ["/yes"]),
    "in noscript": ("<noscript><a href=/yes></noscript>", ["/yes"]),
    "in a template": ("<template><a href=/no></template><a href=/yes>", ["/yes"]),
    "between table and row": ("<table><a href=/1>x<tr><td><a href=/2>y</table>", ["/1", "/2"]),
    "tags closed in the wrong order": ("<b><a href=/1><i>x</b></a></i><a href=/2>y", ["/1", "/2"]),
    "around a block": ("<a href=/1><div><p>x</div></a>", ["/1"]),
    "after the end": ("<html><body></body></html><a href=/late>", ["/late"]),
    "in the head": ("<head><a href=/1></head><a href=/2>", ["/1", "/2"]),
    "before anything": ("text<a href=/1><html><head><title>t</title>", ["/1"]),
    "a base after the links": ("<a href=x><base href=/other/><base href=/ignored/>", ["/other/x"]),
    "a base in the body": ("<body><p><base href='http://b.test/q/'></p><a href=x>", ["http://b.test/q/x"]),
    "a base nobody could use": ("<base href='data:,x'><a href=x>", ["/dir/x"]),
    "a base with a target only": ("<base target=_top><a href=x>", ["/dir/x"]),
    "the document ends in a tag": ("<a href=/1>x</a><a href=/2", ["/1"]),
    "the document ends in an attribute": ("<a href=/1>x</a><a href='/2", ["/1"]),
    "an attribute that is never closed": ("<a href='/1>x</a> <a href='/2'>y</a>", ["/1%3Ex%3C/a%3E%20%3Ca%20href="]),
    "other schemes": ("<a href=javascript:x()><a href=mailto:a@b><a href='tel:1'><a href=ftp://x/>", []),
    "the page itself": ("<a href='#top'><a href=''><a href='page.html#x'><a href='?q'>", ["/dir/page.html?q"]),
    "backslashes": (r"<a href='\x\y'><a href='\\b.test\z'>", ["/x/y", "http://b.test/z"]),
    "no scheme": ("<a href=//b.test/x>", ["http://b.test/x"]),
    "the same twice": ("<a href=/x>a</a><a href=/x#y>b</a>", ["/x"]),
    "in svg": ("<svg><a xlink:href=/x><text>t</text></a></svg>", ["/x"]),
    "a broken host": ("<a href='http://[::1'><a href='http://a b/'><a href=/fine>", ["/fine"]),
    "plaintext": ("<a href=/1><plaintext><a href=/2>", ["/1"]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_links_of_broken_html_are_those_a_browser_sees(what: str) -> None:
    markup, expected = BROKEN[what]
    assert urls_of(markup) == expected


def test_frames_are_ways() -> None:
    page = page_of("<frameset><frame src=/f><frame src=/g></frameset>")
    assert kinds_of(page) == {"/f": LinkKind.FRAME, "/g": LinkKind.FRAME}
    assert kinds_of(page_of("<iframe src=/i></iframe>")) == {"/i": LinkKind.FRAME}


def test_link_elements_are_taken_by_their_relation() -> None:
    page = page_of("""
        <link rel=canonical href=/c><link rel="alternate" type="application/rss+xml" href=/feed title="News">
        <link rel=next href=/n><link rel=PREV href=/p><link rel=alternate hreflang=pt href=/pt>
        <link rel=sitemap href=/s>
        <link rel=stylesheet href=/css><link rel=icon href=/ico><link rel=preconnect href=//b.test>
    """)
    assert kinds_of(page) == {
        "/n": LinkKind.ANCHOR,
        "/p": LinkKind.ANCHOR,
        "/pt": LinkKind.ANCHOR,
        "/c": LinkKind.CANONICAL,
        "/feed": LinkKind.FEED,
        "/s": LinkKind.SITEMAP,
    }
    assert page.canonical == "http://a.test/c"


def test_refresh_is_a_way() -> None:
    assert kinds_of(page_of("<meta http-equiv=Refresh content='0;url=/r'>")) == {"/r": LinkKind.REFRESH}
    assert page_of("<meta http-equiv=refresh content=5>").links == ()


def test_headers_name_links_too() -> None:
    page = page_of(
        "x",
        headers=b'Link: </n>; rel=next, </c>; rel="canonical"\r\nLink: <x.css>; rel=preload\r\nRefresh: 1; url=/r\r\n',
    )
    assert kinds_of(page) == {"/n": LinkKind.HEADER, "/c": LinkKind.CANONICAL, "/r": LinkKind.REFRESH}
    assert page.canonical == "http://a.test/c"


def test_a_redirect_names_where_it_leads() -> None:
    head = b"HTTP/1.1 301 Moved\r\nLocation: ../new\r\n\r\n"
    assert parse_document(URL, head, b"").page.links == (Link("http://a.test/new", LinkKind.REDIRECT),)


def test_anchor_text_is_what_a_reader_sees() -> None:
    page = page_of(
        "<a href=/1>  two\n <b>words</b></a><a href=/2><img alt=' A  picture '></a><a href=/3></a><a href=/3>later</a>"
    )
    assert [link.text for link in page.links] == ["two words", "A picture", "later"]
    assert len(page_of(f"<a href=/1>{'long ' * 1_000}</a>").links[0].text) == 200


def test_unendorsed_links_say_so_unless_endorsed_elsewhere() -> None:
    page = page_of(
        "<a rel='x NoFollow' href=/1><a rel=ugc href=/2><a rel=sponsored href=/3><a href=/4 rel=nofollower><a href=/2>"
    )
    assert [link.nofollow for link in page.links] == [True, False, True, False]


def test_links_are_bounded_and_the_cut_is_reported() -> None:
    options = ParseOptions(LimitSettings(links_per_page=10))
    page = page_of("".join(f"<a href=/{n}>" for n in range(11)), options=options)
    assert (len(page.links), page.truncated) == (10, "links")
    assert page_of("".join(f"<a href=/{n}>" for n in range(10)), options=options).truncated == ""


def test_overlong_urls_are_left_out() -> None:
    assert urls_of(f"<a href=/{'x' * 3_000}><a href=/ok><a href='data:text/html,{'y' * 100_000}'>") == ["/ok"]


REQUISITES = """
    <html><head><link rel=stylesheet href=/1.css><link rel="shortcut icon" href=/2.ico>
    <link rel=preload as=font href=/3.woff><style>@import "/4.css"; p { background: url(/5.png) }</style>
    <script src=/6.js></script></head><body background=/7.gif>
    <img src=/8.png srcset="/9.png 2x, /10.png 3x"><picture><source srcset="/11.webp 1x"></picture>
    <video src=/12.mp4 poster=/13.jpg><source src=/14.webm><track src=/15.vtt></video><audio src=/16.mp3></audio>
    <embed src=/17.swf><object data=/18.pdf></object><input type=image src=/19.png>
    <p style="background: url('/20.png')">x</p><svg><image href=/21.png /><use href="#x"/></svg><a href=/page>y</a>
"""


def test_requisites_are_found_when_requested() -> None:
    page = page_of(REQUISITES, options=ParseOptions(want_requisites=True))
    found = kinds_of(page)
    assert found.pop("/page") is LinkKind.ANCHOR
    assert {int(url.strip("/").partition(".")[0]) for url in found} == set(range(1, 22))
    assert all(kind.is_requisite for kind in found.values())
    assert found["/1.css"] is found["/4.css"] is LinkKind.STYLE
    assert found["/6.js"] is LinkKind.SCRIPT
    assert found["/14.webm"] is found["/3.woff"] is LinkKind.MEDIA


def test_requisites_are_not_found_otherwise() -> None:
    assert urls_of(REQUISITES) == ["/page"]


def test_requisites_cannot_crowd_out_ways() -> None:
    options = ParseOptions(LimitSettings(links_per_page=5), want_requisites=True)
    page = page_of("".join(f"<img src=/i{n}>" for n in range(50)) + "<a href=/way>", options=options)
    assert "/way" in kinds_of(page)
    assert page.truncated == "links"


def test_a_style_sheet_has_requisites_relative_to_itself() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n"
    options = ParseOptions(want_requisites=True)
    page = parse_document("http://a.test/css/x.css", head, b"@import 'y.css'; a{b:url(../z.png)}", options).page
    assert kinds_of(page) == {"/css/y.css": LinkKind.STYLE, "/z.png": LinkKind.IMAGE}
