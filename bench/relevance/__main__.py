"""`python -m bench.relevance`: measure systems on a judged set, print tables, write `bench/results/relevance*.json`.

--set manuals             the set of pages that nothing was tuned on; `debian` is the other
--systems baseline,teia   the systems; the others are compared with the first
--half tune               only that half of the queries, and no file: use `test` only before a merge
--unjudged                instead: list the pages among a system's first ten that were not judged, to be added
--against FILE            also compare with the results of an earlier commit, by query
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
from bench.relevance.report import Run, answer, compare_with, result, tables, values_of
from bench.relevance.systems import SYSTEMS
from teia.errors import TeiaError, UsageError

RESULTS = Path(__file__).resolve().parents[1] / "results"
RESULT = {"debian": RESULTS / "relevance.json", "manuals": RESULTS / "relevance-manuals.json"}


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    names = [name for name in options.systems.split(",") if name]
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown or not names:
        raise UsageError(
            f"--systems: {', '.join(unknown) or 'no system'} cannot be measured; there are {', '.join(SYSTEMS)}"
        )
    chosen = corpus.SETS[options.set]
    entries = corpus.entries(chosen)
    documents = corpus.collect(entries, chosen)
    queries, judgements = judged.queries(chosen), judged.judgements(chosen)
    judged.check(queries, judgements, entries)
    queries = [query for query in queries if options.half in (query.half, "both")]
    runs = [answer(name, SYSTEMS[name](documents), queries) for name in names]
    languages = {entry.id: entry.language for entry in entries}
    if options.unjudged:
        _print_unjudged(runs, queries, judgements, languages)
        return
    values = {run.name: values_of(run, queries, judgements, languages) for run in runs}
    found = _set(chosen, documents, judgements) | result(runs, queries, values)
    if options.against is not None:
        earlier = json.loads(options.against.read_bytes())
        found["earlier"] = compare_with(earlier["by_query"], queries, values)
    console = Console(width=120)
    for table in tables(found):
        console.print(table)
    if found["changed_pages"]:
        console.print(
            f"{found['changed_pages']} pages are not the ones that were judged: other versions of the packages."
        )
    if options.half == "both":
        (options.out or RESULT[options.set]).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.relevance", description="Measure rankings on the judged set.")
    parser.add_argument("--set", default="debian", choices=list(corpus.SETS))
    parser.add_argument("--systems", default="baseline,monolingual,teia", metavar="NAME,NAME")
    parser.add_argument("--half", default="both", choices=["both", *judged.HALVES])
    parser.add_argument("--unjudged", action="store_true")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def _set(
    chosen: corpus.JudgedSet, documents: Sequence[corpus.Document], judgements: dict[str, judged.Grades]
) -> dict[str, Any]:
    """Return the description of the set and of the method."""
    return {
        "pages": len(documents),
        "changed_pages": sum(document.has_changed for document in documents),
        "packages": _versions(chosen),
        "judgements": sum(len(grades) for grades in judgements.values()),
        "depth": DEPTH,
        "relevant_from_grade": RELEVANT_FROM,
        "permutations": PERMUTATIONS,
    }


def _versions(chosen: corpus.JudgedSet) -> dict[str, str]:
    """Return the versions of the packages that hold the pages; empty without dpkg."""
    if chosen.languages:  # unpacked, not installed: the script has noted the names of the packages' files
        noted = corpus.UNPACKED / "packages"
        names = noted.read_text("utf-8").split() if noted.is_file() else []
        return {name.split("_")[0]: name.split("_")[1] for name in names}
    if shutil.which("dpkg-query") is None:
        return {}
    command = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *chosen.packages]
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
