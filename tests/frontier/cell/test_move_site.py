"""A site that moves to another cell: its rows arrive once, and the counters stay true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import move_site, shorter_paths
from teia.frontier.cell.cell import FrontierCell, PageRow
from teia.frontier.cell.move_site import HOSTS, QUEUE, VERSION, SiteRows, hosts_of, store_part
from teia.frontier.cell.revisits import set_due
from teia.frontier.cell.schema import LANE_REFRESH, STATE_DONE
from teia.frontier.cell.schema import VERSION as TABLES_VERSION
from teia.urls import key_of, site_of, slot_of
from tests.frontier.cells import HOST, NOW_S, add_links, found, items, page, settle

DONE, QUEUED = 4, 3


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FrontierCell]:
    """A cell with one site: some pages that were fetched and are kept fresh, and some URLs that wait."""
    cell = FrontierCell(tmp_path / "from.sqlite")
    add_links(cell, *(found(page(number)) for number in range(DONE)))
    for item in items(cell):
        settle(cell, item, STATE_DONE, learnt=PageRow(200, b"digest", b"text"))
    with cell.transaction():
        for number in range(DONE):
            place = (slot_of(site_of(HOST)), cell.host_id(HOST, NOW_S), key_of(page(number)))
            assert set_due(cell, place, NOW_S + 60 * number)
    add_links(cell, *(found(page(f"new{number}")) for number in range(QUEUED)))
    yield cell
    cell.close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[FrontierCell]:
    cell = FrontierCell(tmp_path / "to.sqlite")
    yield cell
    cell.close()


def part_of(cell: FrontierCell, *tables: str) -> SiteRows:
    """Return some tables of the site as one part."""
    names = hosts_of(cell, site_of(HOST))
    pieces = [piece for each in move_site._pieces(cell, site_of(HOST), names) for piece in each]
    rows = [(table, those) for table, those in pieces if table in tables]
    return SiteRows(VERSION, TABLES_VERSION, site_of(HOST), names, {}, "", rows, is_last=True)


def waiting(cell: FrontierCell) -> int:
    return int(cell.db.execute("SELECT count(*) FROM queue WHERE lane <> ?", (LANE_REFRESH,)).fetchone()[0])


def known_of(cell: FrontierCell) -> int:
    return int(cell.db.execute("SELECT count(*) FROM urls").fetchone()[0])


def test_pages_that_are_kept_fresh_do_not_count_as_queued(site: FrontierCell, receiver: FrontierCell) -> None:
    with receiver.transaction():
        store_part(receiver, part_of(site, HOSTS, "urls", QUEUE))
    assert (receiver.known, receiver.queued) == (DONE + QUEUED, QUEUED) == (known_of(receiver), waiting(receiver))
    for cell in (site, receiver):
        assert cell.captures == cell.row("SELECT count(*) FROM visits WHERE length > 0")[0]


@pytest.mark.parametrize("lane", [LANE_REFRESH, 0], ids=["kept fresh", "new"])
def test_rows_that_the_cell_has_already_are_counted_once(site: FrontierCell, receiver: FrontierCell, lane: int) -> None:
    """Where one row was there already, pages that are kept fresh were counted as queued."""
    whole = part_of(site, HOSTS, "urls", QUEUE)
    (queue,) = (rows for table, rows in whole.rows if table == QUEUE)
    one = next(row for row in queue if row[2] == lane)
    some = SiteRows(*(getattr(whole, name) for name in ("version", "tables", "site", "names", "delays", "note")),
                [(HOSTS, whole.rows[0][1]), (QUEUE, [one])], is_last=False)  # fmt: skip
    for part in (some, whole, whole):
        with receiver.transaction():
            store_part(receiver, part)
        assert (receiver.known, receiver.queued) == (known_of(receiver), waiting(receiver))


def test_pages_nearer_to_a_seed_are_found_where_they_moved(site: FrontierCell, receiver: FrontierCell) -> None:
    assert shorter_paths.pending(receiver, 9) == []
    add_links(site, found(page(0), depth=0))
    with receiver.transaction():
        store_part(receiver, part_of(site, HOSTS, "urls", "pages", QUEUE, "shorter_paths"))
    assert [each.key for each in shorter_paths.pending(receiver, 9)] == [key_of(page(0))]
