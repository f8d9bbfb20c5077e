"""The summary of a page's visits from which its change rate is estimated.

A visit yields one bit: the page changed, or it did not (`VisitResult`). A failed visit yields nothing. A page's
`History` sums these bits up in at most 304 octets, enough for every estimator of rates.py:

    last visit, last change seen      times
    visits n, changes X               numbers of observations, and of those that found a change
    quiet time                        the sum of the intervals that ended without a change
    gaps                              the intervals that ended with one: (seconds, weight), 32 at most
    dated changes                     number of those with a believable Last-Modified, and the sum of its ages

Everything decays with a half-life, because pages change their habits. When there are more than 32 gaps, the two whose
lengths are most alike become one with the weight of both. The likelihood depends on the lengths alone, and smoothly, so
only a little precision is lost. Dropping the oldest gap instead would make busy pages look calm.

Times are Unix seconds. A first visit needs no history: its time is all the information there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import log
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from teia.records import NOT_MODIFIED

DAY_S = 86_400.0
HALF_LIFE_S = 90 * DAY_S
MAX_GAPS = 32
SHORTEST_GAP = 1e-3
"""Least share of an interval that is counted as uncertain, even if the time of the change is well known."""

CLOCK_ERROR_S = 120.0
"""Tolerance in seconds for a server clock ahead of ours; a Last-Modified further in the future is ignored."""

# Format, flags, number of gaps; then the seven numbers of `encode`. `_HEAD_TYPE` below is the same layout.
_HEAD = Struct("<BBHddffdfd")
_GAP = Struct("<ff")
_FORMAT = 1
_GONE_BIT = 1

Floats = npt.NDArray[np.float64]


class VisitResult(IntEnum):
    """The result of a visit, compared with the visit before. The numbers are stored on disk."""

    NOT_MODIFIED = 0
    SAME_BYTES = 1
    SAME_TEXT = 2
    COSMETIC = 3
    CHANGED = 4
    GONE = 5


class ObservedAnswer(NamedTuple):
    """The compared parts of an answer. `text_digest` is of the normalised text (F3), empty where there is none."""

    status: int
    digest: bytes
    text_digest: bytes
    simhash: int
    redirect_to: str = ""
    is_soft_404: bool = False

    @property
    def is_gone(self) -> bool:
        return self.is_soft_404 or 400 <= self.status < 500


def compare(before: ObservedAnswer, now: ObservedAnswer, is_cosmetic: Callable[[], bool | None]) -> VisitResult:
    """Classify a visit. `is_cosmetic` examines texts that differ more closely and returns None if it cannot tell.

    In that case, a text of the same simhash counts as a cosmetic change, and any other text as a change.
    """
    if now.status == NOT_MODIFIED:
        return VisitResult.NOT_MODIFIED
    if now.is_gone:
        return VisitResult.GONE
    if before.is_gone or before.redirect_to != now.redirect_to or before.status // 100 != now.status // 100:
        return VisitResult.CHANGED
    if before.digest == now.digest:
        return VisitResult.SAME_BYTES
    if not before.text_digest or not now.text_digest:
        return VisitResult.CHANGED
    if before.text_digest == now.text_digest:
        return VisitResult.SAME_TEXT
    verdict = is_cosmetic()
    if verdict is None:
        verdict = before.simhash == now.simhash
    return VisitResult.COSMETIC if verdict else VisitResult.CHANGED


@dataclass(slots=True)
class History:
    """The recorded changes of one page; see the module's docstring. The counts decay, so they are not whole numbers."""

    visited_s: float
    changed_s: float
    visits: float = 0.0
    changes: float = 0.0
    quiet_s: float = 0.0
    dated: float = 0.0
    dated_s: float = 0.0
    is_gone: bool = False
    gaps: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def start(cls, first_visit_s: float) -> History:
        """Return the history after a first visit."""
        return cls(first_visit_s, first_visit_s)

    def observe(
        self,
        result: VisitResult,
        now_s: float,
        modified_s: float | None = None,
        half_life_s: float = HALF_LIFE_S,
        *,
        quiet_until_s: float = 0.0,
    ) -> bool:
        """Add a visit and return True if it found a change. `modified_s` is the answer's Last-Modified.

        The disappearance of a page counts as one change, and so does its return. A visit that is no later than the last
        one, as after a step of the clock, yields nothing about a rate. `quiet_until_s` is a time up to which a trusted
        signal source reports no change. Such a visit is made because of the change. Without this correction, every page
        would seem to change as often as it is visited.
        """
        changed = result is VisitResult.CHANGED or self.is_gone != (result is VisitResult.GONE)
        self.is_gone = result is VisitResult.GONE
        interval_s = now_s - self.visited_s
        # The clock stepped back: `is_gone` is set, but the interval is no evidence about a rate.
        if interval_s <= 0.0:
            return changed
        # Decay first, so that this observation has its full weight.
        self._decay(0.5 ** (interval_s / half_life_s))
        self.visits += 1.0
        if changed:
            quiet_s = min(max(0.0, quiet_until_s - self.visited_s), interval_s * (1.0 - SHORTEST_GAP))
            self.quiet_s += quiet_s
            self._add_change(interval_s - quiet_s, _plausible_age(modified_s, self.visited_s + quiet_s, now_s))
            self.changed_s = now_s
        else:
            self.quiet_s += interval_s
        self.visited_s = now_s
        return changed

    def _decay(self, share: float) -> None:
        self.visits *= share
        self.changes *= share
        self.quiet_s *= share
        self.dated *= share
        self.dated_s *= share
        self.gaps = [(gap_s, weight * share) for gap_s, weight in self.gaps]

    def _add_change(self, interval_s: float, age_s: float | None) -> None:
        self.changes += 1.0
        if age_s is not None:
            self.dated += 1.0
            self.dated_s += age_s
        self.gaps.append((interval_s, 1.0))
        if len(self.gaps) > MAX_GAPS:
            self.gaps = _merge_nearest(sorted(self.gaps))

    def encode(self) -> bytes:
        flags = _GONE_BIT if self.is_gone else 0
        numbers = (self.visited_s, self.changed_s, self.visits, self.changes, self.quiet_s, self.dated, self.dated_s)
        head = _HEAD.pack(_FORMAT, flags, len(self.gaps), *numbers)
        return head + b"".join(_GAP.pack(*gap) for gap in self.gaps)

    @classmethod
    def decode(cls, record: bytes) -> History:
        """Read the output of `encode`; raise ValueError for anything else."""
        if len(record) < _HEAD.size or record[0] != _FORMAT:
            raise ValueError("not a visit history in a known format")
        _, flags, count, visited_s, changed_s, *sums = _HEAD.unpack_from(record)
        if len(record) != _HEAD.size + count * _GAP.size:
            raise ValueError("truncated visit history")
        gaps = [(gap_s, weight) for gap_s, weight in _GAP.iter_unpack(record[_HEAD.size :])]
        visits, changes, quiet_s, dated, dated_s = sums
        is_gone = bool(flags & _GONE_BIT)
        return cls(visited_s, changed_s, visits, changes, quiet_s, dated, dated_s, is_gone, gaps)


