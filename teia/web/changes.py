"""What a setting was before a change and what it is after it, as the log of changes keeps it.

A value may be a list of thousands of seeds. Of what is long, the part is kept where both begin to differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

CHARS, CONTEXT_CHARS = 500, 60


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One setting that would be another one, or is."""

    key: str
    before: str
    after: str

    def excerpts(self) -> tuple[str, str]:
        """Both values; of long ones, where they begin to differ."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.before, self.after, strict=False)))
        is_long = max(len(self.before), len(self.after)) > CHARS
        begin = max(same - CONTEXT_CHARS, 0) if is_long else 0
        return _cut(self.before, begin), _cut(self.after, begin)


def packed(changes: Iterable[ChangeLine]) -> dict[str, tuple[str, str]]:
    """By key: what it was and what it is."""
    return {each.key: each.excerpts() for each in changes}


def unpacked(detail: Mapping[str, Any]) -> tuple[list[ChangeLine], dict[str, str]]:
    """What was kept, apart: the changes, and what else was written down; lines of old logs have only the latter."""
    changes = [ChangeLine(key, *map(str, value)) for key, value in detail.items() if _is_pair(value)]
    return changes, {key: str(value) for key, value in detail.items() if not _is_pair(value)}


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _cut(text: str, begin: int) -> str:
    left, right = "…" if begin else "", "…" if len(text) > begin + CHARS else ""
    return f"{left}{text[begin : begin + CHARS]}{right}"
