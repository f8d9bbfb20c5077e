"""What a node tells of its cluster (A11): from sessions alone, moves included."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.cluster.members.session import NodeState
from teia.cluster.views.node_file import FILE, STALE_S, NodeFileWriter, cluster_source
from teia.cluster.views.view import ClusterView, ExchangeView
from teia.store.root import Root, open_root
from teia.urls import cell_starts

START_S = 1_790_000_000.0
BEAT_S, SILENCE_S = 3.0, 15.0


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return open_root(tmp_path / "data", create=True)


class Sessions:
    """Two nodes whose words a test writes, told by a Teller on a virtual clock."""

    def __init__(self, root: Root) -> None:
        self.clock = VirtualClock(START_S)
        self.teller = NodeFileWriter(root, "main", cell_starts(4), self.clock)
        self.nodes = {
            "a": NodeState("a", "1", region="sp", load={"pages": 0.0, "load": 0.5}, cells={"0": 10, "1": 20}),
            "b": NodeState("b", "2", capacity=2.0, load={"pages": 0.0, "idle": 1.0}, cells={"2": 5, "3": 7}),
        }
        self.ago = {"b": 1.0}

    def say(self, name: str, **words: object) -> None:
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], **words)

    async def after(self, seconds: float) -> ClusterView:
        await self.clock.advance(seconds)
        return self.view()

    def view(self) -> ClusterView:
        return self.teller.view(self.nodes, self.ago, "a", BEAT_S, SILENCE_S)


def test_nodes_and_cells_are_what_sessions_say(root: Root) -> None:
    view = Sessions(root).view()
    assert [(node.name, node.state, node.cells, node.capacity) for node in view.nodes] == [
        ("a", "normal", 2, 1.0),
        ("b", "idle", 2, 2.0),
    ]
    assert (view.nodes[0].region, view.nodes[1].region) == ("sp", None)
    assert (view.nodes[0].load, view.nodes[1].load) == (0.5, None)
    assert [(cell.id, cell.keeper, cell.urls) for cell in view.cells] == [
        ("main/00", "a", 10), ("main/01", "a", 20), ("main/02", "b", 5), ("main/03", "b", 7)
    ]  # fmt: skip
    assert (view.cells[0].first_slot, view.cells[3].end_slot) == (0, 1024)
    assert view.moves == []


async def _lives_and_dies(root: Root) -> None:
    told = Sessions(root)
    told.view()
    told.say("a", load={"pages": 40.0})
    view = await told.after(4.0)
    assert view.nodes[0].pages_per_s == 10.0
    told.ago = {"b": 9.0}
    silent = (await told.after(1.0)).nodes[1]
    assert (silent.state, silent.dies_in_s, silent.pages_per_s) == ("silent", 6.0, None)
    told.say("b", state="dead")
    view = await told.after(6.0)
    assert [cell.keeper for cell in view.cells] == ["a", "a", None, None], "nobody keeps them yet"
    assert view.cells[3].urls == 7, "what was last known"
    told.say("a", cells={"0": 10, "1": 20, "2": 5, "3": 6})
    view = await told.after(2.0)
    assert [(move.cell, move.giver, move.taker, move.why, move.seconds) for move in view.moves] == [
        ("main/03", "b", "a", "died", 8.0),
        ("main/02", "b", "a", "died", 8.0),
    ]
    assert [move.urls_lost for move in view.moves] == [1, 0], "counted, not claimed"
    assert (await told.after(1.0)).moves == view.moves, "told once"


async def _exchanged(root: Root) -> None:
    told = Sessions(root)
    assert told.view().links == []
    told.say("a", received={"a": (90, 3), "b": (10, 0)})
    told.view()
    told.say("a", received={"a": (99, 0), "b": (30, 2)}, load={"lag_s": 1.25})
    view = await told.after(4.0)
    assert view.links == [ExchangeView("b", "a", 5.0, 2)], "none between cells of one node"
    assert [node.lag_s for node in view.nodes] == [1.25, None]
    told.say("a", state="dead")
    view = await told.after(1.0)
    assert (view.links, view.nodes[0].lag_s) == ([], None), "a dead node merges nothing"


async def _handed_over(root: Root) -> None:
    told = Sessions(root)
    told.view()
    told.say("b", cells={"1": 21, "2": 5, "3": 7})
    view = await told.after(1.0)
    assert view.cells[1].keeper == "b", "both say so; the new one is right"
    told.say("a", cells={"0": 10})
    view = await told.after(1.0)
    assert [(move.cell, move.why) for move in view.moves] == [("main/01", "handed over")]


async def _told_and_heard(root: Root) -> None:
    told = Sessions(root)
    view = told.view()
    source = cluster_source(root, told.clock)
    assert source.view().nodes[0].state == "off", "nobody told anything: the machine is alone"
    (root.path / FILE).write_bytes(msgspec.json.encode(view))
    assert source.view() == view
    await told.clock.advance(2 * STALE_S)
    old = source.view()
    assert [node.state for node in old.nodes] == ["off", "idle"], "its own node has ended"
    assert replace(old, nodes=view.nodes) == view
    (root.path / FILE).write_bytes(b'{"time": 1}')
    assert len(source.view().nodes) == 1


def test_a_death_and_who_took_its_cells_are_reported(root: Root) -> None:
    asyncio.run(_lives_and_dies(root))


def test_links_between_nodes_and_their_lag_are_what_receivers_report(root: Root) -> None:
    """A11: batches a second, those that wait, and the lag of each node."""
    asyncio.run(_exchanged(root))


def test_a_cell_that_is_handed_over_is_the_new_owners(root: Root) -> None:
    asyncio.run(_handed_over(root))


def test_a_stored_view_is_read_and_an_old_one_is_marked(root: Root) -> None:
    asyncio.run(_told_and_heard(root))
