"""Children may crash, hang, spin or eat memory: one item is blamed, the others are answered, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop

from teia.clock import WallClock
from teia.config.sections import LimitSettings
from teia.errors import ParseError
from teia.parse.children import pool as pool_module
from teia.parse.children.child import JobLoader, LostAnswer
from teia.parse.children.pool import MAX_FAILED_STARTS, TRIES, ChildLimits, ChildPool
from teia.parse.children.spawn import ZygoteProcess
from tests.parse.jobs import missing, obedient, parsing
from tests.waiting import until_async

QUICK = ChildLimits(cpu_s=0.5, wall_s=30.0, memory_bytes=256 * 2**20)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limit_markup() -> None:
        await asyncio.wait_for(work(), 60)

    asyncio.run(limit_markup())


@asynccontextmanager
async def pool_of(
    children: int = 1, limits: ChildLimits = QUICK, job: JobLoader = obedient, probe: bytes | None = None
) -> AsyncIterator[ChildPool]:
    pool = ChildPool(job, children, limits, WallClock(), probe=probe)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


def ask(pool: ChildPool, payload: bytes) -> asyncio.Future[bytes | LostAnswer]:
    answer: asyncio.Future[bytes | LostAnswer] = asyncio.get_running_loop().create_future()
    pool.submit(payload, done=answer.set_result)
    return answer


def test_every_item_is_answered_with_its_own_answer() -> None:
    async def work() -> None:
        async with pool_of(children=2) as pool:
            payloads = [b"item %d" % number * (number % 50) for number in range(500)]
            answers = await asyncio.gather(*(ask(pool, payload) for payload in payloads))
            assert answers == [payload[::-1] for payload in payloads]
            assert pool.waiting == pool.waiting_bytes == 0

    run(work)


def test_items_larger_than_any_buffer_pass() -> None:
    async def work() -> None:
        async with pool_of() as pool:
            payloads = [bytes([number]) * (6 * 2**20) + b"end" for number in range(4)]
            assert await asyncio.gather(*(ask(pool, p) for p in payloads)) == [p[::-1] for p in payloads]

    run(work)


def test_waiting_counts_items_and_bytes_until_they_are_answered() -> None:
    async def work() -> None:
        async with pool_of() as pool:
            answers = [ask(pool, b"12345") for _ in range(40)]
            assert (pool.waiting, pool.waiting_bytes) == (40, 200)
            await asyncio.gather(*answers)
            assert (pool.waiting, pool.waiting_bytes) == (0, 0)

    run(work)


@pytest.mark.parametrize(
    ("poison", "reason"),
    [(b"crash", "signal 11"), (b"exit", "exit 3"), (b"spin", "cpu"), (b"memory", "memory"), (b"rss", "memory")],
)
def test_poison_is_tried_twice_and_only_it_is_lost(poison: bytes, reason: str) -> None:
    async def work() -> None:
        async with pool_of() as pool:
            before = [ask(pool, b"before %d" % n) for n in range(5)]
            bad = ask(pool, poison)
            after = [ask(pool, b"after %d" % n) for n in range(20)]
            assert await asyncio.gather(*before) == [(b"before %d" % n)[::-1] for n in range(5)]
            assert await asyncio.gather(*after) == [(b"after %d" % n)[::-1] for n in range(20)]
            assert await bad == LostAnswer(reason)
            assert pool.lost_children == TRIES

    run(work)


@pytest.mark.parametrize("place", range(4))
def test_blame_falls_on_the_right_item_of_a_batch(place: int) -> None:
    async def work() -> None:
        async with pool_of() as pool:
            payloads = [b"%d" % n for n in range(4)]
            payloads[place] = b"crash"
            answers = await asyncio.gather(*(ask(pool, payload) for payload in payloads))
            assert [isinstance(answer, LostAnswer) for answer in answers] == [n == place for n in range(4)]

    run(work)


def test_an_item_that_sleeps_is_ended_by_wall_time() -> None:
    async def work() -> None:
        async with pool_of(limits=ChildLimits(cpu_s=5, wall_s=0.5)) as pool:
            bad, good = ask(pool, b"hang"), ask(pool, b"good")
            assert await bad == LostAnswer("wall")
            assert await good == b"doog"

    run(work)


def test_what_a_job_raises_is_reported_and_costs_no_child() -> None:
    async def work() -> None:
        async with pool_of() as pool:
            assert await ask(pool, b"raise") == LostAnswer("ValueError: not this one")
            assert await ask(pool, b"fine") == b"enif"
            assert pool.lost_children == 0

    run(work)


def test_all_poison_ends_and_the_pool_still_works() -> None:
    async def work() -> None:
        async with pool_of(children=2) as pool:
            answers = await asyncio.gather(*(ask(pool, b"crash") for _ in range(12)))
            assert answers == [LostAnswer("signal 11")] * 12
            assert await ask(pool, b"alive") == b"evila"

    run(work)


def test_a_child_killed_from_outside_is_replaced() -> None:
    async def work() -> None:
        async with pool_of() as pool:
            pid = int(bytes(await ask(pool, b"pid")))  # type: ignore[arg-type]  # a Lost fails the test here
            assert pool.pids == (pid,)
            os.kill(pid, signal.SIGKILL)
            assert await ask(pool, b"again") == b"niaga"
            assert pool.pids != (pid,)

    run(work)


def test_a_zygote_killed_from_outside_is_replaced() -> None:
    async def work() -> None:
        async with pool_of() as pool:
            assert await ask(pool, b"one") == b"eno"
            assert pool._zygote is not None
            pool._zygote.process.kill()
            assert await ask(pool, b"two") == b"owt"

    run(work)


def test_a_zygote_killed_at_its_birth_is_replaced() -> None:
    """It ended a crawl with status 1, because only a zygote that had been ready was started again."""

    async def work() -> None:
        born = ZygoteProcess.start(obedient)
        born.process.kill()
        pool = ChildPool(obedient, 1, QUICK, WallClock(), born)
        await pool.start()
        try:
            assert await ask(pool, b"one") == b"eno"
        finally:
            await pool.close()

    run(work)


def test_a_zygote_killed_as_soon_as_it_is_ready_is_replaced() -> None:
    async def work() -> None:
        born = ZygoteProcess.start(obedient)
        # Its first message waits in the socket, and behind it the end.
        await asyncio.to_thread(select.select, [born.control], [], [], 30)
        born.process.kill()
        born.process.wait()
        pool = ChildPool(obedient, 1, QUICK, WallClock(), born)
        await pool.start()
        try:
            assert await ask(pool, b"one") == b"eno"
        finally:
            await pool.close()

    run(work)


def test_zygotes_that_all_die_at_their_birth_end_the_start_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ZygoteProcess] = []

    def stillborn(job: JobLoader) -> ZygoteProcess:
        started.append(ZygoteProcess.start(job))
        started[-1].process.kill()
        return started[-1]

    async def work() -> None:
        monkeypatch.setattr(pool_module, "ZygoteProcess", SimpleNamespace(start=stillborn))
        with pytest.raises(ParseError, match="cannot be started"):
            await ChildPool(obedient, 1, QUICK, WallClock()).start()
        assert len(started) == MAX_FAILED_STARTS

    run(work)


def test_no_item_is_blamed_for_the_death_of_a_zygote() -> None:
    """Two such deaths took a page that was being read for a bad one."""

    async def work() -> None:
        async with pool_of(children=1) as pool:
            reading = asyncio.ensure_future(ask(pool, b"nap"))
            for _ in range(TRIES + 1):
                await until_async(lambda: any(child.started for child in pool._children))
                first = pool._zygote
                assert first is not None
                first.process.kill()
                await until_async(lambda first=first: pool._zygote is not first)
            assert await reading == b"pan"

    run(work)


@contextmanager
def many_descriptors(number: int) -> Iterator[None]:
    """So many descriptors are open in this process, as in a crawler of so many hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < number + 500:
        pytest.skip(f"this machine allows for {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + 500), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(number)]
    try:
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_zygote_is_replaced_by_a_process_with_3000_descriptors() -> None:
    """select() ends at 1,023: a zygote that was started late died at once, and no page was read from then on."""

    async def work() -> None:
        async with pool_of() as pool:
            assert await ask(pool, b"one") == b"eno"
            assert pool._zygote is not None
            pool._zygote.process.kill()
            assert await ask(pool, b"two") == b"owt"
            assert pool._zygote.control.fileno() > 1_023

    with many_descriptors(3_000):
        run(work)


def test_children_that_are_stopped_between_items_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "STALL_S", 0.3)

    async def work() -> None:
        async with pool_of(children=2) as pool:
            await asyncio.gather(*(ask(pool, b"%d" % n) for n in range(40)))
            stopped = pool.pids
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            assert await asyncio.gather(*(ask(pool, b"item %d" % n) for n in range(40))) == [
                (b"item %d" % n)[::-1] for n in range(40)
            ]
            await until_gone(stopped)

    run(work)


