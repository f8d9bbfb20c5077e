from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.parse.html.references import (
    MetaRefresh,
    StyleUse,
    css_references,
    parse_link_header,
    parse_refresh,
    parse_srcset,
)
from tests.timing import within


def test_refresh_to_another_page() -> None:
    assert parse_refresh("0; URL='a b'") == MetaRefresh(0, "a b")
    assert parse_refresh("99999999999999999999; url=x") == MetaRefresh(999_999_999, "x")


def test_link_header_with_several_links() -> None:
    value = '</a>; rel="next canonical"; title="x, y; z", <b>;REL=prev;type=text/html , <c d>'
    found = [(link.reference, sorted(link.relations)) for link in parse_link_header(value)]
    assert found == [("/a", ["canonical", "next"]), ("b", ["prev"]), ("c d", [])]


def test_style_sheets_name_sheets_images_and_fonts() -> None:
    css = r"""
        @import "a.css"; @IMPORT url(b.css) screen; @import 'c.css';
        /* url(comment.png) */
        p { background: url( "d e.png" ) , URL('f.png'), url(g\)h.png); mask: url(#local); cursor: url() }
        @font-face { src: url(i.woff2?v=1) }
    """
    assert list(css_references(css)) == [
        ("a.css", StyleUse.SHEET),
        ("b.css", StyleUse.SHEET),
        ("c.css", StyleUse.SHEET),
        ("d e.png", StyleUse.IMAGE),
        ("f.png", StyleUse.IMAGE),
        ("g)h.png", StyleUse.IMAGE),
        ("i.woff2?v=1", StyleUse.FONT),
    ]


def test_srcset_keeps_every_valid_candidate() -> None:
    assert [each.reference for each in parse_srcset("a 1x, b 2x, c 3q, d 100w, data:,e 2x")] == [
        "a",
        "b",
        "d",
        "data:,e",
    ]


@pytest.mark.parametrize(
    "text",
    ["url(" * 500_000, "@import " * 300_000, "/*" * 500_000, '"' * 1_000_000, "<a>;x=" * 200_000, '<a>;x="' * 200_000],
)
def test_hostile_values_take_linear_time(text: str) -> None:
    def read() -> None:
        list(css_references(text))
        list(parse_link_header(text))
        parse_srcset(text)
        parse_refresh(text)

    within(5, read)


@given(st.text(max_size=100))
def test_any_text_can_be_read(text: str) -> None:
    refresh = parse_refresh(text)
    assert refresh is None or refresh.seconds >= 0
    assert all(candidate.reference for candidate in parse_srcset(text))
    assert all(link.reference in text for link in parse_link_header(text))
    assert len(list(css_references(text))) <= len(text)
