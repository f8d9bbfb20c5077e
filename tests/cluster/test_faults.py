"""Faults in one crawl: nodes and NATS servers killed and stopped, links cut, nodes that come and go (issue 7).

RELIABILITY 46, 51-55 and figures 5 and 9: no URL lost, only requests under way repeated, no host and no address asked
early, cells of the dead taken within two session times, and nobody dies of an outage of NATS. Who kept what when, and
what was under way, is read from NATS's own records and the lab's log (account.py).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.crawl.ownership import AHEAD
from teia.cluster.members.session import PROOFS, Pace
from teia.cluster.nats.servers import NatsServers
from teia.cluster.views.node_file import cluster_source
from teia.cluster.views.view import ClusterView
from teia.crawler.loop import GRACE_S
from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import TOLERANCE_S, early_requests
from teia.store.root import open_root
from teia.urls import cell_starts, split
from tests.system.labs import Lab, running_lab
from tests.waiting import until

from .account import CellEpoch, lost_epochs, note_requests, opened_at, read_epochs_now, takeovers_s
from .conftest import Nats, run_servers
from .nodes import CELLS, Cluster, by_one_machine, cluster, facts
from .pulse import Pulse, pulse
from .relay import ADDRESS, Relay, Relays, relays, with_relayed_routes
from .test_node import requested_pages

SPEC = """
seed = {seed}
hosts = {hosts}
pages = {pages}

[sites]
theta = {theta}

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
BUSY_S = 4.0
"""So much longer than two session times it may take with a short T, in which a busy machine hardly opens cells."""

ON_ITS_WAY_S = 1.0
"""A request may reach the lab so long after it was sent."""

OF_NATS = frozenset({"kill server", "stop server", "cut routes", "outage", "kill all servers"})
FEW = ("kill", "kill", "stop", "drain", "join", "cut", "kill server", "stop server")
"""Of these four are drawn for the short version; the others take NATS away for long."""

