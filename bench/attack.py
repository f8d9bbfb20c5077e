"""Searches that are made up to be hard: whether each is answered, and what people who search beside them wait.

    python -m bench.attack [--pages 1000000] [--queries 100000] [--seconds 60] [--turns 4] [--write]

The collection is that of bench.cold_search, with frontiers and the semantic model, in `.cache/cold-search-PAGES`.

    queries  made-up queries, in `PROCESSES` processes that search as `teia search` does: pieces of the query language
             and words of the collection, frequent ones above all, with random options. None may raise an error;
             `slowest_ms` is wall time, `slowest_cpu_ms` the processor time of the search that took most of it
    beside   `teia serve` answers `PEOPLE` people, each from an address of their own, in turns with and without an
             attacker, who sends such queries from one address, over `CONNECTIONS` connections, without a pause; the
             server answers some and refuses others (`attacks`). `ratio` is the 99th percentile of what people waited
             beside the attacker, over the one without

Exit status 1: an error, people or an attacker without an answer or with one of 5xx, a query of more than a second of
processor time, or a ratio above 2.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.cluster_search import NAME
from bench.cold_search import SEED, cached_root
from bench.search import CACHE, CELLS
from bench.web import served
from teia.clock import WallClock
from teia.indexer.open_search import CollectionSearch
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import QuerySampler
from teia.search.serve.searcher import SearchOptions
from teia.store.root import open_root

RESULTS = Path(__file__).parent / "results" / "attack.json"
PAGES, QUERIES, SECONDS, TURNS = 1_000_000, 100_000, 60.0, 4
PROCESSES, EACH = 2, 40
PEOPLE, THINK_S, CONNECTIONS = 10, 2.0, 8
LIMIT_MS, MAX_RATIO = 1_000.0, 2.0
ATTACKER = "127.0.3.1"
TIMEOUT_S = 30.0
PIECES = (
    "AND", "OR", "NOT", "NEAR", "+", "-", "(", ")", '"', "*", "=", "~9", "^2", ":", "site:", "host:www.site0.test",
    "-site:site1.test", "lang:pt", "type:pdf", "title:", "after:2020", "before:7d", "link:http://a/(b)", "expand:on",
    "“", "”", "\0", "\u200d", "हिन्दी", "İ", "x" * 40, "1." * 20, "a*", "s*", "de*", "+a", "-(", "+(", '="',
)  # fmt: skip
"""Pieces of the query language, whole and broken."""

Progress = Callable[[str], None]


def made_up(words: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Yield queries without end: a few pieces, many pieces, and now and then hundreds of words."""
    while True:
        most = chance.choice((3, 12, 12, 40, 300))
        pieces = [chance.choice(PIECES if chance.random() < 0.4 else words) for _ in range(chance.randint(1, most))]
        yield chance.choice(("", " ", " ", " ")).join(pieces)


