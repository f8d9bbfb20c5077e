"""Nodes that place sites and share out work, as a user runs them (A4, A5, A14)."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.clock import WallClock
from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import point_of_slot
from teia.cluster.members.session import NodeState
from teia.cluster.nats.wire import connect
from teia.cluster.placing.balancer import node_loads
from teia.cluster.placing.cell_owners import DecidedTransfer, OwnerOverrides, RingDocument
from teia.cluster.views.status import node_states, status_of
from teia.lab.server.requestlog import read_log
from teia.lab.server.serve import LabServer
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.lab.world.hosts import make_hosts
from teia.lab.world.regions import format_countries
from teia.lab.world.spec import WorldSpec
from teia.store.root import open_root
from teia.urls import cell_of, cell_starts, site_of, slot_of
from tests.cluster import nodes as harness
from tests.cluster.conftest import Nats
from tests.cluster.nodes import Cluster, by_one_machine, cluster
from tests.cluster.placing.test_balance import busiest
from tests.cluster.test_node import DELAY_S, PATIENT_S, check_courtesy, requested_pages
from tests.cluster.test_signals_nodes import Nodes, run
from tests.crawler.webs import Page, ScriptedWeb, html
from tests.system.labs import Lab, running_lab
from tests.waiting import until, until_async

WEB = """
seed = 11
hosts = {hosts}
pages = {pages}
[sites]
theta = 0.2
shared_address = 0
mirrors = 0
aliases = 0
[errors]
scale = 0
[regions]
names = ["aa", "bb", "cc"]
clients = ["127.81.0.0/16=aa", "127.82.0.0/16=bb", "127.83.0.0/16=cc"]
latency_s = [[0.01, 0.4, 0.4], [0.4, 0.01, 0.4], [0.4, 0.4, 0.01]]
"""


def start_in_regions(nodes: Cluster, strategy: str, *flags: str) -> None:
    for number, name in enumerate("abc"):
        region = ("aa", "bb", "cc")[number]
        nodes.start(name, "--strategy", strategy, "--region", region, "--bind", f"127.8{number + 1}.0.1", *flags)


Facts = dict[tuple[str, str], tuple[Any, ...]]
"""By host and the rest of a URL: what must be the same whoever crawled."""


def facts_in(data: Path, cell: int) -> Facts:
    """What one cell of a folder knows."""
    folder = next(each for each in open_root(data).collection("main").cells() if each.number == cell)
    db = sqlite3.connect(folder.frontier)
    rows = db.execute(
        "SELECT h.name, u.tail, u.state, u.outcome, u.in_links, p.digest FROM urls AS u JOIN hosts AS h USING (host_id)"
        " LEFT JOIN pages AS p ON p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key"
    ).fetchall()
    db.close()
    return {(host, tail): tuple(rest) for host, tail, *rest in rows}


def known_by(nodes: Cluster) -> Facts:
    """What the newest copies of all cells know; no URL is in two cells."""
    found: Facts = {}
    for cell, name in nodes.owners().items():
        facts = facts_in(nodes.data(name), cell)
        assert not found.keys() & facts.keys()
        found |= facts
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "number"), [("geo", 211), ("rtt", 212)])
def test_sites_go_to_the_node_that_is_near_them(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, number: int
) -> None:
    """A4: by country before the first request, or by the best region's measurement; nothing is lost or asked twice."""
    monkeypatch.setenv("TEIA_PLACEMENT_MEASURED_PAGES", "1")
    with running_lab(tmp_path, WEB.format(hosts=12, pages=200), number) as lab:
        spec = WorldSpec.load(tmp_path / "world.toml")
        hosts, _ = make_hosts(spec, f"127.77.{number}.1")
        (tmp_path / "geo.csv").write_text(format_countries(hosts, spec.regions.names), "utf-8")
        by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            start_in_regions(nodes, strategy, "--countries", str(tmp_path / "geo.csv"))
            nodes.finish(within_s=100)
            found = known_by(nodes)
        alone = {url: each for cell in range(harness.CELLS) for url, each in facts_in(tmp_path / "one", cell).items()}
        assert found == alone
        region_of, entries = {host.name: host.region for host in hosts}, lab.settled_entries()[since:]
        near = sum(entry.peer.startswith(f"127.8{region_of[entry.host] + 1}.") for entry in entries)
        print(f"{strategy}: {near} of {len(entries)} requests came from the host's region")
        assert near > len(entries) / 2  # by the circle alone it would be a third
        assert set(requested_pages(lab, since).values()) == {1}
        check_courtesy(lab, since)


