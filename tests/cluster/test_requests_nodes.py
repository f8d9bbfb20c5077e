"""Requests about URLs reach the node that owns them, whichever node they are given to; caps of single nodes hold."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

from teia.clock import WallClock
from teia.cluster.crawl.url_requests import ASK_EVERY_S
from teia.cluster.views.node_file import cluster_source
from teia.cluster.views.view import ExchangeView
from teia.collections.control_file import FetchRobots, Inbox, RequestBody, VisitPage
from teia.crawler.agent_log import read_events
from teia.crawler.lookup import Lookup
from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.serve import LabServer
from teia.store.root import open_root
from teia.views.trace import TraceStep, trace
from tests.crawler.webs import ScriptedWeb, WorldAnswer, html, robots, text_of
from tests.waiting import until_async

from .conftest import Nats
from .test_local import teia
from .test_signals_nodes import HOSTS, Nodes, run, two_nodes

PEERS = {"a": "127.0.62.1", "b": "127.0.62.2"}
DELAY_S = 0.1


def site(number: int) -> dict[str, WorldAnswer]:
    broken = WorldAnswer(500, b"Content-Type: text/plain\r\n", b"broken")
    return {"/": html("/broken", text=text_of(number)), "/robots.txt": robots(""), "/broken": broken}


def link_hosts(pages: dict[str, dict[str, WorldAnswer]], lab: LabServer) -> None:
    """Let the root of every host link to a page of the next host; URLs have the port of the lab."""
    for number, host in enumerate(HOSTS):
        after = lab.url(HOSTS[(number + 1) % len(HOSTS)], "/linked")
        pages[host]["/"] = html("/broken", after, text=text_of(number))
        pages[host]["/linked"] = html(text=text_of(100 + number))


def exchanges(nodes: Nodes, name: str) -> dict[tuple[str, str], ExchangeView]:
    """The links between nodes, as a node's file shows them."""
    view = cluster_source(open_root(nodes.data(name)), WallClock()).view()
    return {(each.giver, each.taker): each for each in view.links}


def check_trace(nodes: Nodes, name: str, url: str) -> list[TraceStep]:
    """A1: the way of a URL that another node found, by the folder of its owner; causes before effects."""
    with Lookup(open_root(nodes.data(name)), "main") as lookup:
        entry = lookup.find(url)
        assert entry is not None
        steps = trace(lookup, entry, WallClock())
    times = [step.time for step in steps if step.time is not None]
    assert times == sorted(times), steps
    states = {"State", "Idle", "Overflow"}  # of the node, whenever they change
    roles = [step.role for step in steps if step.node == name and step.message not in states]
    way = ["Join", "Distributor", "Synchronizer", "Take", "Frontier", "Downloader", "Analyzer", "URLScheduler"]
    firsts = [roles.index(role) for role in way]
    assert firsts == sorted(firsts), roles
    assert {"Stabilizer", "LinkExtractor", "ContentExtractor", "MetadataExtractor", "Bulk"} <= set(roles)
    return steps


async def pass_on_a_site(nodes: Nodes, host: str) -> None:
    """A1: a rule added at run time makes the Analyzer of a pass on a site, which b then requests."""
    rule = ("set", f"placement.rules+=host:{host} b", "--data", str(nodes.data("a")))
    done = await asyncio.to_thread(teia, *rule)
    assert done.returncode == 0, done.stderr
    url = nodes.lab.url(host, "/")

    def is_moved() -> bool:
        give(nodes, "a", VisitPage(url))
        return any(each.host == host and each.peer == PEERS["b"] and each.path == "/" for each in nodes.entries())

    await until_async(is_moved, within_s=30)
    with Lookup(open_root(nodes.data("a")), "main") as lookup:
        events = [event for cell in lookup.cells for event in read_events(cell)]
    assert ("Analyzer", "Redirect", host) in [(each.role, each.message, each.values.get("site")) for each in events]


def give(nodes: Nodes, name: str, *bodies: RequestBody) -> None:
    """Make requests in a node's folder, as `teia serve` there does."""
    with Inbox(open_root(nodes.data(name)).control) as inbox:
        for body in bodies:
            inbox.send("main", body, time.time(), "ana")


def pending(nodes: Nodes, name: str) -> int:
    with Inbox(open_root(nodes.data(name)).control) as inbox:
        return len(inbox.all_pending())


