"""Hosts beyond `limits.hosts_in_memory` wait on disk: none is lost, none waits for ever, none is requested early."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawler import running_collection
from teia.crawler.commit import CommitResult
from teia.crawler.running_collection import Crawl
from teia.crawler.sites.identity import OPEN, verdict_of
from teia.frontier.cell.rows import AnswerImpression, IdentityCheck
from teia.frontier.queue.ledger import CourtesyInForce
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostSchedule
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.records import Outcome
from tests.crawler.offline import OfflineCrawl, offline_crawl
from tests.crawler.webs import ScriptedWeb, Server, crawl_web, html, redirect, text_of

LIMIT, HOSTS = 5, 60
HOST_SETTINGS = {"sites__aliases": False, "sites__traps": False, "sites__probe_after_pages": 0}


class Memory:
    """Hosts in memory and on disk after each commit of a crawl."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_memory: list[int] = []
        self.waiting: list[int] = []
        apply_commit = Crawl.apply_commit

        def applied(crawl: Crawl, *arguments: object) -> list[str]:
            gone = apply_commit(crawl, *arguments)  # type: ignore[arg-type]
            self.in_memory.append(len(crawl.queues))
            self.waiting.append(len(crawl.waiting_hosts))
            return gone

        monkeypatch.setattr(Crawl, "apply_commit", applied)


def hub(*hosts: str) -> object:
    """Return a page that links to the first pages of hosts."""

    def page(request: WorldRequest) -> WorldAnswer:
        port = request.headers["host"].rpartition(":")[2]
        return html(*(f"http://{host}:{port}/" for host in hosts))

    return page


def broad_web(hosts: int = HOSTS) -> ScriptedWeb:
    names = [f"h{number}.test" for number in range(hosts)]
    pages = {name: {"/": html("/more", text=text_of(number)), "/more": html()} for number, name in enumerate(names)}
    return ScriptedWeb({"hub.test": {"/": hub(*names)}, **pages})  # type: ignore[dict-item]


def test_a_crawl_of_more_hosts_than_fit_in_memory_fetches_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(monkeypatch)
    crawled = crawl_web(broad_web(), tmp_path, "hub.test/", limits__hosts_in_memory=LIMIT, **HOST_SETTINGS)
    (crawl,) = crawled.crawls
    asked = crawled.requested()
    assert sorted(asked) == sorted(
        [f"h{each}.test{path}" for each in range(HOSTS) for path in ("/robots.txt", "/", "/more")]
        + ["hub.test/robots.txt", "hub.test/"]
    )
    # The host whose page brought the others is in memory when they come.
    assert max(memory.in_memory) <= LIMIT + 1
    assert max(memory.waiting) >= HOSTS - LIMIT - 1
    assert crawl.counts.hosts == HOSTS + 1
    assert not crawl.queues
    assert not crawl.waiting_hosts
    assert early_requests(crawled.entries, 0.05, lambda entry: entry.host) == []


def test_hosts_that_waited_at_a_stop_wait_on_disk_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, settings = broad_web(), {"limits__hosts_in_memory": LIMIT, **HOST_SETTINGS}
    first = crawl_web(web, tmp_path, "hub.test/", limits__pages=20, **settings)
    memory = Memory(monkeypatch)
    second = crawl_web(web, tmp_path, "hub.test/", port=first.port, limits__pages=0, **settings)
    pages = [each for each in first.requested() + second.requested() if not each.endswith("/robots.txt")]
    wanted = [f"h{each}.test{path}" for each in range(HOSTS) for path in ("/", "/more")]
    assert sorted(pages) == sorted([*wanted, "hub.test/"])
    assert max(memory.in_memory) <= LIMIT + 1
    assert memory.waiting[0] > HOSTS / 2
    assert early_requests(second.entries, 0.05, lambda entry: entry.host) == []


def test_hosts_with_endless_work_give_their_places_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_collection, "MAKE_ROOM_EVERY_S", 0.1)
    monkeypatch.setattr(running_collection, "IDLE_TURN_S", 0.5)
    busy = {f"/{number or ''}": html(f"/{number + 1}", f"/x{number}", text=text_of(number)) for number in range(60)}
    busy |= {f"/x{number}": html() for number in range(60)}
    others = {f"h{number}.test": {"/": html()} for number in range(6)}
    web = ScriptedWeb(
        {"hub.test": {"/": hub("a.test", "b.test", *others)}, "a.test": busy, "b.test": busy, **others}  # type: ignore[dict-item]
    )
    crawled = crawl_web(
        web,
        tmp_path,
        "hub.test/",
        limits__hosts_in_memory=2,
        scope__max_depth=200,
        collection__cells=1,
        **HOST_SETTINGS,
    )
    asked = crawled.requested()
    assert len(asked) == len(set(asked)) == 2 * 122 + 2 * 6 + 2, "each once, and a missing page of both"
    last = max(asked.index(f"{host}/") for host in others)
    assert last < len(asked) / 2, "the other hosts did not wait until these had ended"


