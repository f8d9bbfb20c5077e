"""Runs: the times that crawls record, and their changes against the run before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.crawler.fetch_rows import fetch_log, write_log
from teia.frontier.cell.cell import FrontierCell
from teia.store.fetchlog import FetchRow
from teia.store.root import open_root
from teia.transfer.read_all import idle_account
from teia.views.runs import NoSuchRun, RunPart, run_detail, run_summaries
from tests.crawler.crawled import Crawled
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_a_run_counts_what_is_new_changed_and_gone_since_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {
        "/": html("/same", "/other", "/gone", text="The start."),
        "/same": html(text="This text stays."),
        "/other": html(text="First text."),
        "/gone": html(text="This page goes."),
    }
    web = ScriptedWeb({"x.test": pages})
    first = crawl_web(web, tmp_path, "x.test/", meanwhile=lambda _: None)
    pages["/other"] = html(text="Second text.")
    pages["/"] = html("/same", "/other", "/gone", "/new", text="The start.")
    pages["/new"] = html(text="This page is new.")
    del pages["/gone"]
    crawl_web(web, tmp_path, port=first.port, again=True, meanwhile=lambda _: None)

    root, now_s = open_root(tmp_path / "data"), WallClock().now_s()
    second, one = run_summaries(root, "main", now_s)
    assert (one.number, one.state, one.requests, one.pages) == (1, "finished", 5, 4), "with robots.txt"
    assert (one.new, one.changed, one.gone, one.failed) == (4, 0, 0, 0)
    assert (second.number, second.available, second.new, second.gone) == (2, 4, 1, 1)
    changed = run_detail(root, "main", 2, now_s, RunPart.CHANGED)
    # The start page has one more link, and with it one more word.
    assert [each.url.rpartition("/")[2] for each in changed.rows] == ["", "other"]
    assert second.changed == 2
    (gone,) = run_detail(root, "main", 2, now_s, RunPart.GONE).rows
    assert (gone.outcome, gone.url.rpartition("/")[2]) == ("404", "gone")
    assert len(run_detail(root, "main", 1, now_s).rows) == 5
    assert one.bytes > 0
    assert one.archive_bytes > 0
    with fetch_log(root, "main") as log:
        verdicts = log.query("SELECT url, list(changed ORDER BY started) FROM fetches WHERE kind = 'page' GROUP BY url")
    assert {url.rpartition("/")[2]: changed for url, changed in verdicts.rows} == {
        "": [None, True], "same": [None, False], "other": [None, True], "gone": [None, True], "new": [None],
    }, "the log has what the crawler found at each visit"  # fmt: skip
    monkeypatch.setattr("teia.views.runs.SLICE_ROWS", 2)
    assert run_summaries(root, "main", now_s) == [second, one], "slice by slice"
    assert run_detail(root, "main", 2, now_s, RunPart.CHANGED) == changed
    with pytest.raises(NoSuchRun, match="main has no run 7"):
        run_detail(root, "main", 7, now_s)


def test_a_run_has_the_figures_of_the_summary_of_its_crawl(crawled: Crawled) -> None:
    """`teia runs` had fewer requests and pages than the crawl: none for robots.txt, no redirects with a body."""
    (run,), account = run_summaries(crawled.root, "main", WallClock().now_s()), idle_account(crawled.root, "main")
    for key in ("requests", "pages", "bytes"):
        assert getattr(run, key) == account[key] == crawled.summary[key], key
    assert run.requests > run.pages > run.available == run.new
    assert account["seconds"] == pytest.approx(run.seconds, abs=0.01)
    assert account["seconds"] == pytest.approx(crawled.summary["seconds"], abs=1.0)


def test_a_run_whose_process_died_ended_when_it_was_last_seen(tmp_path: Path) -> None:
    data = crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/").data
    root = open_root(data)
    with CrawlReports(root.control) as reports:
        assert reports.begin_run("main", 100.0) == 1
        reports.note_run("main", 1, 150.0)
    (dead,) = run_summaries(root, "main", 500.0)
    assert (dead.state, dead.seconds) == ("interrupted", 50.0)
    with CrawlReports(root.control) as reports:
        # The next one closes it.
        assert reports.begin_run("main", 200.0) == 2
        assert reports.recorded_runs("main", 10)[1][1:] == (None, 100.0, 150.0, 150.0, "interrupted")


def test_a_304_after_a_capture_is_no_change_though_its_row_has_the_digest_of_nothing(tmp_path: Path) -> None:
    data = crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/").data
    root = open_root(data)
    at = ("http://y.test/", "y.test", "y.test")
    rows = [
        FetchRow(110.0, 111.0, *at, "200", 200, digest="a", text_digest="b"),
        FetchRow(210.0, 211.0, *at, "304", 304, digest="nothing"),
        FetchRow(310.0, 311.0, *at, "200", 200, digest="a", text_digest="b"),
        FetchRow(410.0, 411.0, *at, "304", 304, digest="nothing"),
        FetchRow(510.0, 511.0, *at, "200", 200, digest="c", text_digest="d"),
    ]
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as frontier, frontier.transaction():
        write_log(frontier, rows)
    with CrawlReports(root.control) as reports:
        for began_s in (100.0, 200.0, 300.0, 400.0, 500.0):
            reports.note_run("main", reports.begin_run("main", began_s), began_s + 50.0, "finished")
    found = [(each.available, each.new, each.changed) for each in reversed(run_summaries(root, "main", 600.0))]
    assert found == [(1, 1, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 1)]
    assert run_detail(root, "main", 2, 600.0, RunPart.CHANGED).rows == ()


def test_a_url_without_an_answer_failed_and_a_later_answer_makes_it_new(tmp_path: Path) -> None:
    data = crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/").data
    root = open_root(data)
    cell = root.collection("main").cells()[0]
    rows = [
        FetchRow(110.0, 111.0, "http://y.test/", "y.test", "y.test", "connect"),
        FetchRow(210.0, 211.0, "http://y.test/", "y.test", "y.test", "200", 200, digest="a"),
        FetchRow(310.0, 311.0, "http://y.test/", "y.test", "y.test", "timeout"),
        FetchRow(410.0, 411.0, "http://y.test/", "y.test", "y.test", "200", 200, digest="a"),
    ]
    with closing(FrontierCell(cell.frontier)) as frontier, frontier.transaction():
        write_log(frontier, rows)
    with CrawlReports(root.control) as reports:
        for began_s in (100.0, 200.0, 300.0, 400.0):
            reports.note_run("main", reports.begin_run("main", began_s), began_s + 50.0, "finished")
    found = [(each.new, each.changed, each.gone, each.failed) for each in reversed(run_summaries(root, "main", 500.0))]
    assert found == [(0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0)]
