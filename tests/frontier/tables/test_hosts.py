"""Hosts and the numbers of their URLs."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_NEW
from teia.frontier.tables import hosts
from tests.frontier.cells import HOST, NOW_S


def test_hosts_are_found_with_their_counts(cell: FrontierCell) -> None:
    first, second = hosts.all_hosts(cell)
    assert {first.name, second.name} == {HOST, "other.org"}
    assert hosts.find(cell, first.host_id) == first
    assert hosts.find(cell, 99) is None
    counts = dict(hosts.count_urls(cell))
    example = cell.find_host(HOST)
    assert example is not None
    assert counts[example] == hosts.UrlCounts(known=3, queued=1, done=1, failed=1, with_outcome=2, errors=1)
    slot = next(host.slot for host in hosts.all_hosts(cell) if host.host_id == example)
    assert (hosts.count_new(cell, slot, example), hosts.count_documents(cell, slot, example)) == (1, 1)
    assert hosts.count_queued(cell, NOW_S)[example].keys() == {LANE_NEW}
    assert dict(hosts.documents_by_host(cell)) == {HOST: 1, "other.org": 1}
    assert hosts.largest_host(cell) == (HOST, 2)