def test_hosts_that_must_not_be_requested_for_long_do_not_keep_others_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_collection, "MAKE_ROOM_EVERY_S", 0.1)
    refused = WorldAnswer(503, b"Retry-After: 3600\r\n", b"")
    paused = {f"p{number}.test": {"/": html()} for number in range(5)}
    refusing = {f"r{number}.test": {"/": refused, "/robots.txt": WorldAnswer(404, b"", b"")} for number in range(5)}
    others = {f"h{number}.test": {"/": html()} for number in range(10)}
    web = ScriptedWeb({"hub.test": {"/": hub(*paused, *refusing, *others)}, **paused, **refusing, **others})  # type: ignore[dict-item]
    crawled = crawl_web(
        web, tmp_path, "hub.test/", limits__hosts_in_memory=3, limits__pages=11, courtesy__paused=list(paused),
        collection__cells=1, **HOST_SETTINGS,
    )  # fmt: skip
    (crawl,) = crawled.crawls
    asked = crawled.requested()
    assert not [each for each in asked if each.startswith("p")]
    assert sorted(each for each in asked if each.startswith("h")) == sorted(
        [f"{host}{path}" for host in others for path in ("/", "/robots.txt")] + ["hub.test/", "hub.test/robots.txt"]
    )
    assert [asked.count(f"{host}/") for host in refusing] == [1] * len(refusing)
    assert len(crawl.queues) <= 3


def test_hosts_that_were_checked_for_answers_by_identity_leave_memory_and_are_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_collection, "MAKE_ROOM_EVERY_S", 0.1)
    monkeypatch.setattr(running_collection, "IDLE_TURN_S", 0.5)
    settings = {**HOST_SETTINGS, "limits__hosts_in_memory": LIMIT, "sites__identity_after_pages": 1}
    crawled = crawl_web(broad_web(20), tmp_path, "hub.test/", within_s=60, **settings)
    asked = crawled.requested()
    for number in range(20):
        assert asked.count(f"h{number}.test/") in {1, 2}, "the page, and once more under another name"
        assert asked.count(f"h{number}.test/more") in {1, 2}
    assert len(asked) > 20 * 3 + 2


