"""The index checked against the frontier, and made anew from the archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from teia.clock import Clock
from teia.crawl.indexer import is_wanted
from teia.crawl.indexing import Following, indexing_lock
from teia.crawl.lookup import Lookup
from teia.crawl.ranking import rank_file
from teia.durable import disk_errors
from teia.frontier.cell import FrontierCell
from teia.frontier.tails import url_from
from teia.index.cell import read_position
from teia.index.entry import DIGEST_BYTES
from teia.index.reader import CellReader, has_index
from teia.store.audit import MAX_DETAILS, Audit
from teia.store.root import Root


async def rebuild_index(root: Root, name: str, clock: Clock) -> int:
    """Throw the index of a collection away and make it again; returns how many pages it holds."""
    folder = root.collection(name)
    with indexing_lock(root, name):
        for cell in folder.cells():
            with disk_errors(cell.index, "removed"):
                shutil.rmtree(cell.index, ignore_errors=True)
                shutil.rmtree(cell.handover, ignore_errors=True)
        rank_file(folder).unlink(missing_ok=True)
        shutil.rmtree(folder.semantic, ignore_errors=True)
        following = Following(root, name, clock)
        try:
            await following.finish()
            return following.indexer.documents
        finally:
            await following.close()


def audit_index(root: Root, name: str) -> Audit:
    """Compare what can be found with what should be: every page up to where the index has come, and no other."""
    checked, complaints = 0, list[str]()
    with Lookup(root, name) as lookup:
        for folder, frontier in zip(lookup.folders, lookup.cells, strict=True):
            position = read_position(folder.index)
            if position is None or not has_index(folder.index):
                if frontier.last_change():
                    complaints.append(f"cell {folder.number} has no index; `teia rebuild index` makes it")
                continue
            found = {entry.key: entry.digest for entry in CellReader(folder.index).all_entries()}
            checked += len(found)
            for url, key, digest, belongs in _known(frontier, position):
                has = found.pop(key, None)
                if belongs and has is None:
                    complaints.append(f"{url} is not in the index")
                elif not belongs and has is not None:
                    complaints.append(f"{url} is in the index and should not be")
                elif has is not None and has != digest[:DIGEST_BYTES]:
                    complaints.append(f"{url} is in the index as it was before")
            complaints += [f"the index has a page with key {key} that nobody knows" for key in found]
    return Audit(checked, len(complaints), tuple(complaints[:MAX_DETAILS]))


def _known(frontier: FrontierCell, position: int) -> Iterator[tuple[str, int, bytes, bool]]:
    """(URL, key, digest, whether it belongs into the index) of every page that the index has heard of."""
    sql = """
        SELECT h.name, u.tail, p.key, p.digest, u.state, p.status, p.noindex, p.file, p.text_digest, p.title
        FROM pages AS p JOIN hosts AS h ON h.host_id = p.host_id
        JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
        WHERE p.change <= ?
    """
    for host, tail, key, digest, state, status, noindex, file, text, title in frontier.db.execute(sql, (position,)):
        has_words = text != b"" or title != ""
        yield url_from(host, tail), key, digest, is_wanted(state, status, noindex) and file != "" and has_words
