"""The time between the visits of each host, from its observed behaviour.

A host is requested again after the politeness delay, the largest of

    the delay; its Crawl-delay; response_factor x its last answer's time; Retry-After, where it sent one

computed request by request from the log, with another delay in place of the old one. The time of the answer and the
crawler's mean lateness are added. Hosts that share an address share its delay. Some of a host's requests are not for
known pages: robots.txt at intervals, new URLs while any wait, visits that fail. The rest gives `slot_s`. More machines
change none of this. They raise the number of servers visited at the same time. They also raise the total pages a
second, where the log shows that one machine reached its limit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from teia.config.sections import Config, CourtesySettings
from teia.frontier.queue.shared_addresses import CDN_SITES, Networks, address_delay_s
from teia.lab.whatif.past import HostPast, Past
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Floats
from teia.urls import site_of
from teia.views.reports.source import Source

RECENT_DAYS = 30
"""Days of the log that are read, because hosts change."""

IDLE_DELAYS = 3.0
"""Number of delays after which a host was idle because it had no work, not because the crawler was late."""

WINDOW_S = 600
MAX_HOSTS = 1_000_000
TIMEOUT_S = 120.0
LEAST_SHARE = 0.01
"""Least share of a host's requests that go to known pages."""

_TOOK = "date_diff('microsecond', started, ended) / 1e6"


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a crawl. `budget` is visits a day over all hosts; None means all that hosts grant."""

    delay_s: float
    policy: str
    budget: int | None = None
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """The observed capacity of the machine: pages a second when busiest, and whether hosts waited for it then."""

    pages_per_s: float
    was_the_limit: bool


@dataclass(frozen=True, slots=True, eq=False)
class HostBehaviour:
    """The behaviour of hosts, one number each: seconds per answer, seconds the crawler was late, share that failed.

    `pace_error` is the standard error of the mean time between requests, as a share of it.
    """

    took_s: Floats
    late_s: Floats
    failed: Floats
    pace_error: Floats
    machine: Machine


@dataclass(frozen=True, slots=True, eq=False)
class Paces:
    """Seconds between requests of each host, and between visits of its known pages; others are requests a day.

    `crawl_delays` counts hosts whose Crawl-delay is longer than the delay. `crowd` is the number of hosts relative to
    the number that may be visited at the same time, at least 1.
    """

    request_s: Floats
    slot_s: Floats
    others_per_day: Floats
    crawl_delays: int
    crowd: float


# ---- observations from the log ---------------------------------------------------------------------------------------


def read_behaviour(source: Source, past: Past) -> HostBehaviour:
    """Return the recent behaviour of hosts; unknown values are filled with the mean."""
    was_busy = f"FILTER (rested_s <= {IDLE_DELAYS} * rest_s + 1.0)"
    between = f"rested_s + {_TOOK}"
    sql = f"""
        SELECT host, avg({_TOOK}), avg(rested_s - rest_s) {was_busy},
               stddev_samp({between}) {was_busy}
                   / nullif(avg({between}) {was_busy} * sqrt(count({between}) {was_busy}), 0.0),
               avg(CASE WHEN status IS NULL OR status >= 500 OR status = 429 THEN 1.0 ELSE 0.0 END)
                   FILTER (kind = 'page' AND visit > 1)
        FROM {_recent_fetches()} GROUP BY host
    """  # noqa: S608  # our own text
    rows = {row[0]: row[1:] for row in source.log.query(sql, MAX_HOSTS, TIMEOUT_S).rows}
    known = np.array([[_number(each) for each in rows.get(host.name, (None,) * 4)] for host in past.hosts])
    took_s, late_s, pace_error, failed = known.reshape(-1, 4).T
    machine = _read_machine(source)
    alone = np.array([len(names) == 1 for names in _hosts_at_same_address(past.hosts)])
    # A host that shares its address also waits for the others there; `_slow_shared` accounts for that.
    late_s = np.where(alone, late_s, np.nan)
    late_s = np.zeros_like(late_s) if machine.was_the_limit else _fill_unknown(late_s)
    known_s = (_fill_unknown(took_s), np.maximum(late_s, 0.0))
    return HostBehaviour(*known_s, np.nan_to_num(failed), _fill_unknown(pace_error), machine)


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _fill_unknown(column: Floats) -> Floats:
    known = column[np.isfinite(column)]
    return np.where(np.isfinite(column), column, known.mean() if len(known) else 0.0)


def _recent_fetches() -> str:
    since = f"(SELECT max(started) FROM fetches) - INTERVAL {RECENT_DAYS} DAY"  # noqa: S608  # our own text
    return f"(SELECT * FROM fetches WHERE started >= {since})"  # noqa: S608  # our own text


def _read_machine(source: Source) -> Machine:
    """Return the requests of the busiest ten minutes, and if hosts then waited beyond their delays."""
    sql = f"""
        SELECT count(*) AS requests, median(rested_s - rest_s), median(rest_s) FROM fetches
        GROUP BY floor(epoch(started) / {WINDOW_S}) ORDER BY requests DESC LIMIT 1
    """  # noqa: S608  # our own text
    rows = source.log.query(sql, timeout_s=TIMEOUT_S).rows
    requests, late_s, delay_s = rows[0] if rows else (0, None, None)
    return Machine(requests / WINDOW_S, late_s is not None and late_s > max(0.5 * delay_s, 1.0))


def mean_delays(source: Source, past: Past, delay_s: float) -> Floats:
    """Return each host's mean delay with this setting; without log entries, the larger of it and its Crawl-delay."""
    floors = np.array([max(delay_s, host.crawl_delay_s) for host in past.hosts])
    found = floors.copy()
    factor = source.config.courtesy.response_factor if delay_s > 0 else 0.0
    for floor_s in np.unique(floors).tolist():
        known = _logged_delays(source, floor_s, factor)
        for number in np.flatnonzero(floors == floor_s).tolist():
            found[number] = known.get(past.hosts[number].name, floor_s)
    return found


