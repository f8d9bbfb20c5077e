"""A cell opened by its owner: the frontier's database and the archive, at one committed point.

The frontier's `meta` row `archive` is the archive's committed position. It is written in the same transaction as the
pages whose records end there. So after any crash the archive is cut at that point, and the frontier knows no page that
is not stored (tests/system/test_kill.py).

A group that could not be committed leaves its records in the archive, because the state of the database file is unknown
then: a COMMIT that failed may be in SQLite's log, and the next process that opens the file may find it committed. The
records are cut once it is certain that they were not committed. The next start does so, because it reads the position
anew; or the next group does before it appends, after a commit that settles the doubt (tests/faults).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.crawler.visit import ActiveVisit
from teia.errors import StoreError
from teia.frontier.cell.cell import DISCOVERY, FrontierCell
from teia.frontier.cell.change_order import reorder_queue
from teia.frontier.cell.journal import Journal
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.order import Order
from teia.frontier.queue.schedule import HostQueue
from teia.index.handover import Handover
from teia.records import Outcome
from teia.sqlite import log_bytes
from teia.store.archive import ArchiveWriter, Position, archive_path
from teia.store.erase import Erased, count_fewer, erase
from teia.store.manifest import begin_erasure, end_erasure
from teia.store.reader import ArchiveReader
from teia.store.root import CellFolder
from teia.store.warc import header_url

if TYPE_CHECKING:
    from teia.frontier.traps.watch import TrapWatch

logger = logging.getLogger(__name__)

CLOSE_WAIT_S = 1.0
"""Time that closing a cell waits for a reader, so that SQLite's log can be removed."""


