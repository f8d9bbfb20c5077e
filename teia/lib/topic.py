"""Topic classifier: naive Bayes over the words of a text, learnt from words and example texts.

A text of a class is taken for a mixture: some of its words come from the class, the others from the language at large.

    P(word | class) = (1 - share) * B(word) + share * T(word)

T is how often the class' examples hold the word. B is half even, half the mean of the examples of all classes but the
one that holds the word most: words that several kinds of pages use are the language. The weight of a word is log P / B,
so a word without information weighs a little less than 0, and a text is judged by how many of its words are evidence
for a class. It follows that a list of words alone is a class too (one word in thirty is expected to be one of them),
and that words common to all examples cancel out. Examples of one class alone distinguish it from nothing: every text in
their language would resemble them.

Each word counts once, however often it occurs: repetition gains a page nothing. Evidence beyond `FULL_WORDS` words is
scaled down, or every long text would be judged with certainty. Words are cut to their first letters, which does what a
stemmer would for the languages that form words at the end. Case and accents are removed by the caller.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TOPIC = 0
"""The class that is looked for; it comes first."""

STEM_LETTERS = 6
FULL_WORDS = 40
LANGUAGE_WORDS = 20_000
"""So many words are equally likely in a language about which nothing else is known."""

WORDS_SHARE = 0.03
EXAMPLES_SHARE = 0.25
UNSEEN_WORDS = 200
"""Number of unseen words added to the examples' counts (smoothing)."""

MAX_WORDS = 2_000
MAX_TEXT_CHARS = 10_000
"""Number of characters judged: the beginning of a text shows its topic."""

SCALE = 100
"""Weights and scores are whole numbers of hundredths: the same on every machine, and short in a file."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{3,}")


class Judgement(NamedTuple):
    """Probability that a text is about the topic, in hundredths, and the class it resembles most.

    `kind` is the class' number; the number after the last class means that it resembles none of them.
    """

    score: int
    kind: int


@dataclass(frozen=True, slots=True)
class TopicModel:
    """A trained model. `classes` begin with the topic; `rest` is the weight of a word that is not among `weights`."""

    classes: tuple[str, ...]
    rest: tuple[int, ...]
    weights: Mapping[str, tuple[int, ...]]

    def judge(self, text: str) -> Judgement | None:
        """Judge a text; None if it has no words."""
        words = stems(text[:MAX_TEXT_CHARS])
        if not words:
            return None
        known = [weight for word in words if (weight := self.weights.get(word)) is not None]
        unknown = len(words) - len(known)
        scale = min(1.0, FULL_WORDS / len(words)) / SCALE
        sums = [
            scale * (rest * unknown + sum(of_class))
            for rest, of_class in zip(
                self.rest, zip(*known, strict=True) if known else [()] * len(self.classes), strict=True
            )
        ]
        # The last sum stands for “like none of the classes”: every word weighs log 1 there.
        return _judgement([*sums, 0.0])


def stems(text: str) -> set[str]:
    """Return the words of a text, each once and cut short; those of one or two letters are left out."""
    return {word[:STEM_LETTERS] for word in _WORD.findall(text)}


def learn_topic(words: Iterable[str], examples: Sequence[str], others: Mapping[str, Sequence[str]]) -> TopicModel:
    """Learn the topic from words, example texts or both; `others` are texts of other classes by their names."""
    typed = stems(" ".join(words))
    named = {word: 1 / len(typed) for word in typed}
    shown = _frequencies(examples)
    of_others = {name: _frequencies(texts) for name, texts in sorted(others.items())}
    language = _language([seen for seen in (shown, *of_others.values()) if seen])
    topic = [(share, seen) for share, seen in ((WORDS_SHARE, named), (EXAMPLES_SHARE, shown)) if seen]
    classes = [topic, *([(EXAMPLES_SHARE, seen)] for seen in of_others.values())]
    rest = tuple(_hundredths(math.log(1 - sum(share for share, _ in parts))) for parts in classes)
    vocabulary = sorted({word for parts in classes for _, seen in parts for word in seen})
    weights = {word: tuple(_weight(word, parts, language) for parts in classes) for word in vocabulary}
    # Words that the user named are kept first; of the others, those that tell most.
    telling = sorted(vocabulary, key=lambda word: (word not in named, -_information(weights[word], rest), word))[
        :MAX_WORDS
    ]
    return TopicModel(("topic", *of_others), rest, {word: weights[word] for word in sorted(telling)})


def _frequencies(texts: Sequence[str]) -> dict[str, float]:
    """Estimate the probability of each word in the texts; a text counts each word once (few texts prove little)."""
    counts = Counter(word for text in texts for word in stems(text))
    total = counts.total() + UNSEEN_WORDS
    return {word: number / total for word, number in counts.items()}


def _language(classes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Estimate the probability of words in the language at large; a word that is not here is as likely as any."""
    if len(classes) < 2:
        return {}
    common: dict[str, float] = {}
    for word in {word for each in classes for word in each}:
        shares = [each.get(word, 0.0) for each in classes]
        common[word] = (sum(shares) - max(shares)) / (len(shares) - 1)
    return {word: (1 / LANGUAGE_WORDS + share) / 2 for word, share in common.items()}


def _weight(word: str, parts: Sequence[tuple[float, Mapping[str, float]]], language: Mapping[str, float]) -> int:
    common = language.get(word, 1 / LANGUAGE_WORDS)
    own = sum(share * seen.get(word, 0.0) for share, seen in parts)
    return _hundredths(math.log(1 - sum(share for share, _ in parts) + own / common))


def _hundredths(number: float) -> int:
    return round(SCALE * number)


def _information(weights: tuple[int, ...], rest: tuple[int, ...]) -> int:
    """Return the distance of a word's weights from those of a word without information."""
    return max(abs(weight - none) for weight, none in zip(weights, rest, strict=True))


def _judgement(sums: Sequence[float]) -> Judgement:
    """Convert the classes' sums of weights to a probability of the first; all have the same prior."""
    # Subtracted before `exp`, so that a large sum does not overflow.
    most = max(sums)
    odds = [math.exp(each - most) for each in sums]
    return Judgement(round(SCALE * odds[TOPIC] / sum(odds)), sums.index(most))
