"""At its size limit a crawl gives up pages for more important URLs, whichever host they are of (F2)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from math import inf
from pathlib import Path

import pytest

from teia.crawler.keep_fresh.give_way import NewUrlCandidate, Swap, give_way
from teia.crawler.ownership import KeptElsewhere
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.schema import STATE_DONE, STATE_QUEUED
from tests.crawler.fresh_crawls import FreshWeb, fresh_web
from tests.crawler.keep_fresh.test_keep_fresh import SLOT_S, quiet_world

KEPT = 6


def urls(cell: CellConnection, where: str) -> list[tuple[str, int, str]]:
    """(host, key, tail) of some URLs."""
    sql = f"SELECT h.name, u.key, u.tail FROM urls AS u JOIN hosts AS h USING (host_id) WHERE {where} ORDER BY u.key"
    return cell.db.execute(sql).fetchall()


def link(web: FreshWeb, number: int, found: tuple[str, int, str], in_links: int) -> None:
    """Let so many more pages link to a URL."""
    with web.crawl.committer.cells[number].frontier.transaction() as frontier:
        frontier.add_links([FoundUrl(*found, 1, in_links)], web.clock.now_s())


def test_a_page_gives_way_to_a_url_of_another_host_and_cell_with_default_weights(tmp_path: Path) -> None:
    world = quiet_world(pages=30, hosts=3, seed=3, sites__theta=0.0)
    with fresh_web(world, tmp_path, limits__pages_kept=KEPT, collection__cells=2) as web:
        web.run(1, SLOT_S)
        assert web.refresh.is_full
        poor, rich = (cell.frontier for cell in web.crawl.committer.cells)
        wanted = urls(rich, f"state = {STATE_QUEUED}")[0]
        link(web, 1, wanted, 50)
        # The pages of the same host are as important: none of them gives way.
        for kept in urls(rich, f"state = {STATE_DONE}"):
            link(web, 1, kept, 50)
        assert not urls(poor, "outcome = 'budget'")
        web.run(1, SLOT_S)
        assert wanted in urls(rich, f"state = {STATE_DONE}")
        assert len(urls(poor, "outcome = 'budget'")) == 1
        assert not urls(rich, "outcome = 'budget'")
        # As many pages are kept as before.
        assert KEPT <= len(urls(poor, f"state = {STATE_DONE}") + urls(rich, f"state = {STATE_DONE}")) <= KEPT + 1


def report(web: FreshWeb) -> KeptElsewhere:
    return KeptElsewhere(web.refresh.stored_pages, web.refresh.least_kept)


def test_a_page_gives_way_to_a_url_of_another_node(tmp_path: Path) -> None:
    """The node with the important URL takes a place, and the node with the least important page makes room."""
    rich_world, poor_world = (quiet_world(pages=30, hosts=1, seed=seed, sites__theta=0.0) for seed in (3, 4))
    with (
        fresh_web(rich_world, tmp_path / "rich", limits__pages_kept=2 * KEPT) as rich,
        fresh_web(poor_world, tmp_path / "poor", limits__pages_kept=2 * KEPT) as poor,
    ):
        for web in (rich, poor):
            web.refresh._kept_elsewhere = lambda: KeptElsewhere(KEPT)
            web.run(1, SLOT_S)
        rich.refresh._kept_elsewhere = partial(report, poor)
        poor.refresh._kept_elsewhere = partial(report, rich)
        before = rich.refresh.stored_pages + poor.refresh.stored_pages
        (number,) = (each.number for each in rich.crawl.committer.cells if urls(each.frontier, f"state = {STATE_DONE}"))
        frontier = rich.crawl.committer.cells[number].frontier
        wanted = urls(frontier, f"state = {STATE_QUEUED}")[0]
        for found in (wanted, *urls(frontier, f"state = {STATE_DONE}")):
            link(rich, number, found, 50)
        rich.run(1, SLOT_S)
        assert wanted in urls(frontier, f"state = {STATE_DONE}")
        assert not urls(frontier, "outcome = 'budget'")
        poor.run(1, SLOT_S)
        dropped = [each for cell in poor.crawl.committer.cells for each in urls(cell.frontier, "outcome = 'budget'")]
        assert len(dropped) >= 1
        assert rich.refresh.stored_pages + poor.refresh.stored_pages == before


def test_the_least_important_page_of_a_lost_cell_is_no_longer_reported(tmp_path: Path) -> None:
    """Other nodes would wait forever for this one to drop a page that it no longer has."""
    with fresh_web(quiet_world(pages=30, hosts=1, seed=3, sites__theta=0.0), tmp_path, limits__pages_kept=KEPT) as web:
        web.run(1, SLOT_S)
        assert web.refresh.least_kept < inf
        for cell in web.crawl.committer.cells:
            web.refresh.forget_hosts(cell.number)
        assert web.refresh.least_kept == inf


def test_of_equally_important_pages_of_two_nodes_one_gives_way(tmp_path: Path) -> None:
    """A third node has taken one place; both of these nodes dropped a page for it."""
    world, limit = quiet_world(pages=30, hosts=1, seed=4, sites__theta=0.0), 3 * KEPT
    with (
        fresh_web(world, tmp_path / "first", limits__pages_kept=limit) as first,
        fresh_web(world, tmp_path / "second", limits__pages_kept=limit) as second,
    ):
        for web in (first, second):
            web.refresh._kept_elsewhere = lambda: KeptElsewhere(2 * KEPT)
            web.run(1, SLOT_S)
        kept, least = first.refresh.stored_pages, first.refresh.least_kept
        assert (kept, least) == (second.refresh.stored_pages, second.refresh.least_kept)
        one_too_many = limit - kept + 1
        for web, goes_first in ((first, False), (second, True)):
            web.refresh._kept_elsewhere = partial(KeptElsewhere, one_too_many, least, goes_first)
            web.run(0.25, SLOT_S)
        assert (first.refresh.stored_pages, second.refresh.stored_pages) == (kept - 1, kept)


def test_all_pages_of_a_host_that_give_way_do_so_in_one_transaction_of_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction is synced, or published to other nodes, while the commit of pages waits."""
    with fresh_web(quiet_world(pages=30, hosts=1, seed=3, sites__theta=0.0), tmp_path, limits__pages_kept=KEPT) as web:
        web.run(1, SLOT_S)
        cells = web.crawl.committer.cells
        (cell,) = [each for each in cells if urls(each.frontier, f"state = {STATE_DONE}")]
        sql = "SELECT u.slot, u.host_id, h.name FROM urls AS u JOIN hosts AS h USING (host_id)"
        slot, host_id, host = cell.frontier.db.execute(sql).fetchone()
        dropped = [key for _, key, _ in urls(cell.frontier, f"state = {STATE_DONE}")][:3]
        added = [key for _, key, _ in urls(cell.frontier, f"state = {STATE_QUEUED}")][:3]
        swaps = [
            Swap(old, NewUrlCandidate(9.0, cell.number, slot, host_id, host, new))
            for old, new in zip(dropped, added, strict=True)
        ]
        begun = []
        transaction = FrontierCell.transaction

        def note(frontier: FrontierCell) -> AbstractContextManager[FrontierCell]:
            begun.append(frontier.path)
            return transaction(frontier)

        monkeypatch.setattr(FrontierCell, "transaction", note)
        assert give_way(cells, cell, slot, host_id, swaps, web.clock.now_s()) == ([(cell, [(host_id, host)])] * 3, 3)
        assert len(begun) == 2, "the pages that go, and the URLs that come"
        assert len(urls(cell.frontier, "outcome = 'budget'")) == 3
