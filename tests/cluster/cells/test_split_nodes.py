"""Nodes that split cells while they crawl, as a user has them do it (stage c of the cluster)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import nodes as harness
from tests.cluster.account import CellEpoch, committed_rows, lost_epochs, read_epochs_now
from tests.cluster.conftest import Nats
from tests.cluster.nodes import Cluster, by_one_machine, cluster
from tests.cluster.placing.test_placing_nodes import Facts, facts_in, known_by
from tests.cluster.test_node import (
    COMMIT_S,
    DELAY_S,
    PATIENT_S,
    SPEC,
    check_courtesy,
    requested_pages,
)
from tests.conftest import ROOT
from tests.system.labs import Lab, running_lab
from tests.waiting import until

CELLS = 2


def split(nodes: Cluster, cell: int) -> subprocess.Popen[str]:
    servers = [word for url in nodes.nats.servers.urls for word in ("--nats", url)]
    command = [
        sys.executable,
        "-m",
        "teia",
        "cluster",
        "split",
        str(cell),
        *servers,
        "--key",
        str(nodes.nats.servers.key),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def said_by(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def one_machine(lab: Lab, folder: Path) -> Facts:
    by_one_machine(lab, folder, DELAY_S)
    return {url: each for cell in range(CELLS) for url, each in facts_in(folder / "one", cell).items()}


@pytest.mark.slow
def test_cells_are_split_while_they_are_crawled(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, and by the rule that a cell knows at most so many URLs; the same pages as by one machine, each once."""
    monkeypatch.setattr(harness, "CELLS", CELLS)
    monkeypatch.setenv("TEIA_BALANCE_SPLIT_URLS", "60")
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=240), 178) as lab:
        alone = one_machine(lab, tmp_path)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            nodes.start("a")
            nodes.start("b")
            until(lambda: lab.requests() - since > 40)
            print(said_by(split(nodes, 1)))
            nodes.finish(within_s=120)
            owners = nodes.owners()
            print(nodes.log_text("a"), nodes.log_text("b"), sep="\n")
            assert len(owners) > CELLS + 1  # the one that was asked for, and those that the rule wants
            assert known_by(nodes) == alone
            largest = max(len(facts_in(nodes.data(name), cell)) for cell, name in owners.items())
            assert largest < max(len(facts_in(tmp_path / "one", cell)) for cell in range(CELLS))
            check_asked_once(lab, since, read_epochs_now(own_nats))
        check_courtesy(lab, since)


def check_asked_once(lab: Lab, since: int, epochs: dict[int, list[CellEpoch]]) -> None:
    """Every page was asked for once. On a machine so busy that a node is declared dead, what was under way repeats."""
    pages = requested_pages(lab, since)
    twice = {page: times for page, times in pages.items() if times > 1}
    committed = committed_rows(epochs, twice)
    entries = [each for each in lab.settled_entries()[since:] if f"{each.host}{each.path}" in twice]
    lost = lost_epochs(epochs)
    assert len(committed) == len(twice), (entries, committed)  # nothing was visited again that had been committed
    assert not twice or lost, entries


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_an_owner_that_is_killed_while_it_splits_loses_nothing(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """kill -9 at a random moment of a split: the old cell or both new ones, never half; repeats as with any death."""
    monkeypatch.setattr(harness, "CELLS", CELLS)
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=200), 179) as lab:
        alone = one_machine(lab, tmp_path)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S) as nodes:
            nodes.start("a")
            until(lambda: lab.requests() - since > 30)
            asking = split(nodes, 0)
            until(lambda: "caught up" in nodes.log_text("a"))
            began = nodes.log_text("a").count("caught up")
            until(lambda: nodes.log_text("a").count("caught up") > began or "split slot" in nodes.log_text("a"))
            time.sleep(random.Random(seed).random() * 0.6)  # it dies at any moment of the split
            nodes.kill("a")
            nodes.start("b")
            words = said_by(asking)
            nodes.finish(within_s=120)
            print(words, nodes.log_text("a"), nodes.log_text("b"), sep="\n")
            assert "cell 0 is split" in words
            assert set(nodes.owners()) == {0, 1, 2}
            assert known_by(nodes) == alone
        repeats = sum(times - 1 for times in requested_pages(lab, since).values())
        assert repeats <= 12 * (1 + COMMIT_S / DELAY_S)
        check_courtesy(lab, since)
