"""What comes next is what the crawler then takes; hosts, why URLs wait, and what can be done."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.collections.account import empty_summary
from teia.collections.settings import saved
from teia.config.sections import CollectionSettings, Config, CourtesySettings, RefreshSettings
from teia.crawler.keep_fresh import estimate
from teia.crawler.lookup import Lookup
from teia.errors import StoreError
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import CapturedPage
from teia.frontier.cell.schema import STATE_QUEUED
from teia.frontier.queue.host_rules import PAUSED
from teia.frontier.queue.order import order_named
from teia.frontier.queue.politeness import Politeness
from teia.refresh.history import Histories
from teia.refresh.rates import Flags, Gamma
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from teia.urls import key_of
from teia.views.alerts import Disk, find_alerts
from teia.views.host import (
    WeekPlan,
    compute_feasibility,
    estimate_freshness,
    find_line,
    host_state,
    host_view,
    week_plan,
)
from teia.views.hosts import (
    HostLine,
    HostTable,
    HostWaitReasons,
    count_reasons,
    count_wait_reasons,
    host_reasons,
    host_table,
)
from teia.views.queue import QueueFilter, find_next_key, preview_queue
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html, robots
from tests.frontier.cells import HOST, NOW_S, add_links, found, items, page, settle
from tests.readers import is_read, without_garbage_collection

WORDS = ["casa", "rio", "lua", "mar", "sol", "pedra", "vento", "fogo", "terra", "nuvem", "folha", "areia"]
WEEK_S = 7 * 86_400.0


def web() -> ScriptedWeb:
    """Pages with words of their own: texts that differ in numbers alone look like a trap."""
    hosts = {}
    for host in ("a.test", "b.test"):
        pages = {f"/{word}": html(text=own_words(f"{host}/{word}")) for word in WORDS}
        hosts[host] = pages | {"/": html(*(f"/{word}" for word in WORDS), text=own_words(host))}
    return ScriptedWeb(hosts)


def own_words(key: str) -> str:
    chance = random.Random(key)
    return " ".join("".join(chance.choices("bcdfglmnprstaeiou", k=7)) for _ in range(40))


@pytest.fixture
def cut(tmp_path: Path) -> Crawled:
    """A crawl of two hosts that was stopped after a few pages."""
    return crawl_web(web(), tmp_path, "a.test/", "b.test/", limits__pages=5, courtesy__delay_s=0.05)


def line(host: str = "x.test", **values: object) -> HostLine:
    plain = {
        "host_id": 1, "cell": 0, "urls": 10, "visited": 4, "failed": 0, "excluded": 0, "requests": 5, "bytes": 100,
        "address": "10.0.0.1", "parked": "", "response_s": 0.0, "delay_s": 5.0, "ready_at_s": None,
        "last_request_s": None, "waits": HostWaitReasons(new=6),
    }  # fmt: skip
    return HostLine(host, **{**plain, **values})  # type: ignore[arg-type]


# ---- the order ------------------------------------------------------------------------------------------------------


def test_the_list_is_the_order_the_crawler_takes(cut: Crawled, tmp_path: Path) -> None:
    """A6, C1: host by host, the URLs that were announced are the ones that are asked for, in that order."""
    root, now_s = open_root(cut.data), 2e9
    table, config = host_table(root, "main", now_s), saved(root, "main").config
    with Lookup(root, "main") as lookup:
        announced = preview_queue(lookup, table, config, now_s, 1_000, QueueFilter())
    waiting = {each["url"] for each in known_urls(root, "main") if each["state"] == "queued"}
    assert {each.url for each in announced} == waiting
    assert len(announced) == len(waiting) > 10
    assert [each.expected_s for each in announced] == sorted(each.expected_s for each in announced)
    more = crawl_web(web(), tmp_path, "a.test/", "b.test/", port=cut.port, limits__pages=0, courtesy__delay_s=0.05)
    asked = [entry for entry in more.entries if entry.path != "/robots.txt"]
    for host in ("a.test", "b.test"):
        expected = [each.url.rpartition("/")[2] for each in announced if each.host == host]
        assert [entry.path.lstrip("/") for entry in asked if entry.host == host][-len(expected) :] == expected


@pytest.mark.parametrize(("order", "first"), [("klwf", "old"), ("breadth", "retry")])
def test_a_retry_waits_behind_older_urls_only_where_the_order_is_by_arrival(
    tmp_path: Path, order: str, first: str
) -> None:
    cell, config = FrontierCell(tmp_path / "f.sqlite", order_named(order)), Config(CollectionSettings(order=order))
    add_links(cell, found(page("old")), found(page("retry")))
    settle(cell, items(cell)[1], STATE_QUEUED, "timeout", again_s=NOW_S + 60)
    of_host = line(HOST, host_id=cell.host_id(HOST, NOW_S), waits=HostWaitReasons(new=1, retry=1))
    assert find_next_key(cell, of_host, config, NOW_S + 90) == key_of(page(first))
    cell.close()


def test_the_kth_url_of_a_host_comes_k_slots_after_it_is_ready(cut: Crawled) -> None:
    root, now_s = open_root(cut.data), 2e9
    table, config = host_table(root, "main", now_s), saved(root, "main").config
    slot_s = table.hosts["a.test"].slot_s
    with Lookup(root, "main") as lookup:
        of_a = preview_queue(lookup, table, config, now_s, 5, QueueFilter(host="a.test"))
    assert [each.ahead for each in of_a] == [0, 1, 2, 3, 4]
    assert [each.expected_s - now_s for each in of_a] == pytest.approx([n * slot_s for n in range(5)], abs=1e-4)


def test_a_list_that_was_not_read_to_its_end_leaves_no_reader_behind(cut: Crawled) -> None:
    """As long as somebody reads a cell, SQLite's log of it grows: 400 MB in the first hour of a soak."""
    root, now_s = open_root(cut.data), 2e9
    table, config = host_table(root, "main", now_s), saved(root, "main").config
    with without_garbage_collection(), Lookup(root, "main") as lookup:
        assert len(preview_queue(lookup, table, config, now_s, 1, QueueFilter())) == 1
        line = table.hosts["a.test"]
        assert find_next_key(lookup.cells[line.cell], line, config, now_s)
        assert [cell for cell in lookup.cells if is_read(cell.path)] == []


