"""What is asked of a collection that a cluster crawls is done by all its nodes, and refused where nobody hears it."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.js.errors import NotFoundError

from teia.clock import WallClock
from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.crawl import settings as crawl_settings
from teia.cluster.crawl.settings import CommandReceiver
from teia.cluster.members import shared_files
from teia.cluster.members.agreement import Agreement, agree, amend_agreement, current_agreement, write_settings
from teia.cluster.members.shared_files import read_files, share_files
from teia.cluster.nats.thread import LoopThread
from teia.collections import bulk
from teia.collections.control_file import ChangeSettings, GiveCommand, Inbox, RequestAnswer, RunBulkAction
from teia.collections.settings import apply_edits, change, parse_edit
from teia.config.load import load, to_toml
from teia.config.sections import Config
from teia.errors import ClusterError, DiskFull
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.records import Command, Edit
from teia.store.root import Root, open_root
from tests.cluster.conftest import Nats
from tests.cluster.nodes import cluster
from tests.cluster.test_local import teia
from tests.cluster.test_node import SPEC
from tests.system.labs import Lab, running_lab
from tests.waiting import until, until_async


def settings() -> Config:
    return load(None, {}, {"collection.seeds": ["http://a.test/"], "collection.cells": 2}).config


def test_changes_that_meet_are_all_made(nats: Nats, unique: str) -> None:
    async def main() -> None:
        wires = [await nats.wire() for _ in range(3)]
        first = await agree(wires[0], nats.clock, unique, settings(), nats.count)
        assert (first.edition, first.paused) == (0, False)

        def stopped(now: Agreement) -> Agreement:
            return msgspec.structs.replace(now, stops=now.stops + 1)

        await asyncio.gather(*(amend_agreement(wire, nats.clock, unique, stopped, nats.count) for wire in wires))
        now = await current_agreement(wires[0], nats.clock, unique, nats.count)
        assert (now.edition, now.stops, now.identity) == (3, 3, first.identity)

    nats.run(main())


@pytest.fixture
def folder(tmp_path: Path, nats: Nats, unique: str) -> Root:
    """A node's folder in which no node runs."""
    root = open_root(tmp_path / "data", create=True)

    async def main() -> None:
        agreement = await agree(await nats.wire(), nats.clock, unique, settings(), nats.count)
        config = write_settings(root, agreement)
        prepare_cells(root.collection("main"), config.collection.cells, agreement.identity)

    nats.run(main())
    return root


def test_a_change_that_no_node_would_hear_is_refused_and_changes_nothing(folder: Root) -> None:
    before = folder.collection("main").config.read_bytes()
    with pytest.raises(ClusterError, match="crawled by a cluster, but no node is running on"):
        change(folder, "main", [parse_edit("courtesy.delay_s=9")], WallClock())
    assert folder.collection("main").config.read_bytes() == before
    done = teia("pause", "--data", str(folder.path))
    assert done.returncode == 1
    assert "no node is running on" in done.stderr


def test_actions_on_many_urls_are_refused_without_a_node(folder: Root) -> None:
    """Nobody could carry them out, and whoever serves the folder would try every second."""
    control = Inbox(folder.path / "control.sqlite")
    try:
        with pytest.raises(ClusterError, match="no node is running on"):
            bulk.request_action(control, "main", BulkSelection(BulkAction.RETRY), "me", 0.0)
        assert control.pending("main", RunBulkAction) == []
    finally:
        control.close()


