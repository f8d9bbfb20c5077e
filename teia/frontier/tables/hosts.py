"""Hosts of a cell: their rows, and how many URLs each has. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.schema import LANE_DUE, LANE_NEW, STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.frontier.tables.counts import DOCUMENTS
from teia.records import Outcome
from teia.urls import site_of, slot_of


class HostRow(NamedTuple):
    """One host. `parked` is the reason why it is not requested, if any; `bytes` are those received from it."""

    host_id: int
    slot: int
    name: str
    found_s: float
    requests: int
    bytes: int
    parked: str
    address: str
    response_s: float


class UrlCounts(NamedTuple):
    """Numbers of URLs of a host, by state; `soft_404` are among the done ones.

    `with_outcome` were visited or settled without a request, and `errors` of them ended in an error, a 404 too: the
    numbers of the report on errors.
    """

    known: int = 0
    queued: int = 0
    done: int = 0
    failed: int = 0
    excluded: int = 0
    soft_404: int = 0
    with_outcome: int = 0
    errors: int = 0


_COLUMNS = ", ".join(HostRow._fields)


def all_hosts(cell: CellConnection) -> Iterator[HostRow]:
    """Yield every host, in the order of their numbers."""
    for row in cell.rows(f"SELECT {_COLUMNS} FROM hosts ORDER BY host_id"):  # noqa: S608  # our own names
        yield HostRow(*row)


def hosts_of_domain(cell: CellConnection, domain: str) -> list[str]:
    """Return the names of a domain's hosts: the domain itself and all names below it."""
    sql = "SELECT name FROM hosts WHERE name = ?1 OR substr(name, -length(?1) - 1) = '.' || ?1"
    return [name for (name,) in cell.rows(sql, domain)]


def find(cell: CellConnection, host_id: int) -> HostRow | None:
    """Return the row of a host; None if it is unknown, or left with its site for another cell."""
    row = cell.row(f"SELECT {_COLUMNS} FROM hosts WHERE host_id = ?", host_id)  # noqa: S608  # our own names
    return None if row is None else HostRow(*row)


def has_more_urls(cell: CellConnection, host_id: int, host: str, number: int) -> bool:
    """Tell whether a host has more known URLs than a number; reads no more rows than that."""
    sql = "SELECT 1 FROM urls WHERE slot = ? AND host_id = ? LIMIT 1 OFFSET ?"
    return cell.row(sql, slot_of(site_of(host)), host_id, number) is not None


_COUNTS = f"""count(*), sum(state = {STATE_QUEUED}), sum(state = {STATE_DONE}), sum(state = {STATE_FAILED}),
    sum(state = {STATE_EXCLUDED}), sum(outcome = '{Outcome.SOFT_404}'), sum(outcome <> ''),
    sum(outcome <> '' AND outcome <> '{Outcome.ALIAS}' AND outcome NOT GLOB '[23][0-9][0-9]')"""


def count_urls(cell: CellConnection) -> Iterator[tuple[int, UrlCounts]]:
    """Count the URLs of every host; yield its number and the counts."""
    sql = f"SELECT host_id, {_COUNTS} FROM urls GROUP BY slot, host_id"  # noqa: S608  # our own numbers
    return ((host_id, UrlCounts(*counts)) for host_id, *counts in cell.rows(sql))


def count_urls_of(cell: CellConnection, slot: int, host_id: int) -> UrlCounts:
    """Count the URLs of one host."""
    sql = f"SELECT {_COUNTS} FROM urls WHERE slot = ? AND host_id = ?"  # noqa: S608  # our own numbers
    return UrlCounts(*(value or 0 for value in cell.row(sql, slot, host_id)))


def documents_by_host(cell: CellConnection) -> Iterator[tuple[str, int]]:
    """Count the documents of every host that has one, by its name."""
    sql = f"""
        SELECT h.name, n FROM (SELECT p.host_id, count(*) AS n FROM {DOCUMENTS} GROUP BY p.slot, p.host_id)
        JOIN hosts AS h USING (host_id)
    """  # noqa: S608  # our own text
    return cell.rows(sql)


def count_documents(cell: CellConnection, slot: int, host_id: int) -> int:
    """Return the number of documents of a host."""
    sql = f"SELECT count(*) FROM {DOCUMENTS} AND p.slot = ? AND p.host_id = ?"  # noqa: S608  # our own text
    return int(cell.row(sql, slot, host_id)[0])


def count_queued(cell: CellConnection, now_s: float) -> dict[int, dict[int, tuple[int, int]]]:
    """Count the queued URLs of every host, by its number and by lane: all, and those of rank now or earlier."""
    sql = "SELECT host_id, lane, count(*), sum(rank <= ?) FROM queue GROUP BY slot, host_id, lane"
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for host_id, lane, count, due in cell.rows(sql, int(now_s * 1000)):
        found.setdefault(host_id, {})[lane] = (count, due)
    return found


def count_new(cell: CellConnection, slot: int, host_id: int) -> int:
    """Return the number of new URLs of a host that wait to be visited."""
    sql = "SELECT count(*) FROM queue WHERE slot = ? AND host_id = ? AND lane = ?"
    return int(cell.row(sql, slot, host_id, LANE_NEW)[0])


def count_ahead(cell: CellConnection, slot: int, host_id: int, at: tuple[int, int], limit: int) -> int:
    """Return the number of a host's URLs that come before a new one at (rank, key), as far as `limit`."""
    sql = """
        SELECT count(*) FROM (SELECT 1 FROM queue WHERE slot = ? AND host_id = ?
            AND (lane = ? OR (lane = ? AND (rank, key) < (?, ?))) LIMIT ?)
    """
    return int(cell.row(sql, slot, host_id, LANE_DUE, LANE_NEW, *at, limit)[0])


def largest_host(cell: CellConnection) -> tuple[str, int]:
    """Return the host with the most visited pages, and how many; an empty name if there is none."""
    sql = """
        SELECT h.name, count(*) FROM pages AS p JOIN hosts AS h USING (host_id)
        GROUP BY p.host_id ORDER BY 2 DESC LIMIT 1
    """
    name, number = cell.row(sql) or ("", 0)
    return str(name), int(number)
