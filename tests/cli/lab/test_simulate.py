"""`teia lab simulate` as a person runs it (P2, P5)."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teia.refresh.formulas import stale_time
from tests.cli.conftest import Teia

PAGES = "page,server,weight,rate_per_day\nb,x,1,1\na,x,1,2\nstill,y,2,0\nwild,y,1,inf\nquick,y,1,30\n"
SMALL = ("--pages", "300", "--servers", "3", "--politeness-s", "300", "--rate-unit", "hour", "--budget", "800")


def simulated(teia: Teia, *words: str) -> dict[str, Any]:
    done = teia("lab", "simulate", *words, "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_every_policy_is_listed_beside_the_bounds(teia: Teia) -> None:
    names = "psp,psp-centred,mp2,m-wolf,uniform,proportional,cho,edf,index,rate-update,round-robin"
    result = simulated(teia, *SMALL, "--policy", names)
    assert list(result["policies"]) == names.split(",")
    for row in result["policies"].values():
        assert 0 < row["staleness"] < 1
        assert 0 < row["visits"] <= 800
        assert row["late_p99_s"] >= 0
        assert result["bounds"]["wp"] < row["staleness"]
    assert set(result["bounds"]) >= {"wp", "inf_crawlers", "non_polite", "slot_price"}
    assert set(result["seconds"]) >= {"plan", "simulate"}


def test_visits_that_are_written_score_what_is_printed(teia: Teia, tmp_path: Path) -> None:
    """P3: anybody can check: gaps of each page, and no server asked twice within P."""
    (tmp_path / "pages.csv").write_text(PAGES)
    flags = ("--scenario", "pages.csv", "--politeness-s", "900", "--horizon-h", "12", "--policy", "edf")
    result = simulated(teia, *flags, "--days", "2", "--visits", "visits.csv")
    times: dict[str, list[float]] = defaultdict(list)
    with (tmp_path / "visits.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            times[row["page"]].append(float(row["time"]))
    assert set(times) == {"a", "b", "quick"}
    assert sum(map(len, times.values())) == result["policies"]["edf"]["visits"]
    for server in (times["a"] + times["b"], times["quick"]):
        assert np.diff(np.sort(server)).min() >= 900.0
    length_s = 2 * 86_400.0
    stale = 1 / 6  # of the page that always changes
    for page, rate_per_day in (("b", 1), ("a", 2), ("quick", 30)):
        gaps = np.diff([0.0, *times[page], length_s])
        rate = rate_per_day / 86_400.0
        stale += float(stale_time(rate * gaps).sum()) / (rate * length_s) / 6
    assert result["policies"]["edf"]["staleness"] == pytest.approx(stale, abs=1e-9)


def test_crawlers_may_have_a_speed_each(teia: Teia) -> None:
    """P1: the slower the crawlers are, the fewer visits they make."""
    quick, slow = (
        simulated(teia, *SMALL, "--policy", "round-robin", "--politeness-s", "1", "--pages-per-s", speeds)
        for speeds in ("0.02,0.01", "0.002,0.001,0.001")
    )
    assert slow["crawlers"] == {
        "count": 3,
        "pages_per_s": pytest.approx(0.004 / 3),
        "each_pages_per_s": [0.002, 0.001, 0.001],
    }
    assert slow["policies"]["round-robin"]["visits"] == pytest.approx(0.004 * slow["horizon_s"], abs=3)
    assert quick["policies"]["round-robin"]["visits"] > 2 * slow["policies"]["round-robin"]["visits"]


def test_of_several_policies_each_has_its_own_file(teia: Teia, tmp_path: Path) -> None:
    result = simulated(teia, *SMALL, "--policy", "psp,edf", "--visits", "v.csv")
    for name in ("psp", "edf"):
        assert len((tmp_path / f"v-{name}.csv").read_text().splitlines()) == result["policies"][name]["visits"] + 1


def test_drawn_changes_come_beside_what_is_expected(teia: Teia) -> None:
    """P7: of a mix there is nothing but drawn changes, so it draws without being asked to."""
    for flags in (("--sampled",), ("--process", "mix")):
        row = simulated(teia, *SMALL, "--policy", "edf", "--days", "3", *flags)["policies"]["edf"]
        assert row["staleness_sampled"] == pytest.approx(row["staleness"], abs=0.1)
        assert len(row["staleness_by_day"]) == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "missing pages; use --scenario FILE.csv, or --pages N --servers M"),
        (("--pages", "10"), "missing pages"),
        ((*SMALL, "--scenario", "x.csv"), "--scenario cannot be combined with --pages and --servers"),
        ((*SMALL, "--policy", "pspp"), "unknown policy 'pspp'; did you mean psp?"),
        ((*SMALL, "--policy", ","), "--policy: at least one is required"),
        ((*SMALL, "--rate-unit", "week"), "--rate-unit: 'week' must be day or hour"),
        ((*SMALL, "--process", "pareto"), "--process: 'pareto' must be poisson or mix"),
        ((*SMALL, "--days", "0"), "--days: 0 must be > 0"),
        ((*SMALL, "--pages-per-s", "0"), "both must be > 0"),
        ((*SMALL, "--pages-per-s", "1,fast"), "--pages-per-s: 1,fast must be > 0, or several such numbers"),
        ((*SMALL, "--crawlers", "3", "--pages-per-s", "1,2"), "--pages-per-s: 2 speeds for 3 crawlers"),
        ((*SMALL, "--horizon-h", "0"), "the horizon must be > 0"),
        ((*SMALL, "--politeness-s", "-1"), "delays: the value at position 0 is -1"),
        ((*SMALL, "--rates", "zipf"), "rates: 'zipf' must be uniform, or zipf:X"),
        ((*SMALL, "--policy", "psp", "--visits", "nowhere/v.csv"), "nowhere/v.csv: cannot be written: No such file"),
    ],
)
def test_what_makes_no_sense_is_one_line(teia: Teia, flags: tuple[str, ...], said: str) -> None:
    done = teia("lab", "simulate", *flags)
    assert done.returncode in (1, 2)
    lines = [line for line in done.stderr.splitlines() if line.startswith("teia:")]
    assert len(lines) == 1
    assert said in lines[0]
