"""What two sequences have in common, exactly where little differs and soon wherever."""

from __future__ import annotations

import random
import time
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.lib.difference import Block, common_blocks

Item = TypeVar("Item")
WORDS = st.lists(st.sampled_from("abcdefg"), max_size=40)


def kept(blocks: list[Block]) -> int:
    return sum(block.size for block in blocks)


def longest_common(one: list[str], other: list[str]) -> int:
    """The length of a longest common subsequence, by the textbook."""
    row = [0] * (len(other) + 1)
    for item in one:
        last = 0
        for at, each in enumerate(other, 1):
            last, row[at] = row[at], last + 1 if item == each else max(row[at], row[at - 1])
    return row[-1]


def check(one: list[Item], other: list[Item], blocks: list[Block]) -> None:
    a = b = 0
    for block in blocks:
        assert block.a >= a
        assert block.b >= b
        assert one[block.a : block.a + block.size] == other[block.b : block.b + block.size]
        a, b = block.a + block.size, block.b + block.size
    assert a <= len(one)
    assert b <= len(other)


@given(WORDS, WORDS)
def test_blocks_are_common_and_as_long_as_can_be(one: list[str], other: list[str]) -> None:
    blocks = common_blocks(one, other)
    check(one, other, blocks)
    assert kept(blocks) == longest_common(one, other)


def test_one_changed_word_among_many_is_the_only_one_that_differs() -> None:
    one = [f"w{n % 50}" for n in range(20_000)]
    other = [*one[:7_000], "new", *one[7_001:]]
    assert common_blocks(one, other) == [Block(0, 0, 7_000), Block(7_001, 7_001, 12_999)]


@given(WORDS, WORDS, st.sampled_from([0, 1, 9, 100]))
def test_blocks_of_texts_too_long_for_all_pairs_are_common(one: list[str], other: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teia.lib.difference.MAX_PAIRS", most)
        patch.setattr("teia.lib.difference.ENOUGH_PAIRS", most // 4)
        blocks = common_blocks(one, other)
        assert common_blocks(one, one) == ([Block(0, 0, len(one))] if one else [])
    check(one, other, blocks)


@pytest.mark.parametrize("vocabulary", [2, 50, 5_000, 10**9])
def test_unrelated_texts_of_any_length_are_compared_in_bounded_time(vocabulary: int) -> None:
    """A longest common subsequence of 200,000 words a side took 27 s, in which no other thread ran."""
    chance = random.Random(3)
    one, other = ([chance.randrange(vocabulary) for _ in range(200_000)] for _ in range(2))
    began = time.thread_time()
    blocks = common_blocks(one, other)
    assert time.thread_time() - began < 5  # 0.3 s; some slow machines need longer
    check(one, other, blocks)


@pytest.mark.parametrize("vocabulary", [50, 5_000, 10**9])
def test_long_texts_with_few_changes_stay_together(vocabulary: int) -> None:
    chance = random.Random(3)
    one = [chance.randrange(vocabulary) for _ in range(200_000)]
    other = [-1 if chance.random() < 0.01 else word for word in one]
    other[50_000:50_000] = [-2] * 5_000
    del other[150_000:155_000]
    began = time.thread_time()
    blocks = common_blocks(one, other)
    assert time.thread_time() - began < 5
    check(one, other, blocks)
    assert kept(blocks) > 0.99 * (sum(word >= 0 for word in other))


def test_where_much_differs_single_words_hold_texts_together() -> None:
    chance = random.Random(4)
    one = [f"u{n}" if n % 3 else f"x{chance.randrange(10**9)}" for n in range(9_000)]
    other = [word if word.startswith("u") else f"y{chance.randrange(10**9)}" for word in one]
    blocks = common_blocks(one, other)
    check(one, other, blocks)
    assert kept(blocks) == 6_000
