"""Cost of searching over many nodes: the same pages on one machine and on three, the same queries in turns.

    python -m bench.cluster_search [--pages 20000] [--seed 1] [--each 6] [--nodes 3] [--write]

The collection is that of bench/search.py (`.cache/search-PAGES-SEED`, made if it is missing), with frontiers that know
its pages as after one crawl. One machine searches it as `teia search` does. Each node is a librarian process
(librarian.py) that owns some of its cells; a NATS server and all nodes run on this machine, so three nodes share the
processors that the one machine has to itself. Every search returns ten results with snippets and with the frontier's
data about them; the two take turns, so that other work on the machine affects both.

Each query is sent with words that were not counted before (`new_words`), and then again. `ratio` is the p95 over nodes
by the p95 of one machine, `ratio_p50` the same of the medians. `cpu_ms` is the processor time of a search: one machine,
the gateway, all nodes together, NATS. `messages` are those to nodes for each search. `alike` counts the searches whose
first ten results have the same scores, up to a millionth, and the same facts; `others` are the rest. `dead_node_s` is
the duration of the first search after a node was stopped (SIGSTOP), `after_s` the slowest of those that follow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.search import CELLS, cached_collection
from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServers
from teia.cluster.search.ask_nodes import ClusterSearch
from teia.cluster.search.messages import CellOwnership, LibrarianSettings, OwnedCells
from teia.cluster.search.processes import run_librarian
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import tail_of
from teia.frontier.cell.schema import LANE_NEW, STATE_DONE
from teia.indexer.open_search import CollectionSearch
from teia.lab.corpus.collection import CorpusCollection, cell_folder
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import QuerySampler, SampleQuery
from teia.lab.corpus.timed import SHOWN
from teia.lib.entry_points import command_of
from teia.search.serve.searcher import SearchOptions
from teia.search.show.results import Results
from teia.store.root import Root, open_root
from teia.urls import host_to_cell, site_of, slot_of

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results" / "cluster_search.json"
NAME = "pages"


@contextmanager
def nats(folder: Path) -> Iterator[NatsServers]:
    """Run a NATS server, in a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    servers = NatsServers(folder, 1, WallClock())
    asyncio.run_coroutine_threadsafe(servers.start(), loop).result(60)
    try:
        yield servers
    finally:
        asyncio.run_coroutine_threadsafe(servers.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def make_root(folder: Path, found: CorpusCollection, cells: Sequence[int], frontiers: Root | None = None) -> Root:
    """Make a data folder with the indexes of some cells, and the frontiers of another folder if there is one."""
    root = open_root(folder, create=True)
    collection = root.create_collection(NAME, to_toml(Config()), found.record.cells)
    known = [] if frontiers is None else frontiers.collection(NAME).cells()
    for each in collection.cells():
        if known:
            shutil.copyfile(known[each.number].frontier, each.frontier)
        else:
            FrontierCell(each.frontier).close()
        if each.number in cells:
            each.index.rmdir()
            each.index.symlink_to(cell_folder(found.folder, each.number).resolve())
    collection.ranks.symlink_to((found.folder / "ranks.bin").resolve())
    return root


def fill_frontiers(root: Root, found: CorpusCollection) -> None:
    """Write all pages into the frontiers of a folder, each visited once."""
    collection = root.collection(NAME)
    cell_of = host_to_cell(collection.starts())
    hosts: dict[str, tuple[int, int, int]] = {}
    urls: dict[int, list[tuple[Any, ...]]] = {cell.number: [] for cell in collection.cells()}
    with closing(found.reader()) as reader:
        for entry in reader.all_entries():
            if entry.host not in hosts:
                hosts[entry.host] = cell_of(entry.host), slot_of(site_of(entry.host)), len(hosts) + 1
            cell, slot, host = hosts[entry.host]
            tail, in_links = tail_of(entry.url, entry.host), entry.key % 10
            urls[cell].append((slot, host, entry.key, tail, in_links, entry.visited_s, b"", entry.title))
    for cell in collection.cells():
        with closing(FrontierCell(cell.frontier)) as frontier:
            db, rows = frontier.db, urls[cell.number]
            db.execute("BEGIN")
            names = [(host, slot, name) for name, (at, slot, host) in hosts.items() if at == cell.number]
            db.executemany("INSERT INTO hosts (host_id, slot, name, found_s) VALUES (?, ?, ?, 0)", names)
            db.executemany(
                "INSERT INTO urls (slot, host_id, key, tail, depth, in_links, state, found_s, lane, rank)"
                f" VALUES (?, ?, ?, ?, 1, ?, {STATE_DONE}, 0, {LANE_NEW}, 0)",
                [row[:5] for row in rows],
            )
            db.executemany(
                "INSERT INTO pages VALUES"
                " (?1, ?2, ?3, 1, 0, ?6, ?6, 200, ?7, ?7, 0, '', '', ?8, '', '', '', '', 0, '', '', 0, 0, 0, 0)",
                rows,
            )
            db.execute("COMMIT")


@contextmanager
def node(root: Root, servers: NatsServers, name: str, cells: Sequence[int]) -> Iterator[int]:
    """Run a node that owns some cells; yield its process id."""
    post = LibrarianSettings(str(root.path), NAME, NAME, name, tuple(servers.urls), str(servers.key), gather_s=3600.0)
    command = command_of(run_librarian)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        holding = OwnedCells(tuple(CellOwnership(cell, 1, 1) for cell in cells))
        process.stdin.write(msgspec.json.encode(post) + b"\n" + msgspec.json.encode(holding) + b"\n")
        process.stdin.flush()
        process.stdout.readline()  # ready
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def timed_search(search: CollectionSearch | ClusterSearch, query: SampleQuery) -> tuple[float, Results]:
    """Run one search; return its milliseconds and its results."""
    began = time.perf_counter()
    results = search.search(query.text, SHOWN, query.offset, SearchOptions(facets=query.facets))
    return 1000 * (time.perf_counter() - began), results


def is_alike(one: Results, other: Results) -> bool:
    """Tell whether scores are equal, and pages except those of equal score, with the data about them."""
    scores = [hit.score for hit in one.hits]
    facts = {hit.key: (hit.last_visit_s, hit.backlinks, hit.snippet) for hit in one.hits}
    return len(scores) == len(other.hits) and all(
        abs(score - hit.score) <= 1e-6 * max(1e-9, score)
        and facts.get(hit.key, (hit.last_visit_s, hit.backlinks, hit.snippet))
        == (hit.last_visit_s, hit.backlinks, hit.snippet)
        for score, hit in zip(scores, other.hits, strict=True)
    )


def cpu_s(pid: int) -> float:
    """Return the processor seconds of the threads of a process."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def percentiles(times: Sequence[float]) -> dict[str, float]:
    return {f"p{at}_ms": round(float(np.percentile(times, at)), 2) for at in (50, 95)} | {
        "mean_ms": round(float(np.mean(times)), 2)
    }


@dataclass
class Timed:
    """Searches of one machine and of many, in turns: their durations and processor time."""

    pids: Mapping[str, Sequence[int]]
    one_ms: list[float] = field(default_factory=list)
    many_ms: list[float] = field(default_factory=list)
    spent_s: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)
    partial: int = 0
    messages: int = 0

    def measure(self, one: CollectionSearch, many: Counting, query: SampleQuery) -> None:
        began = time.process_time()
        one_ms, truth = timed_search(one, query)
        self.spent_s["one"] += time.process_time() - began
        before, sent = {name: sum(map(cpu_s, some)) for name, some in self.pids.items()}, many.sent
        began = time.process_time()
        many_ms, answer = timed_search(many, query)
        self.spent_s["gateway"] += time.process_time() - began
        self.spent_s.update({name: sum(map(cpu_s, some)) - before[name] for name, some in self.pids.items()})
        self.one_ms.append(one_ms)
        self.many_ms.append(many_ms)
        self.messages += many.sent - sent
        self.others += [] if is_alike(truth, answer) else [query.text]
        self.partial += answer.is_partial

    def ratio(self, at: int) -> float:
        return round(float(np.percentile(self.many_ms, at) / np.percentile(self.one_ms, at)), 2)

    def as_json(self) -> dict[str, Any]:
        several = len(self.one_ms)
        return {
            "one": percentiles(self.one_ms), "many": percentiles(self.many_ms),
            "ratio": self.ratio(95), "ratio_p50": self.ratio(50),
            "cpu_ms": {name: round(1000 * each / several, 2) for name, each in self.spent_s.items()},
            "messages": round(self.messages / several, 2),
            "alike": several - len(self.others), "others": self.others, "partial": self.partial,
        }  # fmt: skip


class Counting(ClusterSearch):
    """A search over nodes that counts its requests."""

    sent = 0

    def submit(self, work: Coroutine[Any, Any, bytes]) -> Future[bytes]:
        self.sent += 1
        return super().submit(work)


def measure(pages: int, seed: int, each: int, nodes: int) -> dict[str, Any]:
    """Measure everything; return the result, ready for JSON."""
    found = cached_collection(pages, seed)
    queries = QuerySampler(Corpus(pages, seed, cells=CELLS)).sample(each)
    shares = {f"n{at}": list(range(CELLS))[at::nodes] for at in range(nodes)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teia-bench-")))
        servers = stack.enter_context(nats(folder / "nats"))
        root = make_root(folder / "one", found, range(CELLS))
        fill_frontiers(root, found)
        pids = [
            stack.enter_context(node(make_root(folder / name, found, cells, root), servers, name, cells))
            for name, cells in shares.items()
        ]
        one = stack.enter_context(CollectionSearch(root, [NAME], WallClock()))
        many = stack.enter_context(Counting(servers.urls, servers.key, NAME, WallClock()))
        processes = {"nodes": pids, "nats": [servers.process_of(0)]}
        first, warm, new = (Timed(processes) for _ in range(3))
        for query in queries:  # brings files into memory
            first.measure(one, many, query)
        load = os.getloadavg()[0]
        for query in queries:
            for search in (one, many):
                search._searcher._components.statistics.clear()
            new.measure(one, many, query)
            warm.measure(one, many, query)
        os.kill(pids[-1], signal.SIGSTOP)
        dead_ms, answer = timed_search(many, queries[0])
        after = [timed_search(many, query)[0] for query in queries[1:20]]
    return {
        "command": f"python -m bench.cluster_search --pages {pages} --seed {seed} --each {each} --nodes {nodes}",
        "n": pages, "nodes": nodes, "cells": CELLS, "cores": os.cpu_count(), "load_average": round(load, 1),
        "searches": len(queries), **warm.as_json(), "new_words": new.as_json(),
        "dead_node_s": round(dead_ms / 1000, 3), "dead_node_is_partial": answer.is_partial,
        "dead_node_says": list(answer.warnings), "after_s": round(max(after) / 1000, 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="search over nodes")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--write", type=Path, nargs="?", const=RESULTS)
    options = parser.parse_args()
    found = measure(options.pages, options.seed, options.each, options.nodes)
    print(json.dumps(found, indent=1))
    if options.write is not None:
        options.write.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
