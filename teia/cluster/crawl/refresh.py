"""Keeping pages fresh on a node: the plans of one machine (keep_fresh.py), for the hosts of the cells owned here.

A plan belongs to one host, by what that host grants, and a host has one owner. So nodes share only the total number of
pages kept fresh (`limits.pages_kept`). Only due times move with a cell: they are in its tables and so in its log, where
a new owner finds them. The prior for a page without a history is learnt from this node's own pages.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.keep_fresh.host_plan import Weigh
from teia.crawler.keep_fresh.keep_fresh import PlanResult, Refresh, RefreshedHost
from teia.crawler.open_cell import Cell

Value = TypeVar("Value")


class NodeRefresh(Refresh):
    """Due times of the pages of some cells; hosts leave it when their cell is lost or their site is sent away."""

    def __init__(
        self, cells: Sequence[Cell], config: Config, clock: Clock, weigh: Weigh, refreshed_elsewhere: Callable[[], int]
    ) -> None:
        self._refreshed_elsewhere = refreshed_elsewhere
        super().__init__(cells, config, clock, weigh)

    @property
    def is_full(self) -> bool:
        most = self._config.limits.pages_kept
        return 0 < most <= self.stored_pages + self._refreshed_elsewhere()

    def drop_cell(self, number: int) -> None:
        """Forget the hosts of a cell that was lost."""
        self._drop({host for host in self._hosts.values() if host.cell.number == number})

    def drop_hosts(self, number: int, names: Sequence[str]) -> None:
        """Forget hosts that were sent to another cell; their numbers may be given to others."""
        gone = set(names)
        self._drop({host for host in self._hosts.values() if host.cell.number == number and host.name in gone})

    def _drop(self, gone: set[RefreshedHost]) -> None:
        for host in gone:
            # Without pages, its part leaves the sums over all hosts.
            self._store_bound(host, PlanResult(host, None, [], None, 0, None))
        self._hosts = {key: host for key, host in self._hosts.items() if host not in gone}
        self._plans = _without(self._plans, gone)
        self._policy_queues = _without(self._policy_queues, gone)
        self._plan_queue = deque(host for host in self._plan_queue if host not in gone)
        if self._moving is not None and self._moving[0] in gone:
            self._moving = None
        if self._running is not None:  # its result may contain one of them
            running, self._running = self._running, None
            running.cancel()
            for host in self._hosts.values():
                self._request_plan(host)


def _without(values: OrderedDict[RefreshedHost, Value], gone: set[RefreshedHost]) -> OrderedDict[RefreshedHost, Value]:
    return OrderedDict((host, each) for host, each in values.items() if host not in gone)
