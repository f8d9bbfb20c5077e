"""Who keeps which cell: shared out, taken over, never by two, and never lost to an outage."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from teia.clock import VirtualClock
from teia.cluster.cells.log import CellLog, CellLost, LogEntry, StreamFull
from teia.cluster.cells.owner import FIRST_MOST_S, CellOwner
from teia.cluster.members.session import NodeSession, NodeState, Pace
from teia.cluster.nats.wire import NoAnswer
from tests.cluster.conftest import PACE, STALL_S, Nats
from tests.conftest import ROOT
from tests.waiting import until_async

CELLS = 6


def in_turn(cell: int, alive: Mapping[str, NodeState]) -> Sequence[str]:
    """Cells go round the nodes in the order of their names."""
    names = sorted(alive)
    at = cell % len(names)
    return names[at:] + names[:at]


async def owner_of(nats: Nats, session: NodeSession, name: str) -> CellOwner:
    owner = CellOwner(session.wire, nats.clock, session, name, range(CELLS), in_turn, rank_wait_s=0.5)
    session.on_lost = lambda why: owner.drop_all()
    return owner


@contextmanager
def tending(*owners: CellOwner) -> Iterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.get_running_loop().create_task(owner.run(lambda cell: None)) for owner in owners]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()


def are_shared_out(owners: Sequence[CellOwner]) -> bool:
    return sorted(cell for owner in owners for cell in owner.owned) == list(range(CELLS))


@pytest.fixture
def lonely(own_nats: Nats) -> Nats:
    """A server of one's own, where nobody else's nodes are among those that live."""
    return own_nats


def test_cells_are_shared_out_and_each_has_one_owner(lonely: Nats) -> None:
    """A2: no server is ever visited by two nodes."""

    async def main() -> None:
        sessions = [await lonely.node(letter) for letter in "abc"]
        await until_async(lambda: all(len(session.alive()) == 3 for session in sessions))
        name = await lonely.stream(sessions[0].wire)
        owners = [await owner_of(lonely, session, name) for session in sessions]
        with tending(*owners):
            await until_async(lambda: are_shared_out(owners))
            assert [sorted(owner.owned) for owner in owners] == [[0, 3], [1, 4], [2, 5]]
            assert all(owner.may_fetch(cell) for owner in owners for cell in owner.owned)
            assert not owners[0].may_fetch(1)
            assert [owner.misplaced_cells() for owner in owners] == [{}, {}, {}]
        for session in sessions:
            await session.leave()

    lonely.run(main())


def test_cells_of_a_dead_node_are_taken_over(lonely: Nats) -> None:
    """Issue 7: the dead node's later commits are refused. How long it takes with T as users have it: test_faults.py."""

    async def main() -> None:
        sessions = [await lonely.node(letter) for letter in "abc"]
        await until_async(lambda: all(len(session.alive()) == 3 for session in sessions))
        name = await lonely.stream(sessions[0].wire)
        owners = [await owner_of(lonely, session, name) for session in sessions]
        with tending(*owners) as tasks:
            await until_async(lambda: are_shared_out(owners))
            tasks[2].cancel()
            died_at = lonely.clock.ticks_s()
            await sessions[2].abandon()
            stale = dict(owners[2].owned)
            await until_async(lambda: are_shared_out(owners[:2]))
            assert lonely.clock.ticks_s() - died_at <= 2 * PACE.silence_s + STALL_S
            assert not any(owners[2].may_fetch(cell) for cell in stale)
            for log in stale.values():
                with pytest.raises(CellLost):
                    await log.append(b"from beyond")
        for session in sessions[:2]:
            await session.leave()

    lonely.run(main())


def test_a_node_that_leaves_hands_its_cells_over_at_once(lonely: Nats) -> None:
    """Nobody waits for its silence, which would be longer than the test does."""

    async def main() -> None:
        sessions = [await lonely.node(letter, pace=Pace(60, 0.25, 5)) for letter in "ab"]
        await until_async(lambda: all(len(session.alive()) == 2 for session in sessions))
        name = await lonely.stream(sessions[0].wire)
        owners = [await owner_of(lonely, session, name) for session in sessions]
        with tending(*owners):
            await until_async(lambda: are_shared_out(owners))
            owners[1].is_leaving = True
            await owners[1].release(list(owners[1].owned))
            await sessions[1].leave()
            await until_async(lambda: len(owners[0].owned) == CELLS)
        await sessions[0].leave()

    lonely.run(main())


