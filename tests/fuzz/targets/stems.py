"""Stems, compiled: those of tantivy's analysers for any text, however small the table is."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from teia.index._stems import WordTable
from teia.index.plurals import singular
from teia.index.schema import GAP, folded_divider, folding_analyser, stemming_analyser, stems_divider, words_analyser
from teia.index.stems import _LETTERS, Words
from tests.fuzz.pieces import clean_text_of, text_of

SEEDS = (
    b"The running dogs of the libraries e-mail: foo_bar@example.org, 3.14",
    "As informações públicas dos PAPÉIS, às opções ½ İstanbul ẞ".encode(),
    "日本語の文章。中文 don’t — cafés".encode(),
    b"a" * 64 + b" " + b"b" * 65 + b" word word word",
)


@cache
def _words() -> Words:
    return Words()


@cache
def _small() -> WordTable:
    """Return a table that is emptied after eight runs, with numbers for sixteen stems."""
    return WordTable(_words()._analyse, _LETTERS, 8, 16, GAP.encode())


def fuzz_one(data: bytes) -> None:
    text = clean_text_of(data)
    stems, folded = _words().of(text)
    assert stems_divider().analyze(stems) == stemming_analyser().analyze(singular(text))
    assert folded_divider().analyze(folded) == folding_analyser().analyze(text)
    assert len(stems.split()) == len(folded.split()) == len(words_analyser().analyze(text))
    table = _small()
    assert table.words(text) == (stems, folded), "a small table gives other words"
    counted = table.counted(text)
    assert counted[:2] == (stems, folded)
    numbers, counts = np.frombuffer(counted[2], np.uint32), counted[3]
    assert len(numbers) == len(counts) == len(set(numbers.tolist()))
    known = table.stems()
    expected = Counter(stem for stem in stems.split() if stem in known and stem != GAP)
    assert {known[number]: count for number, count in zip(numbers.tolist(), counts, strict=True)} == {
        stem: min(255, number) for stem, number in expected.items()
    }
    table.words(text_of(data))
