"""Dismissed alerts: a user has seen them and set them aside, until they are twice as bad.

An alert is identified by its kind and its subject. The user who dismissed it, the time, and how bad it was then are a
row of `control.sqlite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.collections.inbox import ControlFile
from teia.views.alerts import Alert

WORSE = 2.0
MAX_ABOUT_CHARS = 500


@dataclass(frozen=True, slots=True)
class DismissedAlert:
    """A dismissed alert; `badness` is its severity at that time."""

    kind: str
    about: str
    badness: float
    who: str
    time_s: float


def about(need: Alert) -> str:
    """Return the subject of an alert, beside its kind: a host, or its detail."""
    return (need.host or (need.detail if need.kind in {"paused", "seeds"} else ""))[:MAX_ABOUT_CHARS]


def badness(need: Alert) -> float:
    """Return the severity of an alert: for a disk the inverse of free space, for freshness the shortfall."""
    value = need.value or 0.0
    if need.kind == "disk":
        return 1.0 / max(value, 1e-6)
    if need.kind == "freshness":
        return max(0.0, (need.limit or 0.0) - value)
    return max(value, 1.0)


def dismissed(control: ControlFile, collection: str) -> list[DismissedAlert]:
    """Return all dismissed alerts."""
    return [DismissedAlert(*row) for row in control.dismissed(collection)]


def sort_out(
    needs: Sequence[Alert], known: Sequence[DismissedAlert]
) -> tuple[list[Alert], list[tuple[Alert, DismissedAlert]]]:
    """Split alerts into those that still stand and those that were dismissed and are not much worse since."""
    aside = {(each.kind, each.about): each for each in known}
    still: list[Alert] = []
    gone: list[tuple[Alert, DismissedAlert]] = []
    for need in needs:
        before = aside.get((need.kind, about(need)))
        if before is None or badness(need) >= WORSE * before.badness:
            still.append(need)
        else:
            gone.append((need, before))
    return still, gone
