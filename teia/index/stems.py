"""Stems of a text, with every distinct word analysed once (docs/decisions/0059-searchable-at-crawl-speed.md).

Two stemmers took more of the indexer's time than all the rest of tantivy's work. A site uses the same words on all its
pages, so the stems of a word are remembered, and a text becomes a text of stems. tantivy only divides that at blanks.
A word that is dropped, such as a stop word, leaves `GAP` in its place: the words around it are as far apart as before.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Protocol

from teia.index.plurals import PLURALS, singular
from teia.index.schema import GAP, stemming_analyser, words_analyser

MAX_WORDS = 1 << 18
"""Most remembered words: some 40 MB. A crawl with more begins to remember anew."""

MAX_RUN_BYTES = 64
"""Longer runs of letters are analysed each time: checksums, and languages that do not put blanks between words."""

_BLANK = ord(" ")
_DIVIDED = bytes(code if code >= 0x80 or chr(code).isalnum() else _BLANK for code in range(256))
"""ASCII without letters and digits as blanks. Runs with other characters are divided by the analyser."""


class _Analyser(Protocol):
    def analyze(self, text: str) -> list[str]: ...


class Stems(dict[bytes, bytes]):
    """The stems of runs of letters, in UTF-8 and divided by blanks; threads may share it."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer: _Analyser = stemming_analyser()
        self._words: _Analyser = words_analyser()
        self._lock = Lock()

    def __missing__(self, run: bytes) -> bytes:
        text = run.decode()
        with self._lock:  # an analyser keeps state while it divides a text
            if text.isascii():  # one word
                stems = self._stemmer.analyze(singular(text) if text.endswith(PLURALS) else text) or [GAP]
            else:
                # Word by word: the analyser leaves nothing in the place of a word that it drops.
                words = self._words.analyze(singular(text))
                stems = [" ".join(self._stemmer.analyze(word)) or GAP for word in words]
        found = " ".join(stems).encode()
        if len(run) <= MAX_RUN_BYTES:
            if len(self) >= MAX_WORDS:
                self.clear()
            self[run] = found
        return found

    def stem_text(self, text: str) -> str:
        """Return a text as its stems, divided by blanks."""
        runs = text.encode("utf-8", "replace").translate(_DIVIDED).split()
        return b" ".join(map(self.__getitem__, runs)).decode()


@lru_cache(maxsize=1)
def shared_stems() -> Stems:
    """Return the stems that all indexes of this process share."""
    return Stems()
