"""The crawler that `teia serve` manages: a coordinator of all collections that follows standing commands (T2, T7).

Collections with a schedule run by it. A collection without one is crawled when a user starts it, until that crawl has
ended; then it is idle. Started again it continues with the queued URLs; where none is queued it visits everything once
more. The commands of users are in the table `orders` (commands.py), so that they survive a death. The coordinator
notices collections that are created or removed meanwhile. With nothing to do now or later it exits after a minute;
`teia serve` starts another one when there is work.

`CrawlerDemand` makes that decision for `teia serve`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from typing import Any

from teia.clock import Clock
from teia.collections.calendar import Schedule
from teia.collections.commands import ASKED, NO_ORDER, CommandTable, StandingCommands, is_needed
from teia.collections.controllers import CollectionController, schedule_in
from teia.collections.coordinator import Coordinator
from teia.collections.run_log import RunLog
from teia.collections.stored import saved
from teia.errors import DiskFull, StoreError, TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.records import Command
from teia.store.root import Root

IDLE_S = 60.0


class Resident(Coordinator):
    """Serves a locked root by its schedules and standing commands; exits after `idle_s` without work."""

    def __init__(self, *given: Any, idle_s: float = IDLE_S, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle_s = idle_s
        self._idle_from = self._clock.ticks_s()
        self._heard: Mapping[str, StandingCommands] = {}

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._orders = CommandTable(self._root.path / "control.sqlite")
        try:
            with super()._opened():
                yield
        finally:
            self._orders.close()

    async def _greet(self, charge: CollectionController) -> None:
        """Read the standing commands of a collection; it is announced when there is something to do."""
        self._heed(charge, self._orders.of(charge.name))

    # -- tasks ---------------------------------------------------------------------------------------------

    def _decide(self) -> list[CollectionController]:
        now_s, again_s = self._clock.now_s(), inf
        for charge in self.charges.values():
            order = charge.order
            charge.is_stopped = order.holds_back(charge.schedule, now_s)
            if charge.is_stopped:
                again_s = min(again_s, order.again_s(charge.schedule) or inf)
            if charge.schedule is None and order.wanted_s is None and charge.crawl is None:
                charge.is_over = True
            if charge.schedule is not None and order.wanted_s is not None and not charge.is_wanted:
                self._has_ended(charge)  # its run has begun, and is written down
        going = super()._decide()
        if going:
            # Busy: the idle time begins when the last shift has ended.
            self._idle_from = inf
        elif self._idle_from == inf:
            self._idle_from = self._clock.ticks_s()
        left_s = max(0.0, self._idle_from + self._idle_s - self._clock.ticks_s())
        self._decide_at_s = min(self._decide_at_s, again_s, now_s + left_s if not self._is_needed() else inf)
        return going

    def _is_needed(self) -> bool:
        now_s = self._clock.now_s()
        return any(is_needed(each.order, each.schedule, each.run, now_s) for each in self.charges.values())

    def _has_prospects(self) -> bool:
        return self._is_needed() or self._clock.ticks_s() < self._idle_from + self._idle_s

    def _begin_wanted(self, charge: CollectionController, now_s: float) -> None:
        """Begin a run; without a schedule, continue an unfinished crawl instead."""
        goes_on = charge.config.refresh.keep or _has_waiting(self._root, charge.name)
        if charge.schedule is not None or not goes_on:
            self._begin_run(charge, now_s)
        if charge.schedule is not None:
            self._has_ended(charge)

    def _has_ended(self, charge: CollectionController) -> None:
        """Record that the commanded crawl is complete; without a schedule nothing remains to do."""
        with suppress(DiskFull):
            self._orders.done(charge.name, charge.order.wanted_s)
            charge.order = replace(charge.order, wanted_s=None)
        charge.is_over = charge.is_over or charge.schedule is None

    # -- commands ------------------------------------------------------------------------------------------

    async def _attend(self) -> None:
        await super()._attend()
        orders = self._orders.all()
        if orders != self._heard:
            self._heard = orders
            for charge in self.charges.values():
                self._heed(charge, orders.get(charge.name, NO_ORDER))
            self._decide_at_s = self._account_at = -inf
        self._let_go(orders)

    def _obey(self, charge: CollectionController, commands: Sequence[Command]) -> None:
        """Record commands as standing commands, which are applied next; a parked collection is tried again."""
        for command in commands:
            if command is Command.RESUME and charge.parked:
                charge.unpark()
                self._decide_at_s = self._account_at = -inf
            with suppress(DiskFull):
                # The sender of RUN has recorded it already (`order`); a second time stamp would start the crawl
                # twice.
                if command is not Command.RUN or self._orders.of(charge.name).wanted_s is None:
                    self._orders.give(charge.name, command, self._clock.now_s())

    def _heed(self, charge: CollectionController, order: StandingCommands) -> None:
        """Apply the current standing commands of a collection."""
        before, charge.order = charge.order, order
        # A start that was not seen before.
        if order.wanted_s is not None and order.wanted_s != before.wanted_s:
            charge.is_wanted, charge.is_over, charge.has_lost_schedule = True, False, False
            charge.unpark()
        was_paused, charge.is_paused = charge.is_paused, order.paused_s is not None
        if self._crawler is None or charge.crawl is None:
            return
        if order.removal or (order.stopped_s is not None and order.stopped_s != before.stopped_s):
            self._crawler.obey([Command.STOP], charge.crawl)
        elif charge.is_paused != was_paused:
            self._crawler.obey([Command.PAUSE if charge.is_paused else Command.RESUME], charge.crawl)

    def _let_go(self, orders: Mapping[str, StandingCommands]) -> None:
        """Close the files of collections to be removed, and record that."""
        for name in [name for name, order in orders.items() if order.removal == ASKED]:
            charge = self.charges.get(name)
            if charge is not None and charge.crawl is not None and self._crawler is not None:
                self._crawler.stop()  # the shift ends, and with it all that is open
                continue
            with suppress(DiskFull):
                self.charges.pop(name, None)
                self._control.end(name)
                self._orders.release(name)

    def _tell_of(self, charge: CollectionController) -> None:
        """Write a collection's account while it has something to do."""
        is_idle = not self._is_served(charge) and not charge.parked
        if is_idle and (charge.crawl is None or charge.crawl.is_settled):
            if charge.is_announced:
                self._control.end(charge.name)
            charge.is_announced = False
            return
        if not charge.is_announced:
            self._control.begin(charge.name, self._clock.now_s())
            charge.is_announced = True
        super()._tell_of(charge)


