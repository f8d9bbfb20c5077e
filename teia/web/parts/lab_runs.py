"""Runs of the lab, as pages list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from teia.clock import iso_utc
from teia.lib.copy_fields import copy_fields
from teia.web.background.lab.runs import LabRun


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list; `finding` is a summary of its report."""

    number: int
    kind: str
    state: str
    command: str
    seed: int
    by: str
    queued: str
    seconds: float | None
    message: str
    digest: str
    finding: dict[str, Any]


def line_of(each: LabRun) -> RunLine:
    """Return one run as lists show it."""
    return copy_fields(
        RunLine,
        each,
        queued=iso_utc(each.queued_s),
        seconds=None if each.seconds is None else round(each.seconds, 2),
    )
