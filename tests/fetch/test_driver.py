"""The loop's side of libcurl: timers that move, batches of sockets, any loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from teia.lab.hostile.server import WEB, HostileServer, page, sends
from tests.fetch.conftest import IMPATIENT, Fetching

Run = Callable[[Coroutine[Any, Any, list[str]]], list[str]]


@pytest.mark.heavy
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_time_out_fires_amid_traffic_that_moves_the_timer(run: Run) -> None:
    """libcurl does not repeat a timer that came too early: forgetting one would leave the silent transfer for ever."""

    async def crawl(server: HostileServer, silent_port: int) -> list[str]:
        async with Fetching(limits=IMPATIENT) as fetching:
            silent = asyncio.ensure_future(fetching.get(f"http://silent.test:{silent_port}/"))
            outcomes = []
            while not silent.done():
                several = await fetching.get_all([server.url("/", f"h{n}.test") for n in range(10)])
                outcomes += [each.outcome for each in several]
                await asyncio.sleep(0.02)  # traffic in pieces, so that the timer moves
            return [(await silent).outcome, *sorted(set(outcomes))]

    listener = socket.create_server((WEB[0], 0))
    started_s = time.monotonic()
    with HostileServer({"/": sends(page(), keep=True)}) as server:
        assert run(crawl(server, listener.getsockname()[1])) == ["timeout", "200"]
    listener.close()
    assert time.monotonic() - started_s < 15


@pytest.mark.slow
def test_many_distinct_hosts_cost_the_same_to_the_end() -> None:
    """Pins are taken away again: libcurl walks all of them at every transfer."""

    async def crawl(server: HostileServer) -> list[str]:
        async with Fetching(keep_alive=8) as fetching:
            for batch in range(120):
                started_s = time.process_time()
                several = [server.url("/", f"h{n}.test") for n in range(batch * 100, batch * 100 + 100)]
                outcomes.update(each.outcome for each in await fetching.get_all(several))
                seconds.append(time.process_time() - started_s)
            return []

    outcomes: set[str] = set()
    seconds: list[float] = []
    with HostileServer({"/": sends(page(), keep=True)}) as server:
        uvloop.run(crawl(server))
    assert outcomes == {"200"}
    assert sorted(seconds[-40:])[20] < 2.5 * sorted(seconds[:40])[20]
