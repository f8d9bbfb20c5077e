"""Suspected traps: the URL patterns that wait or are parked, and the links that no rule let in (T9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teia.frontier.tables.counts import suspects_by_pattern
from teia.frontier.traps.detector import SHAPE, Pattern, PatternState
from teia.frontier.traps.pattern_table import HostPatterns, suspicious_hosts
from teia.lib.message import Message
from teia.views.reports.source import OpenCell, Source

STATUS_NAMES = {
    PatternState.OPEN: Message("open"),
    PatternState.WAITING: Message("queued last"),
    PatternState.PARKED: Message("parked"),
}


@dataclass(frozen=True, slots=True)
class TrapRow:
    """One pattern of one host. `rule` is why, `pages` were read of it, `refused` are links that were not kept."""

    host: str
    pattern: str
    rule: str
    standing: str
    pages: int
    waiting: int
    given_up: int
    refused: int


@dataclass(frozen=True, slots=True)
class Traps:
    """Numbers of URLs given up and waiting, and of links refused; the largest patterns one by one."""

    given_up: int
    waiting: int
    refused: int
    hosts: int
    rows: tuple[TrapRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "Given up: URLs with the outcome `trap`. Queued: URLs queued last, some of which are fetched as a test."
            " Refused: links that were discarded. A pattern stands for URLs that differ only in numbers (0), words (w)"
            " or tokens (*)."
        ),
    )


def traps(source: Source, top: int = 25) -> Traps:
    """Show the patterns that are not trusted, and the rules of shape that refused something."""
    found = [row for cell in source.cells for row in _rows(cell)]
    found.sort(key=lambda row: (-row.given_up - row.waiting - row.refused, row.host, row.pattern))
    return Traps(
        sum(row.given_up for row in found),
        sum(row.waiting for row in found),
        sum(row.refused for row in found),
        len({row.host for row in found}),
        tuple(found[:top]),
    )


def _rows(cell: OpenCell) -> Iterator[TrapRow]:
    waiting = suspects_by_pattern(cell.frontier)
    for host, host_id, slot in suspicious_hosts(cell.frontier):
        known = HostPatterns(host, host_id, slot)
        known.load(cell.frontier)
        for pattern in known.by_number.values():
            if pattern.state is not PatternState.OPEN or pattern.refused:
                yield _row(host, pattern, waiting.get((host_id, pattern.number), 0))


def _row(host: str, pattern: Pattern, waiting: int) -> TrapRow:
    # A shape rule has no pattern of its own: the text is the rule's name.
    is_shape = pattern.text.startswith(SHAPE)
    return TrapRow(
        host,
        "" if is_shape else pattern.text,
        pattern.text.removeprefix(SHAPE) if is_shape else str(pattern.reason),
        "refused" if is_shape else STATUS_NAMES[pattern.state],
        int(pattern.all.read),
        waiting,
        pattern.given_up,
        pattern.refused,
    )
