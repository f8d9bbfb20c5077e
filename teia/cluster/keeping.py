"""Keeping pages fresh on a node: the plans of one machine (crawl/refreshing.py), for the hosts of the cells kept here.

A plan is a host's own, by what that host grants, and a host has one keeper. So nothing is shared but how many pages are
kept in all (`limits.pages_kept`), and nothing moves but due times, which are in the cell's tables and so in its log:
whoever takes a cell finds them. What is thought beforehand of a page without a history is learnt from this node's own.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from teia.clock import Clock
from teia.config import Config
from teia.crawl.cells import Cell
from teia.crawl.hostplan import Weigh
from teia.crawl.refreshing import Host, Made, Refresh

Kept = TypeVar("Kept")


class NodeRefresh(Refresh):
    """Due times of the pages of some cells; hosts leave it when their cell is lost or their site is sent away."""

    def __init__(
        self, cells: Sequence[Cell], config: Config, clock: Clock, weigh: Weigh, kept_elsewhere: Callable[[], int]
    ) -> None:
        self._kept_elsewhere = kept_elsewhere
        super().__init__(cells, config, clock, weigh)

    @property
    def is_full(self) -> bool:
        most = self._config.limits.pages_kept
        return 0 < most <= self.kept + self._kept_elsewhere()

    def drop_cell(self, number: int) -> None:
        """Forget the hosts of a cell that was lost."""
        self._drop({host for host in self._hosts.values() if host.cell.number == number})

    def drop_hosts(self, number: int, names: Sequence[str]) -> None:
        """Forget hosts that were sent to another cell; their numbers may be given to others."""
        gone = set(names)
        self._drop({host for host in self._hosts.values() if host.cell.number == number and host.name in gone})

    def _drop(self, gone: set[Host]) -> None:
        for host in gone:
            self._stand(host, Made(host, None, [], None, 0, None))
        self._hosts = {key: host for key, host in self._hosts.items() if host not in gone}
        self._plans = _without(self._plans, gone)
        self._carried = _without(self._carried, gone)
        self._wanted = deque(host for host in self._wanted if host not in gone)
        if self._moving is not None and self._moving[0] in gone:
            self._moving = None
        if self._running is not None:  # whatever it makes may be of one of them
            running, self._running = self._running, None
            running.cancel()
            for host in self._hosts.values():
                self._want(host)


def _without(kept: OrderedDict[Host, Kept], gone: set[Host]) -> OrderedDict[Host, Kept]:
    return OrderedDict((host, each) for host, each in kept.items() if host not in gone)
