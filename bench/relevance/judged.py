"""The queries and their relevant pages, read from the files beside this one and checked.

Grades: 3 is what was wanted, in full or as the page's main subject; 2 answers it well in a part of the page; 1 helps a
little; 0 does not. A page in another language than the query's is 0. A page that was not judged counts as 0.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.relevance.corpus import DEBIAN, Entry, JudgedSet
from teia.errors import ConfigError

KINDS = ("topic", "known", "inflected", "wordy")
HALVES = ("tune", "test")
GRADES = (0, 1, 2, 3)

Grades = Mapping[str, int]
"""Grade of each judged document of one query."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `text` is what a user types; `need` describes what is wanted, for the judge."""

    id: str
    language: str
    kind: str
    half: str
    text: str
    need: str


def queries(judged: JudgedSet = DEBIAN) -> list[Query]:
    return [Query(**row) for row in _rows(judged.folder / "queries.tsv")]


def judgements(judged: JudgedSet = DEBIAN) -> dict[str, Grades]:
    """Return the grades by query; a pair that is judged twice is an error."""
    path = judged.folder / "judgements.tsv"
    found: dict[str, dict[str, int]] = {}
    for row in _rows(path):
        grades = found.setdefault(row["query"], {})
        if row["document"] in grades:
            raise ConfigError(f"{path.name}: {row['query']} judges {row['document']} twice")
        grades[row["document"]] = int(row["grade"])
    return dict(found)


def check(queries: Iterable[Query], judgements: Mapping[str, Grades], documents: Iterable[Entry]) -> None:
    """Refuse a set with a slip in it: the numbers would be wrong unnoticed."""
    known = {query.id: query for query in queries}
    language = {document.id: document.language for document in documents}
    wrong = [
        f"{query} appears {count} times" for query, count in Counter(each.id for each in queries).items() if count > 1
    ]
    for each in known.values():
        if each.kind not in KINDS or each.half not in HALVES:
            wrong.append(f"{each.id}: no such kind or half: {each.kind}, {each.half}")
        if not any(grade > 0 for grade in judgements.get(each.id, {}).values()):
            wrong.append(f"{each.id} has no relevant page")
    for query, grades in judgements.items():
        for document, grade in grades.items():
            if query not in known or document not in language or grade not in GRADES:
                wrong.append(f"{query}, {document}: no such query, page or grade ({grade})")
            elif grade > 0 and language[document] != known[query].language:
                wrong.append(f"{query}, {document}: relevant, but not in the language of the query")
    if wrong:
        raise ConfigError(f"the judged set has {len(wrong)} errors: {'; '.join(wrong[:3])}")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
