"""Signals go straight to the owner of their page, which answers once it has them; until then they wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.clock import Clock, VirtualClock
from teia.cluster.crawl import signals
from teia.cluster.crawl.signals import ForwardedSignals, SignalExchange, SignalForwarding, store_forwarded
from teia.config.sections import Config
from teia.crawler.signals_in.announcements import Announcements
from teia.crawler.signals_in.indexnow import INDEXNOW, KEY_FILE, prove_keys, receive
from teia.errors import ClusterError
from teia.signals import announce
from teia.signals.announce import PROXY, Announcement, AnnouncementInbox, counts_in, open_inbox
from teia.signals.indexnow import IndexNowKeys, read_ping
from tests.cluster.conftest import Nats
from tests.waiting import until_async

KEY = "0123456789abcdef"
URL = "http://b.test/"
NOW_S = 1_000.0
PAGE = Announcement(URL, PROXY, 5.0, 6.0, 2)
OTHERS = SignalForwarding(lambda _: 7, lambda _: False).owners


def waiting(inbox: AnnouncementInbox, kind: str) -> list[Announcement]:
    return inbox.due(kind, 1e12, 10_000)


class Place:
    """A node's inbox and its exchange with others; `send` and `receive` run until the block is left."""

    def __init__(self, nats: Nats, wire: Any, collection: str, path: Path) -> None:
        self.path = path
        self.announced = Announcements([], [0], nats.clock)
        self.announced.prepare(path, Config(), lambda _: True)
        self.exchange = SignalExchange(wire, nats.clock, collection, self.announced)
        self.is_over = False

    def post(self, *pages: Announcement, cell: int = 7) -> None:
        with closing(open_inbox(self.path)) as inbox:
            SignalForwarding(lambda _: cell, lambda _: False).forward(inbox, PROXY, pages, NOW_S)

    def posted(self) -> int:
        with closing(open_inbox(self.path)) as inbox:
            return int(inbox.db.execute("SELECT count(*) FROM outgoing").fetchone()[0])

    def received(self) -> list[Announcement]:
        if not self.path.exists():
            return []
        with closing(open_inbox(self.path)) as inbox:
            return waiting(inbox, PROXY)

    @asynccontextmanager
    async def running(self, *cells: int) -> Any:
        """Send, and receive for these cells."""
        self.is_over = False
        works = [self.exchange.send(lambda: self.is_over), self.exchange.receive(cells, lambda: self.is_over)]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield self
        finally:
            self.is_over = True
            await asyncio.gather(*tasks)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "RETRY_S", 0.2)


async def places(nats: Nats, unique: str, tmp_path: Path) -> tuple[Place, Place]:
    a, b = [Place(nats, await nats.wire(name), unique, tmp_path / f"{name}.sqlite") for name in "ab"]
    return a, b


