"""The world of a plan (P1) and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teia.errors import UsageError
from teia.refresh.model import Crawlers, RefreshWorld


def world(**changes: object) -> RefreshWorld:
    usual = {"server": [1, 0, 1], "rate": [1.0, 2.0, 3.0], "horizon_s": 10.0, "politeness_s": 3.0}
    return RefreshWorld.build(**(usual | changes))  # type: ignore[arg-type]


def test_pages_lie_server_by_server_in_the_order_of_ids() -> None:
    built = world(server=[2, 0, 2], page=[9, 7, 5], weight=[1, 2, 1])
    assert built.page.tolist() == [7, 5, 9]
    assert built.rate.tolist() == [2.0, 3.0, 1.0]
    assert built.starts.tolist() == [0, 1, 1, 3]
    assert built.server.tolist() == [0, 2, 2]
    assert built.weight.tolist() == [0.5, 0.25, 0.25]


def test_caps_are_whole_numbers_of_visits() -> None:
    """T = 10, P = 3: as printed three, but four fit."""
    assert world().caps("floor").tolist() == [3, 3]
    assert world().caps("ceil").tolist() == [4, 4]
    assert world(horizon_s=0.3, politeness_s=0.1).caps("floor").tolist() == [3, 3]
    assert world(horizon_s=0.3, politeness_s=0.1).caps("ceil").tolist() == [3, 3]


def test_no_politeness_leaves_the_budget() -> None:
    assert world(politeness_s=[0.0, 5.0], budget=100).caps().tolist() == [100, 2]
    assert world(politeness_s=[1e-12, 5.0], budget=100).caps().tolist() == [100, 2]


def test_limits_of_rates_are_no_errors() -> None:
    built = world(rate=[0.0, np.inf, 1.0])
    assert built.worth_visiting.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight": 0.0}, "weights of all pages are 0"),
        ({"weight": [1, np.inf, 1]}, "weights: the value at position 1 is inf"),
        ({"rate": [1.0, np.nan, 1.0]}, "rates: the value at position 1 is nan"),
        ({"rate": [1.0, -2.0, 1.0]}, "rates: the value at position 1 is -2"),
        ({"rate": [1.0]}, "rates: 1 values instead of 3"),
        ({"politeness_s": -1.0}, "delays"),
        ({"politeness_s": np.inf}, "delays"),
        ({"horizon_s": 0.0}, "horizon must be > 0"),
        ({"horizon_s": np.nan}, "horizon must be > 0"),
        ({"budget": -1}, "budget"),
        ({"servers": 1}, "numbered 0 to 0"),
        ({"server": [], "rate": []}, "no pages"),
        ({"age_s": -1.0}, "ages"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        world(**changes)


def test_a_large_page_costs_the_visits_that_its_transfer_takes() -> None:
    """P1: a gigabyte at a megabyte a second is a hundred delays of ten seconds, or a thousand visits of a crawler."""
    sized = RefreshWorld.build(
        [0, 0, 1], 1.0, horizon_s=100.0, politeness_s=[10.0, 0.0], size_bytes=[1e9, 1e3, 1e9], bytes_per_s=1e6,
        crawlers=Crawlers(10, 1.0),
    )  # fmt: skip
    assert sized.transfer_s.tolist() == [1000.0, 0.001, 1000.0]
    assert sized.server_costs is not None
    assert sized.server_costs.tolist() == [100.0, 1.0, 1.0]
    costs = sized.crawler_costs(sized.crawlers.visits_per_s)
    assert costs is not None
    assert costs.tolist() == [1000.0, 1.0, 1000.0]
    small = replace(sized, size_bytes=np.full(3, 1000.0))
    assert small.server_costs is small.crawler_costs(10.0) is None


def test_crawlers_may_have_a_speed_each() -> None:
    unlike = Crawlers.of_speeds([10.0, 4.0, 1.0])
    assert (unlike.count, unlike.visits_per_s, unlike.each_pages_per_s) == (3, 15.0, (10.0, 4.0, 1.0))
    assert Crawlers.of_speeds([2.0, 2.0]) == Crawlers(2, 2.0)
    with pytest.raises(UsageError, match="both must be > 0"):
        Crawlers.of_speeds([1.0, 0.0])


def test_crawlers_do_something() -> None:
    assert Crawlers(10, 10.0).visits_per_s == 100.0
    with pytest.raises(UsageError, match="both must be > 0"):
        Crawlers(0)
