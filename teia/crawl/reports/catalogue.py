"""Every report there is, by the name `teia report` knows it by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from teia.crawl.reports.coverage import coverage
from teia.crawl.reports.errors import errors
from teia.crawl.reports.hosts import hosts
from teia.crawl.reports.links import links
from teia.crawl.reports.outcomes import outcomes
from teia.crawl.reports.servers import servers
from teia.crawl.reports.source import Source
from teia.crawl.reports.space import space
from teia.crawl.reports.traps import traps
from teia.crawl.reports.types import types

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TOP = 20
"""How long lists of hosts and URLs are, if nothing else is asked for."""

SHARES = frozenset({"share", "part", "cumulative_share", "coverage", "part_with_80", "late_share"}) | {
    "fresh", "fresh_error", "best", "best_error", "best_next", "possible", "uniform", "weight", "lost", "courtesy",
    "learning", "schedule", "failures",
}  # fmt: skip
"""Fields of reports that are parts of 1. Other units are in the names: `…_s`, `…_bytes`."""


def freshness(source: Source, top: int) -> DataclassInstance:
    """See reports/freshness.py, which brings what plans are made with: other reports do without."""
    from teia.crawl.reports.freshness import freshness as report

    return report(source, top)


REPORTS: dict[str, Callable[[Source, int], DataclassInstance]] = {
    "outcomes": outcomes,
    "types": types,
    "servers": servers,
    "errors": errors,
    "space": space,
    "links": links,
    "coverage": coverage,
    "freshness": freshness,
    "hosts": hosts,
    "traps": traps,
}


def unit_of(name: str) -> str:
    """What a field of a report measures, by its name: `share`, `size`, `span`, `code` or nothing."""
    if name in SHARES:
        return "share"
    if name.endswith("bytes"):
        return "size"
    if name == "code":
        return "code"
    return "span" if name.endswith("_s") else ""
