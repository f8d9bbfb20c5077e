from __future__ import annotations

import json
from pathlib import Path

from teia.collections.control_file import CrawlReports
from tests.cli.conftest import Teia
from tests.crawler.handmade import make


def test_runs_are_listed_and_one_is_shown_with_its_requests(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    with CrawlReports(tmp_path / "data" / "control.sqlite") as reports:
        reports.note_run("main", reports.begin_run("main", 1.0), 4_000_000_000.0, "finished")
    done = teia("runs", "--data", "data", "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["number"], run["state"], run["new"]) == (1, "finished", 7)
    shown = teia("runs", "1", "--part", "new", "--data", "data").stdout
    assert shown.count("http") == 7
