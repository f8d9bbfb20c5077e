"""Retention: captures that the rules of a collection do not keep are removed from the archive.

Always kept are the last capture of each page, the one that its readers get, and every record that a kept capture needs:
a revisit record has no body of its own. What `retention` in the settings keeps besides is computed page by page. If the
archive is larger than its quota after that, the oldest of the other captures go as well.

A removal survives a crash at any point:

1. One transaction for each cell forgets the captures and stores which records are to be erased.
2. The records are erased, file by file; each file is the old one or the new one (store/erase.py).
3. One transaction for each cell marks the erasure as done.

After a crash between 1 and 3 the next `teia retain` or crawl erases the rest.

`teia retain` applies the rules while no crawl runs (transfer/retention.py). A crawl that reaches its quota applies them
itself, when nothing of it is under way, and continues (`retain_for_quota`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from teia.clock import Clock
from teia.config.sections import RetentionSettings
from teia.crawler.open_cell import Cell, ErasableCell, ErasureStopped, plan_erasures
from teia.crawler.resources import allocated_bytes
from teia.errors import StoreError
from teia.frontier.cell.connection import RowKey
from teia.frontier.tables.captures import CaptureRow, captures_by_page, forget_captures
from teia.store.reader import ArchiveReader

DAY_S = 86_400.0
MAX_ROUNDS = 20
"""Most times that captures are removed for one quota."""

QUOTA_SHARE = 0.8
"""Part of its quota that a crawl leaves full: it should not remove captures again after the next commit."""


@dataclass(slots=True)
class RetentionResult:
    """Captures that go, by rule, or that went; and the disk space of the archive.

    `captures` and `pages` are the numbers before, in the last round of several. `held` would go by the rules but have
    the body of a capture that stays. In a dry run `bytes` counts the answers alone. `was_stopped`: records that were
    to be erased are left to the next start.
    """

    collection: str
    captures: int = 0
    pages: int = 0
    removed: int = 0
    by_rule: dict[str, int] = field(default_factory=dict)
    held: int = 0
    bytes: int = 0
    archive_bytes: int = 0
    quota_bytes: int = 0
    is_over_quota: bool = False
    is_dry_run: bool = True
    was_stopped: bool = False


@dataclass(slots=True)
class RetentionCell(ErasableCell):
    """A cell whose captures are judged."""

    goes: dict[tuple[RowKey, float], CaptureRow] = field(default_factory=dict)
    held: set[tuple[RowKey, float]] = field(default_factory=set)
    rules: dict[tuple[RowKey, float], str] = field(default_factory=dict)


def apply_rules(
    cells: Sequence[RetentionCell], settings: RetentionSettings, clock: Clock, result: RetentionResult
) -> None:
    """Remove the captures that go, or only count them in a dry run; nothing is appended to the archive meanwhile."""
    result.archive_bytes = allocated_bytes(cell.folder.archive for cell in cells)
    for _ in range(MAX_ROUNDS):
        number = _plan(cells, settings, clock.now_s(), result)
        if result.is_dry_run:
            result.bytes = sum(capture.length for cell in cells for capture in cell.goes.values())
            break
        _remove(cells, result)
        # A removed record frees the blocks of the disk that it fills alone, so more may have to go.
        if not number or not settings.quota_bytes or result.archive_bytes <= settings.quota_bytes:
            break
    left_bytes = result.archive_bytes - (result.bytes if result.is_dry_run else 0)
    result.is_over_quota = bool(result.quota_bytes) and left_bytes > result.quota_bytes


def retain_for_quota(
    name: str, cells: Sequence[Cell], settings: RetentionSettings, clock: Clock, is_stopping: Callable[[], bool]
) -> RetentionResult:
    """Apply the rules to the open cells of a crawl with nothing under way; runs in the commit thread.

    A stop leaves the file at hand and the others to the next start.
    """
    result = RetentionResult(name, quota_bytes=settings.quota_bytes, is_dry_run=False)
    judged = [RetentionCell(cell.folder, cell.frontier, partial(cell.erase_planned, is_stopping)) for cell in cells]
    for cell in cells:
        cell.is_in_commit = True
    try:
        apply_rules(judged, replace(settings, quota_bytes=int(settings.quota_bytes * QUOTA_SHARE)), clock, result)
    except ErasureStopped:
        result.was_stopped = True
    finally:
        for cell in cells:
            cell.is_in_commit = False
    return result


# ---- rules ----------------------------------------------------------------------------------------------------------


def _plan(cells: Sequence[RetentionCell], settings: RetentionSettings, now_s: float, result: RetentionResult) -> int:
    """Note the captures that go and return their number; under a quota others go in place of those that are held."""
    for cell in cells:
        cell.held.clear()
    for _ in range(MAX_ROUNDS):
        for cell in cells:
            cell.goes.clear()
        _choose(cells, settings, now_s, result)
        if not _hold_needed(cells) or not settings.quota_bytes:
            break
    result.held = sum(len(cell.held) for cell in cells)
    for rule in (cell.rules[place] for cell in cells for place in cell.goes):
        result.by_rule[rule] = result.by_rule.get(rule, 0) + 1
    number = sum(len(cell.goes) for cell in cells)
    result.removed += number
    return number


def _choose(cells: Sequence[RetentionCell], settings: RetentionSettings, now_s: float, result: RetentionResult) -> None:
    """Note the captures that go: those that the rules do not keep, and the oldest ones above the quota."""
    spare: list[tuple[float, int, int, RowKey, CaptureRow]] = []
    freed = result.captures = result.pages = 0
    for number, cell in enumerate(cells):
        for row_key, captures in captures_by_page(cell.frontier):
            result.captures += len(captures)
            result.pages += 1
            reasons = removal_reasons(captures, settings, now_s)
            for capture, reason in zip(captures, reasons, strict=True):
                if (row_key, capture.time_s) in cell.held:
                    continue
                if reason:
                    cell.goes[row_key, capture.time_s] = capture
                    cell.rules[row_key, capture.time_s] = reason
                    freed += capture.length
                elif reason is None and settings.quota_bytes:
                    spare.append((capture.time_s, number, len(spare), row_key, capture))
    excess = result.archive_bytes - freed - settings.quota_bytes
    for time_s, number, _, row_key, capture in sorted(spare):
        if excess <= 0:
            break
        cells[number].goes[row_key, time_s] = capture
        cells[number].rules[row_key, time_s] = "quota"
        excess -= capture.length


def removal_reasons(captures: Sequence[CaptureRow], settings: RetentionSettings, now_s: float) -> list[str | None]:
    """Return for each capture of a page the rule that removes it; None: it may go, empty: it always stays."""
    versions = _version_numbers(captures)
    reasons: list[str | None] = []
    for number, capture in enumerate(captures):
        is_last = number == len(captures) - 1
        is_first = settings.first and number == 0
        if (
            is_last
            or is_first
            or capture.is_current
            or (settings.monthly and _month(capture) != _month(captures[number + 1]))
        ):
            reasons.append("")
        elif settings.versions and versions[-1] - versions[number] >= settings.versions:
            reasons.append("versions")
        elif settings.days and now_s - capture.time_s > settings.days * DAY_S:
            reasons.append("days")
        else:
            reasons.append(None)
    return reasons


def _version_numbers(captures: Sequence[CaptureRow]) -> list[int]:
    """Return the number of each capture's version: a capture with another content begins a new one."""
    numbers: list[int] = []
    for number, capture in enumerate(captures):
        is_new = number > 0 and capture.digest != captures[number - 1].digest
        numbers.append(numbers[-1] + is_new if numbers else 0)
    return numbers


