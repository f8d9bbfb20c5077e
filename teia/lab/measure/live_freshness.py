"""True freshness, measured while a crawl keeps a lab's web: the share of captures that still match their pages.

The captures are those that the estimates count, with their weights. Of many, a part of each host is used, as good as a
random sample, and scaled up. A capture is as old as its body: a server that answers 304 to everything does not make it
younger. A world has no state, so it is rebuilt from its spec, and its server gets no request. A page that never changes
(a month of a calendar) is always fresh. URLs that are not pages (sitemaps, feeds, pictures) are left out.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from threading import Event, Thread

from teia.clock import Clock
from teia.collections.account import TRUE_S, note_truth
from teia.collections.control_file import CrawlReports
from teia.collections.settings import saved
from teia.crawler.keep_fresh.weights import weigher
from teia.errors import TeiaError
from teia.frontier.cell import revisits
from teia.frontier.cell.rows import url_from
from teia.lab.world.url_kinds import WITH_BODY, UrlKind
from teia.lab.world.world import World
from teia.store.root import Root
from teia.urls import canonicalize, site_of, slot_of, split
from teia.views.reports.source import OpenCell, snapshot

logger = logging.getLogger(__name__)

# Captures in one measurement; the standard error of a share is then about 1% at most.
MOST_PAGES = 2_000
# The smallest 64-bit key; pages are read from the keys above it.
_FIRST_KEY = -(1 << 63)


def measure_freshness(world: World, root: Root, collection: str, now_s: float) -> float | None:
    """Return the share of a collection's captures, by weight, that match the world now; None if there is none."""
    weigh = weigher(saved(root, collection).config.refresh, root.collection(collection).ranks)
    total = fresh = 0.0
    with snapshot(root, collection) as cells:
        for host, count, captures in _sample_captures(cells):
            checks = [(page, _is_fresh(world, url_from(host, page.tail), at_s, now_s)) for page, at_s in captures]
            checked = [(page, is_fresh) for page, is_fresh in checks if is_fresh is not None]
            if checked:
                # Each sampled page stands for count / len(copies) pages of its host.
                weights = weigh([page for page, _ in checked]) * (count / len(captures))
                total += float(weights.sum())
                fresh += float(weights[[is_fresh for _, is_fresh in checked]].sum())
    return fresh / total if total else None


def _sample_captures(
    cells: tuple[OpenCell, ...],
) -> Iterator[tuple[str, int, list[tuple[revisits.CapturedPage, float]]]]:
    """Yield each host, its number of captures, and all or part of them, each with its fetch time."""
    hosts = []
    for cell in cells:
        for host_id, host, *_ in revisits.hosts_with_pages(cell.frontier):
            slot = slot_of(site_of(host))
            count = revisits.count_captured(cell.frontier, slot, host_id)
            hosts.append((cell.frontier, host, slot, host_id, count))
    part = min(1.0, MOST_PAGES / max(1, sum(count for *_, count in hosts)))
    for frontier, host, slot, host_id, count in hosts:
        pages = revisits.captured_pages(frontier, slot, host_id, _FIRST_KEY, ceil(part * count))
        yield host, count, [(page, revisits.captured_s(frontier, (slot, host_id, page.key))) for page in pages]


def _is_fresh(world: World, url: str, copied_s: float, now_s: float) -> bool | None:
    """Tell whether a page is unchanged since it was fetched; None for URLs that are not pages of the world."""
    parts = split(canonicalize(url) or url)
    host = world.names.get(parts.host) if parts.port == world.port else None
    target = world.resolve_target(host, parts.target.encode()) if host is not None else None
    if target is None or target.kind not in WITH_BODY | {UrlKind.CALENDAR}:
        return None
    return target.kind is UrlKind.CALENDAR or world.rewritten_s(target, now_s) <= copied_s


@contextmanager
def measure_regularly(world: World, root: Root, collection: str, clock: Clock) -> Iterator[None]:
    """Measure regularly in a background thread, and record the results (collections/account.py)."""
    stopping = Event()

    def measure() -> None:
        while True:
            try:
                share = measure_freshness(world, root, collection, clock.now_s())
                if share is not None:
                    with CrawlReports(root.control) as reports:
                        note_truth(reports, collection, clock.now_s(), share)
            except (TeiaError, sqlite3.Error) as error:  # the next measurement may succeed
                logger.warning("true freshness could not be measured: %s", error)
            if stopping.wait(TRUE_S):
                return

    thread = Thread(target=measure, name="measuring", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
