"""A site that moves from cell to cell takes all that is known of it along, and its links find it (A4)."""

from __future__ import annotations

import random
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from teia.cluster.cells.site_homes import LOST, Departure, LostCaptures, SiteHomes, decode_message
from teia.cluster.crawl.commit import CellExchange, ClusterCells
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.errors import ClusterError
from teia.frontier.cell import mail, move_site, site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import NEWEST_FORMAT
from teia.frontier.cell.rows import FoundUrl, PageRow, SettledVisit
from teia.frontier.cell.schema import STATE_DONE
from teia.signals.trust import SignalKind
from teia.store.root import open_root
from teia.urls import cell_of, cell_starts, key_of, slot_of

CELLS = 4
STARTS = cell_starts(CELLS)
SITE = "casa.test"
HOME = cell_of(slot_of(SITE), STARTS)
THERE, LATER = [cell for cell in range(CELLS) if cell != HOME][:2]
NOW_S = 1_000_000.0


class Post:
    """The stream, as far as cells send to each other: what is posted counts when its transaction does."""

    format = NEWEST_FORMAT

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self._posted: list[tuple[int, bytes]] = []
        self._number = 0

    @property
    def has_posts(self) -> bool:
        return bool(self._posted)

    def post(self, to_cell: int, bulk: bytes) -> None:
        self._posted.append((to_cell, bulk))

    def publish(self, changes: bytes) -> int:
        self.sent += self._posted
        self._posted, self._number = [], self._number + 1
        return self._number

    def forget(self, published: int) -> None:
        self._posted.clear()


