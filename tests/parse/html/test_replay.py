"""Archived pages made fit to be looked at: nothing in them runs, loads or leads away (RELIABILITY 37)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from teia.parse.document import Document, ParseOptions
from teia.parse.headers import parse_head
from teia.parse.html.replay import (
    HOLE,
    Reference,
    ReferenceUse,
    Replay,
    fill_references,
    find_unsafe_parts,
    replay,
    restyle,
)
from teia.parse.html.replay_style import clean_style, is_foreign

URL = "http://a.test/dir/page"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


PIECES = [
    "<svg>", "</svg>", "<math>", "<mtext>", "<mglyph>", "<style>", "</style>", "<table>", "<td>", "<select>",
    "<option>", "<title>", "</title>", "<noscript>", "</noscript>", "<textarea>", "</textarea>", "<p>", "</p>",
    "<form>", "<desc>",
    "</form>", "<img/src=/x>", "<a/href=/x>", "<b/title='<img/src=/y>'>", "<!--<img/src=/z>-->", "<frameset>", "x",
    "<![CDATA[<img/src=/x>]]>", "<style>u\\72l(/x)</style>", "<annotation-xml/encoding=text/html>", "<image/href=/x>",
    "&lt;img/src=/x&gt;", "<p/style=a:url(/x)>",
]  # fmt: skip


def cleaned(markup: str) -> Replay:
    return replay(Document(URL, parse_head(HEAD), markup.encode("utf-8", "replace"), ParseOptions()))


def shown(markup: str) -> str:
    """A page with its holes filled by the URLs that belong there."""
    made = cleaned(markup)
    return fill_references(made.markup, lambda number: f"[{made.references[number].url}]")


def test_links_are_resolved_and_numbered() -> None:
    made = cleaned('<a href="../x?a=1&amp;b=2">x</a><a href="/dir/../x?a=1&b=2">again</a><img src=p.gif>')
    assert set(made.references) == {
        Reference("http://a.test/x?a=1&b=2", ReferenceUse.LINK),
        Reference("http://a.test/dir/p.gif", ReferenceUse.PICTURE),
    }
    assert made.markup.count(HOLE) == 3
    assert '<base target="_top">' in made.markup


def test_a_base_of_the_page_counts_and_goes() -> None:
    text = shown('<head><base href="http://b.test/c/" target=x></head><body><a href="d">x</a>')
    assert 'href="[http://b.test/c/d]"' in text
    assert text.count("<base") == 1


@pytest.mark.parametrize(
    "markup",
    [
        "<script>x</script>", "<svg><script>x</script></svg>", '<iframe src="/x"></iframe>',
        '<object data="/x"></object>',
        '<meta http-equiv=refresh content="0;url=/x">', '<link rel=preload href="/x">', '<a href="javascript:x">x</a>',
        '<a href=" java&#10;script:x">x</a>', '<form action="/x"><button formaction="/y">x</button></form>',
        '<template><img src="/x"></template>', '<p onclick="x">x</p>', "<svg><set attributeName=href to=x /></svg>",
        '<video src="/x"><source src="/y"></video>', '<a ping="/x" download="y" href="mailto:x">x</a>',
        "<noembed><img src=/x></noembed>", "<xmp><img src=/x></xmp>", "<plaintext><img src=/x>",
        "<math href=/x>x</math>",
    ],
)  # fmt: skip
def test_what_could_act_is_gone(markup: str) -> None:
    made = cleaned(f"<body>{markup}<p>stays</p>")
    assert made.references == ()
    assert not re.search(r"script|/x|/y|on\w+=|action|refresh|mailto", made.markup)


def test_what_is_inside_of_what_goes_is_not_touched_again() -> None:
    text = shown(
        "<svg><foreignObject><iframe><p>in</p></iframe><object><b>x</b></object></foreignObject></svg><p>after"
    )
    assert "<p>after</p>" in text


def test_what_is_for_browsers_without_scripts_is_shown() -> None:
    """Whether it is markup depends on the browser: `</noscript>` in an attribute ends it in one and not in another."""
    text = shown("<noscript>one <p title='</noscript><img src=/x>'>two</p></noscript>three")
    assert "<noscript" not in text
    assert 'one <p title="&lt;/noscript&gt;&lt;img src=/x&gt;">two</p>three' in text


def test_elements_that_the_parser_repeats_are_written_each() -> None:
    """They share their attributes in memory: a tree that was changed here brought the process down."""
    text = shown("<p style='a:url(/x)'><a href=/x onclick=y>one<p style='a:url(/y)'>two<mtext>")
    assert text.count('<a href="[http://a.test/x]">') == 2


def test_words_that_look_like_styles_stay_words() -> None:
    made = cleaned("<img alt='see url(x) \\\\or @import' src=p.gif><style media=print>p{color:red}</style>")
    assert made.is_safe
    assert 'alt="see url(x) \\\\or @import"' in made.markup
    assert '<style media="print">' in made.markup


def test_drawings_stay_drawings() -> None:
    text = shown(
        "<svg viewBox='0 0 9 9'><style>.a{fill:red}&lt;b>&amp;#117;rl(/x)</style><path class=a d='M0 0'/></svg>"
    )
    assert '<path class="a" d="M0 0">' in text
    assert "&amp;#117;rl(/x)" in text, "what is text in a drawing's style stays text"


def test_fragments_stay_in_the_frame() -> None:
    assert '<a href="#end" target="_self">' in cleaned('<a href="#end" target=_top>x</a>').markup


def test_lazy_pictures_and_those_in_sizes_are_found() -> None:
    text = shown(
        '<img data-src="a.gif"><img srcset="b.gif 1x, c.gif 2x"><img src="data:image/gif;base64,x" data-src="d.gif">'
    )
    assert re.findall(r"\[http://a.test/dir/(\w)", text) == ["a", "b", "d"]
    assert "srcset" not in text


def test_a_page_without_end_is_cut() -> None:
    made = cleaned("<div>" * 100_000 + "<a href=x>deep</a>")
    assert made.is_safe
    assert "deep" in made.markup


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=25,
    )
)
def test_whatever_is_nested_how_nothing_foreign_comes_out(pieces: list[str]) -> None:
    made = cleaned("".join(pieces))
    if made.is_safe:
        assert list(find_unsafe_parts(HTMLTree.parse(made.markup))) == []


# ---- style sheets ---------------------------------------------------------------------------------------------------


def css(text: str) -> str:
    made = restyle(text, "http://a.test/css/x.css")
    return fill_references(made.markup, lambda number: f"[{made.references[number].url}]")


def test_references_of_a_style_sheet_are_made_ours() -> None:
    text = css("@import 'b.css'; a{background:URL( \"/p.gif\" ) no-repeat} i{mask:url(#m)} @import url(c.css) print;")
    assert text.count('@import url("[http://a.test/css/') == 2
    assert 'background:url("[http://a.test/p.gif]") no-repeat' in text
    assert 'url("#m")' in text


@pytest.mark.parametrize(
    "text",
    [
        "a{b:u\\72l(/x)}", "a{b:\\75 rl(/x)}", "a{b:\\000075rl(/x)}", "a{b:ur\\6\\63 (/x)}", "a{b:\\url(/x)}",
        "@\\69mport '/x';",
        "@import/**/'/x';", "a{b:image-set('/x' 1x)}", "a{b:-webkit-image-set('/x' 1x)}", "a{b:image\\2dset('/x' 1x)}",
        "a{b:src('/x')}", "a{b:url(/x", "a{b:url('/x", "a{b:url(\"/x\\\n\")}", "a{b:url(javascript:x)}",
        "@import src('/x');",
        "a{b:URL('/x\\'')}", "@namespace url(/x);", "a{b:u\\\\72l(/x)}", "\\\\75rl(/x)",
        "@import url(data:text/css,x);",
    ],
)  # fmt: skip
def test_no_way_of_naming_something_is_left(text: str) -> None:
    made = clean_style(text, lambda *_: "")
    plain = re.sub(r"\\0*([0-9a-fA-F]{1,6})\s?", lambda match: chr(int(match[1], 16) % 0x110000), made)
    assert not re.search(r"url\(|src\(|image-set\(|@import", plain.replace("\\", ""), re.IGNORECASE)


@given(st.text(alphabet="url(\\7526c'\"/*@import-sexl) \n;{}", max_size=60))
def test_what_comes_out_of_any_style_sheet_names_only_ours(text: str) -> None:
    assert not is_foreign(clean_style(text, lambda *_: f"{HOLE}1;"))
