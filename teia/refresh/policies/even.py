"""Policies that ignore the value of a visit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.refresh.intensities import capacity
from teia.refresh.model import DAY_S, RefreshWorld
from teia.refresh.policy import Intervals, fair_slots, intervals_at
from teia.refresh.segments import Segments


@dataclass(frozen=True, slots=True)
class Uniform:
    """Visits of all pages equally often."""

    name: str = "uniform"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        return intervals_at(world, np.full(len(world), capacity(world) / len(world)))


@dataclass(frozen=True, slots=True)
class Proportional:
    """Pages visited in proportion to their change rates; seems natural and is worse than uniform (Cho)."""

    name: str = "proportional"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        rate = np.where(np.isfinite(world.rate), world.rate, 0.0)
        total = float(rate.sum())
        if total == 0:
            return Uniform().plan(world)
        return intervals_at(world, capacity(world) * rate / total)


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Visits of every server's pages in turn, as fast as politeness allows."""

    name: str = "round-robin"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        slot = fair_slots(world)
        interval = Segments(world.starts).spread(slot) * np.repeat(world.pages_per_server, world.pages_per_server)
        return Intervals(interval, interval - world.age_s, slot)


@dataclass(frozen=True, slots=True)
class RateUpdate:
    """F2's rule: changes seen over days since the last visit, both between 1 and 10, renewed every 24 hours.

    Pages are visited in proportion to it. It uses the observed changes, not the rates, so at first all pages are alike.
    """

    name: str = "rate-update"
    renew_s: float = DAY_S

    def plan(self, world: RefreshWorld) -> Intervals:
        rate_update = np.clip(world.changes, 1, 10) / np.clip(world.age_s / DAY_S, 1, 10)
        return intervals_at(world, capacity(world) * rate_update / rate_update.sum())
