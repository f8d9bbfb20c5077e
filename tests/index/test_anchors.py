"""Texts of links, kept with the page they lead to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.index.anchors import MAX_TEXTS, MAX_TEXTS_PER_HOST, AnchorTexts


@pytest.fixture
def anchors(tmp_path: Path) -> Iterator[AnchorTexts]:
    store = AnchorTexts(tmp_path / "index" / "anchors.sqlite")
    yield store
    store.close()


def test_a_text_counts_once_for_each_linking_host(anchors: AnchorTexts) -> None:
    for _ in range(3):
        anchors.add("a.test", [(1, "the page"), (1, "the page"), (2, "")])
    anchors.add("b.test", [(1, "the page")])
    assert anchors.texts_of(1) == ["the page", "the page"]
    assert anchors.texts_of(2) == []


def test_few_texts_of_a_host_and_of_a_page_are_kept(anchors: AnchorTexts) -> None:
    anchors.add("a.test", [(1, f"text {n}") for n in range(10)])
    assert len(anchors.texts_of(1)) == MAX_TEXTS_PER_HOST
    for host in range(100):
        anchors.add(f"{host}.test", [(1, "a"), (1, "b")])
    assert len(anchors.texts_of(1)) == MAX_TEXTS


def test_a_page_is_due_when_its_texts_have_doubled(anchors: AnchorTexts) -> None:
    due = []
    for host in range(40):
        anchors.add(f"{host}.test", [(1, "x")])
        if anchors.due_pages(10):
            due.append(len(anchors.texts_of(1)))
            anchors.mark_indexed([1])
    assert due == [1, 2, 4, 8, 16, 32]
    assert anchors.due_pages(10) == []
    assert anchors.due_pages(10, everything=True) == [1]


def test_what_is_due_survives_a_restart(tmp_path: Path) -> None:
    first = AnchorTexts(tmp_path / "anchors.sqlite")
    first.add("a.test", [(5, "x")])
    first.close()
    second = AnchorTexts(tmp_path / "anchors.sqlite")
    assert second.due_pages(10) == [5]
    second.close()
