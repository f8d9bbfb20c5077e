"""Tests wait in one way (tests/waiting.py), and a sleep that is left says why it is there."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from .test_code import dotted
from .tree import ROOT, modules, walk

HELPER = "tests/waiting.py"
NAPS = {"time.sleep", "asyncio.sleep", "sleep", "page.wait_for_timeout"}
CLOCKS = {"monotonic", "perf_counter", "time"}
WAITS = re.compile(r"_?(wait_)?(until|till)(_true)?|eventually|wait_for_condition")
"""Names of functions that would wait for any condition; a function that waits for one thing has a longer one."""


def is_nap(node: ast.AST) -> bool:
    """Say if this lets time pass; `asyncio.sleep(0)` only lets others run."""
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call) or dotted(node.func) not in NAPS:
        return False
    return not (len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


def commented_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def unexplained(source: str) -> list[int]:
    """List the lines of naps without a comment beside them or on the line before."""
    if not any(nap.rpartition(".")[2] in source for nap in NAPS):
        return []
    commented = commented_lines(source)
    naps = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and is_nap(node)]
    lines = [range(node.lineno - 1, (node.end_lineno or node.lineno) + 1) for node in naps]
    return [near[1] for near in lines if commented.isdisjoint(near)]


def is_pause(statement: ast.stmt) -> bool:
    """Say if this is a nap of a fixed length, as between two looks."""
    if not isinstance(statement, ast.Expr) or not is_nap(statement.value):
        return False
    nap = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    return isinstance(nap, ast.Call) and all(isinstance(each, ast.Constant) for each in nap.args)


def is_only_waiting(statement: ast.stmt) -> bool:
    """Say if a statement of a loop does nothing but wait: a pause, a look at the clock, or the end of the loop."""
    if isinstance(statement, ast.Assert):
        return any(isinstance(each, ast.Attribute) and each.attr in CLOCKS for each in ast.walk(statement.test))
    if isinstance(statement, ast.If):
        return all(isinstance(each, ast.Return | ast.Break | ast.Raise) for each in statement.body)
    return is_pause(statement)


def pollers(tree: ast.Module) -> Iterator[int]:
    """Find loops that only wait, and functions that wait for anything."""
    for node in walk(tree):
        if (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and WAITS.fullmatch(node.name)) or (
            isinstance(node, ast.While | ast.For)
            and any(map(is_pause, node.body))
            and all(map(is_only_waiting, node.body))
        ):
            yield node.lineno


def test_only_the_helper_polls() -> None:
    found = {module.path: list(pollers(module.tree)) for module in modules("tests") if module.path != HELPER}
    wrong = [f"{path}:{line}" for path, lines in found.items() for line in lines]
    assert not wrong, "use `until` of tests/waiting.py:\n" + "\n".join(wrong)


def test_every_sleep_says_why_it_is_there() -> None:
    paths = [module.path for module in modules("tests") if module.path != HELPER]
    found = {path: unexplained((ROOT / path).read_text("utf-8")) for path in paths}
    wrong = [f"{path}:{line}" for path, lines in found.items() for line in lines]
    assert not wrong, "await an event or a condition (tests/waiting.py), or say why not:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "while not done():\n    time.sleep(0.1)",
        "while not done():\n    assert time.monotonic() < end\n    await asyncio.sleep(0.1)  # a moment",
        "for _ in range(9):\n    if done():\n        break\n    sleep(0.1)",
        "def until(condition): ...",
        "class A:\n    def wait_until(self): ...",
    ],
)
def test_a_poller_would_be_seen(source: str) -> None:
    assert list(pollers(ast.parse(source)))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("time.sleep(1)", [1]),
        ("import time\n# a slow disk\ntime.sleep(1)\ntime.sleep(2)", [4]),
        ("time.sleep(1)  # a slow disk", []),
        ("async def f():\n    await asyncio.sleep(0)\n    await asyncio.sleep(1)", [3]),
        ("page.wait_for_timeout(100)", [1]),
        ("f('time.sleep(9)')\nclock.sleep(1)", []),
    ],
)
def test_a_sleep_without_a_word_would_be_seen(source: str, lines: list[int]) -> None:
    assert unexplained(source) == lines
