"""`teia audit links`: in-links recounted, and compared with the count of every URL (docs/graph.md).

The frontier counts links one by one as they appear and disappear. The audit recounts them page by page, from the links
that each page's cell stores (in_link_counts.py). For pages read by an older teia, which stored none, it uses the
metadata record of their capture. Stored links are also compared with the capture: a counted link must be there. Links
on their way between cells count as arrived.

An audit reads all cells as they were at one instant, so it can run beside a crawl. A repair writes: wrong or missing
stored links are made again from the captures, and every URL gets the resulting count.
"""

from __future__ import annotations

import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from teia.clock import Clock
from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.child.messages import FoundLink
from teia.crawler.commit import CommitResult
from teia.crawler.compiled_settings import CompiledSettings, compile_settings
from teia.crawler.depths import links_of_capture, read_metadata
from teia.crawler.links import MAX_OUTLINKS, outlinks_of
from teia.crawler.sites.aliases import AliasBook
from teia.crawler.start import open_crawls
from teia.errors import StoreError
from teia.frontier.cell import in_link_counts, mail
from teia.frontier.cell.alias_evidence import pair_names
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.change_order import reorder_queue
from teia.frontier.cell.connection import RowKey
from teia.frontier.queue.ledger import Ledger
from teia.frontier.tables.pages import all_pages, url_of, visits_of
from teia.frontier.traps.pattern_table import refusing_hosts
from teia.records import Outcome
from teia.store.audit import MAX_DETAILS, Audit
from teia.store.reader import ArchiveReader
from teia.store.root import CellFolder, Root
from teia.urls import key_of

Rewrite = Callable[[list[FoundLink]], list[FoundLink]]

PART_KEYS = 1 << 24
"""Number of links sorted at a time: 400 MB of memory. More are counted in several parts."""

ROWS_AT_ONCE = 50_000
PAGES_AT_ONCE = 1_000
SNAPSHOT_TRIES = 50
MAX_VISITS_BACK = 5
"""Number of visits of a page whose records are searched for a link that its capture does not have."""

NOT_FOLLOWED = frozenset({Outcome.SOFT_404, Outcome.OUT_OF_SCOPE, Outcome.REDIRECT_LOOP})
"""Outcomes of pages whose links are not followed."""


@dataclass(frozen=True, slots=True)
class LinksAudit(Audit):
    """Result of an audit of links: URLs `checked`, `differences` between their counts and the existing links.

    `violations` are those, and the pages with counted links that their capture does not have. `uncertain` pages were
    read by an older teia, which stored nothing about the links it counted for them. `repaired` URLs were given another
    count.
    """

    differences: int = 0
    uncertain: int = 0
    repaired: int = 0


class _ReadPage(NamedTuple):
    """A page with a capture, and its stored links; None if none are stored."""

    slot: int
    host_id: int
    key: int
    url: str
    depth: int
    outcome: str
    status: int
    file: str
    offset: int
    length: int
    stored: bytes | None

    @property
    def row_key(self) -> RowKey:
        return self.slot, self.host_id, self.key


class _Counted(NamedTuple):
    """The links of one page to count; `is_changed`: they differ from the stored ones, `is_wrong`: from the capture."""

    page: _ReadPage
    targets: dict[int, str]
    is_changed: bool
    is_wrong: bool


