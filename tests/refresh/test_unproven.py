"""Whether 304s are believed before a change has proved them."""

from __future__ import annotations

import numpy as np
import pytest

from teia.refresh.history import DAY_S
from teia.refresh.rates import repeat_prior
from teia.refresh.unproven import MOST_SURE, false_probability, false_share

A_CHANGE_A_DAY = repeat_prior(2.0, 2.0 * DAY_S, 1)
SHARE = 0.1


def after(days: float, of_bodies: float, hidden: int = 0, pages: int = 10, share: float = SHARE) -> float:
    """Pages that nothing was seen to change on, for so many days by 304s, and for so many by bodies."""
    spans_s = (np.full(pages, days * DAY_S), np.full(pages, of_bodies * DAY_S))
    return false_probability(*spans_s, A_CHANGE_A_DAY, hidden, share)


def test_bodies_alone_leave_what_was_believed_before() -> None:
    assert after(3.0, 3.0) == pytest.approx(SHARE)
    assert after(3.0, 3.0, share=0.3) == pytest.approx(0.3)


def test_the_longer_only_304s_say_that_nothing_changed_the_less_they_are_believed() -> None:
    found = [after(days, 0.0) for days in (0.0, 0.05, 0.1, 0.3, 5.0)]
    assert found[0] == pytest.approx(SHARE)
    assert found == sorted(found)
    assert 0.5 < found[3] < found[4] == MOST_SURE


def test_bodies_that_show_the_same_make_304s_believable() -> None:
    """A host may change less than others: then its bodies say so too."""
    assert after(5.0, 4.0) < 0.5 * after(5.0, 0.0)


def test_a_change_that_was_hidden_counts_against_them() -> None:
    assert after(0.3, 0.1, hidden=1) > 0.8 > after(0.3, 0.1)


def test_the_share_of_false_ones_is_learnt_from_hosts_that_were_tested() -> None:
    assert false_share(0, 0).mean == pytest.approx(0.1)
    assert false_share(0, 95).mean < 0.01
    assert false_share(30, 65).mean == pytest.approx(0.3, abs=0.01)
    assert false_share(0, 0).deviation > 4 * false_share(30, 65).deviation > 0