def words_of_corpus(pages: int) -> list[str]:
    """Return words of the collection, as often as people search for them, and the most frequent ones as often again."""
    corpus = Corpus(pages, SEED, cells=CELLS)
    searched = [word for each in QuerySampler(corpus).sample(EACH) for word in each.text.split()]
    frequent = [word for known in corpus.vocabularies.values() for word in known.words[:50]]
    return searched + frequent * (len(searched) // len(frequent))


# ---- queries --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answers:
    """What became of made-up queries."""

    queries: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    partial: int = 0
    slow: int = 0
    slowest_ms: float = 0.0
    slowest_cpu_ms: float = 0.0
    slowest_query: str = ""

    def add(self, other: Answers) -> None:
        self.queries += other.queries
        self.errors += other.errors
        self.partial += other.partial
        self.slow += other.slow
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        if other.slowest_cpu_ms > self.slowest_cpu_ms:
            self.slowest_cpu_ms, self.slowest_query = other.slowest_cpu_ms, other.slowest_query


def search_many(folder: Path, words: Sequence[str], number: int, seed: int) -> Answers:
    """Search for so many made-up queries, in this process."""
    chance, answers = random.Random(seed), Answers()
    with CollectionSearch(open_root(folder), [NAME], WallClock()) as search:
        for text in islice(made_up(words, chance), number):
            options = SearchOptions(
                explain=chance.random() < 0.1, facets=chance.random() < 0.5, expand=chance.choice((None, True, False))
            )
            began, cpu_began = time.perf_counter(), time.thread_time()
            try:
                results = search.search(text, 10, chance.choice((0, 0, 0, 10, 990)), options)
                json.dumps(results.as_json(), allow_nan=False)
                # A search whose index raised an error, or was late, is answered without it.
                if results.shards_answered < results.shards_queried:
                    answers.errors["not answered by the index"] += 1
                answers.partial += results.is_partial
            except Exception as error:  # noqa: BLE001  # any error counts
                answers.errors[f"{type(error).__name__}: {error}"[:200]] += 1
            ms, cpu_ms = 1e3 * (time.perf_counter() - began), 1e3 * (time.thread_time() - cpu_began)
            one = Answers(
                1, slow=int(cpu_ms > LIMIT_MS), slowest_ms=ms, slowest_cpu_ms=cpu_ms, slowest_query=text[:500]
            )
            answers.add(one)
    return answers


def queries(pages: int, number: int, progress: Progress, cache: Path = CACHE) -> dict[str, Any]:
    """Search for so many made-up queries, in a few processes."""
    root, _ = cached_root(pages, cache)
    words, parts = words_of_corpus(pages), max(PROCESSES, number // 1_000)
    began, answers = time.monotonic(), Answers()
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        run = partial(search_many, root.path, words, number // parts)
        for part, found in enumerate(pool.map(run, range(parts)), 1):
            answers.add(found)
            if part % 10 == 0:
                progress(f"{answers.queries:,} queries, slowest {answers.slowest_cpu_ms:.0f} ms of processor time")
    return {
        "queries": answers.queries,
        "errors": dict(answers.errors),
        "partial": answers.partial,
        "over_a_second": answers.slow,
        "slowest_ms": round(answers.slowest_ms, 1),
        "slowest_cpu_ms": round(answers.slowest_cpu_ms, 1),
        "slowest_query": answers.slowest_query,
        "seconds": round(time.monotonic() - began, 1),
    }


# ---- people beside an attacker --------------------------------------------------------------------------------------


def _get(connection: HTTPConnection, query: str) -> int:
    """Send a search over a connection, which is made anew after an error; return the status, 0 without an answer."""
    try:
        connection.request("GET", f"/search?{urlencode({'q': query})}")
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, HTTPException):
        connection.close()
        return 0


def _connect(port: int, address: str) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S, source_address=(address, 0))


class Turn:
    """People who search for some seconds, alone or beside an attacker."""

    def __init__(self, port: int, seconds: float) -> None:
        self.waited_ms: list[float] = []
        self.statuses, self.attacked = Counter[int](), Counter[int]()
        self._port, self._until = port, time.monotonic() + seconds
        self._lock = threading.Lock()

    def run(self, asked: Iterator[str], attacks: Iterator[str] | None) -> None:
        people = [threading.Thread(target=self._search, args=(number, asked)) for number in range(PEOPLE)]
        attackers = [
            threading.Thread(target=self._attack, args=(attacks,)) for _ in range(CONNECTIONS if attacks else 0)
        ]
        for thread in (*people, *attackers):
            thread.start()
        for thread in (*people, *attackers):
            thread.join()

    def _search(self, number: int, asked: Iterator[str]) -> None:
        connection = _connect(self._port, f"127.0.2.{number + 1}")
        time.sleep(number * THINK_S / PEOPLE)
        while time.monotonic() < self._until:
            with self._lock:
                query = next(asked)
            began = time.perf_counter()
            status = _get(connection, query)
            waited_ms = 1e3 * (time.perf_counter() - began)
            with self._lock:
                self.statuses[status] += 1
                self.waited_ms.append(waited_ms)
            time.sleep(THINK_S)
        connection.close()

    def _attack(self, attacks: Iterator[str]) -> None:
        connection = _connect(self._port, ATTACKER)
        while time.monotonic() < self._until:
            with self._lock:
                query = next(attacks)
            status = _get(connection, query)
            with self._lock:
                self.attacked[status] += 1
        connection.close()


def beside(pages: int, seconds: float, turns: int, progress: Progress, cache: Path = CACHE) -> dict[str, Any]:
    """Let people search, in turns alone and beside an attacker."""
    root, _ = cached_root(pages, cache)
    asked = cycle(each.text for each in QuerySampler(Corpus(pages, SEED, cells=CELLS), seed=2).sample(200))
    attacks = made_up(words_of_corpus(pages), random.Random(3))
    alone, attacked = list[float](), list[float]()
    statuses, refused = Counter[int](), Counter[int]()
    with served(root) as server:
        Turn(server.port, seconds / 4).run(asked, None)  # files come into memory
        for number in range(2 * turns):
            is_attacked = number % 2 == 1
            turn = Turn(server.port, seconds)
            turn.run(asked, attacks if is_attacked else None)
            (attacked if is_attacked else alone).extend(turn.waited_ms)
            statuses += turn.statuses
            refused += turn.attacked
            progress(f"turn {number + 1}, {'attacked' if is_attacked else 'alone'}: p99 {_p99(turn.waited_ms):.0f} ms")
    return {
        "people": PEOPLE,
        "searches": len(alone) + len(attacked),
        "statuses": dict(statuses),
        "attacks": dict(refused),
        "alone_p50_ms": round(sorted(alone)[len(alone) // 2], 1),
        "attacked_p50_ms": round(sorted(attacked)[len(attacked) // 2], 1),
        "alone_p99_ms": round(_p99(alone), 1),
        "attacked_p99_ms": round(_p99(attacked), 1),
        "ratio": round(_p99(attacked) / _p99(alone), 2),
    }


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * len(values))]


def is_fine(found: dict[str, Any]) -> bool:
    """Tell whether both parts kept what figure 8 of docs/security.md promises."""
    made, people = found["queries"], found["beside"]
    return (
        not made["errors"]
        and made["over_a_second"] == 0
        and set(people["statuses"]) == {200}
        and people["attacks"].get(200, 0) > 0
        and not any(status == 0 or status >= 500 for status in people["attacks"])
        and people["ratio"] <= MAX_RATIO
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {"pages": options.pages, "load_average": round(os.getloadavg()[0], 1)}
    found["beside"] = beside(options.pages, options.seconds, options.turns, print)
    found["queries"] = queries(options.pages, options.queries, print)
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found))
    return 0 if is_fine(found) else 1


if __name__ == "__main__":
    sys.exit(main())
