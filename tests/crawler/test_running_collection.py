"""Hosts that leave memory when their work is done, and come back with their next URL."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from teia.crawler.commit import CommitGroup, CommitResult, Committer
from teia.crawler.running_collection import Crawl
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.queue.waiting_hosts import HostSet
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from tests.crawler.offline import offline_crawl
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots, text_of

HUB_PAGES, HOSTS_PER_PAGE = 12, 10


class Departures:
    """Hosts that left memory, and the numbers of hosts in memory after each commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.in_memory: list[int] = []
        apply_commit = Crawl.apply_commit

        def applied(crawl: Crawl, *arguments: object) -> list[str]:
            gone = apply_commit(crawl, *arguments)  # type: ignore[arg-type]
            self.names += gone
            self.in_memory.append(len(crawl.queues))
            return gone

        monkeypatch.setattr(Crawl, "apply_commit", applied)


def test_a_broad_crawl_has_only_hosts_with_work_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 20: memory grew by 7 kB with every host visited. Counted are objects, on any machine the same."""

    def hub_page(number: int) -> WorldAnswer:
        hosts = range(number * HOSTS_PER_PAGE, (number + 1) * HOSTS_PER_PAGE)
        links = [f"http://h{each}.test:PORT/" for each in hosts] + [f"/{number + 1}"]
        return html(*links[: None if number + 1 < HUB_PAGES else -1], text=text_of(number))

    def with_port(page: WorldAnswer) -> object:
        return lambda request: WorldAnswer(200, page.headers, page.body.replace(b"PORT", _port(request)))

    hub = {f"/{number or ''}": with_port(hub_page(number)) for number in range(HUB_PAGES)}
    hosts = {f"h{each}.test": {"/": html(text=text_of(each))} for each in range(HUB_PAGES * HOSTS_PER_PAGE)}
    departures = Departures(monkeypatch)
    web = ScriptedWeb({"hub.test": hub, **hosts})  # type: ignore[dict-item]
    crawled = crawl_web(web, tmp_path, "hub.test/", courtesy__delay_s=0.01, sites__aliases=False)
    (crawl,) = crawled.crawls
    assert crawl.counts.hosts == len(hosts) + 1 == len(set(departures.names))
    assert max(departures.in_memory) <= len(hosts) / 2
    assert not crawl.queues
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, HostQueue) and each.host in web.pages]


def test_a_host_that_comes_back_keeps_its_delay_and_its_robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    departures = Departures(monkeypatch)

    def waiting(request: WorldRequest) -> WorldAnswer:
        """Link to the other host once it has left memory, and until then to one more page like this."""
        if "b.test" in departures.names:
            return html(f"http://b.test:{_port(request).decode()}/late")
        number = int(request.target[1:] or 0) + 1
        return html(f"/{number}", text=text_of(number))

    pages = {"/": waiting, **{f"/{number}": waiting for number in range(1, 500)}}
    rules = robots("User-agent: *\nCrawl-delay: 0.7\nDisallow: /late/no")
    other = {"/robots.txt": rules, "/": html(), "/late": html("/late/no", "/late/yes"), "/late/yes": html()}
    crawled = crawl_web(
        ScriptedWeb({"a.test": pages, "b.test": other}), tmp_path, "a.test/", "b.test/",
        courtesy__delay_s=0.05, scope__max_depth=1_000, sites__traps=False, sites__probe_after_pages=0,
    )  # fmt: skip
    asked = [each for each in crawled.requested() if each.startswith("b.test")]
    assert asked == ["b.test/robots.txt", "b.test/", "b.test/late", "b.test/late/yes"]
    assert crawled.outcomes()["b.test/late/no"] == "robots"
    of_b = [entry for entry in crawled.entries if entry.host == "b.test"]
    assert early_requests(of_b, 0.7, lambda entry: entry.host) == []
    assert crawled.crawls[0].counts.hosts == 2


def test_urls_that_a_commit_brings_to_a_host_without_any_are_fetched_before_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: such a host waited for two commits: one that stored its new URLs, and one that read them."""
    groups: list[int] = []
    commit = Committer.commit

    def counted(committer: Committer, group: CommitGroup) -> CommitResult:
        groups.append(len(group.visits))
        return commit(committer, group)

    monkeypatch.setattr(Committer, "commit", counted)
    pages = {f"/{number or ''}": html(f"/{number + 1}", text=text_of(number)) for number in range(30)}
    settings = {"courtesy__delay_s": 0.0, "scope__max_depth": 100, "sites__traps": False, "sites__probe_after_pages": 0}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", **settings)
    assert len(crawled.requested()) == 32, "robots.txt, the pages, and one that is missing"
    assert len(groups) < 45


def test_a_host_with_anything_that_only_memory_knows_stays() -> None:
    def finished(**fields: object) -> bool:
        queue = HostQueue("a.test", 7, 0, 0, DelayTarget("a.test"), exhausted=True)
        for name, value in fields.items():
            setattr(queue, name, value)
        return queue.is_finished

    item = QueuedUrl("http://a.test/", 0, 0, 0, 0, 0.0)
    assert finished()
    assert finished(host_id=0, exhausted=False), "a host of which only a robots.txt was requested"
    assert not finished(exhausted=False)
    assert not finished(buffer=[item])
    assert not finished(prerequisites=[item])
    assert not finished(users=1)
    assert not finished(failures=1)
    assert not finished(parked="by the user")


def test_a_set_of_hosts_counts_each_once() -> None:
    hosts = HostSet()
    assert [hosts.add(cell, number) for cell, number in [(0, 1), (1, 1), (0, 1), (0, 9_000), (0, 8), (0, 9_000)]] == [
        True, True, False, True, True, False,
    ]  # fmt: skip


def test_the_ledger_gets_delays_and_no_places_without_one(tmp_path: Path) -> None:
    with offline_crawl({}, tmp_path, "http://a.test/") as offline:
        crawl, now = offline.crawl, offline.clock.ticks_s()
        free, delayed = DelayTarget("free.test", ready_at=now), DelayTarget("slow.test", ready_at=now, last_delay_s=5.0)
        later = DelayTarget("later.test", ready_at=now + 9)
        shared = DelayTarget("1.1.1.1", ready_at=now, known_sites=30)
        for each in (free, delayed, later):
            crawl.note_delay(each, shared)
        names = [entry.name for entry in crawl.take_group(now, offline.clock.now_s()).delays]
        assert sorted(names) == ["1.1.1.1", "later.test", "slow.test"]


def _port(request: WorldRequest) -> bytes:
    return request.headers["host"].rpartition(":")[2].encode()
