"""`python -m bench.traces`: its entry points exist, and the recorder counts what runs below one."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from bench.trace_recorder import PACKAGE, TraceRecorder
from bench.traces import ENTRY_POINTS, EXITS
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


def test_a_file_counts_for_the_entry_point_below_which_it_runs(tmp_path: Path) -> None:
    def run(is_on: bool) -> dict[str, dict[str, int]]:
        (tmp_path / "on").touch() if is_on else (tmp_path / "on").unlink(missing_ok=True)
        recorder = TraceRecorder(["urls.py:split"], [], tmp_path / "on")
        before = sys.getprofile()
        sys.setprofile(recorder)
        try:
            split("http://recorded.example.org/a")
            split("http://recorded.example.org/b")
            site_of("recorded.example.org")
        finally:
            sys.setprofile(before)
        return {entry: dict(counts) for entry, counts in recorder.calls.items()}

    assert run(is_on=False) == {}
    assert run(is_on=True) == {"urls.py:split": {"urls.py": 2, "": 2}}
