"""What is announced to one node reaches the keeper of the page: pings of sites, and a cache's users."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from teia.clock import WallClock
from teia.cluster.crawl.commit import DIRECT_FORMAT
from teia.crawler.signals_in.indexnow import receive
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.lab.server.squid import OUTGOING, squid_process
from teia.signals.announce import counts_in
from teia.signals.indexnow import read_ping
from teia.store.root import open_root
from tests.crawler.test_proxy_collector import CACHEABLE, ask, needs_squid
from tests.crawler.webs import ScriptedWeb, WorldAnswer, html, robots, text_of
from tests.waiting import until_async

from .conftest import Nats
from .nodes import CELLS, Cluster

KEY = "0123456789abcdef"
HOSTS = [f"h{number}.test" for number in range(8)]
SETTINGS = """
[collection]
seeds = {seeds}
cells = {cells}
[scope]
include = ["suffix:.test"]
[courtesy]
delay_s = 0.1
[sites]
aliases = false
probe_after_pages = 0
[fetch]
dns = "{dns}"
allow_nets = ["127.77.0.0/16", "127.0.0.1/32"]
[parse]
children = 1
[index]
enabled = false
[signals]
{signals}
"""


class Nodes(Cluster):
    """Two nodes over a web of this test's own."""

    lab: LabServer  # type: ignore[assignment]
    log: Path

    signals = ""

    def _write_settings(self) -> Path:
        seeds = str([self.lab.url(host, "/") for host in HOSTS]).replace("'", '"')
        text = SETTINGS.format(seeds=seeds, cells=CELLS, dns=self.lab.dns, signals=self.signals)
        (self.folder / "web.toml").write_text(text, "utf-8")
        return self.folder / "web.toml"

    def asked(self, path: str) -> Counter[str]:
        """How often we asked each host for a path, by the lab's log."""
        return Counter(each.host for each in self.entries() if each.path == path)

    def entries(self) -> list[RequestLogEntry]:
        return [each for each in read_log(self.log) if each.peer != OUTGOING]

    def counts(self, name: str, kind: str) -> dict[str, int]:
        return counts_in(open_root(self.data(name)).collection("main").signals).get(kind, {})


@asynccontextmanager
async def two_nodes(
    web: ScriptedWeb,
    folder: Path,
    nats: Nats,
    signals: str,
    flags: Mapping[str, Sequence[str]] | None = None,
    modules: dict[str, str] | None = None,
    prepare: Callable[[LabServer], None] = lambda _: None,
) -> AsyncIterator[Nodes]:
    """Nodes a and b, which have visited every host once; each owns some cells. `flags` are those of each node."""
    log = folder / "requests.jsonl"
    async with LabServer(web, WallClock(), port=0, dns="127.77.255.93:0", log=log) as lab:
        nodes = Nodes(folder, nats, lab, 0.1, session_s=8.0)  # type: ignore[arg-type]
        nodes.log, nodes.signals = log, signals
        prepare(lab)
        nodes.modules = modules or {}
        try:
            for name in "ab":
                nodes.start(name, *(flags or {}).get(name, ()), once=False)
            await until_async(lambda: set(nodes.asked("/")) == set(HOSTS), within_s=60)
            await until_async(lambda: all("open" in nodes.log_text(name) for name in "ab"), within_s=60)
            await asyncio.sleep(3.0)  # cells that are handed over have been by now
            yield nodes
            for process in nodes.processes.values():
                os.kill(process.pid, signal.SIGTERM)
            await asyncio.to_thread(nodes.finish)
        finally:
            nodes.end()


def site(number: int) -> dict[str, WorldAnswer]:
    key = WorldAnswer(200, b"Content-Type: text/plain\r\n", KEY.encode())
    return {"/": html(text=text_of(number)), "/robots.txt": robots(""), f"/{KEY}.txt": key}


