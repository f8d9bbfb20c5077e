"""Warnings that somebody has seen and set aside, until they are twice as bad (UX 2.6).

A warning is known by its kind and by what it is about. Who set it aside, when, and how bad it was then are a row of
`control.sqlite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.crawl.control import Control
from teia.crawl.needs import Need

WORSE = 2.0
MAX_ABOUT_CHARS = 500


@dataclass(frozen=True, slots=True)
class Dismissed:
    """A warning that was set aside; `badness` is how bad it was then."""

    kind: str
    about: str
    badness: float
    who: str
    time_s: float


def about(need: Need) -> str:
    """What a warning is about, beside its kind: a host, or what it says."""
    return (need.host or (need.detail if need.kind in {"paused", "seeds"} else ""))[:MAX_ABOUT_CHARS]


def badness(need: Need) -> float:
    """How bad a warning is, as a number that grows: of a disk what is not left, of freshness what is missing."""
    value = need.value or 0.0
    if need.kind == "disk":
        return 1.0 / max(value, 1e-6)
    if need.kind == "freshness":
        return max(0.0, (need.limit or 0.0) - value)
    return max(value, 1.0)


def dismissed(control: Control, collection: str) -> list[Dismissed]:
    """All that was set aside."""
    return [Dismissed(*row) for row in control.dismissed(collection)]


def sort_out(needs: Sequence[Need], known: Sequence[Dismissed]) -> tuple[list[Need], list[tuple[Need, Dismissed]]]:
    """Tell warnings that need somebody from those that were set aside and are not much worse since."""
    aside = {(each.kind, each.about): each for each in known}
    still: list[Need] = []
    gone: list[tuple[Need, Dismissed]] = []
    for need in needs:
        before = aside.get((need.kind, about(need)))
        if before is None or badness(need) >= WORSE * before.badness:
            still.append(need)
        else:
            gone.append((need, before))
    return still, gone
