"""Query expansion: more words for a query, from the common words of its best results (F7), by RM3.

The window around the query's words is read in each of the ten best pages. A term's weight is its frequency in the
windows, those of better pages counting more. Terms of one window only, and terms that a quarter of all pages have,
are no evidence. The best ten terms get a fifth of the query's weight. Expansion finds more pages on a subject and
may push the one right page down, so it is done on request, and the words are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from teia.search.query.analysis import stem_of
from teia.search.query.words import WORD
from teia.search.rank.plan import Term
from teia.search.rank.statistics import TermCounts

PAGES = 10
WINDOW_WORDS = 150
WINDOW_STEP = 50
MAX_CHARS = 65_536
MIN_WINDOWS = 2
TOO_COMMON = 0.25
MAX_WORDS = 10
MAX_CONSIDERED = 60
"""Number of terms whose frequency is looked up: the heaviest."""

SHARE = 0.2
MIN_CHARS = 3

FLAT_RANK = 6
FLAT_SHARE = 0.75
FEW_RESULTS = 5


@dataclass(frozen=True, slots=True)
class Related:
    """A term that may be added: its most frequent form in the windows, its stem, and its share of the weight."""

    word: str
    stem: str
    share: float


class Feedback:
    """Weights of terms in the best pages."""

    def __init__(self, query_words: Iterable[str]) -> None:
        """Start with the words of the query."""
        self._query_stems = {stem for word in query_words if (stem := stem_of(word))}
        self._weights: dict[str, float] = defaultdict(float)
        self._windows: Counter[str] = Counter()
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)

    def add_page(self, text: str, share: float) -> None:
        """Add one page, with its share of the scores of all."""
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
        """Return the stretch that has most of the query's words."""
        places = [at for at, word in enumerate(words) if stem_of(word) in self._query_stems]
        # Windows begin every 50 words; a text shorter than a window has one.
        starts = range(0, max(1, len(words) - WINDOW_WORDS + WINDOW_STEP), WINDOW_STEP)
        best = max(starts, key=lambda start: sum(start <= at < start + WINDOW_WORDS for at in places))
        return words[best : best + WINDOW_WORDS]

    def candidate_stems(self) -> tuple[str, ...]:
        """Return the stems worth counting, heaviest first."""
        telling = [
            stem
            for stem, windows in self._windows.items()
            # A term of one window is that page's own word, not the subject's.
            if windows >= MIN_WINDOWS
            and stem not in self._query_stems
            and len(stem) >= MIN_CHARS
            and not stem.isdigit()
        ]
        return tuple(sorted(telling, key=lambda stem: (-self._weights[stem], stem))[:MAX_CONSIDERED])

    def related(self, counts: TermCounts, unwanted: frozenset[str] = frozenset()) -> tuple[Related, ...]:
        """Return the best terms; `unwanted` are words that the user removed."""
        unwanted_stems = {stem_of(word) for word in unwanted}
        common = TOO_COMMON * counts.pages
        stems = [
            stem
            for stem in self.candidate_stems()
            # In a tiny collection a quarter of the pages may be less than MIN_WINDOWS.
            if stem not in unwanted_stems and 0 < counts.pages_with("all", stem) <= max(common, MIN_WINDOWS)
        ][:MAX_WORDS]
        total = sum(self._weights[stem] for stem in stems)
        return tuple(Related(self._commonest_form(stem), stem, self._weights[stem] / total) for stem in stems)

    def _commonest_form(self, stem: str) -> str:
        forms = self._forms[stem]
        return min(forms, key=lambda form: (-forms[form], form))


def make_terms(related: Sequence[Related], words: int, counts: TermCounts) -> tuple[Term, ...]:
    """Return the terms to search in addition.

    The words of the query keep their weight, 1 each; the weights of these are relative to it.
    """
    # x / (words + x) = SHARE, solved for x: the weight of all added terms together.
    whole = words * SHARE / (1 - SHARE)
    return tuple(
        Term("all", each.stem, whole * each.share, counts.idf("all", each.stem), each.word) for each in related
    )


def is_worth_offering(total: int, scores: Sequence[float]) -> bool:
    """Tell whether to offer expansion: few results, or a flat list, as for a subject rather than one page."""
    if total < FEW_RESULTS:
        return True
    return len(scores) >= FLAT_RANK and scores[FLAT_RANK - 1] > FLAT_SHARE * scores[0] > 0


def normalise_scores(scores: Mapping[int, float]) -> dict[int, float]:
    """Return scores as parts of their sum."""
    total = sum(scores.values())
    return {key: score / total if total else 1 / len(scores) for key, score in scores.items()}
