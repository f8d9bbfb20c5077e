"""What a page costs the indexer, counted in calls of functions: the same on any machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from teia.index.entry import IndexEntry, PackedEntry, pack_entry
from teia.index.training_words import Bags
from teia.indexer.cell_indexer import CellIndexer
from teia.store.root import CellFolder
from tests.index.pages import page

WORDS = " ".join(f"word{number % 300} of the text" for number in range(1_000))
LINKS = [f"http://a.test/target{number}" for number in range(30)]
PAGES = 40
CALLS, CALLS_OF_A_COPY = 230, 165
"""Most calls for a page, and for one with the words of another: a quarter more than there are (183 and 129)."""


def count_calls(work: Callable[[], object]) -> int:
    """Return the number of functions that some work calls, those of Python and those of compiled modules."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def entries(first: int, text: str = WORDS) -> list[IndexEntry]:
    numbers = range(first, first + PAGES)
    return [
        page(f"http://a.test/{number}", f"{text} number{number}", f"Page {number}", links=LINKS) for number in numbers
    ]


def packed(pages: list[IndexEntry]) -> list[PackedEntry]:
    return [PackedEntry(each, pack_entry(each)) for each in pages]


def test_a_page_is_indexed_with_few_calls(tmp_path: Path) -> None:
    """A call for each word or for each line of a page would be many times as many."""
    with closing(CellIndexer(CellFolder(0, tmp_path), bags=Bags())) as cell:
        cell.put(packed(entries(0)))  # the first pages open files and fill tables
        waiting = packed(entries(PAGES))
        assert count_calls(lambda: cell.put(waiting)) <= CALLS * PAGES


def test_a_page_with_the_words_of_another_one_costs_less(tmp_path: Path) -> None:
    with closing(CellIndexer(CellFolder(0, tmp_path), bags=Bags())) as cell:
        first = entries(0)
        cell.put(packed(first))
        copies = [msgspec.structs.replace(each, url=f"{each.url}?copy", key=each.key ^ 1) for each in first]
        waiting = packed(copies)
        assert count_calls(lambda: cell.put(waiting)) <= CALLS_OF_A_COPY * PAGES
