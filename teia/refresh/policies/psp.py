"""PSP and the policies it is compared with (P4, P5): greedy counts, with times by MERGE or at ideal times.

They differ in one thing each. PSP spreads the visits of a server evenly in the order of their ideal times. MP2 leaves
each visit at its ideal time. M-Wolf does so too, and computes its counts without politeness (Wolf and others, 2002).
Dispatch is the same for all: the most overdue page that may be visited now, never early.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.refresh.counts import plan_counts
from teia.refresh.merge import Spacing, Timetable, merge
from teia.refresh.model import RefreshWorld


@dataclass(frozen=True, slots=True)
class Psp:
    """Counts under politeness, and times by `spacing`.

    The plan is for one horizon and is made anew for the next. As printed, every horizon begins as if all copies were
    fresh, so the same pages are left out every time. `from_ages` begins with the actual ages of the copies.
    """

    name: str
    spacing: Spacing
    from_ages: bool = False
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world if self.from_ages else world.with_ages(0.0)
        return merge(known, plan_counts(known), self.spacing)


@dataclass(frozen=True, slots=True)
class MWolf:
    """Wolf's counts and ideal times, which ignore politeness; dispatch delays the visits."""

    name: str = "m-wolf"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world.with_ages(0.0)
        return merge(known, plan_counts(known, caps="none"), "ideal")
