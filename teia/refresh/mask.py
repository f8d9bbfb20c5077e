"""A learnt mask for the parts of a text that change by themselves (F3), to find the meaningful changes.

Clocks, counters, advertisements and quotations of the day change at every visit. A page with one of them would seem to
change at every visit. A text is stored as a *sketch*: a number for each of its blocks (lines, as the parser writes
them), 48 at most. Where two sketches differ, each block that was added or removed has *names*:

    its place       its number of blocks behind the last block that stayed, or before the next one that stayed
    its wording     its text without digits, if only the digits changed

A name is *volatile* on a page if it was among the differences at each of the last three visits. It is volatile on a
whole host (places only) if it was in a good share of all differences there and on two pages at least. Templates put
the same things at the same places, while a page's own paragraphs stand between paragraphs that no other page has. A
change all of whose blocks have a volatile name is cosmetic, unless it is a large part of the page: the headlines of a
front page change at one place too. It is also no cosmetic change if it is a large part of the page's *prose*, its long
blocks: the one paragraph of a short page stands beside a heading that other pages have, and may be a small part of the
page with its menus and lists of links.

Known limitation: a price that stands at the same place on all pages of a shop, and is the only thing that ever changes
there, will be masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import pairwise, repeat
from struct import Struct, iter_unpack, pack

Digest = Callable[[bytes], int]
"""xxh3 of 64 bits. Functions import it: planning has to work where only numpy and torch are installed."""

MAX_BLOCKS = 48
STREAK, PAGES = 3, 2
"""Numbers of consecutive visits, and of pages of a host, that make a name volatile."""

HOST_SHARE = 0.15
LARGE_SHARE = 0.25
"""Share of a page's text, or of its prose, above which a change is never cosmetic."""

PROSE_UNITS = 13
"""Least length of a block of prose: 96 octets, some 15 words. Links, headings and labels are shorter."""

MAX_STREAKS = 12
MAX_NAMES = 256
MAX_EVENTS = 256
MAX_OFFSET = 4
OCTETS_A_UNIT = 8

_DIGITS = b"0123456789"
_ALL_BUT_DIGITS = bytes(sorted(set(range(256)) - set(_DIGITS + b"\n")))
_WORD = Struct("<Q")
_STREAK = Struct("<IB")
_NAME = Struct("<BQB")
_ENTRY = Struct("<IH3H")
_START, _END = 1, 2
_BEHIND, _BEFORE, _WORDING = range(3)


def make_sketch(text: str) -> bytes:
    """Return the sketch of a text as the parser writes it, with each block on its own line.

    A number has 40 bits of the block without its digits, 16 of its digits, 8 of its length. Neighbouring blocks of a
    text with too many blocks are joined. The cuts are before the blocks with the smallest numbers, so that they stay in
    place when something else changes.
    """
    from xxhash import xxh3_64_intdigest

    lines = text.encode("utf-8", "replace").split(b"\n")
    octets = b"\n".join(line for line in lines if line and not line.isspace())
    if not octets:
        return b""
    wordings = octets.translate(None, _DIGITS).split(b"\n")
    digits = octets.translate(None, _ALL_BUT_DIGITS).split(b"\n")
    if len(wordings) > MAX_BLOCKS:
        numbers = list(map(xxh3_64_intdigest, wordings))
        # Cuts depend on contents, not on positions: a block inserted above moves no cut below it.
        cuts = sorted({0, *nsmallest(MAX_BLOCKS - 1, range(len(wordings)), key=numbers.__getitem__)})
        spans = list(pairwise((*cuts, len(wordings))))
        wordings = [b"\n".join(wordings[begin:end]) for begin, end in spans]
        digits = [b"\n".join(digits[begin:end]) for begin, end in spans]
    return pack(f"<{len(wordings)}Q", *map(_word, wordings, digits, repeat(xxh3_64_intdigest)))


def _word(wording: bytes, digits: bytes, digest: Digest) -> int:
    # 40 bits of the wording, 16 of the digits, 8 of the length in units of 8 octets.
    length = (len(wording) + len(digits)) // OCTETS_A_UNIT + 1
    number = digest(digits) & 0xFFFF if digits else 0
    return digest(wording) >> 24 << 24 | number << 8 | min(255, length)


@dataclass(slots=True)
class SketchDifference:
    """The difference of two sketches: the names of each added or removed block, and the amount of text affected.

    Amounts are of all text and of prose.
    """

    blocks: list[tuple[int, ...]]
    changed: tuple[int, int]
    total: tuple[int, int]

    @property
    def is_large(self) -> bool:
        return any(part > LARGE_SHARE * whole for part, whole in zip(self.changed, self.total, strict=True))

    @property
    def names(self) -> set[int]:
        return {name for block in self.blocks for name in block}


def difference(before: bytes, now: bytes) -> SketchDifference:
    """Compare two sketches."""
    old, new = ([word for (word,) in _WORD.iter_unpack(sketch)] for sketch in (before, now))
    blocks: list[tuple[int, ...]] = []
    text = prose = 0
    for tag, *spans in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        old_from, old_to, new_from, new_to = spans
        worded = {word >> 24 for word in old[old_from:old_to]} & {word >> 24 for word in new[new_from:new_to]}
        blocks += _names(old, old_from, old_to, worded)
        blocks += _names(new, new_from, new_to, worded)
        of_text, of_prose = _longer(old[old_from:old_to], new[new_from:new_to])
        text, prose = text + of_text, prose + of_prose
    return SketchDifference(blocks, (text, prose), _longer(old, new))