ALL = (
    "kill", "kill", "kill", "stop", "stop", "stop", "drain", "drain", "join", "join", "cut", "cut", "cut",
    "kill server", "kill server", "stop server", "stop server", "cut routes", "outage", "kill all servers",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A web and how it is crawled while faults happen; `number` is the lab's."""

    seed: int
    hosts: int
    pages: int
    theta: float
    delay_s: float
    session_s: float
    outlasts_elections: bool
    """Whether T is longer than NATS takes to elect a leader, as it should be: then 2 T is enough for all."""
    apart: int
    """So many requests lie between two faults, at least."""
    number: int

    def say(self, what: str) -> None:
        """Print what has happened, with the lab's number: several crawls may be under way."""
        print(f"{self.number}: {what}", flush=True)


SHORT = Trial(
    seed=52, hosts=14, pages=200, theta=0.3, delay_s=0.6, session_s=4.0, outlasts_elections=False, apart=8, number=185
)  # fmt: skip
"""One address has hosts of two nodes; the largest host alone takes as long as the faults do."""

LONG = Trial(
    seed=31, hosts=24, pages=3300, theta=0.2, delay_s=1.0, session_s=Pace().silence_s, outlasts_elections=True,
    apart=40, number=186,
)  # fmt: skip
"""With the session that users have."""

SCHEDULE_LABS = (185, 188, 189)
"""The labs of schedules that run at a time: one takes 50 s, and 18 s of a processor."""


@dataclass
class Faults:
    """Does bad things to a cluster."""

    trial: Trial
    nodes: Cluster
    nats: Nats
    between: Relays
    routes: dict[int, list[Relay]]
    chance: random.Random
    links: dict[str, list[Relay]] = field(default_factory=dict)
    started_at: dict[str, float] = field(default_factory=dict)
    killed: list[tuple[str, float]] = field(default_factory=list)
    """Nodes and when they were killed, by the calendar."""

    def start(self, *names: str) -> None:
        """Start nodes whose links to NATS can be cut. It takes a while until they are `ready`."""
        for name in names:
            if name not in self.links:
                places = self.nats.servers._servers
                self.links[name] = [self.between.to(place.address, place.client) for place in places]
            self.nodes.urls[name] = [f"nats://{ADDRESS}:{relay.port}" for relay in self.links[name]]
            self.nodes.addresses[name] = f"127.79.0.{list(self.links).index(name) + 1}"
            self.started_at[name] = time.time()
            self.nodes.start(name)

    def ready(self) -> list[str]:
        """The nodes that are part of the cluster by now."""
        told = {name: self.nodes.data(name) / "cluster.json" for name in sorted(self.nodes.processes)}
        return [name for name, file in told.items() if file.exists() and file.stat().st_mtime > self.started_at[name]]

    def is_over(self) -> bool:
        """Whether all nodes have left, for nothing is left to do."""
        return all(process.poll() is not None for process in self.nodes.processes.values())

    def do(self, deed: str) -> None:
        needed = len(self.nodes.processes) if deed in OF_NATS else 2  # without NATS no node can be started
        until(lambda: len(self.ready()) >= needed)
        getattr(self, deed.replace(" ", "_"))()

    def _someone(self) -> str:
        return self.chance.choice(self.ready())

    def _owner(self) -> str:
        """A node that keeps cells, as another sees it."""
        name = self._someone()
        until(lambda: bool(self.owners(name).intersection(self.ready())) or self.is_over())
        return self.chance.choice(sorted(self.owners(name).intersection(self.ready())) or [name])

    def owners(self, seen_by: str) -> set[str | None]:
        return {cell.keeper for cell in self._view(seen_by).cells}

    def _view(self, of: str) -> ClusterView:
        return cluster_source(open_root(self.nodes.data(of)), WallClock()).view()

    def kill(self) -> None:
        name = self._owner()
        self.killed.append((name, time.time()))
        self.nodes.kill(name)
        until(lambda: self._others_have_all(name) or self.is_over(), within_s=90)
        self.start(name)

    def _others_have_all(self, gone: str) -> bool:
        view = self._view(self.ready()[0])
        is_known = all(node.is_gone for node in view.nodes if node.name == gone)
        return is_known and bool(view.cells) and all(cell.keeper not in {gone, None} for cell in view.cells)

    def stop(self) -> None:
        process = self.nodes.processes[self._someone()]
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 2.0) * self.trial.session_s)  # a fault of this length
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
        assert leaving.returncode == 0, self.nodes.log_text(name)
        self.start(name)

    def join(self) -> None:
        self.start(f"x{len(self.links)}")

    def cut(self) -> None:
        self._cut(self.links[self._someone()], self.chance.uniform(0.5, 2.0) * self.trial.session_s)

    def cut_routes(self) -> None:
        """Cut one server from the other two; nodes at it have to find that out."""
        self._cut(self.routes[self.chance.randrange(3)], 2 * self.trial.session_s)

    def _cut(self, links: list[Relay], seconds: float) -> None:
        self.between.cut(links)
        time.sleep(seconds)  # a fault of this length
        self.between.reconnect(links)

    def kill_server(self) -> None:
        os.kill(self.nats.servers.process_of(self.chance.randrange(3)), signal.SIGKILL)

    def stop_server(self) -> None:
        with self._stopped(self.chance.randrange(3)):
            time.sleep(self.chance.uniform(0.5, 1.5) * self.trial.session_s)  # a fault of this length

    def kill_all_servers(self) -> None:
        with self._nobody_dies():
            for at in range(3):
                os.kill(self.nats.servers.process_of(at), signal.SIGKILL)

    def outage(self) -> None:
        """NATS is away for longer than a session."""
        with self._nobody_dies(), self._stopped(0), self._stopped(1), self._stopped(2):
            time.sleep(2 * self.trial.session_s)  # a fault of this length

    @contextmanager
    def _nobody_dies(self) -> Iterator[None]:
        """NATS goes away in the block: nobody is declared dead for that, also not when it is back."""
        deaths = self.deaths()
        yield
        time.sleep(self.trial.session_s)  # nobody is declared dead in that time
        assert self.deaths() == deaths

    @contextmanager
    def _stopped(self, at: int) -> Iterator[None]:
        process = self.nats.servers.process_of(at)
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # whoever looks after the servers has put another in its place
                os.kill(process, signal.SIGCONT)

    def deaths(self) -> int:
        """How often a node was declared dead so far."""
        return sum(
            self.nodes.log_text(path.stem).count("declared dead node=") for path in self.nodes.folder.glob("*.err")
        )


def endure(folder: Path, trial: Trial, deeds: Sequence[str], chance: random.Random) -> None:
    """Crawl a web while faults happen, and compare what was found and asked with what one machine finds."""
    spec = SPEC.format(**asdict(trial))
    with running_lab(folder, spec, trial.number) as lab, relays() as between:
        alone = by_one_machine(lab, folder, 0.0)
        since = lab.requests()
        routes: dict[int, list[Relay]] = {}

        def prepare(servers: NatsServers) -> None:
            routes.update(with_relayed_routes(servers, between))

        for nats in run_servers(folder / "nats", 3, prepare):
            with cluster(folder, nats, lab, trial.delay_s, trial.session_s) as nodes, pulse(nats) as answers:
                faults = Faults(trial, nodes, nats, between, routes, chance)
                suffer(faults, deeds, lab, since)
                nodes.finish(within_s=600)
                epochs = read_epochs_now(nats)
                check_takeovers(faults, epochs, answers)
                expected, found = facts(alone, depths=False), facts(nodes.known(), depths=False)
                differ = {url: (expected.get(url), found.get(url)) for url in expected.keys() | found.keys()}
                assert {url: both for url, both in differ.items() if both[0] != both[1]} == {}, deeds
        check_requests(faults, epochs, lab, since)


