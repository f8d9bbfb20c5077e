"""The ranks that orders give (A6): smaller is sooner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.config import sections as choices
from teia.config.sections import CollectionSettings, SydneySettings
from teia.config.tree import keys_of
from teia.errors import ConfigError
from teia.frontier.queue.order import (
    ASIDE,
    ORDERS,
    TOP_SCORE,
    Hint,
    Order,
    Preference,
    backlinks,
    breadth,
    depth_first,
    fifo,
    focused,
    is_aside,
    klwf,
    lwf,
    merge_hints,
    order_named,
    pagerank,
    sequence_of,
    sydney,
)

NEVER = 1 << 62
"""What the frontier takes for the end of a queue."""

TOP = TOP_SCORE


def test_breadth_takes_shallow_pages_first_and_then_the_oldest() -> None:
    assert breadth.rank(1, 1, 9, TOP) < breadth.rank(2, 99, 1, TOP)
    assert breadth.rank(1, 1, 8, TOP) < breadth.rank(1, 99, 9, TOP)


def test_depth_first_takes_the_last_found_first() -> None:
    assert depth_first.rank(5, 1, 9, TOP) < depth_first.rank(1, 99, 8, TOP)


@pytest.mark.parametrize("order", [fifo, klwf, lwf])
def test_orders_by_waiting_time_take_the_first_found_first(order: Order) -> None:
    assert order.rank(9, 1, 8, TOP) < order.rank(1, 99, 9, TOP)


def test_backlinks_take_the_most_linked_first_and_then_the_oldest() -> None:
    assert backlinks.rank(9, 3, 9, TOP) < backlinks.rank(1, 2, 1, TOP)
    assert backlinks.rank(9, 3, 8, TOP) < backlinks.rank(1, 3, 9, TOP)


def test_pagerank_takes_the_most_linked_first_until_there_are_scores_and_then_the_oldest() -> None:
    assert pagerank.rank(9, 3, 9, TOP) < pagerank.rank(1, 2, 1, TOP)
    assert pagerank.rank(9, 3, 8, TOP) < pagerank.rank(1, 3, 9, TOP)
    assert not pagerank.rank(1, 2**40, 1, TOP) & pagerank.fixed_bit, "an estimate may be changed by links"


def test_a_preference_goes_before_the_order_and_the_order_decides_among_equals() -> None:
    """F: domain and language as modifiers of a metric."""
    for name in ("breadth", "backlinks"):
        order = order_named(name, None, ["language:pt", "domain:.br"])
        assert order.rank(9, 0, 9, TOP) < order.rank(1, 99, 1, ASIDE), "preferred first"
        base = ORDERS[name]
        for score in (TOP, ASIDE):
            pairs = [(depth, links, number) for depth in (1, 2) for links in (0, 7) for number in (3, 5)]
            by_order = sorted(pairs, key=lambda each: order.rank(*each, score))
            assert by_order == sorted(pairs, key=lambda each: base.rank(*each, TOP))
            rank = order.rank(3_000_000, 3_000_000, 77, score)
            assert 0 <= rank < NEVER
            assert sequence_of(rank) == 77
            assert order.score_of(rank) == score
        assert order.name != order_named(name, None, ["domain:.br"]).name, "a change ranks the queue anew"
        assert order_named(name, None, ()) is base


def test_a_preference_knows_domains_and_languages() -> None:
    preference = Preference.read(["domain:.br", "domain:example.org", "language:pt"])
    preferred = ["br", "a.br", "www.a.com.br", "example.org", "www.example.org"]
    assert all(preference.is_host_preferred(host) for host in preferred)
    assert not any(preference.is_host_preferred(host) for host in ("abr", "br.example.com", "notexample.org"))
    assert preference.is_language_preferred("pt")
    assert preference.is_language_preferred("pt-BR")
    assert not preference.is_language_preferred("")
    assert not preference.is_language_preferred("es")


@pytest.mark.parametrize("name", ["depth", "pagerank", "focused", "sydney"])
def test_a_preference_is_refused_where_it_would_do_nothing(name: str) -> None:
    with pytest.raises(ConfigError, match="works with the orders breadth and backlinks"):
        order_named(name, None, ["domain:.br"])


def test_focused_takes_what_promises_most_first_then_the_shallow_then_the_oldest() -> None:
    assert focused.rank(9, 1, 9, 60) < focused.rank(1, 99, 1, 59)
    assert focused.rank(1, 1, 9, 60) < focused.rank(2, 99, 1, 60)
    assert focused.rank(1, 1, 8, 60) < focused.rank(1, 99, 9, 60)


def test_sydney_is_breadth_with_a_second_queue_behind() -> None:
    assert sydney.rank(1, 1, 9, TOP) < sydney.rank(2, 99, 1, TOP)
    assert sydney.rank(99, 1, 9, TOP) < sydney.rank(0, 99, 1, ASIDE)
    assert sydney.rank(1, 1, 9, ASIDE) < sydney.rank(2, 1, 1, ASIDE)
    assert [is_aside(sydney.rank(3, 1, 1, score)) for score in (TOP, ASIDE)] == [False, True]


@pytest.mark.parametrize("name", ORDERS)
@given(
    depth=st.integers(0, 2**40),
    in_links=st.integers(0, 2**40),
    sequence=st.integers(1, 2**40 - 1),
    score=st.integers(0, TOP_SCORE),
)
def test_rank_fits_the_queue_and_gives_its_number_back(
    name: str, depth: int, in_links: int, sequence: int, score: int
) -> None:
    rank = ORDERS[name].rank(depth, in_links, sequence, score)
    assert -(2**63) <= rank < NEVER
    assert sequence_of(rank) == sequence


def test_merging_takes_the_best_of_two_hints_in_any_order() -> None:
    far, near = Hint(score=80, off_topic=2, via=1), Hint(score=30, off_topic=0, via=2)
    assert merge_hints(far, near) == merge_hints(near, far) == Hint(score=80, off_topic=0, via=1)
    assert merge_hints(far, None) is merge_hints(None, far) is None, "what somebody asked for needs no promise"


def test_only_orders_that_use_them_request_hints_trails_and_fresh_buffers() -> None:
    plain = (breadth, depth_first, fifo, klwf, lwf)
    assert not [
        order
        for order in plain
        if order.needs_hints or order.stores_trails or order.rereads_buffers or order.sample_size
    ]


def test_every_order_has_a_name_in_the_settings() -> None:
    assert keys_of(CollectionSettings)["order"].metadata["choices"] == tuple(ORDERS)


def test_sydney_takes_its_numbers_from_the_settings() -> None:
    order = order_named("sydney", SydneySettings(links=3, seed=7))
    assert (order.name, order.sample_size, order.seed) == ("sydney", 3, 7)
    assert order_named("breadth", SydneySettings(links=3)).sample_size == 0


def test_the_orders_are_those_that_settings_choose_from() -> None:
    assert tuple(ORDERS) == choices.ORDERS


def test_unknown_order_is_named_with_those_there_are() -> None:
    assert order_named("breadth") is breadth
    with pytest.raises(ConfigError, match="'best': must be one of breadth, depth, backlinks, "):
        order_named("best")