def test_a_signal_goes_to_the_owner_of_its_cell_and_is_forgotten_when_that_has_it(
    nats: Nats, unique: str, tmp_path: Path
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.post(PAGE)
        async with a.running(0), b.running(7):
            await until_async(lambda: not a.posted())
            assert b.received() == [PAGE]
            assert b.announced.has_forwarded
            assert b.announced.is_waiting
        assert not a.received()

    nats.run(main())


def test_signals_wait_in_order_for_an_owner_that_is_away_and_do_not_delay_those_of_others(
    nats: Nats, unique: str, tmp_path: Path
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        for number in range(3):
            a.post(PAGE._replace(url=f"{URL}{number}", seen_s=float(number)))
        a.post(PAGE, cell=3)
        async with a.running(0):
            async with b.running(3):
                await until_async(lambda: a.posted() == 3)
                assert b.received() == [PAGE]
            async with b.running(7):
                await until_async(lambda: not a.posted())
        assert [each.url for each in b.received()] == [f"{URL}0", f"{URL}1", f"{URL}2", URL]

    nats.run(main())


def test_signals_of_a_node_that_dies_are_sent_when_it_is_back(nats: Nats, unique: str, tmp_path: Path) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.post(PAGE)
        async with a.running(0):
            pass  # nobody was there
        assert a.posted() == 1
        again = Place(nats, await nats.wire("again"), unique, a.path)
        async with b.running(7), again.running(0):
            await until_async(lambda: not again.posted())
        assert b.received() == [PAGE]

    nats.run(main())


def test_an_owner_that_cannot_write_does_not_answer_and_gets_them_again(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = replace(announce.SCHEMA, pragmas=("PRAGMA busy_timeout = 10", "PRAGMA journal_mode = WAL"))
    monkeypatch.setattr(announce, "SCHEMA", impatient)

    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        open_inbox(b.path).close()
        other = sqlite3.connect(b.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        a.post(PAGE)
        async with a.running(0), b.running(7):
            await until_async(lambda: "not stored" in caplog.text)
            assert a.posted() == 1
            other.execute("ROLLBACK")
            other.close()
            await until_async(lambda: not a.posted())
        assert b.received() == [PAGE]

    nats.run(main())


def test_a_signal_whose_answer_was_lost_is_one_announcement_while_the_first_waits(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.post(PAGE)
        answers: list[int] = []
        client = a.exchange._wire.client
        request = client.request

        async def lost_once(*given: Any, **named: Any) -> Any:
            answer = await request(*given, **named)
            answers.append(1)
            if len(answers) == 1:
                raise TimeoutError
            return answer

        monkeypatch.setattr(client, "request", lost_once)
        async with a.running(0), b.running(7):
            await until_async(lambda: not a.posted())
        assert len(answers) == 2
        (page,) = b.received()
        assert page._replace(times=2) == PAGE

    nats.run(main())


def test_a_node_that_was_given_a_cell_sends_to_itself(nats: Nats, unique: str, tmp_path: Path) -> None:
    """What it posted to the cell's last owner waits in its own outbox."""

    async def main() -> None:
        a, _ = await places(nats, unique, tmp_path)
        a.post(PAGE)
        async with a.running(7):
            await until_async(lambda: not a.posted())
        assert a.received() == [PAGE]

    nats.run(main())


def test_a_message_that_cannot_be_read_is_reported_and_delays_no_other(
    nats: Nats, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        with closing(open_inbox(a.path)) as inbox:
            inbox.post(PROXY, 7, b"\xc1", 1, NOW_S)
        a.post(PAGE)
        async with a.running(0), b.running(7):
            await until_async(lambda: not a.posted())
        assert b.received() == [PAGE]
        assert "cannot be read" in caplog.text

    nats.run(main())


def test_a_file_that_cannot_be_opened_is_reported_and_tried_again(
    nats: Nats, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.path.write_bytes(b"no database" * 100)
        async with a.running(0), b.running(7):
            await until_async(lambda: "signals not sent" in caplog.text)
            a.path.unlink()
            a.post(PAGE)
            await until_async(lambda: not a.posted())
        assert b.received() == [PAGE]

    nats.run(main())


def test_a_message_that_nats_refuses_is_dropped_and_counted_and_delays_no_other(
    nats: Nats, unique: str, tmp_path: Path
) -> None:
    """It was sent again for good, before all later ones."""

    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.post(PAGE._replace(url=f"{URL}{'x' * 1_100_000}"))
        a.post(PAGE)
        async with a.running(0), b.running(7):
            await until_async(lambda: not a.posted())
        assert b.received() == [PAGE]
        assert counts_in(a.path)[PROXY] == {"passed_on": 1, "dropped": 1}

    nats.run(main())


def test_an_owner_that_hangs_delays_no_other_and_is_left_alone_for_a_while(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All owners waited for the slowest, which was asked again at once."""
    monkeypatch.setattr(signals, "RETRY_S", 1.0)

    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        a.exchange._wire.answer_s = 2.0
        requests: list[float] = []

        async def hang(_: object) -> None:
            requests.append(nats.clock.ticks_s())

        hanging = await b.exchange._wire.client.subscribe(f"{unique}.signals.7", cb=hang)
        a.post(PAGE)
        async with a.running(0), b.running(3):
            await until_async(lambda: bool(requests))
            a.post(PAGE._replace(url=f"{URL}other"), cell=3)
            await until_async(lambda: a.posted() == 1)
            assert nats.clock.ticks_s() < requests[0] + 1.5
            await until_async(lambda: len(requests) == 2)
            assert requests[1] - requests[0] >= 3.0  # the wait for the answer, and then RETRY_S
        await hanging.unsubscribe()

    nats.run(main())


def test_receiving_is_tried_again_after_an_error(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        client = b.exchange._wire.client
        subscribe = client.subscribe
        failures = [ClusterError("NATS has closed the connection"), ValueError("unforeseen")]

        async def fail_first(*given: Any, **named: Any) -> Any:
            if failures:
                raise failures.pop()
            return await subscribe(*given, **named)

        monkeypatch.setattr(client, "subscribe", fail_first)
        a.post(PAGE)
        async with a.running(0), b.running(7):
            await until_async(lambda: not a.posted())
        assert caplog.text.count("signals of other nodes not received") == 2

    nats.run(main())


def test_sending_that_is_cancelled_while_another_process_holds_the_file_does_not_block_the_loop(
    nats: Nats, unique: str, tmp_path: Path
) -> None:
    """The connection was closed in the loop that renews the session, behind its thread's wait for a lock."""

    async def main() -> None:
        a, b = await places(nats, unique, tmp_path)
        open_inbox(a.path).close()
        arrived = asyncio.Event()

        async def answer(message: Any) -> None:
            other.execute("BEGIN IMMEDIATE")  # so the answered message cannot be removed
            await message.respond(b"")
            arrived.set()

        other = sqlite3.connect(a.path, isolation_level=None)
        a.post(PAGE)
        await b.exchange._wire.client.subscribe(f"{unique}.signals.7", cb=answer)
        sending = asyncio.create_task(a.exchange.send(lambda: False))
        await arrived.wait()
        await asyncio.sleep(0.3)  # until its thread waits for the lock
        began = nats.clock.ticks_s()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(0)
        assert nats.clock.ticks_s() - began < 1.0
        other.execute("ROLLBACK")
        other.close()

    nats.run(main())


# ---- messages -------------------------------------------------------------------------------------------------------


def forward_keys(path: Path, clock: Clock) -> Iterator[ForwardedSignals]:
    """What a node posts that received pings and owns no host."""
    with closing(open_inbox(path)) as inbox:
        prove_keys(inbox, IndexNowKeys(inbox.db), _nobody, clock.now_s(), OTHERS)
        for (message,) in inbox.db.execute("SELECT message FROM outgoing ORDER BY number"):
            yield msgspec.msgpack.decode(message, type=ForwardedSignals)


def _nobody(host: str) -> Any:
    raise AssertionError(f"{host} is not crawled here")


def far(path: Path, clock: Clock) -> tuple[Announcements, Callable[[], AnnouncementInbox]]:
    announced = Announcements([], [0], clock)
    announced.prepare(path, Config(), lambda _: True)
    return announced, lambda: open_inbox(path)


def test_a_key_arrives_with_all_that_waits_for_it_once(tmp_path: Path) -> None:
    clock, urls = VirtualClock(), [f"{URL}p{number}" for number in range(401)]
    receive(tmp_path / "near.sqlite", read_ping(KEY, urls), clock)
    announced, opened = far(tmp_path / "far.sqlite", clock)
    for message in list(forward_keys(tmp_path / "near.sqlite", clock)) * 2:
        store_forwarded(announced, message, clock.now_s())
    with closing(opened()) as inbox:
        (key,) = IndexNowKeys(inbox.db).pending_keys(10)
        assert sorted(url for url, _ in IndexNowKeys(inbox.db).waiting_for(key)) == sorted(urls)
        assert [each.url for each in waiting(inbox, KEY_FILE)] == [f"{URL}{KEY}.txt"]


def test_pages_wait_for_their_key_since_they_were_told_and_are_received_once(tmp_path: Path) -> None:
    """However often the host's owner changes: else a week may begin anew each time."""
    clock, told = VirtualClock(), []
    for number in range(3):
        asyncio.run(clock.advance(60.0))
        told.append((f"{URL}p{number}", clock.now_s()))
        receive(tmp_path / "near.sqlite", read_ping(KEY, [f"{URL}p{number}"]), clock)
    messages = list(forward_keys(tmp_path / "near.sqlite", clock))
    with closing(open_inbox(tmp_path / "near.sqlite")) as inbox:
        assert inbox.counts()[INDEXNOW] == {"received": 3, "passed_on": 3}
    asyncio.run(clock.advance(3600.0))
    announced, opened = far(tmp_path / "far.sqlite", clock)
    for message in messages:
        store_forwarded(announced, message, clock.now_s())
    with closing(opened()) as inbox:
        keys = IndexNowKeys(inbox.db)
        (key,) = keys.pending_keys(10)
        assert key.since_s == clock.now_s()
        assert keys.waiting_for(key) == told
        assert not inbox.counts().get(INDEXNOW)
        keys.settle(key, is_proved=True, now_s=clock.now_s())
    for message in messages:
        store_forwarded(announced, message, clock.now_s())
    with closing(opened()) as inbox:
        assert sorted((each.url, each.reported_s) for each in waiting(inbox, INDEXNOW)) == told
