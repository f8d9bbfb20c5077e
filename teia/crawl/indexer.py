"""The indexer of one collection: it follows what the crawler commits, and makes it searchable.

The frontier numbers pages in the order in which they last became what they are (frontier/schema.py, `change`). The
index of a cell knows how far it has come. A step takes the next ones, looks at what each page is *now*, and puts it
into the index or takes it out; that is all there is to updates, removals, catching up after a crash, and to making the
whole index anew, which is the same from 0 on. The entry of a page is in the hand-over, or is read from the archive.

With a page come its links: its targets go to the link file (PageRank), the words on them to the anchor texts of the
cells the targets are in. Pages with new words on links to them are indexed again when nothing else is to be done.

The indexer only reads what is the crawler's, so it may run beside it, after it or not at all.

A node of a cluster indexes the cells it keeps. Words on links to the others' wait to be asked for, what others found
for its own is taken from where it was left (index/outgoing.py), and pages whose copies are on another node's disk come
from that node's index (index/borrowed.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from teia.crawl.lookup import Lookup
from teia.crawl.pruning import is_due, prune
from teia.crawl.rereading import Rereader, Wanted
from teia.frontier.schema import STATE_DONE
from teia.frontier.tails import url_from
from teia.graph.linkfile import LinkFile
from teia.index.anchors import AnchorTexts
from teia.index.borrowed import BorrowedEntries, LackingPages
from teia.index.cell import CellIndex
from teia.index.entry import DIGEST_BYTES, Anchor, Entry, decoded
from teia.index.handover import Waiting
from teia.index.outgoing import FILE as OUTGOING
from teia.index.outgoing import OutgoingAnchors, spooled
from teia.store.archive import place_of
from teia.store.root import CellFolder, Root

STEP_CHANGES = 500
REFRESH_AT_ONCE = 500
MAX_TARGETS = 6_000


@dataclass(frozen=True, slots=True)
class Change:
    """One page that is not what it was. `is_wanted`: as it is now, it belongs into the index."""

    number: int
    url: str
    key: int
    digest: bytes
    is_wanted: bool


class CellIndexer:
    """What belongs to the index of one cell."""

    def __init__(self, folder: CellFolder) -> None:
        self.number = folder.number
        self.index = CellIndex(folder.index)
        self.anchors = AnchorTexts(folder.index / "anchors.sqlite")
        self.links = LinkFile(folder.index / "links.bin")
        self.waiting = Waiting(folder.handover)
        self._folder = folder
        self.borrowed = BorrowedEntries(folder.path)
        self.lacking = LackingPages(folder.index)
        self.tried: int | None = None
        """The last of the pages that lack a copy which was tried again; None before the first."""
        self.position = self.index.position
        self.uncommitted = 0
        self._spool = folder.handover

    def take_spooled(self) -> None:
        """Take the words on links to this cell's pages that were brought from other nodes."""
        for path, rows in spooled(self._spool):
            by_host: dict[str, list[tuple[int, str]]] = defaultdict(list)
            for host, target, text in rows:
                by_host[host].append((target, text))
            for host, named in by_host.items():
                self.anchors.add(host, named)
            path.unlink(missing_ok=True)

    def has_file(self, name: str) -> bool:
        """Whether an archive file is here."""
        return place_of(self._folder.archive, name).exists()

    def look_for_borrowed(self) -> None:
        """Open what was brought anew."""
        self.borrowed.close()
        self.borrowed = BorrowedEntries(self._folder.path)

    def commit(self) -> None:
        self.links.flush()
        self.index.commit(self.position)
        self.waiting.forget(self.position)
        self.uncommitted = 0

    def close(self) -> None:
        self.index.close()
        self.anchors.close()
        self.links.close()
        self.borrowed.close()
        self.lacking.close()


