"""What a change of settings would do is what it then does: the queue falls by the number that was announced (A10)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.collections.control_file import GiveCommand, Inbox
from teia.collections.drafts import apply_change, check_draft
from teia.collections.preview_change import ChangeEffect, count_effect, sample_effect
from teia.collections.settings import diff_configs, saved
from teia.config.sections import Config
from teia.records import Command
from teia.store.root import Root, open_root
from teia.transfer.read_all import idle_account
from tests.collections.test_settings_of_running_crawl import site
from tests.crawler.webs import ScriptedWeb, crawl_web
from tests.waiting import until

PAGES = 60
CLOCK = WallClock()


def changed(root: Root, **values: Any) -> tuple[Config, Config]:
    before = saved(root, "main").config
    after = check_draft({key.replace("__", "."): value for key, value in values.items()}, before).config
    assert after is not None
    return before, after


def queued(root: Root) -> int:
    return int(idle_account(root, "main")["urls_queued"])


@pytest.fixture
def half_crawled(tmp_path: Path) -> Root:
    # Pages that all say the same look like a trap, which would change their order.
    web = ScriptedWeb({"a.test": site(pages=PAGES)})
    crawled = crawl_web(web, tmp_path, "a.test/", limits__pages=12, sites__traps=False)
    return open_root(crawled.data)


def test_the_number_announced_is_the_fall_of_the_queue_while_nobody_crawls(half_crawled: Root) -> None:
    """Acceptance 11; and back: what left the queue enters it again."""
    root, before = half_crawled, queued(half_crawled)
    old, new = changed(root, scope__exclude=["regex:/[1-4][0-9]$"])
    announced = count_effect(root, "main", old, new)
    assert 0 < announced.leave < before
    assert announced.enter == 0
    assert announced.not_again > 0
    assert announced.known == PAGES + 1
    assert 0 < len(announced.examples) <= 20
    assert all(url.rpartition("/")[2][0] in "1234" for url in announced.examples)
    assert queued(root) == before, "nothing is done yet"
    apply_change(root, "main", diff_configs(old, new), CLOCK)
    assert queued(root) == before - announced.leave
    back = count_effect(root, "main", *changed(root, scope__exclude=[]))
    assert (back.leave, back.enter, back.not_again) == (0, announced.leave, 0)
    apply_change(root, "main", diff_configs(*changed(root, scope__exclude=[])), CLOCK)
    assert queued(root) == before


def test_the_number_announced_is_the_fall_of_the_queue_of_a_crawl_that_is_paused(tmp_path: Path) -> None:
    seen: list[tuple[ChangeEffect, int, int]] = []

    def meanwhile(root: Root) -> None:
        control = Inbox(root.path / "control.sqlite")
        until(lambda: account(control).get("urls_queued", 0) > 20, "the home page is read")
        control.send("main", GiveCommand(Command.PAUSE), CLOCK.now_s())
        until(lambda: account(control).get("state") == "paused")
        time.sleep(1.5)  # what was under way is committed, and the account says so
        before = account(control)["urls_queued"]
        old, new = changed(root, scope__exclude=["regex:/[1-9][0-9]$"])
        announced = count_effect(root, "main", old, new)
        apply_change(root, "main", diff_configs(old, new), CLOCK)
        until(lambda: account(control)["urls_queued"] < before)
        until(lambda: account(control)["urls_queued"] == queued(root), "the account says what is on disk")
        seen.append((announced, before, account(control)["urls_queued"]))
        control.send("main", GiveCommand(Command.RESUME), CLOCK.now_s())
        control.close()

    web = ScriptedWeb({"a.test": site(pages=PAGES)})
    crawl_web(web, tmp_path, "a.test/", meanwhile=meanwhile, courtesy__delay_s=0.1)
    announced, before, after = seen[0]
    assert announced.leave > 20
    assert before - after == announced.leave


def account(control: Inbox) -> dict[str, Any]:
    run = control.running_crawl("main")
    return {} if run is None else dict(run.account)


def test_settings_that_judge_no_url_do_nothing_to_the_queue(half_crawled: Root) -> None:
    crawl_known = count_effect(half_crawled, "main", *changed(half_crawled, courtesy__delay_s=7.0))
    assert (crawl_known.leave, crawl_known.enter, crawl_known.not_again) == (0, 0, 0)


def test_a_sample_is_about_right_and_says_how_many_each_rule_holds(half_crawled: Root) -> None:
    rules = {"scope__include": ["host:a.test", "host:b.test"], "scope__exclude": ["regex:/[1-4][0-9]$"]}
    old, new = changed(half_crawled, **rules)
    exact, sampled = count_effect(half_crawled, "main", old, new), sample_effect(half_crawled, "main", new, CLOCK)
    assert (sampled.effect.leave, sampled.effect.known) == (exact.leave, exact.known), "all of so few are looked at"
    assert sampled.matches == (PAGES + 1, 0, 40)
