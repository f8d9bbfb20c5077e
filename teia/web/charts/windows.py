"""Time ranges that a reader can choose: one for all charts of a page."""

from __future__ import annotations

from typing import Literal

from teia.collections.account import COARSE_S, FINE_S

Window = Literal["15min", "24h", "7d", "30d"]
ReportWindow = Literal["15min", "24h", "7d", "30d", "all"]
WINDOWS_S: dict[str, float] = {"15min": 900.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}


def step_of(window: str) -> float:
    """Return the step of the series that has a window's points."""
    return FINE_S if WINDOWS_S[window] <= WINDOWS_S["15min"] else COARSE_S


def span_of(window: str, now_s: float) -> tuple[float, float]:
    """Return the first and the last instant of a window."""
    return now_s - WINDOWS_S[window], now_s
