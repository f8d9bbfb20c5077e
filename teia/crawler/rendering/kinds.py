"""Which pages are rendered: learnt by trials, for each site, pattern of URLs and set of scripts.

Scripts decide what rendering brings. So a page with scripts of each kind is a trial. A *kind* is a host, a pattern of
URLs (frontier/traps/patterns.py), the hash of the page's scripts, and whether the page is nearly empty without them
(parse/html/script_signs.py).

- A trial that brings `CLEAR` words or links, or more, shows that the kind is to be rendered.
- One that brings fewer is followed by another. If that adds the same once more, such as a notice on each page, the kind
  is not rendered; if it adds something of its own, it is.
- One that brings nothing, or that fails, shows that the kind is not rendered.

A kind whose pages brought nothing new `BARREN` times in a row is not rendered any more. A kind that is not rendered is
tried again after some of its pages, each time twice as many, but not within `AGAIN_S`; and in any case after `RETRY_S`.
Scripts that brought nothing to a page bring nothing to pages of the host's other patterns that have as much text
without them; and if `SAME_SCRIPTS` patterns show it, to none, unless the page is nearly empty.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from teia.lib.undecodable import UNDECODABLE

CLEAR = 20
BARREN = 3
SAME_SCRIPTS = 2
FIRST_SKIP, MOST_SKIPS = 1_000, 64_000
AGAIN_S, RETRY_S = 600.0, 7 * 86_400.0
NEVER_BARREN = 2**30
MAX_KINDS = 200
"""Number of kinds of a host that are remembered; further ones are not rendered unless they are nearly empty.

