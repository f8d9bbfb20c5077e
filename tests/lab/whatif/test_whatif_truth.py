"""What-if predictions beside what then happened, by the lab's truth, on three webs that differ in everything.

A web is kept fresh one way, and its collection is asked about two others: another delay, another policy. Then the web
is really kept fresh so, from nothing. Here that goes slot by slot, without sockets and without chance
(fresh_crawls.py); the same over sockets on a fast clock is in bench/whatif.py, of which the last test is a small case.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.whatif import Case, CrawlResult, run_crawl
from teia.errors import TeiaError
from teia.lab.whatif.answer import WhatIfRequest, what_if
from teia.store.root import open_root
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, ManualClock, fresh_web, quiet_world

WITHIN = 0.05
ALIKE = 0.1
"""Two crawls that were as late as each other: their shares of the slots differ by less."""

POISSON = {"changes__poisson": 1.0, "changes__pareto": 0.0, "changes__regular": 0.0}
SKEWED = {"pages": 60, "hosts": 2, "seed": 3, "changes__rates": "zipf:1.5", "changes__fastest": 100.0, **POISSON}
UNIFORM = {"pages": 60, "hosts": 10, "seed": 11, "sites__theta": 0.2, "changes__fastest": 3.0, **POISSON}
MIX = {"pages": 60, "hosts": 4, "seed": 5, "changes__rates": "zipf:1.0", "changes__slowest": 0.05}
MIX |= {"changes__fastest": 20.0}


def freshness(web: dict[str, Any], folder: Path, policy: str, slot_s: float, days: float) -> float:
    """The true freshness of a web that is kept fresh so, from a third of the days on."""
    flags: dict[str, Any] = {"courtesy__delay_s": slot_s, "courtesy__robots_max_age_s": 1e8, "refresh__policy": policy}
    with fresh_web(quiet_world(text__paragraphs=2, **web), folder, **flags) as kept:
        kept.run(days, slot_s)
        return kept.freshness(days / 3)


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("web", "slot_s", "other_slot_s", "other_policy"),
    [
        pytest.param(SKEWED, 1_350.0, 2_700.0, "round-robin", id="few-large-hosts-skewed-rates"),
        pytest.param(UNIFORM, 7_200.0, 3_600.0, "index", id="many-small-hosts-uniform-rates", marks=pytest.mark.slow),
        pytest.param(MIX, 2_700.0, 1_350.0, "round-robin", id="wolfs-mix", marks=pytest.mark.slow),
    ],
)
def test_predictions_are_within_5_percent_of_the_truth(
    web: dict[str, Any], slot_s: float, other_slot_s: float, other_policy: str, tmp_path: Path
) -> None:
    days = 7.0
    freshness(web, tmp_path / "as-it-is", "edf", slot_s, days)
    for number, values in enumerate(({"delay_s": other_slot_s}, {"policy": other_policy})):
        with open_source(open_root(tmp_path / "as-it-is" / "data"), "main") as source:
            answer = what_if(source, WhatIfRequest(days=days, **values), ManualClock(EPOCH_S + days * DAY_S))  # type: ignore[arg-type]
        assert answer.what_if is not None
        terms = answer.what_if.terms
        true = freshness(web, tmp_path / str(number), terms.policy, terms.delay_s, days)
        assert answer.what_if.fresh.mean == pytest.approx(true, rel=WITHIN), values


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("web", "slot_s", "values"),
    [
        pytest.param(SKEWED, 1_350.0, {"delay_s": 2_700.0}, id="skewed-delay"),
        pytest.param(UNIFORM, 7_200.0, {"policy": "round-robin"}, id="uniform-policy"),
        pytest.param(MIX, 2_700.0, {"delay_s": 1_350.0}, id="mix-delay"),
    ],
)
def test_a_collection_that_goes_on_so_is_as_fresh_as_it_foretold(
    web: dict[str, Any], slot_s: float, values: dict[str, Any], tmp_path: Path
) -> None:
    """The same collection, from the copies and the knowledge it had when it was asked: what `from now on` means."""
    flags: dict[str, Any] = {"courtesy__robots_max_age_s": 1e8, "refresh__policy": "edf", "courtesy__delay_s": slot_s}
    days = 10.0
    world = quiet_world(text__paragraphs=2, **web)
    with fresh_web(world, tmp_path, **flags) as kept:
        kept.run(days, slot_s)
        taken, now_s = kept.taken, kept.clock.at_s
    with open_source(open_root(tmp_path / "data"), "main") as source:
        answer = what_if(source, WhatIfRequest(days=days, **values), ManualClock(now_s))
    assert answer.what_if is not None
    terms = answer.what_if.terms
    flags |= {"refresh__policy": terms.policy, "courtesy__delay_s": terms.delay_s}
    with fresh_web(world, tmp_path, now_s, **flags) as kept:
        kept.taken = taken
        kept.run(answer.settling_days + days, terms.delay_s)
        true = kept.freshness(days + answer.settling_days)
    assert answer.what_if.fresh.mean == pytest.approx(true, rel=WITHIN)


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
