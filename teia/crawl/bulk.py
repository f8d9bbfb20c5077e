"""Deeds on many URLs at once, asked for by people and carried out by whoever writes the frontier (frontier/bulk.py).

A deed is a row of `control.sqlite` from when it is asked for until its number of URLs is written down there. A crawl
that runs takes it up with its commits, a little at a time; where none runs, whoever holds the folder does it
(`carry_out`). Each cell remembers how far it came, so it makes no difference who dies in between, or how often. Deeds
of a collection are done one after the other.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.crawl.cells import Cell
from teia.crawl.clustered import is_clustered
from teia.crawl.control import Control
from teia.errors import ClusterError, StoreError, UsageError
from teia.frontier.bulk import END, Chosen, Deed, as_values, carry_on, matching, progress
from teia.frontier.cell import FrontierCell
from teia.store.root import CollectionFolder, Root

WORK_S = 0.05
"""How long one commit of a running crawl may be held up."""

AT_REST_S = 0.2
"""How long the folder is held at a time where no crawl runs."""

EXAMPLES = 10
MAX_WAITING = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """A deed that somebody asked for. `number` of URLs so far; `done_s` is None until it is all done."""

    id: int
    mark: str
    chosen: Chosen
    who: str
    asked_s: float
    number: int
    done_s: float | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many URLs a deed would be for, and some of them."""

    number: int
    examples: tuple[str, ...]


def count(cells: Sequence[FrontierCell], chosen: Chosen, now_s: float) -> Counted:
    """Count what is meant, without changing anything; a walk over all URLs, unless a host is named."""
    number, examples = 0, list[str]()
    for cell in cells:
        for url in matching(cell, chosen, now_s):
            number += 1
            if len(examples) < EXAMPLES:
                examples.append(url)
    return Counted(number, tuple(examples))


def ask(control: Control, collection: str, chosen: Chosen, who: str, now_s: float) -> int:
    """Write a deed down; it is done as soon as somebody can, whatever dies meanwhile."""
    if is_clustered(CollectionFolder(collection, control.path.parent / collection)):
        raise ClusterError(
            f"{collection!r} is crawled by a cluster, where URLs cannot be chosen by hand; `teia block` leaves some out"
        )
    if len(control.deeds(collection)) >= MAX_WAITING:
        raise UsageError(f"{MAX_WAITING} deeds on {collection} wait already; let them be done first")
    text = json.dumps({"deed": chosen.deed, **as_values(chosen)})
    return control.ask_deed(collection, secrets.token_hex(8), text, who, now_s)


def waiting(control: Control, collection: str) -> list[Asked]:
    """The deeds that are not done, in the order they were asked for."""
    return [_asked(row) for row in control.deeds(collection)]


def latest(control: Control, collection: str, limit: int) -> list[Asked]:
    """The last deeds, newest first."""
    return [_asked(row) for row in control.last_deeds(collection, limit)]


def _asked(row: Sequence[Any]) -> Asked:
    number, mark, text, *rest = row
    values = json.loads(text)
    return Asked(number, mark, Chosen(**{**values, "deed": Deed(values["deed"])}), *rest)


# ---- a crawl that runs ----------------------------------------------------------------------------------------------


class BulkWork:
    """What a running crawl was asked to do: put in by the loop, done by the commit thread."""

    def __init__(self, cells: Sequence[Cell], clock: Clock) -> None:
        self._cells, self._clock = cells, clock
        self._waiting: deque[Asked] = deque()
        self._done: deque[tuple[int, int]] = deque()
        self._known: set[int] = set()
        self._unwritten: set[int] = set()
        """Deeds that are done and not written down as such: the next one would overwrite how far they came."""
        self.changed: deque[str] = deque()
        """Hosts whose queues on disk are not what they were when their buffers were filled."""

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) and not self._unwritten

    def take(self, asked: Sequence[Asked]) -> list[tuple[int, int]]:
        """Take deeds, each once; returns (number of the deed, URLs) of those that are done by now."""
        for each in asked:
            if each.id not in self._known:
                self._known.add(each.id)
                self._waiting.append(each)
        return [self._done.popleft() for _ in range(len(self._done))]

    def forget(self, number: int) -> None:
        """Stop remembering a deed that is written down as done."""
        self._known.discard(number)
        self._unwritten.discard(number)

    def work(self) -> list[tuple[Cell, list[tuple[int, str]]]]:
        """Go on with the first deed, for a moment; returns hosts whose queues changed. In the commit thread."""
        if not self.is_waiting:
            return []
        asked, until = self._waiting[0], self._clock.ticks_s() + WORK_S
        touched = []
        for cell in self._cells:
            if progress(cell.frontier, asked.mark)[0] != END:
                with cell.frontier.transaction() as frontier:
                    hosts = carry_on(
                        frontier, asked.chosen, asked.mark, self._clock.now_s(), lambda: self._clock.ticks_s() < until
                    )
                touched.append((cell, hosts))
                self.changed.extend(host for _, host in hosts)
                if self._clock.ticks_s() >= until:
                    break
        found = [progress(cell.frontier, asked.mark) for cell in self._cells]
        if all(place == END for place, _ in found):
            self._waiting.popleft()
            self._unwritten.add(asked.id)
            self._done.append((asked.id, sum(number for _, number in found)))
        return touched


# ---- nobody crawls --------------------------------------------------------------------------------------------------


def carry_out(root: Root, collection: str, clock: Clock) -> bool:
    """Go on with the deeds on a collection that nobody crawls, for a second at most; returns whether all are done.

    Whoever calls it holds the folder (`Root.locked`).
    """
    control = Control(root.path / "control.sqlite")
    with closing(control), _opened(root, collection) as cells:
        until = clock.ticks_s() + AT_REST_S
        for asked in waiting(control, collection):
            for cell in cells:
                while progress(cell, asked.mark)[0] != END:
                    with cell.transaction():
                        carry_on(cell, asked.chosen, asked.mark, clock.now_s(), lambda: False)
                    if clock.ticks_s() >= until:
                        control.note_deed(asked.id, _so_far(cells, asked))
                        return False
            control.deed_done(asked.id, _so_far(cells, asked), clock.now_s())
    return True


def _so_far(cells: Sequence[FrontierCell], asked: Asked) -> int:
    return sum(progress(cell, asked.mark)[1] for cell in cells)


@contextmanager
def _opened(root: Root, collection: str) -> Iterator[list[FrontierCell]]:
    """The cells of a collection, for writing; only what is there already."""
    cells: list[FrontierCell] = []
    try:
        folders = root.collection(collection).cells()
        cells += [FrontierCell(folder.frontier) for folder in folders if folder.frontier.exists()]
        yield cells
    finally:
        for cell in cells:
            cell.close()


def try_to_carry_out(root: Root, collection: str, clock: Clock) -> bool:
    """The same, where the folder can be had; False where somebody else holds it, who will do it."""
    try:
        with root.locked():
            return carry_out(root, collection, clock)
    except StoreError:
        return False
