"""Things our code does not do, found by reading it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .tree import ROOT, Module, modules, text_files, walk

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen"}
CLOCK_READS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
MAY_READ_THE_CLOCK = {
    "teia/clock.py": "it is the clock",
}
MAX_FUNCTION_LINES = 60
COMPILED = {".pyx", ".pxi"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|farm|Users)/[\w./-]+")


def dotted(node: ast.expr) -> str:
    """`datetime.datetime.now` for the expression that says it; empty for what is not a plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the last two parts of what is called: `datetime.datetime.now()` is `datetime.now`."""
    for node in walk(tree):
        if isinstance(node, ast.Call):
            yield ".".join(dotted(node.func).split(".")[-2:]), node


def imports(tree: ast.AST) -> Iterator[str]:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dangers(tree: ast.AST) -> Iterator[str]:
    yield from (name for name in imports(tree) if name.split(".")[0] in FORBIDDEN_MODULES)
    yield from (name for name, _ in calls(tree) if name in FORBIDDEN_CALLS)
    for name, call in calls(tree):
        for keyword in call.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield f"{name}(shell=...)"


def clock_reads(tree: ast.AST) -> set[str]:
    direct = {name for name, _ in calls(tree) if name in CLOCK_READS}
    return direct | {name for name in imports(tree) if name in CLOCK_READS}


def ours() -> list[Module]:
    return [*modules("teia"), *modules("tests"), *modules("bench"), *modules("examples")]


def test_no_code_runs_what_it_is_given() -> None:
    wrong = [f"{module.path}: {what}" for module in ours() for what in dangers(module.tree)]
    assert not wrong, "\n".join(wrong)


def test_only_the_clock_reads_the_time() -> None:
    wrong = {module.path for module in modules() if clock_reads(module.tree)}
    assert wrong <= set(MAY_READ_THE_CLOCK), f"take a Clock instead: {sorted(wrong - set(MAY_READ_THE_CLOCK))}"


def test_allowed_clock_readers_still_need_to_be() -> None:
    by_path = {module.path: module for module in modules()}
    assert all(clock_reads(by_path[path].tree) for path in MAY_READ_THE_CLOCK)


def test_lines_of_compiled_sources_fit_the_width() -> None:
    sources = {path: path.read_text(encoding="utf-8").splitlines() for path in text_files() if path.suffix in COMPILED}
    assert sources
    wide = [f"{path.relative_to(ROOT)}: {line}" for path, lines in sources.items() for line in lines if len(line) > 120]
    assert not wide, "\n".join(wide)


def test_no_function_is_too_long_to_proofread() -> None:
    long = []
    for module in modules():
        lines = (ROOT / module.path).read_text(encoding="utf-8").splitlines()
        for node in walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = lines[node.lineno - 1 : node.end_lineno]
                # Comments make a function easier to read, so they do not count.
                length = sum(not line.lstrip().startswith("#") for line in body)
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{module.path}:{node.lineno} {node.name}: {length} lines")
    assert not long, "\n".join(long)


def test_no_path_of_one_machine_is_written_down() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in text_files()
        for match in MACHINE_PATH.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from yaml import load",
        "eval(text)",
        "import os\nos.system(text)",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=wanted)",
    ],
)
def test_danger_would_be_seen(source: str) -> None:
    assert list(dangers(ast.parse(source)))


@pytest.mark.parametrize("source", ["import time\ntime.time()", "datetime.datetime.now(UTC)", "from time import time"])
def test_a_read_of_the_clock_would_be_seen(source: str) -> None:
    assert clock_reads(ast.parse(source))
