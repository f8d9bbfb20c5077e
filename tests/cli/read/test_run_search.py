"""A plain `teia search` says exactly what the tree of commands says, with or without a server, and imports little."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from teia.cli.read.run_search import MAX_RESULTS, parse_quickly
from teia.search.serve.searcher import MAX_AT_ONCE
from tests.cli.conftest import Finished, Teia
from tests.cli.read.test_search import data  # noqa: F401  # a fixture

FULL = ("-c", "import sys; from teia.cli.main import run; run(sys.argv[1:])")
MODULES = """
import sys
sys.argv[1:1] = ["search"]
import teia.lib.entry_points as entry_points
def leave(status):
    print(*sorted(sys.modules), file=sys.stderr)
    sys.exit(status)
entry_points.leave = leave
from teia.cli.start import run
run()
"""
MOST_MODULES, MOST_OF_OURS = 400, 102
"""380 and 102, the last of them lib/scratch, in Python 3.11; 491 with typer, rich and all of the frontier."""

PLAIN = [
    ("imposto",),
    ("imposto", "--json"),
    ("impsoto",),
    ("impsoto", "--verbatim"),
    ('"imposto', "-n", "1"),
    ("imposto", "--offset", "1"),
    ("imposto", "--explain", "--facets"),
    ("april imposto", "--lang", "pt", "--expand", "--json"),
    ("nothing", "--no-expand", "--collection", "main"),
]
WRONG = [
    ("imposto", "--collection", "other"),
    ("imposto", "--collection", "other", "--json"),
]


def said(done: Finished) -> tuple[int, str, str]:
    """Return the status and the output without what differs between two runs: the milliseconds."""
    timeless = re.sub(r'"took_ms": [\d.]+|\d+ ms', "", done.stdout)
    return done.returncode, timeless, done.stderr


@pytest.mark.parametrize("words", [*PLAIN, *WRONG])
def test_it_says_what_the_tree_of_commands_says(teia: Teia, data: Path, words: Sequence[str]) -> None:  # noqa: F811
    command = ("search", *words, "--data", str(data))
    assert parse_quickly(command[1:]) is not None
    quick = said(teia(*command))
    assert quick == said(teia(*command, runner=FULL))
    assert quick[0] == (2 if words in WRONG else 0)


@pytest.mark.parametrize("environ", [{"FORCE_COLOR": "1", "NO_COLOR": "", "TERM": "xterm-256color"}, {"LANG": "pt_BR"}])
def test_so_it_does_with_colours_and_in_another_locale(teia: Teia, data: Path, environ: dict[str, str]) -> None:  # noqa: F811
    command = ("search", "imposto", "--facets", "--data", str(data))
    assert said(teia(*command, environ=environ)) == said(teia(*command, runner=FULL, environ=environ))


@pytest.mark.parametrize(
    "words",
    [
        ("x",),
        ("--data", "d"),
        ("x", "y", "--data", "d"),
        ("x", "--data"),
        ("x", "--data", "d", "--data", "e"),
        ("x", "--data", "-d"),
        ("x", "--data=d"),
        ("x", "--data", "d", "-n", "0"),
        ("x", "--data", "d", "-n", "101"),
        ("x", "--data", "d", "-n", "many"),
        ("x", "--data", "d", "-n", "١"),
        ("x", "--data", "d", "--offset", "-1"),
        ("x", "--data", "d", "--as-of", "2026-01-01"),
        ("x", "--nats", "nats://127.0.0.1:1"),
        ("x", "--data", "d", "--help"),
        ("x", "--data", "d", "--expand", "--no-expand"),
        ("--", "-x", "--data", "d"),
        ("", "--data", "d"),
    ],
)
def test_everything_else_is_left_to_the_tree_of_commands(words: Sequence[str]) -> None:
    assert parse_quickly(words) is None


def test_a_request_has_the_values_of_all_options() -> None:
    found = parse_quickly(
        ["-n", "7", "a b", "--data", "d", "--language", "pt", "--json", "--offset", "20", "--no-expand"]
    )
    assert found is not None
    folder, request = found
    assert folder == "d"
    wanted = {"query": "a b", "n": 7, "offset": 20, "language": "pt", "json": True, "expand": False, "verbatim": False}
    assert {key: request[key] for key in wanted} == wanted
    assert MAX_RESULTS == MAX_AT_ONCE


def test_the_command_imports_only_what_a_search_needs(teia: Teia, data: Path) -> None:  # noqa: F811
    """Imports take longer than a search at 100,000 pages; `teia search` is to answer within 0.25 s."""
    done = teia("imposto", "--data", str(data), runner=("-c", MODULES))
    assert "http://a.test/imposto" in done.stdout, done.stderr
    modules = done.stderr.split()
    assert len(modules) <= MOST_MODULES
    assert sum(name.startswith("teia.") for name in modules) <= MOST_OF_OURS
    packages = {name.partition(".")[0] for name in modules}
    assert not packages & {"typer", "rich", "click", "scipy", "fastwarc", "httpx", "uvicorn", "asyncio", "difflib"}
    for heavy in ("teia.config.sections", "teia.frontier.cell.cell", "teia.cli.main", "teia.collections.settings"):
        assert heavy not in modules


def test_json_is_one_line(teia: Teia, data: Path) -> None:  # noqa: F811
    (line,) = teia("search", "imposto", "--data", str(data), "--json").stdout.splitlines()
    assert json.loads(line)["total"] == 2
