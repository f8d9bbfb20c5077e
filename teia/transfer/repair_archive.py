"""Repair of a collection whose archive is shorter than its frontier says: `teia audit archive --repair`.

The frontier stores the archive's committed position, and the place of every capture. Where a file is gone or ends too
soon (a disk that lost committed data, a copy that was cut off), the cell cannot be opened for writing. Without another
copy of the file, the only repair is to go back: the position becomes the end of the last whole record there is, and
every page whose capture lay behind it, or in a file that is gone, is queued again. Its visits stay in the history,
without a capture; so do the links that were found on it. The archive itself is not changed here; the next crawl cuts a
torn record at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from teia.clock import Clock
from teia.crawler.fetch_rows import forget_locations
from teia.crawler.open_cell import committed_position, note_position, stored_records
from teia.durable import disk_errors
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import SCHEMA
from teia.frontier.tables.captures import forget_lost
from teia.sqlite import check_format
from teia.store.archive import Position, archive_path, committed_files, serial_of
from teia.store.reader import walk_file
from teia.store.root import CellFolder, Root


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Result of a repair: cells rolled back, URLs queued again, visits that lost their capture; and in words."""

    cells: int = 0
    urls: int = 0
    visits: int = 0
    details: tuple[str, ...] = ()


def repair(root: Root, name: str, clock: Clock) -> RepairResult:
    """Roll every cell of a collection back to the end of its archive; the caller has locked the root."""
    folders = root.collection(name).cells()
    for folder in folders:
        # All cells are checked before the first one is changed.
        check_format(folder.frontier, SCHEMA)
    cells = urls = visits = 0
    details: list[str] = []
    for folder in folders:
        done = _repair_cell(folder, clock.now_s())
        cells, urls, visits = cells + done.cells, urls + done.urls, visits + done.visits
        details += done.details
    return RepairResult(cells, urls, visits, tuple(details))


def _repair_cell(folder: CellFolder, now_s: float) -> RepairResult:
    frontier = FrontierCell(folder.frontier)
    try:
        before = committed_position(frontier)
        with disk_errors(folder.archive, "read"):
            after = None if before is None else _last_complete_record(folder.archive, before)
        ends = _Ends(folder.archive, after)
        # One transaction: tables and position agree after a crash, too.
        with frontier.transaction():
            urls, visits = forget_lost(frontier, ends.is_lost, now_s)
            forget_locations(frontier, ends.is_lost)
            if after != before:
                _record_end(frontier, folder.archive, after)
    finally:
        frontier.close()
    if before == after and not urls and not visits:
        return RepairResult()
    where = "" if before is None else f"{before.file} was committed up to {before.offset:,} bytes"
    reached = "nothing is left of it" if after is None else f"{after.file} is complete up to {after.offset:,} bytes"
    ended = f"{where}, {reached}" if before != after else "captures are missing in earlier files"
    what = f"cell {folder.number:02d}: {ended}; {urls:,} URLs are queued again, {visits:,} visits have no capture"
    return RepairResult(1, urls, visits, (what,))


def _last_complete_record(archive: Path, before: Position) -> Position | None:
    """Return the end of the last whole record at or before a position; None if there is none in any file of ours."""
    ours = [each for each in committed_files(archive, before) if serial_of(each[0].name) is not None]
    for path, stop in reversed(ours):
        end = _complete_bytes(path, stop)
        if end:
            return Position(path.name, end)
    return None


def _complete_bytes(path: Path, stop: int | None) -> int:
    """Return the end of the last whole record of a file, before `stop`; damage further ahead is left in place."""
    # The file is as long as committed. Damage inside it is reported by the audit; nothing is rolled back for it.
    if stop is not None and path.stat().st_size >= stop:
        return stop
    return max((each.offset + each.length for each in walk_file(path, stop) if not each.damage), default=0)


class _Ends:
    """Ends of the files that a cell names."""

    def __init__(self, archive: Path, last: Position | None) -> None:
        self._archive = archive
        self._ends: dict[str, int] = {} if last is None else {last.file: last.offset}

    def is_lost(self, file: str, offset: int, length: int) -> bool:
        if file not in self._ends:
            path = archive_path(self._archive, file)
            with disk_errors(path, "read"):
                self._ends[file] = path.stat().st_size if path.is_file() else 0
        return offset + length > self._ends[file]


def _record_end(frontier: FrontierCell, archive: Path, end: Position | None) -> None:
    """Record the archive's end, and the number of its records without the head of each file."""
    if end is None:
        frontier.delete_meta(["archive", "records"])
        return
    records = 0
    for path, stop in committed_files(archive, end):
        if serial_of(path.name) is not None:
            records += sum(not member.damage for member in walk_file(path, stop)) - 1
    note_position(frontier, end, records - stored_records(frontier))