def check_takeovers(faults: Faults, epochs: Mapping[int, Sequence[CellEpoch]], answers: Pulse) -> None:
    """Every cell of a node that was killed was open at another within 2 T of the death, T being what users have."""
    opened, trial = opened_at(faults.nodes), faults.trial
    for name, died_s in faults.killed:
        took = takeovers_s(epochs, opened, name, died_s)
        longest_s = max(took.values(), default=0.0)
        away_s = answers.away_s(died_s, died_s + longest_s)
        proofs_s = (
            PROOFS * Pace.for_silence(trial.session_s).beat_s if away_s else 0.0
        )  # for nobody's silence counted meanwhile
        most_s = 2 * trial.session_s + BUSY_S + away_s + proofs_s
        trial.say(f"take-over of {name}: {longest_s:.2f} s, T={trial.session_s:g}, NATS away {away_s:.1f} s")
        assert longest_s <= (2 * trial.session_s if trial.outlasts_elections else most_s), took


def check_requests(faults: Faults, epochs: Mapping[int, Sequence[CellEpoch]], lab: Lab, since: int) -> None:
    """Only what was under way when a cell was lost was asked for again, and nobody was asked early."""
    pages = requested_pages(lab, since)
    repeats = Counter({page: count - 1 for page, count in pages.items() if count > 1})
    entries, delay_s = lab.settled_entries()[since:], faults.trial.delay_s
    names = {address: name for name, address in faults.nodes.addresses.items()}
    note_requests(epochs, entries, names, cell_starts(CELLS))
    whole = [epoch for each in epochs.values() for epoch in each if epoch.is_released]
    lost = lost_epochs(epochs)
    in_flight = sum((epoch.in_flight for epoch in [*lost, *whole]), Counter[str]())
    faults.trial.say(
        f"pages={len(pages)} repeated={repeats.total()} in flight={in_flight.total()} cells lost={len(lost)}"
    )
    assert repeats <= in_flight, repeats - in_flight
    dropped = [epoch.dropped(GRACE_S - ON_ITS_WAY_S) for epoch in whole]
    assert not any(dropped), dropped  # what is handed over is handed over whole, but for what nobody waits for
    for epoch in [*lost, *whole]:
        of_hosts = Counter(page.partition("/")[0] for page in epoch.in_flight.elements())
        assert all(many <= AHEAD for many in of_hosts.values()), of_hosts
    assert early_requests(entries, delay_s, lambda entry: entry.host) == []
    assert early_requests(entries, delay_s, lambda entry: entry.address) == []


def suffer(faults: Faults, deeds: Sequence[str], lab: Lab, since: int) -> None:
    """Start three nodes and let one fault after the other happen, each after some more requests."""
    faults.start(*"abc")
    until(lambda: faults.ready() == list("abc") and faults.owners("a") == set("abc"))
    goal, began = lab.requests(), time.monotonic()
    for deed in deeds:
        until(lambda: lab.requests() >= goal or faults.is_over(), within_s=90)  # noqa: B023
        goal = lab.requests() + faults.trial.apart
        faults.do(deed)
        faults.trial.say(f"{deed}: {time.monotonic() - began:.1f} s, {lab.requests() - since} requests")


def drawn(faults: Sequence[str], count: int, seed: int = 0) -> tuple[list[str], random.Random]:
    """Some faults, by chance, and the chance that goes on."""
    seed = seed or int(os.environ.get("FAULTS_SEED", "1"))
    chance = random.Random(seed)
    deeds = chance.sample(faults, count)
    print(f"\nseed={seed} {deeds}")
    return deeds, chance