@dataclass
class _Recount:
    """The cells of a collection as they are at one instant, and how their pages' links are read."""

    cells: Sequence[FrontierCell]
    readers: Sequence[ArchiveReader]
    compiled: CompiledSettings
    rewrite: Rewrite
    paired: set[str] = field(default_factory=set)
    """Hosts that are, or were, one of two names of a site: links to them may be counted under the other."""

    def __post_init__(self) -> None:
        for cell in self.cells:
            for host, other, _ in pair_names(cell):
                self.paired |= {host, other}

    def pages(self, number: int) -> Iterator[_Counted]:
        """Yield every page of a cell, with its links."""
        cell = self.cells[number]
        has_table = in_link_counts.has_table(cell)
        for page in _pages(cell, has_table=has_table):
            if page.stored is not None:
                targets = in_link_counts.unpack(cell, page.stored)
                is_wrong = not self._matches_capture(number, page, targets)
                if is_wrong:
                    archived = self._from_capture(number, page)
                    yield _Counted(page, targets if archived is None else archived, True, True)
                else:
                    yield _Counted(page, targets, False, False)
            # In such a cell a page without a row has no counted links.
            elif cell.knows_links and has_table:
                yield _Counted(page, {}, False, False)
            else:
                yield _Counted(page, self._from_capture(number, page) or {}, True, False)

    def _block(self, number: int, file: str, at: int) -> bytes:
        """Return the block of a metadata record; empty where there is none that can be read."""
        try:
            record = self.readers[number].read(file, at) if file else None
        except StoreError:
            return b""
        return record.block if record is not None and record.kind == "metadata" else b""

    def _from_capture(self, number: int, page: _ReadPage) -> dict[int, str] | None:
        """Return the links of a page by its capture; None if that cannot be read."""
        if page.status >= 300 or page.outcome in NOT_FOLLOWED:
            return {}
        at = page.offset + page.length
        block = read_metadata(self.cells[number], self.readers[number], page.row_key, page.file, at)
        if not block:
            return None
        links, _ = links_of_capture(block, page.depth, self.compiled)
        return {link.key: link.host for link in self.rewrite(links) if link.count and link.key != page.key}

    def _matches_capture(self, number: int, page: _ReadPage, targets: dict[int, str]) -> bool:
        """Tell whether a page's capture, or the record of an unchanged visit, has the links stored for it."""
        block = self._block(number, page.file, page.offset + page.length)
        # Without a record there is nothing to compare with.
        if not block:
            return True
        missing = self._missing(targets, block)
        if missing:
            archived = [visit for visit in visits_of(self.cells[number], page.row_key) if visit.file]
            for visit in archived[: -MAX_VISITS_BACK - 1 : -1]:
                if not self._missing(missing, self._block(number, visit.file, visit.offset + visit.length)):
                    return True
        return not missing

    def _missing(self, targets: dict[int, str], block: bytes) -> dict[int, str]:
        links = outlinks_of(block)
        if len(links) >= MAX_OUTLINKS:  # the record keeps no more of them, and all were counted
            return {}
        in_capture = {key_of(link.url) for link in links if not link.kind.is_requisite}
        return {key: host for key, host in targets.items() if key not in in_capture and host not in self.paired}


def _pages(cell: FrontierCell, *, has_table: bool) -> Iterator[_ReadPage]:
    """Yield every page in archive order."""
    for row_key, _, url, row, page in all_pages(cell):
        assert page is not None
        stored = in_link_counts.load(cell, row_key) if has_table else None
        archived = (page.file, page.offset, page.length)
        yield _ReadPage(*row_key, url, row.depth, row.outcome, page.status, *archived, stored)


# ---- counting -------------------------------------------------------------------------------------------------------


