"""The mutation check: each implementation that docs/seeds.md names is taken away, and its test must fail.

`scripts/mutations [ID…]` runs it. The checkout is copied to a temporary folder. There the body of one function after
the other is replaced, in the file itself: processes that a test starts have the mutation too. Then the test of the same
line runs alone. A test that passes although its implementation is gone does not show that the implementation works.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.upstream import data_folder

ROOT = Path(__file__).resolve().parent.parent
HEADING = "## What fails without it"
LINE = re.compile(
    r"\| (?P<id>[PACTF]\d+) \| `(?P<module>[\w.]+):(?P<name>[\w.]+)`"
    r" \| (?:`(?P<instead>[^|`]+)` )?\| `(?P<test>[^`]+)` \|"
)
LEFT_OUT = (".git", ".venv", ".*_cache", ".hypothesis")
TIMEOUT_S = 120

FAILS, PASSES, HANGS, BROKEN = "fails", "PASSES", "HANGS", "BROKEN"
"""Ends of a test: as it should; without noticing anything; too late, as on a busy machine; without being run at all."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Mutation:
    """One line of the table: an implementation, the expression that takes its place, and the test that must fail."""

    id: str
    module: str
    name: str
    instead: str
    test: str

    @property
    def path(self) -> str:
        return f"{self.module.replace('.', '/')}.py"


def listed(document: Path = ROOT / "docs" / "seeds.md") -> list[Mutation]:
    """Read the table of mutations; a line that is none is an error."""
    table = document.read_text(encoding="utf-8").partition(HEADING)[2]
    return [_mutation(line) for line in table.splitlines() if re.match(r"\| [PACTF]\d", line)]


def _mutation(line: str) -> Mutation:
    found = LINE.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"docs/seeds.md: not `| id | `module:object` | `instead` or nothing | `test` |`: {line}")
    return Mutation(**{**found.groupdict(), "instead": found["instead"] or "None"})


def find(tree: ast.Module, name: str) -> Definition | None:
    """Find a function, a method or a constant by its qualified name; of several, such as overloads, the last."""
    scope: Sequence[ast.stmt] = tree.body
    *classes, last = name.split(".")
    for each in classes:
        scope = next((node.body for node in scope if isinstance(node, ast.ClassDef) and node.name == each), [])
    return next((node for node in reversed(scope) if _defines(node, last)), None)  # type: ignore[return-value]


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def mutate(source: str, name: str, instead: str) -> str:
    """Replace the body of a function by the return of an expression, or the value of a constant by the expression.

    The expression may use the function's parameters and all names of its module. A generator yields the items of the
    expression, or nothing.
    """
    node = find(ast.parse(source), name)
    if node is None:
        raise LookupError(name)
    part = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else [node.value]
    first, last = part[0], part[-1]
    assert first is not None
    assert last is not None
    lines = source.splitlines(keepends=True)
    before = "".join(lines[: first.lineno - 1]) + lines[first.lineno - 1].encode()[: first.col_offset].decode()
    after = lines[(last.end_lineno or 0) - 1].encode()[last.end_col_offset or 0 :].decode() + "".join(
        lines[last.end_lineno or 0 :]
    )
    return f"{before}{_replacement(node, instead, ' ' * first.col_offset)}{after}"


def _replacement(node: Definition, instead: str, indent: str) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return instead
    if not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own_nodes(node)):
        return f"return {instead}"
    return f"for _each in {'()' if instead == 'None' else instead}:\n{indent}    yield _each"


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Give the nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def copied(folder: Path, root: Path = ROOT) -> Path:
    """Copy a checkout with its compiled files, which stay valid because the copies keep their times."""
    return Path(shutil.copytree(root, folder / "checkout", symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT)))


def run_tests(checkout: Path, tests: Sequence[str]) -> tuple[str, str]:
    """Run tests of a copy and return their end and the last lines that they printed."""
    environ = {"TEIA_CONFORMANCE": str(data_folder()), **os.environ, "PYTHONPATH": str(checkout)}
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--timeout",
        str(TIMEOUT_S),
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    done = subprocess.run(program, cwd=checkout, env=environ, capture_output=True, text=True, check=False)
    end = end_of(done.returncode, done.stdout + done.stderr)
    return end, "\n".join(done.stdout.splitlines()[-12:] + done.stderr.splitlines()[-3:])


def end_of(status: int, output: str) -> str:
    """Judge a run of pytest by its exit status and what it printed."""
    end = {0: PASSES, 1: FAILS}.get(status, BROKEN)
    if end == PASSES and " passed" not in output:
        return BROKEN  # Skipped tests show nothing.
    # Where the time is over in a teardown, pytest reports an error of its own.
    return HANGS if end in {FAILS, BROKEN} and "Timeout (>" in output else end


def check(checkout: Path, mutation: Mutation) -> tuple[str, str]:
    """Run the test of a mutation without its implementation; the copy is afterwards as it was."""
    path = checkout / mutation.path
    source, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutate(source, mutation.name, mutation.instead), encoding="utf-8")
    # Compiled files are recognised as old by the time of their source, in whole seconds.
    os.utime(path, (times.st_atime, times.st_mtime + 1 + time.monotonic() % 10_000))
    try:
        return run_tests(checkout, [mutation.test])
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def main(wanted: Sequence[str]) -> int:
    """Check the mutations of some ids, or all; print a line for each, and what each test that passed was to notice."""
    mutations = [each for each in listed() if not wanted or each.id in wanted]
    if not mutations:
        print(f"no mutation of {', '.join(wanted)} in docs/seeds.md", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="teia-mutations-") as folder:
        checkout = copied(Path(folder))
        end, output = run_tests(checkout, sorted({each.test for each in mutations}))
        if end != PASSES:
            print(f"{output}\nthe tests must pass before anything is taken away", file=sys.stderr)
            return 1
        wrong = 0
        for mutation in mutations:
            began = time.monotonic()
            end, output = check(checkout, mutation)
            took_s = time.monotonic() - began
            print(
                f"{mutation.id:4}{end:8}{took_s:6.1f} s  {mutation.module}:{mutation.name}  {mutation.test}", flush=True
            )
            wrong += end != FAILS
            if end == BROKEN:
                print(output, file=sys.stderr, flush=True)
    print(f"{len(mutations)} implementations taken away, {wrong} not noticed")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
