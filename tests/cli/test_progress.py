"""The display of a crawl: how far it is, and what to do next."""

from __future__ import annotations

from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from teia.cli.advice import next_steps, what_now
from teia.cli.output import progress_console
from teia.cli.progress import eta, print_summary, progress_line
from teia.collections.account import empty_summary
from teia.config.sections import Config
from teia.store.root import open_root

NOW = replace(
    empty_summary("main"), state="running", seconds=100.0, requests=100, pages=50, urls_queued=400, urls_known=500
)


def test_the_time_left_is_that_of_the_queue_or_of_the_limit_whichever_is_less() -> None:
    assert eta(NOW) == ", 6 min 40 s at this rate"
    assert eta(NOW, 100) == ", 50% of --max-pages 100, 1 min 40 s at this rate"
    assert eta(NOW, 1_000_000) == ", 0% of --max-pages 1,000,000, 6 min 40 s at this rate"
    assert eta(replace(NOW, pages=0), 100) == ", 0% of --max-pages 100, 6 min 40 s at this rate"
    assert eta(replace(NOW, urls_queued=0), 100) == ""
    assert "50% of --max-pages 100" in progress_line(NOW, 100)


def test_a_crawl_with_queued_urls_does_not_say_that_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    for queued, end in ((0, "nothing left to fetch"), (1, "except for 1 URL that failed and can be tried again")):
        account = asdict(replace(NOW, state="finished", urls_queued=queued)) | {"politeness_violations": 0}
        print_summary(account, progress_console())
        assert f"main: finished after 1 min 40 s, {end}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("why", "following"),
    [
        ("blocked_address (robots.txt could not be fetched: 127.0.0.9 is loopback)", "--allow-net CIDR"),
        ("blocked_address (robots.txt could not be fetched: port 9 belongs to another service)", "check the port"),
        ("blocked_address (port 9 is a port of teia itself)", "no setting opens port 9 of 127.0.0.9"),
        ("connect (refused)", "check that a server is running at 127.0.0.9 port 9"),
    ],
)
def test_the_next_step_follows_from_what_refused_the_seed(tmp_path: Path, why: str, following: str) -> None:
    root = open_root(tmp_path / "data", create=True)
    (line,) = next_steps(root, Config(), {"failed_seeds": [f"http://127.0.0.9:9/: {why}"]})
    assert following in line


def test_a_crawl_ends_with_what_to_do_next(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    path = root.path
    assert what_now(root, {"urls_queued": 0, "indexed": 5}) == (
        f"teia search WORDS --data {path} · teia serve --data {path}"
    )
    assert what_now(root, {"urls_queued": 3, "indexed": 0}) == (
        f"run the same command to continue · teia serve --data {path}"
    )


def test_the_records_of_a_run_are_not_beside_the_captures_of_all_runs() -> None:
    out = StringIO()
    print_summary(asdict(replace(NOW, archive_records=345, captures=215)), Console(file=out, width=200))
    assert "100 requests, 345 archive records\n" in out.getvalue()
    assert "215 captures in all, 0 searchable pages" in out.getvalue()
