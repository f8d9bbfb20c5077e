"""The watch over a cell: where URLs of doubtful patterns wait, what is given up, what a restart and a failure leave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, PageRow, QueuedUrl, tail_of
from teia.frontier.cell.schema import BY_LINK, BY_SITEMAP, LANE_LATER, LANE_NEW, STATE_DONE
from teia.frontier.cell.take import read_lane_urls
from teia.frontier.traps.detector import PatternState, WatchReason
from teia.frontier.traps.watch import TrapWatch
from teia.lib.simhash import outline
from teia.urls import key_of
from tests.frontier.cells import (
    HOST,
    NOW_S,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    given_up,
    row,
    settle,
)

MAX_DEPTH = 20


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    cell = opened(tmp_path)
    yield cell
    cell.close()


def opened(folder: Path) -> FrontierCell:
    cell = FrontierCell(folder / "frontier.sqlite")
    cell.watch = TrapWatch(cell, MAX_DEPTH)
    return cell


def url(path: str) -> str:
    return f"http://{HOST}{path}"


def found(path: str, depth: int = 1, by: int = BY_LINK, via: int = 0) -> FoundUrl:
    return FoundUrl(HOST, key_of(url(path)), tail_of(url(path), HOST), depth, by=by, via=via)


def watch_of(cell: FrontierCell) -> TrapWatch:
    assert cell.watch is not None
    return cell.watch


def host_id(cell: FrontierCell) -> int:
    return cell.host_id(HOST, NOW_S)


def chosen(cell: FrontierCell, limit: int = 100, skip: tuple[int, ...] = ()) -> list[QueuedUrl]:
    return watch_of(cell).admit(host_id(cell), HOST, limit, skip, NOW_S).items


def read(cell: FrontierCell, item: QueuedUrl, text: str, *links: str, depth: int | None = None) -> None:
    """Commit the visit of a page that says `text` and links to paths."""
    watch, said = watch_of(cell), hashlib.sha256(text.encode()).digest()
    settle(cell, item, STATE_DONE, learnt=PageRow(200, text_digest=said))
    with cell.transaction():
        watch.note_returned(host_id(cell), item, was_answered=True)
        watch.count_visit(host_id(cell), HOST, item, said, outline(text))
        at = item.depth + 1 if depth is None else depth
        cell.add_links([found(path, at, via=abs(item.pattern)) for path in links], NOW_S)
        watch.evaluate()


def begin(cell: FrontierCell, *paths: str) -> None:
    with cell.transaction():
        host_id(cell)
        cell.add_links([found(path) for path in paths], NOW_S)


def state(cell: FrontierCell, text: str) -> PatternState:
    return watch_of(cell).host(host_id(cell), HOST).by_text[text].state


def endless(cell: FrontierCell, pages: int) -> int:
    """Follow a calendar that has nothing to say until nothing of it may go; returns how many pages were read."""
    for number in range(pages):
        items = chosen(cell, 1)
        if not items:
            return number
        month = int(items[0].url.rpartition("/")[2])
        read(cell, items[0], f"Nothing in month {month}", f"/cal/2026/{month + 1}", f"/cal/2026/{month + 2}")
    return pages


def test_calendar_ends_after_a_few_pages_and_its_rows_are_few(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11")
    assert endless(cell, 1_000) <= 8
    assert state(cell, "/cal/0/0") is PatternState.PARKED
    assert cell.known <= 12
    assert cell.queued == 0
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)


def test_what_is_given_up_says_so_and_whose_pattern_it_is(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11")
    endless(cell, 1_000)
    outcomes = {outcome for (outcome,) in cell.db.execute("SELECT outcome FROM urls WHERE state = 3")}
    assert outcomes == {"trap"}
    number, _ = watch_of(cell).pop_changes()
    assert number == cell.db.execute("SELECT count(*) FROM urls WHERE outcome = 'trap'").fetchone()[0]
    assert cell.db.execute("SELECT reason FROM patterns WHERE given_up > 0").fetchall() == [(WatchReason.ALIKE,)]


def test_doubtful_urls_wait_behind_everything_else(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11", *(f"/article/{n}" for n in range(50)))
    for item in [each for each in chosen(cell, 60) if "/cal/" in each.url]:
        read(cell, item, "Nothing", *(f"/cal/2026/{n}" for n in range(20, 30)))
    seen = 0
    while state(cell, "/cal/0/0") is PatternState.OPEN:
        item = next(each for each in chosen(cell, 60) if "/cal/" in each.url)
        read(cell, item, "Nothing")
        seen += 1
    assert seen <= 3
    assert {item.url.split("/")[3] for item in chosen(cell, 60)} == {"article"}
    doubtful = row(cell, url("/cal/2026/29"))
    assert doubtful["lane"] == LANE_LATER
    place = (doubtful["slot"], doubtful["host_id"], LANE_LATER)
    waiting = {each.url: each.since_s for each in read_lane_urls(cell, HOST, place, (-(2**62), 0), 100)}
    assert waiting[url("/cal/2026/29")] == doubtful["found_s"], "since it was found: its rank is no time"
    assert_queue_and_urls_agree(cell)


def test_tries_come_when_nothing_else_is_left_and_bring_an_honest_pattern_back(cell: FrontierCell) -> None:
    begin(cell, *(f"/app/{n}" for n in range(40)))
    read_pages = 0
    while items := chosen(cell, 8):
        for item in items:
            read(cell, item, "Please enable JavaScript.")
            read_pages += 1
    assert read_pages == 40, "all of them say the same, and none begets another"
    assert_counters_are_true(cell)


def test_parked_pattern_does_not_keep_what_only_its_own_pages_name(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11")
    endless(cell, 1_000)
    known = cell.known
    number = watch_of(cell).host(host_id(cell), HOST).by_text["/cal/0/0"].number
    with cell.transaction():
        cell.add_links([found(f"/cal/2026/{n}", via=number) for n in range(100, 200)], NOW_S)
        watch_of(cell).evaluate()
    assert cell.known == known
    assert watch_of(cell).host(host_id(cell), HOST).by_text["/cal/0/0"].refused >= 100


def test_what_others_name_is_kept_and_can_bring_a_parked_pattern_back_with_all_that_was_given_up(
    cell: FrontierCell,
) -> None:
    begin(cell, "/cal/2026/11")
    endless(cell, 1_000)
    lost = [tail for (tail,) in cell.db.execute("SELECT tail FROM urls WHERE outcome = 'trap'")]
    assert lost
    begin(cell, "/cal/2026/300", "/cal/2026/301", "/cal/2026/302")
    for text in ("A feast!", "Another one!"):
        (item, *_) = chosen(cell, 10)
        read(cell, item, text)
    assert state(cell, "/cal/0/0") is PatternState.OPEN
    waiting = {each.url for each in chosen(cell, 100)}
    assert waiting
    assert cell.db.execute("SELECT count(*) FROM urls WHERE outcome = 'trap'").fetchone() == (0,)
    assert_queue_and_urls_agree(cell)
    assert_counters_are_true(cell)


def test_what_a_sitemap_names_never_waits(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11")
    endless(cell, 1_000)
    with cell.transaction():
        cell.add_links([found("/cal/2026/500", by=BY_SITEMAP)], NOW_S)
    assert [item.url for item in chosen(cell)] == [url("/cal/2026/500")]


def spell(cell: FrontierCell, *, is_same: bool) -> tuple[int, int]:
    """Read a site that names its pages in capitals too; returns how many of those were read, and given up."""
    begin(cell, *(f"/news/item-{n}.html" for n in range(40)))
    while items := chosen(cell, 8):
        for item in items:
            name = item.url.lower() if is_same else item.url
            read(cell, item, f"All about {name}", *(f"/NEWS/item-{n}.html" for n in range(40)))
    assert_queue_and_urls_agree(cell)
    spelt = "SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE outcome = 'trap') FROM urls"
    read_pages, lost = cell.db.execute(f"{spelt} WHERE tail LIKE '%/NEWS/%' AND tail GLOB '*NEWS*'").fetchone()
    return read_pages, lost


def test_other_spellings_that_show_the_same_are_given_up_after_three(cell: FrontierCell) -> None:
    assert spell(cell, is_same=True) == (3, 37)


def test_other_spellings_that_show_something_else_are_all_read(cell: FrontierCell) -> None:
    assert spell(cell, is_same=False) == (40, 0)


def test_plain_url_goes_before_another_spelling_that_was_found_first(cell: FrontierCell) -> None:
    begin(cell, "/start")
    (start,) = chosen(cell)
    read(cell, start, "Start", "/NEWS/one.html", "/news/two.html")
    assert row(cell, url("/NEWS/one.html"))["lane"] == LANE_NEW
    (two,) = [item for item in chosen(cell) if "two" in item.url]
    read(cell, two, "Two", "/news/one.html")
    assert row(cell, url("/NEWS/one.html"))["lane"] == LANE_LATER
    assert row(cell, url("/news/one.html"))["lane"] == LANE_NEW
    assert_queue_and_urls_agree(cell)


def test_another_spelling_that_moved_up_in_the_same_commit_keeps_one_place(cell: FrontierCell) -> None:
    """Its rank was improved by a link and its lane changed by the plain URL; the queue had the old rank for ever."""
    begin(cell, "/start")
    (start,) = chosen(cell)
    read(cell, start, "Start", "/NEWS/one.html", "/news/two.html", depth=9)
    (two,) = [item for item in chosen(cell) if "two" in item.url]
    read(cell, two, "Two", "/news/one.html", "/NEWS/one.html", depth=2)
    assert_queue_and_urls_agree(cell)


def test_state_of_a_pattern_survives_a_restart(cell: FrontierCell, tmp_path: Path) -> None:
    begin(cell, "/cal/2026/11")
    endless(cell, 1_000)
    cell.close()
    again = opened(tmp_path)
    assert state(again, "/cal/0/0") is PatternState.PARKED
    assert chosen(again) == []
    again.close()


def test_failed_transaction_leaves_nothing_behind(cell: FrontierCell) -> None:
    begin(cell, "/cal/2026/11")
    (item,) = chosen(cell)
    with given_up(cell):
        watch_of(cell).count_visit(host_id(cell), HOST, item, b"01234567", 1)
        cell.add_links([found("/cal/2026/12", via=abs(item.pattern))], NOW_S)
        watch_of(cell).evaluate()
    assert cell.db.execute("SELECT count(*) FROM text_hashes").fetchone() == (0,)
    assert watch_of(cell).host(host_id(cell), HOST).by_text == {}
    read(cell, item, "Nothing", "/cal/2026/12")
    assert_queue_and_urls_agree(cell)


def test_numbers_of_patterns_are_written_with_the_urls_that_have_them(cell: FrontierCell, tmp_path: Path) -> None:
    begin(cell, "/start")
    (start,) = chosen(cell)
    watch_of(cell).host(host_id(cell), HOST)
    with cell.transaction():
        cell.add_links([found("/a/1"), found("/b/1"), found("/c/1")], NOW_S)
    cell.close()
    again = opened(tmp_path)
    numbers = {number for (number,) in again.db.execute("SELECT abs(pattern) FROM urls WHERE pattern <> 0")}
    assert numbers <= {number for (number,) in again.db.execute("SELECT number FROM patterns")}
    assert len(numbers) == 3
    again.close()
    del start


def test_host_has_a_bounded_number_of_patterns(cell: FrontierCell) -> None:
    begin(cell, "/start")
    chosen(cell)
    with cell.transaction():
        cell.add_links(
            [found(f"/{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}/{n}/x{n}.h{n % 9}") for n in range(3_000)], NOW_S
        )
        cell.add_links([found(f"/q?{chr(97 + n % 26)}{chr(97 + n // 26)}=1") for n in range(600)], NOW_S)
    assert cell.db.execute("SELECT count(*) FROM patterns").fetchone()[0] <= 129


def test_broken_row_is_named(cell: FrontierCell) -> None:
    begin(cell, "/start")
    chosen(cell)
    with cell.transaction():
        cell.add_links([found("/a/1")], NOW_S)
    cell.db.execute("UPDATE patterns SET counts = x'00'")
    watch_of(cell).forget()
    with pytest.raises(CorruptFile, match="the patterns of"):
        chosen(cell)