def test_what_is_requested_is_what_is_listed(cut: Crawled) -> None:
    root = open_root(cut.data)
    table, config = host_table(root, "main", 2e9), saved(root, "main").config
    with Lookup(root, "main") as lookup:
        found = preview_queue(lookup, table, config, 2e9, 50, QueueFilter(contains="areia"))
        assert {each.host for each in found} == {"a.test", "b.test"}
        assert all(each.ahead > 0 for each in found), "its place among all of its host is kept"
        assert preview_queue(lookup, table, config, 2e9, 50, QueueFilter(host="c.test")) == []
        assert preview_queue(lookup, table, config, 2e9, 50, QueueFilter(source="retry")) == []
        assert preview_queue(lookup, table, config, 2e9, 50, QueueFilter(depth=7)) == []


# ---- hosts ----------------------------------------------------------------------------------------------------------


def test_whys_add_up_to_what_waits(cut: Crawled) -> None:
    root = open_root(cut.data)
    whys = count_wait_reasons(host_table(root, "main", 2e9))
    waiting = sum(each["state"] == "queued" for each in known_urls(root, "main"))
    assert whys.total == waiting
    assert whys.next + whys.resting + whys.behind + whys.retry + whys.suspect + whys.parked + whys.not_due == waiting
    assert (whys.next, whys.resting) == (2, 0)
    resting = host_table(root, "main", 1.0)
    assert count_wait_reasons(resting).total == waiting


