"""A cell's log in NATS: one keeper, whole commits, no doubt about what became of one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.cluster.cells.log import (
    MAX_BODY_BYTES,
    MAX_CELLS,
    MAX_MESSAGES,
    CellLog,
    CellLost,
    LinkBatch,
    LogEntry,
    TooLarge,
)
from teia.cluster.nats.wire import Wire
from teia.errors import ClusterError
from tests.cluster.conftest import Nats
from tests.waiting import until, until_async


def log_of(
    nats: Nats, wire: Wire, name: str, node: str, cell: int = 7, is_over: Callable[[], bool] = lambda: False
) -> CellLog:
    return CellLog(wire, nats.clock, name, cell, node, f"{node}-1", is_over)


async def read(log: CellLog, after: int, until: int) -> list[LogEntry]:
    return [entry async for entry in log.replay(after, until)]


async def links_of(log: CellLog, count: int) -> list[LinkBatch]:
    found: list[LinkBatch] = []
    async with asyncio.timeout(20):
        async for bulk in log.links(0):
            found.append(bulk)
            if len(found) == count:
                break
    return found


async def bulks_waiting(nats: Nats, wire: Wire, name: str) -> int:
    info = await wire.js.stream_info(f"TEIA_{name}", subjects_filter=f"{name}.links.*")
    return sum((info.state.subjects or {}).values())


def test_records_are_read_as_they_were_written(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        assert await log.head() is None
        epoch = await log.take(None)
        numbers = [await log.append(f"commit {n}".encode()) for n in range(20)]
        entries = await read(log, 0, log.last)
        assert [entry.seq for entry in entries] == [epoch, *numbers]
        assert [entry.body for entry in entries[1:]] == [f"commit {n}".encode() for n in range(20)]
        assert {entry.record.epoch for entry in entries[1:]} == {epoch}
        assert [entry.seq for entry in await read(log, numbers[9], log.last)] == numbers[10:]

    nats.run(main())


@pytest.mark.parametrize("heard", [0, 2])
def test_a_subscription_that_went_deaf_is_made_anew_where_more_records_must_come(
    nats: Nats, monkeypatch: pytest.MonkeyPatch, heard: int
) -> None:
    """A node that was opening its cells when NATS went away waited for their records for ever, and so did the crawl."""
    monkeypatch.setattr("teia.cluster.cells.log.DEAF_S", 0.2)
    follow, calls = CellLog._follow, list[int]()

    async def deaf_at_first(log: CellLog, kinds: list[str], after: int, is_over: Callable[[], bool]) -> Any:
        calls.append(after)
        left = heard if len(calls) == 1 else 100
        async with aclosing(follow(log, kinds, after, is_over)) as messages:
            while left:
                yield await anext(messages)
                left -= 1
        await until_async(is_over, "the reader gives the subscription up")

    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        epoch = await log.take(None)
        large = b"x" * (2 * MAX_BODY_BYTES + 1)
        written = [await log.append(body) for body in (b"first", large, b"third")]
        monkeypatch.setattr(CellLog, "_follow", deaf_at_first)
        found = await read(log, 0, written[-1])
        assert [(each.seq, each.body) for each in found] == [
            (epoch, b""), (written[0], b"first"), (written[1], large), (written[2], b"third"),
        ]  # fmt: skip
        assert calls == [0, 0 if heard == 0 else written[0]]

    nats.run(main())


def test_records_over_a_line_that_is_slower_than_the_patience_are_read(
    nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new subscription begins at the last record, so that one of ten seconds would never be read."""
    monkeypatch.setattr("teia.cluster.cells.log.DEAF_S", 0.05)
    follow = CellLog._follow

    async def slow(log: CellLog, kinds: list[str], after: int, is_over: Callable[[], bool]) -> Any:
        async with aclosing(follow(log, kinds, after, is_over)) as messages:
            async for message in messages:
                comes_at = nats.clock.ticks_s() + 0.15
                await until_async(lambda: is_over() or nats.clock.ticks_s() >= comes_at)  # noqa: B023
                if is_over():
                    return
                yield message

    async def main() -> None:
        wire = await nats.wire()
        log = log_of(nats, wire, await nats.stream(wire), "a")
        await log.take(None)
        written = [await log.append(body) for body in (b"first", b"second")]
        monkeypatch.setattr(CellLog, "_follow", slow)
        assert [each.seq for each in await read(log, 0, written[-1])][1:] == written

    nats.run(main())


def test_a_stale_owners_commit_is_refused(nats: Nats) -> None:
    """Issue 7, NATS.md 3.2: from the instant another takes the cell, by the server, with its links."""

    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        old, new = log_of(nats, wire, name, "a"), log_of(nats, wire, name, "b")
        await old.take(None)
        await old.append(b"mine")
        epoch = await new.take(await new.head())
        assert epoch > old.epoch
        for links in ([], [(3, b"stray"), (4, b"stray")]):
            with pytest.raises(CellLost, match="b owns it since"):
                await old.append(b"stale", links)
        await new.append(b"theirs")
        bodies = [entry.body for entry in await read(new, 0, new.last)]
        assert bodies == [b"", b"mine", b"", b"theirs"]
        assert await bulks_waiting(nats, wire, name) == 0

    nats.run(main())


