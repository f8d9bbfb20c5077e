"""Nodes that crawl, make snapshots, ship their archives and run out of room."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from teia.cluster.cells.open_cells import is_downloaded
from teia.store.reader import ArchiveReader
from teia.store.root import open_root
from tests.cluster.conftest import Nats
from tests.cluster.nodes import CELLS, Cluster, by_one_machine, cluster, facts
from tests.cluster.test_node import DELAY_S, PATIENT_S, SPEC, check_courtesy, requested_pages
from tests.system.labs import running_lab
from tests.waiting import until


def brought_bodies(nodes: Cluster, name: str) -> int:
    """How many bodies that others fetched a node can read; each that lies in a file it has must be there."""
    bodies = 0
    for cell in open_root(nodes.data(name)).collection("main").cells():
        with closing(sqlite3.connect(cell.frontier)) as db:
            rows = db.execute("SELECT file, offset, length FROM pages WHERE length > 0").fetchall()
        for file, offset, length in rows:
            path = cell.archive / file
            if is_downloaded(path) and path.stat().st_size >= offset + length:
                assert ArchiveReader(cell.archive).answer(file, offset).status
                bodies += 1
    return bodies


def visited_by(nodes: Cluster, name: str) -> set[str]:
    """The pages that are in a node's own files: what it had committed."""
    visited = set()
    for cell in open_root(nodes.data(name)).collection("main").cells():
        with closing(sqlite3.connect(cell.frontier)) as db:
            joined = "pages JOIN urls AS u USING (slot, host_id, key) JOIN hosts AS h USING (host_id)"
            sql = f"SELECT h.name, u.tail FROM {joined}"
            visited |= {f"{host}/{tail.split('/', 1)[1]}" for host, tail in db.execute(sql)}
    return visited


@pytest.mark.slow
def test_a_node_is_replaced_from_snapshots_and_its_bodies_come_along(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 7, NATS.md 3.4: kill -9; what was shipped of the archive is where the cells are."""
    monkeypatch.setenv("TEIA_CLUSTER_SNAPSHOT_S", "1")
    monkeypatch.setenv("TEIA_CLUSTER_SNAPSHOTS", str(tmp_path / "shared"))
    monkeypatch.setenv("TEIA_CLUSTER_SHIP_ARCHIVE", "true")
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=500), 178) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S) as nodes:
            nodes.start("a")
            until(lambda: nodes.log_text("a").count("snapshot record=") > CELLS)
            nodes.start("b")
            until(lambda: "restored" in nodes.log_text("b"))
            nodes.kill("a")
            killed_at = len(lab.settled_entries())
            committed = visited_by(nodes, "a")
            nodes.finish()
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
            assert brought_bodies(nodes, "b") > 0
        assert committed
        assert not committed & requested_pages(lab, killed_at).keys()
        check_courtesy(lab, since)


@pytest.mark.slow
def test_a_stream_without_room_makes_the_crawl_wait_and_loses_nothing(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATS.md 3.5: the nodes say so, snapshots make room, and the crawl goes on to its end."""
    monkeypatch.setenv("TEIA_CLUSTER_STREAM_BYTES", "150000")
    with running_lab(tmp_path, SPEC.format(hosts=10, pages=150), 179) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            nodes.start("a")
            nodes.start("b")
            nodes.finish(within_s=100)
            log_text = nodes.log_text("a") + nodes.log_text("b")
            assert facts(nodes.known()) == facts(alone)
        assert "is almost full" in log_text
        assert "has room again" in log_text
        assert set(requested_pages(lab, since).values()) == {1}
