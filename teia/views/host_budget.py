"""The part of a host in the budget of all hosts (`refresh.budget`), for previews: as the running crawl divides it.

The crawl reports one price and the number of its pages; what a host could use at that price is computed from its pages,
as in its plan (crawler/keep_fresh/crawl_budget.py). Without a running crawl there is no price, and nothing is divided.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from teia.collections.control_file import CrawlReports
from teia.config.sections import Config, RefreshSettings
from teia.crawler.keep_fresh.crawl_budget import (
    CrawlBudget,
    HostAllotment,
    HostDemand,
    HostTerms,
    demand_of_new,
    measure_demand,
    value_of_new,
)
from teia.crawler.keep_fresh.estimate import FIRST_KEY, CommonKnowledge, HostKnowledge, HostRecords, common_of_cells
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S, Weigh
from teia.crawler.keep_fresh.weights import weigher
from teia.crawler.lookup import Lookup
from teia.errors import TeiaError
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import CapturedPage
from teia.frontier.tables.hosts import find as find_host
from teia.refresh.demand import level_of
from teia.refresh.history import DAY_S
from teia.refresh.priors import LONGEST_S
from teia.urls import site_of, slot_of
from teia.views.hosts import HostLine

SAMPLE_PAGES = 500
"""Pages of a host from which its demand is computed; keys are hashes, so the first ones are a fair sample."""


class RunningBudget(NamedTuple):
    """The price of a visit in the running crawl, in hours, and the number of pages that it keeps fresh."""

    price_hours: float
    pages: int

    @classmethod
    def read(cls, control: Path, collection: str) -> RunningBudget | None:
        """Return the budget that the running crawl of a collection reports; None if there is none."""
        with suppress(TeiaError, sqlite3.Error):
            if control.exists():
                with CrawlReports(control) as reports:
                    run = reports.running_crawl(collection)
                    figures = {} if run is None else run.account.get("freshness") or {}
                    if "price_hours" in figures:
                        return cls(figures["price_hours"], figures["pages"])
        return None

    def allot(self, demand: HostDemand, settings: RefreshSettings, *, has_new: bool) -> HostAllotment:
        """Return the requests per second of a host."""
        floor = settings.floor * settings.budget / DAY_S / max(self.pages, 1)
        terms = replace(CrawlBudget(settings, 0.0).terms, level=level_of(self.price_hours * 3_600.0), floor=floor)
        return terms.allot(demand, has_new=has_new)


def demand_of_host(
    frontier: FrontierCell,
    host_key: tuple[int, int],
    rows: Sequence[CapturedPage],
    slot_s: float,
    settings: RefreshSettings,
    weigh: Weigh,
    common: CommonKnowledge,
    now_s: float,
) -> HostDemand:
    """Return what a host could use of a budget, by some of its pages."""
    pages = HostRecords.read(frontier, host_key, rows, now_s, weigh)
    found = HostKnowledge.learn(frontier, host_key, pages, common).estimate(frontier, host_key, pages, now_s)
    row = find_host(frontier, host_key[1])
    in_bytes = settings.budget_unit == "bytes" and row is not None and row.requests > 0
    cost = max(row.bytes / row.requests, 1.0) if in_bytes and row is not None else 1.0
    terms = HostTerms(slot_s, revisits.count_captured(frontier, *host_key) / len(rows), cost)
    return measure_demand(found.columns, found.found.mean, found.priors, terms, settings, now_s)


class BudgetPaces:
    """Hosts as the budget paces them, of a collection that is open for reading.

    Nothing changes without a budget, or without a running crawl, which knows the price.
    """

    def __init__(self, lookup: Lookup, config: Config, now_s: float) -> None:
        self._lookup, self._settings, self._now_s = lookup, config.refresh, now_s
        has_budget = config.refresh.keep and config.refresh.budget > 0
        self._budget = RunningBudget.read(lookup.root.control, lookup.name) if has_budget else None

    @cached_property
    def _common(self) -> CommonKnowledge:
        return common_of_cells(self._lookup.cells, self._now_s)

    @cached_property
    def _weigh(self) -> Weigh:
        return weigher(self._settings, self._lookup.root.collection(self._lookup.name).ranks)

    def of_host(self, line: HostLine) -> tuple[HostLine, RefreshSettings]:
        """Return a host whose requests are as far apart as the budget has them, and the settings with its share."""
        frontier, host_key = self._lookup.cells[line.cell], (slot_of(site_of(line.host)), line.host_id)
        if self._budget is None:
            return line, self._settings
        rows = revisits.captured_pages(frontier, *host_key, FIRST_KEY, SAMPLE_PAGES)
        polite_s = max(line.slot_s, SHORTEST_SLOT_S)
        if rows:
            demand = demand_of_host(
                frontier, host_key, rows, polite_s, self._settings, self._weigh, self._common, self._now_s
            )
        else:
            demand = demand_of_new(polite_s, value_of_new(self._common.of_all))
        allotted = self._budget.allot(demand, self._settings, has_new=line.waits.new > 0)
        paced_s = 1.0 / max(allotted.requests_per_s, 1.0 / LONGEST_S)
        ready_at_s = max(line.ready_at_s or 0.0, (line.last_request_s or 0.0) + paced_s)
        return replace(line, paced_s=paced_s, ready_at_s=ready_at_s), replace(self._settings, share=allotted.share)
