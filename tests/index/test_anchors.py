"""Texts of links, kept with the page they lead to."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.index.anchors import AT_ONCE, MAX_TEXTS, MAX_TEXTS_PER_HOST, NO_WORDS, AnchorTexts


@pytest.fixture
def anchors(tmp_path: Path) -> Iterator[AnchorTexts]:
    store = AnchorTexts(tmp_path / "index" / "anchors.sqlite")
    yield store
    store.close()


def test_a_text_counts_once_for_each_linking_host(anchors: AnchorTexts) -> None:
    for _ in range(3):
        anchors.add("a.test", [(1, "the page"), (1, "the page"), (2, "")])
    anchors.add("b.test", [(1, "the page")])
    assert anchors.texts_of([1])[1] == ["the page", "the page"]
    assert anchors.texts_of([2])[2] == []


def test_few_texts_of_a_host_and_of_a_page_are_kept(anchors: AnchorTexts) -> None:
    anchors.add("a.test", [(1, f"text {n}") for n in range(10)])
    assert len(anchors.texts_of([1])[1]) == MAX_TEXTS_PER_HOST
    for host in range(100):
        anchors.add(f"{host}.test", [(1, "a"), (1, "b")])
    assert len(anchors.texts_of([1])[1]) == MAX_TEXTS


def test_a_page_is_due_when_its_texts_have_doubled(anchors: AnchorTexts) -> None:
    due = []
    for host in range(40):
        anchors.add(f"{host}.test", [(1, "x")])
        if anchors.due_pages(10):
            due.append(len(anchors.texts_of([1])[1]))
            anchors.mark_indexed({1: 77})
    assert due == [1, 2, 4, 8, 16, 32]
    assert anchors.due_pages(10) == {}
    assert anchors.due_pages(10, everything=True) == {1: 77}, "with the number of the words it was indexed with"


def test_what_is_due_survives_a_restart(tmp_path: Path) -> None:
    first = AnchorTexts(tmp_path / "anchors.sqlite")
    first.add("a.test", [(5, "x")])
    first.close()
    second = AnchorTexts(tmp_path / "anchors.sqlite")
    assert second.due_pages(10) == {5: NO_WORDS}
    second.close()


def test_links_that_repeat_those_of_other_pages_are_not_looked_up_again(tmp_path: Path) -> None:
    """Seen: a menu of 150 links cost 150 look-ups on every page of its site."""
    anchors = AnchorTexts(tmp_path / "anchors.sqlite")
    statements: list[str] = []
    menu = [(target, f"page {target}") for target in range(50)]
    anchors.add("a.test", menu)
    anchors.add("a.test", [(1, "b"), (1, "c"), (1, "d")])
    anchors._db.set_trace_callback(statements.append)
    anchors.add("a.test", menu)
    anchors.add("a.test", [(1, "e")])
    assert statements == []
    anchors.add("b.test", menu)
    assert len(anchors.texts_of([2])[2]) == 2
    assert statements
    anchors.close()


def test_texts_that_are_no_longer_in_memory_are_looked_up(
    anchors: AnchorTexts,
) -> None:
    anchors.memory_bytes = 2_000
    for _ in range(2):
        for target in range(10):
            anchors.add("a.test", [(target, "x"), (target, f"page {target}")])
    assert list(anchors.texts_of((0, 9)).values()) == [["page 0", "x"], ["page 9", "x"]]


@pytest.mark.parametrize("targets_of_host", [1, 100])
def test_texts_in_memory_are_limited_in_bytes(anchors: AnchorTexts, targets_of_host: int) -> None:
    """Seen: their number was limited, and long ones took 244 MB in each cell."""
    anchors.memory_bytes = 100_000
    most, host = 0, 0
    tracemalloc.start()
    try:
        for host in range(400 // targets_of_host):
            targets = range(host * targets_of_host, (host + 1) * targets_of_host)
            # Made here, as the texts of a page are: nothing else holds them.
            anchors.add(f"{host}.test", ((each, chr(937) * 180 + f" {each} {n}") for each in targets for n in range(2)))
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert 20_000 < most < 110_000
    assert len(anchors.texts_of([399])[399]) == 2


def test_the_links_of_a_page_take_a_few_statements_together(anchors: AnchorTexts) -> None:
    """One by one they were four for each target, and took longer than the rows."""
    statements: list[str] = []
    anchors._db.set_trace_callback(statements.append)
    links = [(target, f"page {target}") for target in range(-20, AT_ONCE)]
    anchors.add("a.test", links)
    reads = [each for each in statements if each.startswith("SELECT")]
    assert len(reads) == 4, "two for each part of at most AT_ONCE targets"
    assert anchors.texts_of(range(-20, AT_ONCE)) == {target: [text] for target, text in links}