def test_a_node_of_another_strategy_is_refused(nats: Nats, tmp_path: Path) -> None:
    """Two that went by different ones would send sites to and fro."""
    from teia.cluster.members.agreement import agree
    from teia.config.sections import Config
    from teia.errors import ClusterError

    async def work() -> None:
        wire = await nats.wire()
        await agree(wire, nats.clock, "placed", Config(), 1, "geo")
        assert (await agree(wire, nats.clock, "placed", None, 1)).strategy == "geo"
        with pytest.raises(ClusterError, match="'placed' uses geo"):
            await agree(wire, nats.clock, "placed", None, 1, "rtt")

    nats.run(work())


# ---- balance --------------------------------------------------------------------------------------------------------

CELLS = 32
RULES = {
    "TEIA_COLLECTION_CELLS": str(CELLS),
    "TEIA_BALANCE_IDLE_URLS": "5",
    "TEIA_BALANCE_OVERLOADED_URLS": "20",
    "TEIA_BALANCE_EVERY_S": "5",
}
LONGEST_S = 20.0
"""A moved host is silent for 2 to 4 s; so long only where a machine has many other things to do."""


def look(nats: Nats) -> tuple[dict[str, NodeState], RingDocument]:
    async def ask() -> tuple[dict[str, NodeState], RingDocument]:
        wire = await connect(nats.servers.urls, nats.servers.key, "look")
        try:
            states = {state.name: state for state in await node_states(wire) if state.is_alive}
            return states, await OwnerOverrides(wire, WallClock(), "main", 1).read()
        finally:
            await wire.end()

    return asyncio.run(ask())


def is_shared_out(nats: Nats) -> bool:
    states, ring = look(nats)
    queued = sum(len(state.queued) for state in states.values())
    return queued == CELLS and len(states) == 3 and bool(ring.moves) and busiest(node_loads(states).values()) <= 1.3


def at(nats: Nats) -> list[str]:
    return ["--nats", nats.servers.urls[0], "--key", str(nats.servers.key)]


def teia(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "teia", *words], capture_output=True, text=True, timeout=60, check=False
    )