def run(main: Callable[[], object]) -> None:
    uvloop.run(main())  # type: ignore[arg-type]


def test_pings_of_any_site_may_come_to_any_node(own_nats: Nats, tmp_path: Path) -> None:
    """IndexNow: the keeper looks for the key and visits what was told; a forged one comes to nothing."""

    async def main() -> None:
        web = ScriptedWeb({host: site(number) for number, host in enumerate(HOSTS)})
        async with two_nodes(web, tmp_path, own_nats, "indexnow = true") as nodes:
            inbox = open_root(nodes.data("a")).collection("main").signals
            before = nodes.asked("/")
            for host in HOSTS:  # as `teia serve` on a's folder does
                receive(inbox, read_ping(KEY, [nodes.lab.url(host, "/")]), WallClock())
                receive(inbox, read_ping("forged-0123", [nodes.lab.url(host, "/forged")]), WallClock())
            await until_async(lambda: all(nodes.asked("/")[host] > before[host] for host in HOSTS), within_s=60)

            def came_to(what: str) -> list[int]:
                return [nodes.counts(name, "indexnow").get(what, 0) for name in "ab"]

            await until_async(
                lambda: sum(came_to("forged")) == sum(came_to("taken")) == len(HOSTS)
            )  # told a moment later
            assert nodes.asked(f"/{KEY}.txt") == dict.fromkeys(HOSTS, 1)
            assert not nodes.asked("/forged")
            assert came_to("passed_on") == [came_to("forged")[1] + came_to("taken")[1], 0]
            assert all(came_to("taken"))

    run(main)


def test_pings_for_a_node_that_died_reach_its_successor(own_nats: Nats, tmp_path: Path) -> None:
    """They wait in the outbox of the node that received them, until another one owns the cells."""

    async def main() -> None:
        web = ScriptedWeb({host: site(number) for number, host in enumerate(HOSTS)})
        async with two_nodes(web, tmp_path, own_nats, "indexnow = true") as nodes:
            inbox = open_root(nodes.data("a")).collection("main").signals
            before = nodes.asked("/")
            nodes.kill("b")
            for host in HOSTS:
                receive(inbox, read_ping(KEY, [nodes.lab.url(host, "/")]), WallClock())
            await until_async(lambda: nodes.counts("a", "indexnow").get("passed_on", 0) > 0)
            await until_async(lambda: all(nodes.asked("/")[host] > before[host] for host in HOSTS), within_s=90)
            assert nodes.asked(f"/{KEY}.txt") == dict.fromkeys(HOSTS, 1)

    run(main)


