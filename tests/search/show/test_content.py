"""A page's content, told from its navigation; titles."""

from __future__ import annotations

import msgspec
import pytest

from teia.index.entry import Anchor, IndexEntry
from teia.index.repeated import number_of_line, number_of_title
from teia.search.show.content import LineKind, PageLines, distinct_parts, shown_title
from tests.index.pages import page

URL = "http://a.test/"


def linking(text: str, *links: str) -> IndexEntry:
    anchors = tuple(Anchor(number, "a.test", words) for number, words in enumerate(links))
    return msgspec.structs.replace(page(URL, text), links=anchors)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("The event loop runs tasks.", LineKind.CONTENT),
        ("Event loop", LineKind.LIST),
        ("next |", LineKind.LIST),
        ("18.5.1. Event loop", LineKind.LIST),
        ("Home » Library » Event loop", LineKind.LIST),
        ("Home » and more", LineKind.CONTENT),
        ("Accept all cookies", LineKind.REPEATED),
        ("| » ¶", LineKind.REPEATED),
        ("", LineKind.REPEATED),
    ],
)
def test_lines_are_told_apart(line: str, kind: LineKind) -> None:
    text = f"before\n{line}\nbehind"
    lines = PageLines(
        text, linking(text, "Home", "Library", "Event loop", "next"), frozenset({number_of_line("Accept all cookies")})
    )
    assert lines.kind(*lines.bounds(7)) is kind


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Index | Index", "Index"),
        ("Event Loop — Python 3.11.2 documentation", "Event Loop — Python 3.11.2 documentation"),
        ("git-add - git-add - Git", "git-add - Git"),
        ("News :: Site :: news", "News :: Site"),
        ("Well-known", "Well-known"),
        ("1. Introduction¶", "1. Introduction"),
        ("", URL),
    ],
)
def test_a_title_has_each_part_once(title: str, shown: str) -> None:
    assert shown_title(page(URL, "text", title), frozenset()) == shown


def test_a_title_of_the_whole_site_is_shown_behind_the_heading_of_the_page() -> None:
    entry = page(URL, "text", "The Manual", headings=("Menu", "Locks¶"))
    repeated = frozenset({number_of_title("The Manual"), number_of_line("Menu")})
    assert shown_title(entry, repeated) == "Locks – The Manual"
    assert shown_title(entry, frozenset()) == "The Manual"
    assert shown_title(page(URL, "text", "", headings=("Locks",)), frozenset()) == "Locks"


def test_distinct_parts_of_any_title_keep_the_first() -> None:
    assert distinct_parts("A | B | a | C") == "A | B | C"


def test_short_lines_in_a_row_are_a_list_and_a_heading_is_not() -> None:
    text = (
        "reader()\nwriter()\ndialect()\nfield_size()\nReading\nA reader is an object that returns the rows of a file."
    )
    lines = PageLines(text, page(URL, text), frozenset())
    kinds = {line: lines.kind(*lines.bounds(text.index(line))) for line in text.split("\n")}
    assert kinds["dialect()"] is LineKind.LIST
    assert kinds["A reader is an object that returns the rows of a file."] is LineKind.CONTENT
    heading = "It ends here.\nReading\nA reader is an object that returns the rows of a file."
    assert PageLines(heading, page(URL, heading), frozenset()).kind(14, 21) is LineKind.CONTENT