class Cells:
    """All cells of a collection, each with what it knows of homes; `deliver` brings what was sent."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.post = Post()
        self.cells = [FrontierCell(folder / f"{number}.sqlite", journal=self.post) for number in range(CELLS)]
        for cell in self.cells:
            stack.callback(cell.close)
        self.homes = [SiteHomes(STARTS, [(number, cell)]) for number, cell in enumerate(self.cells)]

    def send(self, site: str, cell: int, to_cell: int, delays: dict[str, float] | None = None, note: str = "") -> None:
        with self.cells[cell].transaction() as frontier:
            self.homes[cell].send(frontier, Departure(site, cell, to_cell, delays or {}, note))

    def say(self, to_cell: int, *urls: str) -> None:
        """Send links to a cell, as any other would."""
        with self.cells[to_cell].transaction() as frontier:
            found = [FoundUrl(url.split("/")[2], key_of(url), "/" + url.split("/", 3)[3], 3) for url in urls]
            self.homes[to_cell].apply_message(to_cell, frontier, found, NOW_S)
            mail.note_received(frontier, mail.THE_STREAM, 1)

    def deliver(self) -> int:
        """Bring everything to where it is for; returns how many messages that took."""
        count = 0
        while self.post.sent:
            to_cell, bulk = self.post.sent.pop(0)
            count += 1
            assert count < 100, "messages go round and round"
            with self.cells[to_cell].transaction() as frontier:
                self.homes[to_cell].apply_message(to_cell, frontier, decode_message(bulk), NOW_S)
                mail.note_received(frontier, mail.THE_STREAM, count)
        return count

    def urls(self, cell: int) -> set[str]:
        rows = self.cells[cell].db.execute("SELECT h.name || u.tail FROM urls AS u JOIN hosts AS h USING (host_id)")
        return {text for (text,) in rows}


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    with ExitStack() as stack:
        yield Cells(tmp_path, stack)


def rows_of(cell: FrontierCell) -> dict[str, list[tuple[Any, ...]]]:
    """All that a cell knows, with names for host numbers."""
    names = dict(cell.db.execute("SELECT host_id, name FROM hosts").fetchall())
    found = {"hosts": sorted(cell.db.execute("SELECT name, slot, requests, bytes, address FROM hosts").fetchall())}
    for table, at in move_site.tables_of(cell).items():
        rows = cell.db.execute(f"SELECT * FROM {table}").fetchall()
        without = [(*row[:at], names[row[at]], *row[at + 1 :]) for row in rows]
        found[table] = sorted((row[:23] if table == "pages" else row) for row in without)  # changes are a cell's own
    return found


def fill(cells: Cells, pages: int = 30) -> None:
    """Let a site of two hosts have pages, a queue, robots.txt and a history."""
    urls = [f"http://{host}/p{number}" for host in (SITE, f"blog.{SITE}") for number in range(pages)]
    cells.say(HOME, *urls, "http://other-site.test/")
    cell = cells.cells[HOME]
    with cell.transaction():
        host_id = cell.host_id(SITE, NOW_S)
        cell.store_robots(host_id, SITE, f"http://{SITE}", NOW_S, "200", 200, b"User-agent: *")
        cell.count_requests([(host_id, 500, "127.0.0.9", 0.2)])
        sitemap = site_statements.StatementSource(
            key_of(f"http://{SITE}/sitemap.xml"), host_id, SignalKind.SITEMAP, NOW_S, 1
        )
        site_statements.note_source_read(cell, slot_of(SITE), sitemap)
        said = {key_of(urls[0]): NOW_S}
        site_statements.store_statements(cell, slot_of(SITE), host_id, SignalKind.SITEMAP, sitemap.key, said, NOW_S)
        site_statements.store_trust(cell, slot_of(SITE), host_id, [(SignalKind.SITEMAP, b"trust")])
        for item in cell.next_urls(host_id, SITE, 5, (), NOW_S):
            page = PageRow(200, b"digest", title="Casa")
            cell.settle(SettledVisit(host_id, item, "200", STATE_DONE, NOW_S, page=page), SITE)


def test_pages_whose_captures_a_node_has_erased_are_queued_again(cells: Cells) -> None:
    """Their bodies lay in records of removed pages, on the disk of a node that does not own the cell."""
    fill(cells)
    cell = cells.cells[HOME]
    with cell.transaction():
        cell.db.execute("UPDATE pages SET file = 'f', offset = 9, length = 1")
        (key,) = cell.row("SELECT min(key) FROM pages")
        cell.db.execute("UPDATE pages SET offset = 5 WHERE key = ?", (key,))
    queued = cell.queued
    lost = decode_message(LOST + msgspec.msgpack.encode(LostCaptures([("f", 5), ("g", 9)])))
    with cell.transaction():
        assert [name for _, name in cells.homes[HOME].apply_message(HOME, cell, lost, NOW_S)] == [SITE]
    assert cell.queued == queued + 1
    found = cell.db.execute("SELECT key, is_gone FROM pages WHERE file = ''").fetchall()
    assert found == [(key, 1)]
    with cell.transaction():
        assert cells.homes[HOME].apply_message(HOME, cell, lost, NOW_S) == []


def test_a_site_takes_queue_schedule_and_history_along(cells: Cells) -> None:
    """A4: moving a site carries its queue, schedule, ledger and history; what is left is what was another's."""
    fill(cells)
    before = rows_of(cells.cells[HOME])
    known, queued = cells.cells[HOME].known, cells.cells[HOME].queued
    cells.send(SITE, HOME, THERE, {SITE: NOW_S + 40})
    assert not any("casa" in url for url in cells.urls(HOME))
    cells.deliver()
    after = rows_of(cells.cells[THERE])
    for table, rows in after.items():
        assert rows == [row for row in before[table] if "other-site.test" not in row], table
    assert cells.cells[HOME].known + cells.cells[THERE].known == known
    assert cells.cells[HOME].queued + cells.cells[THERE].queued == queued
    rest = cells.cells[THERE].db.execute("SELECT value FROM meta WHERE name = ?", (f"rest {SITE}",)).fetchone()
    assert rest == (NOW_S + 40,)


def test_every_table_with_rows_of_hosts_travels(cells: Cells) -> None:
    tables = move_site.tables_of(cells.cells[0])
    assert {"urls", "queue", "pages", "visits", "histories", "robots", "host_histories", "patterns"} <= set(tables)
    assert {"site_statements", "statement_sources", "signal_trust"} <= set(
        tables
    )  # how far a site's sitemaps are believed goes with it
    assert list(tables)[-1] == "queue"


def test_links_find_a_site_wherever_it_went(cells: Cells) -> None:
    """A4: home passes links on; one that is behind the times costs a hop more, none is lost or taken twice."""
    fill(cells, pages=3)
    cells.send(SITE, HOME, THERE)
    cells.say(HOME, f"http://{SITE}/new-1")
    cells.deliver()
    assert f"{SITE}/new-1" in cells.urls(THERE)
    cells.send(SITE, THERE, LATER)
    cells.say(HOME, f"http://{SITE}/new-2")  # home has not heard yet that it went on
    cells.deliver()
    assert {f"{SITE}/new-1", f"{SITE}/new-2"} <= cells.urls(LATER)
    cells.say(HOME, f"http://{SITE}/new-3")
    assert cells.deliver() == 1
    cells.send(SITE, LATER, HOME)
    cells.say(THERE, f"http://{SITE}/new-4")
    cells.deliver()
    here = cells.urls(HOME)
    assert {f"{SITE}/new-{number}" for number in (1, 2, 3, 4)} <= here
    assert not any("casa" in url for cell in (THERE, LATER) for url in cells.urls(cell))