def test_pings_reach_the_owner_beside_a_node_of_the_version_before(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no direct signals: what it receives, and what is for it, travels with the logs (decision 43)."""
    monkeypatch.setenv("OLD_FORMAT", str(DIRECT_FORMAT - 1))

    async def main() -> None:
        web = ScriptedWeb({host: site(number) for number, host in enumerate(HOSTS)})
        older = {"b": "tests.cluster.old_node"}
        async with two_nodes(web, tmp_path, own_nats, "indexnow = true", modules=older) as nodes:
            before = nodes.asked("/")
            for name in "ab":
                inbox = open_root(nodes.data(name)).collection("main").signals
                for host in HOSTS:
                    receive(inbox, read_ping(KEY, [nodes.lab.url(host, "/" if name == "a" else "/other")]), WallClock())
            await until_async(lambda: all(nodes.asked("/")[host] > before[host] for host in HOSTS), within_s=60)
            await until_async(lambda: set(nodes.asked("/other")) == set(HOSTS), within_s=60)
            assert all(nodes.counts(name, "indexnow")["passed_on"] for name in "ab")

    run(main)


@needs_squid
def test_pages_that_users_request_of_one_cache_are_refreshed_by_their_owners(own_nats: Nats, tmp_path: Path) -> None:
    """C7: one node hears the cache, and each keeper takes its pages from there; no server is asked."""

    async def main() -> None:
        page = lambda number: WorldAnswer(200, CACHEABLE, f"<title>P</title><p>{text_of(number)}</p>".encode())  # noqa: E731
        web = ScriptedWeb({host: {"/": page(at), "/robots.txt": robots("")} for at, host in enumerate(HOSTS)})
        with squid_process({name: server.address for name, server in web.names.items()}) as squid:
            signals = f'socket = "{squid.socket}"\nproxy = "127.0.0.1:{squid.port}"\ndelay_s = 0.3\nmax_age_s = 1.0'
            async with two_nodes(web, tmp_path, own_nats, signals) as nodes:
                assert sum("another crawler is listening at" in nodes.log_text(name) for name in "ab") == 1
                before = nodes.asked("/")
                for host in HOSTS:
                    assert await asyncio.to_thread(ask, squid, nodes.lab.url(host, "/")) == 200

                def came_to(what: str) -> list[int]:  # by a and b
                    return [nodes.counts(name, "proxy").get(what, 0) for name in "ab"]

                await until_async(lambda: sum(came_to("updated")) == len(HOSTS), within_s=60)
                assert all(came_to("updated"))
                hears = came_to("in_scope").index(max(came_to("in_scope")))
                assert came_to("passed_on")[hears] == came_to("updated")[1 - hears]
                assert came_to("passed_on")[1 - hears] == 0
                assert nodes.asked("/") == before

    run(main)


@needs_squid
def test_owners_take_a_page_from_the_cache_that_announced_it(own_nats: Nats, tmp_path: Path) -> None:
    """Each page is in one of two caches; one node hears both, and no server is asked."""

    async def main() -> None:
        page = lambda number: WorldAnswer(200, CACHEABLE, f"<title>P</title><p>{text_of(number)}</p>".encode())  # noqa: E731
        web = ScriptedWeb({host: {"/": page(at), "/robots.txt": robots("")} for at, host in enumerate(HOSTS)})
        names = {name: server.address for name, server in web.names.items()}
        with squid_process(names, name="one") as one, squid_process(names, name="two", socket=one.socket) as two:
            signals = f'socket = "{one.socket}"\ndelay_s = 0.3\nmax_age_s = 1.0\n'
            signals += f'caches = ["one=127.0.0.1:{one.port}", "two=127.0.0.1:{two.port}"]'
            async with two_nodes(web, tmp_path, own_nats, signals) as nodes:
                before = nodes.asked("/")
                for at, host in enumerate(HOSTS):
                    assert await asyncio.to_thread(ask, (one, two)[at % 2], nodes.lab.url(host, "/")) == 200

                def came_to(what: str) -> list[int]:  # by a and b
                    return [nodes.counts(name, "proxy").get(what, 0) for name in "ab"]

                await until_async(lambda: sum(came_to("updated")) == len(HOSTS), within_s=60)
                assert all(came_to("updated"))
                assert sum(came_to("asked")) == len(HOSTS)
                assert nodes.asked("/") == before

    run(main)


def test_nodes_that_listen_leave_when_nothing_is_left_to_do(own_nats: Nats, tmp_path: Path) -> None:
    """`--once`: what may still be announced is waited for by nobody."""

    async def main() -> None:
        web = ScriptedWeb({host: site(number) for number, host in enumerate(HOSTS)})
        log = tmp_path / "requests.jsonl"
        async with LabServer(web, WallClock(), port=0, dns="127.77.255.93:0", log=log) as lab:
            nodes = Nodes(tmp_path, own_nats, lab, 0.1, session_s=8.0)  # type: ignore[arg-type]
            nodes.log, nodes.signals = log, "indexnow = true"
            try:
                for name in "ab":
                    nodes.start(name)
                await asyncio.to_thread(nodes.finish)
            finally:
                nodes.end()
            assert set(nodes.asked("/")) == set(HOSTS)

    run(main)
