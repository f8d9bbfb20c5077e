"""Snippets of 200 queries: listed to be judged by a reader, and counted once they are."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from bench.answers.spelling import FOLDER, rows_of
from teia.search.serve.searcher import Searcher

RESULTS = 2
"""Results of each query whose snippets are judged."""

VERDICTS = ("content", "navigation")
JUDGED = FOLDER / "snippets.tsv"


@dataclass(frozen=True, slots=True)
class Shown:
    """A snippet as it was shown."""

    query: str
    rank: int
    url: str
    title: str
    text: str

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()[:12]


def shown(searcher: Searcher) -> Iterator[Shown]:
    """Yield the snippets of all queries."""
    for row in rows_of("queries.tsv"):
        for hit in searcher.search(f"site:{row['package']}.example {row['query']}", RESULTS).hits:
            yield Shown(row["query"], hit.rank, hit.url, hit.title.plain(), hit.snippet.plain())


def measure(searcher: Searcher) -> dict[str, Any]:
    """Return the share of snippets with navigation, by the judgements; snippets that were not judged are counted."""
    judged = {(row["query"], row["url"], row["digest"]): row["verdict"] for row in rows_of(JUDGED.name)}
    found = Counter(judged.get((each.query, each.url, each.digest), "unjudged") for each in shown(searcher))
    return {"snippets": found.total(), "with_navigation": found["navigation"], "unjudged": found["unjudged"]}


def write(searcher: Searcher, navigation: frozenset[int]) -> None:
    """Write the judgements: all snippets are content but those with these numbers, counted from 1."""
    with JUDGED.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, delimiter="\t", lineterminator="\n")
        writer.writerow(("query", "rank", "url", "digest", "verdict"))
        for number, each in enumerate(shown(searcher), start=1):
            writer.writerow((each.query, each.rank, each.url, each.digest, VERDICTS[number in navigation]))