@pytest.mark.parametrize(
    ("values", "reasons"),
    [
        ({}, ()),
        ({"parked": PAUSED}, ("paused",)),
        ({"parked": "robots.txt asks for a Crawl-delay of 900 s"}, ("parked",)),
        ({"visited": 0, "failed": 1}, ("unanswered",)),
        ({"visited": 40, "failed": 5}, ("errors",)),
        ({"visited": 60, "failed": 5}, ()),
        ({"visited": 0, "excluded": 10, "waits": HostWaitReasons()}, ("left_out",)),
        ({"delay_s": 1e6}, ("slow",)),
        ({"waits": HostWaitReasons(retry=2, retry_due=1)}, ("retry",)),
        ({"waits": HostWaitReasons(retry=2, retry_due=2)}, ()),
        ({"waits": HostWaitReasons(suspect=1)}, ("suspect",)),
        ({"ready_at_s": 11.0}, ("resting",)),
        ({"ready_at_s": 11.0, "parked": PAUSED}, ("paused",)),
        ({"visited": 0, "failed": 3, "delay_s": 1e6}, ("unanswered", "slow")),
    ],
)
def test_what_is_in_the_way_of_a_host_has_a_name(values: dict[str, object], reasons: tuple[str, ...]) -> None:
    """UX 2.7."""
    of = line(**values)
    assert host_reasons(of, 10.0) == reasons
    assert {word for word, number in count_reasons([of, line()], 10.0).items() if number} == set(reasons)


def test_the_slowest_host_decides_when_all_is_done() -> None:
    hosts = [
        line("a.test"),
        line("b.test", waits=HostWaitReasons(new=4), delay_s=60.0),
        line("c.test", parked="asked to"),
    ]
    table = HostTable(0.0, {each.host: each for each in hosts})
    assert table.slowest is hosts[1]
    assert table.slowest.finish_s == 240.0
    assert HostTable(0.0, {}).slowest is None
    assert table.count_sharing(hosts[0]) == 2


def test_a_crawl_delay_counts_for_a_host_without_a_recent_request(tmp_path: Path) -> None:
    pages = {"/robots.txt": robots("User-agent: *\nCrawl-delay: 0.4\n"), "/": html("/b"), "/b": html()}
    done = crawl_web(ScriptedWeb({"x.test": pages}), tmp_path, "x.test/")
    (tmp_path / "data" / "ledger.sqlite").unlink()
    assert host_table(open_root(done.data), "main", 2e9).hosts["x.test"].delay_s == 0.4


def test_a_host_is_described_by_its_last_requests(cut: Crawled) -> None:
    root = open_root(cut.data)
    table = host_table(root, "main", 2e9)
    with Lookup(root, "main") as lookup:
        about = host_view(lookup, table, "A.TEST", Config(), 2e9)
        with pytest.raises(StoreError, match="unknown host"):
            host_view(lookup, table, "nobody.test", Config(), 2e9)
    asked = [entry for entry in cut.entries if entry.host == "a.test"]
    assert about.requests_seen == len(asked)
    assert sum(about.outcomes.values()) == sum(count for *_, count in about.times) == len(asked)
    assert about.early == 0
    assert about.rhythm == (), "long ago"
    assert len(about.next) == 10
    assert about.state == host_state(find_line(table, "a.test"), 2e9) == "ready"


def test_how_fresh_a_host_could_be_depends_on_the_delay(cut: Crawled) -> None:
    root = open_root(cut.data)
    of = host_table(root, "main", 2e9).hosts["a.test"]
    often, seldom = (estimate_freshness(root, "main", of, slot_s, 2e9) for slot_s in (10.0, 1e6))
    assert often.best is not None
    assert seldom.best is not None
    assert often.best > seldom.best
    assert often.fresh == seldom.fresh


