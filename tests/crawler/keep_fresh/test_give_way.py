"""At its size limit a crawl gives up pages for more important URLs, whichever host they are of (F2)."""

from __future__ import annotations

from pathlib import Path

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