def longest_silence_s(lab: Lab, moves: list[DecidedTransfer]) -> float:
    """How long a host of a cell that was moved was asked nothing, at most, from the moment it was decided."""
    starts, moved = cell_starts(CELLS), {move.cell: move.time_s for move in moves}
    by_host = defaultdict(list)
    for entry in lab.settled_entries():
        cell = cell_of(slot_of(site_of(entry.host.split(":")[0])), starts)
        if cell in moved and entry.end_s > moved[cell] - 2:
            by_host[entry.host].append(entry)
    gaps = [after.start_s - before.end_s for each in by_host.values() for before, after in pairwise(each)]
    return max(gaps, default=0.0)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_unequal_nodes_share_work_by_their_capacity(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5, A14, T4, issue 7: with capacities 1, 1 and 2 the busiest comes to at most 1.3 times its fair share."""
    for name, value in RULES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(harness, "CELLS", CELLS)
    with running_lab(tmp_path, WEB.format(hosts=60, pages=3_000), 213, truth=True) as lab:
        lines = map(json.loads, lab.truth_file.read_text("utf-8").splitlines())
        seeds = '", "'.join(line["url"] for line in lines)
        with cluster(tmp_path, own_nats, replace(lab, seed_url=seeds), 1.0, PATIENT_S) as nodes:
            for name, capacity in zip("abc", ("1", "1", "2"), strict=True):
                nodes.start(name, "--capacity", capacity)
            until(lambda: is_shared_out(own_nats), within_s=120)
            states, ring = look(own_nats)
            drained = teia("cluster", "drain", "b", *at(own_nats))
            assert drained.returncode == 0, drained.stderr
            until(lambda: not look(own_nats)[0]["b"].cells, within_s=60)
            print(f"busiest {busiest(node_loads(states).values()):.2f} of its share after {len(ring.moves)} moves")
            time_s = WallClock().now_s()
            until(lambda: WallClock().now_s() > time_s + 6)
        silence_s = longest_silence_s(lab, ring.moves)
        print(f"a moved host was silent for {silence_s:.1f} s at most")
        assert silence_s < LONGEST_S
        assert not early_requests(lab.settled_entries(), 1.0, lambda entry: entry.host)


# ---- slow and overloaded nodes --------------------------------------------------------------------------------------

PEERS = {"a": "127.0.63.1", "b": "127.0.63.2"}
SLOW_S, PAGE_BYTES, MINIMUM_KB_S = 0.6, 20_000, 100
CHANGE_PLACES = {
    "TEIA_PLACEMENT_MINIMUM_KB_S": str(MINIMUM_KB_S),  # a page takes 0.2 s at most, and a slow one 0.6 s
    "TEIA_PLACEMENT_MEASURED_PAGES": "1",
    "TEIA_BALANCE_EVERY_S": "0.5",
    "TEIA_BALANCE_IDLE_URLS": "1",
    "TEIA_BALANCE_OVERLOADED_URLS": "60",
}


def cells_by_circle() -> dict[str, list[int]]:
    """The cells of nodes a and b before anything is decided."""
    starts = cell_starts(harness.CELLS)
    circle = Circle(dict.fromkeys("ab", 1.0))
    owners = [next(iter(circle.order(point_of_slot(start)))) for start in starts]
    return {name: [cell for cell, owner in enumerate(owners) if owner == name] for name in "ab"}


def hosts_in(cells: list[int], count: int, word: str) -> list[str]:
    """Names of sites in some cells, the same number in each as far as possible."""
    starts, found = cell_starts(harness.CELLS), defaultdict[int, list[str]](list)
    for number in range(10_000):
        name = f"{word}{number}.test"
        found[cell_of(slot_of(name), starts)].append(name)
    return [found[cells[number % len(cells)]][number // len(cells)] for number in range(count)]


class Places(Nodes):
    """Nodes that begin with some sites of their own choice."""

    seeds: tuple[str, ...] = ()

    def _write_settings(self) -> Path:
        path = super()._write_settings()
        seeds = str([self.lab.url(host, "/") for host in self.seeds]).replace("'", '"')
        lines = [f"seeds = {seeds}" if line.startswith("seeds =") else line for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines).replace("delay_s = 0.1", "delay_s = 0.5"), "utf-8")
        return path

    def peers_of(self, hosts: list[str]) -> dict[str, set[str]]:
        """Where pages of hosts were requested from, robots.txt aside."""
        found = defaultdict[str, set[str]](set)
        for each in self.entries():
            if each.host in hosts and each.path != "/robots.txt":
                found[each.host].add(each.peer)
        return found


def test_slow_and_overloaded_nodes_change_places(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4, A5, A14 on two nodes: slow sites leave, the slow node changes places, the overloaded one gives cells away."""
    for name, value in CHANGE_PLACES.items():
        monkeypatch.setenv(name, value)
    mine = cells_by_circle()
    far, hubs = hosts_in(mine["a"], 12, "far"), hosts_in(mine["b"], 6, "hub")
    text = "word " * (PAGE_BYTES // 5)

    def far_page(request: WorldRequest) -> WorldAnswer:
        answer = html(*(f"/{number}" for number in range(3)), text=text)
        return msgspec.structs.replace(answer, delay_s=SLOW_S if request.client == PEERS["a"] else 0.0)

    pages: dict[str, dict[str, Page]] = {host: dict.fromkeys(("/", "/0", "/1", "/2"), far_page) for host in far}
    leaves = [f"/{number}" for number in range(40)]
    pages |= {host: {"/": html(*leaves, text=text)} | dict.fromkeys(leaves, html(text=text)) for host in hubs}

    async def main() -> None:
        log = tmp_path / "requests.jsonl"
        async with LabServer(ScriptedWeb(pages), WallClock(), port=0, dns="127.77.255.96:0", log=log) as lab:
            nodes = Places(tmp_path, own_nats, lab, 0.5, session_s=4.0)  # type: ignore[arg-type]
            nodes.log, nodes.seeds = log, tuple(far)
            try:
                for name in "ab":
                    nodes.start(name, "--strategy", "rtt", "--bind", PEERS[name], once=False)
                await change_places(nodes)
                for process in nodes.processes.values():
                    process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(nodes.finish)
            finally:
                nodes.end()
        assert early_requests(read_log(log), 0.5, lambda entry: entry.host) == []

    async def moves(why: str) -> list[DecidedTransfer]:
        _, ring = await asyncio.to_thread(look, own_nats)
        return [move for move in ring.moves if move.why == why]

    async def has_exchanged() -> bool:
        states, _ = await asyncio.to_thread(look, own_nats)
        return all(set(map(int, states[name].cells)) == set(mine[other]) for name, other in ("ab", "ba"))

    async def change_places(nodes: Places) -> None:
        # Each site is measured by a, refused, and crawled by b.
        await until_async(lambda: all(PEERS["b"] in nodes.peers_of(far)[host] for host in far), within_s=60)
        await until_async(has_exchanged, within_s=40)
        assert {(move.giver, move.taker) for move in await moves("slow")} == {("a", "b"), ("b", "a")}
        assert not await moves("overloaded")
        wire = await connect(own_nats.servers.urls, own_nats.servers.key, "look")
        status = await status_of(wire, WallClock(), "main")
        await wire.end()
        servers = {own_nats.servers.urls[0].rpartition("/")[2]}
        assert [node.landmarks.keys() for node in status.nodes] == [servers, servers]
        seeds = [nodes.lab.url(host, "/") for host in hubs]
        added = await asyncio.to_thread(teia, "add", *seeds, "--data", str(nodes.data("a")))
        assert added.returncode == 0, added.stderr
        await until_async(lambda: moves("overloaded"), within_s=60)
        assert {(move.giver, move.taker) for move in await moves("overloaded")} == {("a", "b")}

    run(main)
