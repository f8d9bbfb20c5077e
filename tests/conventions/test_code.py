"""Things our code does not do, found by reading it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

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


def missing_names(module: Module, defined: Mapping[str, set[str]]) -> Iterator[str]:
    """The names of teia that a module imports and that do not exist, also in functions; `defined` by module."""
    for node in walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if is_ours(each.name) and each.name not in defined)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and is_ours(node.module):
            for each in node.names:
                name = f"{node.module}.{each.name}"
                if each.name not in defined.get(node.module, ()) and name not in defined:
                    yield name


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "teia"


def defined_names() -> dict[str, set[str]]:
    """The names that each module of teia binds, by module; those of compiled ones are in their stubs."""
    names = {module.name: bound_names(module.tree) for module in modules()}
    for path in (ROOT / "teia").rglob("*.pyi"):
        names[".".join(path.relative_to(ROOT).with_suffix("").parts)] = bound_names(ast.parse(path.read_text("utf-8")))
    return names


def bound_names(tree: ast.Module) -> set[str]:
    """The names that the statements of a module bind, those in `if` and `try` too."""
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.add(node.asname or node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def ours() -> list[Module]:
    return [*modules("teia"), *modules("tests"), *modules("bench"), *modules("examples")]


def test_no_code_runs_what_it_is_given() -> None:
    wrong = [f"{module.path}: {what}" for module in ours() for what in dangers(module.tree)]
    assert not wrong, "\n".join(wrong)


def test_every_name_that_is_imported_from_teia_exists() -> None:
    """mypy reads teia/ alone, and an import in a function of a benchmark fails only when someone runs it."""
    defined = defined_names()
    users = [*modules("tests"), *modules("bench"), *modules("examples")]
    wrong = [f"{module.path}: {name}" for module in users for name in missing_names(module, defined)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from teia.a import here, gone", ["teia.a.gone"]),
        ("def f():\n    from teia.a import gone", ["teia.a.gone"]),
        ("from teia import a, b", ["teia.b"]),
        ("import teia.a, teia.b", ["teia.b"]),
        ("from teia.b import here", ["teia.b.here"]),
        ("import os\nfrom os import path", []),
    ],
)
def test_a_missing_name_would_be_seen(source: str, missing: list[str]) -> None:
    defined = {"teia": set[str](), "teia.a": bound_names(ast.parse("if x:\n    here = 1\ndef f():\n    gone = 1"))}
    assert list(missing_names(Module("tests/x.py", "tests.x", ast.parse(source), 1), defined)) == missing


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
