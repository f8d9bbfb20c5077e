"""`teia lab plan` as a person runs it (P4)."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Teia

PAGES = "page,server,weight,rate_per_day\nb,x,1,1\na,x,1,1\nstill,y,2,0\nwild,y,1,inf\nquick,y,1,30\n"
FLAGS = ("--scenario", "pages.csv", "--horizon-h", "1", "--politeness-s", "1200", "--out", "counts.csv")


def test_counts_and_times_are_written_in_the_order_of_the_file(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text(PAGES)
    done = teia("lab", "plan", *FLAGS, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["policy"], result["pages"], result["servers"], result["visits"]) == ("psp", 5, 2, 6)
    assert result["bounds"]["wp"] <= result["staleness"]
    written = (tmp_path / "counts.csv").read_text().splitlines()
    assert written == [
        "page,count,times",
        "b,2,900;2700",
        "a,1,1800",
        "still,0,",
        "wild,0,",
        "quick,3,900;1800;2700",
    ]


def test_every_kind_of_plan_can_be_written(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text(PAGES)
    for policy in ("psp-centred", "edf", "index"):
        done = teia("lab", "plan", *FLAGS, "--policy", policy, "--budget", "4")
        assert done.returncode == 0, done.stderr
        rows = [line.split(",") for line in (tmp_path / "counts.csv").read_text().splitlines()[1:]]
        assert all(int(count) == len([time for time in times.split(";") if time]) for _, count, times in rows)
        assert 0 < sum(int(count) for _, count, _ in rows) <= 4


def test_a_gigabyte_costs_what_it_costs(teia: Teia, tmp_path: Path) -> None:
    """P1: ten seconds at 100 MB/s are a third of a delay; 1,000 s at the usual 1 MB/s leave time for three visits."""
    sized = "#crawler,2\n#crawler,1\n#server,x,1e8\npage,server,weight,rate_per_day,size_bytes\n"
    sized += "big,x,1,9,1e9\nsmall,x,1,9,1000\nhuge,y,1,9,1e9\ntiny,y,1,9,1000\n"
    (tmp_path / "pages.csv").write_text(sized)
    done = teia("lab", "plan", *FLAGS, "--politeness-s", "30", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    counts = [int(line.split(",")[1]) for line in (tmp_path / "counts.csv").read_text().splitlines()[1:]]
    assert counts[:2] == [60, 60]
    assert counts[2] == 3
    assert counts[2] * 1000 / 30 + counts[3] == pytest.approx(120, abs=1)
    assert (result["budget"], result["bytes"]) == (3 * 3600, 1e9 * (60 + counts[2]) + 1000 * (60 + counts[3]))


def test_a_broken_row_is_one_line_with_its_number(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text(PAGES + "z,x,1,often\n")
    done = teia("lab", "plan", *FLAGS)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["teia: pages.csv line 7: rate_per_day is 'often', not a number >= 0"]


def test_a_plan_on_a_gpu_needs_one(teia: Teia, tmp_path: Path) -> None:
    """tests/refresh/test_large_scale.py compares the numbers of such plans."""
    if find_spec("torch") is not None:
        pytest.skip("torch is installed; there may be a GPU")
    (tmp_path / "pages.csv").write_text(PAGES)
    done = teia("lab", "plan", *FLAGS, "--device", "cuda")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["teia: --device cuda needs torch: pip install 'teia[gpu]'"]


def test_what_makes_no_sense_is_reported(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text(PAGES)
    assert "unknown policy 'psq'; did you mean psp?" in teia("lab", "plan", *FLAGS, "--policy", "psq").stderr
    (tmp_path / "pages.csv").write_text(PAGES.replace(",1,", ",0,").replace(",2,", ",0,"))
    assert "weights of all pages are 0" in teia("lab", "plan", *FLAGS).stderr
