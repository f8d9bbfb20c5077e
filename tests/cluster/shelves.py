"""Nodes that answer searches, in this process: folders with pages in cells, as an indexer would leave them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from teia.clock import WallClock
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import connect
from teia.cluster.search.answer import Answerer
from teia.cluster.search.ask_nodes import ClusterSearch
from teia.cluster.search.messages import CellOwnership
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.errors import IndexFailure
from teia.frontier.cell.cell import FrontierCell
from teia.index.entry import IndexEntry
from teia.search.show.results import Results
from teia.store.root import Root, open_root
from tests.index.pages import indexed
from tests.waiting import NeverHeld, until

from .conftest import Nats

SOON_S = 20.0
"""How long is waited for what happens at once where nothing else runs."""


def make_root(folder: Path, name: str, cells: Mapping[int, Sequence[IndexEntry]], count: int) -> Root:
    """A data folder with these pages in these cells of so many."""
    root = open_root(folder, create=True)
    collection = root.create_collection(name, to_toml(Config()), count)
    for cell in collection.cells():
        FrontierCell(cell.frontier).close()
        if cell.number in cells:
            indexed(cell.index, cells[cell.number])
    return root


@dataclass
class AnsweringNode:
    """A node that answers, in a thread of its own."""

    thread: LoopThread
    answerer: Answerer

    def keep(self, epoch: int, *cells: int) -> None:
        self.thread.wait_for(self.answerer.set_cells({cell: CellOwnership(cell, epoch, epoch + 1) for cell in cells}))


@contextmanager
def answering_node(nats: Nats, root: Root, collection: str, node: str) -> Iterator[AnsweringNode]:
    with ExitStack() as stack:
        thread = stack.enter_context(LoopThread())
        wire = thread.wait_for(connect(nats.servers.urls, nats.servers.key, node))
        stack.callback(lambda: thread.wait_for(wire.end()))
        answerer = Answerer(wire, WallClock(), root, collection, node)
        thread.wait_for(answerer.start())
        stack.callback(lambda: thread.wait_for(answerer.close()))
        yield AnsweringNode(thread, answerer)


def gateway(nats: Nats, collection: str, **how: float) -> ClusterSearch:
    return ClusterSearch(nats.servers.urls, nats.servers.key, collection, WallClock(), **how)


def search_until(search: ClusterSearch, text: str, is_so: Callable[[Results], object]) -> Results:
    """Search again and again, until the results are as they must become; what was found last, if they never are.

    On a busy machine nodes may be late with saying that they are there.
    """
    found: list[Results] = []

    def look() -> bool:
        with suppress(IndexFailure):
            found.append(search.search(text))
            if is_so(found[-1]):
                return True
        search.refresh_directory()
        return False

    try:
        until(look, within_s=SOON_S)
    except NeverHeld:
        return search.search(text)
    return found[-1]


def wait_for_subscriptions() -> None:
    """Let servers hear of subscriptions."""
    time.sleep(0.05)  # no sign says so