def test_what_could_not_be_recorded_is_read_later_and_a_stop_is_received_once(
    folder: Root, nats: Nats, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a full disk nor an error of NATS that nobody knows leaves a node with old settings, or deaf."""
    problems: list[Exception] = [DiskFull("no room"), DiskFull("no room"), NotFoundError(), sqlite3.OperationalError()]

    def write(root: Root, agreement: Agreement) -> Config:
        if agreement.stops and problems:
            raise problems.pop()
        return write_settings(root, agreement)

    monkeypatch.setattr(crawl_settings, "write_settings", write)
    stops: list[int] = []
    with LoopThread() as thread:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        agreement = thread.wait_for(current_agreement(wire, nats.clock, unique, nats.count))
        ours = CommandReceiver(
            folder, unique, agreement, agreement.config, wire, thread, nats.clock, lambda: stops.append(len(problems))
        )

        def changed(now: Agreement) -> Agreement:
            config = apply_edits(now.config, [parse_edit("courtesy.delay_s=9")])
            return msgspec.structs.replace(now, stops=now.stops + 1, settings=to_toml(config))

        async def main() -> None:
            serving = asyncio.create_task(ours.serve(0.2))
            await thread.call(amend_agreement(wire, nats.clock, unique, changed, nats.count))
            await until_async(lambda: ours.config.courtesy.delay_s == 9)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

        asyncio.run(main())
        thread.wait_for(wire.end())
    assert (problems, stops) == ([], [4])
    assert ours.config.courtesy.delay_s == 9
    assert "delay_s = 9" in folder.collection("main").config.read_text("utf-8")


def test_commands_hold_while_a_file_that_the_settings_name_cannot_be_fetched(
    folder: Root, nats: Nats, unique: str, tmp_path: Path
) -> None:
    path, stops = tmp_path / "names.txt", list[int]()
    path.write_text("b.test\n")
    rule = f"list:{path}"
    with LoopThread() as thread:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        agreement = thread.wait_for(current_agreement(wire, nats.clock, unique, nats.count))
        ours = CommandReceiver(
            folder, unique, agreement, agreement.config, wire, thread, nats.clock, lambda: stops.append(1)
        )
        config = apply_edits(agreement.config, [parse_edit(f"scope.exclude+={rule}")])
        digest = hashlib.sha256(path.read_bytes()).hexdigest()

        def changed(now: Agreement) -> Agreement:
            files = {rule: f"{digest}/names.txt"}
            return msgspec.structs.replace(now, stops=1, paused=True, settings=to_toml(config), files=files)

        async def main() -> None:
            serving = asyncio.create_task(ours.serve(0.2))
            await thread.call(amend_agreement(wire, nats.clock, unique, changed, nats.count))
            await until_async(lambda: stops and ours.agreement.paused)
            assert ours.config.scope.exclude == (), "held back until the file is here"
            await thread.call(share_files(wire, nats.clock, unique, nats.count, folder, config))
            await until_async(lambda: ours.config.scope.exclude)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

        asyncio.run(main())
        thread.wait_for(wire.end())
    assert stops == [1]
    assert digest in folder.collection("main").config.read_text("utf-8")


def test_a_change_that_takes_long_does_not_delay_commands(
    folder: Root, nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, stops = tmp_path / "names.txt", list[int]()
    is_reading, may_read = threading.Event(), threading.Event()
    path.write_text("b.test\n")

    def read_slowly(*given: Any) -> dict[str, tuple[str, bytes]]:
        is_reading.set()
        assert may_read.wait(30)
        return read_files(*given)

    monkeypatch.setattr(shared_files, "read_files", read_slowly)
    with LoopThread() as thread, Inbox(folder.control) as inbox:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        agreement = thread.wait_for(current_agreement(wire, nats.clock, unique, nats.count))
        ours = CommandReceiver(
            folder, unique, agreement, agreement.config, wire, thread, nats.clock, lambda: stops.append(1)
        )

        async def main() -> None:
            serving = asyncio.create_task(ours.serve(0.2))
            for edit in (f"scope.exclude+=list:{path}", "courtesy.delay_s=9"):
                inbox.send("main", ChangeSettings((parse_edit(edit),)), time.time())
            await until_async(is_reading.is_set)
            for command in (Command.PAUSE, Command.STOP):
                inbox.send("main", GiveCommand(command), time.time())
            await until_async(lambda: stops and ours.agreement.paused)
            assert len(inbox.pending("main", ChangeSettings)) == 2, "the second one waits for the first"
            may_read.set()
            await until_async(lambda: not inbox.pending("main", ChangeSettings))
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

        asyncio.run(main())
        thread.wait_for(wire.end())
        answers = [each.answer for each in inbox.recent("main", ChangeSettings, 2)]
    assert answers == [RequestAnswer(now=("courtesy.delay_s",)), RequestAnswer(now=("scope.exclude",))]
    assert len(ours.config.scope.exclude) == 1
    assert ours.config.courtesy.delay_s == 9


def test_a_node_that_leaves_when_all_is_done_is_not_commanded_to_keep_pages_fresh(
    nats: Nats, folder: Root, unique: str
) -> None:
    """`--once` with refresh.keep is refused when somebody sets it, as when the node starts."""
    with LoopThread() as thread:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        agreement = thread.wait_for(current_agreement(wire, nats.clock, unique, nats.count))
        ours = CommandReceiver(
            folder, unique, agreement, agreement.config, wire, thread, nats.clock, lambda: None, once=True
        )  # fmt: skip

        async def change(edits: Sequence[Edit]) -> RequestAnswer:
            while (answer := await ours.change("main", edits)) is None:  # as the inbox does
                pass
            return answer

        assert "--once" in asyncio.run(change([parse_edit("refresh.keep=true")])).error
        assert asyncio.run(change([parse_edit("courtesy.delay_s=7")])) == RequestAnswer(now=("courtesy.delay_s",))
        thread.wait_for(wire.end())


def test_what_all_go_by_can_be_changed_while_no_node_runs(nats: Nats, folder: Root, unique: str) -> None:
    """A limit that made all nodes leave is raised before they are started again."""
    how = ["--nats", nats.servers.urls[0], "--key", str(nats.servers.key), "--collection", unique]
    assert teia("cluster", "set", "limits.pages=200", *how).stdout == "limits.pages: 0 -> 200\n"
    with LoopThread() as thread:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        agreement = thread.wait_for(current_agreement(wire, nats.clock, unique, nats.count))
        assert (agreement.config.limits.pages, agreement.edition) == (200, 1)
        thread.wait_for(wire.end())


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_command_to_one_node_holds_for_all(own_nats: Nats, tmp_path: Path) -> None:
    """A10 in a cluster: pause, set, block, resume and stop, each through another node's folder."""
    with (
        running_lab(tmp_path, SPEC.format(hosts=12, pages=2000), 187) as lab,
        cluster(tmp_path, own_nats, lab, 0.3, 8.0) as nodes,
    ):
        for name in "ab":
            nodes.start(name)
        until(lambda: lab.requests() > 60)

        def say(name: str, *words: str) -> str:
            done = teia(*words, "--data", str(nodes.data(name)))
            assert done.returncode == 0, done.stderr
            return done.stderr

        def has(name: str, text: str) -> bool:
            return text in (nodes.data(name) / "main" / "teia.toml").read_text("utf-8")

        say("a", "pause")
        until(lambda: "paused" in teia("status", "--data", str(nodes.data("a"))).stdout)  # told each second
        until(lambda: is_still(lab))
        assert "applied to the running crawl" in say("b", "set", "courtesy.delay_s=0.4")
        host = min({entry.host for entry in lab.settled_entries()})
        say("b", "block", host)
        until(lambda: all(has(name, host) and has(name, "delay_s = 0.4") for name in "ab"))
        say("b", "set", "fetch.keep_alive=99")  # what takes a new shift
        say("a", "resume")
        since = lab.requests()
        until(lambda: lab.requests() > since + 60)
        assert host not in {entry.host for entry in lab.settled_entries()[since:]}
        refused = teia("set", "refresh.keep=true", "--data", str(nodes.data("a")))
        assert refused.returncode == 1
        assert "--once" in refused.stderr
        say("b", "stop")
        nodes.finish()


def is_still(lab: Lab) -> bool:
    before = lab.requests()
    time.sleep(2.0)  # nothing is requested for a while
    return bool(lab.requests() == before)
