"""Deeds on many URLs, by a crawl that runs and by nobody's (UX 2.8)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections import bulk
from teia.collections.control_file import Inbox, Request, RunBulkAction
from teia.errors import UsageError
from teia.frontier.cell.bulk import BulkAction, BulkSelection
from teia.store.root import Root, open_root
from tests.crawler.webs import ScriptedWeb, crawl_web, html, text_of
from tests.waiting import until

HOST = "b.test"
LINKS = [f"/{'agenda' if number % 2 else 'lei'}/{number}" for number in range(40)]
PAGES = {"/": html(*LINKS), **{link: html(text=text_of(number)) for number, link in enumerate(LINKS)}}


def ask(root: Root, chosen: BulkSelection) -> int:
    control = Inbox(root.path / "control.sqlite")
    try:
        return bulk.request_action(control, "main", chosen, "ana", time.time())
    finally:
        control.close()


def asked(root: Root) -> list[Request[RunBulkAction]]:
    control = Inbox(root.path / "control.sqlite")
    try:
        return control.recent("main", RunBulkAction, 10)
    finally:
        control.close()


def test_a_running_crawl_drops_what_waits_also_in_its_memory(tmp_path: Path) -> None:
    """A10: what was read into a buffer before is not asked for after."""

    def meanwhile(root: Root) -> None:
        until(lambda: _known(root), "the pages are known")
        ask(root, BulkSelection(BulkAction.DROP, contains="/agenda/"))
        until(lambda: asked(root)[0].done_s is not None, "they are dropped")

    done = crawl_web(ScriptedWeb({HOST: PAGES}), tmp_path, f"{HOST}/", meanwhile=meanwhile, courtesy__delay_s=0.1)
    (deed,) = asked(open_root(done.data))
    paths = {path.removeprefix(HOST) for path in done.requested()}
    assert deed.done_s is not None
    assert 15 <= deed.progress <= 20
    apply_crawl_delay = sum("/agenda/" in path for path in paths)
    assert 20 - deed.progress <= apply_crawl_delay <= 21 - deed.progress, "and at most the one that was under way"
    assert {link for link in LINKS if "/lei/" in link} <= paths, "the others are visited"


def _known(root: Root) -> bool:
    from teia.crawler.lookup import Lookup
    from teia.errors import StoreError

    try:
        with Lookup(root, "main") as lookup:
            return len(lookup.urls_of_host(HOST, 100)) > 40
    except StoreError:
        return False


def test_nobody_needs_to_crawl_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = open_root(crawl_web(ScriptedWeb({HOST: PAGES}), tmp_path, f"{HOST}/", limits__pages=2).data)
    clock = WallClock()
    ask(root, BulkSelection(BulkAction.DROP, contains="/agenda/"))
    ask(root, BulkSelection(BulkAction.RETRY, outcome="dropped"))
    monkeypatch.setattr(bulk, "LOCK_HOLD_S", -1.0)
    turns = 0
    while not bulk.try_to_run_actions(root, "main", clock):
        turns += 1
        assert turns < 20
    assert turns, "it was done bit by bit"
    back, dropped = asked(root)
    assert dropped.progress == back.progress
    assert dropped.progress in (19, 20)
    assert dropped.who == "ana"
    with root.locked():
        assert not bulk.try_to_run_actions(root, "main", clock), "somebody else holds the folder, who does it"


def test_an_action_that_nobody_finished_is_done_by_the_next_crawl(tmp_path: Path) -> None:
    web = ScriptedWeb({HOST: PAGES})
    first = crawl_web(web, tmp_path, f"{HOST}/", limits__pages=2)
    root = open_root(first.data)
    ask(root, BulkSelection(BulkAction.DROP, contains="/agenda/"))

    def meanwhile(root: Root) -> None:
        until(lambda: asked(root)[0].done_s is not None, "the next crawl does it")

    again = crawl_web(web, tmp_path, f"{HOST}/", port=first.port, limits__pages=0, meanwhile=meanwhile)
    (deed,) = asked(root)
    assert sum("/agenda/" in path for path in again.requested()) <= 21 - deed.progress


def test_only_so_many_wait(tmp_path: Path) -> None:
    control = Inbox(tmp_path / "control.sqlite")
    for _ in range(RunBulkAction.MOST_PENDING):
        bulk.request_action(control, "main", BulkSelection(BulkAction.FIRST), "ana", 0.0)
    with pytest.raises(UsageError, match="already pending"):
        bulk.request_action(control, "main", BulkSelection(BulkAction.FIRST), "ana", 0.0)
    control.close()