class _Tally:
    """The keys of all links, on disk, and the number of occurrences of each, part by part."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._keys = file, array("q")
        self._total = 0

    def add(self, keys: dict[int, str]) -> None:
        self._keys.extend(keys)
        if len(self._keys) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._keys.tofile(self._file)
        self._total += len(self._keys)
        self._keys = array("q")

    def parts(self) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (first key, last key, keys, counts) of each part."""
        self._flush()
        number = 1 + self._total // PART_KEYS
        # Keys are hashes, so equal ranges hold about equally many.
        width = (1 << 64) // number
        for part in range(number):
            first = -(1 << 63) + part * width
            last = (1 << 63) - 1 if part == number - 1 else first + width - 1
            keys, counts = np.unique(np.concatenate(list(self._between(first, last))), return_counts=True)
            yield first, last, keys, counts

    def _between(self, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        # `concatenate` needs at least one array.
        yield np.zeros(0, np.int64)
        self._file.seek(0)
        while octets := self._file.read(8 * PART_KEYS // 4):
            keys = np.frombuffer(octets, np.int64)
            yield keys[(keys >= first) & (keys <= last)]


@contextmanager
def _tally() -> Iterator[_Tally]:
    with tempfile.TemporaryFile() as file:
        yield _Tally(file)


class _WrongCount(NamedTuple):
    """A URL whose count is wrong."""

    slot: int
    host_id: int
    key: int
    stored_count: int
    expected: int


def _differing(cell: FrontierCell, tally: _Tally, in_transit: Counter[int]) -> Iterator[_WrongCount | int]:
    """Yield the URLs of a cell whose counts differ, and now and then how many were checked.

    Where patterns of a host's URLs were refused (watch.py), a link may have been dropped before its URL was known.
    """
    refusing = refusing_hosts(cell)
    for first, last, keys, counts in tally.parts():
        stored = in_link_counts.stored_counts(cell)
        while rows := list(islice(stored, ROWS_AT_ONCE)):
            table = np.array(rows, np.int64)
            table = table[(table[:, 2] >= first) & (table[:, 2] <= last)]
            at = np.minimum(np.searchsorted(keys, table[:, 2]), max(0, len(keys) - 1))
            expected = np.where(keys[at] == table[:, 2], counts[at], 0) if len(keys) else np.zeros(len(table), np.int64)
            if in_transit:
                # Links in an outbox are not part of the URL's count yet.
                expected -= np.array([in_transit[key] for key in table[:, 2].tolist()], np.int64)
            for index in np.flatnonzero(expected != table[:, 3]).tolist():
                slot, host_id, key, stored_count = table[index].tolist()
                row = _WrongCount(slot, host_id, key, stored_count, int(expected[index]))
                # Too few may be right where links were dropped; too many never is.
                if row.stored_count > row.expected or row.host_id not in refusing:
                    yield row
            yield len(table)


def _in_transit(cells: Sequence[FrontierCell]) -> Counter[int]:
    """Count the links in outboxes that are not yet added to the counts of URLs, by key."""
    in_transit: Counter[int] = Counter()
    for number, cell in enumerate(cells):
        for seq, to_cell, found in mail.pending(cell):
            if to_cell < len(cells) and seq > mail.last_received(cells[to_cell], number):
                for each in found:
                    in_transit[each.key] += each.in_links
    return in_transit


# ---- auditing -------------------------------------------------------------------------------------------------------


def audit_links(root: Root, name: str) -> LinksAudit:
    """Recount the links of a collection, and compare; reads only."""
    config = saved(root, name).config
    folder = root.collection(name)
    with ExitStack() as stack:
        folders = folder.cells()
        cells = [_open_cell(each, stack) for each in folders]
        _take_snapshot(cells)
        compiled = compile_settings(config, folder.lists)
        recount = _Recount(cells, _readers(folders), compiled, _rewriter(cells, folder.starts(), config, compiled))
        return _audit(recount, stack)


def _audit(recount: _Recount, stack: ExitStack, repaired: int = 0) -> LinksAudit:
    tally = stack.enter_context(_tally())
    details: list[str] = []
    checked = differences = wrong = uncertain = 0
    for number in range(len(recount.cells)):
        for page, targets, is_changed, is_wrong in recount.pages(number):
            uncertain += is_changed and not is_wrong
            wrong += is_wrong
            if is_wrong and len(details) < MAX_DETAILS:
                details.append(f"{page.url}: counted links are missing in its capture")
            tally.add(targets)
    in_transit = _in_transit(recount.cells)
    for cell in recount.cells:
        for each in _differing(cell, tally, in_transit):
            if isinstance(each, int):
                checked += each
                continue
            differences += 1
            if len(details) < MAX_DETAILS:
                details.append(
                    f"{url_of(cell, each[:3])}: {each.stored_count:,} in-links stored,"
                    f" {each.expected:,} pages link to it"
                )
    return LinksAudit(checked, differences + wrong, tuple(details), differences, uncertain, repaired)


def _open_cell(folder: CellFolder, stack: ExitStack) -> FrontierCell:
    cell = FrontierCell(folder.frontier, read_only=True)
    stack.callback(cell.close)
    return cell


def _readers(folders: Sequence[CellFolder]) -> list[ArchiveReader]:
    return [ArchiveReader(folder.archive) for folder in folders]


def _rewriter(
    cells: Sequence[FrontierCell], starts: Sequence[int], config: Config, compiled: CompiledSettings
) -> Rewrite:
    if not config.sites.aliases:
        return lambda links: links
    aliases = AliasBook(dict(enumerate(cells)), starts, config.sites, lambda url: compiled.wants_link(url, 0, 0))
    return lambda links: [aliases.rewrite(link) for link in links]


def _take_snapshot(cells: Sequence[FrontierCell]) -> None:
    """Snapshot all cells at one consistent instant: none has received mail that another had not sent yet."""
    for _ in range(SNAPSHOT_TRIES):
        for cell in cells:
            cell.begin_snapshot()
        if _is_consistent(cells):
            return
        for cell in cells:
            cell.end_snapshot()
    raise StoreError("the cells change too fast for a consistent snapshot; stop the crawl for the audit")


def _is_consistent(cells: Sequence[FrontierCell]) -> bool:
    sent = [mail.last_posted(cell) for cell in cells]
    received = ((number, mail.last_received(cell, number)) for cell in cells for number in range(len(cells)))
    return all(seq <= sent[number] for number, seq in received)


# ---- repairing ------------------------------------------------------------------------------------------------------


def repair_links(root: Root, name: str, clock: Clock) -> LinksAudit:
    """Recount the links of a collection and write the counts; return an audit made afterwards.

    No other process may write the folder meanwhile. An interrupted repair starts again from the beginning.
    """
    with root.locked(), _open_cells(root, name, clock) as (cells, recount), ExitStack() as stack:
        tally = stack.enter_context(_tally())
        for number, cell in enumerate(cells):
            _count_and_store(cell, recount.pages(number), tally)
        repaired = 0
        for cell in cells:
            rows = [each for each in _differing(cell, tally, Counter()) if isinstance(each, _WrongCount)]
            for at in range(0, len(rows), ROWS_AT_ONCE):
                with cell.transaction():
                    batch = rows[at : at + ROWS_AT_ONCE]
                    in_link_counts.correct_counts(cell, [(row.expected, *row[:3]) for row in batch])
            with cell.transaction():
                in_link_counts.mark_complete(cell)
                # The queue is sorted by the old counts.
                if rows and cell.order.depends_on_links:
                    reorder_queue(cell, anew=True)
            repaired += len(rows)
        return _audit(recount, stack, repaired)


def _count_and_store(cell: FrontierCell, pages: Iterator[_Counted], tally: _Tally) -> None:
    """Count the links of a cell's pages, and store those that were wrong or missing."""
    while batch := list(islice(pages, PAGES_AT_ONCE)):
        for each in batch:
            tally.add(each.targets)
        changed = [each for each in batch if each.is_changed and (each.targets or each.page.stored is not None)]
        with cell.transaction() if changed else nullcontext():
            for page, targets, *_ in changed:
                by_host: dict[str, list[int]] = {}
                for key, host in targets.items():
                    by_host.setdefault(host, []).append(key)
                in_link_counts.store(cell, page.row_key, by_host)


@contextmanager
def _open_cells(root: Root, name: str, clock: Clock) -> Iterator[tuple[list[FrontierCell], _Recount]]:
    """Open a collection's cells for writing, with all mail delivered. The ledger of delays is not changed."""
    config, folder = saved(root, name).config, root.collection(name)
    ledger = Ledger(root.path / "ledger.sqlite")
    try:
        with open_crawls(root, [config], ledger, clock) as (crawl,):
            crawl.committer.deliver(CommitResult())
            cells = [cell.frontier for cell in crawl.committer.cells]
            for cell in cells:
                cell.sort_on_disk()  # all pages of a cell are sorted
            rewrite = _rewriter(cells, folder.starts(), config, crawl.compiled)
            yield cells, _Recount(cells, _readers(folder.cells()), crawl.compiled, rewrite)
    finally:
        ledger.close(clean=False, now_s=clock.now_s())
