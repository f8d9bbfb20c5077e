"""Rolling upgrade: a node of an earlier version and a new one crawl one collection; then the older is replaced."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from teia.frontier.cell.journal import NEWEST_FORMAT, STATEMENTS
from tests.system.labs import running_lab
from tests.waiting import until

from .account import read_epochs_now
from .conftest import Nats
from .nodes import CELLS, by_one_machine, cluster, facts
from .test_node import DELAY_S, PATIENT_S, SPEC, check_courtesy, requested_pages

OLD = "tests.cluster.old_node"


@pytest.mark.parametrize("number", [STATEMENTS, NEWEST_FORMAT - 1])
def test_an_older_node_crawls_beside_a_new_one_and_is_replaced_without_a_loss(
    own_nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """0 pages lost, none asked twice, no host asked early; the newest format comes when the older node has left."""
    monkeypatch.setenv("OLD_FORMAT", str(number))
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=160), 196) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            nodes.modules["a"] = OLD
            nodes.start("a")
            until(lambda: lab.requests() - since > 20)
            nodes.start("b")
            until(lambda: any(epoch.rows for epochs in read_epochs_now(own_nats).values() for epoch in epochs[1:]))
            assert formats(own_nats) == {number}
            old = nodes.processes.pop("a")
            old.send_signal(signal.SIGTERM)
            old.communicate(timeout=60)
            assert old.returncode == 0, nodes.log_text("a")
            del nodes.modules["a"]
            nodes.start("a")
            nodes.finish()
            assert set(nodes.owners()) == set(range(CELLS))
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
        assert formats(own_nats) == {number, NEWEST_FORMAT}
        assert set(requested_pages(lab, since).values()) == {1}
        check_courtesy(lab, since)


def formats(nats: Nats) -> set[int]:
    """Return the formats of all changes in the log."""
    return {number for epochs in read_epochs_now(nats).values() for epoch in epochs for number in epoch.formats}
