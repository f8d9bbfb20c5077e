from __future__ import annotations

import pytest

from teia.parse.document import ParseOptions
from teia.parse.parse import parse_document
from teia.records import Page

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def page_of(markup: str | bytes, headers: bytes = b"", agent: str = "teia") -> Page:
    body = markup.encode() if isinstance(markup, str) else markup
    result = parse_document("http://a.test/", HEAD + headers + b"\r\n", body, ParseOptions(agent=agent))
    assert result.failed == ()
    return result.page


def test_a_page_is_taken_apart() -> None:
    page = page_of("""<!doctype html><html lang=pt-BR><head><meta charset=utf-8><title> Um  título &amp; mais </title>
        <meta name=description content="do que se trata"><meta name=author content="Alguém">
        <meta property="article:published_time" content="2024-02-03T04:05:06+01:00">
        <meta property="article:modified_time" content="2024-02-04"><meta property="og:type" content="article">
        <link rel=canonical href="/certo"></head>
        <body><h1>Primeiro</h1><p>Um parágrafo.</p><h2>Segundo</h2><script>invisible()</script><style>p{}</style>
        <ul><li>um</li><li>dois</li></ul><img alt="uma imagem"></body></html>""")
    assert page.title == "Um título & mais"
    assert page.headings == ("Primeiro", "Segundo")
    assert page.language == "pt"
    assert page.description == "do que se trata"
    assert page.author == "Alguém"
    assert page.canonical == "http://a.test/certo"
    assert page.published == "2024-02-03T03:05:06.000000Z"
    assert page.metadata["modified"] == "2024-02-04T00:00:00.000000Z"
    assert page.metadata["og:type"] == "article"
    assert (page.media_type, page.charset) == ("text/html", "utf-8")
    assert page.text.split() == ["Primeiro", "Um", "parágrafo.", "Segundo", "um", "dois", "uma", "imagem"]


def test_text_keeps_all_a_reader_sees_and_nothing_else() -> None:
    page = page_of("""<header>the head</header><nav>a menu</nav><main>the matter</main><aside>beside</aside>
        <footer>the foot</footer><form><input value=secret><button>Go</button></form><noscript>no script</noscript>
        <template>never</template><!-- comment --><p hidden>unseen</p>
        <table><tr><th>one</th><td>two</td><td>three</td></tr></table>in<b>side</b><img alt=four>five
        <details><summary>six</summary>seven</details>""")
    words = page.text.split()
    for seen in (
        "head",
        "menu",
        "matter",
        "beside",
        "foot",
        "script",
        "one",
        "two",
        "three",
        "inside",
        "four",
        "five",
        "six",
        "seven",
    ):
        assert seen in words
    for unseen in ("never", "comment", "secret"):
        assert unseen not in words


def test_blocks_are_on_lines_of_their_own() -> None:
    lines = [line.strip() for line in page_of("<div>one</div><div>two<br>three</div>").text.splitlines()]
    assert [line for line in lines if line] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("markup", "charset"),
    [
        ("<meta charset=iso-8859-1><p>São João".encode("latin-1"), "windows-1252"),
        ("<p>São João".encode("utf-16"), "utf-16le"),
        ("<meta charset=utf-16><p>São João".encode(), "utf-8"),
        ("\ufeff<meta charset=koi8-r><p>São João".encode(), "utf-8"),
    ],
)
def test_characters_come_out_right(markup: bytes, charset: str) -> None:
    page = page_of(markup)
    assert page.charset == charset
    assert page.text == "São João"


def test_a_wrong_charset_spoils_letters_but_not_the_page() -> None:
    page = page_of("<meta charset=utf-8><a href=/x>São</a> João".encode("latin-1"))
    assert "Jo\ufffdo" in page.text
    assert page.links[0].url == "http://a.test/x"


@pytest.mark.parametrize(
    ("markup", "headers", "noindex", "nofollow"),
    [
        ("<meta name=robots content='noindex'>", b"", True, False),
        ("<META NAME=Robots CONTENT='NOFOLLOW, noarchive'>", b"", False, True),
        ("<meta name=robots content=none>", b"", True, True),
        ("<meta name=robots content='index,follow'>", b"", False, False),
        ("<meta name=teia content=noindex><meta name=robots content=nofollow>", b"", True, True),
        ("<meta name=otherbot content=none>", b"", False, False),
        ("", b"X-Robots-Tag: noindex\r\n", True, False),
        ("", b"X-Robots-Tag: otherbot: none\r\nX-Robots-Tag: TEIA: nofollow\r\n", False, True),
        ("", b"X-Robots-Tag: unavailable_after: 25 Jun 2030 15:00:00 PST\r\n", False, False),
        ("", b"X-Robots-Tag: max-snippet: 20, noindex\r\n", True, False),
    ],
)
def test_robots_rules_of_a_page_are_read(markup: str, headers: bytes, noindex: bool, nofollow: bool) -> None:
    page = page_of(markup, headers)
    assert (page.noindex, page.nofollow) == (noindex, nofollow)


@pytest.mark.parametrize(
    ("markup", "headers", "reserved"),
    [
        ('<meta name="robots" content="NoArchive, nosnippet">', b"", "noarchive nosnippet"),
        ('<meta name="tdm-reservation" content="1">', b"X-Robots-Tag: noai\r\n", "noai tdm-reservation"),
        ("", b"TDM-Reservation: 1\r\n", "tdm-reservation"),
        ("", b"TDM-Reservation: 0\r\nX-Robots-Tag: otherbot: noarchive\r\n", None),
        ('<meta name="robots" content="index, follow">', b"", None),
    ],
)
def test_uses_that_a_page_reserves_are_recorded(markup: str, headers: bytes, reserved: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + headers + b"\r\n"
    page = parse_document("http://a.test/", head, f"<html><head>{markup}</head>x".encode()).page
    assert page.metadata.get("reserved") == reserved


def test_the_first_title_of_the_document_counts_and_pictures_have_none() -> None:
    assert page_of("<svg><title>picture</title></svg><title>page</title>").title == "page"
    assert page_of("<meta property=og:title content=shared>").title == "shared"


def test_floods_of_metadata_are_bounded() -> None:
    page = page_of("".join(f"<meta name=og:{n} content={'x' * 5_000}>" for n in range(1_000)) + "<h1>h</h1>" * 1_000)
    assert len(page.metadata) <= 64
    assert max(map(len, page.metadata.values())) <= 1_000
    assert len(page.headings) <= 100


def test_an_empty_page_is_a_page() -> None:
    page = page_of("")
    assert (page.title, page.text, page.links, page.simhash) == ("", "", (), 0)
    assert page.media_type == "text/html"
