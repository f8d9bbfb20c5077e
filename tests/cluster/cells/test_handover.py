"""A large cell moves from one node to another: how long its hosts wait, and that nothing of it is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from teia.cluster.cells.log import CellLog, create_stream
from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.cells.publish import LogJournal
from teia.cluster.members.agreement import agree, write_settings
from teia.cluster.members.session import NodeState
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import connect
from teia.cluster.placing.cell_owners import CircleOrder
from teia.config.load import load
from teia.config.sections import Config
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.lab.server.requestlog import RequestLogEntry
from teia.store.root import open_root
from teia.urls import cell_of, cell_starts, host_of, key_of, site_of, slot_of
from tests.cluster.conftest import Nats
from tests.cluster.nodes import SETTINGS, Cluster
from tests.cluster.test_node import check_courtesy
from tests.system.labs import Lab, running_lab
from tests.waiting import until

SPEC = """
seed = 11
hosts = 8
pages = 60

[sites]
theta = 0.2

[errors]
scale = 0
"""
CELLS = 2
DELAY_S = 0.1
URLS = 200_000
AT_ONCE = 2_000
SAVE_S = 2.0


class Large(Cluster):
    """A cluster whose collection knows many URLs of each of its hosts before any node has seen it."""

    def config(self) -> Config:
        text = SETTINGS.format(seed=self.lab.seed_url, dns=self.lab.dns, delay_s=self.delay_s, cells=CELLS)
        path = self.folder / "large.toml"
        path.write_text(text + f"[cluster]\nsnapshot_s = {SAVE_S}\n[limits]\npages_per_host = 100000000\n", "utf-8")
        return load(path, {}, {"collection.name": "main"}).config

    def grow(self, hosts: Iterable[str], urls: int) -> None:
        """Write the logs of all cells as a node would have that found so many URLs."""
        config, starts, clock = self.config(), cell_starts(CELLS), self.nats.clock
        by_cell: dict[int, list[str]] = {cell: [] for cell in range(CELLS)}
        for host in hosts:
            by_cell[cell_of(slot_of(site_of(host)), starts)].append(host)
        with LoopThread() as thread:
            do, servers = thread.wait_for, self.nats.servers
            wire = do(connect(servers.urls, servers.key, "before"))
            agreement = do(agree(wire, clock, "main", config, self.nats.count))
            do(create_stream(wire, clock, "main", self.nats.count))
            root = open_root(self.folder / "before", create=True)
            write_settings(root, agreement)
            prepare_cells(root.collection("main"), CELLS, agreement.identity)
            for folder in root.collection("main").cells():
                log = CellLog(wire, clock, "main", folder.number, "before", "gone")
                do(log.take(None))
                cell = FrontierCell(folder.frontier, journal=LogJournal(log, thread))
                for at in range(0, urls if by_cell[folder.number] else 0, AT_ONCE):
                    with cell.transaction():
                        cell.add_links(
                            [self.known(by_cell[folder.number], at + n) for n in range(AT_ONCE)], clock.now_s()
                        )
                cell.close()
                do(log.release())
            do(wire.close())

    def known(self, hosts: list[str], number: int) -> FoundUrl:
        host, port = hosts[number % len(hosts)], urlsplit(self.lab.seed_url).port
        tail = f":{port}/known/{number}"
        return FoundUrl(host, key_of(f"http://{host}{tail}"), tail, depth=1)


def one_that_takes_all(other: str) -> str:
    """A name whose node would get every cell from another."""
    starts = cell_starts(CELLS)
    for number in range(100_000):
        alive = {name: NodeState(name, "x") for name in (other, f"b{number}")}
        order = CircleOrder(starts)
        if all(order(cell, alive)[0] == f"b{number}" for cell in range(CELLS)):
            return f"b{number}"
    raise AssertionError


def hosts_of(lab: Lab) -> list[str]:
    return sorted({host_of(url) for url in lab.truth()})


def longest_silence_s(entries: list[RequestLogEntry]) -> float:
    """The longest time for which any host was not asked, between its first request and its last."""
    by_host: dict[str, list[float]] = {}
    for entry in entries:
        by_host.setdefault(entry.host, []).append(entry.start_s)
    return max(after - before for times in by_host.values() for before, after in pairwise(sorted(times)))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_moving_a_large_cell_interrupts_its_hosts_for_a_moment(own_nats: Nats, tmp_path: Path) -> None:
    """Issue 7: moving a cell interrupts its hosts <= 8 s; 200,000 URLs in each of two cells, both of which move."""
    with running_lab(tmp_path, SPEC, 177, truth=True) as lab:
        nodes = Large(tmp_path, own_nats, lab, DELAY_S, session_s=15.0)
        try:
            nodes.grow(hosts := hosts_of(lab), URLS)
            nodes.start("a")
            until(lambda: lab.requests() > 200, within_s=120)
            until(lambda: len(re.findall(r"snapshot record=", nodes.log_text("a"))) >= CELLS, within_s=60)
            since, taker = lab.requests(), one_that_takes_all("a")
            began = time.monotonic()
            nodes.start(taker)
            until(lambda: nodes.log_text(taker).count("caught up") >= CELLS, within_s=120)
            moved_s = time.monotonic() - began
            moved_at = lab.requests()
            until(lambda: {entry.host for entry in lab.entries()[moved_at:]} >= set(hosts), within_s=60)
            entries = lab.settled_entries()[since:]
        finally:
            nodes.end()
        silence_s = longest_silence_s([entry for entry in entries if entry.host in hosts])
        print(f"\nmoved in {moved_s:.1f} s, hosts waited {silence_s:.1f} s at most\n{nodes.log_text(taker)}")
        assert "restored" in nodes.log_text(taker)
        assert silence_s <= 8.0
        check_courtesy(lab, since)
