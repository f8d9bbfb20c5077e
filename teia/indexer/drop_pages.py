"""Removal of pages from the files of a cell's index, at once and for good.

A page that the indexer drops leaves its words in the files until they are merged, which may be never. Here the index is
written anew from its own entries, without the pages that must go, and exchanged for the present one. So the archive
need not be read, and pages whose captures lie on other nodes stay.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from teia.durable import disk_errors, exchange_folders, repair_exchange
from teia.graph.linkfile import LinkFile
from teia.index.anchors import AnchorTexts
from teia.index.borrowed import LackingPages
from teia.index.cell import CellIndex
from teia.index.position import META_FILE, POSITION_FILE, has_index, read_position
from teia.index.reader import CellReader
from teia.indexer.cell_indexer import broken_index_folder, new_index_folder
from teia.store.root import CellFolder

Matches = Callable[[str], bool]
LACKING_AT_ONCE = 10_000


def indexed_urls(folder: CellFolder, matches: Matches) -> list[str]:
    """Return the matching pages in a cell's index; the index itself is read, not the cell's tables."""
    if not has_index(folder.index):
        return []
    return [entry.url for entry in CellReader(folder.index).all_entries() if matches(entry.url)]


def drop_pages(folder: CellFolder, matches: Matches, *, is_concerned: bool) -> int:
    """Write the index of a cell anew without matching pages, if it has any; return their number.

    `is_concerned`: the cell knows such pages. Then the index is also written anew if it has dropped any page before.
    The caller holds the lock of the index, and no other process writes to it.
    """
    repair_exchange(folder.index)
    new = new_index_folder(folder)
    with disk_errors(folder.index, "removed"):
        for leftover in (new, broken_index_folder(folder)):
            shutil.rmtree(leftover, ignore_errors=True)
    if not has_index(folder.index):
        return 0
    found = set(indexed_urls(folder, matches))
    if found or (is_concerned and _has_dropped(folder.index)):
        _write_anew(folder.index, new, matches)
        exchange_folders(folder.index, new)
        shutil.rmtree(new, ignore_errors=True)
    _forget_lacking(folder, matches)
    return len(found)


def _forget_lacking(folder: CellFolder, matches: Matches) -> None:
    """Forget matching pages that the index lacks, or a node would fetch their entries from others."""
    pages, last = LackingPages(folder.index), None
    with closing(pages):
        while some := pages.after(last, LACKING_AT_ONCE):
            pages.drop([key for key, url in some if matches(url)])
            last = some[-1][0]


def _has_dropped(index: Path) -> bool:
    """Tell whether segments of an index hold pages that were dropped since."""
    return any(each["deletes"] for each in json.loads((index / META_FILE).read_bytes())["segments"])


def _write_anew(index: Path, new: Path, matches: Matches) -> None:
    """Write an index without matching pages into a new folder, with copies of the other files beside it."""
    position = read_position(index) or 0
    with closing(CellIndex(new)) as written:
        with disk_errors(new, "written"):
            for path in filter(_is_beside, index.iterdir()):
                shutil.copy2(path, new / path.name)
        gone = list[int]()
        with closing(AnchorTexts(new / "anchors.sqlite")) as anchors:
            for entry in CellReader(index).all_entries():
                if matches(entry.url):
                    gone.append(entry.key)
                else:
                    written.put(entry, anchors.texts_of([entry.key])[entry.key])
        with closing(LinkFile(new / "links.bin")) as links:
            for key in gone:
                links.append(key, ())  # or PageRank would count its links
            links.flush()
        written.commit(position)


def _is_beside(path: Path) -> bool:
    """Tell whether a file is not tantivy's own: texts of links, the link file, lists of pages."""
    is_segment = len(path.name.partition(".")[0]) == 32
    return path.is_file() and not is_segment and path.name not in {META_FILE, POSITION_FILE} and path.name[0] != "."
