"""Pings in the crawl itself: the key file is fetched like any page, then what was told is visited; or forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawl.announced import counts_in
from teia.crawl.commit import Group
from teia.crawl.pings import receive
from teia.frontier import sayings
from teia.signals.indexnow import read_ping
from teia.signals.trust import Kind, Voice

from .offline import OfflineCrawl, offline_crawl

KEY = "0123456789abcdef"
HERE = "http://a.test"
WEB = {f"{HERE}/": "<p>one", f"{HERE}/new": "<p>new", f"{HERE}/{KEY}.txt": KEY}


def pinged(crawl: OfflineCrawl, *paths: str) -> str:
    folder = crawl.crawl.committer.cells[0].folder.path.parents[1]
    return receive(folder / "signals.sqlite", read_ping(KEY, [HERE + each for each in paths]), crawl.clock)


def counts(folder: Path) -> dict[str, int]:
    return counts_in(folder / "data" / "main" / "signals.sqlite")["indexnow"]


def run(crawl: OfflineCrawl) -> list[str]:
    """Take what waits, and let announcements be looked at between."""
    before = len(crawl.taken)
    for _ in range(6):
        crawl._commit(Group())  # what is announced is looked at with each commit
        crawl.run(1)
    return crawl.taken[before:]


def test_what_a_proved_key_tells_is_visited_soon(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        assert pinged(crawl, "/", "/new") == "asked"
        assert run(crawl) == [f"{HERE}/{KEY}.txt", f"{HERE}/", f"{HERE}/new"]
        assert pinged(crawl, "/") == "verified"
        assert run(crawl) == [f"{HERE}/"]
    assert counts(tmp_path)["taken"] >= 3


@pytest.mark.parametrize("body", [None, "another", f"<p>{KEY}"])
def test_what_a_forged_key_tells_is_not(tmp_path: Path, body: str | None) -> None:
    web = {url: text for url, text in WEB.items() if not url.endswith(".txt")}
    web |= {f"{HERE}/{KEY}.txt": body} if body is not None else {}
    with offline_crawl(web, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        pinged(crawl, "/", "/new")
        assert run(crawl) == [f"{HERE}/{KEY}.txt"]
        assert pinged(crawl, "/new") == "refused"
        assert run(crawl) == []
    assert counts(tmp_path)["forged"] == 3


def test_pings_that_proved_to_be_worth_nothing_are_not_heard(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        pinged(crawl, "/new")
        run(crawl)
        lies = Voice()
        for _ in range(60):
            lies.note_visit(changed=False, unchanged_probability=0.9)
        for cell in crawl.crawl.committer.cells:
            for slot, host_id in cell.frontier.db.execute("SELECT slot, host_id FROM hosts").fetchall():
                sayings.keep_voices(cell.frontier.db, slot, host_id, [(Kind.INDEXNOW, lies.encode())])
        pinged(crawl, "/")
        assert run(crawl) == []
    assert counts(tmp_path)["unheard"] == 1
