"""`teia node`: many machines crawl what one would, and go on when one of them dies."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from teia.cluster.node import log_failure
from teia.lab.server.witness import early_requests
from tests.system.labs import Lab, running_lab
from tests.waiting import until

from .conftest import Nats
from .nodes import CELLS, by_one_machine, cluster, facts

SPEC = """
seed = 11
hosts = {hosts}
pages = {pages}

[sites]
theta = 0.2

[errors]
scale = 0

[robots]
crawl_delay_s = 0.3
"""
DELAY_S = 0.1
PATIENT_S = 8.0
"""A session for tests in which nobody dies: a process may get no processor for seconds."""

COMMIT_S = 0.5
"""How long a page may wait for its commit on a busy machine."""


def test_an_error_that_ends_work_of_a_shift_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing awaited such work, and a node stopped to send signals without a word."""
    failed: Future[None] = Future()
    failed.add_done_callback(log_failure)
    failed.set_exception(ValueError("unforeseen"))
    assert "failed: ValueError('unforeseen')" in caplog.text
    caplog.clear()
    for end in (Future.cancel, partial(Future.set_result, result=None)):
        ended: Future[None] = Future()
        ended.add_done_callback(log_failure)
        end(ended)
    assert not caplog.text


def requested_pages(lab: Lab, since: int = 0) -> Counter[str]:
    entries = lab.settled_entries()[since:]
    return Counter(f"{each.host}{each.path}" for each in entries if not each.path.endswith("/robots.txt"))


def check_courtesy(lab: Lab, since: int) -> None:
    """No host was asked early, by the lab's own log, whoever asked."""
    assert not early_requests(lab.settled_entries()[since:], DELAY_S, lambda entry: entry.host)


@pytest.mark.slow
def test_two_nodes_crawl_what_one_machine_would(own_nats: Nats, tmp_path: Path) -> None:
    """A2, A3, issue 7: the same URLs, digests, depths and link counts; every page asked for once."""
    with running_lab(tmp_path, SPEC.format(hosts=10, pages=80), 173) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            nodes.start("a")
            nodes.start("b")
            summaries = nodes.finish()
            assert set(nodes.owners()) == set(range(CELLS))
            assert facts(nodes.known()) == facts(alone)
        assert all(summary["pages"] for summary in summaries.values())
        assert set(requested_pages(lab, since).values()) == {1}
        check_courtesy(lab, since)


@pytest.mark.slow
def test_a_node_that_is_killed_is_replaced_and_nothing_is_lost(own_nats: Nats, tmp_path: Path) -> None:
    """Issue 7, RELIABILITY figures 1 and 9: 0 URLs lost, repeats at most what was under way, no host asked early."""
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=240), 174) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S) as nodes:
            for name in "abc":
                nodes.start(name)
            until(lambda: lab.requests() - since > 60)
            nodes.kill("a")
            nodes.finish()
            assert set(nodes.owners()) == set(range(CELLS))
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
        repeats = sum(count - 1 for count in requested_pages(lab, since).values())
        assert repeats <= 12 * (1 + COMMIT_S / DELAY_S)  # a request a host, and those since the last commit
        check_courtesy(lab, since)


@pytest.mark.slow
def test_nodes_come_and_go_while_they_crawl(own_nats: Nats, tmp_path: Path) -> None:
    """Issue 7: a node that comes gets its share, one that leaves hands its cells over whole: nothing is repeated."""
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=240), 175) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            nodes.start("a")
            until(lambda: lab.requests() - since > 40)
            nodes.start("b")
            until(lambda: lab.requests() - since > 120)
            leaving = nodes.processes.pop("a")
            leaving.send_signal(signal.SIGTERM)
            leaving.communicate(timeout=60)
            assert leaving.returncode == 0, nodes.log_text("a")
            assert nodes.finish()["b"]["pages"]
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
        assert set(requested_pages(lab, since).values()) == {1}
        check_courtesy(lab, since)


@pytest.mark.slow
def test_a_node_that_was_stopped_and_servers_that_die_lose_nothing(three_nats: Nats, tmp_path: Path) -> None:
    """Issue 7: SIGSTOP of a node beyond its session, kill -9 of a NATS server, and the first node comes back."""
    with running_lab(tmp_path, SPEC.format(hosts=12, pages=300), 176) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, three_nats, lab, DELAY_S) as nodes:
            for name in "abc":
                nodes.start(name)
            until(lambda: lab.requests() - since > 60)
            nodes.processes["b"].send_signal(signal.SIGSTOP)
            os.kill(three_nats.servers.process_of(2), signal.SIGKILL)
            time.sleep(2.5 * nodes.session_s)  # stopped for longer than its session
            nodes.processes["b"].send_signal(signal.SIGCONT)
            nodes.finish()
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
        repeats = sum(count - 1 for count in requested_pages(lab, since).values())
        assert repeats <= 12 * (1 + COMMIT_S / DELAY_S)
        check_courtesy(lab, since)
