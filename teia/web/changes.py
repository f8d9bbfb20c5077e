"""What a setting was before a change and what it is after it, as the log of changes keeps it.

A value may be a list of thousands of seeds. Of a long list those items are kept that went and those that came; of
another long text, from where both begin to differ to where they end to. What is still too long ends with how much of it
is left out: `… +120` items, or characters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any

from teia.config import toml_value

CHARS, LIST_CHARS, CONTEXT_CHARS = 500, 4_000, 60


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One setting that would be another one, or is."""

    key: str
    before: str
    after: str

    def excerpts(self) -> tuple[str, str]:
        """Both values; of long ones, what differs."""
        if max(len(self.before), len(self.after)) <= CHARS:
            return self.before, self.after
        gone, new = _moved(_items(self.before), _items(self.after))
        if gone or new:
            return _listed(gone), _listed(new)
        return _differing(self.before, self.after)


def packed(changes: Iterable[ChangeLine]) -> dict[str, tuple[str, str]]:
    """By key: what it was and what it is."""
    return {each.key: each.excerpts() for each in changes}


def unpacked(detail: Mapping[str, Any]) -> tuple[list[ChangeLine], dict[str, str]]:
    """What was kept, apart: the changes, and what else was written down; lines of old logs have only the latter."""
    changes = [ChangeLine(key, *map(str, value)) for key, value in detail.items() if _is_pair(value)]
    return changes, {key: str(value) for key, value in detail.items() if not _is_pair(value)}


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _items(text: str) -> list[str]:
    """Each item of a list as it is written; nothing where the text is no list."""
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [toml_value(item) for item in value] if isinstance(value, list) else []


def _moved(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Which items went and which came."""
    gone, new = Counter(before), Counter(after)
    return list((gone - new).elements()), list((new - gone).elements())


def _listed(items: list[str]) -> str:
    ends = accumulate(len(item) for item in items)
    fitting = max(1, sum(1 for end in ends if end <= LIST_CHARS))
    shown, left = [_cut(item, LIST_CHARS) for item in items[:fitting]], len(items) - fitting
    return f"[{', '.join(['…', *shown, *([f'… +{left}'] if left > 0 else [])])}]"


def _differing(before: str, after: str) -> tuple[str, str]:
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    begin, behind = max(first - CONTEXT_CHARS, 0), max(last - CONTEXT_CHARS, 0)
    left, right = "…" if begin else "", "…" if behind else ""
    both = [_cut(text[begin : len(text) - behind], CHARS) for text in (before, after)]
    return f"{left}{both[0]}{right}", f"{left}{both[1]}{right}"


def _alike(one: str, other: str) -> int:
    """With how many characters both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… +{len(text) - most}"