def test_a_view_of_one_host_learns_from_some_pages_of_others_and_once(
    cut: Crawled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell may have a hundred thousand hosts, and a person waits for this page."""
    learnt: list[int] = []

    def learn(seen: Histories, trusted: Flags) -> Gamma:
        learnt.append(len(seen))
        return known(seen, trusted)

    known = estimate.learn_common_prior
    monkeypatch.setattr(estimate, "SAMPLE_PAGES", 1)
    monkeypatch.setattr(estimate, "learn_common_prior", learn)
    root = open_root(cut.data)
    of = host_table(root, "main", 3e9).hosts["a.test"]
    for slot_s in (10.0, 20.0):
        estimate_freshness(root, "main", of, slot_s, 3e9)
    assert learnt == [1]


def test_what_all_pages_share_is_learnt_from_some_hosts_and_without_counting_their_pages(
    cut: Crawled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: the first search in five minutes counted 200,000 pages of a host."""
    limits: list[int] = []

    def captured_pages(cell: FrontierCell, slot: int, host_id: int, after: int, limit: int) -> list[CapturedPage]:
        limits.append(limit)
        return known(cell, slot, host_id, after, limit)

    known = revisits.captured_pages
    monkeypatch.setattr(revisits, "captured_pages", captured_pages)
    monkeypatch.delattr(revisits, "count_captured")
    monkeypatch.setattr(estimate, "SAMPLE_PAGES", 4)
    with Lookup(open_root(cut.data), "main") as lookup:
        for hosts in (2, 1):
            monkeypatch.setattr(estimate, "SAMPLE_HOSTS", hosts)
            limits.clear()
            estimate.common_of_cells(lookup.cells, 4e9 + 1_000 * hosts)
            assert len(limits) == hosts
            assert limits[0] == 4 // hosts
            assert sum(limits) <= 4 + hosts


# ---- can it be done -------------------------------------------------------------------------------------------------


def test_a_pass_is_pages_times_delay() -> None:
    """UX acceptance 15."""
    found = compute_feasibility(line(visited=235_700, waits=HostWaitReasons(new=300_000), delay_s=5.0))
    assert found.pages == 535_700
    assert found.pass_s == pytest.approx(535_700 * 5.0, rel=0.01)
    assert not found.fits_in_week
    assert found.week_pages == 120_960
    asked = compute_feasibility(line(response_s=0.5), delay_s=1.0, pages=1_000)
    assert (asked.pages, asked.pass_s, asked.fits_in_week) == (1_000, 1_500.0, True)


@pytest.mark.parametrize(("pages", "response_s"), [(300_000, 0.0), (535_700, 0.03), (1_000_000, 0.2)])
def test_the_weekly_delay_finishes_in_a_week(pages: int, response_s: float) -> None:
    """UX acceptance 15: the politeness the crawler goes by, with that delay, has all pages asked within seven days."""
    delay_s = compute_feasibility(line(visited=pages, waits=HostWaitReasons(), response_s=response_s)).week_delay_s
    assert delay_s is not None
    politeness, clock = Politeness(CourtesySettings(delay_s=delay_s, response_factor=1.0)), VirtualClock(0.0)
    server, address = politeness.server("x.test"), politeness.address("10.0.0.1")
    at, asked = clock.ticks_s(), 0
    sample = 2_000
    for _ in range(sample):
        at = max(at, server.ready_at, address.ready_at)
        politeness.begin_request(server, address)
        politeness.end_request(server, address, at, at + response_s)
        at, asked = at + response_s, asked + 1
    assert server.ready_at / asked * pages == pytest.approx(WEEK_S, rel=0.001)


def test_a_server_that_answers_too_slowly_has_no_weekly_delay() -> None:
    assert compute_feasibility(line(visited=10**6, response_s=1.0)).week_delay_s is None
    assert compute_feasibility(line(visited=0, waits=HostWaitReasons())).pass_s == 0


def test_the_visits_of_a_week_are_shared_out_as_the_crawler_does() -> None:
    """UX 2.7: so many to known pages, the rest to new ones."""
    keep = RefreshSettings(keep=True, share=0.5, least_s=3_600.0)
    both = line(visited=235_700, waits=HostWaitReasons(new=300_000), delay_s=5.0, response_s=0.0)
    assert week_plan(both, keep) == WeekPlan(known=60_480, new=60_480)
    assert week_plan(replace(both, waits=HostWaitReasons()), keep) == WeekPlan(known=120_960, new=0)
    assert week_plan(replace(both, waits=HostWaitReasons(new=2, retry=1)), keep) == WeekPlan(known=120_957, new=3), (
        "then no more"
    )
    assert week_plan(replace(both, waits=HostWaitReasons(suspect=5)), keep) == WeekPlan(known=120_960, new=0), (
        "they are held"
    )
    assert week_plan(replace(both, parked="paused"), keep) is None
    assert week_plan(replace(both, visited=10), keep) == WeekPlan(known=1_680, new=119_280), "none every few seconds"
    assert week_plan(both, RefreshSettings()) is None
    assert week_plan(replace(both, visited=0), keep) is None


# ---- what needs a person --------------------------------------------------------------------------------------------


def account(**values: object) -> dict[str, object]:
    return {**asdict(empty_summary("main")), **values}


def test_nothing_is_reported_where_nothing_is_wrong() -> None:
    table = HostTable(0.0, {"a.test": line("a.test")})
    assert find_alerts(account(live={"early": 0}), table, Disk(0.5, 0.05)) == []
    assert find_alerts(account(), None, Disk(0.5, 0.05)) == []


def test_the_most_harmful_comes_first_and_names_its_host() -> None:
    slow = line("slow.test", visited=535_700)
    shy = line("shy.test", parked="robots.txt asks for a Crawl-delay of 7200 s")
    table = HostTable(0.0, {each.host: each for each in (slow, shy)})
    fresh = {"pages": 900, "visited_again": 500, "fresh": 0.5, "fresh_error": 0.02, "best": 0.8}
    said = account(
        live={"early": 3},
        state="paused",
        paused_why="only 3 MiB are free",
        failed_seeds=("http://u.test/: timeout",),
        freshness=fresh,
    )
    needs = find_alerts(said, table, Disk(0.06, 0.05))
    assert [need.kind for need in needs] == ["early", "paused", "disk", "seeds", "freshness", "slow_host", "parked"]
    assert needs[5].host == "slow.test"
    assert "31 days" in needs[5].message
    assert find_alerts(account(state="paused", paused_why="asked to"), None, Disk(0.5, 0.05)) == []


def test_a_seed_without_an_address_is_an_alert_about_its_host() -> None:
    """A mistyped host is told by its name; name servers that do not answer say nothing about it."""
    silent = "http://b.test/: dns (name server did not respond)"
    seeds = ("http://exmaple.test/a: dns (no such name)", "http://exmaple.test/b: dns", silent)
    needs = find_alerts(account(failed_seeds=seeds), None, Disk(0.5, 0.05))
    assert [(need.kind, need.host, need.detail) for need in needs] == [
        ("no_host", "exmaple.test", ""),
        ("seeds", "", silent),
    ]


def test_an_index_that_lacks_pages_is_reported() -> None:
    def of_index(**values: object) -> list[tuple[str, float | None]]:
        return [(need.kind, need.value) for need in find_alerts(account(**values), None, Disk(0.5, 0.05))]

    assert of_index(indexed=380, index_behind=2_620) == [("index", 2_620)]
    assert of_index(indexed=380, index_behind=2_620, index_writing=True) == [("index", 2_620)]
    assert of_index(indexed=90_000, index_behind=2_620, index_writing=True) == [], "it keeps up well enough"
    assert of_index(indexed=0, index_behind=20, live={"early": 0}) == [], "the crawl has just begun"
    assert of_index(indexed=3, index_unreadable=2) == [("unreadable", 2)]


def test_many_slow_hosts_are_one_more_line() -> None:
    table = HostTable(0.0, {f"h{n}.test": line(f"h{n}.test", visited=10**6 + n) for n in range(50)})
    kinds = [need.kind for need in find_alerts(account(), table, Disk(0.5, 0.05))]
    assert kinds == ["slow_host"] * 3 + ["slow_hosts"]
