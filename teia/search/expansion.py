"""More words for a query, from what its best results have in common (F7): RM3, as SEARCH 5 has it.

Of the ten best pages the window around the words of the query is read. A term weighs by how often the windows have it,
those of better pages more; terms of one window only, and terms that a quarter of all pages have, say nothing. The best
ten get a fifth of the query's weight. It finds more pages on a subject and may push the one right page down, so it is
done on request, and the words are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from teia.search.analysis import stem_of
from teia.search.plan import Term
from teia.search.statistics import Counts
from teia.search.words import WORD

PAGES = 10
WINDOW_WORDS = 150
WINDOW_STEP = 50
MAX_CHARS = 65_536
MIN_WINDOWS = 2
TOO_COMMON = 0.25
MAX_WORDS = 10
MAX_CONSIDERED = 60
"""Terms whose frequency is looked up: the heaviest."""

SHARE = 0.2
MIN_CHARS = 3

FLAT_RANK = 6
FLAT_SHARE = 0.75
FEW_RESULTS = 5


@dataclass(frozen=True, slots=True)
class Related:
    """A term that may be added: the word as most windows write it, its stem, and its share of the weight."""

    word: str
    stem: str
    share: float


class Feedback:
    """What the best pages say, as weights of terms."""

    def __init__(self, asked: Iterable[str]) -> None:
        """Take the words of the query."""
        self._asked = {stem for word in asked if (stem := stem_of(word))}
        self._weights: dict[str, float] = defaultdict(float)
        self._windows: Counter[str] = Counter()
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)

    def read(self, text: str, share: float) -> None:
        """Take one page, with its share of the scores of all."""
        words = [word.lower() for word in WORD.findall(text[:MAX_CHARS])]
        window = self._best_window(words)
        stems = [(stem, word) for word in window if (stem := stem_of(word))]
        counts = Counter(stem for stem, _ in stems)
        for stem, count in counts.items():
            self._weights[stem] += share * count / len(stems)
        self._windows.update(counts.keys())
        for stem, word in stems:
            self._forms[stem][word] += 1

    def _best_window(self, words: Sequence[str]) -> Sequence[str]:
        """The stretch that has most of the words of the query."""
        places = [at for at, word in enumerate(words) if stem_of(word) in self._asked]
        starts = range(0, max(1, len(words) - WINDOW_WORDS + WINDOW_STEP), WINDOW_STEP)
        best = max(starts, key=lambda start: sum(start <= at < start + WINDOW_WORDS for at in places))
        return words[best : best + WINDOW_WORDS]

    def considered(self) -> tuple[str, ...]:
        """The stems worth counting, heaviest first."""
        telling = [
            stem
            for stem, windows in self._windows.items()
            if windows >= MIN_WINDOWS and stem not in self._asked and len(stem) >= MIN_CHARS and not stem.isdigit()
        ]
        return tuple(sorted(telling, key=lambda stem: (-self._weights[stem], stem))[:MAX_CONSIDERED])

    def related(self, counts: Counts, unwanted: frozenset[str] = frozenset()) -> tuple[Related, ...]:
        """The best terms; `unwanted` are words that a person took away."""
        refused = {stem_of(word) for word in unwanted}
        common = TOO_COMMON * counts.pages
        stems = [
            stem
            for stem in self.considered()
            if stem not in refused and 0 < counts.pages_with("all", stem) <= max(common, MIN_WINDOWS)
        ][:MAX_WORDS]
        total = sum(self._weights[stem] for stem in stems)
        return tuple(Related(self._written(stem), stem, self._weights[stem] / total) for stem in stems)

    def _written(self, stem: str) -> str:
        forms = self._forms[stem]
        return min(forms, key=lambda form: (-forms[form], form))


def added(related: Sequence[Related], words: int, counts: Counts) -> tuple[Term, ...]:
    """The terms to search too. The words of the query keep their weight, 1 each, so these get theirs by comparison."""
    whole = words * SHARE / (1 - SHARE)
    return tuple(
        Term("all", each.stem, whole * each.share, counts.idf("all", each.stem), each.word) for each in related
    )


def is_worth_offering(total: int, scores: Sequence[float]) -> bool:
    """Few results, or a flat list: the query is a subject rather than one page."""
    if total < FEW_RESULTS:
        return True
    return len(scores) >= FLAT_RANK and scores[FLAT_RANK - 1] > FLAT_SHARE * scores[0] > 0


def shares_of(scores: Mapping[int, float]) -> dict[int, float]:
    """Scores as parts of their sum."""
    total = sum(scores.values())
    return {key: score / total if total else 1 / len(scores) for key, score in scores.items()}
