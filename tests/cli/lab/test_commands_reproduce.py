from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Teia

pytestmark = pytest.mark.timeout(300)


def test_json_is_the_last_line_and_progress_is_elsewhere(teia: Teia, tmp_path: Path) -> None:
    done = teia("lab", "reproduce", "P7", "--quick", "--seed", "3", "--out", "report", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["seed"], result["quick"], result["report"]) == (3, True, "report/REPORT.md")
    assert "P7: " in done.stderr
    report = (tmp_path / "report" / "REPORT.md").read_text()
    assert "`teia lab reproduce P7 --seed 3 --out report --quick`" in report
    assert result["experiments"][0]["digest"] in report


def test_without_json_the_report_is_named(teia: Teia) -> None:
    done = teia("lab", "reproduce", "p7", "--quick")
    assert (done.returncode, done.stdout) == (0, "lab-report/REPORT.md\n")


def test_unknown_id_is_wrong_usage_with_the_known_ones(teia: Teia, tmp_path: Path) -> None:
    done = teia("lab", "reproduce", "P7", "X1")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("teia: X1 is not an ID of docs/seeds.md; known: P6 P7")
    assert not list(tmp_path.iterdir())
