"""URLs, their pages and their visits: of one URL, or of a whole cell. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import STATE_DONE
from teia.urls import site_of, slot_of


class UrlRecord(NamedTuple):
    """A URL's state, its origin and its place in the queue."""

    state: int
    outcome: str
    depth: int
    in_links: int
    found_s: float
    found_by: int
    failures: int
    lane: int
    rank: int
    pattern: int


@dataclass(frozen=True, slots=True)
class PageEntry:
    """Result of the last good visit of a URL, and the location of its capture."""

    visits: int
    changes: int
    last_visit_s: float
    last_change_s: float
    status: int
    digest: bytes
    text_digest: bytes
    simhash: int
    media_type: str
    language: str
    title: str
    etag: str
    last_modified: str
    canonical: str
    redirect_to: str
    noindex: bool
    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class VisitEntry:
    """One line of a URL's history."""

    time_s: float
    outcome: str
    digest: bytes
    changed: bool | None
    file: str
    offset: int
    length: int


class CellUrl(NamedTuple):
    """A URL of a cell: its row, and its page once it was visited."""

    row_key: RowKey
    host: str
    url: str
    row: UrlRecord
    page: PageEntry | None


_AT = "slot = ? AND host_id = ? AND key = ?"
_URL = ", ".join(f"u.{name}" for name in UrlRecord._fields)
_PAGE = ", ".join(f"p.{name}" for name in PageEntry.__slots__)
_VISIT = ", ".join(VisitEntry.__slots__)
_JOINED = "urls AS u JOIN hosts AS h ON h.host_id = u.host_id {} pages AS p USING (slot, host_id, key)"
_KNOWN = f"SELECT u.slot, u.host_id, u.key, h.name, u.tail, {_URL}, {_PAGE} FROM {_JOINED}"  # noqa: S608  # our own names
_URL_END = 5 + len(UrlRecord._fields)


def find_url(cell: CellConnection, row_key: RowKey) -> UrlRecord | None:
    """Return a URL's row; None if it is unknown."""
    row = cell.row(f"SELECT {_URL} FROM urls AS u WHERE {_AT}", *row_key)  # noqa: S608  # our own names
    return None if row is None else UrlRecord(*row)


def find_url_at(cell: CellConnection, host: str, key: int) -> UrlRecord | None:
    """Like `find_url`, by the host's name."""
    row_key = cell.find_row_key(host, key)
    return None if row_key is None else find_url(cell, row_key)


def find_page(cell: CellConnection, row_key: RowKey) -> PageEntry | None:
    """Return a page; None if it was not visited."""
    row = cell.row(f"SELECT {_PAGE} FROM pages AS p WHERE {_AT}", *row_key)  # noqa: S608  # our own names
    return None if row is None else PageEntry(*row)


def visits_of(cell: CellConnection, row_key: RowKey, after_s: float = -inf, before_s: float = inf) -> list[VisitEntry]:
    """Return the visits of a URL between two times, oldest first."""
    sql = f"SELECT {_VISIT} FROM visits WHERE {_AT} AND time_s > ? AND time_s < ? ORDER BY time_s"  # noqa: S608  # our own names
    return [
        VisitEntry(time_s, outcome, digest, None if changed is None else bool(changed), *archived)
        for time_s, outcome, digest, changed, *archived in cell.rows(sql, *row_key, after_s, before_s)
    ]


def url_of(cell: CellConnection, row_key: RowKey) -> str:
    """Return a known URL."""
    row = cell.row(f"SELECT h.name, u.tail FROM urls AS u JOIN hosts AS h USING (slot, host_id) WHERE {_AT}", *row_key)  # noqa: S608
    return url_from(*row)


def urls_of_host(cell: CellConnection, host: str, limit: int) -> list[str]:
    """Return some URLs of a host."""
    sql = "SELECT u.tail FROM urls AS u JOIN hosts AS h USING (slot, host_id) WHERE h.name = ? LIMIT ?"
    return [url_from(host, tail) for (tail,) in cell.rows(sql, host, limit)]


def captured_urls(cell: CellConnection, host: str, limit: int) -> list[str]:
    """Return URLs of a host that have a capture, at most so many."""
    sql = """
        SELECT u.tail FROM hosts AS h JOIN urls AS u USING (slot, host_id) JOIN pages AS p USING (slot, host_id, key)
        WHERE h.name = ? AND p.file != '' LIMIT ?
    """
    return [url_from(host, tail) for (tail,) in cell.rows(sql, host, limit)]


def urls_between(
    cell: CellConnection, host_id: int, host: str, first: int, last: int
) -> Iterator[tuple[str, int, int, int]]:
    """Yield (URL, depth, sources, state) of a host's URLs whose keys lie between two."""
    sql = "SELECT tail, depth, found_by, state FROM urls WHERE slot = ? AND host_id = ? AND key BETWEEN ? AND ?"
    for tail, *rest in cell.rows(sql, slot_of(site_of(host)), host_id, first, last):
        yield url_from(host, tail), *rest


def finished_urls(cell: CellConnection) -> Iterator[tuple[str, int, int]]:
    """Yield (URL, depth, sources) of every URL whose visits are finished."""
    sql = "SELECT h.name, u.tail, u.depth, u.found_by FROM urls AS u JOIN hosts AS h USING (host_id) WHERE u.state = ?"
    for host, tail, depth, found_by in cell.rows(sql, STATE_DONE):
        yield url_from(host, tail), depth, found_by


def all_urls(cell: CellConnection) -> Iterator[CellUrl]:
    """Yield every URL, visited or not, by slot, host and key."""
    return _known(cell, f"{_KNOWN.format('LEFT JOIN')} ORDER BY u.slot, u.host_id, u.key")


def all_pages(cell: CellConnection) -> Iterator[CellUrl]:
    """Yield every visited URL in archive order; those without a capture come first."""
    return _known(cell, f"{_KNOWN.format('JOIN')} ORDER BY p.file, p.offset")


def _known(cell: CellConnection, sql: str) -> Iterator[CellUrl]:
    for row in cell.rows(sql):
        slot, host_id, key, host, tail = row[:5]
        # A URL that was never visited has no row in `pages`, so all its columns are NULL.
        page = None if row[_URL_END] is None else PageEntry(*row[_URL_END:])
        yield CellUrl((slot, host_id, key), host, url_from(host, tail), UrlRecord(*row[5:_URL_END]), page)


def similar_pages(cell: CellConnection, slot: int, host_id: int, limit: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (key, fingerprint, digest of the text) of a host's pages that are not gone."""
    sql = "SELECT key, simhash, text_digest FROM pages WHERE slot = ? AND host_id = ? AND NOT is_gone LIMIT ?"
    return cell.rows(sql, slot, host_id, limit)


def compared_visits(
    cell: CellConnection, slot: int, host_id: int, first: int, last: int, limit: int
) -> Iterator[tuple[int, float, int | None]]:
    """Yield (key, time, result of the comparison) of a host's visits that were compared or were the first good ones."""
    sql = """
        SELECT key, time_s, comparison FROM visits
        WHERE slot = ? AND host_id = ? AND key BETWEEN ? AND ? AND (comparison IS NOT NULL OR outcome = '200')
        ORDER BY key, time_s LIMIT ?
    """
    return cell.rows(sql, slot, host_id, first, last, limit)
