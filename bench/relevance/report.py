"""The results by group of queries: all of them, each language, each kind, each half; as a table and as JSON.

All other systems are compared with the first. Two columns help to read a row: `judged` is the share of the first ten
pages that were judged (a page in another language needs no judgement), `foreign` the share that is in another language
than the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rich.table import Table

from bench.relevance.judged import HALVES, KINDS, Grades, Query
from bench.relevance.metrics import DEPTH, MEASURES, compare
from bench.relevance.systems import Search

COMPARED = ("MAP", "nDCG@10")
Values = Mapping[str, Mapping[str, float]]
"""Values by query, then by measure."""


@dataclass(frozen=True, slots=True)
class Run:
    """One system's answers to the queries."""

    name: str
    rankings: Mapping[str, list[str]]


def answer(name: str, search: Search, queries: Sequence[Query]) -> Run:
    """Run all queries once. A page that comes twice counts where it comes first."""
    return Run(name, {query.id: list(dict.fromkeys(search(query, DEPTH))) for query in queries})


def groups(queries: Sequence[Query]) -> dict[str, list[Query]]:
    """Return the rows of the report; groups without queries are left out."""
    named = {
        "all": list(queries),
        **{language: [each for each in queries if each.language == language] for language in ("en", "pt")},
        **{kind: [each for each in queries if each.kind == kind] for kind in KINDS},
        **{half: [each for each in queries if each.half == half] for half in HALVES},
    }
    return {name: members for name, members in named.items() if members}


def values_of(
    run: Run, queries: Sequence[Query], judgements: Mapping[str, Grades], languages: Mapping[str, str]
) -> Values:
    found: dict[str, dict[str, float]] = {}
    for query in queries:
        ranking, grades = run.rankings[query.id], judgements[query.id]
        first = ranking[:10]
        foreign = [document for document in first if languages[document] != query.language]
        looked_at = [document for document in first if document in grades or document in foreign]
        found[query.id] = {name: measure(ranking, grades) for name, measure in MEASURES.items()}
        found[query.id] |= {
            "judged": len(looked_at) / len(first) if first else 1.0,
            "foreign": len(foreign) / len(first) if first else 0.0,
        }
    return found


def result(runs: Sequence[Run], queries: Sequence[Query], values: Mapping[str, Values]) -> dict[str, Any]:
    """Return everything that is printed, and the values of each query, ready for JSON; `values` are by run."""
    rows = groups(queries)
    first, *others = [run.name for run in runs]
    return {
        "queries": {group: len(members) for group, members in rows.items()},
        "systems": {
            run.name: {group: _means(values[run.name], members) for group, members in rows.items()} for run in runs
        },
        "compared_with": first,
        "comparisons": {
            name: {measure: _compared(values[first], values[name], measure, rows) for measure in COMPARED}
            for name in others
        },
        "by_query": {run.name: {query.id: _rounded(values[run.name][query.id]) for query in queries} for run in runs},
    }


def compare_with(
    earlier: Mapping[str, Values], queries: Sequence[Query], values: Mapping[str, Values]
) -> dict[str, Any]:
    """Compare each system with its own values by query at an earlier time."""
    rows = groups(queries)
    return {
        name: {measure: _compared(earlier[name], values[name], measure, rows) for measure in COMPARED}
        for name in values
        if name in earlier
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {measure: round(values[measure], 4) for measure in COMPARED}


def _means(values: Values, members: Sequence[Query]) -> dict[str, float]:
    names = (*MEASURES, "judged", "foreign")
    return {name: round(fmean(values[query.id][name] for query in members), 4) for name in names}


def _compared(before: Values, after: Values, measure: str, rows: Mapping[str, list[Query]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group, members in rows.items():
        old, new = ([values[query.id][measure] for query in members] for values in (before, after))
        found[group] = {name: round(value, 5) for name, value in asdict(compare(old, new)).items()}
    return found


# ---- tables ---------------------------------------------------------------------------------------------------------


def tables(found: Mapping[str, Any]) -> list[Table]:
    measured = Table("system", "queries", "n", *MEASURES, "judged", "foreign", box=None)
    for name, rows in found["systems"].items():
        for group, means in rows.items():
            measured.add_row(name, group, str(found["queries"][group]), *(f"{value:.3f}" for value in means.values()))
    compared = [
        _comparison_table(first, found[kind])
        for kind, first in (("comparisons", found["compared_with"]), ("earlier", "earlier"))
        if found.get(kind)
    ]
    return [measured, *compared]


def _comparison_table(first: str, comparisons: Mapping[str, Any]) -> Table:
    compared = Table("system", "measure", "queries", first, "system", "change", "better", "worse", "p", box=None)
    for name, measures in comparisons.items():
        for measure, rows in measures.items():
            for group, each in rows.items():
                compared.add_row(
                    name,
                    measure,
                    group,
                    f"{each['before']:.3f}",
                    f"{each['after']:.3f}",
                    f"{each['change_percent']:+.1f}%",
                    str(each["wins"]),
                    str(each["losses"]),
                    _p(each["p"]),
                )
    return compared


def _p(value: float) -> str:
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
