"""Locations of captures in the archive, as a cell's tables name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from teia.frontier.cell import in_link_counts, revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.schema import STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.tables.pages import all_urls
from teia.records import Outcome


def archive_files(cell: CellConnection) -> list[str]:
    """Return the archive files that hold pages of a cell."""
    return [file for (file,) in cell.rows("SELECT DISTINCT file FROM pages WHERE file <> ''")]


def end_of_visits(cell: CellConnection, file: str) -> int:
    """Return the end of the last record of an archive file that a visit names; 0 if none does."""
    return int(cell.row("SELECT max(offset + length) FROM visits WHERE file = ?", file)[0] or 0)


class CaptureRow(NamedTuple):
    """A visit with a capture; `is_current` if readers of the page get this one, which a failed visit leaves so.

    The row of the page names the record with the body, which may be of another page. So the last visit with the content
    of that row is current as well.
    """

    time_s: float
    digest: bytes
    file: str
    offset: int
    length: int
    is_current: int = 0


def captures_by_page(cell: CellConnection) -> Iterator[tuple[RowKey, list[CaptureRow]]]:
    """Yield the captures of each page, oldest first."""
    sql = """
        SELECT v.slot, v.host_id, v.key, v.time_s, v.digest, v.file, v.offset, v.length,
            coalesce(p.file = v.file AND p.offset = v.offset, 0), coalesce(p.file <> '' AND p.digest = v.digest, 0)
        FROM visits AS v LEFT JOIN pages AS p USING (slot, host_id, key) WHERE v.file <> ''
        ORDER BY v.slot, v.host_id, v.key, v.time_s
    """
    for row_key, rows in groupby(cell.rows(sql), key=lambda row: (row[0], row[1], row[2])):
        captures, last = list[CaptureRow](), -1
        for number, (*fields, has_content) in enumerate(row[3:] for row in rows):
            captures.append(CaptureRow(*fields))
            last = number if has_content else last
        if last >= 0:
            captures[last] = captures[last]._replace(is_current=1)
        yield row_key, captures


def forget_captures(cell: FrontierCell, captures: Iterable[tuple[RowKey, float]]) -> None:
    """Keep the visits of these times without their captures; inside a transaction."""
    forgotten = cell.db.executemany(
        "UPDATE visits SET file = '', offset = 0, length = 0"
        " WHERE slot = ? AND host_id = ? AND key = ? AND time_s = ? AND length > 0",
        [(*row_key, time_s) for row_key, time_s in captures],
    )
    cell.captures -= forgotten.rowcount


def forget_lost(cell: FrontierCell, is_lost: Callable[[str, int, int], bool], now_s: float) -> tuple[int, int]:
    """Remove lost captures from the tables, and queue their pages again; return the numbers of pages and visits.

    Without its validators a page is fetched whole. It leaves the index until it is fetched again. Inside a transaction.
    """
    urls = visits = 0
    captures_sql = "SELECT file, offset, length, slot, host_id, key{} FROM {} WHERE file <> ''"
    for file, offset, length, *row_key in list(cell.rows(captures_sql.format("", "pages"))):
        if is_lost(file, offset, length):
            urls += cell.visit_again(row_key, now_s)
            cell.db.execute(
                "UPDATE pages SET file = '', offset = 0, length = 0, etag = '', last_modified = '', is_gone = 1"
                " WHERE slot = ? AND host_id = ? AND key = ?",
                row_key,
            )
    for file, offset, length, *row_key in list(cell.rows(captures_sql.format(", time_s", "visits"))):
        if is_lost(file, offset, length):
            visits += 1
            cell.db.execute(
                "UPDATE visits SET file = '', offset = 0, length = 0"
                " WHERE slot = ? AND host_id = ? AND key = ? AND time_s = ?",
                row_key,
            )
    cell.count_captures()
    return urls, visits


def shared_places(
    cell: CellConnection, matches: Callable[[str], bool], places: Collection[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Return those of some records, by file and offset, that pages refer to whose URLs do not match."""
    gone, shared = set[RowKey](), set[tuple[str, int]]()
    for each in all_urls(cell):
        if matches(each.url):
            gone.add(each.row_key)
        elif each.page is not None and (each.page.file, each.page.offset) in places:
            shared.add((each.page.file, each.page.offset))
    for row_key, captures in captures_by_page(cell):
        if row_key not in gone:
            shared.update(place for each in captures if (place := (each.file, each.offset)) in places)
    return shared


def hosts_of_captures(cell: CellConnection, places: Collection[tuple[str, int]]) -> list[tuple[int, str]]:
    """Return number and name of the hosts of pages whose captures lie at these files and offsets."""
    sql = "SELECT DISTINCT h.host_id, h.name, p.file, p.offset FROM pages AS p JOIN hosts AS h USING (host_id)"
    rows = cell.rows(f"{sql} WHERE p.file <> ''")
    return list({(host_id, name): None for host_id, name, file, offset in rows if (file, offset) in places})


def erase_deleted_rows(cell: FrontierCell) -> None:
    """Let SQLite overwrite what this connection deletes from now on; not every build does so by itself."""
    cell.db.execute("PRAGMA secure_delete = ON")


def forget_page(cell: FrontierCell, row_key: RowKey) -> list[tuple[str, int]]:
    """Exclude a URL and delete everything that its visits brought; inside a transaction.

    The row of the page stays, without content, so that the index drops the page. Returns host and key of the URLs that
    the page linked to.
    """
    revisits.withdraw(cell, row_key)
    state, lane, rank = cell.row(
        "SELECT state, lane, rank FROM urls WHERE slot = ? AND host_id = ? AND key = ?", *row_key
    )
    if state == STATE_QUEUED:
        cell.withdraw(*row_key, Outcome.OUT_OF_SCOPE, lane=lane, rank=rank)
    else:
        sql = "UPDATE urls SET state = ?, outcome = ? WHERE slot = ? AND host_id = ? AND key = ?"
        cell.db.execute(sql, (STATE_EXCLUDED, Outcome.OUT_OF_SCOPE, *row_key))
    for table in ("visits", "histories"):
        cell.db.execute(f"DELETE FROM {table} WHERE slot = ? AND host_id = ? AND key = ?", row_key)  # noqa: S608
    cell.db.execute(
        "UPDATE pages SET digest = x'', text_digest = x'', simhash = 0, title = '', etag = '', last_modified = '',"
        " redirect_to = '', canonical = '', payload_digest = '', file = '', offset = 0, length = 0, is_gone = 1"
        " WHERE slot = ? AND host_id = ? AND key = ?",
        row_key,
    )
    return in_link_counts.replace(cell, row_key, {}).gone