As many again are remembered of nearly empty pages; all further such pages of the host are one kind.
"""


class RenderVerdict(IntEnum):
    """What is known of a kind of pages; the numbers are stored."""

    UNKNOWN = 0
    UNSURE = 1
    """A trial brought a little; another one decides."""
    RENDERED = 2
    STATIC = 3


class RenderKind(msgspec.Struct, array_like=True):
    """A kind of pages of a host, and what its trials have shown.

    `words` and `links` are all that rendering brought; `added` are hashes of what the first trial added. `skips` is the
    number of pages without a trial before the next one, of which `skipped` have come. `is_failing`: the last page could
    not be rendered. `barren_chars` is the least text of a page to which rendering brought nothing.
    """

    pattern: str
    scripts: int
    is_empty: bool
    verdict: RenderVerdict = RenderVerdict.UNKNOWN
    rendered: int = 0
    gained: int = 0
    failed: int = 0
    barren: int = 0
    words: int = 0
    links: int = 0
    skips: int = FIRST_SKIP
    skipped: int = 0
    tried_s: float = 0.0
    added: list[int] = []
    is_failing: bool = False
    barren_chars: int = NEVER_BARREN

    @property
    def is_undecided(self) -> bool:
        """True until its trials have shown whether it is rendered."""
        return self.verdict is RenderVerdict.UNKNOWN or self.verdict is RenderVerdict.UNSURE

    def is_wanted(self, now_s: float) -> bool:
        """Tell whether a page of this kind is to be rendered now; a page that is not counts as skipped."""
        if self.verdict is not RenderVerdict.STATIC:
            return True
        if not self.rendered:  # judged by other kinds with its scripts; those are tried again
            return False
        self.skipped += 1
        age_s = now_s - self.tried_s
        if age_s <= RETRY_S and (self.skipped <= self.skips or age_s < AGAIN_S):
            return False
        # This page is the trial; others do not wait for it.
        self.skipped, self.tried_s = 0, now_s
        return True

    def note_gain(self, words: int, links: int, added: list[int], now_s: float, chars: int = NEVER_BARREN) -> None:
        """Learn from a page that was rendered, and has so much text without its scripts."""
        # As compared with the kind's other pages: a menu that is made by a script is a gain once.
        new = len(set(added).difference(self.added))
        self.rendered, self.tried_s, self.skipped = self.rendered + 1, now_s, 0
        self.words, self.links = self.words + words, self.links + links
        self.gained += new > 0
        self.is_failing = False
        if not self.added:
            self.added = added
        if self.verdict is RenderVerdict.RENDERED:
            self.barren = 0 if new else self.barren + 1
            if self.barren >= BARREN:
                self._skip()
        elif new >= CLEAR or (self.verdict is RenderVerdict.UNSURE and new):
            self.verdict, self.barren, self.skips = RenderVerdict.RENDERED, 0, FIRST_SKIP
        elif new and self.verdict is RenderVerdict.UNKNOWN:
            self.verdict = RenderVerdict.UNSURE
        else:
            self.barren_chars = min(self.barren_chars, chars)
            self._skip()

    def note_failure(self, now_s: float) -> None:
        """Learn from a page that could not be rendered."""
        self.rendered, self.failed, self.tried_s, self.skipped = self.rendered + 1, self.failed + 1, now_s, 0
        self.barren += 1
        self.is_failing = True
        if self.verdict is not RenderVerdict.RENDERED or self.barren >= BARREN:
            self._skip()

    def _skip(self) -> None:
        """Render no more pages of this kind, for longer each time."""
        if self.verdict is RenderVerdict.STATIC:
            self.skips = min(MOST_SKIPS, 2 * self.skips)
        self.verdict, self.barren = RenderVerdict.STATIC, 0


_decode = msgspec.msgpack.Decoder(RenderKind).decode
encode_kind = msgspec.msgpack.Encoder().encode


def decode_kind(record: bytes) -> RenderKind | None:
    """Return a stored kind; None if another version wrote it, so that it is learnt again."""
    try:
        return _decode(record)
    except UNDECODABLE:
        return None


class HostKinds:
    """The kinds of pages of one host."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, int, bool], RenderKind] = {}

    def load(self, records: list[bytes]) -> None:
        """Take what earlier runs have learnt; what this run has learnt is newer."""
        for kind in filter(None, map(decode_kind, records)):
            self._kinds.setdefault((kind.pattern, kind.scripts, kind.is_empty), kind)

    def find(self, pattern: str, scripts: int, *, is_empty: bool, chars: int = 0) -> RenderKind | None:
        """Return the kind of a page, which may be new; None if there are too many. `chars`: its text as received."""
        key = (pattern, scripts, is_empty)
        if is_empty and key not in self._kinds and len(self._kinds) >= 2 * MAX_KINDS:
            pattern, scripts, _ = key = ("", 0, True)
        kind = self._kinds.get(key)
        if kind is None and (is_empty or len(self._kinds) < MAX_KINDS):
            kind = self._kinds[key] = RenderKind(pattern, scripts, is_empty)
        if kind is not None and not kind.rendered and not is_empty:
            is_hopeless = self._is_hopeless(scripts, chars)
            kind.verdict = RenderVerdict.STATIC if is_hopeless else RenderVerdict.UNKNOWN
        return kind

    def _is_hopeless(self, scripts: int, chars: int) -> bool:
        """Tell whether trials of other kinds show that some scripts bring nothing to a page with so much text."""
        same = self._tried(scripts)
        if not all(each.verdict is RenderVerdict.STATIC for each in same):
            return False
        return len(same) >= SAME_SCRIPTS or any(not each.is_empty and each.barren_chars <= chars for each in same)

    def barren_patterns(self, scripts: int) -> int:
        """Return the number of patterns in which some scripts brought nothing; 0 if they brought something in any."""
        same = self._tried(scripts)
        return len(same) if all(each.verdict is RenderVerdict.STATIC for each in same) else 0

    def _tried(self, scripts: int) -> list[RenderKind]:
        return [each for each in self._kinds.values() if each.scripts == scripts and each.rendered]

    def __len__(self) -> int:
        return len(self._kinds)
