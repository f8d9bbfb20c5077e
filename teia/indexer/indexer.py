"""The indexer of one collection: it follows the pages that the crawler commits, and makes them searchable.

The frontier numbers pages in the order of their last change (frontier/cell/schema.py, `change`). The index of a cell
stores the number it has reached, its position. A step takes the next changes, looks at each page as it is *now*, and
puts it into the index or removes it. This one step covers updates, removals, catching up after a crash, and rebuilding
the whole index, which is the same from position 0. The entry of a page comes from the hand-over, or is read from the
archive.

Each page brings its links. Their targets go to the link file (PageRank), their anchor texts to the anchor store of the
cells that the targets are in. Pages with new words by anchor texts are indexed again, many at
a time: now and then, and at the end.

The indexer only reads the crawler's files, so it may run beside the crawler, after it or not at all. When it begins it
compares each cell's index with the frontier. An index that cannot be opened is set aside and built again. Pages that
are missing are read from the archive again, and pages that should not be there are removed. Pages whose captures cannot
be read are recorded and tried again: a damaged capture is replaced when its page is fetched again.

A node of a cluster indexes the cells it owns. Anchor texts for the cells of other nodes wait until those nodes fetch
them. Anchor texts that other nodes found for its own cells are read from the spool (index/outgoing.py). Entries of
pages whose captures are on another node's disk come from that node's index (index/borrowed.py).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from teia.crawler.lookup import Lookup
from teia.frontier.tables.page_changes import ChangedPage, changed_pages, count_indexable, pages_for_index
from teia.index.anchors import MEMORY_BYTES, NO_WORDS
from teia.index.entry import DIGEST_BYTES, IndexEntry, PackedEntry, open_encoded
from teia.index.outgoing import FILE as OUTGOING
from teia.index.outgoing import OutgoingAnchors
from teia.index.reader import CellReader
from teia.index.training_words import Bags
from teia.indexer.after_split import is_due, prune
from teia.indexer.cell_indexer import CellIndexer
from teia.indexer.reread import Rereader, RereadRequest
from teia.lib.progress import advance
from teia.store.root import Root

STEP_CHANGES = 500
REFRESH_AT_ONCE = 5_000
RETRY_AT_ONCE = 500
MAX_TARGETS = 6_000
ALL_ROWS = -1
logger = logging.getLogger(__name__)


class CollectionIndexer:
    """The indexer of one collection or some of its cells; see the module. At most one process may have it open."""

    def __init__(
        self,
        root: Root,
        name: str,
        rereader: Rereader,
        cells: Collection[int] | None = None,
        *,
        is_rebuild: bool = False,
        bags: Bags | None = None,
    ) -> None:
        """Open the cells of a collection; `bags` get the stems of all pages that are indexed."""
        self.name = name
        self._rereader = rereader
        self._cells = list[CellIndexer]()
        self._outgoing: OutgoingAnchors | None = None
        self._lookup = Lookup(root, name)
        try:
            folders = [each for each in self._lookup.folders if cells is None or each.number in cells]
            for folder in folders:
                share = MEMORY_BYTES // len(folders)
                self._cells.append(CellIndexer(folder, is_rebuild=is_rebuild, anchor_memory=share, bags=bags))
            # Anchor texts go to cells by number, so all cells are open before the first change is taken.
            self._by_number = {cell.number: cell for cell in self._cells}
            if cells is None:  # a node's missing pages lie elsewhere, and another node may still want its surplus pages
                for cell in self._cells:
                    self._find_gaps(cell)
                self._fill_anchors([cell for cell in self._cells if not cell.position])
            else:
                self._outgoing = OutgoingAnchors(root.collection(name).path / OUTGOING)
        except BaseException:  # a caller that tries again must find nothing open
            self.close()
            raise

    @property
    def lag(self) -> int:
        """Number of changes not yet taken, plus pages found missing."""
        return sum(self._last_change(cell) - cell.position + len(cell.gaps) for cell in self._cells)

    @property
    def uncommitted(self) -> int:
        """Number of changes taken since the last commit."""
        return sum(cell.uncommitted for cell in self._cells)

    @property
    def documents(self) -> int:
        """Number of searchable pages."""
        return sum(cell.index.searcher().num_docs for cell in self._cells)

    async def step(self) -> int:
        """Take the next changes of every cell; return their number. Nothing is visible before `commit`."""
        return sum([await self._step(cell) for cell in self._cells])

    async def _step(self, cell: CellIndexer) -> int:
        # 1. Changes in their order. 2. The entry of each page as it is now. 3. Index, links, anchors. 4. Position.
        changes = changed_pages(self._lookup.cells[cell.number], cell.position, STEP_CHANGES)
        if not changes:
            return await self._fill_gaps(cell)
        entries = await self._entries(cell, changes)
        self._index_entries(cell, entries)
        advance(len(entries))
        for change in changes:
            cell.gaps.pop(change.key, None)  # its state at the time of the comparison no longer counts
            if change.key not in entries:
                cell.remove(change.key)
        # Pages not in the index are marked too, or `due_pages` would return them forever.
        cell.anchors.mark_indexed({each.key: NO_WORDS for each in changes if each.key not in entries})
        cell.lacking.drop(each.key for each in changes)
        if self._outgoing is not None:
            cell.lacking.add(self._missing_captures(cell, (each for each in changes if each.key not in entries)))
        else:
            cell.lacking.add([(each.key, each.url) for each in changes if each.key in self._rereader.unreadable])
        # In memory only: after a crash these changes are taken again, and repeating them changes nothing.
        cell.position = changes[-1].change
        cell.uncommitted += len(changes) - len(entries)
        return len(changes)

    def commit(self) -> None:
        """Make the changes taken so far visible to searches."""
        for cell in self._cells:
            if cell.uncommitted:
                cell.commit()
            # The damaged index is kept until the new one is complete.
            if not cell.gaps and cell.position >= self._last_change(cell):
                cell.drop_broken()

    def refresh(self, *, everything: bool = False) -> int:
        """Index pages again that got new words by anchor texts, and commit; return how many were looked at."""
        if self._outgoing is not None:
            for cell in self._cells:
                cell.read_spooled()
        return sum(cell.refresh(REFRESH_AT_ONCE, everything=everything)[0] for cell in self._cells)

    def _missing_captures(self, cell: CellIndexer, changes: Iterable[ChangedPage]) -> list[tuple[int, str]]:
        """Return (key, URL) of those pages without an entry whose archive file is not on this node."""
        # A damaged file on this node is not requested from other nodes: a later visit replaces the capture.
        found = [(each.key, each.url, self._lookup.find(each.url)) for each in changes if each.is_indexable]
        return [(key, url) for key, url, known in found if known and known.page and not cell.has_file(known.page.file)]

    def prune(self) -> int:
        """Remove pages that moved to cells which were split off these; return their number."""
        frontiers = ((cell, self._lookup.cells[cell.number]) for cell in self._cells)
        due = [(cell, frontier) for cell, frontier in frontiers if is_due(cell.index.folder, frontier)]
        return sum(prune(cell, cell.index.folder, frontier) for cell, frontier in due)

    async def retry_missing(self) -> int:
        """Try some pages again that no node had a capture of; return how many were indexed."""
        return sum([await self._retry_missing(cell) for cell in self._cells])

    async def _retry_missing(self, cell: CellIndexer) -> int:
        rows = cell.lacking.after(cell.last_tried, RETRY_AT_ONCE)
        # At the end of the list the next call begins at its start again.
        cell.last_tried = rows[-1][0] if rows else None
        if not rows:
            return 0
        cell.reload_borrowed()
        pages = {key: self._lookup.find(url) for key, url in rows}
        digests = {key: each.page.digest for key, each in pages.items() if each is not None and each.page is not None}
        changes = [ChangedPage(0, url, key, digests.get(key, b""), key in digests) for key, url in rows]
        entries = await self._entries(cell, changes)
        self._index_entries(cell, entries)
        cell.lacking.drop([*entries, *(key for key, _ in rows if key not in digests)])
        return len(entries)

    def _index_entries(self, cell: CellIndexer, entries: Mapping[int, PackedEntry]) -> None:
        # Anchor texts first: pages that come together name each other, and are indexed with these names at once.
        self._route_anchors(page.entry for page in entries.values())
        cell.put(entries.values())

    # -- missing pages -------------------------------------------------------------------------------------

    def _find_gaps(self, cell: CellIndexer) -> None:
        """Compare a cell's index with its frontier up to the index's position, if their numbers of pages differ."""
        frontier = self._lookup.cells[cell.number]
        # Counting is cheap; the full comparison below reads every key of the cell.
        if count_indexable(frontier, -1, cell.position) == cell.index.searcher().num_docs:
            return
        indexed_keys, known = cell.index.keys(), set[int]()
        for url, key, _, belongs, change in pages_for_index(frontier):
            # A page whose change is not taken yet may be in the index as it was before.
            if belongs or change > cell.position:
                known.add(key)
            if belongs and change <= cell.position and key not in indexed_keys:
                cell.gaps[key] = url
        for key in indexed_keys - known:
            cell.remove(key)
            cell.uncommitted += 1
        if cell.gaps or indexed_keys - known:
            text = "%s cell %d: %d pages are missing in the index and %d are obsolete; repairing it from the archive"
            logger.warning(text, self.name, cell.number, len(cell.gaps), len(indexed_keys - known))

    def _fill_anchors(self, new_cells: Sequence[CellIndexer]) -> None:
        """Give cells that begin from an empty index the anchor texts that pages of the other cells have for theirs."""
        others = [cell for cell in self._cells if cell.position]
        wanted = {cell.number for cell in new_cells if self._last_change(cell)}
        for cell in others if wanted else ():
            for entry in CellReader(cell.index.folder).all_entries():
                self._route_anchors([entry], wanted)

    async def _fill_gaps(self, cell: CellIndexer) -> int:
        """Read some missing pages from the archive again; return how many were looked at."""
        batch = [cell.gaps.popitem() for _ in range(min(STEP_CHANGES, len(cell.gaps)))]
        if not batch:
            return 0
        entries = await self._rereader.entries(self._lookup, [RereadRequest(url, key) for key, url in batch])
        self._index_entries(cell, entries)
        unreadable = self._rereader.unreadable
        cell.lacking.drop(key for key, _ in batch if key not in unreadable)
        cell.lacking.add([(key, url) for key, url in batch if key in unreadable])
        return len(batch)

    async def retry_unreadable(self) -> int:
        """Try all pages again whose captures could not be read; return their number."""
        tried = 0
        for cell in self._cells:
            cell.gaps.update(cell.lacking.after(None, ALL_ROWS))
            while cell.gaps:
                tried += await self._fill_gaps(cell)
        return tried

    def end_handover(self) -> None:
        """Remove all files of the hand-over that the index has; called when the crawl has ended."""
        for cell in self._cells:
            cell.handover_reader.forget(cell.position, is_ended=True)

    def check_folders(self) -> None:
        """Raise StoreError if an index was deleted."""
        for cell in self._cells:
            cell.check_folder()

    def close(self) -> None:
        for cell in self._cells:
            cell.close()
        if self._outgoing is not None:
            self._outgoing.close()
        self._lookup.close()

    # -- changes -------------------------------------------------------------------------------------------

    def _last_change(self, cell: CellIndexer) -> int:
        return max(self._lookup.cells[cell.number].last_change(), cell.position)

    # -- entries of pages as they are now ------------------------------------------------------------------

    async def _entries(self, cell: CellIndexer, changes: Sequence[ChangedPage]) -> dict[int, PackedEntry]:
        """Return the entries of wanted pages by key, from the hand-over if it is of the current capture."""
        waiting = cell.handover_reader.entries(changes[0].change, changes[-1].change)
        # Sorted by change: of two entries of a page the later one counts.
        handed_over = {key: data for _, (key, data) in sorted(waiting.items())}
        found: dict[int, PackedEntry] = {}
        missing: list[RereadRequest] = []
        for change in changes:
            if not change.is_indexable:
                continue
            data = handed_over.get(change.key)
            page = open_encoded(data) if data is not None else None
            # The hand-over may hold an entry of another capture: a later one, or one whose commit failed.
            if page is not None and page.entry.digest == change.digest[:DIGEST_BYTES]:
                found[change.key] = page
            else:
                missing.append(RereadRequest(change.url, change.key))
        found.update(await self._rereader.entries(self._lookup, missing))
        if self._outgoing is not None:
            found.update(_borrowed(cell, [each for each in changes if each.is_indexable and each.key not in found]))
        return found

    def _route_anchors(self, entries: Iterable[IndexEntry], only: Collection[int] | None = None) -> None:
        """Give anchor texts to the cells of the pages they lead to; to those in `only`, if given."""
        by_source: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        cell_numbers: dict[str, int] = {}
        for entry in entries:
            for link in entry.links[:MAX_TARGETS]:
                if link.text:
                    number = cell_numbers.get(link.host)
                    if number is None:
                        number = cell_numbers[link.host] = self._lookup.cell_number(link.host)
                    by_source[number, entry.host].append((link.key, link.text))
        for (number, host), named in by_source.items():
            if only is not None and number not in only:
                continue
            if number in self._by_number:
                self._by_number[number].anchors.add(host, named)
            elif self._outgoing is not None:
                self._outgoing.add(number, host, named)


def _borrowed(cell: CellIndexer, changes: Sequence[ChangedPage]) -> dict[int, PackedEntry]:
    """Return entries that another node had of pages without a capture here, if they are of the current capture."""
    found = {change.key: cell.borrowed.get(change.key) for change in changes}
    digests = {change.key: change.digest[:DIGEST_BYTES] for change in changes}
    return {key: page for key, page in found.items() if page is not None and page.entry.digest == digests[key]}
