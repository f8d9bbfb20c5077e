"""Snippets: the best window, safely marked, whatever the page is made of."""

from __future__ import annotations

import re
import unicodedata
from html import unescape
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teia.index.entry import Anchor
from teia.index.repeated import number_of_line
from teia.search.show.content import PageLines
from teia.search.show.snippets import SNIPPET_CHARS, Highlighter, Snippet, cut_at, folded_octets, make_snippet, window
from tests.index.pages import page

URL = "http://a.test/"
FILLER = "Nothing of interest is said in this sentence. "


def snippet(text: str, *words: str, description: str = "", phrases: tuple[tuple[str, ...], ...] = ()) -> Snippet:
    return Highlighter(dict.fromkeys(words, 1.0), phrases).snippet(page(URL, text, description=description))


def marked(snippet: Snippet) -> list[str]:
    return [text for text, is_marked in snippet.parts if is_marked]


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("The libraries are open", "library", ["libraries"]),
        ("Informações públicas", "informacao", ["Informações"]),
        ("IMPÔSTO de renda", "imposto", ["IMPÔSTO"]),
        ("Olá, mundo", "mundo", ["mundo"]),
        ("a rede, as redes e o redemoinho", "rede", ["rede", "redes"]),
        ("Привет мир", "привет", ["Привет"]),
        ("Šafařík wrote", "safarik", ["Šafařík"]),
        ("nothing here", "absent", []),
        ("“quoted” – and dashed", "quoted", ["quoted"]),
    ],
)
def test_a_word_is_marked_in_all_its_forms(text: str, word: str, expected: list[str]) -> None:
    assert marked(snippet(text, word)) == expected


def test_the_window_is_where_the_words_are_together() -> None:
    text = FILLER * 20 + "A red apple. " + FILLER * 20 + "A green apple and a pear lie on the table. " + FILLER * 20
    shown_text = snippet(text, "apple", "pear", "green").plain()
    assert "A green apple and a pear" in shown_text
    assert shown_text.startswith("… ")
    assert shown_text.endswith(" …")
    assert len(shown_text) <= SNIPPET_CHARS + 4


def test_a_rare_word_decides_where_the_window_is() -> None:
    text = "The common word. " + FILLER * 20 + "The rarest thing. " + FILLER * 20
    highlighter = Highlighter({"common": 1.0, "rarest": 5.0})
    assert "rarest" in highlighter.snippet(page(URL, text)).plain()


def test_a_phrase_is_marked_as_a_whole_and_its_stop_words_only_there() -> None:
    text = "Os sistemas são de todos. " + FILLER * 10 + "Os sistemas de busca são de todos."
    found = snippet(text, "sistemas", "de", "busca", phrases=(("sistemas", "de", "busca"),))
    assert "sistemas de busca" in marked(found)
    assert "de" not in marked(found)


def test_stop_words_are_marked_where_there_is_nothing_else() -> None:
    assert marked(snippet("ser ou não ser", "ou")) == ["ou"]


def test_without_a_word_in_the_text_the_description_is_shown_and_else_the_beginning() -> None:
    assert snippet("Some text.", "absent", description="What the page says of itself.").plain() == (
        "What the page says of itself."
    )
    assert snippet(FILLER * 30, "absent").plain().startswith("Nothing of interest")
    assert marked(snippet("Some text.", "word", description="A word.")) == ["word"]
    assert snippet("", "absent").plain() == ""


def test_only_the_beginning_of_a_long_page_is_looked_at() -> None:
    assert marked(snippet("x " * 40_000 + "needle", "needle")) == []


def test_markup_is_text() -> None:
    found = snippet('<script>alert("needle & more")</script>', "needle").html()
    assert found == "&lt;script&gt;alert(&quot;<mark>needle</mark> &amp; more&quot;)&lt;/script&gt;"


def test_controls_and_signs_that_turn_the_writing_are_taken_out() -> None:
    text = "a\x00b\x1b[31m needle\u202e turned\u2066 \x9b2J"
    assert snippet(text, "needle").plain() == "ab[31m needle turned 2J"


def test_blanks_of_all_kinds_are_one_blank() -> None:
    assert snippet("a\n\n needle\t\u00a0 b", "needle").plain() == "a needle b"


def test_a_title_is_marked_as_a_whole() -> None:
    highlighter = Highlighter({"imposto": 1.0})
    assert highlighter.whole("Prazos do imposto").html() == "Prazos do <mark>imposto</mark>"
    assert len(highlighter.whole("x" * 5_000).plain()) < 400


def test_an_accent_stays_with_its_letter_at_a_cut() -> None:
    text = "e\u0301" * 200
    for at in range(len(text)):
        place = cut_at(text, at)
        assert place <= at or place == len(text)
        assert not unicodedata.combining(text[place : place + 1] or "x")


def test_a_family_of_signs_is_not_cut_apart() -> None:
    family = "👨\u200d👩\u200d👧" * 100
    for at in range(60, 120):
        place = cut_at(family, at)
        assert family[place] != "\u200d"
        assert family[place - 1] != "\u200d"


def test_folding_keeps_every_place() -> None:
    text = "Ação “straße” 𝒳 日本 Łódź İ"
    assert len(folded_octets(text)) == 1 + len(text)
    assert folded_octets("Ação, Łódź!") == b" acao  lodz "


AWKWARD = [
    "needle", "Needles", "nêedle", "<b>", "&amp;", "&", '"', "\u0301", "\u200d", "\ud7ff", "\u202e", "\x00", "\n", " ",
    "x" * 50, "日本語", "👨‍👩‍👧", "İ", "ß", "e\u0301", "the",
]  # fmt: skip
pieces = st.lists(
    st.sampled_from(AWKWARD),
    max_size=120,
).map("".join)


