"""A crawl that reaches its quota removes the captures that its rules do not keep, and continues."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from teia.clock import WallClock
from teia.crawler import loop
from teia.crawler.lookup import Lookup
from teia.crawler.resources import allocated_bytes
from teia.crawler.running_collection import AwaitedResource, Crawl, CrawlState
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.records import Command
from teia.store.root import open_root
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives
from tests.crawler.webs import ScriptedWeb, crawl_web, html


class ChangingWeb(ScriptedWeb):
    """Pages that change with every request; `last` is the text of each that was sent last."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        self.last: dict[str, str] = {}
        self._chance, self._page_bytes = random.Random(1), page_bytes
        names = [f"/{number}" for number in range(pages)]
        super().__init__({"a.test": {"/": html(*names), **dict.fromkeys(names, self._page)}})

    def _page(self, request: WorldRequest) -> WorldAnswer:
        self.last[request.target] = self._chance.randbytes(self._page_bytes).hex()
        return html(text=self.last[request.target])


def crawl_in_quota(folder: Path, web: ChangingWeb, rounds: int, quota_bytes: int, **settings: Any) -> int:
    """Visit all pages several times and check that nothing is lost; return the most disk space after a round."""
    port = largest = 0
    flags = {"retention__quota_bytes": quota_bytes, "retention__first": False, "commit__every_pages": 1, **settings}
    for number in range(rounds):
        done = crawl_web(web, folder, "a.test/", port=port, again=number > 0, within_s=500.0, **flags)
        port, root = done.port, open_root(done.data)
        assert set(done.outcomes().values()) == {"200"}
        largest = max(largest, allocated_bytes(cell.archive for cell in root.collection("main").cells()))
    with Lookup(root, "main") as lookup:
        for target, text in web.last.items():
            assert text.encode() in lookup.capture(f"http://a.test:{port}{target}").payload
    assert audit_archives(root, "main").details == ()
    assert audit_manifest(root, "main", WallClock()).details == ()
    return largest


def test_a_crawl_at_its_quota_removes_old_captures_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "DISK_CHECK_S", 0.2)
    largest = crawl_in_quota(tmp_path, ChangingWeb(32, 8_000), 4, 800_000, courtesy__delay_s=0.02)
    assert 33 * 8_000 < largest <= 800_000
    assert "captures were removed because of the quota" in caplog.text


class PausedCrawl:
    """A crawl that waits for space on the disk, and that is near its quota by now."""

    pause, resume = Crawl.pause, Crawl.resume

    def __init__(self) -> None:
        self.state, self.paused_why, self.waits_for = CrawlState.PAUSED, "the disk is full", AwaitedResource.SPACE
        self.config = SimpleNamespace(retention=SimpleNamespace(quota_bytes=1))
        self.committer = SimpleNamespace(cells=[])
        self.awaited_bytes, self.is_retaining = 0, False

    def _release_held(self, _schedule: object) -> None: ...


def test_a_crawl_that_waited_for_space_waits_for_its_quota_when_there_is_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed paused for space that was there, and no capture was removed."""
    monkeypatch.setattr(loop, "quota_complaint", lambda *_, **_options: "the quota is used up")
    crawl, retained = PausedCrawl(), list[object]()
    crawler = SimpleNamespace(
        _disk=SimpleNamespace(complaint=lambda: ""), _schedule=None, crawls=[crawl], _maybe_retain=retained.append
    )
    loop.Crawler._check_disk(cast("Any", crawler))
    assert crawl.waits_for is AwaitedResource.QUOTA
    assert retained == [crawl]


def test_a_crawl_does_not_resume_before_its_removal_has_ended() -> None:
    """It resumed as soon as the first files had become smaller, and its visits could refer to records that went."""
    crawl = PausedCrawl()
    crawl.waits_for, crawl.is_retaining, crawl.config.retention.quota_bytes = AwaitedResource.QUOTA, True, 2**40
    crawler = SimpleNamespace(_disk=SimpleNamespace(complaint=lambda: ""), _schedule=None, crawls=[crawl])
    loop.Crawler._check_disk(cast("Any", crawler))
    assert crawl.state is CrawlState.PAUSED
    crawl.is_retaining = False
    loop.Crawler._check_disk(cast("Any", crawler))
    assert crawl.state is CrawlState.RUNNING


@pytest.mark.parametrize("is_paused_by_user", [False, True])
def test_a_resume_during_a_removal_takes_effect_when_it_has_ended(is_paused_by_user: bool) -> None:
    """Visits began at once, and could refer to records that went."""
    crawl = PausedCrawl()
    crawl.waits_for, crawl.is_retaining, crawl.config.retention.quota_bytes = AwaitedResource.QUOTA, True, 2**40
    crawler = cast("Any", SimpleNamespace(_disk=SimpleNamespace(complaint=lambda: ""), _schedule=None, crawls=[crawl]))
    before = [Command.PAUSE] if is_paused_by_user else []
    loop.Crawler.apply_commands(crawler, [*before, Command.RESUME], cast("Any", crawl))
    assert crawl.state is CrawlState.PAUSED
    crawl.is_retaining = False
    loop.Crawler._check_disk(crawler)
    assert crawl.state is CrawlState.RUNNING


def test_a_fast_crawl_does_not_pass_its_quota_between_two_checks(tmp_path: Path) -> None:
    """With the interval of one second alone it stored 107 MB in a quota of 100 MB."""
    web, settings = ChangingWeb(60, 60_000), {"courtesy__delay_s": 0.0, "courtesy__per_host": 4}
    with (sizes := Sizes(tmp_path / "data")):
        crawl_in_quota(
            tmp_path, web, 3, 12_000_000, archive__file_bytes=6 << 20, index__enabled=False, commit__every_pages=20,
            courtesy__response_factor=0.0, **settings,
        )  # fmt: skip
    assert 9_000_000 < sizes.largest <= 12_000_000


class Sizes:
    """Thread that looks at the size of an archive all the time, not only after a round."""

    def __init__(self, data: Path) -> None:
        self._data, self._has_ended, self.largest = data, threading.Event(), 0
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._has_ended.wait(0.01):
            # The copy of a file that is written anew is beside it for a moment.
            files = [each for each in self._data.rglob("*.warc.gz") if each.is_file()]
            with suppress(FileNotFoundError):
                self.largest = max(self.largest, sum(each.stat().st_blocks * 512 for each in files))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_crawl_that_would_write_five_times_its_quota_stays_below_it_and_loses_no_last_capture(
    tmp_path: Path,
) -> None:
    # Twenty versions: a removed record leaves a sixteenth of its disk space, as the heads of its blocks.
    # TEIA_QUOTA_PAGES=1000 stores 5 GB in a quota of 1 GB.
    pages, page_bytes, rounds = int(os.environ.get("TEIA_QUOTA_PAGES", "100")), 250_000, 20
    quota_bytes = pages * page_bytes * rounds // 5
    settings = {
        "archive__file_bytes": 32 << 20, "courtesy__delay_s": 0.0, "courtesy__per_host": 4, "index__enabled": False,
        "commit__every_pages": 20, "courtesy__response_factor": 0.0,
    }  # fmt: skip
    with (sizes := Sizes(tmp_path / "data")):
        largest = crawl_in_quota(tmp_path, ChangingWeb(pages, page_bytes), rounds, quota_bytes, **settings)
    print(f"{largest:,} bytes after a round, {sizes.largest:,} at any time, quota {quota_bytes:,}")
    assert quota_bytes // 2 < largest <= quota_bytes
    assert sizes.largest <= quota_bytes
