"""More like this: pages on the subject of a given page."""

from __future__ import annotations

from collections import Counter

from teia.index.entry import IndexEntry
from teia.search.query.analysis import stem_of, stems_in
from teia.search.query.words import WORD
from teia.search.rank.plan import Group, Plan, Term
from teia.search.rank.statistics import CountsDemand, TermCounts

MAX_CHARS = 65_536
MAX_CONSIDERED = 200
MAX_TERMS = 25
MIN_CHARS = 3
TITLE_COUNTS = 3
"""Number of text words that a word of the title counts as."""


class Subject:
    """The subject of a page, as terms."""

    def __init__(self, entry: IndexEntry) -> None:
        counts = Counter(stems_in(entry.text[:MAX_CHARS]))
        for stem in stems_in("\n".join((entry.title, *entry.headings))):
            counts[stem] += TITLE_COUNTS
        self._counts = {
            stem: count
            for stem, count in counts.most_common(MAX_CONSIDERED)
            if len(stem) >= MIN_CHARS and not stem.isdigit()
        }
        self._words = dict(_written(entry))

    def needed_counts(self) -> CountsDemand:
        """Return the counts that are needed before planning."""
        return CountsDemand(tuple(("all", stem) for stem in self._counts))

    def plan(self, counts: TermCounts) -> Plan | None:
        """Return a search for the most telling words: frequent in the page and rare in others."""
        weights = {
            stem: count * counts.idf("all", stem)
            for stem, count in self._counts.items()
            # A stem of this page alone finds no other.
            if counts.pages_with("all", stem) > 1
        }
        best = sorted(weights, key=lambda stem: (-weights[stem], stem))[:MAX_TERMS]
        if not best:
            return None
        heaviest = weights[best[0]]
        terms = (
            Term("all", stem, weights[stem] / heaviest, counts.idf("all", stem), self._words.get(stem, stem))
            for stem in best
        )
        return Plan(Group(should=tuple(terms)))


def _written(entry: IndexEntry) -> list[tuple[str, str]]:
    """Return each stem with the first word in the page that has it."""
    words = dict.fromkeys(WORD.findall(f"{entry.title}\n{entry.text[:MAX_CHARS]}".lower()))
    found: dict[str, str] = {}
    for word in words:
        found.setdefault(stem_of(word), word)
    return list(found.items())