def _logged_delays(source: Source, least_s: float, factor: float) -> dict[str, float]:
    sql = f"""
        SELECT host, avg(greatest({least_s!r}, {factor!r} * took_s, retry_s)) FROM (
            SELECT host, lag({_TOOK}) OVER past AS took_s,
                   CASE WHEN lag(status) OVER past IN (429, 503) THEN rest_s ELSE 0.0 END AS retry_s
            FROM {_recent_fetches()} WINDOW past AS (PARTITION BY host ORDER BY started)
        ) WHERE took_s IS NOT NULL GROUP BY host
    """  # noqa: S608  # our own text and numbers
    return dict(source.log.query(sql, MAX_HOSTS, TIMEOUT_S).rows)


# ---- resulting paces -------------------------------------------------------------------------------------------------


def compute_paces(
    past: Past, behaviour: HostBehaviour, delay_s: Floats, config: Config, terms: Terms, length_s: float
) -> Paces:
    """Return the mean time between visits over `length_s`, before any budget."""
    courtesy = replace(config.courtesy, delay_s=terms.delay_s)
    request_s = (delay_s + behaviour.took_s + behaviour.late_s) / courtesy.per_host
    request_s = _slow_shared(past.hosts, request_s, behaviour, courtesy)
    busy = np.array([host.is_busy for host in past.hosts])
    crowd = max(1.0, float(busy.sum()) / (courtesy.max_hosts * terms.nodes))
    request_s = np.where(busy, np.maximum(request_s, 1e-3) * crowd, LONGEST_S)
    per_s = 1.0 / request_s
    waiting = np.array([host.waiting for host in past.hosts], dtype=np.float64)
    # New URLs get at most the share of requests that is not reserved for revisits; all, if there is nothing to revisit.
    reserved = np.where([host.pages > 0 for host in past.hosts], config.refresh.share, 0.0)
    new = np.minimum(waiting / length_s, per_s * (1.0 - reserved))
    robots = 1.0 / courtesy.robots_max_age_s if courtesy.robots else 0.0
    others = np.minimum(new + robots, per_s * (1.0 - LEAST_SHARE))
    slot_s = 1.0 / ((per_s - others) * (1.0 - np.minimum(behaviour.failed, 1.0 - LEAST_SHARE)))
    pages = np.maximum([host.pages for host in past.hosts], 1)
    return Paces(
        request_s,
        np.minimum(np.maximum(slot_s, config.refresh.least_s / pages), LONGEST_S),
        np.where(busy, others * DAY_S, 0.0),
        sum(1 for host in past.hosts if host.pages and host.crawl_delay_s > terms.delay_s),
        crowd,
    )


def _slow_shared(
    hosts: tuple[HostPast, ...], request_s: Floats, behaviour: HostBehaviour, courtesy: CourtesySettings
) -> Floats:
    """Slow down hosts that share an address, so that together they do not exceed its request rate."""
    networks, slowed = Networks(courtesy.cdn_nets), request_s.copy()
    for address, names in _addresses(hosts).items():
        sites = CDN_SITES if address in networks else len({site_of(hosts[each].name) for each in names})
        took_s = float(behaviour.took_s[names].mean())
        least_s = address_delay_s(courtesy, sites, took_s) + took_s + float(behaviour.late_s[names].mean())
        wanted = float((1.0 / np.maximum(request_s[names], 1e-3)).sum())
        slowed[names] *= max(1.0, wanted * least_s)
    return slowed


def _addresses(hosts: tuple[HostPast, ...]) -> dict[str, list[int]]:
    """Return the hosts of each address that has several to request."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, host in enumerate(hosts):
        if host.address and host.is_busy:
            found[host.address].append(number)
    return {address: names for address, names in found.items() if len(names) > 1}


def _hosts_at_same_address(hosts: tuple[HostPast, ...]) -> list[list[int]]:
    """Return, for each host, those at its address; itself alone where the address is not known."""
    shared = _addresses(hosts)
    return [shared.get(host.address, [number]) for number, host in enumerate(hosts)]
