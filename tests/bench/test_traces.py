"""`python -m bench.traces`: its entry points exist, and the recorder counts what runs below one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench.trace_recorder import PACKAGE, PASSES_ON, TraceRecorder
from bench.traces import ENTRY_POINTS, EXITS
from teia.collections.settings import implied_scope
from teia.urls import site_of, split


def qualified_names(file: str) -> set[str]:
    """Return the functions of a module, as `co_qualname` has them."""

    def walk(node: ast.AST, prefix: str) -> set[str]:
        found = set()
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {prefix + each.name, *walk(each, f"{prefix}{each.name}.<locals>.")}
            elif isinstance(each, ast.ClassDef):
                found |= walk(each, f"{prefix}{each.name}.")
        return found

    return walk(ast.parse(Path(PACKAGE, file).read_text("utf-8")), "")


@pytest.mark.parametrize(
    "entry", sorted({each for those in (ENTRY_POINTS, EXITS) for names in those.values() for each in names})
)
def test_every_entry_point_is_a_function(entry: str) -> None:
    file, _, name = entry.partition(":")
    assert name in qualified_names(file)


def recorded(work: Callable[[], object], entry: str, only_while: Path) -> dict[str, dict[str, int]]:
    """Do some work with a recorder; return its counts."""
    recorder = TraceRecorder([entry], [], only_while)
    before = sys.getprofile()
    sys.setprofile(recorder)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {entry: dict(counts) for entry, counts in recorder.calls.items()}


def test_a_file_counts_for_the_entry_point_below_which_it_runs(tmp_path: Path) -> None:
    def work() -> None:
        split("http://recorded.example.org/a")
        split("http://recorded.example.org/b")
        site_of("recorded.example.org")

    assert recorded(work, "urls.py:split", tmp_path / "on") == {}
    (tmp_path / "on").touch()
    assert recorded(work, "urls.py:split", tmp_path / "on") == {"urls.py:split": {"urls.py": 2, "": 2}}


def test_a_file_that_calls_another_above_the_ground_floor_passes_the_event_on(tmp_path: Path) -> None:
    caller, called = "collections/settings.py", "frontier/rules/scope.py"
    work = partial(implied_scope, ["http://recorded.example.org/"])
    counts = recorded(work, f"{caller}:implied_scope", tmp_path)[f"{caller}:implied_scope"]
    assert {caller, called, "urls.py"} <= set(counts)
    assert [each for each in counts if each.endswith(PASSES_ON)] == [caller + PASSES_ON]
