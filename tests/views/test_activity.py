"""Requests over time."""

from __future__ import annotations

from pathlib import Path

from teia.clock import WallClock
from teia.store.root import open_root
from teia.views.activity import activity
from teia.views.reports.source import open_source
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_requests_are_counted_by_class_within_the_time_range(tmp_path: Path) -> None:
    data = crawl_web(ScriptedWeb({"x.test": {"/": html("/a", "/no"), "/a": html()}}), tmp_path, "x.test/").data
    now_s = WallClock().now_s()
    with open_source(open_root(data), "main") as source:
        whole = activity(source, None, now_s)
        day = activity(source, now_s - 86_400.0, now_s)
        none = activity(source, now_s + 10.0, now_s + 20.0)
    assert whole.requests == day.requests == 3
    assert (sum(each.ok for each in day.bins), sum(each.client for each in day.bins)) == (2, 1)
    assert day.step_s == 1_800
    assert whole.archive_bytes > 0
    assert whole.archive_bytes_before == 0
    assert (none.bins, none.archive_bytes_before) == ((), whole.archive_bytes)
