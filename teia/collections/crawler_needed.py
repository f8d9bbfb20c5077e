"""Check whether a root needs a crawler now; for the process that starts it."""

from __future__ import annotations

from teia.clock import Clock
from teia.collections.calendar import Schedule
from teia.collections.commands import NO_ORDER, CommandTable, is_needed
from teia.collections.controllers import schedule_in
from teia.collections.run_log import RunLog
from teia.collections.stored import saved
from teia.errors import TeiaError
from teia.store.root import Root


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
        stamp, known = (found.st_mtime_ns, found.st_ino), self._read.get(name)
        if known is None or known[0] != stamp:
            try:
                schedule = schedule_in(saved(self._root, name).config)
            except TeiaError:
                schedule = None
            known = self._read[name] = (stamp, schedule)
        return known[1]
