"""One way to run a child process, no entry point that only a string names, and one way to lock a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .tree import modules, walk

MAY_START = {
    "teia/cli/signals.py": "turns into the helper, to try it",
    "teia/lab/reproduce/cache_parasite.py": "a pool of workers for one computation",
    "teia/lib/child_process.py": "the one way",
    "teia/lib/launch.py": "turns into the child's program",
    "teia/parse/children/spawn.py": "the zygote gets a socket, and is the parent of a pool of killable forks",
    "teia/parse/children/zygote.py": "forks, so that parse children share its imports",
    "teia/signals/squid_helper.py": "runs beside Squid, without teia",
}
STARTS = re.compile(
    r"subprocess|multiprocessing|Popen|create_subprocess_(exec|shell)|fork(pty)?|posix_spawnp?|ProcessPoolExecutor"
    r"|popen|exec[lv]p?e?|prctl|preexec_fn|pty"
)
MAY_NAME = {
    "teia/__init__.py": "public names, imported when they are used; type checkers read the imports above the table",
    "teia/cli/main.py": "one line a command; a function that imports each would be ninety lines, and tests run all",
}


def starters(tree: ast.AST) -> Iterator[str]:
    """Yield the names in a module that start processes, or tie their lives to each other."""
    for node in walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.keyword):
            names = [node.arg or ""]
        yield from (name for name in names if STARTS.fullmatch(name))


def named_entries(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Yield the strings that name a module of ours, or a function in one; names of loggers are none."""
    loggers = {
        id(argument)
        for node in walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger"
        for argument in node.args
    }
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in loggers:
            module = node.value.partition(":")[0]
            if "." in module and module in known:
                yield node.value


def test_processes_are_started_in_one_way() -> None:
    found = {module.path: sorted(set(starters(module.tree))) for module in modules()}
    wrong = {path: names for path, names in found.items() if names and path not in MAY_START}
    assert not wrong, f"use teia/lib/child_process.py: {wrong}"
    assert all(found[path] for path in MAY_START), "a module that starts no processes needs no exception"


def test_entry_points_are_functions_that_an_editor_finds() -> None:
    known = {module.name for module in modules()}
    found = {module.path: sorted(named_entries(module.tree, known)) for module in modules()}
    wrong = {path: names for path, names in found.items() if names and path not in MAY_NAME}
    assert not wrong, f"pass functions, see teia/lib/entry_points.py: {wrong}"


def test_locks_of_files_are_taken_in_one_way() -> None:
    takers = {
        module.path
        for module in modules()
        for node in walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in {"flock", "lockf"}
    }
    # Temporary folders are locked for as long as they live, and `lib` imports nothing of teia.
    assert takers == {"teia/durable.py", "teia/lib/scratch.py"}, "use file_lock"


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "from subprocess import run",
        "from asyncio import subprocess",
        "asyncio.create_subprocess_exec(*words)",
        "os.fork()",
        "ctypes.CDLL(None).prctl(1, 9)",
        "start(preexec_fn=begin)",
    ],
)
def test_ways_to_start_a_process_are_seen(source: str) -> None:
    assert list(starters(ast.parse(source)))


@pytest.mark.parametrize(
    ("source", "is_seen"),
    [
        ("MODULE = 'teia.indexer.process'", True),
        ("JOB = 'teia.crawler.child.read_answer:read'", True),
        ("logging.getLogger('teia.cluster')", False),
        ("path = 'teia.toml'", False),
    ],
)
def test_names_of_entry_points_are_seen(source: str, is_seen: bool) -> None:
    known = {module.name for module in modules()}
    assert bool(list(named_entries(ast.parse(source), known))) is is_seen
