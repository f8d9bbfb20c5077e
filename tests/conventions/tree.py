"""The repository as the convention tests see it: its files and its modules."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "deploy", "docs", "examples", "scripts", "teia", "tests")
TEXT = {"", ".css", ".html", ".js", ".json", ".md", ".pxi", ".py", ".pyi", ".pyx", ".sh", ".toml", ".txt"}


@dataclass(frozen=True)
class Module:
    """One Python file: its path under the root, its dotted name and its tree."""

    path: str
    name: str
    tree: ast.Module
    lines: int


@cache
def modules(folder: str = "teia") -> tuple[Module, ...]:
    """Return the modules of a folder; their trees stay, so the collector of garbage need not walk over them."""
    gc.disable()
    try:
        return tuple(_module(path) for path in sorted((ROOT / folder).rglob("*.py")))
    finally:
        gc.freeze()
        gc.enable()


def _module(path: Path) -> Module:
    relative = path.relative_to(ROOT)
    source = path.read_text(encoding="utf-8")
    name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    return Module(str(relative), name, ast.parse(source, str(relative)), source.count("\n"))


@cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Give all nodes of a tree; many tests look at the same trees, and walking takes longer than looking."""
    return tuple(ast.walk(tree))


def text_files() -> Iterator[Path]:
    """Every file of ours that people read: sources, scripts, documents."""
    yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in {".md", ".toml"})
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts:
                yield path


def documents() -> list[Path]:
    return [path for path in text_files() if path.suffix == ".md"]
