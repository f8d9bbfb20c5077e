"""Pages that must go leave all nodes and NATS: archives, tables, snapshots, logs, indexes, also of nodes that are down.

The tests look for a word themselves: in every file of every node, in every message of the streams, in every object.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import signal
import subprocess
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.nats.wire import Wire
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.errors import TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.pages import all_urls
from teia.index.position import has_index
from teia.index.reader import CellReader
from teia.lab.server.serve import LabServer
from teia.notify.subscriptions import list_subscriptions, subscribe
from teia.store.root import open_root
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives
from teia.transfer.removal import LOG_FILE, rule_of
from teia.web.access.accounts import Accounts
from tests.crawler.webs import HTML, ScriptedWeb, WorldAnswer, html, robots, text_of
from tests.waiting import until_async
from tests.web.conftest import QUICK

from .conftest import Nats
from .nodes import CELLS
from .test_local import teia
from .test_signals_nodes import HOSTS, Nodes, run

BAD, WORSE = "xqslander", "xqsecret"
"""Words of the pages that must go: in their titles, so that tables have them, and in their texts."""

TWIN = b"the very same words "

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
[cluster]
snapshot_s = 1
{cluster}
"""


class RemovalNodes(Nodes):
    """Nodes over hosts with one bad page each."""

    more = ""

    def _write_settings(self) -> Path:
        seeds = json.dumps([self.lab.url(host, "/") for host in HOSTS])
        text = SETTINGS.format(seeds=seeds, cells=CELLS, dns=self.lab.dns, cluster=self.more)
        (self.folder / "web.toml").write_text(text, "utf-8")
        return self.folder / "web.toml"

    def run_node(self, name: str) -> None:
        self.start(name, "--bind", f"127.0.62.{ord(name) - 96}", once=False)

    def owner_of(self, host: str) -> str:
        """The node that requested a host first."""
        peer = next(each.peer for each in self.entries() if each.host == host)
        return chr(96 + int(peer.rpartition(".")[2]))

    def remove(self, name: str, *targets: str) -> subprocess.CompletedProcess[str]:
        words = ("remove", *targets, "--reason", "court order", "--data", str(self.data(name)), "--json")
        return teia(*words)

    async def is_proven(self, name: str, *targets: str) -> bool:
        return (await asyncio.to_thread(self.remove, name, *targets)).returncode == 0


def web() -> ScriptedWeb:
    pages: dict[str, dict[str, WorldAnswer]] = {}
    for number, host in enumerate(HOSTS):
        pages[host] = {"/": html("/bad", "/worse", "/same", text=text_of(number)), "/robots.txt": robots("")}
        for path, word in (("/bad", BAD), ("/worse", WORSE)):
            page = f"<html><head><title>{word} {number}</title></head><body>{word} about somebody {number}"
            pages[host][path] = WorldAnswer(200, HTML, page.encode())
        pages[host]["/same"] = html("/bad-twin", "/good-twin", text=f"{text_of(50 + number)} stays")
        pages[host]["/bad-twin"] = pages[host]["/good-twin"] = html(text=TWIN.decode() * 40)
    return ScriptedWeb(pages)


@asynccontextmanager
async def two_nodes(folder: Path, nats: Nats, more: str = "") -> AsyncIterator[RemovalNodes]:
    """Nodes a and b, which have fetched everything; each owns some cells."""
    log = folder / "requests.jsonl"
    async with LabServer(web(), WallClock(), port=0, dns="127.77.255.95:0", log=log) as lab:
        nodes = RemovalNodes(folder, nats, lab, 0.1, session_s=4.0)  # type: ignore[arg-type]
        nodes.log, nodes.more = log, more
        try:
            for name in "ab":
                nodes.run_node(name)
            await until_async(lambda: set(nodes.asked("/good-twin")) == set(HOSTS), within_s=60)
            await until_async(lambda: all(words_in(nodes.data(name), BAD) for name in "ab"), "both have some")
            yield nodes
            for process in nodes.processes.values():
                os.kill(process.pid, signal.SIGTERM)
            await asyncio.to_thread(nodes.finish)
        finally:
            nodes.end()


# ---- looking for a word ----------------------------------------------------------------------------------------------


def words_in(data: Path, word: str) -> list[str]:
    """Return the files of a node's folder that have a word; an index if its lists of words have it."""
    found = [str(path.relative_to(data)) for path in sorted(data.rglob("*")) if word.encode() in contents(path)]
    indexes = [index for index in sorted(data.glob("*/cells/*/index")) if has_index(index)]
    return found + [str(each) for each in indexes if CellReader(each).searcher().doc_freq("exact", word)]