def _month(capture: CaptureRow) -> str:
    return datetime.fromtimestamp(capture.time_s, UTC).strftime("%Y%m")


def _hold_needed(cells: Sequence[RetentionCell]) -> bool:
    """Keep every record with a body that a kept capture may refer to: one with the same digest, of any page.

    Return True if there was one among those that were to go.
    """
    digests = {capture.digest for cell in cells for capture in cell.goes.values()}
    needed: set[bytes] = set()
    before = sum(len(cell.held) for cell in cells)
    for cell in cells:
        for row_key, captures in captures_by_page(cell.frontier):
            kept = (each for each in captures if (row_key, each.time_s) not in cell.goes)
            needed.update(each.digest for each in kept if each.digest in digests)
    for cell in cells:
        reader = ArchiveReader(cell.folder.archive)
        for place, capture in [*cell.goes.items()]:
            # A revisit record has no body, so nothing refers to it.
            if capture.digest in needed and _has_body(reader, capture):
                del cell.goes[place]
                cell.held.add(place)
    return sum(len(cell.held) for cell in cells) > before


def _has_body(reader: ArchiveReader, capture: CaptureRow) -> bool:
    try:
        return reader.read(capture.file, capture.offset).kind != "revisit"
    except StoreError:
        return True


# ---- removal --------------------------------------------------------------------------------------------------------


def _remove(cells: Sequence[RetentionCell], result: RetentionResult) -> None:
    for cell in cells:
        if cell.goes:
            with cell.frontier.transaction():
                forget_captures(cell.frontier, cell.goes)
                plan_erasures(cell.frontier, _places(cell), "retention")
    for cell in cells:
        result.bytes += cell.erase().bytes
        cell.goes.clear()
    result.archive_bytes = allocated_bytes(cell.folder.archive for cell in cells)


def _places(cell: RetentionCell) -> Iterator[tuple[str, int]]:
    return ((capture.file, capture.offset) for capture in cell.goes.values())