def test_a_cell_that_is_opened_anew_knows_its_guests_and_who_left(cells: Cells) -> None:
    fill(cells, pages=3)
    cells.send(SITE, HOME, THERE, note='{"speeds": {}}')
    cells.deliver()
    homes = SiteHomes(STARTS, list(enumerate(cells.cells)))
    assert homes.cell_number(f"blog.{SITE}") == THERE
    assert homes.lives_here(SITE)
    assert homes.notes[SITE] == '{"speeds": {}}'
    assert not SiteHomes(STARTS, [(HOME, cells.cells[HOME])]).lives_here(SITE)


def test_a_move_whose_transaction_fails_has_not_happened(cells: Cells) -> None:
    """Neither both cells have the site nor none: what was posted counts with the sender's transaction or not at all."""
    fill(cells, pages=3)
    before = rows_of(cells.cells[HOME])
    with suppress(RuntimeError), cells.cells[HOME].transaction() as frontier:
        cells.homes[HOME].send(frontier, Departure(SITE, HOME, THERE, {}))
        raise RuntimeError("no")
    cells.homes[HOME].read(HOME, cells.cells[HOME])
    assert cells.deliver() == 0
    assert rows_of(cells.cells[HOME]) == before
    assert cells.homes[HOME].lives_here(SITE)


def test_a_large_site_travels_in_parts(cells: Cells) -> None:
    fill(cells, pages=1_500)
    known = cells.cells[HOME].known
    cells.send(SITE, HOME, THERE)
    assert cells.deliver() >= 2
    assert cells.cells[THERE].known == known - 1


def test_a_site_of_long_urls_travels_in_messages_that_nats_takes(cells: Cells) -> None:
    chance = random.Random(7)
    urls = [f"http://{SITE}/{chance.randbytes(700).hex()}" for _ in range(1_500)]  # hard to pack
    cells.say(HOME, *urls)
    cells.post.sent.clear()
    cells.send(SITE, HOME, THERE)
    assert max(len(bulk) for _, bulk in cells.post.sent) <= move_site.MAX_PACKED_BYTES
    cells.deliver()
    assert len(cells.urls(THERE)) == len(urls)


def test_a_site_that_fits_into_no_message_stays_where_it_is(cells: Cells) -> None:
    """Its cell's keeper goes on, and nothing of the site is on its way."""
    fill(cells, pages=3)
    with cells.cells[HOME].transaction() as frontier:
        body = random.Random(7).randbytes(move_site.MAX_PACKED_BYTES)
        frontier.store_robots(frontier.host_id(SITE, NOW_S), SITE, f"http://{SITE}", NOW_S, "200", 200, body)
    before = rows_of(cells.cells[HOME])
    cells.post.sent.clear()
    committer = CellExchange.__new__(CellExchange)
    committer.cells = ClusterCells({HOME: SimpleNamespace(frontier=cells.cells[HOME])})  # type: ignore[dict-item]
    committer.homes, committer.departed = cells.homes[HOME], []
    leaving = Departure(SITE, HOME, THERE, {})
    committer.departures = deque([leaving])
    committer._send_sites()
    assert committer.departed == [(leaving, None)]
    assert rows_of(cells.cells[HOME]) == before
    assert cells.homes[HOME].lives_here(SITE)
    cells.say(HOME, f"http://{SITE}/later")
    assert cells.deliver() == 0


def test_a_url_of_a_site_that_moved_is_looked_up_where_it_is(cells: Cells, tmp_path: Path) -> None:
    """`teia lookup`, `trace` and what results say of a page, in a folder that keeps the cell it was sent to."""
    fill(cells, pages=3)
    cells.send(SITE, HOME, THERE)
    cells.deliver()
    root = open_root(tmp_path / "data", create=True)
    for each in root.create_collection("main", to_toml(Config()), CELLS).cells():
        with closing(sqlite3.connect(each.frontier)) as copy:
            cells.cells[each.number].db.backup(copy)
    with Lookup(root, "main") as lookup:
        found = lookup.find(f"http://{SITE}/p1")
        assert found is not None
        assert found.cell == THERE != lookup.cell_number(SITE)
        assert len(lookup.urls_of_host(f"blog.{SITE}", 100)) == 3
        assert lookup.find("http://nobody.test/") is None


@pytest.mark.parametrize("bulk", [b"site", b"siterubbish", b"told\xff", b"\xc1"])
def test_what_cannot_be_read_is_refused(bulk: bytes) -> None:
    with pytest.raises(ClusterError):
        decode_message(bulk)
