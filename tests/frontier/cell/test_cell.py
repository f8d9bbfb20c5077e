"""One cell's database: links merge, URLs go out in their order, visits end, and nothing is half done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from teia.frontier.cell import shorter_paths
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import CaptureLocation, PageRow, QueuedUrl, SettledVisit, tail_of, url_from
from teia.frontier.cell.schema import (
    BY_FEED,
    BY_LINK,
    BY_SITEMAP,
    LANE_DUE,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.frontier.queue.order import backlinks, depth_first, klwf
from teia.urls import split
from tests.frontier.cells import (
    HOST,
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    given_up,
    image,
    items,
    next_urls,
    page,
    page_row,
    row,
    settle,
)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite")
    yield opened
    opened.close()


# ---- what is stored of a URL ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "https://example.org/a?b=c",
        "http://example.org:8080/sub/",
        "https://example.org:8443/s",
        "http://[2001:db8::1]:81/s",
        "https://s/s",
    ],
)
def test_url_is_found_again_in_its_tail(url: str) -> None:
    host = split(url).host
    assert url_from(host, tail_of(url, host)) == url


# ---- links merge (T1, F1) -------------------------------------------------------------------------------------------


def test_links_are_counted_exactly(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), in_links=2))
    add_links(cell, found(page(1), in_links=3), found(page(2)))
    add_links(cell, found(page(1)))
    assert row(cell, page(1))["in_links"] == 6
    assert row(cell, page(2))["in_links"] == 1
    assert cell.known == 2


def test_least_depth_is_kept(cell: FrontierCell) -> None:
    for depth in (5, 7, 3, 4):
        add_links(cell, found(page(1), depth=depth))
    assert row(cell, page(1))["depth"] == 3


def test_same_url_twice_in_one_batch_is_one_url(cell: FrontierCell) -> None:
    """A seed that is also in a sitemap came twice; it was counted and queued twice, and fetched for ever."""
    add_links(cell, found(page(1), 4, in_links=2), found(page(1), 2, in_links=3), found(page(1), 6))
    assert (cell.known, cell.queued) == (1, 1)
    assert (row(cell, page(1))["in_links"], row(cell, page(1))["depth"]) == (6, 2)
    assert_queue_and_urls_agree(cell)


def test_known_url_twice_in_one_batch_keeps_queue_and_url_together(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), 5), found(page(2), 3))
    add_links(cell, found(page(1), 1), found(page(1), 2))
    assert (row(cell, page(1))["in_links"], row(cell, page(1))["depth"]) == (3, 1)
    assert_queue_and_urls_agree(cell)


def test_absorbing_changes_nothing_of_what_the_caller_holds(cell: FrontierCell) -> None:
    """A group whose commit failed is committed again, with the same objects."""
    links = [found(page(1), 4, in_links=2), found(page(1), 2, in_links=3)]
    before = [replace(link) for link in links]
    add_links(cell, *links)
    assert links == before


def test_fewest_redirect_hops_are_kept(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), hops=4))
    add_links(cell, found(page(1), hops=0))
    assert items(cell)[0].hops == 0


def test_queued_url_moves_up_when_a_shorter_way_appears(cell: FrontierCell) -> None:
    add_links(cell, found(page("a"), 2), found(page("b"), 3), found(page("c"), 4))
    add_links(cell, found(page("c"), 1))
    assert next_urls(cell) == [page("c"), page("a"), page("b")]
    assert_queue_and_urls_agree(cell)


def test_url_keeps_every_way_it_was_found_by(cell: FrontierCell) -> None:
    """Within one batch and from one batch to the next; coverage is estimated from the overlap (C9)."""
    add_links(cell, replace(found(page(1)), by=BY_SITEMAP), replace(found(page(1)), by=BY_FEED))
    assert row(cell, page(1))["found_by"] == BY_SITEMAP | BY_FEED
    add_links(cell, found(page(1)))
    add_links(cell, replace(found(page(1)), by=BY_SITEMAP))
    assert row(cell, page(1))["found_by"] == BY_SITEMAP | BY_FEED | BY_LINK


def test_url_found_by_a_longer_way_stays_where_it_is(cell: FrontierCell) -> None:
    add_links(cell, found(page("a"), 2), found(page("b"), 2))
    add_links(cell, found(page("a"), 9))
    assert next_urls(cell) == [page("a"), page("b")]


def test_url_that_moves_up_keeps_its_turn_among_equals(cell: FrontierCell) -> None:
    add_links(cell, found(page("first"), 5), found(page("second"), 2))
    add_links(cell, found(page("first"), 2))
    assert next_urls(cell) == [page("first"), page("second")]


def test_due_url_does_not_move_when_a_shorter_way_appears(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), 5))
    settle(cell, items(cell)[0], STATE_QUEUED, "timeout", again_s=NOW_S + 60)
    before = row(cell, page(1))
    add_links(cell, found(page(1), 1))
    after = row(cell, page(1))
    assert after == {**before, "depth": 1, "in_links": 2}
    assert_queue_and_urls_agree(cell)
    assert next_urls(cell, now_s=NOW_S + 59) == []


@pytest.mark.parametrize("state", [STATE_DONE, STATE_FAILED, STATE_EXCLUDED])
def test_settled_url_is_not_queued_by_a_link(cell: FrontierCell, state: int) -> None:
    add_links(cell, found(page(1), 5))
    settle(cell, items(cell)[0], state)
    assert add_links(cell, found(page(1), 1)) == []
    assert (row(cell, page(1))["depth"], row(cell, page(1))["in_links"]) == (1, 2)
    assert (next_urls(cell), cell.queued) == ([], 0)


def test_backlink_order_follows_the_count_as_it_grows(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "f.sqlite", backlinks)
    add_links(cell, *(found(page(name)) for name in "abc"))
    add_links(cell, found(page("c"), in_links=5), found(page("b"), in_links=2))
    assert next_urls(cell) == [page("c"), page("b"), page("a")]
    assert_queue_and_urls_agree(cell)
    cell.close()


def test_depth_first_order_takes_what_was_found_last(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "f.sqlite", depth_first)
    add_links(cell, *(found(page(name)) for name in "abc"))
    add_links(cell, found(page("a"), 0))
    assert next_urls(cell) == [page("c"), page("b"), page("a")]
    cell.close()


def test_longest_wait_first_takes_a_day_old_url_before_a_shallow_one_and_a_retry_by_its_time(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "f.sqlite", klwf)
    add_links(cell, found(page("old"), 9), found(page("retry"), 1))
    settle(cell, items(cell)[1], STATE_QUEUED, "timeout", again_s=NOW_S + 3_600)
    add_links(cell, found(page("new"), 1, in_links=99), now_s=NOW_S + 86_400)
    assert next_urls(cell, now_s=NOW_S + 90_000) == [page("old"), page("retry"), page("new")]
    assert next_urls(cell, 2, now_s=NOW_S + 90_000) == [page("old"), page("retry")]
    cell.close()


def test_only_hosts_with_something_new_are_named(cell: FrontierCell) -> None:
    touched = add_links(cell, found(page(1)), found("http://other.test/"))
    assert sorted(name for _, name in touched) == [HOST, "other.test"]
    assert add_links(cell, found(page(1))) == []


def test_hosts_with_work_are_those_with_a_queue(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)), found("http://other.test/"))
    with cell.transaction():
        cell.count_requests([(cell.host_id(HOST, NOW_S), 10, "1.1.1.1", 0.5)])
    settle(cell, items(cell, host="other.test")[0], STATE_DONE)
    assert [(name, address) for _, name, address, _ in cell.hosts_with_work()] == [(HOST, "1.1.1.1")]


# ---- what goes out --------------------------------------------------------------------------------------------------


def test_due_urls_go_before_new_ones_and_each_by_rank(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(name), depth) for name, depth in (("n2", 2), ("d1", 1), ("d2", 1), ("n1", 1))))
    by_url = {item.url: item for item in items(cell)}
    settle(cell, by_url[page("d2")], STATE_QUEUED, "503", again_s=NOW_S + 10)
    settle(cell, by_url[page("d1")], STATE_QUEUED, "503", again_s=NOW_S + 20)
    assert next_urls(cell, now_s=NOW_S + 30) == [page(name) for name in ("d2", "d1", "n1", "n2")]
    assert next_urls(cell, 3, now_s=NOW_S + 30) == [page(name) for name in ("d2", "d1", "n1")]


def test_nothing_is_due_before_its_time(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    again_s = NOW_S + 60.0005
    settle(cell, items(cell)[0], STATE_QUEUED, "timeout", again_s=again_s)
    assert next_urls(cell, now_s=again_s - 0.0002) == []
    due_s = cell.next_due_s(cell.host_id(HOST, NOW_S), HOST)
    assert due_s is not None
    assert again_s <= due_s <= again_s + 0.002
    assert next_urls(cell, now_s=due_s + 0.001) == [page(1)]


def test_host_without_due_urls_has_no_due_time(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    assert cell.next_due_s(cell.host_id(HOST, NOW_S), HOST) is None


def test_what_is_in_memory_is_skipped_and_the_next_ones_come(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in range(6)))
    first = items(cell, 3)
    rest = items(cell, 2, skip={item.key for item in first})
    assert [item.url for item in rest] == [page(3), page(4)]


def test_other_hosts_urls_stay_out(cell: FrontierCell) -> None:
    add_links(cell, found("http://a.example.org/"), found("http://b.example.org/"))
    assert next_urls(cell, host="a.example.org") == ["http://a.example.org/"]


def test_url_goes_out_with_what_a_conditional_request_needs(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), 3, hops=2))
    new = items(cell)[0]
    assert (new.visits, new.depth, new.hops, new.since_s, new.etag) == (0, 3, 2, NOW_S, "")
    learnt = PageRow(200, b"d", b"t", etag='"x"', last_modified="Mon", payload_digest="sha1:A")
    settle(cell, new, STATE_DONE, learnt=learnt, archived=CaptureLocation("w", 5, 6))
    settle(cell, new, STATE_QUEUED, "timeout", again_s=NOW_S + 9)
    again = items(cell, now_s=NOW_S + 10)[0]
    assert (again.visits, again.etag, again.last_modified, again.digest) == (1, '"x"', "Mon", "sha1:A")
    assert (again.captured_s, again.since_s, again.lane, again.failures) == (NOW_S, NOW_S + 9, LANE_DUE, 1)


def test_a_copy_stays_where_its_body_is_when_later_visits_only_repeat_it(cell: FrontierCell) -> None:
    """A revisit record must refer to the date of the response, not to that of the last look."""
    add_links(cell, found(page(1)))
    learnt = PageRow(200, b"d", b"t", payload_digest="sha256:A")
    first, second = CaptureLocation("a.warc.gz", 10, 20), CaptureLocation("b.warc.gz", 1, 2)
    settle(cell, items(cell)[0], STATE_QUEUED, "200", again_s=NOW_S)
    settle(cell, items(cell)[0], STATE_DONE, learnt=learnt, archived=first, time_s=NOW_S + 1)
    queued = items_after(cell, NOW_S + 5)
    assert (queued.digest, queued.captured_s) == ("sha256:A", NOW_S + 1)
    with cell.transaction():
        host_id = cell.host_id(HOST, NOW_S)
        cell.settle(
            SettledVisit(host_id, queued, "200", STATE_DONE, NOW_S + 5, 0.0, learnt, second, repeats=True), HOST
        )
    again = items_after(cell, NOW_S + 9)
    assert (again.digest, again.captured_s) == ("sha256:A", NOW_S + 1)
    assert (page_row(cell, page(1))["file"], page_row(cell, page(1))["last_visit_s"]) == ("a.warc.gz", NOW_S + 5)


def items_after(cell: FrontierCell, now_s: float) -> QueuedUrl:
    """The page, due again."""
    row = cell.db.execute("SELECT slot, host_id, key FROM urls").fetchone()
    with cell.transaction():
        cell.requeue(*row, lane=LANE_DUE, rank=int(now_s * 1000))
        cell.db.execute("UPDATE urls SET lane = ?, rank = ?", (LANE_DUE, int(now_s * 1000)))
    return items(cell, now_s=now_s)[0]


def test_a_copy_that_was_not_kept_is_nothing_to_refer_to(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"d", etag="e", payload_digest="sha256:A"))
    assert items_after(cell, NOW_S + 5).digest == ""


# ---- nearer ---------------------------------------------------------------------------------------------------------


def test_a_read_page_found_by_a_shorter_way_waits_to_have_its_links_looked_at(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=5))
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"d"), archived=CaptureLocation("w", 1, 2))
    assert shorter_paths.pending(cell, 9) == []
    add_links(cell, found(page(1), depth=6))
    assert shorter_paths.pending(cell, 9) == []
    add_links(cell, found(page(1), depth=3))
    (waiting,) = shorter_paths.pending(cell, 9)
    assert (waiting.depth, waiting.file, waiting.offset, waiting.length) == (3, "w", 1, 2)
    shorter_paths.remove(cell, [waiting])
    assert shorter_paths.pending(cell, 9) == []


def test_a_page_whose_depth_fell_while_it_was_under_way_waits_too(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=5))
    under_way = items(cell)[0]
    add_links(cell, found(page(1), depth=2))
    settle(cell, under_way, STATE_DONE, learnt=PageRow(200, b"d"))
    assert [each.depth for each in shorter_paths.pending(cell, 9)] == [2]


# ---- visits end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [STATE_DONE, STATE_FAILED, STATE_EXCLUDED])
def test_settled_url_leaves_the_queue(cell: FrontierCell, state: int) -> None:
    add_links(cell, found(page(1)), found(page(2)))
    settle(cell, items(cell)[0], state, "some")
    assert (row(cell, page(1))["state"], row(cell, page(1))["outcome"]) == (state, "some")
    assert next_urls(cell) == [page(2)]
    assert (cell.known, cell.queued) == (2, 1)
    assert_queue_and_urls_agree(cell)


def test_failed_visit_waits_and_counts_its_failures(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    for failures in (1, 2, 3):
        settle(cell, items(cell, now_s=NOW_S + 1_000)[0], STATE_QUEUED, "timeout", again_s=NOW_S + failures)
        assert items(cell, now_s=NOW_S + 1_000)[0].failures == failures
        assert cell.queued == 1
    settle(cell, items(cell, now_s=NOW_S + 1_000)[0], STATE_DONE)
    assert row(cell, page(1))["failures"] == 0


def test_visit_settles_although_the_url_moved_up_meanwhile(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), 5))
    under_way = items(cell)[0]
    add_links(cell, found(page(1), 1))
    settle(cell, under_way, STATE_DONE)
    assert (cell.queued, next_urls(cell)) == (0, [])
    assert_queue_and_urls_agree(cell)


def test_visit_settled_twice_changes_no_count(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    for _ in range(2):
        settle(cell, item, STATE_DONE, learnt=PageRow(200), archived=CaptureLocation("a.warc.gz", 10, 20))
        assert_counters_are_true(cell)
    assert cell.captures == 1


def test_captures_are_counted_with_the_visits_and_in_a_cell_of_an_older_teia(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(cell, found(page(1)), found(page(2)))
    for n, item in enumerate(items(cell)):
        for visit in range(3):
            archived = CaptureLocation("a.warc.gz", 10 * n + visit, 5) if visit else CaptureLocation()
            settle(cell, item, STATE_DONE, time_s=NOW_S + visit, learnt=PageRow(200), archived=archived)
    assert_counters_are_true(cell)
    with pytest.raises(ZeroDivisionError), cell.transaction():
        cell.captures += 1 // 0 + 1
    assert cell.captures == 4, "it follows the rollback"
    with cell.transaction():
        cell.delete_meta(["captures"])  # an older teia has no such counter
    cell.close()
    for read_only in (True, False):
        older = FrontierCell(tmp_path / "frontier.sqlite", read_only=read_only)
        assert older.captures == 4
        older.close()


def test_unknown_url_is_not_settled(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    settle(cell, replace(items(cell)[0], key=7), STATE_DONE, learnt=PageRow(200))
    assert cell.db.execute("SELECT count(*) FROM pages").fetchone() == (0,)
    assert cell.queued == 1


# ---- history --------------------------------------------------------------------------------------------------------


def visits(cell: FrontierCell) -> list[tuple[object, ...]]:
    return cell.db.execute("SELECT outcome, digest, changed, file FROM visits ORDER BY time_s").fetchall()


def test_change_is_a_change_of_the_text(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    for number, (digest, text) in enumerate(((b"1", b"same"), (b"2", b"same"), (b"3", b"other"))):
        settle(cell, item, STATE_DONE, time_s=NOW_S + number, learnt=PageRow(200, digest, text))
    assert [visit[2] for visit in visits(cell)] == [None, 0, 1]
    known = page_row(cell, page(1))
    assert (known["visits"], known["changes"], known["last_change_s"]) == (3, 1, NOW_S + 2)


def test_change_of_what_has_no_text_is_a_change_of_its_bytes(cell: FrontierCell) -> None:
    add_links(cell, found(page("logo.png")))
    item = items(cell)[0]
    for number, digest in enumerate((b"1", b"1", b"2")):
        settle(cell, item, STATE_DONE, time_s=NOW_S + number, learnt=PageRow(200, digest))
    assert [visit[2] for visit in visits(cell)] == [None, 0, 1]


def test_not_modified_keeps_what_is_known(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    copy = CaptureLocation("a.warc.gz", 10, 20)
    settle(cell, item, STATE_DONE, learnt=PageRow(200, b"d", b"t", etag="e", title="T"), archived=copy)
    settle(
        cell,
        item,
        STATE_DONE,
        "304",
        time_s=NOW_S + 1,
        learnt=PageRow(304),
        archived=CaptureLocation("b.warc.gz", 1, 2),
    )
    known = page_row(cell, page(1))
    assert [known[name] for name in ("status", "digest", "etag", "title", "file")] == [200, b"d", "e", "T", "a.warc.gz"]
    assert visits(cell)[1] == ("304", b"d", 0, "b.warc.gz")


@pytest.mark.parametrize("state", [STATE_QUEUED, STATE_FAILED])
def test_failed_refresh_keeps_the_last_good_copy(cell: FrontierCell, state: int) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    settle(
        cell, item, STATE_DONE, learnt=PageRow(200, b"d", b"t", etag="e"), archived=CaptureLocation("a.warc.gz", 10, 20)
    )
    sorry = PageRow(503, b"sorry", b"sorry", etag="of the error page")
    settle(
        cell, item, state, "503", time_s=NOW_S + 1, again_s=NOW_S + 9, learnt=sorry, archived=CaptureLocation("b", 1, 2)
    )
    known = page_row(cell, page(1))
    assert [known[name] for name in ("status", "digest", "etag", "file", "changes")] == [200, b"d", "e", "a.warc.gz", 0]
    assert known["last_visit_s"] == NOW_S + 1
    assert visits(cell)[1] == ("503", b"sorry", None, "b")


def test_first_good_copy_after_a_failure_is_no_change(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    settle(cell, item, STATE_QUEUED, "503", again_s=NOW_S, learnt=PageRow(503, b"sorry", b"sorry", etag="bad"))
    assert items(cell)[0].etag == "", "the validators of an error page are not asked with"
    settle(cell, item, STATE_DONE, time_s=NOW_S + 1, learnt=PageRow(200, b"d", b"t", etag="e"))
    known = page_row(cell, page(1))
    assert [known[name] for name in ("status", "digest", "etag", "changes")] == [200, b"d", "e", 0]
    assert (known["visits"], known["last_change_s"]) == (2, NOW_S + 1)


# ---- hosts ----------------------------------------------------------------------------------------------------------


def test_requests_of_a_host_add_up(cell: FrontierCell) -> None:
    with cell.transaction():
        host_id = cell.host_id(HOST, NOW_S)
        cell.count_requests([(host_id, 100, "1.1.1.1", 0.5), (host_id, 50, "2.2.2.2", 0.25)])
        cell.park_host(host_id, "Crawl-delay of 7200 s")
    sql = "SELECT requests, bytes, address, response_s, parked FROM hosts"
    assert cell.db.execute(sql).fetchall() == [(2, 150, "2.2.2.2", 0.25, "Crawl-delay of 7200 s")]
    with cell.transaction():
        cell.count_requests([(host_id, 1, "2.2.2.2", 0.25)])
    assert cell.db.execute("SELECT parked FROM hosts").fetchone() == ("",)


def test_robots_of_every_origin_are_kept(cell: FrontierCell) -> None:
    with cell.transaction():
        host_id = cell.host_id(HOST, NOW_S)
        cell.store_robots(host_id, HOST, f"http://{HOST}", NOW_S, "404", 404, b"")
        cell.store_robots(host_id, HOST, f"https://{HOST}", NOW_S, "200", 200, b"old")
        cell.store_robots(host_id, HOST, f"https://{HOST}", NOW_S + 1, "200", 200, b"new")
    assert sorted(cell.robots_of(host_id, HOST)) == [
        (f"http://{HOST}", NOW_S, "404", 404, b""),
        (f"https://{HOST}", NOW_S + 1, "200", 200, b"new"),
    ]


# ---- all or nothing -------------------------------------------------------------------------------------------------


def test_rollback_leaves_memory_and_disk_as_before(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)), found(page(2), 5))
    before, counters = image(cell), (cell.known, cell.queued)
    item = items(cell)[0]
    with given_up(cell):
        cell.add_links([found(page(3)), found(page(2), 1), found("http://new.test/")], NOW_S)
        cell.settle(SettledVisit(1, item, "200", STATE_DONE, NOW_S, page=PageRow(200)), HOST)
    assert (image(cell), (cell.known, cell.queued)) == (before, counters)


def test_host_is_new_until_it_is_requested(cell: FrontierCell) -> None:
    """What is not on disk is not looked for there: that took a third of the queries for a host of one page."""
    with cell.transaction():
        asked, robots, other = (cell.host_id(f"{name}.test", 1.0) for name in ("asked", "robots", "other"))
    assert cell.new_hosts == {asked, robots, other}
    with cell.transaction():
        cell.count_requests([(asked, 10, "192.0.2.1", 0.1)])
        cell.store_robots(robots, "robots.test", "http://robots.test", 2.0, "404", 404, b"")
    assert cell.new_hosts == {other}
    with given_up(cell):
        cell.host_id("undone.test", 3.0)
    assert not cell.new_hosts, "a number that was rolled back may become another host's"
    assert cell.host_id("other.test", 4.0) == other
    assert not cell.new_hosts


def test_rolled_back_hosts_get_true_numbers_afterwards(cell: FrontierCell) -> None:
    """A number remembered from a transaction that never was may be another host's by now."""
    with given_up(cell):
        cell.add_links([found("http://lost.test/")], NOW_S)
    add_links(cell, found("http://kept.test/"))
    add_links(cell, found("http://lost.test/"))
    names = dict(cell.db.execute("SELECT name, host_id FROM hosts").fetchall())
    assert len(set(names.values())) == 2
    assert {name: cell.host_id(name, NOW_S) for name in names} == names


