"""A data folder with a million known URLs, as after weeks of crawling; made once and kept.

    python -m bench.webroot [--urls 1000000]

`.cache/web-URLS` has one collection, `million`, of four cells: 2,000 hosts with pages by Zipf's law, six URLs of ten
visited (half of them again, so that their change rates are known), three queued, the rest failed or left out; 300,000
rows of fetch log; robots.txt for every host. Rows are written in bulk, in the crawler's formats. Its search index is
that of `bench.search` with 100,000 pages, so searches are real; its pages are not in the archive.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.search import CACHE, CELLS, cached_collection
from teia.crawler.fetch_rows import roll_out, write_log
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import (
    BY_LINK,
    LANE_DUE,
    LANE_NEW,
    LANE_REFRESH,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.refresh.history import DAY_S, History, VisitResult
from teia.store.fetchlog import FetchRow
from teia.store.root import CellFolder, Root, open_root
from teia.urls import cell_of, cell_starts, key_of, site_of, slot_of

URLS, HOSTS, SEED = 1_000_000, 2_000, 1
NAME, INDEXED = "million", 100_000
BATCH = 20_000
VISITED, WAITING, FAILED = 0.6, 0.3, 0.07
LOGGED = 300_000
ROBOTS = b"User-agent: *\nDisallow: /privado\n"
CONFIG = f"""[collection]
seeds = ["http://www.site0.test/"]
cells = {CELLS}
[scope]
include = ["domain:test"]
[refresh]
keep = true
"""


def cached_root(urls: int = URLS, cache: Path = CACHE) -> Root:
    """Return the folder of so many URLs, from the cache or newly made."""
    folder = cache / f"web-{urls}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        root = open_root(folder, create=True)
        collection = root.create_collection(NAME, CONFIG, cells=CELLS)
        _write(collection.cells(), urls)
        _link_index(root, cache)
        (folder / "complete").write_text(f"{urls}\n", "ascii")
    return open_root(folder)


def _link_index(root: Root, cache: Path) -> None:
    """Give the collection the index of lab text, by hard links."""
    cached_collection(INDEXED, SEED, cache=cache)
    source = cache / f"search-{INDEXED}-{SEED}"
    collection = root.collection(NAME)
    for cell in collection.cells():
        shutil.rmtree(cell.index)
        shutil.copytree(source / f"cell-{cell.number}", cell.index, copy_function=os.link)
    os.link(source / "ranks.bin", collection.ranks)


def _hosts(urls: int) -> list[tuple[str, int]]:
    """Return names of hosts and the number of URLs of each; the first has a tenth of all."""
    shares = [1 / (number + 1) ** 0.8 for number in range(HOSTS)]
    total = sum(shares)
    return [(f"www.site{number}.test", max(1, round(urls * share / total))) for number, share in enumerate(shares)]


def _write(folders: tuple[CellFolder, ...], urls: int) -> None:
    chance, now_s = random.Random(SEED), time.time()
    starts = cell_starts(CELLS)
    by_cell: dict[int, list[tuple[str, int]]] = {number: [] for number in range(CELLS)}
    for host, count in _hosts(urls):
        by_cell[cell_of(slot_of(site_of(host)), starts)].append((host, count))
    for folder in folders:
        frontier = FrontierCell(folder.frontier)
        try:
            for host, count in by_cell[folder.number]:
                _write_host(frontier, host, count, chance, now_s)
            _write_log(frontier, folder, by_cell[folder.number], LOGGED // CELLS, now_s)
        finally:
            frontier.close()


def _write_host(frontier: FrontierCell, host: str, count: int, chance: random.Random, now_s: float) -> None:
    db, slot = frontier.db, slot_of(site_of(host))
    with frontier.transaction():
        host_id = frontier.host_id(host, now_s - 30 * DAY_S)
        sql = "UPDATE hosts SET requests = ?, bytes = ?, address = ?, response_s = ? WHERE host_id = ?"
        address = f"10.{host_id >> 8}.{host_id & 255}.1"
        db.execute(sql, (count, count * 20_000, address, 0.1 + chance.random(), host_id))
        frontier.store_robots(host_id, host, f"http://{host}", now_s - DAY_S / 2, "200", 200, ROBOTS)
        for rows in _batches(_pages(count, chance, now_s)):
            _insert(frontier, (slot, host_id), rows)


def _pages(count: int, chance: random.Random, now_s: float) -> Iterator[tuple[int, str, int, float]]:
    """Yield (number, tail, state, last visit) of every URL of a host."""
    for number in range(count):
        tail = f"/secao-{number % 97}/artigo-sobre-alguma-coisa-{number}.html"
        drawn = chance.random()
        state = STATE_DONE if drawn < VISITED else STATE_QUEUED if drawn < VISITED + WAITING else STATE_FAILED
        if drawn >= VISITED + WAITING + FAILED:
            state = STATE_EXCLUDED
        yield number, f"s{tail}" if number % 2 else tail, state, now_s - chance.random() * 20 * DAY_S


def _batches(rows: Iterable[tuple[int, str, int, float]]) -> Iterator[list[tuple[int, str, int, float]]]:
    batch: list[tuple[int, str, int, float]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def _insert(frontier: FrontierCell, host_key: tuple[int, int], rows: list[tuple[int, str, int, float]]) -> None:
    host = frontier.db.execute("SELECT name FROM hosts WHERE host_id = ?", (host_key[1],)).fetchone()[0]
    urls, queue, pages, visits, histories = [], [], [], [], []
    for number, tail, state, seen_s in rows:
        https = tail.startswith("s")
        key = key_of(f"http{'s' if https else ''}://{host}{tail[https:]}")
        lane, rank, failures, outcome = LANE_NEW, (number + 1) << 20, 0, ""
        if state == STATE_DONE:
            lane, rank, outcome = LANE_REFRESH, int((seen_s + 3 * DAY_S) * 1000), "200"
        elif state == STATE_FAILED:
            lane, failures, outcome = LANE_DUE, 3, "timeout"
        elif state == STATE_EXCLUDED:
            outcome = "robots"
        depth = 1 + number % 6
        found = (depth, 1 + number % 9, state, int(seen_s) - 1000, 0, failures, lane, rank, BY_LINK, 0, outcome)
        urls.append((*host_key, key, tail, *found))
        if state == STATE_QUEUED or lane == LANE_REFRESH:
            queue.append((*host_key, lane, rank, key))
        if state == STATE_DONE:
            record, changes = _history(number, seen_s)
            digest = hashlib.sha256(str(key).encode()).digest()
            pages.append(_page((*host_key, key), 2 if record else 1, changes, seen_s, digest, number))
            visits.append((*host_key, key, seen_s, "200", digest, None, "", 0, 0, None))
            histories += [(*host_key, key, record, b"")] if record else []
    db = frontier.db
    db.executemany(f"INSERT INTO urls VALUES ({', '.join('?' * 15)})", urls)
    db.executemany("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", sorted(queue))
    db.executemany(f"INSERT INTO pages VALUES ({', '.join('?' * 25)})", pages)
    db.executemany(f"INSERT INTO visits VALUES ({', '.join('?' * 11)})", visits)
    db.executemany("INSERT INTO histories VALUES (?, ?, ?, ?, ?)", histories)
    frontier.known += len(urls)
    frontier.queued += sum(row[2] != LANE_REFRESH for row in queue)


def _page(
    page_key: tuple[int, int, int], visits: int, changes: int, seen_s: float, digest: bytes, number: int
) -> tuple[object, ...]:
    content = (200, digest, digest, (number * 0x9E3779B97F4A7C15) % (1 << 63), "text/html", "pt", f"Artigo {number}")
    rest = (f'"{number}"', "", "", "", 0, "", "", 0, 0)
    return (*page_key, visits, changes, seen_s, seen_s - 1000.0, *content, *rest, number + 1, 0)


def _history(number: int, seen_s: float) -> tuple[bytes, int]:
    """Return the stored history of a page that was visited again: every second one, each at its own rate."""
    if number % 2:
        return b"", 0
    history, gap_s, changes = History.start(seen_s - 16 * DAY_S), 16 * DAY_S / (2 + number % 7), 0
    for visit in range(1, 3 + number % 7):
        is_changed = (number + visit) % (2 + number % 5) == 0
        history.observe(
            VisitResult.CHANGED if is_changed else VisitResult.SAME_BYTES, seen_s - 16 * DAY_S + visit * gap_s
        )
        changes += is_changed
    return history.encode(), changes


def _write_log(
    frontier: FrontierCell, folder: CellFolder, hosts: list[tuple[str, int]], rows: int, now_s: float
) -> None:
    """Write a fetch log of so many rows, the last of them some minutes old."""
    names = [host for host, _ in hosts]
    chance = random.Random(folder.number)
    found = []
    for number in range(rows):
        host = names[min(len(names) - 1, int(len(names) * chance.random() ** 3))]
        began_s = now_s - 60.0 - (rows - number) * 4.0
        url, outcome = f"http://{host}/artigo-{number}.html", "200" if number % 50 else "timeout"
        found.append(
            FetchRow(
                began_s, began_s + 0.2, url, host, site_of(host), outcome, 200 if outcome == "200" else None,
                rest_s=5.0, rested_s=5.0 + chance.random(), bytes=20_000, decoded_bytes=60_000, media_type="text/html",
                links=40, links_in_scope=30, links_unindexable=1, cell=folder.number,
            )
        )  # fmt: skip
    with frontier.transaction():
        write_log(frontier, found)
    roll_out(frontier, folder.log, at_least=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, default=URLS)
    began = time.perf_counter()
    print(cached_root(parser.parse_args().urls).path, f"{time.perf_counter() - began:.1f} s")
