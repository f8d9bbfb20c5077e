from __future__ import annotations

import json
from pathlib import Path

import pytest

from teia.views.reports.catalogue import REPORTS
from tests.cli.conftest import Teia
from tests.crawler.handmade import make
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_json_is_one_object_with_the_report_and_its_rows(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    done = teia("report", "outcomes", "--data", "data", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["report"], result["collection"], result["count"]) == ("outcomes", "main", 11)
    assert result["rows"][0] == {
        "outcome": "200",
        "code": 200,
        "meaning": "HTTP: OK",
        "count": 7,
        "share": pytest.approx(7 / 11),
        "requests": 7,
    }


@pytest.mark.parametrize("name", ["servers", "coverage"])
def test_text_is_plain_and_says_what_its_numbers_do_not(teia: Teia, tmp_path: Path, name: str) -> None:
    make(tmp_path / "data")
    done = teia("report", name, "--data", "data")
    assert done.returncode == 0, done.stderr
    assert "a.test" in done.stdout
    assert "\x1b" not in done.stdout
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())


def test_freshness_is_no_guess_before_enough_pages_were_visited_again(teia: Teia, tmp_path: Path) -> None:
    crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/")
    shown = teia("report", "freshness", "--data", "data").stdout
    assert "not enough visits to estimate: 0 of 200 pages were visited again" in shown
    assert "%" not in shown
    assert not any(line.startswith(("fresh", "error", "best")) for line in shown.splitlines())
    told = json.loads(teia("report", "freshness", "--data", "data", "--json").stdout)
    assert told["fresh"] is not None
    assert told["error"] is not None


def test_columns_are_aligned(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    lines = teia("report", "types", "--data", "data").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("media type"))
    end = lines[at].index("documents") + len("documents")
    assert [line[:end].split()[-1] for line in lines[at + 1 : at + 4]] == ["5", "1", "1"]


def test_lists_are_as_long_as_requested(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    result = json.loads(teia("report", "hosts", "--data", "data", "--top", "1", "--json").stdout)
    assert [row["host"] for row in result["rows"]] == ["a.test"]


def test_unknown_report_is_wrong_usage_with_the_known_ones(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    done = teia("report", "weather", "--data", "data")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == f"teia: unknown report 'weather'; available: {', '.join(REPORTS)}"


def test_folder_that_is_none_of_ours_is_one_line(teia: Teia) -> None:
    done = teia("report", "types", "--data", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "teia: nowhere: folder not found; see --data\n"
