"""Every report, by its name in `teia report`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from teia.config import extensions
from teia.config.extensions import extension_names, load_extension
from teia.errors import UsageError
from teia.lib.message import Message
from teia.views.reports.coverage import coverage
from teia.views.reports.duplicates import duplicates
from teia.views.reports.errors import errors
from teia.views.reports.growth import growth
from teia.views.reports.hosts import hosts
from teia.views.reports.identities import identities
from teia.views.reports.links import links
from teia.views.reports.outcomes import outcomes
from teia.views.reports.permissions import permissions
from teia.views.reports.rendered_pages import rendering
from teia.views.reports.servers import servers
from teia.views.reports.source import Source
from teia.views.reports.space import space
from teia.views.reports.traps import traps
from teia.views.reports.types import types

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TOP = 20
"""Default length of lists of hosts and URLs."""

SHARES = frozenset({"share", "part", "cumulative_share", "coverage", "part_with_80", "late_share"}) | {
    "fresh", "fresh_error", "error", "true", "best", "best_error", "best_next", "possible", "uniform", "weight", "lost",
    "courtesy", "learning", "schedule", "failures",
}  # fmt: skip
"""Fields of reports that are parts of 1. Other units are in the names: `…_s`, `…_bytes`."""


def freshness(source: Source, top: int) -> DataclassInstance:
    """Run reports/freshness.py, imported here because it loads planning libraries that only it needs."""
    from teia.views.reports.freshness import freshness as report

    return report(source, top)


REPORTS: dict[str, Callable[[Source, int], DataclassInstance]] = {
    "outcomes": outcomes,
    "types": types,
    "servers": servers,
    "errors": errors,
    "space": space,
    "links": links,
    "growth": growth,
    "coverage": coverage,
    "freshness": freshness,
    "hosts": hosts,
    "traps": traps,
    "duplicates": duplicates,
    "identities": identities,
    "permissions": permissions,
    "rendering": rendering,
}


def find_report(name: str) -> Callable[[Source, int], DataclassInstance]:
    """Return a report of ours, or one that an installed package offers; UsageError if there is none of this name."""
    found: Callable[[Source, int], DataclassInstance] | None = REPORTS.get(name) or load_extension(
        extensions.REPORTS, name
    )
    if found is None:
        names = ", ".join((*REPORTS, *extension_names(extensions.REPORTS)))
        raise UsageError(Message("unknown report {name!r}; available: {names}", name=name[:100], names=names))
    return found


def unit_of(name: str) -> str:
    """Return the unit of a report's field by its name: `share`, `size`, `span`, `code` or empty."""
    if name in SHARES:
        return "share"
    if name.endswith("bytes"):
        return "size"
    if name == "code":
        return "code"
    return "span" if name.endswith("_s") else ""
