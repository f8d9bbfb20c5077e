"""What nodes agree on about a removal, and what a user is told of it; the removal itself: ../test_removal_nodes.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from teia.cluster.cells.removal import brings_site, is_complete, removal_result, with_removal, with_report
from teia.cluster.members.agreement import VERSION, Agreement, NodeRemoval, agree, amend_agreement
from teia.cluster.members.session import NodeState
from teia.cluster.nats.thread import LoopThread
from teia.config.load import load, to_toml
from teia.config.sections import Config
from teia.errors import ClusterError
from teia.frontier.cell import move_site
from tests.cluster.conftest import Nats
from tests.cluster.kept import OwnedCell

RULES = ("domain:gone.test",)
CLEAN = NodeRemoval(urls=2, records=3, is_checked=True)


def settings(**values: object) -> Config:
    return load(None, {}, {"collection.seeds": ["http://a.test/"], "collection.cells": 2, **values}).config


def agreement(**values: object) -> Agreement:
    return Agreement("id", to_toml(settings(**values)), 1)


def node(name: str, state: str = "alive") -> NodeState:
    return NodeState(name, f"{name}-1", state)


def test_a_removal_is_agreed_on_once_and_needs_snapshots() -> None:
    now = with_removal(agreement(), "m", RULES, 1.0)
    assert [(each.mark, each.rules) for each in now.removals] == [("m", RULES)]
    assert with_removal(now, "m", RULES, 2.0) == now
    with pytest.raises(ClusterError, match=r"cluster\.snapshots"):
        with_removal(agreement(**{"cluster.snapshots": ""}), "m", RULES, 1.0)


def test_the_result_waits_for_nodes_that_live_and_names_those_that_are_down() -> None:
    now = with_removal(agreement(), "m", RULES, 1.0)
    nodes = {"a": node("a"), "b": node("b"), "c": node("c", "left"), "d": node("d", "dead")}
    now = with_report(now, "m", "a", CLEAN, {0})
    now = with_report(now, "m", "b", NodeRemoval(records=1), {1})
    assert removal_result(now.removals[0], nodes) is None, "b has not read everything again"
    now = with_report(now, "m", "b", msgspec.structs.replace(CLEAN, records=1), ())
    (removal,) = now.removals
    assert removal.cells == {0, 1}
    result = removal_result(removal, nodes)
    assert result is not None
    assert (result.urls, result.records) == (4, 4)
    assert result.nodes == {"a": "done", "b": "done", "c": "pending", "d": "pending"}
    assert not is_complete(removal, nodes)
    # An operator deletes the keys of nodes that will not come back.
    assert is_complete(removal, {name: nodes[name] for name in "ab"})
    (left,) = with_report(now, "m", "b", NodeRemoval(left_records=1, is_checked=True), (), undone={1}).removals
    assert left.cells == {0}
    result = removal_result(left, {name: nodes[name] for name in "ab"})
    assert result is not None
    assert (result.nodes, result.left_records) == ({"a": "done", "b": "left"}, 1)


def test_a_teia_that_does_not_know_removals_refuses_the_agreement(nats: Nats, unique: str) -> None:
    """It would drop them with its next change."""

    async def main() -> None:
        wire = await nats.wire()
        first = await agree(wire, nats.clock, unique, settings(), nats.count)
        assert first.version < VERSION
        now = await amend_agreement(
            wire, nats.clock, unique, lambda now: with_removal(now, "m", RULES, 1.0), nats.count
        )
        assert now.version == VERSION
        report = msgspec.structs.replace(CLEAN, left_pages=7)
        await amend_agreement(wire, nats.clock, unique, lambda now: with_report(now, "m", "a", report, {1}), nats.count)
        again = await agree(wire, nats.clock, unique, None, nats.count)
        assert (again.removals[0].reports, again.removals[0].cells) == ({"a": report}, {1})

    nats.run(main())


@pytest.fixture
def kept(nats: Nats, tmp_path: Path) -> Iterator[OwnedCell]:
    with LoopThread() as thread:
        made = OwnedCell(tmp_path, nats, thread)
        nats.wires.clear()
        yield made
        thread.wait_for(made.wire.end())


def test_a_site_on_its_way_to_a_cell_is_seen(kept: OwnedCell) -> None:
    """It may have rows of pages that its sender has removed a moment later."""
    log = kept.log("a")
    assert kept.wait_for(log.last_links()) == 0
    subject = f"{kept.collection}.links.7"
    for message in (b"links", move_site.MARK + b"rows", b"links"):
        kept.wait_for(kept.wire.js.publish(subject, message))
    end = kept.wait_for(log.last_links())
    assert end == 3
    assert kept.wait_for(brings_site(log, 0, end, kept.nats.clock))
    assert kept.wait_for(brings_site(log, 0, 1, kept.nats.clock)) is False
    assert kept.wait_for(brings_site(log, 2, end, kept.nats.clock)) is False
