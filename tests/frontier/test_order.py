"""The ranks that orders give (A6): smaller is sooner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.config import CollectionSettings, keys_of
from teia.errors import ConfigError
from teia.frontier.order import ORDERS, backlinks, breadth, depth_first, order_named, sequence_of

NEVER = 1 << 62
"""What the frontier takes for the end of a queue."""


def test_breadth_takes_shallow_pages_first_and_then_the_oldest() -> None:
    assert breadth(1, 1, 9) < breadth(2, 99, 1)
    assert breadth(1, 1, 8) < breadth(1, 99, 9)


def test_depth_first_takes_the_last_found_first() -> None:
    assert depth_first(5, 1, 9) < depth_first(1, 99, 8)


def test_backlinks_take_the_most_linked_first_and_then_the_oldest() -> None:
    assert backlinks(9, 3, 9) < backlinks(1, 2, 1)
    assert backlinks(9, 3, 8) < backlinks(1, 3, 9)


@pytest.mark.parametrize("name", ORDERS)
@given(depth=st.integers(0, 2**40), in_links=st.integers(0, 2**40), sequence=st.integers(1, 2**40 - 1))
def test_rank_fits_the_queue_and_gives_its_number_back(name: str, depth: int, in_links: int, sequence: int) -> None:
    rank = ORDERS[name](depth, in_links, sequence)
    assert -(2**63) <= rank < NEVER
    assert sequence_of(rank) == sequence


def test_every_order_has_a_name_in_the_settings() -> None:
    assert keys_of(CollectionSettings)["order"].metadata["choices"] == tuple(ORDERS)


def test_unknown_order_is_named_with_those_there_are() -> None:
    assert order_named("breadth") is breadth
    with pytest.raises(ConfigError, match="'best': must be one of breadth, depth, backlinks"):
        order_named("best")
