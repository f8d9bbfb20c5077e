"""How long a run of the lab will take: as long as one like it took, measured here; unknown where there was none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from teia.web.laboratory.runs import LabRun

LEAST, MOST = 0.2, 100.0
"""How far a measured time is stretched for less or more work; beyond that it says little."""

SURE_SHARE = 0.02
"""A run that has done so much of its work is the best measure of itself."""


def seconds_of(like: str, work: float, known: Iterable[LabRun]) -> float | None:
    """The time of the run that is nearest in work, for this work; None where nothing like it has run."""
    alike = [run for run in known if run.like == like and run.state == "done" and run.seconds and run.work > 0]
    if not alike or work <= 0:
        return None
    nearest = min(alike, key=lambda run: (abs(log(work / run.work)), -run.number))
    return (nearest.seconds or 0.0) * min(max(work / nearest.work, LEAST), MOST)


def left_s(run: LabRun, share: float | None, so_far_s: float, known: Iterable[LabRun]) -> float | None:
    """How long a run that goes will still take."""
    if share is not None and share >= SURE_SHARE:
        return so_far_s * (1.0 - share) / share
    whole_s = seconds_of(run.like, run.work, known)
    return None if whole_s is None else max(0.0, whole_s - so_far_s)


def wait_s(left: float | None, ahead: Sequence[LabRun], known: Sequence[LabRun]) -> float | None:
    """How long until those before a run are done; None where one of them was never measured."""
    parts = [left, *(seconds_of(run.like, run.work, known) for run in ahead)]
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
