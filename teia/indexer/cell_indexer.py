"""The files of one cell that an indexer writes: the index, anchor texts, links, and what is missing.

A damaged index is set aside and built again from the archive.
"""

from __future__ import annotations

import errno
import logging
import re
import shutil
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from teia.durable import disk_errors
from teia.errors import StoreError
from teia.graph.linkfile import LinkFile
from teia.index.anchors import MEMORY_BYTES, AnchorTexts
from teia.index.borrowed import BorrowedEntries, LackingPages
from teia.index.cell import CellIndex, anchor_words, number_of_words
from teia.index.entry import PackedEntry
from teia.index.handover import HandoverReader
from teia.index.outgoing import read_spool
from teia.index.page_texts import shared_texts
from teia.index.position import read_position
from teia.index.repeated import FILE as REPEATED_LINES
from teia.index.repeated import RepeatedLinesWriter
from teia.index.training_words import Bags
from teia.store.archive import archive_path
from teia.store.root import CellFolder

READ_AT_ONCE = 200
"""Pages whose entries are in memory at once while they are indexed again; one may have several megabytes."""

NEW_INDEX, BROKEN = "index.new", "index.broken"
# Rust's Debug form of an operating system's error, as tantivy passes it on.
_REFUSED = re.compile(r"\bOs \{ code: (\d+)")
NOT_A_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
logger = logging.getLogger(__name__)


def new_index_folder(folder: CellFolder) -> Path:
    """Return the folder in which another index of a cell is built while the present one continues to answer."""
    return folder.path / NEW_INDEX


def broken_index_folder(folder: CellFolder) -> Path:
    """Return the folder of a damaged index of a cell that was set aside."""
    return folder.path / BROKEN


def _open_index(index_folder: Path, broken: Path) -> CellIndex:
    """Open an index for writing; set a damaged one aside and put an empty one in its place."""
    try:
        return CellIndex(index_folder)
    except StoreError as error:
        # Only damage is set aside: a full descriptor table must not throw a sound index away.
        if not isinstance(error.__cause__, ValueError) or not is_damage(str(error.__cause__)):
            raise
        logger.warning("%s; the index is set aside and rebuilt", error)
        with disk_errors(index_folder, "set aside"):
            shutil.rmtree(broken, ignore_errors=True)
            index_folder.rename(broken)
        return CellIndex(index_folder)


def is_damage(message: str) -> bool:
    """Tell whether an error text of tantivy means that files of an index are missing or damaged.

    Tantivy has one error for that and for a system that does not let it read sound files, for example because too many
    files are open. Only the text differs: an error of the system has its number in it.
    """
    refused = _REFUSED.search(message)
    return refused is None or int(refused[1]) in NOT_A_FILE


