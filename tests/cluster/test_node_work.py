"""What `teia crawl` can do and nodes can too: limits of a whole collection, pages kept fresh, the order pagerank."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from teia.cluster.crawl.limits import STORED
from teia.frontier.cell.schema import LANE_REFRESH
from teia.store.root import open_root
from tests.system.labs import running_lab
from tests.waiting import until

from .conftest import Nats
from .nodes import Cluster, cluster
from .test_node import DELAY_S, PATIENT_S, SPEC, check_courtesy, requested_pages

PAGES = 80


def stored(nodes: Cluster) -> int:
    """How many pages the newest copies of all cells say were stored."""
    total = 0
    for cell, name in nodes.owners().items():
        folder = open_root(nodes.data(name)).collection("main").cells()[cell]
        db = sqlite3.connect(folder.frontier)
        row = db.execute("SELECT value FROM meta WHERE name = ?", (STORED,)).fetchone()
        total += row[0] if row else 0
        db.close()
    return total


@pytest.mark.slow
def test_all_nodes_leave_when_the_collection_has_its_pages(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: `limits.pages` is the collection's; passed by no more than the nodes had in hand. New nodes leave again."""
    monkeypatch.setenv("TEIA_LIMITS_PAGES", str(PAGES))
    with (
        running_lab(tmp_path, SPEC.format(hosts=12, pages=240), 181) as lab,
        cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes,
    ):
        nodes.start("a")
        nodes.start("b")
        nodes.finish(within_s=100)
        count = stored(nodes)
        print(f"{count} pages of {PAGES}, {sum(requested_pages(lab).values())} requests")
        assert PAGES <= count <= PAGES + 4
        assert "limits.pages" in nodes.log_text("a") + nodes.log_text("b")
        asked = lab.requests()
        nodes.processes.clear()
        nodes.start("c")
        nodes.start("d")
        nodes.finish(within_s=60)
        assert lab.requests() - asked <= 24  # robots.txt
        assert "limits.pages" in nodes.log_text("c") + nodes.log_text("d")
        assert stored(nodes) == count
        check_courtesy(lab, 0)


@pytest.mark.slow
def test_all_nodes_leave_when_the_collection_has_had_its_time(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: `limits.seconds` counts from when the first node began, for all; one that comes later leaves again."""
    monkeypatch.setenv("TEIA_LIMITS_SECONDS", "30")
    with (
        running_lab(tmp_path, SPEC.format(hosts=6, pages=2_000), 184) as lab,
        cluster(tmp_path, own_nats, lab, 0.5, PATIENT_S) as nodes,
    ):
        nodes.start("a")
        nodes.start("b")
        nodes.finish(within_s=100)
        assert "limits.seconds" in nodes.log_text("a") + nodes.log_text("b")
        asked = lab.requests()
        assert 0 < asked < 1_000
        nodes.processes.clear()
        nodes.start("c")
        nodes.finish(within_s=60)
        assert "limits.seconds" in nodes.log_text("c")
        assert lab.requests() - asked <= 12  # robots.txt, and a page a host


@pytest.mark.slow
def test_nodes_keep_pages_fresh_and_a_new_owner_goes_on(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13, P9 on many machines: known pages come again, by whoever keeps their cell; due times survive a death."""
    monkeypatch.setenv("TEIA_REFRESH_KEEP", "true")
    monkeypatch.setenv("TEIA_REFRESH_LEAST_S", "1")
    monkeypatch.setenv("TEIA_COLLECTION_ORDER", "pagerank")
    with (
        running_lab(tmp_path, SPEC.format(hosts=8, pages=40), 182) as lab,
        cluster(tmp_path, own_nats, lab, DELAY_S) as nodes,
    ):
        for name in "ab":
            nodes.start(name, once=False)
        until(lambda: visited_again(requested_pages(lab)) > 30, within_s=100)
        nodes.kill("a")
        since = lab.requests()
        until(lambda: len({each.host for each in lab.entries()[since:]}) >= 8, within_s=60)
        until(lambda: visited_again(requested_pages(lab, since)) > 20, within_s=60)
        nodes.processes["b"].send_signal(signal.SIGTERM)
        nodes.processes["b"].communicate(timeout=60)
        check_courtesy(lab, 0)
        lanes = Counter[int]()
        for folder in open_root(nodes.data("b")).collection("main").cells():
            db = sqlite3.connect(folder.frontier)
            lanes.update(dict(db.execute("SELECT lane, count(*) FROM queue GROUP BY lane").fetchall()))
            db.close()
        assert lanes[LANE_REFRESH] >= 30
        assert "limits" not in nodes.log_text("b")


def visited_again(pages: Counter[str]) -> int:
    return sum(times - 1 for times in pages.values())
