"""Values of settings before and after a change, shortened for the audit log.

A value may be a list of thousands of seeds. Of a long list, the log keeps the removed and the added items. Of any other
long text, it keeps the part that differs, with some context. A part that is still too long is cut and ends with the
number of omitted items or characters: `… +120`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any

from teia.config.load import toml_value

CHARS, LIST_CHARS, CONTEXT_CHARS = 500, 4_000, 60


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One setting with its value before and after a change, made or proposed."""

    key: str
    before: str
    after: str

    def excerpts(self) -> tuple[str, str]:
        """Return both values; of long ones, only the parts that differ."""
        if max(len(self.before), len(self.after)) <= CHARS:
            return self.before, self.after
        # Both are empty for a list that was only reordered, and for values that are no lists.
        gone, new = _removed_and_added(_items(self.before), _items(self.after))
        if gone or new:
            return _format_items(gone), _format_items(new)
        return _differing_parts(self.before, self.after)


def pack_changes(changes: Iterable[ChangeLine]) -> dict[str, tuple[str, str]]:
    """Return the excerpts before and after each change, by key."""
    return {each.key: each.excerpts() for each in changes}


def unpack_changes(detail: Mapping[str, Any]) -> tuple[list[ChangeLine], dict[str, str]]:
    """Split a log entry into its changes and its other details; entries of old logs have only details."""
    changes = [ChangeLine(key, *map(str, value)) for key, value in detail.items() if _is_pair(value)]
    return changes, {key: str(value) for key, value in detail.items() if not _is_pair(value)}


def _is_pair(value: object) -> bool:
    # `pack_changes` makes tuples, which JSON returns as lists; all other details are texts and numbers.
    return isinstance(value, list) and len(value) == 2


def _items(text: str) -> list[str]:
    """Return the items of a list as TOML values; empty if the text is not a list."""
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [toml_value(item) for item in value] if isinstance(value, list) else []


def _removed_and_added(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Return the removed and the added items."""
    gone, new = Counter(before), Counter(after)
    return list((gone - new).elements()), list((new - gone).elements())


def _format_items(items: list[str]) -> str:
    ends = accumulate(len(item) for item in items)
    fitting = max(1, sum(1 for end in ends if end <= LIST_CHARS))
    shown, left = [_cut(item, LIST_CHARS) for item in items[:fitting]], len(items) - fitting
    return f"[{', '.join(['…', *shown, *([f'… +{left}'] if left > 0 else [])])}]"


def _differing_parts(before: str, after: str) -> tuple[str, str]:
    first = _common_prefix_length(before, after)
    # Without the common beginning, so that the two equal parts cannot overlap.
    last = _common_prefix_length(before[first:][::-1], after[first:][::-1])
    begin, end_cut = max(first - CONTEXT_CHARS, 0), max(last - CONTEXT_CHARS, 0)
    left, right = "…" if begin else "", "…" if end_cut else ""
    both = [_cut(text[begin : len(text) - end_cut], CHARS) for text in (before, after)]
    return f"{left}{both[0]}{right}", f"{left}{both[1]}{right}"


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… +{len(text) - most}"
