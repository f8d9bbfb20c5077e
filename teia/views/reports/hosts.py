"""Servers one by one: their pages, their waiting URLs, their treatment and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from teia.fetch.robots import parse_robots
from teia.frontier.cell.alias_evidence import ALIAS
from teia.frontier.cell.schema import LANE_REFRESH, STATE_EXCLUDED, STATE_FAILED
from teia.records import Outcome
from teia.views.reports.source import DOCUMENT, OpenCell, Source


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
        "Parked: the reason why no requests are sent to the host; its URLs stay queued.",
        "Alias of: the main name of the same site, under which its pages are crawled.",
    )


@dataclass(frozen=True, slots=True)
class _Times:
    rest_s: float | None = None
    response_s: float | None = None
    slowest_s: float | None = None


def hosts(source: Source, top: int = 25) -> Hosts:
    """Describe the servers with the most URLs."""
    known = sum(n for (n,) in source.rows("SELECT count(*) FROM hosts"))
    parked = sum(n for (n,) in source.rows("SELECT count(*) FROM hosts WHERE parked <> ''"))
    aliases = sum(n for (n,) in source.rows("SELECT count(*) FROM aliases WHERE state = ?", ALIAS))
    # The largest hosts of each cell contain the largest of all.
    found = [(cell, row) for cell in source.cells for row in cell.rows(_SQL, top)]
    found = sorted(found, key=lambda each: (-each[1][2], each[1][1]))[:top]
    # One query for all hosts that are shown.
    times = _times(source, [row[1] for _, row in found])
    return Hosts(known, parked, aliases, tuple(_row(source, cell, row, times) for cell, row in found))


_SQL = f"""
    SELECT h.host_id, h.name, n.urls,
        (SELECT count(*) FROM pages AS p WHERE p.slot = h.slot AND p.host_id = h.host_id AND {DOCUMENT}),
        (SELECT count(*) FROM queue AS q WHERE q.slot = h.slot AND q.host_id = h.host_id AND q.lane < {LANE_REFRESH}),
        n.failed, n.excluded, h.requests, h.bytes, h.parked, n.soft,
        coalesce((SELECT a.other FROM aliases AS a
                  WHERE a.slot = h.slot AND a.host_id = h.host_id AND a.state = {ALIAS}), '')
    FROM (SELECT host_id, count(*) AS urls, sum(state = {STATE_FAILED}) AS failed,
                 sum(state = {STATE_EXCLUDED}) AS excluded, sum(outcome = '{Outcome.SOFT_404}') AS soft
          FROM urls GROUP BY host_id ORDER BY urls DESC LIMIT ?) AS n
    JOIN hosts AS h USING (host_id)
"""  # noqa: S608  # our own text


def _row(source: Source, cell: OpenCell, row: tuple[object, ...], times: dict[str, _Times]) -> HostReportRow:
    host_id, host, urls, pages, queued, failed, excluded, requests, received, parked, soft_404, alias_of = row
    host_times = times.get(str(host), _Times())
    delay_s = _crawl_delay_s(cell, host_id, str(host), source.agent)
    return HostReportRow(
        str(host),
        cell.number,
        *(urls, pages, queued, failed, excluded, requests, received),  # type: ignore[arg-type]  # integers by the schema
        host_times.rest_s,
        delay_s,
        host_times.response_s,
        host_times.slowest_s,
        str(parked),
        soft_404,  # type: ignore[arg-type]  # an integer too
        str(alias_of),
    )


def _crawl_delay_s(cell: OpenCell, host_id: object, host: str, agent: str) -> float | None:
    """Return the longest Crawl-delay for us in the host's robots.txt files."""
    assert isinstance(host_id, int)
    robots_rows = cell.frontier.robots_of(host_id, host)
    delays = [parse_robots(body, agent).crawl_delay_s for _, _, _, status, body in robots_rows if status == 200]
    return max((each for each in delays if each is not None), default=None)


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
