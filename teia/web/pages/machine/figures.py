"""Meaning of the figures that pages, the API, `/metrics` and `teia status` show."""

from __future__ import annotations

from dataclasses import dataclass

from teia.collections.figures import FIGURES
from teia.web.access.roles import Role
from teia.web.server.json_routes import PageRoutes


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One figure: its key in the JSON of a status, its meaning, the period it covers, its name in `/metrics`."""

    name: str
    label: str
    meaning: str
    of: str
    metric: str


@dataclass(frozen=True, slots=True)
class FiguresView:
    """All figures."""

    figures: list[FigureLine]


def add_routes(pages: PageRoutes) -> None:
    pages.page("/help/figures", "figures.html", Role.PUBLIC)(figures)


def figures() -> FiguresView:
    """List the figures about a collection, with their meanings."""
    return FiguresView(
        [FigureLine(each.name, each.label, each.meaning, each.of, each.metric) for each in FIGURES.values()]
    )
