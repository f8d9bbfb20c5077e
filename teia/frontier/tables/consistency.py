"""Contradictions inside a cell's database, and what an audit compares with the archive. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import LANE_REFRESH, STATE_QUEUED
from teia.urls import key_of

MAX_ERRORS = 20

_COUNTS = {
    "queued URLs have no place in the queue": f"""
        SELECT count(*) FROM urls AS u LEFT JOIN queue AS q USING (slot, host_id, lane, rank, key)
        WHERE u.state = {STATE_QUEUED} AND q.key IS NULL
    """,  # noqa: S608  # our own number
    "places in the queue have no URL": """
        SELECT count(*) FROM queue AS q LEFT JOIN urls AS u USING (slot, host_id, key) WHERE u.key IS NULL
    """,
    "pages have no URL": """
        SELECT count(*) FROM pages AS p LEFT JOIN urls AS u USING (slot, host_id, key) WHERE u.key IS NULL
    """,
    "URLs have no host": """
        SELECT count(*) FROM urls AS u LEFT JOIN hosts AS h USING (host_id) WHERE h.host_id IS NULL
    """,
}  # fmt: skip


def contradictions(cell: CellConnection) -> Iterator[str]:
    """Yield what contradicts itself in a cell's tables, in words."""
    yield from (text for (text,) in cell.rows(f"PRAGMA integrity_check({MAX_ERRORS})") if text != "ok")
    for what, sql in _COUNTS.items():
        (number,) = cell.row(sql)
        if number:
            yield f"{number:,} {what}"
    for name, rows in (("known", "urls"), ("queued", f"queue WHERE lane <> {LANE_REFRESH}")):
        # One statement: a crawl may commit between two.
        number, counted = cell.row(
            f"SELECT (SELECT count(*) FROM {rows}), (SELECT value FROM meta WHERE name = ?)",  # noqa: S608  # our text
            name,
        )
        if int(counted or 0) != number:
            yield f"{number:,} URLs are {name}, but {int(counted or 0):,} were counted"
    for host, tail, key in cell.rows("SELECT h.name, u.tail, u.key FROM urls AS u JOIN hosts AS h USING (host_id)"):
        if key_of(url_from(host, tail)) != key:
            yield f"{url_from(host, tail)} is stored under the key of another URL"


def captures(cell: CellConnection) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield (URL, file, offset, length, payload digest) of the last captures, in archive order."""
    sql = """
        SELECT h.name, u.tail, p.file, p.offset, p.length, p.payload_digest
        FROM pages AS p JOIN urls AS u USING (slot, host_id, key) JOIN hosts AS h ON h.host_id = u.host_id
        WHERE p.file <> '' ORDER BY p.file, p.offset
    """
    for host, tail, *rest in cell.rows(sql):
        yield url_from(host, tail), *rest
