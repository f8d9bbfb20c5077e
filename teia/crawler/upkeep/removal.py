"""Removal of pages from the cells of a collection: from their tables, the archive and the list of bodies seen.

`teia remove` does it while no crawl runs (transfer/removal.py). A crawl that runs pauses for it, and does it as soon as
none of its visits is under way. The scope excludes the pages before, so that none of them is requested afterwards.

Every step may be repeated. Each cell forgets its pages in one transaction, which also stores the records to erase; what
a stop or a crash leaves of these, the next one who opens the cell erases (open_cell.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from teia.clock import Clock
from teia.crawler.open_cell import Cell, ErasableCell, ErasureStopped, finish_erasures, plan_erasures
from teia.frontier.cell import in_link_counts, mail
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.rules.scope import compile_scope
from teia.frontier.tables.captures import erase_deleted_rows, forget_lost, forget_page
from teia.frontier.tables.pages import all_urls
from teia.index.handover import Handover
from teia.records import RemovedPages
from teia.signals.subscriptions import SCHEMA, Subscriptions
from teia.sqlite import open_database
from teia.store.archive import archive_files
from teia.store.reader import ArchiveRecord, file_records, ignore_damage
from teia.store.root import CellFolder, CollectionFolder
from teia.store.seen_bodies import SeenBodies
from teia.urls import canonicalize, host_to_cell

Matches = Callable[[str], bool]
Found = dict[int, dict[str, set[int]]]
"""Offsets of records, by cell and file."""


@dataclass(slots=True, eq=False)
class PendingRemoval:
    """A removal that a running crawl was asked for, by the number of its request."""

    number: int
    rules: tuple[str, ...]
    is_begun: bool = False
    result: RemovedPages | None = None

    @property
    def is_done(self) -> bool:
        return self.result is not None


def matcher(rules: Sequence[str]) -> Matches:
    """Return the test whether a URL is to be removed."""
    return compile_scope([], rules).excludes


def remove_from_crawl(
    cells: Sequence[Cell], removal: PendingRemoval, clock: Clock, is_stopping: Callable[[], bool]
) -> RemovedPages | None:
    """Remove pages from the open cells of a crawl with nothing under way; runs in the commit thread.

    After a stop the result is None; the file at hand is as it was.
    """
    matches, path = matcher(removal.rules), cells[0].folder.path.parent.parent
    for cell in cells:
        cell.is_in_commit = True
    try:
        found = survey([cell.folder for cell in cells], matches, is_stopping)
        for cell in cells:
            cell.handover.clear()
        open_cells = [
            ErasableCell(each.folder, each.frontier, partial(each.erase_planned, is_stopping)) for each in cells
        ]
        return remove_pages(CollectionFolder(path.name, path), open_cells, found, matches, clock)
    except ErasureStopped:
        return None
    finally:
        for cell in cells:
            cell.is_in_commit = False


def remove_from_closed(folder: CollectionFolder, rules: Sequence[str], clock: Clock) -> RemovedPages:
    """Remove pages from a collection that no crawl has open; the caller has locked the root."""
    matches = matcher(rules)
    with ExitStack() as stack:
        cells = list[ErasableCell]()
        for each in folder.cells():
            frontier = FrontierCell(each.frontier)
            stack.callback(frontier.close)
            Handover(each.handover).clear()
            cells.append(ErasableCell(each, frontier, partial(finish_erasures, each, clock, frontier)))
        return remove_pages(folder, cells, survey(folder.cells(), matches), matches, clock)


def remove_pages(
    folder: CollectionFolder,
    cells: Sequence[ErasableCell],
    found: Found,
    matches: Matches,
    clock: Clock,
    at_once: int = sys.maxsize,
) -> RemovedPages:
    """Remove the matching pages and the records that `survey` found; nothing is appended to the archive meanwhile.

    `at_once` is the greatest number of pages in one transaction: in a cluster each is a record of limited size.
    """
    places = places_of(found)
    cell_number = host_to_cell(folder.starts())
    urls = pages_again = 0
    for cell in cells:
        frontier = cell.frontier
        keys = [each.row_key for each in all_urls(frontier) if matches(each.url)]
        erase_deleted_rows(frontier)
        first = max(0, len(keys) - at_once)
        for at in range(0, first, at_once):
            with frontier.transaction():
                _forget_pages(cell, keys[at : min(first, at + at_once)], cell_number, clock)
        with frontier.transaction():
            _forget_pages(cell, keys[first:], cell_number, clock)
            pages_again += forget_lost(frontier, lambda file, offset, _: (file, offset) in places, clock.now_s())[0]
            own = found.get(cell.folder.number, {})
            plan_erasures(frontier, ((file, each) for file in own for each in own[file]), "removal")
        urls += len(keys)
    # The results of parsing are beside the archive, for other pages with the same body.
    with closing(SeenBodies(folder.seen)) as bodies:
        bodies.forget(places)
    erased = sum(cell.erase().bytes for cell in cells)
    return RemovedPages(urls, len(places), erased, pages_again)


def _forget_pages(cell: ErasableCell, keys: Sequence[RowKey], cell_number: Callable[[str], int], clock: Clock) -> None:
    """Forget pages of a cell, and count the links that they had no more; inside a transaction."""
    frontier = cell.frontier
    gone: dict[int, list[FoundUrl]] = {}
    for row_key in keys:
        for host, key in forget_page(frontier, row_key):
            gone.setdefault(cell_number(host), []).append(in_link_counts.removed_link(host, key))
    frontier.add_links(gone.pop(cell.folder.number, []), clock.now_s())
    for to_cell, links in gone.items():
        mail.post(frontier, to_cell, links)


def places_of(found: Found) -> set[tuple[str, int]]:
    """Return the files and offsets of records that `survey` found."""
    return {(file, offset) for files in found.values() for file, offsets in files.items() for offset in offsets}


def count_records(
    cells: Sequence[CellFolder], matches: Matches, is_stopping: Callable[[], bool] = lambda: False
) -> int:
    """Return the number of records about matching URLs; every record is read."""
    found = survey(cells, matches, is_stopping)
    return sum(len(offsets) for files in found.values() for offsets in files.values())


def count_urls(cells: Sequence[CellFolder], matches: Matches) -> int:
    """Return the number of matching URLs that are known."""
    return sum(1 for _, each in _known(cells) if matches(each))


def count_pages(cells: Sequence[CellFolder], matches: Matches) -> int:
    """Return the number of matching pages that still have content."""
    return sum(1 for has_content, each in _known(cells) if has_content and matches(each))


def _known(cells: Sequence[CellFolder]) -> Iterator[tuple[bool, str]]:
    """Yield every known URL, and whether its page still has content."""
    for folder in cells:
        with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
            for each in all_urls(frontier):
                yield each.page is not None and bool(each.page.file or each.page.digest or each.page.title), each.url


def forget_subscriptions(folder: CollectionFolder, matches: Matches) -> tuple[int, int]:
    """End subscriptions to matching pages, and delete notices that name one; return the numbers of both."""
    if not folder.subscriptions.exists():
        return 0, 0
    with closing(Subscriptions(open_database(folder.subscriptions, SCHEMA))) as store:
        return store.forget_pages(matches)


def survey(cells: Sequence[CellFolder], matches: Matches, is_stopping: Callable[[], bool] = lambda: False) -> Found:
    """Return the offsets of the records about matching URLs, by cell and file; every record is read."""
    found: Found = {}
    for folder in cells:
        for path in archive_files(folder.archive):
            offsets = set(_offsets(file_records(path, ignore_damage), matches, is_stopping))
            if offsets:
                found.setdefault(folder.number, {})[path.name] = offsets
    return found


def _offsets(records: Iterator[ArchiveRecord], matches: Matches, is_stopping: Callable[[], bool]) -> Iterator[int]:
    for record in records:
        if is_stopping():
            raise ErasureStopped
        if _is_about(record, matches):
            yield record.offset


def _is_about(record: ArchiveRecord, matches: Matches) -> bool:
    """Tell whether a record is of a matching URL, or refers to the body of one."""
    urls = (record.url, record.headers.get("warc-refers-to-target-uri", ""))
    return any(url and (canonical := canonicalize(url)) is not None and matches(canonical) for url in urls)
