"""Rate at which links become URLs: `FrontierCell.add_links` while its cells grow, with its memory and disk use.

    python bench/frontier.py [--urls 200000] [--cells 1] [--hosts 2000] [--batch 5000] [--known 0] [--big-host 0]
                             [--filled 0] [--folder FOLDER]

Every batch is one commit per cell, as in the crawler. Three quarters of a batch's links go to 64 hosts, like those of
64 pages, the rest to any host. `--known 0.8` makes four of five links repeat a known URL. Rates are of the whole run
and of its last tenth, when the cells are full; generating the links is not counted. `growth` has the cost of the last
tenth at four numbers of URLs in each power of ten; they are printed as the cells reach them. Ten million URLs in four
cells (--urls 10000000 --cells 4 --hosts 20000) take some minutes and 2 GB of disk.

`--filled N` writes N URLs into the cells beforehand, with plain inserts in the order of their keys, which takes a third
of the time. Their pages are full, so that the first links after them split more pages than links usually do. With
`--folder` the cells stay there, and cells that are there already are used.

Then the cells are opened again, as after a restart. `reopen_s` is the time until the hosts with work are in the
schedule, or wait on disk for their turn. `dispatch_us` is the cost of one request: its share of filling a host's buffer
from the disk, and its place in the schedule; `refill_ms_p99` is the buffer alone. `--big-host N` gives one host N more
URLs: `big_host_refill_ms` is its own buffer, the other figures are those of all other hosts.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

from teia.config.sections import CourtesySettings, LimitSettings
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.schema import LANE_NEW, STATE_QUEUED
from teia.frontier.page_sums import forget_sums
from teia.frontier.queue.order import TOP_SCORE, breadth
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.frontier.queue.waiting_hosts import HostNumber, WaitingHosts
from teia.urls import cell_of, cell_starts, key_of, site_of, slot_of

NEAR_HOSTS = 64
NEAR_SHARE = 0.75
START_S = 1_700_000_000.0
BIG_HOST = "www.enorme.test"
BUFFER = 64
SAMPLED = 2_000
"""Number of hosts whose buffers are filled."""

HOSTS_IN_MEMORY = LimitSettings().hosts_in_memory
"""Hosts with a queue after an opening; the others wait on disk, as in a crawl."""

FIRST_MARK = 10_000
MARKS_A_DECADE = 4


def host_name(number: int) -> str:
    return f"www.site{number}.test"


def tail_of(page: int) -> str:
    return f"/secao-{page % 97}/artigo-sobre-alguma-coisa-{page}.html"


class Links:
    """An endless stream of realistic links; the same seed gives the same links."""

    def __init__(self, hosts: int, known_share: float, seed: int, first_page: int = 0) -> None:
        self._chance = random.Random(seed)
        self._pages = array("I", [first_page]) * hosts
        self._known_share = known_share

    def batch(self, size: int) -> list[FoundUrl]:
        near = self._chance.choices(range(len(self._pages)), k=NEAR_HOSTS)
        return [self._link(near) for _ in range(size)]

    def _link(self, near: list[int]) -> FoundUrl:
        chance = self._chance
        host = chance.choice(near) if chance.random() < NEAR_SHARE else chance.randrange(len(self._pages))
        page = self._pages[host]
        if page and chance.random() < self._known_share:
            page = chance.randrange(page)
        else:
            self._pages[host] += 1
        name, tail = host_name(host), tail_of(page)
        return FoundUrl(name, key_of(f"http://{name}{tail}"), tail, 2 + page % 5)


def by_cell(found: list[FoundUrl], starts: tuple[int, ...]) -> Iterator[tuple[int, list[FoundUrl]]]:
    split: dict[int, list[FoundUrl]] = {}
    for link in found:
        split.setdefault(cell_of(slot_of(site_of(link.host)), starts), []).append(link)
    yield from split.items()


def bytes_written() -> int:
    """Return the bytes that the kernel wrote to disk for this process so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


class Batch(NamedTuple):
    """The cost of one batch of links."""

    seconds: float
    cpu_s: float
    written: int
    """Bytes that this process had written by its end."""


