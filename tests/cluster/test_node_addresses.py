"""Hosts of several nodes at one address, in a real crawl: judged by the lab's own log (issue 7, RELIABILITY 22, 25)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import early_requests
from tests.system.labs import running_lab
from tests.waiting import until

from .conftest import Nats
from .nodes import Cluster, by_one_machine, cluster, facts
from .test_node import DELAY_S, PATIENT_S

SPEC = """
seed = 21
hosts = {hosts}
pages = {pages}

[sites]
theta = 0.2
same_domain = 0
shared_address = 0.7

[errors]
scale = 0

[robots]
crawl_delay = 0

[sitemaps]
lying = 0
"""


def check_courtesy(entries: list[RequestLogEntry]) -> None:
    """No request was early, to a host or to an address, whoever asked."""
    assert early_requests(entries, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(entries, DELAY_S, lambda entry: entry.address) == []


PEERS = {"a": "127.0.61.1", "b": "127.0.61.2", "c": "127.0.61.3"}
"""Where each node asks from."""


def start(nodes: Cluster, name: str) -> None:
    nodes.start(name, "--bind", PEERS[name])


def check_one_node_at_a_time(entries: list[RequestLogEntry]) -> None:
    """A host that changed hands did so once and for all; and there were addresses that several nodes asked."""
    askers: dict[str, list[str]] = defaultdict(list)
    at_address: dict[str, set[str]] = defaultdict(set)
    for entry in sorted(entries, key=lambda each: each.start_s):
        at_address[entry.address].add(entry.peer)
        if entry.peer not in askers[entry.host][-1:]:
            askers[entry.host].append(entry.peer)
    assert {entry.peer for entry in entries} <= set(PEERS.values())
    assert all(len(peers) == len(set(peers)) for peers in askers.values()), askers
    assert sum(len(peers) > 1 for peers in at_address.values()) >= 2, at_address


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_an_address_is_requested_by_one_of_three_nodes_at_a_time(own_nats: Nats, tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC.format(hosts=30, pages=150), 183) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S, PATIENT_S) as nodes:
            for name in "abc":
                start(nodes, name)
            nodes.finish(within_s=120)
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
            entries = lab.settled_entries()[since:]
            check_courtesy(entries)
            check_one_node_at_a_time(entries)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_an_address_keeps_its_delay_although_a_node_that_requested_it_is_killed(own_nats: Nats, tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC.format(hosts=30, pages=200), 184) as lab:
        alone = by_one_machine(lab, tmp_path, DELAY_S)
        since = lab.requests()
        with cluster(tmp_path, own_nats, lab, DELAY_S) as nodes:
            for name in "abc":
                start(nodes, name)
            for number, name in enumerate("ab", 1):
                until(lambda: lab.requests() - since > 60 * number)  # noqa: B023
                nodes.kill(name)
                start(nodes, name)
            nodes.finish(within_s=120)
            assert facts(nodes.known(), depths=False) == facts(alone, depths=False)
        check_courtesy(lab.settled_entries()[since:])
