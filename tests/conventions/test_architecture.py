"""docs/architecture.md: every function and class that it names is in the file that it names."""

from __future__ import annotations

import re

from .tree import ROOT

NAMED = re.compile(r"\]\(\.\./(teia/[^)]+\.py)\)\s+`(\w+)`")
"""A link to a file, and the name in backticks behind it."""


def defines(source: str, name: str) -> bool:
    return re.search(rf"(?m)^\s*(?:async def|def|class) {name}\b|^{name}\b.*=", source) is not None


def test_every_name_behind_a_file_is_defined_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > 30
    missing = [(path, name) for path, name in named if not defines((ROOT / path).read_text(encoding="utf-8"), name)]
    assert not missing


def test_a_name_that_is_gone_would_be_seen() -> None:
    assert defines("class Circle:\n", "Circle")
    assert defines("ORDERS: dict[str, Order] = {}\n", "ORDERS")
    assert not defines("import Circle\nprint(Circle)\n", "Circle")
