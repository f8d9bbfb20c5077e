"""The texts of a page as the index takes them, and those that are remembered."""

from __future__ import annotations

import msgspec
import pytest

from teia.index import page_texts
from teia.index.entry import IndexEntry
from teia.index.page_texts import PageTexts, RecentTexts

from .pages import page

ONE = page("http://books.test/en/", "The books of the library", title="Books")


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[IndexEntry]:
    """Pages whose texts were analysed, in their order."""
    pages: list[IndexEntry] = []
    analyse = page_texts._analyse

    def note(entry: IndexEntry, number: int) -> PageTexts:
        pages.append(entry)
        return analyse(entry, number)

    monkeypatch.setattr(page_texts, "_analyse", note)
    return pages


def test_a_page_with_the_words_of_a_recent_one_is_not_analysed_again(analysed: list[IndexEntry]) -> None:
    recent = RecentTexts()
    copy = msgspec.structs.replace(ONE, url="http://books.test/de/", key=2, visited_s=9, links=())
    assert recent.of(ONE) is recent.of(copy)
    assert analysed == [ONE]


@pytest.mark.parametrize(
    "changed",
    [
        {"text": "The books of the librarian"},
        {"title": "Book"},
        {"headings": ("Books",)},
        {"language": "pt"},
        {"title": "", "headings": ("Books",)},
        {"text": "half a character: \ud800"},
    ],
)
def test_a_page_with_other_words_has_other_texts(changed: dict[str, object], analysed: list[IndexEntry]) -> None:
    recent = RecentTexts()
    other = msgspec.structs.replace(ONE, **changed)
    recent.of(ONE)
    assert recent.of(other) == RecentTexts().of(other)
    assert analysed == [ONE, other, other]


def test_texts_take_limited_memory_and_the_oldest_go_first(analysed: list[IndexEntry]) -> None:
    recent = RecentTexts(memory_bytes=12_000)
    pages = [msgspec.structs.replace(ONE, text=f"word{number} " * 100) for number in range(20)]
    for each in pages:
        recent.of(ONE)
        recent.of(each)
        assert recent._bytes == sum(map(page_texts._size, recent._texts.values())) <= 12_000
    assert analysed == [ONE, *pages], "what is used stays"
    recent.of(pages[-1])
    recent.of(pages[0])
    assert analysed == [ONE, *pages, pages[0]]
    huge = msgspec.structs.replace(ONE, text="many words " * 2_000)
    assert recent.of(huge) == RecentTexts().of(huge)
    assert recent._bytes == 0
