"""Removal of pages in a cluster (`teia remove`): from the cells, disks and indexes of all nodes, and from NATS.

    1  a node writes the removal into the agreement, after the rules that exclude its pages (cluster/crawl/settings.py)
    2  every node ends its shift and removes the pages from its folder: the records from the archives of all cells, also
       of those that others own by now, the entries from the indexes, bodies seen, subscriptions. From the cells that
       it owns it removes them as one machine does (crawler/upkeep/removal.py): by transactions, which are in the log
    3  the owner of a cell replaces its snapshots by a new one, and purges the log before it; shipped archives that
       changed are stored again. Then the agreement says that the cell is done
    4  when all cells are done, every node brings copies of cells up to date that still have such pages, reads
       everything again, and writes into the agreement what is left

Every step may be repeated. A removal stays in the agreement for ever, and each folder stores which ones it has carried
out (`removed.json`). So a node that was down does step 2 before it joins, and the next owner of a cell does step 3.

A page of another cell may refer to a body in a removed record. The node that has the record names it to all cells
before it erases it (`LostCaptures`), so that such pages are fetched again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog, TooLarge
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.ship_archive import ArchiveTransfers
from teia.cluster.cells.site_homes import LOST, LostCaptures
from teia.cluster.members.agreement import HASH, AgreedRemoval, Agreement, NodeRemoval, amend_agreement, nudge
from teia.cluster.members.session import NodeState
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire
from teia.crawler.open_cell import CLOSE_WAIT_S, ErasableCell, ErasureStopped, finish_erasures
from teia.crawler.upkeep.removal import (
    Found,
    Matches,
    count_pages,
    count_records,
    count_urls,
    forget_subscriptions,
    matcher,
    places_of,
    remove_pages,
    survey,
)
from teia.durable import disk_errors, write_atomically
from teia.errors import ClusterError, CorruptFile
from teia.frontier.cell import mail, move_site
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.captures import shared_places
from teia.index.borrowed import BorrowedEntries
from teia.index.handover import Handover
from teia.lib.undecodable import UNDECODABLE
from teia.records import RemovedPages
from teia.store.archive import archive_path
from teia.store.erase import Erased, erase
from teia.store.manifest import begin_erasure, end_erasure
from teia.store.root import CellFolder, Root

DONE_FILE = "removed.json"
REASON = "removal"
POLL_S = 0.3
LINKS_S = 5.0
"""Longest time to read the messages that wait for a cell."""

TRY_AGAIN_S = 2.0
PASSES = 2
"""Times that a node removes pages and reads everything again, before it reports that something cannot be removed."""

PAGES_AT_ONCE = 1_000, 100, 10, 1
"""Pages in one transaction: the next number if the one before is too much for NATS."""

PLACES_AT_ONCE = 5_000
"""Most records that one message names."""

WORKSPACES = (".snapshot", ".restore", ".split")
"""Folders of a cell in which a crash may have left copies of its file (snapshots.py)."""

DONE, PENDING, LEFT = "done", "pending", "left"
"""States of a node in the result of a removal."""

COUNTS = tuple(name for name in NodeRemoval.__struct_fields__ if name != "is_checked")
Result = TypeVar("Result")
_encode = msgspec.json.Encoder().encode
_decode_done = msgspec.json.Decoder(dict[str, NodeRemoval]).decode
_log = logging.getLogger(__name__)


# ---- the agreement ---------------------------------------------------------------------------------------------------


def with_removal(now: Agreement, mark: str, rules: tuple[str, ...], requested_s: float) -> Agreement:
    """Return the agreement with one more removal; unchanged if it has it. ClusterError if snapshots are off."""
    if any(each.mark == mark for each in now.removals):
        return now
    if not now.config.cluster.snapshots:
        raise ClusterError(
            "removing pages needs snapshots, and this collection has none (cluster.snapshots): without them the logs"
            " of its cells keep every row"
        )
    return msgspec.structs.replace(now, removals=[*now.removals, AgreedRemoval(mark, rules, requested_s)])


def with_report(
    now: Agreement, mark: str, node: str, report: NodeRemoval, done: Collection[int], undone: Collection[int] = ()
) -> Agreement:
    """Return the agreement with a node's part in a removal, and with the cells that are done, or not done after all."""

    def changed(removal: AgreedRemoval) -> AgreedRemoval:
        cells = (removal.cells | frozenset(done)) - frozenset(undone)
        return msgspec.structs.replace(removal, cells=cells, reports={**removal.reports, node: report})

    removals = [changed(each) if each.mark == mark else each for each in now.removals]
    return msgspec.structs.replace(now, removals=removals)


