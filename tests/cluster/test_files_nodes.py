"""Files that settings name reach every node: rule lists, and the topic of a focused crawl."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.lab.server.serve import LabServer
from teia.store.root import open_root
from tests.crawler.webs import ScriptedWeb, WorldAnswer, html, robots
from tests.waiting import until_async

from .conftest import Nats
from .test_local import teia
from .test_signals_nodes import HOSTS, Nodes, run

RIVER = "the river carries water and boats under the bridge, fish swim in the river, and the flood follows the rain"
MONEY = "the bank lends money at interest, shares rise on the market, and the loan is paid with tax on the profit"
FOCUS = """
[focus]
examples = ["{folder}/river.html"]
others = ["{folder}/money.html"]
mode = "hard"
tunnel = 0
"""


def site(number: int) -> dict[str, WorldAnswer]:
    """A home page on the topic, which links to pages on it and off it, and to two that a list may exclude."""
    links = ("/on", "/off", "/secret", "/closed")
    on, off = f"{RIVER} {number}", f"{MONEY} {number}"
    pages = {"/": html(*links, text=on), "/on": html("/further", text=on), "/off": html("/beyond", text=off)}
    others = {path: html(text=f"{on} {path}") for path in ("/further", "/beyond", "/secret", "/closed")}
    return {**pages, **others, "/robots.txt": robots("")}


def text_of(path: str) -> str:
    return Path(path).read_text("utf-8")


def test_files_of_one_machine_hold_for_all_nodes(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list is read where a user names it, survives a restart, and changes at run time; so does a topic (A6)."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "river.html").write_text(f"<p>{RIVER}")
    (here / "money.html").write_text(f"<p>{MONEY}")
    (here / "list.txt").write_text("regex:/secret\n")
    monkeypatch.setenv("TEIA_COLLECTION_ORDER", "focused")
    monkeypatch.setenv("TEIA_SCOPE_EXCLUDE", f"list:{here}/list.txt")

    async def main() -> None:
        web, log = ScriptedWeb({host: site(number) for number, host in enumerate(HOSTS)}), tmp_path / "requests.jsonl"
        async with LabServer(web, WallClock(), port=0, dns="127.77.255.94:0", log=log) as lab:
            nodes = Nodes(tmp_path, own_nats, lab, 0.1, session_s=8.0)  # type: ignore[arg-type]
            nodes.log, nodes.signals = log, FOCUS.format(folder=here)
            try:
                await crawl(nodes)
            finally:
                nodes.end()

    async def crawl(nodes: Nodes) -> None:
        def every_host(path: str) -> bool:
            return set(nodes.asked(path)) == set(HOSTS)

        def times_open(name: str) -> int:
            return nodes.log_text(name).count(" open\n")

        nodes.start("a", once=False)
        await until_async(lambda: times_open("a"), within_s=30)
        for path in here.iterdir():  # as on another machine
            path.unlink()
        nodes.start("b", once=False)
        await until_async(lambda: times_open("b") and every_host("/further") and every_host("/closed"), within_s=40)
        folders = [open_root(nodes.data(name)).collection("main") for name in "ab"]
        topics = [(folder.path / "focus.json").read_bytes() for folder in folders]
        assert topics[0] == topics[1]
        assert not nodes.asked("/secret")
        assert not nodes.asked("/beyond"), "behind an irrelevant page"
        # At run time, given to the other node: nothing is secret any more, and something else is excluded.
        (here / "list.txt").write_text("regex:/beyond\n")
        done = await asyncio.to_thread(teia, "block", f"@{here}/list.txt", "--data", str(nodes.data("b")))
        assert done.returncode == 0, done.stderr
        (here / "list.txt").unlink()
        urls = [nodes.lab.url(host, path) for host in HOSTS for path in ("/secret", "/beyond")]
        done = await asyncio.to_thread(teia, "add", *urls, "--data", str(nodes.data("a")))
        assert done.returncode == 0, done.stderr
        await until_async(lambda: every_host("/secret"), within_s=30)
        # A restart without the file; an edit that names the copy in the folder, as a form does.
        nodes.processes["a"].send_signal(signal.SIGTERM)
        await asyncio.to_thread(nodes.processes["a"].communicate)
        opened = times_open("a")
        nodes.start("a", once=False)
        await until_async(lambda: times_open("a") > opened, within_s=30)
        copies = [each for each in folders[0].config.read_text().split('"') if each.startswith("list:")]
        assert len(copies) == 1, folders[0].config.read_text()
        assert text_of(copies[0].removeprefix("list:")) == "regex:/beyond\n"
        assert not nodes.asked("/beyond"), "though it is a seed"
        done = await asyncio.to_thread(teia, "unblock", "typo.test", "--data", str(nodes.data("a")))
        assert done.returncode == 1
        assert "domain:typo.test is not excluded" in done.stderr
        done = await asyncio.to_thread(teia, "unblock", copies[0], "--data", str(nodes.data("a")))
        assert done.returncode == 0, done.stderr
        await until_async(lambda: all("list:" not in folder.config.read_text() for folder in folders), within_s=20)
        # Of the two contents that the list had, the first one was removed when no crawl named it any more.
        digests = [{path.name for path in folder.lists.iterdir() if path.is_dir()} for folder in folders]
        assert all(hashlib.sha256(b"regex:/secret\n").hexdigest() not in each for each in digests)
        for process in nodes.processes.values():
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(nodes.finish)

    run(main)