def cost_of(batches: list[Batch], links: int) -> dict[str, object]:
    """Return the cost of successive batches of so many links each, and the memory now."""
    number = links * len(batches)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {
        "links_per_s": round(number / sum(each.seconds for each in batches)),
        "cpu_us_a_link": round(1e6 * sum(each.cpu_s for each in batches) / number, 1),
        "bytes_written_a_link": round((batches[-1].written - batches[0].written) / number),
        "rss_mb": round(pages * resource.getpagesize() / 2**20),
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    starts = cell_starts(options.cells)
    paths = [folder / f"frontier{number}.sqlite" for number in range(options.cells)]
    known_before = fill(paths, starts, options.hosts, options.filled)
    # Pages that cells of an earlier run may have are not used again.
    links = Links(options.hosts, options.known, options.seed, 2 * known_before // options.hosts)
    spent: list[Batch] = []
    growth: list[dict[str, object]] = []
    written_before = bytes_written()
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(FrontierCell(path))) for path in paths]
        known = known_before
        while known < options.urls:
            parts = list(by_cell(links.batch(options.batch), starts))
            started_s, cpu_before_s = time.perf_counter(), time.process_time()
            for number, part in parts:
                with cells[number].transaction():
                    cells[number].add_links(part, START_S)
            spent.append(Batch(time.perf_counter() - started_s, time.process_time() - cpu_before_s, bytes_written()))
            known = sum(cell.known for cell in cells)
            if not known_before and known >= FIRST_MARK * 10 ** (len(growth) / MARKS_A_DECADE):
                growth.append({"urls": known, **cost_of(spent[len(spent) * 9 // 10 :], options.batch)})
                print(json.dumps(growth[-1]), file=sys.stderr)
        at_the_end = cost_of(spent[len(spent) * 9 // 10 :], options.batch)
        if options.big_host:
            known += fill_one_host(cells, starts, options.big_host)
    return {
        "urls": known,
        "filled": known_before,
        "cells": options.cells,
        "batch": options.batch,
        "known_share": options.known,
        "links_per_s": round(options.batch * len(spent) / sum(each.seconds for each in spent)),
        "links_per_s_at_the_end": at_the_end["links_per_s"],
        "cpu_us_at_the_end": at_the_end["cpu_us_a_link"],
        "rss_mb": at_the_end["rss_mb"],
        "cpu_us_a_link": round(1e6 * sum(each.cpu_s for each in spent) / (options.batch * len(spent)), 1),
        "longest_commit_ms": round(max(each.seconds for each in spent) * 1e3, 1),
        "bytes_a_url": round(sum(path.stat().st_size for path in paths) / known, 1),
        "bytes_written_a_link": round((bytes_written() - written_before) / (options.batch * len(spent))),
        "growth": growth,
        **reopen(paths),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


# ---- cells that are filled beforehand -------------------------------------------------------------------------------


def fill(paths: list[Path], starts: tuple[int, ...], hosts: int, number: int) -> int:
    """Write so many URLs into new cells; return the number of URLs in all cells, new or not."""
    if number and not paths[0].exists():
        of_cell: dict[int, list[str]] = {}
        for host in map(host_name, range(hosts)):
            of_cell.setdefault(cell_of(slot_of(site_of(host)), starts), []).append(host)
        for at, path in enumerate(paths):
            fill_cell(path, of_cell.get(at, []), number // hosts)
            print(f"filled {path.name}: {path.stat().st_size >> 20} MiB", file=sys.stderr)
    known = 0
    for path in paths:
        with closing(FrontierCell(path)) as cell:
            known += cell.known
    return known


def fill_cell(path: Path, hosts: list[str], pages: int) -> None:
    """Write so many URLs of each host into a new cell, as `add_links` would have, without syncs."""
    order, sequence = breadth, count(1)
    with closing(FrontierCell(path)) as cell, cell.transaction():
        numbered = sorted((slot_of(site_of(host)), cell.host_id(host, START_S), host) for host in hosts)

    def rows() -> Iterator[tuple[object, ...]]:
        for slot, host_id, host in numbered:
            tails = {key_of(f"http://{host}{tail_of(page)}"): (page, tail_of(page)) for page in range(pages)}
            for key, (page, tail) in sorted(tails.items()):
                depth = 2 + page % 5
                rank = order.rank(depth, 1, next(sequence), TOP_SCORE)
                yield slot, host_id, key, tail, depth, 1, STATE_QUEUED, int(START_S), 0, LANE_NEW, rank, 1, 0

    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        columns = "slot, host_id, key, tail, depth, in_links, state, found_s, hops, lane, rank, found_by, pattern"
        db.executemany(f"INSERT INTO urls ({columns}) VALUES ({', '.join('?' * 13)})", rows())
        db.execute("INSERT INTO queue SELECT slot, host_id, lane, rank, key FROM urls ORDER BY 1, 2, 3, 4, 5")
        counters = {"known": pages * len(hosts), "queued": pages * len(hosts), "sequence": next(sequence)}
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", counters.items())
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")
    forget_sums(path)


# ---- dispatch -------------------------------------------------------------------------------------------------------


def fill_one_host(cells: list[FrontierCell], starts: tuple[int, ...], number: int) -> int:
    """Give one host many URLs."""
    cell = cells[cell_of(slot_of(site_of(BIG_HOST)), starts)]
    for first in range(0, number, 50_000):
        tails = [f"/artigo-{page}.html" for page in range(first, min(first + 50_000, number))]
        with cell.transaction():
            cell.add_links([FoundUrl(BIG_HOST, key_of(f"http://{BIG_HOST}{tail}"), tail, 3) for tail in tails], START_S)
    return number


def reopen(paths: list[Path]) -> dict[str, object]:
    """Open the cells as a restarted crawler does, and dispatch requests as it would."""
    started_s = time.perf_counter()
    schedule = HostSchedule(Politeness(CourtesySettings(delay_s=0.0)), 1 << 30)
    queues: list[tuple[FrontierCell, HostQueue]] = []
    waiting = WaitingHosts()
    with ExitStack() as stack:
        for number, path in enumerate(paths):
            cell = stack.enter_context(closing(FrontierCell(path)))
            room = max(1, (HOSTS_IN_MEMORY - len(queues)) // (len(paths) - number))
            for host_id, host, _, _ in cell.hosts_with_work():
                if room <= 0 and host != BIG_HOST:
                    waiting.add(HostNumber(number, slot_of(site_of(host)), host_id))
                    continue
                room -= 1
                queue = HostQueue(host, host_id, number, 0, schedule.politeness.server(host), address=f"of {host}")
                queues.append((cell, queue))
        reopen_s = time.perf_counter() - started_s
        random.Random(1).shuffle(queues)
        refills = [(queue.host, time_refill(cell, queue, schedule)) for cell, queue in queues[:SAMPLED]]
        refills += [(q.host, time_refill(c, q, schedule)) for c, q in queues[SAMPLED:] if q.host == BIG_HOST]
        others = sorted(seconds for host, seconds in refills if host != BIG_HOST)
        served = time.perf_counter()
        requests = 0
        while (queue := schedule.next_host(0.0)) is not None:
            queue.pop()
            schedule.begin_request(queue)
            schedule.end_request(queue, queue.address, 0.0, 0.0)
            requests += 1
        dispatch_s = (time.perf_counter() - served) / max(1, requests)
    big = [round(1e3 * seconds, 2) for host, seconds in refills if host == BIG_HOST]
    return {
        "hosts": len(queues) + len(waiting),
        "reopen_s": round(reopen_s, 2),
        "dispatch_us": round(1e6 * (sum(others) / len(others) / BUFFER + dispatch_s), 1),
        "refill_ms_p99": round(1e3 * others[len(others) * 99 // 100], 2),
        **({"big_host_refill_ms": big[0]} if big else {}),
    }


def time_refill(cell: FrontierCell, queue: HostQueue, schedule: HostSchedule) -> float:
    """Fill a host's buffer from the disk; return the seconds."""
    started_s = time.perf_counter()
    queue.buffer.extend(cell.next_urls(queue.host_id, queue.host, BUFFER, (), START_S))
    seconds = time.perf_counter() - started_s
    schedule.wake(queue)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, default=200_000)
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=5_000, help="links in a commit, over all cells")
    parser.add_argument("--known", type=float, default=0.0, help="share of links to URLs that are known")
    parser.add_argument("--big-host", type=int, default=0, help="additional URLs of one host")
    parser.add_argument("--filled", type=int, default=0, help="URLs that are written beforehand")
    parser.add_argument("--folder", type=Path, default=None, help="folder in which the cells stay; default: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        result = measure(options, options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory())))
    print(json.dumps(result) if options.json else "\n".join(f"{key:24} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
