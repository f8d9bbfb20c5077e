"""Pings in the crawl itself: the key file is fetched like any page, then what was told is visited; or forgotten."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from teia.crawler.commit import CommitGroup
from teia.crawler.signals_in.indexnow import CHECKED_AT_ONCE, receive
from teia.frontier.cell import site_statements
from teia.signals.announce import counts_in
from teia.signals.indexnow import KEYS_PER_HOST, read_ping
from teia.signals.trust import SignalKind, SignalSource
from tests.crawler.offline import OfflineCrawl, offline_crawl

KEY = "0123456789abcdef"
HERE = "http://a.test"
WEB = {f"{HERE}/": "<p>one", f"{HERE}/new": "<p>new", f"{HERE}/{KEY}.txt": KEY}


def inbox_of(crawl: OfflineCrawl) -> Path:
    return crawl.crawl.committer.cells[0].folder.path.parents[1] / "signals.sqlite"


def pinged(crawl: OfflineCrawl, *paths: str, key: str = KEY, location: str = "") -> str:
    ping = read_ping(key, [HERE + each for each in paths], location)
    return receive(inbox_of(crawl), ping, crawl.clock)


def rows(crawl: OfflineCrawl, table: str) -> int:
    cells = crawl.crawl.committer.cells
    return sum(cell.frontier.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for cell in cells)


def counts(folder: Path) -> dict[str, int]:
    return counts_in(folder / "data" / "main" / "signals.sqlite")["indexnow"]


def run(crawl: OfflineCrawl) -> list[str]:
    """Take what waits, and let announcements be looked at between."""
    before = len(crawl.taken)
    for _ in range(6):
        crawl._commit(CommitGroup())  # what is announced is looked at with each commit
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


def test_pings_that_proved_to_be_worthless_are_ignored(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        pinged(crawl, "/new")
        run(crawl)
        lies = SignalSource()
        for _ in range(60):
            lies.note_visit(changed=False, unchanged_probability=0.9)
        for cell in crawl.crawl.committer.cells:
            for slot, host_id in cell.frontier.db.execute("SELECT slot, host_id FROM hosts").fetchall():
                site_statements.store_trust(cell.frontier, slot, host_id, [(SignalKind.INDEXNOW, lies.encode())])
        pinged(crawl, "/")
        assert run(crawl) == []
    assert counts(tmp_path)["unheard"] == 1


def test_forged_pings_neither_silence_a_site_nor_bring_more_than_a_few_visits(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        visits = []
        for number in range(KEYS_PER_HOST + 4):
            said = pinged(crawl, "/new", key=f"forged-{number:04}", location=f"{HERE}/")
            assert said == ("asked" if number < KEYS_PER_HOST else "crowded")
            visits += run(crawl)
        assert visits == [f"{HERE}/"] * KEYS_PER_HOST
        assert rows(crawl, "signal_trust") == rows(crawl, "site_statements") == 0


def test_a_key_file_goes_before_new_pages_and_is_visited_though_none_are_wanted(tmp_path: Path) -> None:
    links = "".join(f'<a href="/{number}">x</a>' for number in range(20))
    web = {**WEB, f"{HERE}/": links, **{f"{HERE}/{number}": "<p>x" for number in range(20)}}
    with offline_crawl(web, tmp_path, f"{HERE}/", signals__indexnow=True, signals__new_pages=False) as crawl:
        crawl.run(1)
        assert pinged(crawl, "/", "/new") == "asked"
        visits = run(crawl)
        assert visits[:2] == [f"{HERE}/{KEY}.txt", f"{HERE}/"]
        assert f"{HERE}/new" not in visits


def test_keys_that_nobody_can_look_at_do_not_hold_up_others(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        for number in range(CHECKED_AT_ONCE + 5):
            unreached = read_ping(KEY, [f"http://a-{number}.elsewhere/"])
            assert receive(inbox_of(crawl), unreached, crawl.clock) == "asked"
        pinged(crawl, "/")
        run(crawl)
        assert pinged(crawl, "/") == "verified"


def test_an_inbox_that_somebody_holds_is_left_for_the_next_look(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", signals__indexnow=True) as crawl:
        crawl.run()
        pinged(crawl, "/")
        announced = crawl.crawl.committer.announced
        assert announced is not None
        holder = sqlite3.connect(inbox_of(crawl), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        announced.receive([f"{HERE}/new"])
        announced.count("private", 3)
        announced.visits.append(f"{HERE}/new")
        assert run(crawl) == [], "nothing is lost, and nothing is done twice"
        holder.execute("ROLLBACK")
        holder.close()
        assert sorted(run(crawl)) == [f"{HERE}/", f"{HERE}/{KEY}.txt", f"{HERE}/new"]
    found = counts_in(tmp_path / "data" / "main" / "signals.sqlite")["proxy"]
    assert found["in_scope"] == 1
    assert found["private"] == 3


@pytest.mark.parametrize("new_pages", [False, True])
def test_of_announcements_that_come_to_nothing_no_name_is_left(tmp_path: Path, new_pages: bool) -> None:
    settings = {"signals__indexnow": True, "signals__new_pages": new_pages, "signals__delay_s": 0.0}
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **settings) as crawl:
        crawl.run()
        announced = crawl.crawl.committer.announced
        assert announced is not None
        announced.receive(f"http://secret-{number}.test/" for number in range(50))
        run(crawl)
        assert rows(crawl, "hosts") == 1
        assert len(announced.wanted) == (50 if new_pages else 0), "what is wanted is made known with its answer"
        assert {wanted.host_id for wanted in announced.wanted} <= {0}
