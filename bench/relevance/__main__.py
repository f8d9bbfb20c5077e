"""`python -m bench.relevance`: measure systems on the judged set, print tables, write `bench/results/relevance.json`.

--systems baseline,teia   the systems; the others are compared with the first
--half tune               only that half of the queries, and no file: use `test` only before a merge
--unjudged                instead: list the pages among a system's first ten that were not judged, to be added
--out FILE                file of the JSON
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.relevance import corpus, judged
from bench.relevance.metrics import DEPTH, PERMUTATIONS, RELEVANT_FROM
from bench.relevance.report import Run, answer, result, tables, values_of
from bench.relevance.systems import SYSTEMS
from teia.errors import TeiaError, UsageError

RESULT = Path(__file__).resolve().parents[1] / "results" / "relevance.json"


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    names = [name for name in options.systems.split(",") if name]
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown or not names:
        raise UsageError(
            f"--systems: {', '.join(unknown) or 'no system'} cannot be measured; there are {', '.join(SYSTEMS)}"
        )
    entries = corpus.entries()
    queries, judgements = judged.queries(), judged.judgements()
    judged.check(queries, judgements, entries)
    queries = [query for query in queries if options.half in (query.half, "both")]
    documents = corpus.collect(entries)
    runs = [answer(name, SYSTEMS[name](documents), queries) for name in names]
    languages = {entry.id: entry.language for entry in entries}
    if options.unjudged:
        _print_unjudged(runs, queries, judgements, languages)
        return
    values = {run.name: values_of(run, queries, judgements, languages) for run in runs}
    found = _set(documents, judgements) | result(runs, queries, values)
    console = Console(width=120)
    for table in tables(found):
        console.print(table)
    if found["changed_pages"]:
        console.print(
            f"{found['changed_pages']} pages are not the ones that were judged: other versions of the packages."
        )
    if options.half == "both":
        options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.relevance", description="Measure rankings on the judged set.")
    parser.add_argument("--systems", default="baseline,monolingual,teia", metavar="NAME,NAME")
    parser.add_argument("--half", default="both", choices=["both", *judged.HALVES])
    parser.add_argument("--unjudged", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULT, metavar="FILE")
    return parser.parse_args(arguments)


def _set(documents: Sequence[corpus.Document], judgements: dict[str, judged.Grades]) -> dict[str, Any]:
    """Return the description of the set and of the method."""
    return {
        "pages": len(documents),
        "changed_pages": sum(document.has_changed for document in documents),
        "packages": _versions(),
        "judgements": sum(len(grades) for grades in judgements.values()),
        "depth": DEPTH,
        "relevant_from_grade": RELEVANT_FROM,
        "permutations": PERMUTATIONS,
    }


def _versions() -> dict[str, str]:
    """Return the versions of the packages that hold the pages; empty without dpkg."""
    if shutil.which("dpkg-query") is None:
        return {}
    command = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *corpus.PACKAGES]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    return dict(line.split(" ", 1) for line in shown.splitlines())


def _print_unjudged(
    runs: Sequence[Run],
    queries: Sequence[judged.Query],
    judgements: dict[str, judged.Grades],
    languages: dict[str, str],
) -> None:
    for query in queries:
        seen = dict.fromkeys(document for run in runs for document in run.rankings[query.id][:10])
        for document in seen:
            if languages[document] == query.language and document not in judgements[query.id]:
                print(query.id, document, sep="\t")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TeiaError as error:
        print(f"teia: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
