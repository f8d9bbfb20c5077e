"""Progress of long work."""

from __future__ import annotations

import pytest

from teia.lib.progress import LEAST_S, Work, advance, counted_work, left_s


def test_what_is_done_deep_within_is_counted_by_the_work_around_it() -> None:
    advance(7)  # nothing counts it
    with counted_work(200) as work:
        advance(50)
        assert work.share == 0.25
        advance(500)
        assert work.share == 1.0, "a total that was too small"
    advance(1)
    assert work.done == 550


@pytest.mark.parametrize(
    ("total", "done", "passed_s", "left"),
    [(100, 25, 30.0, 90.0), (100, 25, LEAST_S / 2, None), (100, 1, 30.0, None), (0, 25, 30.0, None)],
)
def test_the_rest_is_estimated_by_the_pace_so_far_if_that_says_enough(
    total: float, done: float, passed_s: float, left: float | None
) -> None:
    work = Work(total)
    work.done = done
    assert left_s(work, passed_s) == left