class Cell:
    """One cell, open for writing.

    In a cluster an archive file may lie on another node's disk: `is_elsewhere` tells so of a file and its expected
    size. `may_cut` tells whether records that were not committed may be cut off.
    """

    def __init__(
        self,
        folder: CellFolder,
        collection: str,
        order: Order,
        file_bytes: int,
        clock: Clock,
        journal: Journal | None = None,
        is_elsewhere: Callable[[Path, int], bool] = lambda *_: False,
        may_cut: Callable[[], bool] = lambda: True,
    ) -> None:
        self.number = folder.number
        self.folder = folder
        self.is_read = False
        """True while another process reads closed files, or records are erased from them: never both."""
        self.log_folder = folder.log
        self._reader = ArchiveReader(folder.archive)
        self.frontier = FrontierCell(folder.frontier, order, journal=journal)
        # A node replaces a damaged copy by a snapshot (cluster/cells/copies.py).
        if journal is None:
            self.frontier.check_pages()
        self._clock = clock
        self._archive_arguments = (folder.archive, collection, folder.number, file_bytes, clock)
        self._is_elsewhere, self._may_cut = is_elsewhere, may_cut
        self._must_rewind = False
        self.watch: TrapWatch | None = None
        """The trap detector, if the collection wants one."""
        self.is_in_commit = False
        """True while the commit thread uses the files; `close` does not close them then."""
        # Before the archive is opened: an erasure replaces files.
        finish_erasures(folder, clock, self.frontier)
        self.archive = self._open_archive()
        self.handover = Handover(folder.handover)
        with self.frontier.transaction():
            reorder_queue(self.frontier)
            if committed_position(self.frontier) != self.archive.position:
                note_position(self.frontier, self.archive.position)

    def _open_archive(self) -> ArchiveWriter:
        start = committed_position(self.frontier)
        is_elsewhere = start is not None and self._is_elsewhere(self.folder.archive / start.file, start.offset)
        return ArchiveWriter(*self._archive_arguments, start, past_damage=is_elsewhere)

    def note_visit(self, visit: ActiveVisit) -> None:
        """Report a visited page to the trap detector, inside the transaction that settles it."""
        watch, queue, item, result = self.watch, visit.queue, visit.item, visit.result
        if watch is None or item.purpose != "page":
            return
        was_answered = visit.fetched is not None and visit.fetched.status != 0
        watch.note_returned(queue.host_id, item, was_answered=was_answered)
        if result is None or visit.fetched is None:
            return
        if result.traps:
            watch.count_refused(queue.host_id, queue.host, result.traps)
        # Only first visits tell the value of a pattern.
        if item.visits:
            return
        if visit.fetched.status in {404, 410} or visit.outcome == Outcome.SOFT_404:
            watch.count_visit(queue.host_id, queue.host, item, b"", 0)
        elif 200 <= visit.fetched.status < 300:
            watch.count_visit(queue.host_id, queue.host, item, result.text_digest or result.digest, result.outline)

    def next_urls(
        self, queue: HostQueue, limit: int, skip: Collection[int], now_s: float, lanes: Sequence[int] = DISCOVERY
    ) -> tuple[list[QueuedUrl], bool]:
        """Return a host's next URLs, and whether the trap detector holds more back until these are read."""
        if self.watch is None:
            return self.frontier.next_urls(queue.host_id, queue.host, limit, skip, now_s, lanes), False
        choice = self.watch.admit(queue.host_id, queue.host, limit, skip, now_s, lanes)
        return choice.items, choice.held

    def with_readable_capture(self, item: QueuedUrl) -> QueuedUrl:
        """Return a URL to be revisited, without its earlier capture if that cannot be read any more.

        An answer that repeats the capture is stored as a reference to it, and a server that answers 304 sends no body
        at all. So a damaged or lost capture is forgotten, and the next answer is stored whole.
        """
        if not item.digest:
            return item
        path = self._reader.path_of(item.file)
        if not path.exists() and self._is_elsewhere(path, 0):
            return item
        try:
            record = self._reader.read(item.file, item.offset)
        except StoreError as error:
            logger.warning(
                "the capture of %s cannot be read (%s); the next response is stored in full", item.url, error
            )
            return replace(item, etag="", last_modified="", digest="", captured_s=0.0, file="", offset=0)
        # The body may have come with another URL (content_seen.py); a revisit record then refers to that one.
        if record.url == header_url(item.url):
            return item
        return replace(item, captured_s=record.time_s, captured_url=record.url)

    @contextmanager
    def commit_group(self) -> Iterator[None]:
        """Append a group and commit it, in the block; if that fails, the archive is rewound before the next group."""
        if self._must_rewind:
            self.rewind()
        # An exception in the block leaves it set, so that the next group rewinds first.
        self._must_rewind = True
        yield
        self._must_rewind = False

    def rewind(self) -> None:
        """Return to the committed position, after a group that was appended but could not be committed."""
        if not self._may_cut():
            return
        if self.frontier.is_in_doubt:  # an empty commit replaces the one that failed
            with self.frontier.transaction():
                pass
        self.archive.close()
        self.archive = self._open_archive()

    def erase_planned(self, is_stopping: Callable[[], bool]) -> Erased:
        """Erase the planned records while the cell is open; nothing may be appended meanwhile.

        The open file may be written anew, so the archive is closed before and opened at the same position after.
        """
        self.archive.close()
        try:
            return finish_erasures(self.folder, self._clock, self.frontier, is_stopping)
        finally:
            self.archive = self._open_archive()

    def truncate_log(self) -> None:
        """Truncate SQLite's log, as far as readers and the disk allow."""
        if log_bytes(self.frontier.path):
            self.frontier.shrink_log()

    def close(self) -> None:
        """Close all files even if one fails, and remove SQLite's log even if a reader has the cell open.

        A cell whose commit does not end (a disk that hangs) is left as it is: to cut its archive while the commit may
        still succeed would lose pages. It ends with the process, and the next start recovers it as after a kill.
        """
        if self.is_in_commit:
            return
        # Callbacks run in reverse order: the database is closed last.
        with ExitStack() as closing:
            closing.callback(self.frontier.close)
            closing.callback(self.frontier.shrink_log, CLOSE_WAIT_S)
            closing.callback(self.archive.close)
            closing.callback(self.handover.close)


Touched = list[tuple[Cell, list[tuple[int, str]]]]
"""Hosts of cells with new work or another order, as (number, name)."""


def committed_position(frontier: FrontierCell) -> Position | None:
    """Return the archive's end according to the frontier; None in a cell that never stored anything."""
    value = frontier.meta("archive")
    return None if value is None else Position(*json.loads(value))


