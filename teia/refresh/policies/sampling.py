"""Sampling (Cho and Ntoulas, 2002; P5): visit a few pages of each server, then the servers where most had changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.refresh.merge import Timetable, merge
from teia.refresh.model import Floats, Numbers, RefreshWorld


@dataclass(frozen=True, slots=True)
class Sampling:
    """Cycles of one horizon: a sample of each server, then all pages of the servers whose samples changed most.

    The result of a sample of `pages` is its expected value, from the rates of the sampled pages alone. Nothing is
    remembered from one cycle to the next. Samples are pages at even distances in the order of ids.
    """

    name: str = "sampling"
    pages: int = 10
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world.with_ages(0.0)
        sampled = self._sample(world)
        counts = sampled.copy()
        room = world.caps()
        each = np.bincount(world.server, sampled, minlength=world.servers).astype(np.int64)
        # 1. The samples are paid for first. 2. Servers take the rest of the budget, most changed samples first.
        left = max(0, (len(world) if world.budget is None else world.budget) - int(each.sum()))
        changed = self._changed(world, sampled)
        for server in np.argsort(-changed, kind="stable").tolist():
            rows = slice(int(world.starts[server]), int(world.starts[server + 1]))
            first = np.argsort(-sampled[rows], kind="stable")  # the sample is visited in any case
            visits_here = min(int(room[server]), rows.stop - rows.start, int(each[server]) + left)
            counts[rows] = 0
            counts[rows.start + first[:visits_here]] = 1
            left -= max(0, visits_here - int(each[server]))
        return merge(known, counts, "centred")

    def _sample(self, world: RefreshWorld) -> Numbers:
        sampled = np.zeros(len(world), dtype=np.int64)
        each = np.minimum(self.pages, world.pages_per_server)
        server = np.repeat(np.arange(world.servers), each)
        number = np.arange(len(server)) - np.repeat(np.cumsum(each) - each, each)
        sampled[world.starts[server] + number * world.pages_per_server[server] // each[server]] = 1
        return sampled

    def _changed(self, world: RefreshWorld, sampled: Numbers) -> Floats:
        """Return the share of each server's sample that has changed since it was fresh, half of the cycle from now."""
        share = -np.expm1(-world.rate * (world.age_s + world.horizon_s / 2)) * sampled
        total = np.bincount(world.server, share, minlength=world.servers)
        seen: Floats = total / np.maximum(np.bincount(world.server, sampled, minlength=world.servers), 1)
        return seen