@pytest.mark.timeout(400)
def test_four_faults_in_one_crawl_lose_no_url_and_hurt_no_host(tmp_path: Path) -> None:
    endure(tmp_path, SHORT, *drawn(FEW, 4))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_twenty_faults_in_one_crawl_lose_no_url_and_hurt_no_host(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    endure(tmp_path, LONG, *drawn(ALL, len(ALL)))
    record_property("figure 5", f"{len(ALL)} faults of nodes and servers in one crawl: 0 early requests")
    record_property("figure 9", f"{len(ALL)} faults of nodes and servers in one crawl: 0 URLs lost, 0 double commits")


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_two_hundred_schedules_of_faults_lose_no_url_and_hurt_no_host(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Figure 9. `FAULTS_SCHEDULES` gives another number; each takes a minute, most of it in waiting."""
    schedules = int(os.environ.get("FAULTS_SCHEDULES", "200"))
    seeds = iter(range(1, schedules + 1))

    def take_seeds(number: int) -> int:
        """Take one schedule after another, with a lab of one's own."""
        done = 0
        for seed in seeds:
            folder = tmp_path / f"{seed}"
            folder.mkdir()
            try:
                endure(folder, replace(SHORT, number=number), *drawn(FEW, 4, seed))
            except BaseException as error:
                error.add_note(f"FAULTS_SEED={seed}, lab {number}")
                for _ in seeds:  # the others end with theirs
                    pass
                raise
            shutil.rmtree(folder)
            done += 1
        return done

    with ThreadPoolExecutor(len(SCHEDULE_LABS)) as threads:
        assert sum(threads.map(take_seeds, SCHEDULE_LABS)) == schedules
    said = "schedules of four faults each on three to five nodes: 0 URLs lost, 0 double commits, taken over in time"
    record_property("figure 9", f"{schedules} {said}")


# ---- politeness ------------------------------------------------------------------------------------------------------

POLITE = """
seed = 77
hosts = {hosts}
pages = {pages}

[sites]
theta = 0.2
nxdomain = 0
unreachable = 0

[errors]
scale = 1.0
silent_s = 5.0
unavailable = {unavailable}

[robots]
present = 1.0
excluded = 0.02
crawl_delay = 0.0

[changes]
slowest = 0
fastest = 0
"""
RETRY_AFTER_S = 120.0
"""What the lab's servers send with a 503."""

UNAVAILABLE = 0.0005
"""Share of URLs that send it. Each is tried again, and its host waits every time: with more a host takes all night."""

FETCHES = int(os.environ.get("FETCHES", "100000"))


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_a_hundred_thousand_fetches_by_three_nodes_and_twenty_kills_hurt_no_host(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Figure 5: judged by the lab's log alone. `FETCHES` gives another number."""
    kills, hosts = min(20, 1 + FETCHES // 5_000), max(20, FETCHES // 250)
    trial = Trial(77, hosts, FETCHES, 0.2, 0.5, Pace().silence_s, True, FETCHES // (2 * kills), 187)
    spec = POLITE.format(hosts=hosts, pages=FETCHES, unavailable=max(UNAVAILABLE, 5 / FETCHES))
    with running_lab(tmp_path, spec, trial.number, truth=True) as lab, relays() as between:
        for nats in run_servers(tmp_path / "nats", 3):
            with cluster(tmp_path, nats, lab, trial.delay_s, trial.session_s) as nodes:
                faults = Faults(trial, nodes, nats, between, {}, random.Random(5))
                suffer(faults, ["kill"] * kills, lab, 0)
                until(lambda: lab.requests() >= FETCHES or faults.is_over(), within_s=3 * 3600)  # noqa: B023
                nodes.stop()  # the last hosts, which fail often, would take twice as long as all others
        entries = lab.settled_entries()
        refused = {split(url)[1::2] for url, line in lab.truth().items() if not line["robots_allowed"]}
    assert len(entries) >= FETCHES
    assert refused
    assert not [entry for entry in entries if (entry.host, entry.path) in refused], "disallowed"
    for server_of in (lambda entry: entry.host, lambda entry: entry.address):
        assert early_requests(entries, trial.delay_s, server_of) == []
    early, asked_to_wait = before_retry_after(entries), sum(entry.status == 503 for entry in entries)
    assert not early, early[:3]
    assert asked_to_wait, "no server has sent a Retry-After"
    said = f"fetches by three nodes under {kills} kills: 0 disallowed, 0 early, 0 before a Retry-After"
    record_property("figure 5", f"{asked_to_wait} answers with Retry-After: 0 requests before its time")
    record_property("figure 5", f"{len(entries)} {said}")


def before_retry_after(entries: Sequence[RequestLogEntry]) -> list[tuple[RequestLogEntry, RequestLogEntry]]:
    """Return the requests that a host got before the Retry-After of its last 503 was over."""
    last: dict[str, RequestLogEntry] = {}
    found = []
    for entry in sorted(entries, key=lambda entry: entry.start_s):
        before = last.get(entry.host)
        if before is not None and before.status == 503 and entry.start_s < before.end_s + RETRY_AFTER_S - TOLERANCE_S:
            found.append((before, entry))
        last[entry.host] = entry
    return found
