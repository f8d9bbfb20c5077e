"""Estimates of a lab run's duration, from similar runs on this machine; unknown if there was none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from teia.web.background.lab.runs import LabRun

LEAST, MOST = 0.2, 100.0
"""Bounds of the factor by which a measured time is scaled; beyond them the estimate means little."""

SURE_SHARE = 0.02
"""Above this share of its work, a run's own progress is the best estimate."""


def estimate_seconds(like: str, work: float, known: Iterable[LabRun]) -> float | None:
    """Scale the time of the similar run that is nearest in work; None if no similar run is stored."""
    alike = [run for run in known if run.like == like and run.state == "done" and run.seconds and run.work > 0]
    if not alike or work <= 0:
        return None
    # Nearest on a logarithmic scale; of equally near runs the newest.
    nearest = min(alike, key=lambda run: (abs(log(work / run.work)), -run.number))
    return (nearest.seconds or 0.0) * min(max(work / nearest.work, LEAST), MOST)


def estimate_left_s(run: LabRun, share: float | None, elapsed_s: float, known: Iterable[LabRun]) -> float | None:
    """Estimate the remaining seconds of a run under way; None if unknown."""
    if share is not None and share >= SURE_SHARE:
        return elapsed_s * (1.0 - share) / share
    whole_s = estimate_seconds(run.like, run.work, known)
    return None if whole_s is None else max(0.0, whole_s - elapsed_s)


def estimate_wait_s(left: float | None, ahead: Sequence[LabRun], known: Sequence[LabRun]) -> float | None:
    """Estimate the seconds until all earlier runs are done; None if no run like one of them was measured."""
    parts = [left, *(estimate_seconds(run.like, run.work, known) for run in ahead)]
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
