"""Counts of a cell's URLs and pages, for reports. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import (
    BY_FEED,
    BY_LINK,
    BY_LIST,
    BY_REDIRECT,
    BY_SEED,
    BY_SIGNAL,
    BY_SITEMAP,
    LANE_LATER,
    STATE_QUEUED,
)
from teia.records import Outcome

REFUSED_ANSWERS = (Outcome.FORBIDDEN_TYPE, Outcome.OUT_OF_SCOPE, Outcome.TOO_LARGE)
"""Outcomes of answers that the collection does not keep as documents, though the archive may hold them."""

LISTED_REFUSALS = ", ".join(f"'{each}'" for each in REFUSED_ANSWERS)
"""The same for SQL."""

DOCUMENTS = f"""
    pages AS p JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
    WHERE p.status BETWEEN 200 AND 299 AND p.file <> '' AND u.outcome NOT IN ({LISTED_REFUSALS})
"""
"""FROM and WHERE of all good captures that the collection keeps."""


def urls_by_outcome(cell: CellConnection) -> Counter[str]:
    """Count the visited URLs by the outcome of their last visit."""
    return Counter(dict(cell.rows("SELECT outcome, count(*) FROM urls WHERE outcome <> '' GROUP BY 1")))


def count_waiting(cell: CellConnection) -> int:
    """Return the number of URLs that were never visited and are queued."""
    sql = "SELECT count(*) FROM urls WHERE state = ? AND outcome = ''"
    return int(cell.row(sql, STATE_QUEUED)[0])


def found_between(cell: CellConnection) -> tuple[float, float] | None:
    """Return when the first and the last URL were found; None if there is no URL."""
    first_s, last_s = cell.row("SELECT min(found_s), max(found_s) FROM urls")
    return None if first_s is None else (first_s, last_s)


def urls_by_time_found(cell: CellConnection, width_s: int) -> Counter[int]:
    """Count the URLs by the time at which they were found, in multiples of `width_s`."""
    return Counter(dict(cell.rows("SELECT found_s / ?, count(*) FROM urls GROUP BY 1", width_s)))


def urls_by_in_links(cell: CellConnection) -> Counter[int]:
    """Count the URLs by their number of in-links."""
    return Counter(dict(cell.rows("SELECT in_links, count(*) FROM urls GROUP BY 1")))


def urls_by_source(cell: CellConnection) -> Counter[int]:
    """Count the URLs by their sources, the bits BY_…."""
    return Counter(dict(cell.rows("SELECT found_by, count(*) FROM urls GROUP BY 1")))


def documents_by_type(cell: CellConnection) -> Counter[str]:
    """Count the documents by media type."""
    sql = f"SELECT p.media_type, count(*) FROM {DOCUMENTS} GROUP BY 1"  # noqa: S608  # our own text
    return Counter(dict(cell.rows(sql)))


def documents_by_content(cell: CellConnection) -> Iterator[tuple[bytes, str, str, str, int, int]]:
    """Yield (digest, URL, media type, file, offset, length) of documents with a body, in the order of digests."""
    sql = f"""
        SELECT p.digest, (SELECT name FROM hosts AS h WHERE h.host_id = p.host_id), u.tail, p.media_type,
               p.file, p.offset, p.length
        FROM {DOCUMENTS} AND p.digest <> x'' ORDER BY p.digest
    """  # noqa: S608  # our own text
    for digest, host, tail, *rest in cell.rows(sql):
        yield digest, url_from(host, tail), *rest


class HostOutcome(NamedTuple):
    """The URLs of one host with one outcome; `example` is the one with the least key."""

    host: str
    outcome: str
    urls: int
    key: int
    example: str


def outcomes_by_host(cell: CellConnection) -> Iterator[HostOutcome]:
    """Count the visited URLs by host and outcome, one host after the other."""
    # Beside min() SQLite takes the other columns from the row that has the least: one example in the same pass.
    sql = """
        SELECT h.name, outcome, n, key, tail FROM
            (SELECT host_id, outcome, count(*) AS n, min(key) AS key, tail FROM urls WHERE outcome <> ''
             GROUP BY slot, host_id, outcome)
        JOIN hosts AS h USING (host_id) ORDER BY host_id
    """
    for host, outcome, urls, key, tail in cell.rows(sql):
        yield HostOutcome(host, outcome, urls, key, url_from(host, tail))


def count_kept(cell: CellConnection) -> int:
    """Return the number of good pages that are not gone."""
    return int(cell.row("SELECT count(*) FROM pages WHERE status BETWEEN 200 AND 299 AND NOT is_gone")[0])


def most_linked(cell: CellConnection, limit: int) -> list[tuple[str, int, int, int]]:
    """Return (URL, in-links, depth, state) of the URLs with the most in-links."""
    sql = """
        SELECT h.name, tail, in_links, depth, state FROM
            (SELECT host_id, tail, in_links, depth, state FROM urls WHERE in_links > 0 ORDER BY in_links DESC LIMIT ?)
        JOIN hosts AS h USING (host_id)
    """
    return [
        (url_from(host, tail), in_links, depth, state) for host, tail, in_links, depth, state in cell.rows(sql, limit)
    ]


class SourceCounts(NamedTuple):
    """URLs of one host with the same kinds of sources.

    `followed`: following pages from the configured seeds found them; `others`: another source named them. `pages` are
    good captures, `failed` were visited and are none, `queued` were never visited; `deep_pages` and `deep_failed` are
    those as deep as the queue, or at the greatest depth visited: at least as deep as the shallower half of the cell's
    queued URLs with the same kinds of sources. The rest counts pages and queued ones by source.
    """

    host: str
    followed: bool
    others: bool
    pages: int
    failed: int
    deep_pages: int
    deep_failed: int
    queued: int
    sitemap: int
    feed: int
    signal: int
    listed: int


def pages_by_source(cell: CellConnection, media_types: Collection[str]) -> Iterator[SourceCounts]:
    """Count the URLs of every host by source, one host after the other; pages are captures of some media types.

    A seed counts as followed, unless a list named it too: then only links to it show that following would have found
    it.
    """
    marks = ", ".join("?" * len(media_types))
    bits = (BY_SITEMAP, BY_FEED, BY_SIGNAL, BY_LIST)
    by_source = ", ".join(f"sum((is_page OR is_queued) AND by & {bit} <> 0)" for bit in bits)
    failed = "NOT is_page AND NOT is_queued"
    urls = f"""
        (SELECT u.host_id, u.depth, u.found_by AS by, u.found_by & {sum(bits)} <> 0 AS others,
                (u.found_by & {BY_LINK | BY_REDIRECT} <> 0 OR u.found_by & {BY_SEED | BY_LIST} = {BY_SEED})
                    AS followed,
                coalesce(p.status BETWEEN 200 AND 299 AND p.file <> '' AND p.media_type IN ({marks})
                    AND u.outcome NOT IN ('{Outcome.SOFT_404}', {LISTED_REFUSALS}), 0) AS is_page,
                (u.state = {STATE_QUEUED} AND p.status IS NULL) AS is_queued
         FROM urls AS u
         LEFT JOIN pages AS p ON p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key)
    """  # noqa: S608  # our own text
    by_depth = "followed, others, depth, sum(is_queued), sum(NOT is_queued)"
    by_depth = f"SELECT {by_depth} FROM {urls} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"  # noqa: S608
    depths = _queue_depths(cell.rows(by_depth, *media_types))
    is_deep = "depth >= CASE 2 * followed + others WHEN 0 THEN ? WHEN 1 THEN ? WHEN 2 THEN ? ELSE ? END"
    sql = f"""
        SELECT h.name, followed, others, sum(is_page), sum({failed}), sum(is_page AND {is_deep}),
               sum({failed} AND {is_deep}), sum(is_queued), {by_source}
        FROM {urls} JOIN hosts AS h USING (host_id) GROUP BY host_id, followed, others ORDER BY host_id
    """  # noqa: S608  # our own text
    for host, followed, others, *numbers in cell.rows(sql, *depths, *depths, *media_types):
        yield SourceCounts(host, bool(followed), bool(others), *numbers)


def _queue_depths(rows: Iterable[tuple[int, int, int, int, int]]) -> list[int]:
    """Return the depth from which on a visit is as deep as the queue, by kinds of sources: 2 * followed + others.

    The rows are (followed, others, depth, number queued, number visited), in the order of depth.
    """
    by_kind: list[list[tuple[int, int, int]]] = [[], [], [], []]
    for followed, others, *counts in rows:
        by_kind[2 * followed + others].append((counts[0], counts[1], counts[2]))
    depths = []
    for found in by_kind:
        queued, above = sum(number for _, number, _ in found), 0
        depth = 0
        for each, number, visited in found:
            # Less than half of the queue is above this depth.
            if 2 * above < queued and visited:
                depth = each
            above += number
        depths.append(depth)
    return depths


def suspects_by_pattern(cell: CellConnection) -> dict[tuple[int, int], int]:
    """Count the URLs that wait as possible traps, by host id and number of their pattern."""
    sql = """
        SELECT u.host_id, abs(u.pattern), count(*) FROM queue AS q
        JOIN urls AS u ON u.slot = q.slot AND u.host_id = q.host_id AND u.key = q.key
        WHERE q.lane = ? GROUP BY 1, 2
    """
    return {(host_id, number): count for host_id, number, count in cell.rows(sql, LANE_LATER)}