def test_a_zygote_that_is_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "STALL_S", 0.3)

    async def work() -> None:
        async with pool_of() as pool:
            pid = int(bytes(await ask(pool, b"pid")))  # type: ignore[arg-type]  # a Lost fails the test here
            assert pool._zygote is not None
            os.kill(pool._zygote.process.pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGKILL)
            assert await ask(pool, b"again") == b"niaga"

    run(work)


def test_no_item_is_lost_while_no_child_survives_and_all_are_answered_when_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some deaths everything was lost for ever, and nobody was told."""
    monkeypatch.setattr(pool_module, "FIRST_WAIT_S", 0.05)
    sick = tmp_path / "sick"
    payload = f"unless {sick}".encode()

    async def work() -> None:
        async with pool_of(children=2, probe=payload) as pool:
            assert await ask(pool, payload) == payload[::-1]
            sick.touch()
            answers = [ask(pool, payload) for _ in range(30)]
            await until_async(lambda: bool(pool.trouble))
            assert "parse processes die (signal 9)" in pool.trouble
            deaths = pool.lost_children
            await until_async(lambda: pool.lost_children >= deaths + 3)  # it is tried again and again
            assert pool.is_probing
            assert pool.waiting == 30
            sick.unlink()
            assert await asyncio.gather(*answers) == [payload[::-1]] * 30
            assert not pool.trouble
            await until_async(lambda: len(pool.pids) == 2)

    run(work)


def test_twenty_children_killed_from_outside_cost_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(pool_module, "LONGEST_WAIT_S", 0.05)

    async def work() -> None:
        async with pool_of(probe=b"probe") as pool:
            answers = []
            while pool.lost_children < 20:
                answers.append(ask(pool, b"item"))
                for pid in pool.pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.01)  # they are killed at any moment
            assert set(await asyncio.gather(*answers)) == {b"meti"}

    run(work)


def test_an_item_that_no_child_survives_is_lost_where_the_probe_is_survived() -> None:
    async def work() -> None:
        async with pool_of(children=2, probe=b"probe") as pool:
            answers = [ask(pool, payload) for payload in (b"good", b"crash", b"crash", b"more", b"exit")]
            found = await asyncio.gather(*answers)
            assert found == [b"doog", LostAnswer("signal 11"), LostAnswer("signal 11"), b"erom", LostAnswer("exit 3")]
            assert not pool.trouble

    run(work)


def test_close_is_quick_even_with_busy_children_and_answers_everybody() -> None:
    async def work() -> None:
        pool = ChildPool(obedient, 2, ChildLimits(cpu_s=30), WallClock())
        await pool.start()
        answers = [ask(pool, b"spin") for _ in range(2)] + [ask(pool, b"hang") for _ in range(40)]
        await until_async(lambda: all(child.started for child in pool._children), "both children are busy")
        pids = pool.pids
        start = time.monotonic()
        await pool.close()
        assert time.monotonic() - start < 2
        assert await asyncio.gather(*answers) == [LostAnswer("closed")] * 42
        assert await ask(pool, b"late") == LostAnswer("closed")
        await until_gone(pids)

    run(work)


def test_a_job_that_cannot_be_imported_is_an_error_that_says_so() -> None:
    async def work() -> None:
        pool = ChildPool(missing, 1, QUICK, WallClock())
        with pytest.raises(ParseError, match=r"tests\.parse\.jobs:missing cannot be imported: ModuleNotFoundError"):
            await pool.start()

    run(work)


def test_limits_come_from_the_settings() -> None:
    assert ChildLimits.from_settings(LimitSettings(parse_cpu_s=2.0, parse_memory_bytes=2**26)) == ChildLimits(
        2.0, 12.0, 2**26
    )


def test_children_die_with_a_killed_crawler() -> None:
    """kill -9 of the process that owns the pool leaves no child, not even one that is spinning."""
    program = textwrap.dedent("""
        import asyncio
        from teia.clock import WallClock
        from teia.parse.children.pool import ChildLimits, ChildPool
        from tests.parse.jobs import obedient

        async def main():
            pool = ChildPool(obedient, 2, ChildLimits(cpu_s=60), WallClock())
            await pool.start()
            pool.submit(b"spin", done=print)
            while len(pool.pids) < 2:
                await asyncio.sleep(0.01)
            print(*pool.pids, pool._zygote.process.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as crawler:
        assert crawler.stdout is not None
        pids = tuple(int(pid) for pid in crawler.stdout.readline().split())
        assert len(pids) == 3
        crawler.kill()
        crawler.wait()
        asyncio.run(until_gone(pids))


@pytest.mark.slow
def test_hostile_pages_fit_into_the_memory_of_a_child() -> None:
    """Hostile pages at the size limits, under the default limits of a child."""
    pages = [
        b"".join(b"<a href=/%d>x" % number for number in range(700_000)),
        b"<div>x" * 1_500_000,
        b"<p>x" * 2_000_000,
        b"<a " + b" ".join(b"a%d" % number for number in range(1_000_000)) + b">",
        b"<script>" + b"x" * 30 * 2**20,
    ]

    async def work() -> None:
        async with pool_of(limits=ChildLimits(), job=parsing) as pool:
            for page in pages:
                answer = await ask(pool, page)
                assert isinstance(answer, bytes), answer
                assert int(answer.split(b"|")[2]) <= 512 * 1024
            assert pool.lost_children == 0

    run(work)


def test_the_crawlers_event_loop_carries_it_too() -> None:
    async def work() -> None:
        async with pool_of(children=2) as pool:
            payloads = [b"crash" if number == 17 else b"%d" % number for number in range(100)]
            answers = await asyncio.gather(*(ask(pool, payload) for payload in payloads))
            assert answers.count(LostAnswer("signal 11")) == 1
            assert sum(isinstance(answer, bytes) for answer in answers) == 99

    uvloop.run(asyncio.wait_for(work(), 60))


async def until_gone(pids: tuple[int, ...]) -> None:
    """Wait until none of these processes runs; a zombie of somebody else's counts as gone."""
    await until_async(lambda: not any(_runs(pid) for pid in pids), "they end", state=lambda: [*map(_runs, pids)])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
