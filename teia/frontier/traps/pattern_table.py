"""The patterns of one host, in memory and in the cell's `patterns` table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field

import msgspec

from teia.frontier.cell.connection import CellConnection
from teia.frontier.traps.detector import Pattern, PatternState, Tally, WatchReason
from teia.frontier.traps.patterns import wider

MAX_PATTERNS = 128
"""Greatest number of patterns of one host; later ones count as the pattern `other`."""

MAX_IN_FAMILY = 12
MAX_NAME_SETS = 4
"""Greatest number of patterns that differ only in their first segment, or only in their parameters' names.

More are merged into one pattern.
"""

OTHER = "other"

_COLUMNS = (
    "number", "text", "parent", "state", "reason", "credit", "acquittals", "convictions", "refused", "given_up",
)  # fmt: skip
"""Columns, and attributes of `Pattern`."""

_NAMES = ", ".join(_COLUMNS)
_MARKS = ", ".join("?" * (len(_COLUMNS) + 3))

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[tuple[float, ...], tuple[float, ...], list[int]]).decode


@dataclass(slots=True, eq=False)
class HostPatterns:
    """The patterns of one host. Numbers are its own, from 1; `new` are patterns that are not on disk yet.

    `touched` are patterns with new counts since they were last evaluated; `linked_twice` keys of URLs that another
    page links to too; `plain` keys of found URLs of which another spelling may be queued; `loaded` keys that are in
    the crawler's memory, with the number of their pattern.
    """

    host: str
    host_id: int
    slot: int
    by_text: dict[str, Pattern] = field(default_factory=dict)
    by_number: dict[int, Pattern] = field(default_factory=dict)
    new: list[Pattern] = field(default_factory=list)
    touched: dict[Pattern, None] = field(default_factory=dict)
    linked_twice: list[int] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)
    loaded: dict[int, int] = field(default_factory=dict)
    has_spellings: bool = False
    _families: Counter[str] = field(default_factory=Counter)

    def get(self, number: int) -> Pattern | None:
        """Return the pattern of a number of either sign."""
        return self.by_number.get(abs(number))

    def parent_of(self, pattern: Pattern) -> Pattern | None:
        return self.by_number.get(pattern.parent)

    def is_alone(self, pattern: Pattern) -> bool:
        """Tell whether no other pattern of the host has as many new pages."""
        shown = pattern.all.read - pattern.all.alike
        return all(each.new_pages < shown for each in self.by_number.values() if each is not pattern)

    def get_or_create(self, text: str, parent: int = 0, reason: WatchReason = WatchReason.NONE) -> Pattern:
        """Return the pattern of this text, created if it is new, or a wider one where a host has too many."""
        found = self.by_text.get(text)
        if found is not None:
            return found
        # A full family shares the wider pattern; a full host shares `other`, which always has room.
        if not self.has_room_for(text):
            return self.get_or_create(wider(text), parent)
        if len(self.by_number) >= MAX_PATTERNS and text != OTHER:
            return self.get_or_create(OTHER, parent)
        found = Pattern(len(self.by_number) + 1, text, parent)
        if reason:
            found.defer(reason)
        self._add(found)
        self.new.append(found)
        return found

    def has_room_for(self, text: str) -> bool:
        """Tell whether a text may have a pattern of its own; False if its family has too many."""
        family = wider(text)
        most = MAX_NAME_SETS if family.endswith("?*") else MAX_IN_FAMILY
        return text == family or self._families[family] < most

    def _add(self, pattern: Pattern) -> None:
        self.by_text[pattern.text] = self.by_number[pattern.number] = pattern
        self._families[wider(pattern.text)] += 1

    # -- on disk -------------------------------------------------------------------------------------------

    def load(self, cell: CellConnection) -> None:
        """Read the committed patterns; an unreadable row raises one of UNDECODABLE or a ValueError."""
        sql = f"SELECT {_NAMES}, counts FROM patterns WHERE slot = ? AND host_id = ? ORDER BY number"  # noqa: S608  # our own names
        for *values, counts in cell.db.execute(sql, (self.slot, self.host_id)):
            of_all, of_tries, recent = _decode(counts)
            pattern = Pattern(**dict(zip(_COLUMNS, values, strict=True)))
            pattern.state, pattern.reason = PatternState(pattern.state), WatchReason(pattern.reason)
            pattern.all, pattern.tries = Tally(*of_all), Tally(*of_tries)  # type: ignore[arg-type]  # all but `cost` are whole
            pattern.recent = recent
            self._add(pattern)
        sql = "SELECT 1 FROM spellings WHERE slot = ? AND host_id = ? LIMIT 1"
        self.has_spellings = cell.db.execute(sql, (self.slot, self.host_id)).fetchone() is not None

    def save(self, cell: CellConnection, patterns: Iterable[Pattern]) -> None:
        """Store patterns; inside a transaction."""
        host_key = (self.slot, self.host_id)
        cell.db.executemany(
            f"INSERT OR REPLACE INTO patterns (slot, host_id, {_NAMES}, counts) VALUES ({_MARKS})",  # noqa: S608  # our own names
            [(*host_key, *(getattr(each, name) for name in _COLUMNS), _counts(each)) for each in patterns],
        )


def _counts(pattern: Pattern) -> bytes:
    return _encode((astuple(pattern.all), astuple(pattern.tries), pattern.recent))


def suspicious_hosts(cell: CellConnection) -> list[tuple[str, int, int]]:
    """Return (name, host id, slot) of hosts with patterns that are, or were, held back or refused."""
    sql = """
        SELECT DISTINCT h.name, h.host_id, h.slot FROM patterns AS p JOIN hosts AS h ON h.host_id = p.host_id
        WHERE p.state <> ? OR p.refused > 0
    """
    return list(cell.rows(sql, int(PatternState.OPEN)))


def refusing_hosts(cell: CellConnection) -> set[int]:
    """Return the numbers of hosts with patterns whose URLs were refused."""
    return {host_id for (host_id,) in cell.rows("SELECT DISTINCT host_id FROM patterns WHERE refused > 0")}
