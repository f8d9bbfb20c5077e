"""A policy without a plan: the most valuable page now."""

from __future__ import annotations

from dataclasses import dataclass

from teia.refresh.intensities import capacity, plan_intensities, server_limits
from teia.refresh.model import RefreshWorld
from teia.refresh.policy import ByValue, Value, fair_slots, slots


@dataclass(frozen=True, slots=True)
class MostValuable:
    """The most valuable page of a server at every slot.

    A plan is only needed to split a budget between servers, and only where they could take more visits than it has.
    """

    name: str
    value: Value
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> ByValue:
        limit = capacity(world)
        limits = server_limits(world, limit)
        if float(limits[world.pages_per_server > 0].sum()) <= limit:
            return ByValue(fair_slots(world), self.value)
        return ByValue(slots(world, plan_intensities(world).visits_per_s), self.value)