@given(st.one_of(st.text(), pieces), st.one_of(st.text(max_size=12), st.just("needle")))
@example("needle" + "\u0301" * 300, "needle")
def test_whatever_the_page_holds_the_snippet_is_safe_and_whole(text: str, word: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    highlighter = Highlighter({word: 1.0, "needle": 2.0}, [(word, "needle")])
    found = highlighter.snippet(page(URL, text))
    html = found.html()
    assert html.count("<mark>") == html.count("</mark>") == len(marked(found))
    bare = re.sub(r"</?mark>", "", html)
    assert "<" not in bare
    assert ">" not in bare
    assert not re.search(r"&(?!amp;|lt;|gt;|quot;|#x27;)", bare)
    assert unescape(bare) == found.plain()
    assert all(each == " " or not each.isspace() for each in found.plain())
    assert not any(unicodedata.category(each) == "Cc" for each in found.plain())
    assert len(found.plain()) <= SNIPPET_CHARS + 8


@given(pieces)
def test_marks_are_in_order_and_do_not_overlap(text: str) -> None:
    highlighter = Highlighter({"needle": 1.0, "the": 0.5})
    marks = highlighter.marks(text)
    assert all(one[1] <= other[0] for one, other in pairwise(marks))
    start, end = window(text, marks)
    assert 0 <= start <= end <= len(text)
    if marks:
        assert any(is_marked for _, is_marked in make_snippet(text, marks, start, end).parts)


# ---- navigation -----------------------------------------------------------------------------------------------------

CHAPTER = "A second chapter of this book describes how a packet reaches its rules."
PROSE = "The firewall drops every packet that no rule allows, and writes it to the log."


def without_navigation(text: str, *words: str, links: tuple[str, ...] = (), repeated: tuple[str, ...] = ()) -> str:
    anchors = tuple(Anchor(number, "a.test", each) for number, each in enumerate(links))
    entry = msgspec.structs.replace(page(URL, text), links=anchors)
    lines = frozenset(map(number_of_line, repeated))
    return Highlighter(dict.fromkeys(words, 1.0)).snippet(entry, lines).plain()


def test_lines_that_the_site_repeats_are_left_out() -> None:
    text = f"Firewall shop\nAccept cookies\n{PROSE}\nFirewall newsletter\n{CHAPTER}"
    shown = without_navigation(text, "firewall", repeated=("Firewall shop", "Accept cookies", "Firewall newsletter"))
    assert shown == f"{PROSE} {CHAPTER}"


def test_links_are_left_out_before_and_behind_what_is_found() -> None:
    text = f"Firewall | Router\nFirewall\n{PROSE}\nNext: Firewall tools\nPrevious\n"
    links = ("Firewall", "Router", "Next: Firewall tools", "Previous")
    assert without_navigation(text, "firewall", links=links).strip("… ") == PROSE


def test_a_page_of_links_alone_shows_them_and_not_what_the_site_repeats() -> None:
    text = "Skip to content\nFirewall rules\nFirewall tools"
    links = ("Skip to content", "Firewall rules", "Firewall tools")
    shown = without_navigation(text, "firewall", links=links, repeated=("Skip to content",))
    assert shown.strip("… ") == "Firewall rules Firewall tools"


def test_a_page_that_has_the_words_in_links_alone_shows_what_it_says() -> None:
    text = f"Firewall rules\nFirewall tools\n{PROSE.replace('firewall', 'wall')}"
    shown = without_navigation(text, "firewall", links=("Firewall rules", "Firewall tools"))
    assert shown == f"… {PROSE.replace('firewall', 'wall')}"


def test_a_sentence_is_shown_before_a_heading() -> None:
    text = f"Firewall\n{FILLER * 10}\n{PROSE}"
    assert "drops every packet" in without_navigation(text, "firewall")


def test_a_short_sentence_behind_the_last_long_one_is_shown_if_it_was_found() -> None:
    """Seen: a page was found by the line that had been added to it, and the result showed the rest alone."""
    text = "We roast the beans of our small farm every Monday, here in the shop.\nNew: cold brew in summer."
    assert snippet(text, "cold", "brew").plain() == "… New: cold brew in summer."
    assert snippet(text.removesuffix("."), "cold", "brew").plain().startswith("We roast"), "it may be a menu"


def test_without_a_word_of_the_query_the_first_sentence_is_shown() -> None:
    text = f"Home\nContents\nShort\n{PROSE}"
    assert without_navigation(text, "absent", links=("Home", "Contents")) == f"… {PROSE}"


def test_the_sign_behind_headings_is_left_out() -> None:
    assert without_navigation("Firewall¶\nIt drops packets.\nRules¶\nThey are many.", "firewall") == (
        "Firewall It drops packets. Rules They are many."
    )


def test_a_page_of_ten_thousand_short_lines_is_not_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    bounds = PageLines.bounds

    def counting(lines: PageLines, place: int) -> tuple[int, int]:
        nonlocal calls
        calls += 1
        return bounds(lines, place)

    monkeypatch.setattr(PageLines, "bounds", counting)
    names = [f"n{number}" for number in range(10_000)]
    names[5_000] = "harbour"
    shown = Highlighter({"harbour": 1.0}).snippet(page("http://a.test/", "\n".join(names)))
    assert ("harbour", True) in shown.parts
    assert calls < 500
