"""Twenty faults in one crawl: nodes and NATS servers killed and stopped, links cut, nodes that come and go (issue 7).

RELIABILITY 46, 51-55 and figures 5 and 9: no URL lost, only requests under way repeated, no host and no address asked
early, cells of the dead taken within two session times, and nobody dies of an outage of NATS.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.servers import NatsServers
from teia.cluster.telling import cluster_of
from teia.lab.witness import early_requests
from teia.store.root import open_root
from tests.system.labs import Lab, running_lab

from .conftest import Nats, run_servers
from .nodes import Cluster, by_one_machine, cluster, facts
from .relay import ADDRESS, Relay, Relays, relays, with_relayed_routes
from .test_node import requested_pages, wait_until

HOSTS = 24
SPEC = f"""
seed = 31
hosts = {HOSTS}
pages = 2400

[sites]
theta = 0.2

[errors]
scale = 0

[robots]
crawl_delay = 0

[sitemaps]
lying = 0

[changes]
slowest = 0
fastest = 0
"""
DELAY_S = 0.2
SESSION_S = 4.0
BUSY_S = 4.0
"""What a machine that is busy with other things may add to a time-out."""

ELECTION_S = 10.0
"""How long NATS may need for a new leader, and nobody can declare anybody dead (docs/cluster.md: T is longer)."""

OF_NATS = frozenset({"kill server", "stop server", "cut routes", "outage", "kill all servers"})
FAULTS = (
    "kill", "kill", "kill", "stop", "stop", "stop", "drain", "drain", "join", "join", "cut", "cut", "cut",
    "kill server", "kill server", "stop server", "stop server", "cut routes", "outage", "kill all servers",
)  # fmt: skip


@dataclass
class Faults:
    """Does bad things to a cluster; `harmed` counts hosts whose requests under way may be repeated."""

    nodes: Cluster
    nats: Nats
    between: Relays
    routes: dict[int, list[Relay]]
    chance: random.Random
    links: dict[str, list[Relay]] = field(default_factory=dict)
    harmed: int = 0
    takeovers_s: list[tuple[float, float]] = field(default_factory=list)
    """How long cells of the killed had no keeper, and how long they might."""
    disturbed_at: float = 0.0

    def start(self, name: str) -> None:
        """Start a node whose links to NATS can be cut."""
        if name not in self.links:
            places = self.nats.servers._places
            self.links[name] = [self.between.to(place.address, place.client) for place in places]
        self.nodes.urls[name] = [f"nats://{ADDRESS}:{relay.port}" for relay in self.links[name]]
        began = time.time()
        self.nodes.start(name)
        told = self.nodes.data(name) / "cluster.json"
        wait_until(lambda: told.exists() and told.stat().st_mtime > began)  # it is a node by then

    def do(self, deed: str) -> None:
        getattr(self, deed.replace(" ", "_"))()
        if deed in OF_NATS:
            self.disturbed_at = time.monotonic()

    def _harm_one(self) -> None:
        """One node has its part of the hosts, twice that at the most."""
        self.harmed += min(HOSTS, 2 * HOSTS // len(self.nodes.processes))

    def _someone(self) -> str:
        return self.chance.choice(sorted(self.nodes.processes))

    def kill(self) -> None:
        name = self._someone()
        self._harm_one()
        self.nodes.kill(name)
        died_at = time.monotonic()
        wait_until(lambda: self._others_have_all(name))
        is_electing = died_at - self.disturbed_at < 2 * ELECTION_S
        allowed_s = 2 * SESSION_S + BUSY_S + (ELECTION_S if is_electing else 0.0)
        self.takeovers_s.append((time.monotonic() - died_at, allowed_s))
        self.start(name)

    def _others_have_all(self, gone: str) -> bool:
        other = next(name for name in sorted(self.nodes.processes) if name != gone)
        cells = cluster_of(open_root(self.nodes.data(other)), WallClock()).view().cells
        return bool(cells) and all(cell.keeper not in {gone, None} for cell in cells)

    def stop(self) -> None:
        process = self.nodes.processes[self._someone()]
        self._harm_one()
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 2.0) * SESSION_S)
        process.send_signal(signal.SIGCONT)

    def drain(self) -> None:
        name = self._someone()
        leaving = self.nodes.processes.pop(name)
        leaving.send_signal(signal.SIGTERM)
        try:
            leaving.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            leaving.send_signal(signal.SIGABRT)  # PYTHONFAULTHANDLER=1 tells where it hangs
            leaving.communicate()
        assert leaving.returncode == 0, self.nodes.said(name)
        self.start(name)

    def join(self) -> None:
        self.start(f"x{len(self.nodes.processes)}")

    def cut(self) -> None:
        self._harm_one()
        self._cut(self.links[self._someone()], self.chance.uniform(0.5, 2.0) * SESSION_S)

    def cut_routes(self) -> None:
        """Cut one server from the other two; nodes at it have to find that out."""
        self.harmed += HOSTS
        self._cut(self.routes[self.chance.randrange(3)], 2 * SESSION_S)

    def _cut(self, links: list[Relay], seconds: float) -> None:
        self.between.cut(links)
        time.sleep(seconds)
        self.between.mend(links)

    def kill_server(self) -> None:
        os.kill(self.nats.servers.process_of(self.chance.randrange(3)), signal.SIGKILL)

    def stop_server(self) -> None:
        with self._stopped(self.chance.randrange(3)):
            time.sleep(self.chance.uniform(0.5, 1.5) * SESSION_S)
        self.harmed += HOSTS  # those at it may have been silent for too long

    def kill_all_servers(self) -> None:
        for at in range(3):
            os.kill(self.nats.servers.process_of(at), signal.SIGKILL)
        time.sleep(SESSION_S)

    def outage(self) -> None:
        """NATS is away for longer than a session: nobody is declared dead for that."""
        deaths = self.deaths()
        with self._stopped(0), self._stopped(1), self._stopped(2):
            time.sleep(2 * SESSION_S)
        time.sleep(SESSION_S)
        assert self.deaths() == deaths

    @contextmanager
    def _stopped(self, at: int) -> Iterator[None]:
        process = self.nats.servers.process_of(at)
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def deaths(self) -> int:
        """How often a node was declared dead so far."""
        return sum(self.nodes.said(path.stem).count("declared dead node=") for path in self.nodes.folder.glob("*.err"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_faults_in_one_crawl_lose_no_url_and_hurt_no_host(tmp_path: Path) -> None:
    seed = int(os.environ.get("TEIA_FAULTS_SEED", "1"))
    chance = random.Random(seed)
    deeds = chance.sample(FAULTS, len(FAULTS))
    with running_lab(tmp_path, SPEC, 186) as lab, relays() as between:
        alone = by_one_machine(lab, tmp_path, 0.0)
        since = lab.requests()
        routes: dict[int, list[Relay]] = {}

        def prepare(servers: NatsServers) -> None:
            routes.update(with_relayed_routes(servers, between))

        for nats in run_servers(tmp_path / "nats", 3, prepare):
            with cluster(tmp_path, nats, lab, DELAY_S, SESSION_S) as nodes:
                faults = Faults(nodes, nats, between, routes, chance)
                suffer(faults, deeds, lab, since)
                nodes.finish(within_s=200)
                print(f"seed={seed} takeovers={faults.takeovers_s} deaths={faults.deaths()}")
                expected, found = facts(alone, depths=False), facts(nodes.known(), depths=False)
                differ = {url: (expected.get(url), found.get(url)) for url in expected.keys() | found.keys()}
                assert {url: both for url, both in differ.items() if both[0] != both[1]} == {}, (seed, deeds)
        pages = requested_pages(lab, since)
        repeats = sum(count - 1 for count in pages.values())
        print(f"pages={len(pages)} repeated={repeats} harmed={faults.harmed}")
        assert repeats <= faults.harmed, (seed, deeds)
        assert all(took_s <= allowed_s for took_s, allowed_s in faults.takeovers_s), (seed, faults.takeovers_s)
        entries = lab.settled_entries()[since:]
        assert early_requests(entries, DELAY_S, lambda entry: entry.host) == [], (seed, deeds)
        assert early_requests(entries, DELAY_S, lambda entry: entry.address) == [], (seed, deeds)


def suffer(faults: Faults, deeds: list[str], lab: Lab, since: int) -> None:
    """Start three nodes and let one fault after the other happen, each after some more requests."""
    for name in "abc":
        faults.start(name)
    wait_until(lambda: lab.requests() - since > 60)
    for deed in deeds:
        before, began = lab.requests(), time.monotonic()
        faults.do(deed)
        print(f"{deed}: {time.monotonic() - began:.1f} s, {lab.requests() - since} requests", flush=True)
        wait_until(go_on(lab, before + 40), within_s=90)


def go_on(lab: Lab, goal: int) -> Callable[[], bool]:
    return lambda: lab.requests() >= goal
