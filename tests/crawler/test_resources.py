"""As many requests at once as there are descriptors for (RELIABILITY 48)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.collections.settings import change
from teia.crawler.resources import LEAST, SPARE, allocated_bytes, allot_sockets, quota_complaint
from teia.errors import StoreError
from teia.records import Edit, Operator
from teia.store.root import Root
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.waiting import until


def test_enough_descriptors_give_all_that_is_wanted() -> None:
    sockets = allot_sockets(65_536, 60, 2_000, 1_000)
    assert (sockets.at_once, sockets.keep_alive) == (2_000, 1_000)


@pytest.mark.parametrize("limit", [64, 80, 128, 256, 1_024, 4_096])
def test_no_more_sockets_are_wanted_than_there_are(limit: int) -> None:
    sockets = allot_sockets(limit, 40, 2_000, 1_000)
    assert sockets.at_once >= 1
    assert 40 + SPARE + sockets.at_once + sockets.keep_alive + sockets.keep_alive // 2 <= limit


def test_where_there_is_hardly_any_room_a_crawl_does_not_begin() -> None:
    with pytest.raises(
        StoreError, match=r"the limit of 50 open files is too low, 63 are needed; raise it with `ulimit -n`"
    ):
        allot_sockets(50, 63 - SPARE - LEAST, 2_000, 1_000)


def test_an_archive_above_its_quota_is_a_complaint_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(b"x" * (2 << 20))
    assert quota_complaint([tmp_path], 0, 0, is_waiting=False) == ""
    assert quota_complaint([tmp_path], 3 << 20, 0, is_waiting=False) == ""
    assert quota_complaint([tmp_path], 1 << 20, 0, is_waiting=False) == (
        "the archive takes 2 MiB, its quota is 1 MiB; if the crawl stays paused, no capture may be removed: raise"
        " retention.quota_bytes"
    )


def test_a_file_that_vanishes_while_the_archive_is_measured_is_no_error(tmp_path: Path) -> None:
    """An index is written beside each full file and renamed; the crawler ended when it met one of the other name."""
    (tmp_path / "a.warc.gz").write_bytes(b"x" * (2 << 20))
    (tmp_path / "vanished").symlink_to(tmp_path / "gone")  # listed, and not found when it is looked at
    assert allocated_bytes([tmp_path, tmp_path / "no folder"]) >= 2 << 20


def test_a_crawl_above_its_quota_pauses_says_why_and_resumes(tmp_path: Path) -> None:
    said: list[str] = []

    def meanwhile(root: Root) -> None:
        with closing(CrawlReports(root.control)) as reports:

            def paused_why() -> str:
                found = reports.running_crawl("main")
                return "" if found is None else str(found.account.get("paused_why") or "")

            said.append(until(paused_why, "the crawl pauses"))
        change(root, "main", [Edit("retention.quota_bytes", Operator.SET, 0)], WallClock())

    web = ScriptedWeb({"a.test": {"/": html("/1"), "/1": html()}})
    done = crawl_web(web, tmp_path, "a.test/", meanwhile=meanwhile, retention__quota_bytes=1)
    assert "its quota is 0 MiB" in said[0]
    assert set(done.outcomes().values()) == {"200"}
