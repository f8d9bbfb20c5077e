"""Pages that read alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from teia.search.rank.near_duplicates import MAX_BITS, leaders_of
from teia.search.rank.rows import CANDIDATE, Rows

DIGESTS = iter(range(1, 10**9))


def rows(*simhashes: int, digests: list[int] | None = None) -> Rows:
    found = np.zeros(len(simhashes), CANDIDATE)
    found["simhash"] = simhashes
    found["digest"] = digests if digests is not None else [next(DIGESTS) for _ in simhashes]
    return found


def test_simhash_that_differ_in_three_bits_are_alike_and_in_four_not() -> None:
    assert leaders_of(rows(0b1_0000, 0b1_0111)) == [0, 0]
    assert leaders_of(rows(0b1_0000, 0b1_1111)) == [0, 1]


def test_the_same_text_is_alike_whatever_its_fingerprint() -> None:
    assert leaders_of(rows(1, -1, digests=[7, 7])) == [0, 0]


def test_pages_without_text_are_like_no_other() -> None:
    assert leaders_of(rows(0, 0, digests=[7, 7])) == [0, 1]


def test_likeness_is_to_the_one_that_stands_for_the_group() -> None:
    """b is like a, c is like b but not like a: c stands for itself."""
    a, b, c = 0b1_000000, 0b1_000111, 0b1_111111
    assert leaders_of(rows(a, b, c)) == [0, 0, 2]


def test_one_page_stands_for_a_thousand_that_read_the_same() -> None:
    """Each is compared with those that stand for themselves, not with every other: that took most of a second."""
    assert leaders_of(rows(*[7] * 1_000)) == [0] * 1_000


def test_nobody_stands_for_nobody() -> None:
    assert leaders_of(rows()) == []


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=12))
def test_every_leader_stands_for_itself_and_is_like_those_it_stands_for(simhashes: list[int]) -> None:
    found = leaders_of(rows(*simhashes))
    for row, leader in enumerate(found):
        assert leader <= row
        assert found[leader] == leader
        assert row == leader or ((simhashes[row] ^ simhashes[leader]) & ((1 << 64) - 1)).bit_count() <= MAX_BITS


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 20))
def test_what_comes_later_does_not_change_who_stands_for_whom(simhashes: list[int], first: int) -> None:
    """Pages of results join, however many rows were looked at."""
    found = rows(*simhashes)
    assert leaders_of(found)[:first] == leaders_of(found[:first])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@given(st.lists(st.integers(0, 255), max_size=40), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_nobody_who_is_alike_is_overlooked(simhashes: list[int], digests: list[int]) -> None:
    """Against comparing every row with every other."""
    spread = [_signed(sum(((value >> bit) & 1) << (8 * bit) for bit in range(8))) for value in simhashes]
    found = leaders_of(rows(*spread, digests=digests[: len(spread)]))
    for row, leader in enumerate(found):
        like = [
            other
            for other in range(row)
            if spread[row]
            and spread[other]
            and (
                ((spread[row] ^ spread[other]) & ((1 << 64) - 1)).bit_count() <= MAX_BITS
                or digests[row] == digests[other]
            )
            and found[other] == other
        ]
        assert leader == (like[0] if like else row)
