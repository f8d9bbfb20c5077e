"""Any sequence of operations on a cell, against a simple model of it."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, PageRow, url_from
from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.urls import key_of
from tests.frontier.cells import (
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    given_up,
    image,
    items,
    next_urls,
    page,
    row,
    settle,
)


@dataclass(slots=True)
class Known:
    """A URL as the model knows it."""

    depth: int
    in_links: int
    sequence: int
    state: int = STATE_QUEUED
    due_s: float | None = None


class Model:
    """The cell's promise in twenty lines of Python, for one host."""

    def __init__(self) -> None:
        self.urls: dict[str, Known] = {}
        self.sequence = 0

    def add_links(self, batch: list[FoundUrl]) -> None:
        for link in batch:
            url = url_from(link.host, link.tail)
            known = self.urls.get(url)
            if known is None:
                self.sequence += 1
                self.urls[url] = Known(link.depth, link.in_links, self.sequence)
            else:
                known.depth, known.in_links = min(known.depth, link.depth), known.in_links + link.in_links

    def next_urls(self, now_s: float) -> list[str]:
        queued = [(url, known) for url, known in self.urls.items() if known.state == STATE_QUEUED]
        due = [(known.due_s, key_of(url), url) for url, known in queued if known.due_s and known.due_s <= now_s]
        new = [(known.depth, known.sequence, url) for url, known in queued if known.due_s is None]
        return [entry[2] for entry in (*sorted(due), *sorted(new))]


class Trial:
    """A cell and its model, driven by one seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.path = folder / "frontier.sqlite"
        self.cell, self.model, self.now_s = FrontierCell(self.path), Model(), NOW_S

    def step(self) -> None:
        self.cell.db.execute("PRAGMA synchronous = OFF")
        self.now_s += self.chance.randrange(20)
        self.chance.choice((self.add_links, self.add_links, self.settle, self.settle, self.fail, self.reopen))()

    def links(self) -> list[FoundUrl]:
        count = self.chance.randrange(1, 9)
        return [
            found(page(self.chance.randrange(25)), self.chance.randrange(6), self.chance.randrange(4))
            for _ in range(count)
        ]

    def add_links(self) -> None:
        batch = self.links()
        merged: dict[str, FoundUrl] = {}
        for link in batch:
            known = merged.setdefault(link.tail, replace(link, in_links=0))
            known.depth, known.in_links = min(known.depth, link.depth), known.in_links + link.in_links
        add_links(self.cell, *batch, now_s=self.now_s)
        self.model.add_links(list(merged.values()))

    def settle(self) -> None:
        waiting = items(self.cell, 5, now_s=self.now_s)
        if not waiting:
            return
        item = self.chance.choice(waiting)
        if self.chance.random() < 0.3:
            self.add_links()  # the URL may move up while it is under way
        state = self.chance.choice((STATE_DONE, STATE_FAILED, STATE_EXCLUDED, STATE_QUEUED, STATE_QUEUED))
        again_s = self.now_s + self.chance.randrange(1, 60)
        settle(self.cell, item, state, time_s=self.now_s, again_s=again_s, learnt=PageRow(200, b"d", b"t"))
        known = self.model.urls[item.url]
        known.state, known.due_s = state, again_s if state == STATE_QUEUED else None

    def fail(self) -> None:
        """A transaction that is given up half way."""
        before = image(self.cell)
        with given_up(self.cell):
            self.cell.add_links(self.links(), self.now_s)
        assert image(self.cell) == before

    def reopen(self) -> None:
        self.cell.close()
        self.cell = FrontierCell(self.path)

    def compare(self) -> None:
        assert_counters_are_true(self.cell)
        assert_queue_and_urls_agree(self.cell)
        assert next_urls(self.cell, now_s=self.now_s) == self.model.next_urls(self.now_s)
        for url, known in self.model.urls.items():
            stored = row(self.cell, url)
            assert (stored["depth"], stored["in_links"], stored["state"]) == (known.depth, known.in_links, known.state)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_cell_does_what_its_model_does(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), seed)
        for _ in range(30):
            trial.step()
            trial.compare()
        trial.cell.close()