def test_names_that_only_a_robots_txt_leads_to_do_not_keep_others_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no row on disk, and those that never answer stayed for ever."""
    monkeypatch.setattr(running_collection, "MAKE_ROOM_EVERY_S", 0.1)
    names = [f"h{number}.test" for number in range(20)]

    def led_to(name: str) -> object:
        def answer(request: WorldRequest) -> WorldAnswer:
            return redirect(f"http://dead-{name}:{request.headers['host'].rpartition(':')[2]}/robots.txt")

        return answer

    pages = {name: {"/": html(text=text_of(at)), "/robots.txt": led_to(name)} for at, name in enumerate(names)}
    web = ScriptedWeb({"hub.test": {"/": hub(*names)}, **pages})  # type: ignore[dict-item]
    web.unreachable = {f"dead-{name}": Server(f"127.77.91.{at}") for at, name in enumerate(names, 1)}
    settings = {**HOST_SETTINGS, "limits__hosts_in_memory": LIMIT}
    crawled = crawl_web(web, tmp_path, "hub.test/", within_s=60, **settings)
    asked = crawled.requested()
    assert {f"{name}/robots.txt" for name in names} <= set(asked)


# ---- single hosts, without a loop -------------------------------------------------------------------------------


def apply(offline: OfflineCrawl, schedule: HostSchedule, *hosts: str, urgent: str = "") -> None:
    """Apply a commit that brought URLs to hosts; their numbers are 1, 2 …"""
    crawl, clock = offline.crawl, offline.clock
    crawl.take_group(clock.ticks_s(), clock.now_s())
    numbers = {(0, host): number for number, host in enumerate(hosts, 1)}
    crawl.apply_commit(CommitResult(hosts=numbers, urgent_hosts={urgent}), schedule, clock)
    crawl._low_buffers.clear()


def schedule_of(crawl: Crawl) -> HostSchedule:
    return HostSchedule(Politeness(crawl.config.courtesy), 100)


def test_a_host_whose_url_a_user_wants_now_does_not_wait(tmp_path: Path) -> None:
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule = offline.crawl, schedule_of(offline.crawl)
        apply(offline, schedule, "a.test", "b.test", "c.test", urgent="c.test")
        assert set(crawl.queues) == {"a.test", "c.test"}
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [2]


def test_failures_and_holds_of_a_host_that_leaves_memory_are_remembered(tmp_path: Path) -> None:
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        queue = crawl.queues["a.test"]
        queue.failures, queue.last_failure, queue.hold_until, queue.exhausted = 7, Outcome.TIMEOUT, now + 900, True
        assert crawl.make_room(schedule, now) == ["a.test"]
        assert not crawl.queues
        again = crawl.host_queue("a.test", 1, schedule)
        assert again is not queue
        assert (again.failures, again.last_failure, again.hold_until) == (7, Outcome.TIMEOUT, now + 900)


def test_a_host_whose_check_of_identity_cannot_go_on_leaves_memory_and_gets_no_other_one(tmp_path: Path) -> None:
    """Its answers differ, so that a third is needed; it has failed since, or has no URL left to be asked with."""
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        queue = crawl.queues["a.test"]
        ours, other = (AnswerImpression(status, "", b"", 0) for status in ("200", "403"))
        queue.identity, queue.failures, queue.exhausted = IdentityCheck("http://a.test/", ours, other), 3, True
        assert verdict_of(queue.identity) == OPEN
        assert crawl.make_room(schedule, now) == ["a.test"]
        again = crawl.host_queue("a.test", 1, schedule)
        assert again.identity is not None
        assert verdict_of(again.identity) != OPEN
        assert crawl.host_queue("b.test", 2, schedule).identity is None


def test_a_host_whose_next_url_is_due_later_waits_on_disk_until_then(tmp_path: Path) -> None:
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        crawl.queues["a.test"].exhausted = True
        crawl._check_later(crawl.queues["a.test"], now + 3_600)
        assert crawl.make_room(schedule, now) == ["a.test"]
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [2]
        crawl.wake_due(schedule, now + 3_599)
        assert not crawl.waiting_hosts
        assert not crawl.is_done, "its URL is worth waiting for"
        crawl.wake_due(schedule, now + 3_600)
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [1]


def test_a_paused_host_waits_on_disk_until_the_settings_change(tmp_path: Path) -> None:
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        crawl.park(crawl.queues["a.test"], "by an operator")
        assert crawl.make_room(schedule, now) == ["a.test"]
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [2]
        crawl.reconfigure(crawl.compiled, CourtesyInForce.from_settings(0.0, crawl.config.courtesy), schedule)
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [1]


def test_a_paused_host_that_new_links_bring_back_again_and_again_waits_once(tmp_path: Path) -> None:
    """It stood in a list once for each time, and counted as finished."""
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        for _ in range(3):
            queue = crawl.host_queue("a.test", 1, schedule)
            assert not crawl._on_disk.parked, "it is in memory"
            crawl.park(queue, "by an operator")
            now += running_collection.MAKE_ROOM_EVERY_S
            assert crawl.make_room(schedule, now) == ["a.test"]
            assert [number.host_id for number in crawl._on_disk.parked.values()] == [1]
        assert (crawl.counts.hosts, len(crawl.waiting_hosts), crawl.finished_hosts) == (2, 1, 0)


def test_a_host_that_is_looked_at_again_every_minute_has_its_turn_and_no_more(tmp_path: Path) -> None:
    """A page that is due at least once a minute, or a budget that is looked at as often."""
    with offline_crawl({}, tmp_path, "http://seed.test/", limits__hosts_in_memory=1, collection__cells=1) as offline:
        crawl, schedule, now = offline.crawl, schedule_of(offline.crawl), offline.clock.ticks_s()
        apply(offline, schedule, "a.test", "b.test")
        queue, left, until = crawl.queues["a.test"], [], now + 2 * running_collection.TURN_S
        while not left and now < until:
            now += 50
            crawl.wake_due(schedule, now)
            queue.exhausted = True
            crawl._low_buffers.clear()
            crawl._check_later(queue, now + 50)
            left = crawl.make_room(schedule, now)
        assert left == ["a.test"]
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [2]
        crawl.wake_due(schedule, now + 50)
        assert [number.host_id for number in crawl.waiting_hosts.take(10)] == [1], "its check brings it back"
