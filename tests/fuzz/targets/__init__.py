"""The readers that are fuzzed, by name, and whether their compiled modules are checked for errors of memory."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

PLAIN = (
    "addresses", "cdx", "feed", "fetch_log", "forms", "headers", "manifest", "messages", "office", "pdf", "query",
    "robots", "row_changes", "settings", "signals", "sitemap", "warc",
)  # fmt: skip
COMPILED = ("marks", "parse", "rank_file", "references", "rows", "scanner", "stems", "words")
"""Targets whose compiled modules are built with sanitizers."""


def load(name: str) -> tuple[Callable[[bytes], None], tuple[bytes, ...]]:
    """Return the function of a target, and its first inputs."""
    module = import_module(f"tests.fuzz.targets.{name}")
    return module.fuzz_one, module.SEEDS
