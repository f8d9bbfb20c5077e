"""Shorter paths that were found late: the links of a page already read get their correct depth (T1).

The set of pages within `scope.max_depth` must depend on the web alone, not on the server that answered first. So when a
page that was read already turns out to be closer to a seed (shorter_paths.py), its links are processed once more. They
come from the metadata record of its capture, not from the server, and are evaluated as any page's (links.py).
Known links become less deep. Links that had been too deep are queued, and are counted from now on. Nothing is counted
twice.

This works only where the archive keeps answers, and where the order does not judge links by the page that contains
them: those orders visit pages again in their own way (frontier/cell/trails.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from teia.crawler.child.messages import FoundLink
from teia.crawler.compiled_settings import CompiledSettings
from teia.crawler.links import (
    FrontierUrl,
    LinkCheck,
    LinkDecision,
    LinkRefusal,
    evaluate_link,
    evaluate_links,
    evaluate_requisite,
    field_of,
    outlinks_of,
)
from teia.crawler.open_cell import Cell
from teia.errors import StoreError
from teia.frontier.cell import in_link_counts, mail, shorter_paths
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.tables.pages import visits_of
from teia.records import LinkKind, Outcome
from teia.store.reader import ArchiveReader
from teia.urls import key_of

AT_ONCE = 64

Rewrite = Callable[[list[FoundLink]], list[FoundLink]]
"""Function that makes links lead to the main names of aliases."""


def propagate_depths(
    cell: Cell, cell_number: Callable[[str], int], compiled: CompiledSettings, now_s: float, rewrite: Rewrite
) -> list[tuple[int, str]] | None:
    """Give the links of some pages of a cell their new depth; return (host id, name) of hosts with new work.

    All in one transaction: links for other cells go to the outbox. Returns None if no page waits.
    """
    pages = shorter_paths.pending(cell.frontier, AT_ONCE)
    if not pages:
        return None
    by_cell: dict[int, list[FoundUrl]] = defaultdict(list)
    reader = ArchiveReader(cell.folder.archive)
    # The archive is read before the transaction begins, which keeps the transaction short.
    named = [_links_of(cell.frontier, page, reader, compiled) for page in pages]
    with cell.frontier.transaction() as frontier:
        for page, (links, is_hop) in zip(pages, named, strict=True):
            for found in _found(cell, page, rewrite(links), is_hop=is_hop):
                by_cell[cell_number(found.host)].append(found)
        touched = frontier.add_links(by_cell.pop(cell.number, ()), now_s)
        for number, links_there in by_cell.items():
            mail.post(frontier, number, links_there)
        shorter_paths.remove(frontier, pages)
    return touched


def _found(cell: Cell, page: shorter_paths.ShortenedPage, links: list[FoundLink], *, is_hop: bool) -> list[FoundUrl]:
    """Return a page's links at their current depth, and count those not counted before; inside a transaction."""
    depth, hops = (page.depth, page.hops + 1) if is_hop else (page.depth + 1, 0)
    targets: dict[str, list[int]] = {}
    for link in links if page.status < 300 else ():
        if link.count and link.key != page.key:
            targets.setdefault(link.host, []).append(link.key)
    new = in_link_counts.add(cell.frontier, (page.slot, page.host_id, page.key), targets)
    found = []
    for link in links:
        found.append(FoundUrl(link.host, link.key, link.tail, depth, int(link.key in new), hops, link.by))
        # An alias of the same URL may follow in the list; the URL counts once.
        new.discard(link.key)
    return found


def _links_of(
    frontier: FrontierCell, page: shorter_paths.ShortenedPage, reader: ArchiveReader, compiled: CompiledSettings
) -> tuple[list[FoundLink], bool]:
    """Return a capture's links that may be followed, and whether it is a redirect; no links if it cannot be read."""
    if page.outcome == Outcome.SOFT_404:
        return [], False
    row_key = (page.slot, page.host_id, page.key)
    block = read_metadata(frontier, reader, row_key, page.file, page.offset + page.length)
    return links_of_capture(block, page.depth, compiled) if block else ([], False)


def read_metadata(frontier: FrontierCell, reader: ArchiveReader, row_key: RowKey, file: str, at: int) -> bytes:
    """Return the block of the metadata record with a page's links; empty if there is none that can be read.

    The record follows that of the answer. If another URL brought the body first (content_seen.py), the page's own
    record has the links, unless the page was not parsed because they are the same.
    """
    try:
        record = reader.read(file, at) if file else None
        if record is None or record.kind != "metadata":
            return b""
        if key_of(record.url) != row_key[2]:
            visit = next((each for each in reversed(visits_of(frontier, row_key)) if each.file), None)
            own = None if visit is None else reader.read(visit.file, visit.offset + visit.length)
            if own is not None and own.kind == "metadata" and not field_of(own.block, "linksOf"):
                return own.block
    except StoreError:
        return b""
    return record.block


def links_of_capture(block: bytes, depth: int, compiled: CompiledSettings) -> tuple[list[FoundLink], bool]:
    """Return the links of a metadata record that may be followed from a depth, and whether it is a redirect."""
    config, obeys = compiled.config, compiled.config.courtesy.robots
    links = outlinks_of(block)
    is_hop = any(link.kind is LinkKind.REDIRECT for link in links)
    if obeys and field_of(block, "robots") == "nofollow":
        return [], is_hop
    too_deep = depth + (0 if is_hop else 1) > config.scope.max_depth
    check_link = _refuse_on_error(partial(evaluate_link, scope=compiled.scope, limits=config.limits))
    check_requisite = _refuse_on_error(partial(evaluate_requisite, scope=compiled.scope, limits=config.limits))
    found = []
    for times, _, by, decision, links_to in evaluate_links(
        links, check_link, check_requisite, obeys=obeys, too_deep=too_deep
    ):
        if isinstance(decision, FrontierUrl):
            host, key, tail = decision
            found.append(FoundLink(host, key, tail, times if links_to else 0, "", by))
    return found, is_hop


def _refuse_on_error(check: LinkCheck) -> LinkCheck:
    """Return a check that refuses a URL when a rule that the user wrote as a function raises."""

    def check_safely(url: str) -> LinkDecision:
        try:
            return check(url)
        except Exception:  # noqa: BLE001  # a function written by the user
            return LinkRefusal.OUT_OF_SCOPE

    return check_safely
