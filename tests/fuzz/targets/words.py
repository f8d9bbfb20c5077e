"""Folding and fingerprints, compiled: those of the plain forms, for any text."""

from __future__ import annotations

from teia.lib.simhash import outline, simhash
from teia.parse.text.normal import normal_octets, normalised, normalised_plainly, one_line
from tests.fuzz.pieces import clean_text_of, text_of
from tests.lib.simhash_arrays import simhash_by_arrays

SEEDS = (
    "Ação CAFÉ  naïve ﬁ ß ½ … ǅ".encode(),
    "日本語の文章。中文 한국어 हिन्दी עברית ไทย".encode(),
    "a\u0301\u0316\u0300 \U0001d54f \U00010400 \ufeff\u200d".encode(),
    b"word " * 40,
    b"\xed\xa0\x80x\xff",
)


def fuzz_one(data: bytes) -> None:
    for text in (clean_text_of(data), text_of(data)):
        expected = normalised_plainly(text)
        assert normal_octets(text) == expected.encode("utf-8", "replace")
        if text.isprintable():
            assert normalised(text) == expected
        assert simhash(text) == simhash_by_arrays(text.encode("utf-8", "replace"))
        assert 0 <= outline(text) < 1 << 64
        assert len(one_line(text, 20)) <= 20
    assert simhash(data) == simhash_by_arrays(data)
