"""`teia cluster copy`: what all nodes know in one folder, from their logs alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from teia.cluster.cells import copy_all
from teia.cluster.cells.log import CellLog, create_stream
from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.split import record_split
from teia.cluster.members.agreement import agree, amend_agreement, write_settings
from teia.cluster.nats.thread import LoopThread
from teia.config.sections import Config
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import Root, open_root
from tests.cluster.conftest import Nats
from tests.cluster.kept import found
from tests.conftest import ROOT

CELLS = 2


class Writers:
    """Nodes that keep a cell each and find URLs, without crawling."""

    def __init__(self, nats: Nats, thread: LoopThread, folder: Path, collection: str) -> None:
        config = replace(Config(), collection=replace(Config().collection, name=collection, cells=CELLS))
        self._do, self._thread = thread.wait_for, thread
        wire = self.wire = self._do(nats.wire())
        agreement = self._do(agree(wire, nats.clock, collection, config, nats.count))
        self._do(create_stream(wire, nats.clock, collection, nats.count))
        root = open_root(folder, create=True)
        write_settings(root, agreement)
        prepare_cells(root.collection(collection), CELLS, agreement.identity)
        self.folders = root.collection(collection).cells()
        self.logs = [CellLog(wire, nats.clock, collection, cell, f"n{cell}", "x") for cell in range(CELLS)]
        for log in self.logs:
            self._do(log.take(None))

    def find(self, begin: int, urls: int) -> None:
        for log, folder in zip(self.logs, self.folders, strict=True):
            with closing(FrontierCell(folder.frontier, journal=LogJournal(log, self._thread))) as cell:
                for at in range(begin, begin + urls):
                    with cell.transaction():
                        cell.add_links([found(at * CELLS + log.cell)], 1.0)


@pytest.fixture
def writers(nats: Nats, tmp_path: Path, unique: str) -> Iterator[Writers]:
    with ExitStack() as stack:
        thread = stack.enter_context(LoopThread())
        made = Writers(nats, thread, tmp_path / "nodes", unique)
        yield made
        thread.wait_for(made.wire.end())
        nats.wires.clear()


def teia(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "teia", *words], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tails(root: Root, collection: str) -> list[set[str]]:
    known = []
    for folder in root.collection(collection).cells():
        with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
            known.append({tail for (tail,) in cell.db.execute("SELECT tail FROM urls")})
    return known


def test_reports_over_all_nodes_are_those_of_a_copy(writers: Writers, nats: Nats, tmp_path: Path, unique: str) -> None:
    """Issue 7, item 8: no node is asked; copied again, only what is new is read."""
    how = ("--nats", nats.servers.urls[0], "--key", str(nats.servers.key), "--collection", unique)
    writers.find(0, 5)
    assert "10 commits read" in teia("cluster", "copy", "--to", str(tmp_path / "all"), *how)
    writers.find(5, 1)
    assert "2 commits read" in teia("cluster", "copy", "--to", str(tmp_path / "all"), *how)
    root = open_root(tmp_path / "all")
    assert tails(root, unique) == tails(open_root(tmp_path / "nodes"), unique)
    assert sum(map(len, tails(root, unique))) == 12
    rows = json.loads(teia("report", "hosts", "--data", str(tmp_path / "all"), "--json"))
    assert sum(row["urls"] for row in rows["rows"]) == 12
    cells = json.loads(teia("cluster", "status", *how, "--json"))["cells"]
    assert [cell["keeper"] for cell in cells] == ["n0", "n1"]


def test_a_cell_that_was_split_meanwhile_is_not_copied_by_half(
    writers: Writers, nats: Nats, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is agreed on is read again, until it has the new cell; a copy without it is refused."""
    monkeypatch.setattr(copy_all, "TRY_AGAIN_S", 0.05)
    (log, _), (folder, _) = writers.logs, writers.folders
    journal = LogJournal(log, writers._thread)
    with closing(FrontierCell(folder.frontier, journal=journal)) as cell, cell.transaction():
        cell.db.execute("INSERT INTO meta VALUES ('split 2', 256)")
    root = open_root(tmp_path / "all", create=True)
    copy = copy_all.replicate(root, nats.servers.urls, nats.servers.key, None, unique, nats.clock)
    with pytest.raises(ClusterError, match="was split"):
        asyncio.run(copy)
    writers._do(amend_agreement(writers.wire, nats.clock, unique, lambda now: record_split(now, 0, 2, 256), 1))
    copy = copy_all.replicate(root, nats.servers.urls, nats.servers.key, None, unique, nats.clock)
    assert asyncio.run(copy).cells == 3