class CellIndexer:
    """The files of one cell's index, or of another index that is built `is_rebuild` it from the archive alone.

    `anchor_memory` is how many bytes of anchor texts may be in memory. `bags` get the stems of the pages.
    """

    def __init__(
        self,
        folder: CellFolder,
        *,
        is_rebuild: bool = False,
        anchor_memory: int = MEMORY_BYTES,
        bags: Bags | None = None,
    ) -> None:
        self.number = folder.number
        self._bags = bags
        index_folder = new_index_folder(folder) if is_rebuild else folder.index
        self.index = _open_index(index_folder, broken_index_folder(folder))
        self._has_broken = not is_rebuild and broken_index_folder(folder).exists()
        self.anchors = AnchorTexts(index_folder / "anchors.sqlite", anchor_memory)
        self.links = LinkFile(index_folder / "links.bin")
        self.repeated_lines = RepeatedLinesWriter(index_folder / REPEATED_LINES)
        self.handover_reader = HandoverReader(index_folder / "handover" if is_rebuild else folder.handover)
        self._folder = folder
        self.borrowed = BorrowedEntries(folder.path)
        self.lacking = LackingPages(index_folder)
        self.gaps: dict[int, str] = {}
        """Pages before the position that belong in the index and are missing there: URL by key."""
        self.last_tried: int | None = None
        """Key of the page without a capture that was last tried again; None before the first."""
        self.position = self.index.position
        self.uncommitted = 0
        self._spool = folder.handover

    def check_folder(self) -> None:
        """Raise StoreError if the open index was deleted on disk; the next indexer builds it again."""
        if read_position(self.index.folder) is None:
            raise StoreError(f"{self.index.folder} was deleted; the index of cell {self.number} is rebuilt")

    def read_spooled(self) -> None:
        """Read the anchor texts for this cell's pages that came from other nodes."""
        for path, rows in read_spool(self._spool):
            by_host: dict[str, list[tuple[int, str]]] = defaultdict(list)
            for host, target, text in rows:
                by_host[host].append((target, text))
            for host, named in by_host.items():
                self.anchors.add(host, named)
            path.unlink(missing_ok=True)

    def has_file(self, name: str) -> bool:
        """Tell whether an archive file is on this node."""
        return archive_path(self._folder.archive, name).exists()

    def reload_borrowed(self) -> None:
        """Reopen the store of borrowed entries, to see those that came since."""
        self.borrowed.close()
        self.borrowed = BorrowedEntries(self._folder.path)

    def put(self, pages: Collection[PackedEntry]) -> None:
        """Put pages into the index, with the words on links to them, and their links into the link file."""
        numbers = {}
        named = self.anchors.texts_of(page.entry.key for page in pages)
        for page in pages:
            entry = page.entry
            words = anchor_words(named[entry.key])
            texts = shared_texts().of(entry)
            self.index.put_page(page, texts, words)
            self.links.append(entry.key, [link.key for link in entry.links])
            self.repeated_lines.add(entry)
            if self._bags is not None:
                self._bags.add(entry.key, texts.bag)
            numbers[entry.key] = number_of_words(words)
        self.anchors.mark_indexed(numbers)
        self.uncommitted += len(pages)

    def remove(self, key: int) -> None:
        """Remove a page and its links."""
        self.index.remove(key)
        self.links.append(key, ())
        if self._bags is not None:
            self._bags.remove(key)

    def refresh(self, limit: int, *, everything: bool) -> tuple[int, int]:
        """Index pages again that got new words by anchor texts; return how many were looked at, and indexed."""
        due = self.anchors.due_pages(limit, everything=everything)
        keys, numbers, indexed = list(due), dict[int, int](), 0
        for at in range(0, len(keys), READ_AT_ONCE):
            named = self.anchors.texts_of(keys[at : at + READ_AT_ONCE])
            words = {key: anchor_words(texts) for key, texts in named.items()}
            numbers |= {key: number_of_words(each) for key, each in words.items()}
            changed = [key for key in words if numbers[key] != due[key]]
            if changed and self.uncommitted:
                self.commit()  # entries are read from the last commit
            found = self.index.entries(changed)
            for page in found:
                self.index.put_page(page, shared_texts().of(page.entry), words[page.entry.key])
            indexed += len(found)
        if indexed:
            self.commit()
        # After the commit: a crash before it repeats this.
        self.anchors.mark_indexed(numbers)
        return len(due), indexed

    def commit(self) -> None:
        self.check_folder()
        # Order for a crash: links and texts, then the position that covers them, then the hand-over files behind it.
        self.links.flush()
        self.repeated_lines.sync()
        self.anchors.sync()
        self.index.commit(self.position)
        self.handover_reader.forget(self.position)
        self.uncommitted = 0

    def drop_broken(self) -> None:
        """Remove a damaged index that was set aside, if there is one: the new index holds all its pages."""
        if self._has_broken:
            shutil.rmtree(broken_index_folder(self._folder), ignore_errors=True)
            self._has_broken = False

    def close(self) -> None:
        self.index.close()
        self.anchors.close()
        self.links.close()
        self.repeated_lines.close()
        self.borrowed.close()
        self.lacking.close()
