from typing import Any

from teia.refresh.model import Floats, Numbers

class Loop:
    fresh_s: Floats
    seen: Numbers
    fresh_weight: float
    fresh_area: float
    def __init__(
        self,
        starts: Numbers,
        weight: Floats,
        rate: Floats,
        age_s: Floats,
        transfer_s: Floats,
        politeness_s: Floats,
        crawlers: int,
        service_s: float,
        most_booked: int,
    ) -> None: ...
    def draw_changes(
        self, process: Any, stale: Any, seed: int, smallest: float, exponent: float, jitter: float
    ) -> None: ...
    def follow_timetable(self, now: float, starts: Numbers, page: Any, due: Floats) -> None: ...
    def follow_intervals(self, now: float, interval: Floats, due: Floats, slot: Floats, offset: Floats) -> None: ...
    def follow_values(self, now: float, by_divergence: bool, of_use: Numbers, slot: Floats, offset: Floats) -> None: ...
    def grant(self, budget: int) -> None: ...
    def run(self, until: float, in_order: bool, page: Any, time: Floats, late: Floats, before: Floats) -> int: ...
