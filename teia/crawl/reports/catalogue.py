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