def test_cell_works_after_a_rollback(cell: FrontierCell) -> None:
    with given_up(cell):
        cell.add_links([found(page(1))], NOW_S)
    add_links(cell, found(page(1)))
    assert next_urls(cell) == [page(1)]
    assert_counters_are_true(cell)


def test_reopened_cell_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "frontier.sqlite"
    cell = FrontierCell(path)
    add_links(cell, *(found(page(number), number % 3) for number in range(20)))
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"d", b"t"))
    expected, counters, everything = items(cell), (cell.known, cell.queued), image(cell)
    cell.close()
    cell = FrontierCell(path)
    assert items(cell) == expected
    assert (cell.known, cell.queued) == counters
    assert image(cell) == everything
    add_links(cell, found(page("new"), 0))
    assert next_urls(cell)[-1] != page("new"), "the sequence goes on where it was, so it is not before its equals"
    cell.close()


def test_uncommitted_work_of_a_dead_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "frontier.sqlite"
    dying = FrontierCell(path)
    add_links(dying, found(page(1)))
    dying.db.execute("BEGIN IMMEDIATE")
    dying.add_links([found(page(2))], NOW_S)
    dying.db.close()
    cell = FrontierCell(path)
    assert next_urls(cell) == [page(1)]
    assert_counters_are_true(cell)
    cell.close()
