"""The loops of a snippet, compiled: what the plain ones give, for any text and any marks."""

from __future__ import annotations

from teia.search.query.analysis import folded_of, stem_of
from teia.search.query.words import words_of
from teia.search.show import _marks as compiled
from teia.search.show.marks import Mark
from tests.fuzz.pieces import Pieces
from tests.search.show import plain_marks as plain

SEEDS = (
    "rede\xffa rede das redes, Rêdes REDE redeя яrede".encode().replace("ÿ".encode(), b"\xff"),
    b"the\xffthe The _the 7the the7 \xed\xa0\x80the\xff\x01\x05\x02\x03\x10\x05\x01\x09",
    "日本".encode() + b"\xff" + "日本語 日本".encode(),
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    word, text = pieces.text(), pieces.text()
    octets = compiled.folded_octets(text)
    assert octets == plain.folded_octets(text)
    forms = [(made(each), made) for each in words_of(word)[:4] for made in (stem_of, folded_of)]
    for stem, made in forms:
        if stem:
            asked = (text, octets, stem[: max(2, len(stem) - 1)], stem, made, 3, 1.5)
            assert compiled.word_marks(*asked) == plain.word_marks(*asked)
    marks: list[Mark] = []
    start = 0
    while pieces.left and len(marks) < 200:
        start += pieces.number() % 16
        marks.append((start, start + 1 + pieces.number() % 20, pieces.number() % 70, pieces.number() / 16))
    assert compiled.without_overlaps(list(marks)) == plain.without_overlaps(list(marks))
    for chars in (1, 40, 1 << 40):
        assert compiled.best_mark(marks, chars) == plain.best_mark(marks, chars)
    for begin, end in ((0, len(text)), (3, 30), (30, 3), (0, 0)):
        assert compiled.parts_of(text, marks, begin, end) == plain.parts_of(text, marks, begin, end)
