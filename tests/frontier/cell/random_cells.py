"""Random transactions on a cell: every kind of write that a crawl does, with rollbacks and a split."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from pathlib import Path

from teia.frontier.cell import in_link_counts
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import CaptureLocation, FoundUrl, PageRow, QueuedUrl, SettledVisit
from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.frontier.cell.split import delete_slots
from teia.urls import SLOTS, key_of, site_of, slot_of

HOSTS = [f"h{n}.site{n % 4}.test" for n in range(6)]


def dump(path: Path) -> list[str]:
    """Return the whole file as sorted lines of SQL, without the number of the last record.

    Sorted, because rows of a table with row numbers lie in the order in which they were written, which is another one
    where records are applied.
    """
    db = sqlite3.connect(path)
    try:
        return sorted(line for line in db.iterdump() if "'log_seq'" not in line)
    finally:
        db.close()


def change_at_random(cell: FrontierCell, seed: int, transactions: int) -> None:
    """Do the same random transactions whatever records them; some are rolled back, one of them splits the cell."""
    chance = random.Random(seed)
    for turn in range(transactions):
        now_s = 1000.0 + turn
        with suppress(ValueError), cell.transaction():
            for _ in range(chance.randrange(1, 8)):
                _change(cell, chance, now_s)
            if turn == transactions // 2:
                delete_slots(cell, 8 + seed, SLOTS // 2, SLOTS, ["delay "])
            _change(cell, chance, now_s)
            if chance.random() < 0.2:
                raise ValueError  # a rollback


def _change(cell: FrontierCell, chance: random.Random, now_s: float) -> None:
    host = chance.choice(HOSTS)
    host_id = cell.host_id(host, now_s)
    kind = chance.randrange(9)
    if kind < 3:
        links = [_found(chance) for _ in range(chance.randrange(30))]
        cell.add_links(links, now_s)
    elif kind < 6:
        for item in cell.next_urls(host_id, host, chance.randrange(1, 5), (), now_s):
            _settle(cell, chance, host_id, host, item, now_s)
    elif kind == 6:
        robots = chance.randbytes(chance.randrange(50))
        cell.store_robots(host_id, host, f"http://{host}", now_s, "200", 200, robots)
        cell.count_requests([(host_id, len(robots), "10.0.0.1", chance.random())])
        cell.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"delay {host}", now_s))
    elif kind == 7:
        cell.park_host(host_id, chance.choice(["", "robots"]))
        cell.db.execute("INSERT INTO log (row) VALUES (?)", (chance.randbytes(20),))
        if chance.random() < 0.3:
            cell.db.execute("DELETE FROM log WHERE seq <= (SELECT max(seq) - 2 FROM log)")
    else:
        sql = "SELECT slot, host_id, key FROM urls WHERE host_id = ? AND state = ? ORDER BY key LIMIT 1"
        for row_key in cell.db.execute(sql, (host_id, STATE_DONE)).fetchall():
            cell.visit_again(row_key, now_s)


def _found(chance: random.Random) -> FoundUrl:
    host, path = chance.choice(HOSTS), f"/{chance.randrange(60)}.html"
    return FoundUrl(host, key_of(f"http://{host}{path}"), path, chance.randrange(1, 5))


def _settle(cell: FrontierCell, chance: random.Random, host_id: int, host: str, item: QueuedUrl, now_s: float) -> None:
    row_key = (slot_of(site_of(host)), host_id, item.key)
    state = chance.choice([STATE_DONE, STATE_DONE, STATE_QUEUED, STATE_FAILED, STATE_EXCLUDED])
    if state == STATE_EXCLUDED:
        cell.withdraw(*row_key, "robots", lane=item.lane, rank=item.rank)
        return
    digest = bytes([chance.randrange(3)]) * 16
    page = PageRow(chance.choice([200, 304, 404]), digest, digest[:8], 5, "text/html", "en", f"Título {now_s}", '"e"')
    place = CaptureLocation("a.warc.gz", chance.randrange(1 << 40), 300)
    settled = SettledVisit(host_id, item, "200", state, now_s, now_s + 1, page, place)
    cell.settle(settled, host)
    links = [_found(chance) for _ in range(chance.randrange(3))]
    in_link_counts.replace(cell, row_key, {link.host: {link.key} for link in links})