def _has_waiting(root: Root, name: str) -> bool:
    """Tell whether URLs of a collection are queued."""
    for folder in root.collection(name).cells():
        if folder.frontier.exists():
            try:
                cell = FrontierCell(folder.frontier, read_only=True)
            except StoreError:  # nothing is in it yet
                continue
            queued = cell.queued
            cell.close()
            if queued:
                return True
    return False


# ---- the decision to start a crawler ---------------------------------------------------------------------------------


class CrawlerDemand:
    """Reads standing commands and schedules; belongs to one thread. Settings are read again when their file changes."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._orders = CommandTable(root.path / "control.sqlite")
        self._book = RunLog(root.path / "control.sqlite")
        self._read: dict[str, tuple[tuple[int, int], Schedule | None]] = {}

    def close(self) -> None:
        self._orders.close()
        self._book.close()

    def is_anything(self) -> bool:
        """True if some collection has to be crawled, or waits for its start time."""
        orders, now_s = self._orders.all(), self._clock.now_s()
        for name in self._root.collections():
            order, schedule = orders.get(name, NO_ORDER), self._schedule(name)
            if order is NO_ORDER and schedule is None:
                continue
            if is_needed(order, schedule, self._book.last(name), now_s):
                return True
        return False

    def _schedule(self, name: str) -> Schedule | None:
        """Return a collection's schedule; None also if its settings are invalid."""
        try:
            found = (self._root.path / name / "teia.toml").stat()
        except OSError:
            return None
        # The file is always replaced as a whole, so that its inode changes too.
        stamp, known = (found.st_mtime_ns, found.st_ino), self._read.get(name)
        if known is None or known[0] != stamp:
            try:
                schedule = schedule_in(saved(self._root, name).config)
            except TeiaError:
                schedule = None
            known = self._read[name] = (stamp, schedule)
        return known[1]
