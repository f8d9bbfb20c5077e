"""A crawl that reaches its quota removes the captures that its rules do not keep, and continues."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from teia.clock import WallClock
from teia.crawler import loop
from teia.crawler.lookup import Lookup
from teia.crawler.resources import allocated_bytes
from teia.crawler.running_collection import AwaitedResource, Crawl, CrawlState
from teia.lab.world.exchange import WorldAnswer, WorldRequest
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
    monkeypatch.setattr(loop, "DISK_CHECK_S", 0.01)
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

    def _release_held(self, _schedule: object) -> None: ...


def test_a_crawl_that_waited_for_space_waits_for_its_quota_when_there_is_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed paused for space that was there, and no capture was removed."""
    monkeypatch.setattr(loop, "quota_complaint", lambda *_: "the quota is used up")
    crawl, retained = PausedCrawl(), list[object]()
    crawler = SimpleNamespace(
        _disk=SimpleNamespace(complaint=lambda: ""), _schedule=None, crawls=[crawl], _maybe_retain=retained.append
    )
    loop.Crawler._check_disk(cast("Any", crawler))
    assert crawl.waits_for is AwaitedResource.QUOTA
    assert retained == [crawl]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_crawl_that_would_write_five_times_its_quota_stays_below_it_and_loses_no_last_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "DISK_CHECK_S", 0.05)  # what a crawl stores between two checks is a part of the quota
    # Twenty versions: a removed record leaves a sixteenth of its disk space, as the heads of its blocks.
    pages, page_bytes, rounds = 100, 250_000, 20
    quota_bytes = pages * page_bytes * rounds // 5
    settings = {
        "archive__file_bytes": 32 << 20, "courtesy__delay_s": 0.0, "courtesy__per_host": 4, "index__enabled": False,
        "commit__every_pages": 20, "courtesy__response_factor": 0.0,
    }  # fmt: skip
    largest = crawl_in_quota(tmp_path, ChangingWeb(pages, page_bytes), rounds, quota_bytes, **settings)
    assert quota_bytes // 2 < largest <= quota_bytes
