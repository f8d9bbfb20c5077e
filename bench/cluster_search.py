"""What it costs to search over many nodes: the same pages on one machine and on three, asked the same in turns.

    python -m bench.cluster_search [--pages 20000] [--seed 1] [--each 6] [--nodes 3] [--write]

The collection is that of bench/search.py (`.cache/search-PAGES-SEED`, made if it is not there). One machine searches it
as `teia search` does. Each node is a librarian process (teia/cluster/librarian.py) that keeps some of its cells; a NATS
server and all nodes run on this machine, so three nodes share the processors that the one has to itself. Every search
is ten results with snippets; the two take turns, so that what else the machine does hits both.

`ratio` is the p95 over nodes by the p95 of one machine; `cpu_ms` what a search costs the processor, which a busy
machine does not blur: one machine, the gateway, all nodes together. `alike` says in how many searches the first ten
have the same scores, up to a millionth, and `others` are the rest. `dead_node_s` is how long the first search takes
after a node was stopped (SIGSTOP), `after_s` the slowest of those that follow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.search import CELLS, kept
from teia.clock import WallClock
from teia.cluster.scattering import ClusterSearch
from teia.cluster.searchwire import Holding, Kept, Post
from teia.cluster.servers import NatsServers
from teia.config import Config, to_toml
from teia.frontier.cell import FrontierCell
from teia.lab.corpus.collection import Collection, cell_folder
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import Asker, Question
from teia.lab.corpus.timed import SHOWN
from teia.search.ranking import Ranking
from teia.search.results import Results
from teia.search.searching import Options, Searcher
from teia.search.shards import LocalShard
from teia.store.root import open_root

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results" / "cluster_search.json"
NAME = "pages"


@contextmanager
def nats(folder: Path) -> Iterator[NatsServers]:
    """A NATS server, in a loop of its own."""
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


@contextmanager
def node(folder: Path, found: Collection, servers: NatsServers, name: str, cells: Sequence[int]) -> Iterator[int]:
    """A node that keeps some cells; yields its process id."""
    root = open_root(folder, create=True)
    collection = root.create_collection(NAME, to_toml(Config()), found.made.cells)
    for each in collection.cells():
        FrontierCell(each.frontier).close()
        if each.number in cells:
            each.index.rmdir()
            each.index.symlink_to(cell_folder(found.folder, each.number).resolve())
    collection.ranks.symlink_to((found.folder / "ranks.bin").resolve())
    post = Post(str(folder), NAME, NAME, name, tuple(servers.urls), str(servers.key), gather_s=3600.0)
    command = [sys.executable, "-m", "teia.cluster.librarian", str(os.getpid())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        holding = Holding(tuple(Kept(cell, 1, 1) for cell in cells))
        process.stdin.write(msgspec.json.encode(post) + b"\n" + msgspec.json.encode(holding) + b"\n")
        process.stdin.flush()
        process.stdout.readline()  # ready
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def asked(search: Searcher | ClusterSearch, question: Question) -> tuple[float, Results]:
    """One search: milliseconds, and what was found."""
    began = time.perf_counter()
    results = search.search(question.text, SHOWN, question.shows, Options(facets=question.facets))
    return 1000 * (time.perf_counter() - began), results


def is_alike(one: Results, other: Results) -> bool:
    """Whether scores are the same, and pages but for those of equal score."""
    scores = [hit.score for hit in one.hits]
    return len(scores) == len(other.hits) and all(
        abs(score - hit.score) <= 1e-6 * max(1e-9, score) for score, hit in zip(scores, other.hits, strict=True)
    )


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(times: Sequence[float]) -> dict[str, float]:
    return {f"p{at}_ms": round(float(np.percentile(times, at)), 2) for at in (50, 95)} | {
        "mean_ms": round(float(np.mean(times)), 2)
    }


def measure(pages: int, seed: int, each: int, nodes: int) -> dict[str, Any]:
    """Everything that is measured, ready for JSON."""
    found = kept(pages, seed)
    questions = Asker(Corpus(pages, seed, cells=CELLS)).questions(each)
    shares = [list(range(CELLS))[at::nodes] for at in range(nodes)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teia-bench-")))
        servers = stack.enter_context(nats(folder / "nats"))
        pids = [
            stack.enter_context(node(folder / f"n{at}", found, servers, f"n{at}", cells))
            for at, cells in enumerate(shares)
        ]
        reader = stack.enter_context(_closing(found.reader()))
        ranking = Ranking(priors=found.ranks())
        one = stack.enter_context(Searcher([LocalShard("one", reader)], WallClock(), ranking=ranking, deadline_s=60.0))
        many = stack.enter_context(ClusterSearch(servers.urls, servers.key, NAME, WallClock()))
        for question in questions:  # files into memory
            asked(one, question)
            asked(many, question)
        load = os.getloadavg()[0]
        times: dict[str, list[float]] = {"one": [], "many": []}
        alike = partial = 0
        others: list[str] = []
        spent = {"one": 0.0, "gateway": 0.0, "nodes": -sum(map(cpu_s, pids))}
        for question in questions:
            began = time.process_time()
            one_ms, truth = asked(one, question)
            between = time.process_time()
            many_ms, answer = asked(many, question)
            spent["one"] += between - began
            spent["gateway"] += time.process_time() - between
            times["one"].append(one_ms)
            times["many"].append(many_ms)
            alike += is_alike(truth, answer)
            others += [] if is_alike(truth, answer) else [question.text]
            partial += answer.is_partial
        spent["nodes"] += sum(map(cpu_s, pids))
        os.kill(pids[-1], signal.SIGSTOP)
        dead_ms, answer = asked(many, questions[0])
        after = [asked(many, question)[0] for question in questions[1:20]]
    return {
        "command": f"python -m bench.cluster_search --pages {pages} --seed {seed} --each {each} --nodes {nodes}",
        "n": pages, "nodes": nodes, "cells": CELLS, "cores": os.cpu_count(), "load_average": round(load, 1),
        "searches": len(questions), "one": spread(times["one"]), "many": spread(times["many"]),
        "ratio": round(float(np.percentile(times["many"], 95) / np.percentile(times["one"], 95)), 2),
        "cpu_ms": {name: round(1000 * each / len(questions), 2) for name, each in spent.items()},
        "alike": alike, "others": others, "partial": partial,
        "dead_node_s": round(dead_ms / 1000, 3), "dead_node_is_partial": answer.is_partial,
        "dead_node_says": list(answer.warnings), "after_s": round(max(after) / 1000, 3),
    }  # fmt: skip


@contextmanager
def _closing(reader: Any) -> Iterator[Any]:  # Any: a reader
    try:
        yield reader
    finally:
        reader.close()


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
