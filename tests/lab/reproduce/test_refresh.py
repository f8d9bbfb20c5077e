"""P6 and F2 done again, in small."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from teia.lab.reproduce.many_days import MEASURES, measure_case
from teia.lab.reproduce.periodic import periodic
from teia.lab.reproduce.polite_scheduling import (
    PUBLISHED_EXCESS,
    Worlds,
    observations,
    printed_budget,
)
from teia.lab.reproduce.refresh_worlds import UNITS, Size, draw_paper_world, one_day
from teia.lab.reproduce.registry import ExperimentInput, Figure, Table, compute_digest
from teia.lab.reproduce.transport_phase import transport_phase
from teia.refresh.model import DAY_S
from teia.refresh.scenario import draw_world

RUN = ExperimentInput(1, True, Path(), lambda _: None)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [Size(4_000, 8), pytest.param(Size(20_000, 40), marks=pytest.mark.slow)])
def test_the_observations_are_counted_from_the_worlds(size: Size) -> None:
    """P6: the paper's order of policies, in both readings of the rates; its one number stands beside figure 1 alone."""
    found: Worlds = {
        (unit, theta): one_day(draw_paper_world(RUN.random(1), size, unit, theta), ("psp", "mp2", "m-wolf", "edf"))
        for unit in UNITS
        for theta in (0.0, 1.0)
    }
    for measures in found.values():
        assert measures["NonPolite"] <= measures["WP"] < measures["InfCrawlers"] <= measures["PSP"] + 1e-9
        assert measures["PSP"] < measures["MP2"]
        assert measures["PSP"] < measures["M-Wolf"]
    table = observations(found, found, size)
    assert [row.other for row in table.rows if row.other is not None] == [PUBLISHED_EXCESS] * 2
    assert "PSP is below MP2 in 8 of 8 worlds" in table.note


def test_the_printed_budget_is_measured_in_both_readings() -> None:
    """P6: where the crawlers' speed is right PSP falls behind its plan; where R is right it does not."""
    size = Size(2_000, 4)
    table = printed_budget(RUN, size)
    found = {row.labels: row.ours for row in table.rows}
    for unit, theta in product(UNITS, ("0.5", "1")):
        plan, said, fast = (
            found[unit, theta, speed, measure]
            for speed, measure in (("as said", "InfCrawlers"), ("as said", "PSP"), ("ten times that", "PSP"))
        )
        assert said > 1.05 * plan
        assert fast < 1.01 * plan
    assert f"2,000 pages on 4 servers: R is {10 * size.budget:,}" in table.note


def test_many_days_show_where_psp_fails() -> None:
    world = draw_world(
        np.random.default_rng(1), pages=500, servers=5, horizon_s=DAY_S, politeness_s=600.0, rate_unit_s=DAY_S,
        budget=4320,
    )  # fmt: skip
    found, lines = measure_case(world, 20)
    assert tuple(found) == MEASURES
    assert found["EDF"] == pytest.approx(found["long-run optimum"], rel=0.005)
    assert found["PSP every day"] > 1.2 * found["PSP, one plan for the whole time"]
    assert all(len(line.x) == len(line.y) == 20 for line in lines)


def test_a_full_server_wants_even_gaps() -> None:
    """P5: the table of Wolf's third phase has both sides of it."""
    rows = {row.labels: row.ours for row in transport_phase(RUN).rows}
    assert rows["100%", "MERGE, centred"] < rows["100%", "Wolf's transport"]
    assert rows["25%", "Wolf's transport"] < rows["25%", "MERGE, centred"]


def test_a_periodic_crawler_goes_up_and_down_and_an_incremental_one_keeps_its_level() -> None:
    """F2, figure 2: the same mean with the same visits; choosing whom to visit is what raises it."""
    results = list(periodic.body(RUN))
    assert isinstance(results[0], Figure)
    assert isinstance(results[1], Table)
    levels = {row.labels: row.ours for row in results[1].rows}
    assert levels["periodic", "most"] - levels["periodic", "least"] > 0.5
    alike = "incremental, equal visits"
    assert levels[alike, "most"] - levels[alike, "least"] < 0.05
    assert levels["periodic", "mean"] == pytest.approx(levels[alike, "mean"], abs=0.01)
    assert levels["periodic, shadowed", "mean"] < levels["periodic", "mean"]
    assert levels["incremental, EDF", "mean"] > levels[alike, "mean"] + 0.02
    assert compute_digest(results) == compute_digest(list(periodic.body(RUN)))