def test_cells_that_never_had_an_owner_wait_for_nodes_that_are_starting() -> None:
    """Issue 7, messages a page: nodes that start together share cells out before they begin, and hand none over."""
    clock = VirtualClock()
    alive = {"a": NodeState("a", "1"), "b": NodeState("b", "2")}
    session: Any = SimpleNamespace(node=alive["a"], alive=lambda: alive, last_join_at=0.0)
    owner = CellOwner(Any, clock, session, "c", range(2), in_turn, 2.0, first_wait_s=1.0)  # type: ignore[arg-type]

    def ripe_after(last_join_at: list[float]) -> dict[int, float]:
        """By cell: after how many seconds it is ours to take, if nodes come at these."""
        owner.drop_all()
        began, ripe = clock.ticks_s(), dict[int, float]()
        for tenth in range(200):
            session.last_join_at = max([began + at for at in last_join_at if at <= tenth / 10], default=0.0)
            for cell in range(2):
                if owner._may_take(cell, None):
                    ripe.setdefault(cell, tenth / 10)
            asyncio.run(clock.advance(0.1))
        return ripe

    first, second = ripe_after([])[0], ripe_after([])[1]
    assert first == pytest.approx(1.0, abs=0.11)
    assert second == pytest.approx(1.0 + FIRST_MOST_S, abs=0.11)  # b may have begun a moment ago
    assert ripe_after([0.5])[0] == pytest.approx(1.5, abs=0.11)
    assert ripe_after([0.5, 1.2, 2.1])[0] == pytest.approx(3.1, abs=0.11)
    assert ripe_after([at / 2 for at in range(100)])[0] == pytest.approx(FIRST_MOST_S, abs=0.11)


def test_a_node_that_comes_is_given_its_share(lonely: Nats) -> None:
    async def main() -> None:
        one = await lonely.node("a")
        name = await lonely.stream(one.wire)
        first = await owner_of(lonely, one, name)
        with tending(first):
            await until_async(lambda: len(first.owned) == CELLS)
            two = await lonely.node("b")
            second = await owner_of(lonely, two, name)
            await until_async(lambda: len(first.misplaced_cells()) == 3 and len(two.alive()) == 2)
            with tending(second):
                gone = first.misplaced_cells()
                assert gone == {1: "b", 3: "b", 5: "b"}
                await first.release(list(gone), gone)
                await until_async(lambda: sorted(second.owned) == [1, 3, 5])
                assert sorted(first.owned) == [0, 2, 4]
            await two.leave()
        await one.leave()

    lonely.run(main())


def test_the_moment_a_cell_was_taken_is_known_before_it_is_kept_whatever_another_one_says(lonely: Nats) -> None:
    """Its hosts rest from then on: another cell that cannot be looked at, or taken, must not make that forgotten."""

    class Silent(CellLog):
        async def head(self) -> LogEntry | None:
            raise NoAnswer("NATS does not respond")

    class Full(CellLog):
        async def take(self, head: LogEntry | None) -> int:
            raise StreamFull("the stream is full")

    async def main() -> None:
        session = await lonely.node("a")
        await until_async(lambda: session.has_watched)
        for kind, problem in ((Silent, NoAnswer), (Full, StreamFull)):
            owner = await owner_of(lonely, session, await lonely.stream(session.wire))
            owner.log_of = log_of_kind(owner, 2, kind)  # type: ignore[method-assign]
            told: list[tuple[int, bool]] = []
            with pytest.raises(problem):
                await owner.take_free_cells(lambda cell: told.append((cell, cell in owner.owned)))  # noqa: B023  # called now
            others = [cell for cell in range(CELLS) if cell != 2]
            assert sorted(told) == [(cell, False) for cell in others]
            assert sorted(owner.owned) == others
        await session.leave()

    lonely.run(main())


def log_of_kind(owner: CellOwner, number: int, kind: type[CellLog]) -> Callable[[int], CellLog]:
    """As the keeper's own, but one cell's log is of another kind."""
    usual = owner.log_of

    def log_of(cell: int) -> CellLog:
        log = usual(cell)
        if cell == number:
            log.__class__ = kind
        return log

    return log_of


def test_a_cell_that_was_dropped_and_is_nobody_elses_is_taken_again(lonely: Nats) -> None:
    """As after a full disk: the file has to be opened anew, under a new epoch."""

    async def main() -> None:
        session = await lonely.node("a")
        owner = await owner_of(lonely, session, await lonely.stream(session.wire))
        with tending(owner):
            await until_async(lambda: len(owner.owned) == CELLS)
            dropped = owner.owned.pop(3)
            await until_async(lambda: 3 in owner.owned)
            assert owner.owned[3].epoch > dropped.epoch
            with pytest.raises(CellLost):
                await dropped.append(b"late")
        await session.leave()

    lonely.run(main())