def is_gone_record(record: bytes) -> bool:
    """Tell whether the last visit found the page gone, from an encoded history without decoding all of it."""
    return len(record) >= _HEAD.size and bool(record[1] & _GONE_BIT)


def _plausible_age(modified_s: float | None, before_s: float, now_s: float) -> float | None:
    """Return the age of the change at the visit by its Last-Modified; None if the date is missing or implausible.

    A date before the previous visit is implausible, because that visit did not see the change.
    """
    if modified_s is None or not before_s - CLOCK_ERROR_S <= modified_s <= now_s + CLOCK_ERROR_S:
        return None
    return min(max(0.0, now_s - modified_s), now_s - before_s)


def _merge_nearest(gaps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge the two neighbours of a sorted list whose lengths are nearest on a logarithmic scale."""
    at = min(range(len(gaps) - 1), key=lambda n: log(gaps[n + 1][0] / gaps[n][0]))
    (one_s, one), (other_s, other) = gaps[at : at + 2]
    weight = one + other
    merged = ((one_s * one + other_s * other) / weight, weight) if weight else (one_s, 0.0)
    return [*gaps[:at], merged, *gaps[at + 2 :]]


# ---- histories in columns -------------------------------------------------------------------------------------------

_NUMBERS = {
    "visited_s": "<f8", "changed_s": "<f8", "visits": "<f4", "changes": "<f4", "quiet_s": "<f8", "dated": "<f4",
    "dated_s": "<f8",
}  # fmt: skip
_HEAD_TYPE = np.dtype([("format", "u1"), ("flags", "u1"), ("gaps", "<u2"), *_NUMBERS.items()])


@dataclass(frozen=True, slots=True)
class Histories:
    """Histories in columns. The gaps of page i are `gap_s[starts[i]:starts[i + 1]]`."""

    visited_s: Floats
    changed_s: Floats
    visits: Floats
    changes: Floats
    quiet_s: Floats
    dated: Floats
    dated_s: Floats
    starts: npt.NDArray[np.int64]
    gap_s: Floats
    gap_weight: Floats

    def __len__(self) -> int:
        return int(self.visits.size)

    def select(self, chosen: npt.NDArray[np.bool_]) -> Histories:
        """Return the histories of some pages."""
        has_gap, counts = chosen[self.page_of_gap], np.diff(self.starts)[chosen]
        return Histories(
            **{name: getattr(self, name)[chosen] for name in _NUMBERS},
            starts=np.concatenate(([0], np.cumsum(counts))),
            gap_s=self.gap_s[has_gap],
            gap_weight=self.gap_weight[has_gap],
        )

    @property
    def page_of_gap(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


def concatenate(parts: Sequence[Histories]) -> Histories:
    """Join histories in columns."""
    if not parts:
        return decode_columns([])
    ends = np.cumsum([part.gap_s.size for part in parts])
    starts = [part.starts[:-1] + end - part.gap_s.size for part, end in zip(parts, ends, strict=True)]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_NUMBERS, "gap_s", "gap_weight")
    }
    return Histories(**joined, starts=np.append(np.concatenate(starts), ends[-1]))


def decode_columns(records: Sequence[bytes]) -> Histories:
    """Convert encoded histories to columns, without a loop over them; ValueError if a record is not a history."""
    lengths = np.fromiter(map(len, records), dtype=np.int64, count=len(records))
    if lengths.size and lengths.min() < _HEAD.size:
        raise ValueError("truncated visit history")
    # One gather reads all heads at once; the octets that belong to no head are the gaps, in the order of pages.
    octets = np.frombuffer(b"".join(records), dtype=np.uint8)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    heads = octets[starts[:-1, None] + np.arange(_HEAD.size)].reshape(-1).view(_HEAD_TYPE)
    counts = heads["gaps"].astype(np.int64)
    if np.any(heads["format"] != _FORMAT) or np.any(lengths != _HEAD.size + counts * _GAP.size):
        raise ValueError("truncated visit history, or in an unknown format")
    is_gap = np.ones(octets.size, dtype=np.bool_)
    is_gap[(starts[:-1, None] + np.arange(_HEAD.size)).reshape(-1)] = False
    gaps = octets[is_gap].view("<f4").reshape(-1, 2).astype(np.float64)
    return Histories(
        **{name: heads[name].astype(np.float64) for name in _NUMBERS},
        starts=np.concatenate(([0], np.cumsum(counts))),
        gap_s=gaps[:, 0],
        gap_weight=gaps[:, 1],
    )
