"""One probability for each page, and the rate that is shown beside it."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from teia.crawler.keep_fresh.estimate import SHOWN, PageFreshness, agreeing_rate
from teia.refresh.history import DAY_S
from teia.refresh.rates import Gamma


@pytest.mark.parametrize("probability", [0.0, 0.0247, 0.4, 0.97, 1.0])
@pytest.mark.parametrize("age_s", [1.0, DAY_S, 1_000 * DAY_S])
def test_the_rate_of_a_page_makes_the_probability_that_is_shown(probability: float, age_s: float) -> None:
    for rate in (0.001 / DAY_S, 0.5 / DAY_S, 50 / DAY_S):
        agreeing = agreeing_rate(rate, age_s, probability)
        assert exp(-agreeing * age_s) == pytest.approx(probability, abs=SHOWN + 1e-9)
        assert agreeing_rate(agreeing, age_s, probability) == pytest.approx(agreeing)


def test_a_rate_that_agrees_with_the_probability_stays() -> None:
    assert agreeing_rate(0.5 / DAY_S, 1_000 * DAY_S, 1e-6) == 0.5 / DAY_S, "years later a page is stale by any rate"
    assert agreeing_rate(0.5 / DAY_S, 0.0, 1.0) == 0.5 / DAY_S, "nothing is known of no time"


def test_the_interval_of_a_rate_holds_the_rate_that_is_shown() -> None:
    """A signal says that the capture of an hour ago is stale."""
    found = Gamma(np.array([2.0]), np.array([4 * DAY_S]))
    shown = PageFreshness.of_rates(found, 3_600.0, 0.02)
    assert shown.fresh_probability == 0.02
    assert shown.low_per_day < 0.5 < shown.rate_per_day == shown.high_per_day