def test_an_outage_of_nats_makes_nobody_lose_a_cell(lonely: Nats) -> None:
    """Issue 7. The same epochs before and after, twice the session time away."""

    async def main() -> None:
        pace = Pace.for_silence(3.0)  # a client looks for the server each half second: its three beats must be longer
        sessions = [await lonely.node(letter, pace=pace) for letter in "ab"]
        await until_async(lambda: all(len(session.alive()) == 2 for session in sessions))
        name = await lonely.stream(sessions[0].wire)
        owners = [await owner_of(lonely, session, name) for session in sessions]
        server = lonely.servers.process_of(0)
        with tending(*owners):
            await until_async(lambda: are_shared_out(owners))
            before = [{cell: log.epoch for cell, log in owner.owned.items()} for owner in owners]
            os.kill(server, signal.SIGSTOP)
            try:
                await until_async(lambda: not any(session.may_work for session in sessions))
                assert not any(owner.may_fetch(cell) for owner in owners for cell in owner.owned)
                await asyncio.sleep(pace.silence_s)  # away for longer than a session
            finally:
                os.kill(server, signal.SIGCONT)
            await until_async(lambda: all(session.may_work for session in sessions))
            await asyncio.sleep(pace.silence_s)  # nothing is taken from anybody in that time
            assert [{cell: log.epoch for cell, log in owner.owned.items()} for owner in owners] == before
            for owner in owners:
                for log in owner.owned.values():
                    await log.append(b"goes on")
        for session in sessions:
            await session.leave()

    lonely.run(main())


class Member:
    """A node in a process of its own (member.py) and what it says."""

    def __init__(self, nats: Nats, collection: str, name: str) -> None:
        servers = nats.servers
        pace = f"{PACE.silence_s},{PACE.beat_s},{PACE.margin_s}"
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.member", ",".join(servers.urls), str(servers.key), collection, name,
             pace, str(nats.count)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append({**json.loads(line), "at": time.monotonic()})

    def commits(self) -> list[dict[str, Any]]:
        return [each for each in self.said if "seq" in each]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._listening.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def members(nats: Nats, collection: str, *names: str) -> Iterator[list[Member]]:
    started: list[Member] = []
    try:
        started += [Member(nats, collection, name) for name in names]
        yield started
    finally:
        for member in started:
            member.end()


def test_an_owner_that_was_stopped_wakes_up_as_nobody(lonely: Nats) -> None:
    """RELIABILITY 51 and figure 9: SIGSTOP for longer than a session; 0 double commits, and it knows."""

    async def main() -> None:
        wire = await lonely.wire()
        name = await lonely.stream(wire)
        with members(lonely, name, "a") as (one,), ExitStack() as stack:
            await until_async(lambda: len({each["cell"] for each in one.commits()}) == 4)
            (two,) = stack.enter_context(members(lonely, name, "b"))
            await until_async(lambda: any("joined" in each for each in two.said))
            os.kill(one.process.pid, signal.SIGSTOP)
            stopped_at = time.monotonic()
            await until_async(lambda: len({each["cell"] for each in two.commits()}) == 4)
            took_s = min(each["at"] for each in two.commits()) - stopped_at
            assert took_s <= 2 * PACE.silence_s + STALL_S
            os.kill(one.process.pid, signal.SIGCONT)
            await until_async(lambda: any("lost" in each for each in one.said))
            theirs = {(each["cell"], each["seq"]) for each in two.commits()}
            mine = {(each["cell"], each["seq"]) for each in one.commits()}
        assert not mine & theirs
        for cell in range(4):
            await check_one_keeper_at_a_time(CellLog(wire, lonely.clock, name, cell, "reader", "r"))

    lonely.run(main())


async def check_one_keeper_at_a_time(log: CellLog) -> None:
    """Whoever commits does so within its own reign: between its epoch and the next."""
    head = await log.head()
    assert head is not None
    reign = ("", 0)
    async for entry in log.replay(0, head.seq):
        if entry.record.kind == "epoch":
            reign = (entry.record.node, entry.seq)
        else:
            assert (entry.record.node, entry.record.epoch) == reign


@pytest.mark.slow
def test_faults_of_nodes_and_servers_never_give_a_cell_two_owners(three_nats: Nats) -> None:
    """RELIABILITY figure 9, small: nodes stopped and killed, a NATS server killed, others restarted in between."""

    async def main() -> None:
        wire = await three_nats.wire()
        name = await three_nats.stream(wire)
        with members(three_nats, name, "a", "b", "c") as nodes:
            for fault in ("stop a", "kill server", "kill b", "stop server", "stop c"):
                deed, whom = fault.split()
                process = three_nats.servers.process_of(1) if whom == "server" else nodes["abc".index(whom)].process.pid
                os.kill(process, signal.SIGKILL if deed == "kill" else signal.SIGSTOP)
                await asyncio.sleep(1.5 * PACE.silence_s)  # longer than a session
                if deed == "stop":
                    os.kill(process, signal.SIGCONT)
                if whom != "server":
                    nodes["abc".index(whom)].end()
                    nodes["abc".index(whom)] = Member(three_nats, name, whom)
                before = sum(len(node.commits()) for node in nodes)
                await until_async(lambda: sum(len(node.commits()) for node in nodes) > before + 20, within_s=60)  # noqa: B023
        for cell in range(4):
            await check_one_keeper_at_a_time(CellLog(wire, three_nats.clock, name, cell, "reader", "r"))

    three_nats.run(main())