def removal_result(removal: AgreedRemoval, nodes: Mapping[str, NodeState]) -> RemovedPages | None:
    """Return the result of a removal so far; None as long as a node that is alive has not reported.

    Nodes that are down are pending. Those whose keys an operator deleted are not known any more.
    """
    reports, states = removal.reports, dict[str, str]()
    for name in sorted({*nodes, *reports}):
        report = reports.get(name, NodeRemoval())
        if not report.is_checked:
            if name not in nodes:
                continue
            if nodes[name].is_alive:
                return None
        states[name] = DONE if report.is_clean else LEFT if report.is_checked else PENDING
    done = list(reports.values())
    sums = {name: sum(getattr(each, name) for each in done) for name in COUNTS}
    return RemovedPages(**sums, nodes=states)


def is_complete(removal: AgreedRemoval, nodes: Mapping[str, NodeState]) -> bool:
    """Tell whether all known nodes have reported that nothing is left."""
    result = removal_result(removal, nodes)
    return result is not None and set(result.nodes.values()) <= {DONE}


# ---- one node --------------------------------------------------------------------------------------------------------


class ClusterRemovals:
    """One node's part in removals. Everything here runs in the cluster's own loop, but for `held`."""

    def __init__(
        self, root: Root, collection: str, shared: str, node: str, wire: Wire, thread: LoopThread, clock: Clock,
        copies: CellCopies, agreement: Callable[[], Agreement], is_stopping: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._root, self._folder = root, root.collection(collection)
        self._shared, self._node = shared, node
        self._wire, self._thread, self._clock = wire, thread, clock
        self._copies, self._agreement = copies, agreement
        self._is_stopping = is_stopping
        self._is_cancelled = False
        self._owner: CellOwner | None = None
        self._transfers: ArchiveTransfers | None = None
        self._done = _read_done(self._folder.path / DONE_FILE)
        """By mark: the removals that this folder has been through, with what was removed."""
        self._cells: dict[str, set[int]] = {}
        """By mark: cells that this node has done."""
        self._removed: dict[str, NodeRemoval] = {}
        """By mark: what was removed here since the node started."""
        self._checked: set[str] = set()
        """Marks of removals that were checked and reported; the agreement says so a moment later."""
        self._passes: dict[str, int] = {}
        self._link_ends: dict[tuple[str, int], int] = {}
        """By mark and cell: the last message to the cell when all cells were done."""

    def held(self) -> set[int]:
        """Return the cells that are owned here if none may be crawled now, because pages are to be removed.

        All of them, also if one cell is concerned: the indexer writes to all of its cells.
        """
        owned = set() if self._owner is None else set(self._owner.owned)
        return owned if any(self._is_to_do(each, owned) for each in self._agreement().removals) else set()

    def _is_to_do(self, removal: AgreedRemoval, owned: set[int]) -> bool:
        return removal.mark not in self._done or bool(self._cells_to_do(removal, owned))

    def _cells_to_do(self, removal: AgreedRemoval, owned: set[int]) -> set[int]:
        if removal.mark not in self._done:
            return owned
        return owned - removal.cells - self._cells.get(removal.mark, set())

    async def remove_before_joining(self) -> None:
        """Carry out removals that were agreed on while this node was away, before it owns any cell."""
        for removal in self._agreement().removals:
            if removal.mark not in self._done:
                await self._remove(removal, {})

    async def run(self, owner: CellOwner, transfers: ArchiveTransfers | None) -> None:
        """Carry out what is agreed on, until cancelled."""
        self._owner, self._transfers = owner, transfers
        while True:
            try:
                await self._step(owner)
            except Exception as error:  # noqa: BLE001  # after any error it is tried again; the cells wait
                _log.warning("pages not removed yet: %r", error)
                await self._clock.sleep(TRY_AGAIN_S)
            await self._clock.sleep(POLL_S)

    async def _step(self, owner: CellOwner) -> None:
        for removal in self._agreement().removals:
            owned = dict(owner.owned)
            if self._is_to_do(removal, set(owned)):
                # One after another. A shift that is open ends because its cells are held.
                if not self._copies.open:
                    cells = self._cells_to_do(removal, set(owned))
                    await self._remove(removal, {cell: owned[cell] for cell in cells})
                return
            await self._check(removal, owner)

    async def _amend(self, change: Callable[[Agreement], Agreement]) -> None:
        await amend_agreement(self._wire, self._clock, self._shared, change, self._agreement().replicas)
        await nudge(self._wire, self._shared)

    # -- steps 2 and 3 -------------------------------------------------------------------------------------

    async def _remove(self, removal: AgreedRemoval, logs: Mapping[int, CellLog]) -> None:
        """Remove pages from this folder, unless that is done, and from cells that are owned and not open."""
        mark, is_whole = removal.mark, removal.mark not in self._done
        self._checked.discard(mark)
        cells = ",".join(map(str, sorted(logs)))
        _log.warning("removing pages mark=%s rules=%d cells=%s", mark, len(removal.rules), cells)
        async with AsyncExitStack() as stack:
            for cell in sorted(self._copies.folders):
                if cell in logs:
                    await stack.enter_async_context(self._copies.lock_idle_cell(logs[cell]))
                elif is_whole:
                    await stack.enter_async_context(self._copies.lock_closed_cell(cell))
            if self._transfers is not None:
                for cell in logs:
                    await self._transfers.download(self._copies.folders[cell])
            report, concerned = await self._in_thread(self._remove_here, removal, logs, is_whole)
            for cell, log in logs.items():
                await self._remove_from_nats(log, is_concerned=cell in concerned)
        self._removed[mark] = _sum(self._removed.get(mark) or self._done.get(mark, NodeRemoval()), report)
        self._note_done(mark, self._removed[mark])
        self._cells.setdefault(mark, set()).update(logs)
        await self._report(mark)

    async def _report(self, mark: str, undone: Collection[int] = ()) -> None:
        done, report = set(self._cells.get(mark, ())), self._done.get(mark) or self._removed[mark]
        await self._amend(lambda now: with_report(now, mark, self._node, report, done, undone))

    def _note_done(self, mark: str, report: NodeRemoval | None) -> None:
        """Store that this folder is without the pages of a removal; or not, without a report."""
        done = {each: value for each, value in self._done.items() if each != mark}
        done |= {} if report is None else {mark: report}
        write_atomically(self._folder.path / DONE_FILE, _encode(done))
        self._done = done

    async def _in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run work in a thread. A cancellation waits for its end, so that no cell is opened meanwhile."""
        self._is_cancelled = False
        future = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._is_cancelled = True
            raise
        finally:
            while not future.done():
                with suppress(asyncio.CancelledError, Exception):
                    await asyncio.wait({future})

    def _must_stop(self) -> bool:
        return self._is_cancelled or self._is_stopping()

    def _remove_here(
        self, removal: AgreedRemoval, logs: Mapping[int, CellLog], is_whole: bool
    ) -> tuple[NodeRemoval, set[int]]:
        """Remove pages from cells that are owned, and from all other cells of the folder unless that is done.

        Return what was removed, and the cells that had anything of it.
        """
        matches = matcher(removal.rules)
        cells = [each for each in self._folder.cells() if is_whole or each.number in logs]
        found = survey(cells, matches, self._must_stop)
        concerned = {each.number for each in cells if each.number in found or count_urls([each], matches)}
        self._name_lost(found, matches)
        with ExitStack() as stack:
            owned = [self._opened(each, logs[each.number], stack) for each in cells if each.number in logs]
            for each in cells:
                _remove_leftovers(each)
            removed = self._remove_from_owned(owned, found, matches)
        others = Erased()
        for each in cells:
            if each.number not in logs:
                others.add(self._erase(each, found.get(each.number, {})))
        self._remove_from_indexes(cells, matches, concerned)
        subscriptions, notices = forget_subscriptions(self._folder, matches)
        return NodeRemoval(
            removed.urls, removed.records, removed.bytes + others.bytes, removed.pages_again, subscriptions, notices
        ), concerned

    def _remove_from_owned(self, owned: Sequence[ErasableCell], found: Found, matches: Matches) -> RemovedPages:
        """Remove pages from owned cells, in transactions that NATS takes: pages may have links to many cells."""
        *more, last = PAGES_AT_ONCE
        for at_once in more:
            with suppress(TooLarge):
                return remove_pages(self._folder, owned, found, matches, self._clock, at_once)
        return remove_pages(self._folder, owned, found, matches, self._clock, last)

    def _opened(self, folder: CellFolder, log: CellLog, stack: ExitStack) -> ErasableCell:
        frontier = FrontierCell(folder.frontier, journal=LogJournal(log, self._thread))
        stack.callback(frontier.close)
        stack.callback(frontier.shrink_log, CLOSE_WAIT_S)
        return ErasableCell(folder, frontier, partial(finish_erasures, folder, self._clock, frontier, self._must_stop))

    def _name_lost(self, found: Found, matches: Matches) -> None:
        """Name the records that go to all cells, as far as pages that stay refer to them."""
        places, shared = places_of(found), set[tuple[str, int]]()
        for folder in self._folder.cells() if places else ():
            with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
                shared |= shared_places(frontier, matches, places)
        listed = sorted(shared)
        for at in range(0, len(listed), PLACES_AT_ONCE):
            message = LOST + msgspec.msgpack.encode(LostCaptures(listed[at : at + PLACES_AT_ONCE]))
            for cell in range(len(self._agreement().starts)):
                self._thread.wait_for(self._publish(f"{self._shared}.links.{cell}", message))

    async def _publish(self, subject: str, message: bytes) -> None:
        await self._wire.retry(lambda: self._wire.js.publish(subject, message), self._clock)

    def _erase(self, folder: CellFolder, files: Mapping[str, Collection[int]]) -> Erased:
        """Erase records from the archive of a cell that another node owns; its tables are the owner's."""

        def check() -> None:
            if self._must_stop():
                raise ErasureStopped

        done = Erased()
        for file, offsets in files.items():
            path, now_s = archive_path(folder.archive, file), self._clock.now_s()
            begin_erasure(self._folder.path, path, REASON, now_s)
            done.add(erase(path, offsets, REASON, now_s, check))
            end_erasure(self._folder.path, path, REASON, now_s)
        return done

    def _remove_from_indexes(self, cells: Sequence[CellFolder], matches: Matches, concerned: set[int]) -> None:
        """Remove pages from the files of all indexes; no indexer runs between two shifts."""
        from teia.indexer.drop_pages import drop_pages  # imports tantivy, which a crawler does not need
        from teia.indexer.process import indexing_lock

        with indexing_lock(self._root, self._folder.name):
            for each in cells:
                if drop_pages(each, matches, is_concerned=each.number in concerned):
                    concerned.add(each.number)

    async def _remove_from_nats(self, log: CellLog, *, is_concerned: bool) -> None:
        """Do step 3 for a cell; its tables and its archive here are without the pages."""
        folder, agreement = self._copies.folders[log.cell], self._agreement()
        if self._transfers is not None:
            await self._transfers.replace_changed(folder)
        # Where sites move between cells, older snapshots may have rows of sites that the cell has not any more.
        may_have_moved = agreement.strategy != HASH or agreement.splits or agreement.config.placement.rules
        if is_concerned or may_have_moved:
            if self._copies.snapshots is None:
                raise ClusterError("removing pages needs snapshots, and there are none (cluster.snapshots)")
            await self._copies.snapshots.replace_all(log, folder)

    # -- step 4 --------------------------------------------------------------------------------------------

    async def _check(self, removal: AgreedRemoval, owner: CellOwner) -> None:
        """Read everything again when all cells are done, and report; if something is left, remove it once more."""
        mark, reported = removal.mark, removal.reports.get(self._node)
        # The last report may not have reached the agreement.
        if reported is None or not removal.cells >= self._cells.get(mark, set()):
            await self._report(mark)
            return
        is_checked = reported.is_checked or mark in self._checked
        if is_checked or not removal.cells >= set(range(len(self._copies.folders))):
            return
        matches = matcher(removal.rules)
        if await self._has_site_on_its_way(mark, owner):
            return
        await self._update_copies(owner, matches)
        left = await self._in_thread(self._count_left, matches)
        passes = self._passes[mark] = self._passes.get(mark, 0) + 1
        if any(left) and passes < PASSES:
            _log.warning("pages are left records=%d pages=%d indexed=%d: removing them again", *left)
            self._cells.pop(mark, None)
            self._note_done(mark, None)
            await self._report(mark, undone=list(owner.owned))
            return
        records, pages, indexed = left
        report = msgspec.structs.replace(
            self._done[mark], left_records=records, left_pages=pages, left_indexed=indexed, is_checked=True
        )
        await self._amend(lambda now: with_report(now, mark, self._node, report, ()))
        self._checked.add(mark)
        _log.warning("pages removed and read again: records left=%d pages=%d indexed=%d", *left)

    def _count_left(self, matches: Matches) -> tuple[int, int, int]:
        """Return how many records, pages and entries of the index are left in this folder; all of it is read."""
        from teia.indexer.drop_pages import indexed_urls

        cells = self._folder.cells()
        indexed = sum(len(indexed_urls(each, matches)) for each in cells)
        for each in cells:
            with closing(BorrowedEntries(each.path)) as borrowed:
                indexed += sum(map(matches, borrowed.urls()))
        return count_records(cells, matches, self._must_stop), count_pages(cells, matches), indexed

    async def _update_copies(self, owner: CellOwner, matches: Matches) -> None:
        """Bring copies of cells that others own up to their logs, where they still have such pages."""
        for cell, folder in list(self._copies.folders.items()):
            pages = 0 if cell in owner.owned else await self._in_thread(count_pages, [folder], matches)
            if pages:
                log = owner.log_of(cell)
                head = await log.head()
                if head is not None:
                    await self._copies.follow(log, head.seq)

    async def _has_site_on_its_way(self, mark: str, owner: CellOwner) -> bool:
        """Tell whether a site is on its way into a cell that is owned here, sent before all cells were done."""
        for cell, log in list(owner.owned.items()):
            # Those that come later were sent by cells without such pages.
            end = self._link_ends.setdefault((mark, cell), await log.last_links())
            after = await asyncio.to_thread(_last_merged, self._copies.folders[cell])
            if after < end and await brings_site(log, after, end, self._clock):
                return True
        return False


async def brings_site(log: CellLog, after: int, end: int, clock: Clock) -> bool:
    """Tell whether messages to a cell bring a site, or may do so because they could not be read in time."""
    until = clock.ticks_s() + LINKS_S
    async with aclosing(log.links(after, lambda: clock.ticks_s() >= until)) as bulks:
        async for bulk in bulks:
            if move_site.is_part(bulk.data):
                return True
            if bulk.seq >= end:
                return False
    return True


def _last_merged(folder: CellFolder) -> int:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return mail.last_received(frontier, mail.THE_STREAM)


def _remove_leftovers(folder: CellFolder) -> None:
    """Remove texts on their way to the index, which is derived, and copies of the cell that a crash has left."""
    Handover(folder.handover).clear()
    BorrowedEntries(folder.path).remove()
    with disk_errors(folder.path, "removed"):
        for name in WORKSPACES:
            shutil.rmtree(folder.path / name, ignore_errors=True)


def _sum(one: NodeRemoval, other: NodeRemoval) -> NodeRemoval:
    return NodeRemoval(**{name: getattr(one, name) + getattr(other, name) for name in COUNTS})


def _read_done(path: Path) -> dict[str, NodeRemoval]:
    try:
        return _decode_done(path.read_bytes())
    except FileNotFoundError:
        return {}
    except UNDECODABLE as error:
        raise CorruptFile(path, f"the removals of this folder cannot be read ({error}); delete it") from error