def note_position(frontier: FrontierCell, position: Position, new_records: int = 0) -> None:
    """Store a position and count the records that lie before it; inside a transaction of the frontier."""
    value = json.dumps([position.file, position.offset])
    frontier.set_meta({"archive": value, "records": stored_records(frontier) + new_records})


def stored_records(frontier: FrontierCell) -> int:
    """Return the number of records in the archive, without the first record of each file."""
    return int(frontier.meta("records") or 0)


# ---- records to erase ------------------------------------------------------------------------------------------------

ERASURES, COUNTED_ERASURES = "erasures", "counted_erasures"
"""Row of `meta` with the records that are to be erased from the archive.

It is written with the change that makes them superfluous, and removed when the files are without them. So the next one
who opens the cell finishes what a crash interrupted.
"""


ErasurePlan = dict[str, dict[str, str]]
"""By file: the offsets of answers, each with the reason."""


def plan_erasures(frontier: FrontierCell, places: Iterable[tuple[str, int]], reason: str) -> None:
    """Store which answers are to be erased, as (file, offset); inside the transaction that forgets them."""
    planned = _planned(frontier)
    for file, offset in places:
        planned.setdefault(file, {})[str(offset)] = reason
    frontier.set_meta({ERASURES: json.dumps(planned)})


@dataclass(slots=True)
class ErasableCell:
    """A cell from which records go. `erase` erases those that are planned, and returns what it erased."""

    folder: CellFolder
    frontier: FrontierCell
    erase: Callable[[], Erased]


class ErasureStopped(Exception):
    """A stop came while records were erased; the plan is stored, and the next start erases the rest."""


def finish_erasures(
    folder: CellFolder,
    clock: Clock,
    frontier: FrontierCell | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Erased:
    """Erase what is planned for a cell; the caller holds the root's lock and appends nothing meanwhile.

    If the caller is stopping, raise ErasureStopped: the file at hand stays as it was, however large it is.
    """

    def check() -> None:
        if is_stopping():
            raise ErasureStopped

    cell = frontier or FrontierCell(folder.frontier)
    try:
        counted, done = _count_erasures(folder, cell, clock, check), Erased()
        for file, answers in counted.items():
            path = archive_path(folder.archive, file)
            check()
            if path.is_file():
                reason, collection = next(iter(answers.values())), folder.path.parent.parent
                begin_erasure(collection, path, reason, clock.now_s())
                done.add(erase(path, [int(offset) for offset in answers], reason, clock.now_s(), check))
                # Before the plan is forgotten: after a crash the erasure is repeated, and the entry with it.
                end_erasure(collection, path, reason, clock.now_s())
        if counted:
            with cell.transaction():
                cell.delete_meta([COUNTED_ERASURES])
    finally:
        if frontier is None:
            cell.close()
    return done


def _count_erasures(folder: CellFolder, cell: FrontierCell, clock: Clock, check: Callable[[], None]) -> ErasurePlan:
    """Subtract planned erasures from the number of records, each once; return all that are not known to be done.

    Before they are done: afterwards nothing in a file tells how many records were there.
    """
    planned, counted, fewer = _planned(cell), _planned(cell, COUNTED_ERASURES), 0
    for file, answers in planned.items():
        path, before = archive_path(folder.archive, file), counted.get(file, {})
        after = before | answers
        if path.is_file():
            places = [[int(offset) for offset in each] for each in (after, before)]
            counts = [count_fewer(path, each, next(iter(after.values())), clock.now_s(), check) for each in places]
            fewer += counts[0] - counts[1]
        counted[file] = after
    if planned:
        with cell.transaction():
            cell.delete_meta([ERASURES])
            cell.set_meta({COUNTED_ERASURES: json.dumps(counted)})
            cell.set_meta({"records": max(0, int(cell.meta("records") or 0) - fewer)})
    return counted


def _planned(frontier: FrontierCell, kind: str = ERASURES) -> ErasurePlan:
    planned: ErasurePlan = json.loads(frontier.meta(kind) or "{}")
    return planned
