"""Stems and folded words of a text, with every distinct word analysed once (decision 59).

Two stemmers took more of the indexer's time than all the rest of tantivy's work. A site uses the same words on all its
pages, so what becomes of a word is remembered, and a text becomes a text of stems and one of folded words. tantivy only
divides these at blanks. A word that is dropped, such as a stop word, leaves a gap in its place (`GAP`, `LONG_GAP`): the
words around it are as far apart as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Protocol

from teia.index.plurals import PLURALS, singular
from teia.index.schema import GAP, LONG_GAP, MAX_WORD_BYTES, folding_analyser, stemming_analyser, words_analyser

MAX_WORDS = 1 << 18
"""Most remembered words: some 20 MB. A crawl with more begins to remember anew."""

MAX_STEMS = 1 << 17
"""Most stems that have a number: some 15 MB. Later ones are rare, and no semantic model needs them."""

_LETTERS = bytes(code >= 0x80 or chr(code).isalnum() for code in range(256))
"""Octets of runs of letters. Runs with other characters than ASCII are divided by the analyser."""

_GAP, _LONG_GAP = GAP.encode(), LONG_GAP.encode()


class _Analyser(Protocol):
    def analyze(self, text: str) -> list[str]: ...


class Words:
    """The words of texts, as the index takes them; threads may share it."""

    def __init__(self) -> None:
        from teia.index._stems import WordTable  # compiled; only an indexer needs it

        self._stemmer: _Analyser = stemming_analyser()
        self._folder: _Analyser = folding_analyser()
        self._words: _Analyser = words_analyser()
        self._lock = Lock()
        self._table = WordTable(self._analyse, _LETTERS, MAX_WORDS, MAX_STEMS, GAP.encode())
        self.of = self._table.words
        """Return the stems of a text and its folded words, each divided by blanks."""

        self.counted = self._table.counted
        """Return the same, the numbers of the stems (32 bits each), and how often the text has each (8 bits).

        A second argument are numbers of stems that are counted with those of the text.
        """

        self.stems = self._table.stems
        """Return all stems that have a number, in the order of these."""

    @property
    def remembered(self) -> int:
        """Number of runs of letters that are remembered."""
        return self._table.runs

    def _analyse(self, run: bytes) -> tuple[bytes, bytes]:
        text = run.decode()
        with self._lock:  # an analyser keeps state while it divides a text
            if text.isalnum():  # one word: all these characters are letters or numbers for an analyser too
                stem = self._stemmer.analyze(singular(text) if text.endswith(PLURALS) else text)
                if text.isascii():  # only its case is to be folded
                    return _word(stem, _GAP), run.lower() if len(run) < MAX_WORD_BYTES else _LONG_GAP
                return _word(stem, _GAP), _word(self._folder.analyze(text), _LONG_GAP)
            # Word by word: an analyser leaves nothing in the place of a word that it drops.
            words, single = self._words.analyze(text), singular(text)
            singles = words if single == text else self._words.analyze(single)
            stems = [_word(self._stemmer.analyze(word), _GAP) for word in singles]
            folded = [_word(self._folder.analyze(word), _LONG_GAP) for word in words]
        return b" ".join(stems), b" ".join(folded)


def _word(analysed: Sequence[str], gap: bytes) -> bytes:
    """Return what an analyser made of one word."""
    return " ".join(analysed).encode() or gap


@lru_cache(maxsize=1)
def shared_words() -> Words:
    """Return the words that all indexes of this process share."""
    return Words()
