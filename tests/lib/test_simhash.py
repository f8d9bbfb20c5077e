"""Fingerprints of texts that are alike, and a hash that does not see numbers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from teia.lib.simhash import OUTLINE_BYTES, distance, outline, simhash
from tests.lib.simhash_arrays import simhash_by_arrays

WORDS = [f"word{number}" for number in range(400)]


def text_of(seed: int, words: int = 1_000) -> list[str]:
    chance = random.Random(seed)
    return [chance.choice(WORDS) for _ in range(words)]


def test_simhash_on_disk_stay_valid() -> None:
    assert simhash("the quick brown fox jumps over the lazy dog") == 15870826075326222118


@given(
    st.text(alphabet=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" .a1é中文カ가")), max_size=80)
)
def test_arrays_give_what_the_compiled_loop_gives(text: str) -> None:
    assert simhash_by_arrays(text.encode()) == simhash(text) == simhash(text.encode())


def test_arrays_give_what_the_compiled_loop_gives_for_long_words_and_texts() -> None:
    for text in ("x" * 5_000, " ".join(text_of(5, 70_000)), "中" * 3_000, "a b"):
        assert simhash_by_arrays(text.encode()) == simhash(text)


def test_a_text_without_words_has_none() -> None:
    assert simhash("") == simhash(" .,;! ") == 0


def test_only_words_and_their_order_count() -> None:
    assert simhash("one, two (three) four!") == simhash("one two three\n four")
    assert simhash("one two three four") != simhash("four three two one")


def test_a_few_changed_words_change_few_bits() -> None:
    words = text_of(1)
    changed = list(words)
    for position in (10, 400, 900):
        changed[position] = "changed"
    assert distance(simhash(" ".join(words)), simhash(" ".join(changed))) <= 6


def test_words_at_the_front_move_the_others_without_changing_them() -> None:
    words = text_of(2)
    assert distance(simhash(" ".join(words)), simhash("News of today " + " ".join(words))) <= 4


def test_different_texts_differ_in_many_bits() -> None:
    prints = [simhash(" ".join(text_of(seed))) for seed in range(10, 30)]
    assert min(distance(one, other) for one in prints for other in prints if one != other) >= 12


def test_scripts_without_blanks_are_compared_by_character() -> None:
    text = "这是一个测试看看它怎么样我们的网页抓取器需要处理中文" * 20
    assert 0 < distance(simhash(text), simhash(text.replace("测试", "考试", 1))) <= 8


def test_a_long_text_is_read_in_blocks() -> None:
    words = " ".join(text_of(3, 50_000))
    assert distance(simhash(words), simhash(words + " and a tail")) <= 2


@given(st.text(max_size=300))
def test_any_text_has_a_fingerprint_of_64_bits(text: str) -> None:
    assert 0 <= simhash(text) < 1 << 64


def test_texts_that_differ_in_numbers_have_one_outline() -> None:
    assert outline("Page 17 of 300") == outline("Page 18 of 301")
    assert outline("Page 17 of 300") != outline("Leaf 17 of 300")


def test_text_of_numbers_alone_has_none() -> None:
    assert outline("") == outline(" 12 34 ") == 0


def test_only_the_beginning_of_a_huge_text_is_looked_at() -> None:
    assert outline("a" * OUTLINE_BYTES) == outline("a" * OUTLINE_BYTES + "b")
