"""How fresh copies were, by the truth."""

from __future__ import annotations

import random

import pytest

from teia.lab.measure.true_freshness import PageTruth, fresh_time_s, true_freshness


@pytest.mark.parametrize(
    ("changes", "visits", "fresh_s"),
    [
        ([], [0.0], 10.0),
        ([], [], 0.0),
        ([], [4.0], 6.0),
        ([3.0], [0.0], 3.0),
        ([3.0], [0.0, 5.0], 8.0),
        ([3.0, 4.0, 9.0], [0.0, 5.0], 7.0),
        ([3.0], [-7.0], 3.0),
        ([-1.0, 3.0], [-7.0], 0.0),
        ([3.0], [3.0], 7.0),
        ([20.0], [12.0], 0.0),
    ],
)
def test_a_copy_is_fresh_from_a_visit_to_the_next_change(
    changes: list[float], visits: list[float], fresh_s: float
) -> None:
    assert fresh_time_s(PageTruth(changes, visits), 0.0, 10.0) == pytest.approx(fresh_s)


def test_it_is_what_looking_all_the_time_would_find() -> None:
    chance = random.Random(5)
    pages = []
    for _ in range(20):
        times = [sorted(chance.uniform(0, 10) for _ in range(chance.randrange(12))) for _ in range(2)]
        pages.append(PageTruth(*times, weight=chance.uniform(0.5, 2)))

    def is_fresh(page: PageTruth, at_s: float) -> bool:
        visited = [each for each in page.visits_s if each <= at_s]
        return bool(visited) and not any(visited[-1] < each <= at_s for each in page.changes_s)

    total = sum(page.weight for page in pages)
    looks = [2.0 + 6.0 * (n + 0.5) / 2_000 for n in range(2_000)]
    seen = sum(page.weight * is_fresh(page, at_s) for page in pages for at_s in looks) / (total * len(looks))
    assert true_freshness(pages, 2.0, 8.0) == pytest.approx(seen, abs=0.003)
    assert true_freshness([], 0.0, 1.0) == 0.0