class CollectionIndexer:
    """Follows one collection, or some of its cells; see the module's text. At most one process may have it open."""

    def __init__(self, root: Root, name: str, rereader: Rereader, cells: Collection[int] | None = None) -> None:
        self.name = name
        self._rereader = rereader
        self._lookup = Lookup(root, name)
        folders = [each for each in self._lookup.folders if cells is None or each.number in cells]
        self._cells = [CellIndexer(folder) for folder in folders]
        self._by_number = {cell.number: cell for cell in self._cells}
        self._outgoing = None if cells is None else OutgoingAnchors(root.collection(name).path / OUTGOING)

    @property
    def behind(self) -> int:
        """How many changes are still to be taken."""
        return sum(self._last_change(cell) - cell.position for cell in self._cells)

    @property
    def documents(self) -> int:
        """How many pages can be found."""
        return sum(cell.index.searcher().num_docs for cell in self._cells)

    async def step(self) -> int:
        """Take the next changes of every cell; returns how many there were. Nothing is visible before `commit`."""
        return sum([await self._step(cell) for cell in self._cells])

    async def _step(self, cell: CellIndexer) -> int:
        changes = self._changes(cell, STEP_CHANGES)
        if not changes:
            return 0
        entries = await self._entries(cell, changes)
        for change in changes:
            entry = entries.get(change.key)
            if entry is None:
                cell.index.remove(change.key)
                cell.links.append(change.key, ())
            else:
                cell.index.put(entry, cell.anchors.of(change.key))
                cell.links.append(change.key, [link.key for link in entry.links])
        if self._outgoing is not None:
            cell.lacking.drop(each.key for each in changes)
            cell.lacking.add(self._lacking(cell, (each for each in changes if each.key not in entries)))
        cell.anchors.indexed(change.key for change in changes)
        self._spread_anchors(entries.values())
        cell.position = changes[-1].number
        cell.uncommitted += len(changes)
        return len(changes)

    def commit(self) -> None:
        """Make what was taken visible."""
        for cell in self._cells:
            if cell.uncommitted:
                cell.commit()

    def refresh(self, *, everything: bool = False) -> int:
        """Index pages again that are called by new words; returns how many."""
        return sum(self._refresh(cell, everything=everything) for cell in self._cells)

    def _refresh(self, cell: CellIndexer, *, everything: bool) -> int:
        if self._outgoing is not None:
            cell.take_spooled()
        due = cell.anchors.due(REFRESH_AT_ONCE, everything=everything)
        if not due:
            return 0
        if cell.uncommitted:
            cell.commit()  # a page is taken from the last commit
        for entry in cell.index.entries(due):
            cell.index.put(entry, cell.anchors.of(entry.key))
            cell.uncommitted += 1
        cell.anchors.indexed(due)
        return len(due)

    def _lacking(self, cell: CellIndexer, changes: Iterable[Change]) -> list[tuple[int, str]]:
        """Those of some pages without an entry that have none because their copies are not here."""
        found = [(each.key, each.url, self._lookup.find(each.url)) for each in changes if each.is_wanted]
        return [(key, url) for key, url, known in found if known and known.page and not cell.has_file(known.page.file)]

    def prune(self) -> int:
        """Take out pages that went to cells which were split off these; returns how many."""
        frontiers = ((cell, self._lookup.cells[cell.number]) for cell in self._cells)
        due = [(cell, frontier) for cell, frontier in frontiers if is_due(cell.index.folder, frontier)]
        return sum(prune(cell, cell.index.folder, frontier) for cell, frontier in due)

    async def try_lacking(self) -> int:
        """Try some pages again whose copies nobody had; returns how many could be taken."""
        return sum([await self._try_lacking(cell) for cell in self._cells])

    async def _try_lacking(self, cell: CellIndexer) -> int:
        rows = cell.lacking.after(cell.tried, REFRESH_AT_ONCE)
        cell.tried = rows[-1][0] if rows else None
        if not rows:
            return 0
        cell.look_for_borrowed()
        pages = {key: self._lookup.find(url) for key, url in rows}
        digests = {key: each.page.digest for key, each in pages.items() if each is not None and each.page is not None}
        changes = [Change(0, url, key, digests.get(key, b""), key in digests) for key, url in rows]
        entries = await self._entries(cell, changes)
        for entry in entries.values():
            cell.index.put(entry, cell.anchors.of(entry.key))
            cell.links.append(entry.key, [link.key for link in entry.links])
        self._spread_anchors(entries.values())
        cell.uncommitted += len(entries)
        cell.lacking.drop([*entries, *(key for key, _ in rows if key not in digests)])
        return len(entries)

    def close(self) -> None:
        for cell in self._cells:
            cell.close()
        if self._outgoing is not None:
            self._outgoing.close()
        self._lookup.close()

    # -- what has changed ----------------------------------------------------------------------------------

    def _last_change(self, cell: CellIndexer) -> int:
        return max(self._lookup.cells[cell.number].last_change(), cell.position)

    def _changes(self, cell: CellIndexer, limit: int) -> list[Change]:
        sql = """
            SELECT p.change, h.name, u.tail, p.key, u.state, p.status, p.noindex, p.digest, p.file
            FROM pages AS p
            JOIN hosts AS h ON h.host_id = p.host_id
            JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
            WHERE p.change > ? ORDER BY p.change LIMIT ?
        """
        rows = self._lookup.cells[cell.number].db.execute(sql, (cell.position, limit))
        return [
            Change(change, url_from(host, tail), key, digest, is_wanted(state, status, noindex) and file != "")
            for change, host, tail, key, state, status, noindex, digest, file in rows
        ]

    # -- what it is now ------------------------------------------------------------------------------------

    async def _entries(self, cell: CellIndexer, changes: Sequence[Change]) -> dict[int, Entry]:
        """The entries of pages that are wanted, by key: from the hand-over if it is of the copy that counts."""
        waiting = cell.waiting.entries(changes[0].number, changes[-1].number)
        handed_over = {key: data for _, (key, data) in sorted(waiting.items())}
        found: dict[int, Entry] = {}
        missing: list[Wanted] = []
        for change in changes:
            if not change.is_wanted:
                continue
            data = handed_over.get(change.key)
            entry = decoded(data) if data is not None else None
            if entry is not None and entry.digest == change.digest[:DIGEST_BYTES]:
                found[change.key] = entry
            else:
                missing.append(Wanted(change.url, change.key))
        found.update(await self._rereader.entries(self._lookup, missing))
        if self._outgoing is not None:
            found.update(_borrowed(cell, [each for each in changes if each.is_wanted and each.key not in found]))
        return found

    def _spread_anchors(self, entries: Iterable[Entry]) -> None:
        """Give the words on links to the cells of the pages they lead to."""
        by_voice: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        for entry in entries:
            for link in entry.links[:MAX_TARGETS]:
                if link.text:
                    by_voice[self._lookup.cell_number(link.host), entry.host].append(_named(link))
        for (number, host), named in by_voice.items():
            if number in self._by_number:
                self._by_number[number].anchors.add(host, named)
            elif self._outgoing is not None:
                self._outgoing.add(number, host, named)


def _borrowed(cell: CellIndexer, changes: Sequence[Change]) -> dict[int, Entry]:
    """Entries that another node had of pages whose copies are not here, if they are of the copy that counts."""
    found = {change.key: cell.borrowed.get(change.key) for change in changes}
    digests = {change.key: change.digest[:DIGEST_BYTES] for change in changes}
    return {key: entry for key, entry in found.items() if entry is not None and entry.digest == digests[key]}


def is_wanted(state: int, status: int, noindex: int) -> bool:
    """Whether a page belongs into the index: its last good copy is a page, nobody forbids it, and it is not gone."""
    return state == STATE_DONE and 200 <= status < 300 and not noindex


def _named(link: Anchor) -> tuple[int, str]:
    return link.key, link.text
