"""What-if predictions beside what then happened, by the lab's truth, on three webs that differ in everything.

A web is kept fresh one way, and its collection is asked about two others: another delay, another policy. Then it is
really kept fresh so. Here that goes slot by slot, without sockets and without chance
(fresh_crawls.py); the same over sockets on a fast clock is in bench/whatif_sockets.py, of which the last test is a
small case.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bench.whatif import WITHIN, WhatIfCase, run_case
from bench.whatif_sockets import Case, CrawlResult, run_crawl
from teia.errors import TeiaError
from tests.crawler.fresh_crawls import DAY_S

ALIKE = 0.1
"""Two crawls that were as late as each other: their shares of the slots differ by less."""

POISSON = {"changes__poisson": 1.0, "changes__pareto": 0.0, "changes__regular": 0.0}
SKEWED = {"pages": 60, "hosts": 2, "changes__rates": "zipf:1.5", "changes__fastest": 100.0, **POISSON}
UNIFORM = {"pages": 60, "hosts": 10, "sites__theta": 0.2, "changes__fastest": 3.0, **POISSON}
MIX = {"pages": 60, "hosts": 4, "changes__rates": "zipf:1.0", "changes__slowest": 0.05, "changes__fastest": 20.0}
SMALL = {"text__paragraphs": 2}
SEEDS = {"skewed": 3, "uniform": 11, "mix": 5}


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "case",
    [
        WhatIfCase("skewed", "", SKEWED | SMALL, 1_350.0, 2_700.0, "round-robin"),
        pytest.param(WhatIfCase("uniform", "", UNIFORM | SMALL, 7_200.0, 3_600.0, "index"), marks=pytest.mark.slow),
        pytest.param(WhatIfCase("mix", "", MIX | SMALL, 2_700.0, 1_350.0, "round-robin"), marks=pytest.mark.slow),
    ],
    ids=lambda case: case.name,
)
def test_predictions_are_within_5_percent_of_the_truth(case: WhatIfCase, tmp_path: Path) -> None:
    """Freshness and requests a day with another delay and another policy, and the end of a crawl."""
    found = run_case(case, tmp_path, days=7.0, seed=SEEDS[case.name])
    assert [point.figure for point in found] == [*["fresh", "requests a day"] * 2, "days to the end"]
    for point in found:
        assert abs(point.error) <= WITHIN, point
        assert point.is_inside, point


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_the_prediction_holds_for_real_crawls_too(tmp_path: Path) -> None:
    """Over sockets, on a clock that is up to 8,000 times as fast: one collection is asked, the other is the truth."""
    changes = 'rates = "zipf:1.0", slowest = 0.05, fastest = 10.0'
    case = Case(6, 60, 0.3, changes, 7, delay_s=5_400.0, other_delay_s=10_800.0, other_policy="index")
    asked, really = crawls_in_step(case, tmp_path)
    predicted = dict(asked.predicted)
    assert predicted["as it is"].fresh.mean == pytest.approx(asked.true, rel=2 * WITHIN)
    assert predicted[really.way].fresh.mean == pytest.approx(really.true, rel=2 * WITHIN)
    assert predicted[really.way].visits_per_day == pytest.approx(really.visits_per_day, rel=0.15)


def crawls_in_step(case: Case, folder: Path) -> tuple[CrawlResult, CrawlResult]:
    """Two crawls that kept up with their clock. On a machine that is busy with other things it has to be slower."""
    ways, seen = case.ways[:2], []
    for factor in (8_000.0, 4_000.0, 2_000.0, 1_000.0):
        wanted = argparse.Namespace(days=6.5, from_day=3.0, factor=factor)
        with ProcessPoolExecutor(2) as pool:
            jobs = [
                pool.submit(run_crawl, "small", case, way, wanted, folder / f"{factor:g}-{number}", 190 + number)
                for number, way in enumerate(ways)
            ]
            try:
                found = [job.result() for job in jobs]
            except TeiaError as error:  # a lab that did not start in time, a crawl that saw nothing
                seen.append(f"{factor:g}: {error}")
                continue
        crawls = [(one, delay_s) for one, (_, delay_s, _) in zip(found, ways, strict=True)]
        used = [one.visits_per_day * delay_s / (case.hosts * DAY_S) for one, delay_s in crawls]
        seen.append(f"{factor:g}: {used} of the slots")
        if all(one.kept_pace(case, delay_s) for one, delay_s in crawls) and abs(used[0] - used[1]) < ALIKE:
            return found[0], found[1]
    pytest.fail(f"no crawl keeps up with its clock: {'; '.join(seen)}")
