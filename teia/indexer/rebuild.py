"""Audit of the index against the frontier, and its rebuild from the archive."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from isal.igzip_lib import IsalError

from teia.clock import Clock
from teia.collections.index_state import is_being_written
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.durable import disk_errors, exchange_folders
from teia.errors import IndexFailure
from teia.frontier.tables.counts import count_kept
from teia.frontier.tables.page_changes import pages_for_index
from teia.index.checksums import damaged_files
from teia.index.entry import DIGEST_BYTES
from teia.index.position import has_index, read_position
from teia.index.reader import CellReader
from teia.indexer.cell_indexer import broken_index_folder, new_index_folder
from teia.indexer.process import CollectionFollower, indexing_lock
from teia.indexer.semantic_model import SEED
from teia.store.audit import MAX_DETAILS, Audit
from teia.store.root import CollectionFolder, Root


def pages_to_index(root: Root, name: str) -> int:
    """Return about how many pages a rebuild has to index."""
    with Lookup(root, name) as lookup:
        return sum(map(count_kept, lookup.cells))


async def rebuild_index(root: Root, name: str, clock: Clock) -> int:
    """Build the index of a collection again from the archive; return the number of pages in it.

    The new index is built beside the old one, which continues to answer until all cells of the new one are complete. If
    the rebuild fails or is killed, the old index stays; the next rebuild starts from the beginning.
    """
    folder = root.collection(name)
    with indexing_lock(root, name):
        _remove_leftovers(folder)
        for cell in folder.cells():
            with disk_errors(cell.index, "made"):
                cell.index.mkdir(exist_ok=True)
        try:
            # 1. Build all cells beside the present ones; a crash here costs the work, nothing else.
            builder = CollectionFollower(root, name, clock, is_rebuild=True)
            try:
                await builder.finish()
            finally:
                await builder.close()
            for cell in folder.cells():
                # 2. Exchange cell by cell, each atomically; searchers of the old files continue with them.
                exchange_folders(cell.index, new_index_folder(cell))
        finally:
            _remove_leftovers(folder)
        # 3. Take the changes of the meantime, and renew ranks and model.
        follower = CollectionFollower(root, name, clock)
        try:
            await follower.finish()
            if saved(root, name).config.index.semantics:
                from teia.indexer.semantic_model import renew_model  # imports the whole search package

                await asyncio.to_thread(renew_model, folder, clock, seed=SEED, force=True)
            return follower.indexer.documents
        finally:
            await follower.close()


def _remove_leftovers(folder: CollectionFolder) -> None:
    """Remove indexes that were built beside the present ones or replaced by them, and damaged ones set aside."""
    for cell in folder.cells():
        for leftover in (new_index_folder(cell), broken_index_folder(cell)):
            with disk_errors(leftover, "removed"):
                shutil.rmtree(leftover, ignore_errors=True)


def audit_index(root: Root, name: str) -> Audit:
    """Compare the searchable pages with the frontier: every page that belongs in the index, and no other.

    Pages that the index has not reached yet are missing too, unless a process is about to index them.
    """
    checked, missing, complaints = 0, 0, list[str]()
    is_followed = is_being_written(root.collection(name))
    with Lookup(root, name) as lookup:
        for folder, frontier in zip(lookup.folders, lookup.cells, strict=True):
            position, found = _lock_stack(folder.index)
            if position is None and frontier.last_change():
                complaints.append(f"cell {folder.number} has no readable index; rebuild it with `teia rebuild index`")
            complaints += [
                f"{file} of cell {folder.number} does not match its checksum; rebuild it with `teia rebuild index`"
                for file in damaged_files(folder.index)
            ]
            is_clustered = frontier.is_of_cluster  # another node may own the cell, and index it
            checked += len(found)
            for url, key, digest, belongs, change in pages_for_index(frontier):
                indexed = found.pop(key, None)
                # Not reached yet: missing, but no error of the index.
                if change > (position or 0):
                    missing += belongs and indexed is None and not is_clustered
                elif belongs and indexed is None:
                    complaints.append(f"{url} is not in the index")
                elif not belongs and indexed is not None:
                    complaints.append(f"{url} is in the index but should not be")
                elif indexed is not None and indexed != digest[:DIGEST_BYTES]:
                    complaints.append(f"{url} is in the index in an older version")
            complaints += [f"the index contains an unknown page with key {key}" for key in found]
    violations = len(complaints) + (0 if is_followed else missing)
    if missing:
        who = (
            "an indexer is running" if is_followed else ("no indexer is running; index them with `teia rebuild index`")
        )
        complaints.insert(0, f"{missing:,} crawled pages are not indexed yet; {who}")
    return Audit(checked, violations, tuple(complaints[:MAX_DETAILS]))


def indexed_pages(root: Root, name: str, matches: Callable[[str], bool]) -> int:
    """Return how many matching pages are in the index, whether or not they belong there."""
    number = 0
    with Lookup(root, name) as lookup:
        for folder, frontier in zip(lookup.folders, lookup.cells, strict=True):
            _, found = _lock_stack(folder.index)
            number += sum(each[1] in found and matches(each[0]) for each in pages_for_index(frontier))
    return number


def _lock_stack(index: Path) -> tuple[int | None, dict[int, bytes]]:
    """Return an index's position, and the digests of its pages by key; None and nothing if it cannot be read."""
    position = read_position(index)
    if position is None or not has_index(index):
        return None, {}
    try:
        return position, {entry.key: entry.digest for entry in CellReader(index).all_entries()}
    except (IndexFailure, IsalError, ValueError, OSError):  # type: ignore[misc]  # a class; its stub says an instance
        return None, {}
