"""Misspelt queries: how many are understood, and how many right ones are taken for misspelt."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.relevance import judged
from teia.search.query.analysis import folded_of
from teia.search.query.words import words_of
from teia.search.serve.searcher import Searcher

FOLDER = Path(__file__).resolve().parent


def rows_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def right_queries() -> list[str]:
    """Return all right queries: those of the judged set, those whose snippets are judged, and others."""
    others = [row["query"] for name in ("queries.tsv", "right.tsv") for row in rows_of(name)]
    return list(dict.fromkeys([*(query.text for query in judged.queries()), *others]))


def understood(searcher: Searcher, query: str) -> str:
    """Return the first query that a search offers for a typed one, or searches instead; empty if there is none."""
    found = searcher.search(query, 1)
    return found.corrected or next((each.query for each in found.suggestions), "")


def measure(searcher: Searcher, halves: Sequence[str] = ("tune", "test")) -> dict[str, Any]:
    """Return the shares, and the queries that were not understood or wrongly corrected."""
    misspelt = [row for row in rows_of("misspelt.tsv") if row["half"] in halves]
    wrong = {
        row["typed"]: answer
        for row in misspelt
        # Accents that are missing, or are there too much, need no correction.
        if _plain((answer := understood(searcher, row["typed"])) or row["typed"]) != _plain(row["meant"])
    }
    right = right_queries()
    corrected = {query: answer for query in right if (answer := understood(searcher, query))}
    return {
        "misspelt": len(misspelt),
        "understood": len(misspelt) - len(wrong),
        "not_understood": wrong,
        "right": len(right),
        "wrongly_corrected": corrected,
    }


def _plain(query: str) -> tuple[str, ...]:
    """Return the words of a query without case and accents."""
    return tuple(map(folded_of, words_of(query)))
