"""`python -m bench.answers`: measure snippets and corrections, and print the result as JSON.

--folder DIR         folder of the index; it is made if there is none, otherwise in a temporary folder
--root DIR           where the packages are, instead of `/`; may be repeated
--list               instead: list the snippets with numbers, to be judged
--judge N,N,…        instead: write `snippets.tsv`; the snippets with these numbers contain navigation
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.answers import snippets, spelling
from bench.answers.documents import Documents


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.answers", description="Measure snippets and corrections.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--root", type=Path, action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--judge", metavar="N,N,…")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="teia-answers-") as temporary:
        folder = options.folder or Path(temporary) / "index"
        searcher = Documents(folder, [*options.root, Path("/")]).searcher
        if options.list:
            for number, each in enumerate(snippets.shown(searcher), start=1):
                print(f"{number}. [{each.query}] {each.title} <{each.url}>\n    {each.text}")
        elif options.judge is not None:
            snippets.write(searcher, frozenset(map(int, filter(None, options.judge.split(",")))))
        else:
            print(
                json.dumps({"snippets": snippets.measure(searcher), "spelling": spelling.measure(searcher)}, indent=1)
            )


main()