def check_one_host_at_a_time(entries: list[RequestLogEntry]) -> None:
    """Among the requests of one node, a host follows another only when the delay of that one is over."""
    entries = sorted(entries, key=lambda entry: entry.start_s)
    assert len({entry.host for entry in entries}) > 1
    gaps = [later.start_s - first.end_s for first, later in pairwise(entries) if first.host != later.host]
    assert min(gaps) >= DELAY_S - 0.01, gaps


def test_a_request_given_to_one_node_is_carried_out_by_the_owner(own_nats: Nats, tmp_path: Path) -> None:
    """Visits, robots.txt and bulk actions, each given to another node; and a cap of hosts of one node alone (T4)."""

    async def main() -> None:
        pages = {host: site(number) for number, host in enumerate(HOSTS)}
        web = ScriptedWeb(pages)
        flags = {"a": ("--bind", PEERS["a"], "--max-hosts", "1"), "b": ("--bind", PEERS["b"])}
        async with two_nodes(web, tmp_path, own_nats, "", flags, prepare=partial(link_hosts, pages)) as nodes:
            await until_async(lambda: nodes.asked("/linked") == dict.fromkeys(HOSTS, 1), within_s=30)
            # A11: measured by the receivers, and the same in the file of either node.
            await until_async(
                lambda: all({("a", "b"), ("b", "a")} <= set(exchanges(nodes, name)) for name in "ab"), within_s=30
            )
            owners = {peer: {each.host for each in nodes.entries() if each.peer == peer} for peer in PEERS.values()}
            assert all(owners.values()), "each node owns some hosts"
            names = {host: next(name for name in "ab" if host in owners[PEERS[name]]) for host in HOSTS}
            host = next(host for at, host in enumerate(HOSTS) if names[host] != names[HOSTS[at - 1]])
            giver = names[HOSTS[HOSTS.index(host) - 1]]
            steps = check_trace(nodes, names[host], nodes.lab.url(host, "/linked"))
            assert giver in [step.values.get("giver") for step in steps if step.role == "Take"]
            urls = [nodes.lab.url(host, "/") for host in HOSTS]
            before = nodes.asked("/robots.txt")
            assert nodes.asked("/") == nodes.asked("/broken") == dict.fromkeys(HOSTS, 1)
            give(nodes, "a", *map(VisitPage, urls), VisitPage(urls[0] + "unknown"))
            give(nodes, "b", *(FetchRobots(url.rstrip("/")) for url in urls))
            await until_async(lambda: nodes.asked("/") == dict.fromkeys(HOSTS, 2), within_s=30)
            await until_async(
                lambda: nodes.asked("/robots.txt") == {host: before[host] + 1 for host in HOSTS}, within_s=30
            )
            await until_async(lambda: not pending(nodes, "a") + pending(nodes, "b"), within_s=30)
            assert not nodes.asked("/unknown"), "nobody knows it"
            # Each request is one visit, however often the nodes asked for it: another one is made anew.
            await asyncio.sleep(4 * ASK_EVERY_S)
            assert nodes.asked("/") == dict.fromkeys(HOSTS, 2)
            for visits, name in ((3, "a"), (4, "b")):
                give(nodes, name, *map(VisitPage, urls))
                await until_async(lambda: not pending(nodes, name), within_s=30)  # noqa: B023
                await until_async(lambda: nodes.asked("/") == dict.fromkeys(HOSTS, visits), within_s=30)  # noqa: B023
                await asyncio.sleep(4 * ASK_EVERY_S)
                assert nodes.asked("/") == dict.fromkeys(HOSTS, visits)
            # Both at once: the second begins when the first is done everywhere.
            words = ("queue", "retry", "--outcome", "500", "--yes", "--data")
            runs = [asyncio.to_thread(teia, *words, str(nodes.data(name))) for name in "ab"]
            said = [(done.returncode, done.stderr) for done in await asyncio.gather(*runs)]
            assert max(said) == (0, f"{len(HOSTS)} URLs: retry\n"), said
            assert [code for code, _ in said] == [0, 0]
            await until_async(lambda: min(nodes.asked("/broken").values()) >= 2, within_s=30)
            for peer, hosts in owners.items():
                assert {each.host for each in nodes.entries() if each.peer == peer} == hosts
            assert nodes.asked("/") == dict.fromkeys(HOSTS, visits)
            await pass_on_a_site(nodes, next(host for host in HOSTS if names[host] == "a"))
            check_one_host_at_a_time([each for each in nodes.entries() if each.peer == PEERS["a"]])

    run(main)
