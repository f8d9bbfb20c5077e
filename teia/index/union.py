"""Indexes of several cells, searched as one.

tantivy computes a score from the pages of one index: how many there are, how many have a word, how long they are on
average. Cells differ in all three, so scores of two cells cannot be compared. A word's rarity can be put right from
outside (tantivy_query.py), a mean length cannot: with a book in each of four cells that cost a twentieth of the
precision (docs/search.md).

But the segments of an index never change, and an index is a list of them. So the lists of all cells are joined to one,
in a temporary folder in which the files of all segments appear as links. The same pages then rank the same in however
many cells they lie, and there is one search instead of many. One more segment represents the cells of other machines,
if there are any (remote_pages.py).
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import tantivy

from teia.durable import disk_errors
from teia.errors import IndexFailure
from teia.index.checksums import damaged_files, segment_files
from teia.index.paging import advise_random_access, read_ahead, read_words_ahead
from teia.index.position import META_FILE, has_index
from teia.index.reader import IndexReader, damage_text, identity_of, open_index
from teia.index.remote_pages import Extent, extent_of, write_segment
from teia.lib.scratch import ScratchFolder

logger = logging.getLogger(__name__)
LEAST_FREE_BYTES = 16 << 20
IN_MEMORY = "/dev/shm"  # noqa: S108  # `mkdtemp` makes a folder of its own there
TRIES = 5
"""A segment may be merged away between reading a list and opening its files; then the list is read again."""

Meta = dict[str, Any]


class UnionReader(IndexReader):
    """The indexes of cells as one; cells that have none are left out, and named."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """Take the folders of cells' indexes by the names of the cells."""
        super().__init__()
        self.omitted_cells: dict[str, str] = {}
        """By the name of a cell: why it is not searched."""

        self._broken: dict[str, tuple[object, str]] = {}
        """Unreadable cells by name: the commit, and the reason."""

        self.elsewhere = Extent()
        """Size of the remote pages that the last returned view counts beside its own."""

        self._next_elsewhere = Extent()
        self._extents: tuple[Hashable, Extent] = (None, Extent())
        self._folders = dict(folders)
        self._metas = [str(folder / META_FILE) for folder in folders.values()]
        self._scratch = _make_folder(self._lock)
        self._folder = self._scratch.path
        self._resolved: dict[Path, str] = {}
        """Folders of cells without symbolic links."""

    @property
    def cells(self) -> int:
        return len(self._folders)

    def close(self) -> None:
        """Remove the temporary folder. Returned searchers stay good, and later commits are not seen."""
        self._scratch.close()

    def include_elsewhere(self, elsewhere: Extent) -> None:
        """Include pages of other machines in the mean lengths, from the next view on."""
        self._next_elsewhere = elsewhere

    def extent(self) -> Extent:
        """Return the size of the pages of the newest view, without those of other machines."""
        searcher = self.searcher()
        with self._lock:
            # The local part of the state: extents depend on it alone, so they do not oscillate.
            state = self._loaded_state[0] if isinstance(self._loaded_state, tuple) else None
            if self._extents[0] != state or state is None:
                self._extents = state, extent_of(searcher, self.schema, self.elsewhere)
            return self._extents[1]

    def state(self) -> Hashable:
        if self._scratch.is_closed:
            return self._loaded_state
        return tuple(map(identity_of, self._metas)), self._next_elsewhere

    def _reload(self, index: tantivy.Index | None) -> tantivy.Index:
        if self._scratch.is_closed:
            raise IndexFailure("the index was closed")
        problem: Exception | None = None
        for _ in range(TRIES):
            try:
                wanted = self._next_elsewhere
                # `wanted` is read once: another thread may change it while the list is written.
                names, new = self._join_segments(wanted)
                index = index or open_index(self._folder)
                index.reload()
            except (ValueError, OSError) as error:
                problem = error
                continue
            if new:
                advise_random_access(self._folders.values())
                read_words_ahead(new)
            # Old links go after the reload; searchers still in use hold their files open.
            self._remove_old_links(names)
            self.elsewhere = wanted
            return index
        # Each round leaves at least one more cell out, so the recursion ends.
        if self._find_broken():
            return self._reload(index)
        raise IndexFailure(f"the index cannot be read ({problem}); rebuild it with `teia rebuild index`") from problem

    def leave_damaged_out(self) -> bool:
        """Search without the cells that have a damaged file, from the next view on; return False if there is none."""
        with self._lock:
            found = {
                name: (identity_of(str(folder / META_FILE)), damage_text(damaged))
                for name, folder in self._folders.items()
                if name not in self.omitted_cells and (damaged := damaged_files(folder))
            }
            self._broken |= found
            if found:
                self._view = self._index = None
            return bool(found)

    def _find_broken(self) -> bool:
        """Check the cells one by one for unreadable files; the others are searched without such a cell."""
        found = {}
        for name, folder in self._folders.items():
            if name not in self.omitted_cells:
                commit = identity_of(str(folder / META_FILE))
                try:
                    open_index(folder).reload()
                except (ValueError, OSError) as error:
                    # The words of a library are for the log; readers of a public search see the reason.
                    logger.warning("the index of %s cannot be read: %s", name, error)
                    found[name] = (commit, "its index cannot be read; rebuild it with `teia rebuild index`")
        self._broken |= found
        return bool(found)

    def _join_segments(self, elsewhere: Extent) -> tuple[set[str], list[Path]]:
        """Write the list of all segments, and make links to their files; all names, and the files that are new."""
        metas = {folder: meta for name, folder in self._folders.items() if (meta := self._meta(name, folder))}
        if not metas:
            why = next(iter(self.omitted_cells.values()), "there are no cells")
            raise IndexFailure(f"nothing to search: {why}")
        # All cells have the same schema and settings, so those of the first stand for all.
        merged = next(iter(metas.values())) | {
            "segments": [segment for meta in metas.values() for segment in meta["segments"]],
            "opstamp": max(meta["opstamp"] for meta in metas.values()),
        }
        with disk_errors(self._folder, "written"):
            self._folder.mkdir(exist_ok=True)  # a cleaner of temporary folders may have removed it
            files = [file for folder, meta in metas.items() for file in segment_files(folder, meta)]
            if elsewhere.pages:
                segment, stand_ins = write_segment(self._folder / "elsewhere", elsewhere)
                merged["segments"].append(segment)
                files += stand_ins
            # Links first, then the list that names them: a reload finds every file.
            new = [file for file in files if self._link(file)]
            read_ahead(new)
            temporary = self._folder / f".{META_FILE}"
            temporary.write_text(json.dumps(merged), "utf-8")
            temporary.replace(self._folder / META_FILE)
        return {file.name for file in files}, new

    def _meta(self, name: str, folder: Path) -> Meta | None:
        """Return the metadata of a cell's index; None if it cannot be searched."""
        self.omitted_cells.pop(name, None)
        if not has_index(folder):
            self.omitted_cells[name] = "it has no index of this version yet"
            return None
        commit, why = self._broken.get(name, (None, ""))
        # A broken cell is tried again when it has a new commit.
        if why and commit == identity_of(str(folder / META_FILE)):
            self.omitted_cells[name] = why
            return None
        try:
            meta: Meta = json.loads((folder / META_FILE).read_bytes())
        except (OSError, ValueError) as error:
            logger.warning("the index of %s cannot be read: %s", name, error)
            self.omitted_cells[name] = "its index cannot be read; rebuild it with `teia rebuild index`"
            return None
        return meta

    def _link(self, file: Path) -> bool:
        """Make a link to a file; return True if there was none."""
        folder = file.parent
        if folder not in self._resolved:
            self._resolved[folder] = str(folder.resolve())
        try:
            (self._folder / file.name).symlink_to(f"{self._resolved[folder]}/{file.name}")
        except FileExistsError:
            return False
        return True

    def _remove_old_links(self, names: set[str]) -> None:
        for link in self._folder.iterdir():
            if link.is_symlink() and link.name not in names:
                link.unlink(missing_ok=True)


def _make_folder(lock: Lock) -> ScratchFolder:
    """Make a folder for temporary links: in memory, unless that is full."""
    for parent in (_folder_in_memory(), None):
        with suppress(OSError):
            if parent is not None and shutil.disk_usage(parent).free < LEAST_FREE_BYTES:
                continue
            return ScratchFolder("teia-index-", parent, lock)
    raise IndexFailure("no temporary folder can be written; free some space, or set TMPDIR")


def _folder_in_memory() -> str | None:
    """Return a folder for temporary links that is no disk; None if there is none, or if the user has chosen another.

    A hundred links, made and removed on a disk, take longer than a search.
    """
    return None if os.environ.get("TMPDIR") or not os.access(IN_MEMORY, os.W_OK | os.X_OK) else IN_MEMORY
