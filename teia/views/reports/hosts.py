"""Servers one by one: their pages, their waiting URLs, their treatment and their answers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from teia.crawler.robots import stored_crawl_delay_s
from teia.frontier.cell.alias_evidence import ALIAS, alias_row, pair_names
from teia.frontier.tables.hosts import HostRow, UrlCounts, all_hosts, count_documents, count_urls
from teia.lib.message import Message, decoded
from teia.views.reports.source import OpenCell, Source


@dataclass(frozen=True, slots=True)
class HostReportRow:
    """One server. `failed` are URLs given up, `rest_s` is its last delay, `response_s` the mean time of its answers.

    `soft_404` are pages with status 200 that mean 404; `alias_of` is the main name of a host that is an alias (A7).
    """

    host: str
    cell: int
    urls: int
    pages: int
    queued: int
    failed: int
    excluded: int
    requests: int
    wire_bytes: int
    rest_s: float | None
    crawl_delay_s: float | None
    response_s: float | None
    slowest_s: float | None
    parked: str
    soft_404: int
    alias_of: str


@dataclass(frozen=True, slots=True)
class Hosts:
    """The servers with the most URLs, and how many there are."""

    hosts: int
    parked: int
    aliases: int
    rows: tuple[HostReportRow, ...]
    notes: tuple[str, ...] = (
        Message("Parked: the reason why no requests are sent to the host; its URLs stay queued."),
        Message("Alias of: the main name of the same site, under which its pages are crawled."),
    )


@dataclass(frozen=True, slots=True)
class _Times:
    rest_s: float | None = None
    response_s: float | None = None
    slowest_s: float | None = None


def hosts(source: Source, top: int = 25) -> Hosts:
    """Describe the servers with the most URLs."""
    known = parked = aliases = 0
    found: list[tuple[OpenCell, HostRow, UrlCounts]] = []
    for cell in source.cells:
        hosts_of_cell = {host.host_id: host for host in all_hosts(cell.frontier)}
        known += len(hosts_of_cell)
        parked += sum(bool(host.parked) for host in hosts_of_cell.values())
        aliases += sum(state == ALIAS for *_, state in pair_names(cell.frontier))
        largest = heapq.nlargest(top, count_urls(cell.frontier), key=lambda each: each[1].known)
        found += [(cell, hosts_of_cell[host_id], counts) for host_id, counts in largest]
    # The largest hosts of each cell contain the largest of all.
    shown = sorted(found, key=lambda each: (-each[2].known, each[1].name))[:top]
    # One query for all hosts that are shown.
    times = _times(source, [host.name for _, host, _ in shown])
    return Hosts(known, parked, aliases, tuple(_row(source, *each, times) for each in shown))


def _row(source: Source, cell: OpenCell, host: HostRow, urls: UrlCounts, times: dict[str, _Times]) -> HostReportRow:
    host_times = times.get(host.name, _Times())
    pair = alias_row(cell.frontier, host.name)
    return HostReportRow(
        host.name,
        cell.number,
        urls.known,
        count_documents(cell.frontier, host.slot, host.host_id),
        *(urls.queued, urls.failed, urls.excluded, host.requests, host.bytes),
        host_times.rest_s,
        stored_crawl_delay_s(cell.frontier, host.host_id, host.name, source.agent),
        host_times.response_s,
        host_times.slowest_s,
        decoded(host.parked),
        urls.soft_404,
        pair.other if pair is not None else "",
    )


def _times(source: Source, names: list[str]) -> dict[str, _Times]:
    """Return the politeness delays and response times of these hosts, from the fetch log."""
    if not names:
        return {}
    listed = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    seconds = "date_diff('microsecond', started, ended) / 1e6"
    sql = f"""
        SELECT host, arg_max(rest_s, started), avg({seconds}), max({seconds})
        FROM fetches WHERE host IN ({listed}) GROUP BY host
    """  # noqa: S608  # quoted names
    return {host: _Times(rest_s, mean_s, slowest_s) for host, rest_s, mean_s, slowest_s in source.log.query(sql).rows}