def test_of_two_that_take_a_cell_at_once_one_does(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        for cell in range(10):
            logs = [log_of(nats, wire, name, node, cell) for node in "abcd"]
            answers = await asyncio.gather(*(log.take(None) for log in logs), return_exceptions=True)
            assert sum(isinstance(answer, int) for answer in answers) == 1
            assert sum(isinstance(answer, CellLost) for answer in answers) == 3

    nats.run(main())


def test_links_go_with_their_record_to_the_cells_they_are_for(nats: Nats) -> None:
    """A3: all or nothing with the page they were found on."""

    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        await log.take(None)
        for n in range(5):
            await log.append(b"page", [(3, f"for 3, {n}".encode()), (4, b"for 4")])
        three = log_of(nats, wire, name, "b", 3)
        bulks = await links_of(three, 5)
        assert [bulk.data for bulk in bulks] == [f"for 3, {n}".encode() for n in range(5)]
        await three.purge_links(bulks[2].seq)
        assert [bulk.data for bulk in await links_of(three, 2)] == [b"for 3, 3", b"for 3, 4"]
        assert log.messages == 1 + 5 * 3

    nats.run(main())


def test_a_commit_reaches_every_cell_of_a_large_collection(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        await log.take(None)
        await log.append(b"a page", [(cell, b"links") for cell in range(MAX_CELLS)])
        assert log.messages == 1 + MAX_CELLS + 1
        with pytest.raises(TooLarge):
            await log.append(b"pages", [(cell, b"links") for cell in range(MAX_MESSAGES)])
        assert [entry.body for entry in await read(log, log.epoch, log.last)] == [b"a page"]

    nats.run(main())


def test_a_body_larger_than_a_message_comes_back_whole(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        await log.take(None)
        bodies = [os.urandom(size) for size in (0, 1, MAX_BODY_BYTES, MAX_BODY_BYTES + 1, 3 * MAX_BODY_BYTES + 7)]
        for body in bodies:
            await log.append(body)
        assert [entry.body for entry in await read(log, log.epoch, log.last)] == bodies
        with pytest.raises(ClusterError, match="too large for NATS"):
            await log.append(b"", [(n, b"") for n in range(MAX_MESSAGES)])
        await log.append(b"goes on")

    nats.run(main())


def test_commits_during_an_outage_are_stored_once(own_nats: Nats) -> None:
    """NATS.md 3.2.6: an answer that does not come leaves no doubt in the end, whatever had happened."""

    async def main() -> None:
        wire = await own_nats.wire()
        name = await own_nats.stream(wire)
        log = log_of(own_nats, wire, name, "a")
        await log.take(None)
        server = own_nats.servers.process_of(0)

        async def fail() -> None:
            await asyncio.sleep(0.2)  # some commits go through
            os.kill(server, signal.SIGSTOP)
            await asyncio.sleep(2.5)  # longer than an answer may take
            os.kill(server, signal.SIGCONT)
            await asyncio.sleep(1.0)  # some more go through
            os.kill(server, signal.SIGKILL)

        failing = asyncio.create_task(fail())
        sent = []
        while not failing.done() or len(sent) < 20:
            body = f"commit {len(sent)}".encode()
            await log.append(body, [(3, body)])
            sent.append(body)
            await asyncio.sleep(0.005)  # one commit after the other
        await failing
        await log.append(b"last", [(3, b"last")])
        entries = await read(log, log.epoch, log.last)
        assert [entry.body for entry in entries] == [*sent, b"last"]
        three = log_of(own_nats, wire, name, "b", 3)
        assert [bulk.data for bulk in await links_of(three, len(sent) + 1)] == [*sent, b"last"]

    own_nats.run(main())


def is_stopped(process: int) -> bool:
    stats = [path.read_text("utf-8") for path in Path(f"/proc/{process}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_a_commit_is_given_up_when_the_session_is_over(own_nats: Nats) -> None:
    async def main() -> None:
        over: list[bool] = []
        wire = await own_nats.wire()
        log = log_of(own_nats, wire, await own_nats.stream(wire), "a", is_over=lambda: bool(over))
        await log.take(None)
        server = own_nats.servers.process_of(0)
        os.kill(server, signal.SIGSTOP)
        try:
            # Each of its threads stops when it runs next; until then one may still answer.
            until(lambda: is_stopped(server), "it is stopped")
            waiting = asyncio.create_task(log.append(b"never"))
            await asyncio.sleep(0.5)  # it waits for an answer
            over.append(True)
            with pytest.raises(CellLost):
                async with asyncio.timeout(20):
                    await waiting
        finally:
            os.kill(server, signal.SIGCONT)

    own_nats.run(main())


def test_a_gap_in_the_records_is_not_read_over(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        epoch = await log.take(None)
        numbers = [await log.append(b"x") for _ in range(5)]
        await wire.js.purge_stream(f"TEIA_{name}", subject=f"{name}.log.7", seq=numbers[2])
        with pytest.raises(ClusterError, match="a snapshot is needed"):
            await read(log, epoch, log.last)
        assert len(await read(log, numbers[1], log.last)) == 3

    nats.run(main())


def test_records_of_another_version_are_refused(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        name = await nats.stream(wire)
        log = log_of(nats, wire, name, "a")
        for data, says in ((msgspec.msgpack.encode([9, "commit", "a", "b", "c"]), "version 9"), (b"?", "be read")):
            await wire.js.publish(f"{name}.log.7", data)
            with pytest.raises(ClusterError, match=says):
                await log.head()

    nats.run(main())


def test_a_cell_that_was_given_up_takes_no_more(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        log = log_of(nats, wire, await nats.stream(wire), "a")
        await log.take(None)
        await log.release(to="b")
        head = await log.head()
        assert head is not None
        assert (head.record.kind, head.record.to) == ("release", "b")
        with pytest.raises(CellLost, match="given up"):
            await log.append(b"late")

    nats.run(main())