def _names(words: list[int], begin: int, end: int, worded: set[int]) -> Iterator[tuple[int, ...]]:
    from xxhash import xxh3_64_intdigest

    left = words[begin - 1] >> 24 if begin else _START
    right = words[end] >> 24 if end < len(words) else _END
    for at in range(begin, end):
        names = []
        if at - begin < MAX_OFFSET:
            names.append(_name(_BEHIND, left, at - begin, xxh3_64_intdigest))
        if end - 1 - at < MAX_OFFSET:
            names.append(_name(_BEFORE, right, end - 1 - at, xxh3_64_intdigest))
        if words[at] >> 24 in worded:
            names.append(_name(_WORDING, words[at] >> 24, 0, xxh3_64_intdigest))
        yield tuple(names)


def _name(kind: int, anchor: int, offset: int, digest: Digest) -> int:
    """Return a name of 32 bits; the lowest two bits are its kind."""
    return digest(_NAME.pack(kind, anchor, offset)) & 0xFFFFFFFC | kind


def _longer(old: list[int], new: list[int]) -> tuple[int, int]:
    """Return the length of the longer of two texts, and of the longer prose."""
    lengths = [[word & 0xFF for word in words] for words in (old, new)]
    return max(map(sum, lengths)), max(sum(length for length in each if length >= PROSE_UNITS) for each in lengths)


@dataclass(slots=True)
class PageMask:
    """The stored state of one page: the sketch of its last text, and names with their numbers of consecutive visits."""

    sketch: bytes = b""
    streaks: dict[int, int] = field(default_factory=dict)

    def learn(self, found: SketchDifference, now: bytes) -> None:
        """Record the differences to a new text, and store the sketch of that text.

        A change of most of the page is ignored: it says nothing about parts that change by themselves.
        """
        self.sketch = now
        if not found.is_large:
            longest = sorted(found.names, key=lambda name: -self.streaks.get(name, 0))[:MAX_STREAKS]
            self.streaks = {name: min(STREAK, self.streaks.get(name, 0) + 1) for name in longest}

    def is_volatile(self, name: int) -> bool:
        return self.streaks.get(name, 0) >= STREAK

    def encode(self) -> bytes:
        streaks = b"".join(_STREAK.pack(name, streak) for name, streak in self.streaks.items())
        return bytes([len(self.streaks)]) + streaks + self.sketch

    @classmethod
    def decode(cls, record: bytes) -> PageMask:
        """Read the output of `encode`; an empty record gives an empty mask."""
        if not record:
            return cls()
        end = 1 + record[0] * _STREAK.size
        return cls(record[end:], dict(iter_unpack(_STREAK.format, record[1:end])))


@dataclass(slots=True)
class HostMask:
    """Places of a host's pages with the number of times they differed; `events` counts the differences.

    A name's entry is (times, pages): three pages are remembered, by 16 bits of their keys.
    """

    events: int = 0
    names: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def learn(self, found: SketchDifference, page_key: int) -> None:
        if self.events >= MAX_EVENTS:
            self._forget_half()
        self.events += 1
        page = page_key & 0xFFFF
        for name in found.names:
            if name & 3 == _WORDING:
                continue
            times, pages = self.names.get(name, (0, ()))
            if page not in pages and len(pages) < STREAK:
                pages = (*pages, page)
            self.names[name] = (times + 1, pages)
        if len(self.names) > MAX_NAMES:
            # Cut to three quarters, so that the sort is not needed again at the next name.
            most_frequent = sorted(self.names.items(), key=lambda entry: -entry[1][0])[: MAX_NAMES * 3 // 4]
            self.names = dict(most_frequent)

    def _forget_half(self) -> None:
        self.events //= 2
        self.names = {name: (times // 2, pages) for name, (times, pages) in self.names.items() if times > 1}

    def is_volatile(self, name: int) -> bool:
        times, pages = self.names.get(name, (0, ()))
        return len(pages) >= PAGES and times >= max(PAGES, HOST_SHARE * self.events)

    def encode(self) -> bytes:
        """Return the mask as at most 3 kB."""
        # A record has room for three pages. Fewer are padded with the first one; `decode` removes the repeats.
        padded = ((name, times, *(*pages, *pages[:1] * STREAK)[:STREAK]) for name, (times, pages) in self.names.items())
        return self.events.to_bytes(2, "little") + b"".join(_ENTRY.pack(*entry) for entry in padded)

    @classmethod
    def decode(cls, record: bytes) -> HostMask:
        """Read the output of `encode`; an empty record gives an empty mask."""
        if not record:
            return cls()
        entries = _ENTRY.iter_unpack(record[2:])
        names = {name: (times, tuple(dict.fromkeys(pages))) for name, times, *pages in entries}
        return cls(int.from_bytes(record[:2], "little"), names)


def check_cosmetic(page: PageMask, host: HostMask, page_key: int, now: bytes) -> bool | None:
    """Tell whether a text differs from the page's last one only in volatile parts, and learn from it.

    None if there is no earlier sketch to compare with.
    """
    if not page.sketch:
        page.sketch = now
        return None
    found = difference(page.sketch, now)
    # Learn before judging: a part that changed at the last two visits and at this one is volatile now.
    page.learn(found, now)
    host.learn(found, page_key)
    if found.is_large:
        return False
    is_masked = (any(page.is_volatile(name) or host.is_volatile(name) for name in block) for block in found.blocks)
    return bool(found.blocks) and all(is_masked)


def record_unchanged(page: PageMask, now: bytes) -> None:
    """Record that a page's text was the same, so no part of it changes at every visit."""
    page.sketch = now
    page.streaks = {}