def contents(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        octets = path.read_bytes()
        return b"".join(unpacked(octets)) if path.suffix == ".gz" else octets
    except (FileNotFoundError, EOFError, gzip.BadGzipFile):  # it is being written
        return b""


def unpacked(octets: bytes) -> Iterator[bytes]:
    """Yield a message or an object as it is, and every deflated piece in it."""
    yield octets
    for start in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x1f\x8b\x08"):
        at = octets.find(start)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj(47).decompress(octets[at:])
            at = octets.find(start, at + 1)


async def words_in_nats(nats: Nats, word: str) -> list[str]:
    """Return the subjects of all streams whose messages have a word; objects are read as a whole."""
    wire = await nats.wire("reader")
    parts: dict[str, list[bytes]] = {}
    try:
        for each in await wire.js.streams_info():
            for subject, data in await messages(wire, str(each.config.name)):
                # The chunks of an object belong together, other messages are for themselves.
                parts.setdefault(subject if ".C." in subject else f"{subject} {len(parts)}", []).append(data)
    finally:
        await wire.end()
    found = [
        subject for subject, data in parts.items() if any(word.encode() in each for each in unpacked(b"".join(data)))
    ]
    return sorted({subject.partition(" ")[0] for subject in found})


async def messages(wire: Wire, stream: str) -> list[tuple[str, bytes]]:
    """Return subjects and contents of all messages of a stream."""
    from nats.js.errors import NotFoundError

    state, found = (await wire.js.stream_info(stream)).state, list[tuple[str, bytes]]()
    for seq in range(max(1, state.first_seq), state.last_seq + 1) if state.messages else ():
        with suppress(NotFoundError):
            stored = await wire.js.get_msg(stream, seq)
            found.append((stored.subject or "", stored.data or b""))
    return found


def hits(nodes: RemovalNodes, name: str, word: str) -> int:
    done = teia("search", word, "--data", str(nodes.data(name)), "--json")
    assert done.returncode == 0, done.stderr
    return sum(json.loads(line).get("total", 0) for line in done.stdout.splitlines())


async def stored_objects(nats: Nats, word: str) -> list[str]:
    """Return the names of objects in the object store that have a word."""
    wire = await nats.wire("reader")
    try:
        store = await wire.js.object_store("snap_main")
        objects = {str(each.name): (await store.get(str(each.name))).data or b"" for each in await store.list()}
    finally:
        await wire.end()
    return [name for name, data in objects.items() if any(word.encode() in each for each in unpacked(data))]


def payload_of(data: Path, url: str) -> bytes:
    """Return the body of a page's capture on a node; empty if it has none."""
    with suppress(TeiaError), Lookup(open_root(data), "main") as lookup:
        return lookup.capture(url).payload
    return b""


def content_of(data: Path, url: str) -> list[tuple[int, str]]:
    """Return the cells in which a URL has content, and its title."""
    found = []
    for folder in open_root(data).collection("main").cells():
        with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
            pages = [each.page for each in all_urls(frontier) if each.url == url and each.page is not None]
            found += [(folder.number, page.title) for page in pages if page.file or page.title or page.digest]
    return found


def check_audits(nodes: RemovalNodes, name: str) -> None:
    """No archive of a node is damaged, and its manifest knows of every change."""
    root = open_root(nodes.data(name))
    assert audit_archives(root, "main").details == (), name
    assert audit_manifest(root, "main", WallClock()).details == (), name


# ---- tests -----------------------------------------------------------------------------------------------------------


def test_pages_leave_all_nodes_and_nats(own_nats: Nats, tmp_path: Path) -> None:
    """Archives are shipped here, so the object store has captures too; and pages share bodies with removed ones."""

    async def main() -> None:
        async with two_nodes(tmp_path, own_nats, "ship_archive = true") as nodes:
            bad = [nodes.lab.url(host, path) for host in HOSTS for path in ("/bad", "/bad-twin")]
            await until_async(lambda: hits(nodes, "a", BAD) == hits(nodes, "b", WORSE) == len(HOSTS), within_s=30)
            # The word is everywhere before, or the test could not see that it has gone.
            stored = await stored_objects(own_nats, BAD)
            assert {"warc" in name for name in stored} == {True, False}, stored
            assert any(each.startswith("main.log.") for each in await words_in_nats(own_nats, BAD))
            Accounts(nodes.data("a") / "web.sqlite", WallClock(), QUICK).close()
            done = await asyncio.to_thread(nodes.remove, "a", *bad)
            assert done.returncode == 0, done.stderr + nodes.log_text("a") + nodes.log_text("b")
            result = json.loads(done.stdout.splitlines()[-1])
            assert (result["is_proven"], result["nodes"]) == (True, {"a": "done", "b": "done"})
            assert (result["urls"], result["records"] >= len(bad)) == (len(bad), True)
            for name in "ab":
                assert words_in(nodes.data(name), BAD) == [], name
                assert rule_of(bad[0]) in saved(open_root(nodes.data(name)), "main").config.scope.exclude
            assert await words_in_nats(own_nats, BAD) == []
            assert (hits(nodes, "a", BAD), hits(nodes, "b", WORSE)) == (0, len(HOSTS))
            assert "court order" in (nodes.data("a") / "main" / LOG_FILE).read_text()
            with closing(Accounts(nodes.data("a") / "web.sqlite", WallClock(), QUICK)) as accounts:
                ((_, line),) = accounts.logged_actions(5)
            assert line.detail["is_proven"] is True
            for name in "ab":
                check_audits(nodes, name)
            # Pages whose body lay in a removed record have one of their own by now.
            twins = {host: nodes.lab.url(host, "/good-twin") for host in HOSTS}
            await until_async(
                lambda: all(TWIN in payload_of(nodes.data(nodes.owner_of(host)), url) for host, url in twins.items()),
                within_s=30,
            )
            assert max(nodes.asked("/good-twin").values()) == 2, "some had shared a removed body"
            assert nodes.asked("/bad") == nodes.asked("/bad-twin") == dict.fromkeys(HOSTS, 1)

    run(main)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "delay_s", [0.1, *(pytest.param(delay_s, marks=pytest.mark.slow) for delay_s in (0.0, 0.2, 0.3, 0.4, 0.6, 0.8))]
)
def test_a_node_that_was_killed_or_down_removes_the_pages_before_it_joins(
    own_nats: Nats, tmp_path: Path, delay_s: float
) -> None:
    async def main() -> None:
        async with two_nodes(tmp_path, own_nats) as nodes:
            bad, worse = ([nodes.lab.url(host, path) for host in HOSTS] for path in ("/bad", "/worse"))
            removing = asyncio.create_task(asyncio.to_thread(nodes.remove, "a", *bad))
            await until_async(lambda: "removing pages" in nodes.log_text("b"), within_s=30)
            await asyncio.sleep(delay_s)  # the moment of its death is the subject
            nodes.kill("b")
            state = json.loads((await removing).stdout.splitlines()[-1])["nodes"]
            assert state["a"] == "done"
            assert (words_in(nodes.data("a"), BAD), await words_in_nats(own_nats, BAD)) == ([], [])
            # Another removal while it is down: it has captures that no other node has, and an old copy of cells.
            assert words_in(nodes.data("b"), WORSE)
            url = next(url for host, url in zip(HOSTS, worse, strict=True) if nodes.owner_of(host) == "b")
            subscribe(open_root(nodes.data("b")), "main", WallClock(), url=url)
            worse += [nodes.lab.url(host, "/bad-twin") for host in HOSTS]
            done = await asyncio.to_thread(nodes.remove, "a", *worse)
            result = json.loads(done.stdout.splitlines()[-1])
            assert (done.returncode, result["nodes"]) == (1, {"a": "done", "b": "pending"})
            assert (words_in(nodes.data("a"), WORSE), await words_in_nats(own_nats, WORSE)) == ([], [])
            assert content_of(nodes.data("b"), url), "its old copy of the cell still has the page"
            nodes.run_node("b")
            for urls in (bad, worse):
                await until_async(lambda: nodes.is_proven("b", *urls), within_s=40, state=lambda: nodes.log_text("b"))  # noqa: B023
            assert list_subscriptions(open_root(nodes.data("b")).collection("main")) == []
            for name, word in itertools.product("ab", (BAD, WORSE)):
                assert words_in(nodes.data(name), word) == [], (name, word)
            assert await words_in_nats(own_nats, BAD) + await words_in_nats(own_nats, WORSE) == []
            log = nodes.log_text("b")
            started = log.rindex("not in a cluster")  # a line of every start
            assert log.index("removing pages", started) < log.index("taken epoch", started), "before it takes part"
            for name in "ab":
                check_audits(nodes, name)
            # Everything else is there, and nothing that was removed is fetched again.
            assert nodes.asked("/bad") == nodes.asked("/worse") == dict.fromkeys(HOSTS, 1)
            await until_async(lambda: hits(nodes, "a", "stays") == len(HOSTS), within_s=30)
            # Of b's hosts these pages had their bodies in records that b erased while another node owned their cells.
            twins = [nodes.lab.url(host, "/good-twin") for host in HOSTS]
            await until_async(
                lambda: all(any(TWIN in payload_of(nodes.data(name), url) for name in "ab") for url in twins),
                within_s=30,
            )

    run(main)
