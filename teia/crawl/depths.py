"""Shorter ways that were found late: the links of a page that has been read get the depth they deserve (T1).

Which pages lie within `scope.max_depth` must depend on the web alone, not on which server answered first. So when a
page that was read already turns out to be nearer to a seed (frontier/nearer.py), its links are taken once more: from
the metadata record of its copy, not from the server. Those that are known become less deep, those that had been too
deep are queued. Nothing is counted twice.

Only where the archive keeps answers, and the order is not one that judges links by the page that names them: those look
at pages again in their own way (frontier/trails.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from teia.crawl.cells import Cell
from teia.crawl.links import FOUND_BY, field_of, outlinks_of
from teia.crawl.meaning import Meaning
from teia.errors import StoreError
from teia.frontier import mail, nearer
from teia.frontier.cell import Found
from teia.frontier.schema import BY_LINK
from teia.frontier.tails import tail_of
from teia.frontier.traps import trap_of
from teia.records import LinkKind
from teia.store.reader import ArchiveReader
from teia.urls import host_of, key_of

AT_ONCE = 64


def spread(cell: Cell, number_of: Callable[[str], int], meaning: Meaning, now_s: float) -> list[tuple[int, str]] | None:
    """Give the links of some pages of a cell their new depth; returns (host id, name) with new work.

    One transaction: what is for other cells goes to the outbox. None if no page waits.
    """
    pages = nearer.waiting(cell.frontier.db, AT_ONCE)
    if not pages:
        return None
    by_cell: dict[int, list[Found]] = defaultdict(list)
    reader = ArchiveReader(cell.folder.archive)
    for page in pages:
        for found in links_of(page, reader, meaning):
            by_cell[number_of(found.host)].append(found)
    with cell.frontier.transaction() as frontier:
        touched = frontier.absorb(by_cell.pop(cell.number, ()), now_s)
        for number, links in by_cell.items():
            mail.post(frontier, number, links)
        nearer.forget(frontier.db, pages)
    return touched


def links_of(page: nearer.Nearer, reader: ArchiveReader, meaning: Meaning) -> Iterator[Found]:
    """Yield the links of a copy that may be followed, at the depth they have now; none if the copy cannot be read."""
    config = meaning.config
    try:
        record = reader.read(page.file, page.offset + page.length) if page.file else None
    except StoreError:
        return
    if record is None or record.kind != "metadata":
        return
    obeys = config.courtesy.robots
    if obeys and field_of(record.block, "robots") == "nofollow":
        return
    for link in outlinks_of(record.block):
        is_hop = link.kind is LinkKind.REDIRECT
        depth, hops = (page.depth, page.hops + 1) if is_hop else (page.depth + 1, 0)
        by = FOUND_BY.get(link.kind, BY_LINK)
        may_follow = not (link.nofollow and obeys) and trap_of(link.url, config.limits) is None
        if may_follow and meaning.wants_link(link.url, depth, by):
            host = host_of(link.url)
            yield Found(host, key_of(link.url), tail_of(link.url, host), depth, 0, hops, by)
