"""Pages kept fresh without network and without waiting: the real frontier, commit and plans, and a lab's web in memory.

Every host is asked once a slot, as politeness lets it be. All hosts go in step, so a slot is one commit, and the
planning thread is waited for: the same settings give the same visits on any machine.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from teia.collections.settings import configure
from teia.crawler.child.messages import decode_result, encode
from teia.crawler.child.read_answer import read
from teia.crawler.commit import CommitGroup, CommitResult
from teia.crawler.keep_fresh.keep_fresh import Refresh
from teia.crawler.running_collection import Crawl
from teia.crawler.start import open_crawls
from teia.crawler.verdicts import task_for, verdict_of
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.cell.schema import AS_SITEMAP, BY_SITEMAP
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.lab.measure.true_freshness import PageTruth, true_freshness
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.records import Fetched
from teia.store.root import open_root
from teia.urls import key_of, split

EPOCH_S = 1_700_000_000.0
DAY_S = 86_400.0
QUIET = {
    "errors.scale": 0,
    "urls.sessions": 0,
    "sites.mirrors": 0,
    "sites.aliases": 0,
    "sites.nxdomain": 0,
    "sites.unreachable": 0,
    "sites.shared_address": 0,
    "links.orphans": 0,
    "links.nofollow": 0,
    "robots.present": 0,
    "robots.nofollow": 0,
    "text.pdfs": 0,
    "feeds.rss": 0,
    "feeds.atom": 0,
    "validators.eager": 0,
    "validators.frozen": 0,
}


class ManualClock:
    """A clock that somebody else turns."""

    def __init__(self, now_s: float) -> None:
        self.at_s = now_s

    def now_s(self) -> float:
        return self.at_s

    def ticks_s(self) -> float:
        return self.at_s - EPOCH_S

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def quiet_world(**values: Any) -> World:
    """A web in which nothing fails; keys have `__` for the dot."""
    return World(
        WorldSpec.from_values(QUIET | {key.replace("__", "."): value for key, value in values.items()}), epoch_s=EPOCH_S
    )


class FreshWeb:
    """A collection of a world's pages that is kept fresh, slot by slot.

    `taken` is (time, URL) of every visit, `copied` of those that brought a body.
    """

    def __init__(self, world: World, crawl: Crawl, clock: ManualClock, data: Path) -> None:
        self.world, self.crawl, self.clock, self.data = world, crawl, clock, data
        self.taken: list[tuple[float, str]] = []
        self.copied: list[tuple[float, str]] = []
        self.down: set[str] = set()
        self._requests: defaultdict[str, int] = defaultdict(int)
        self._chance = random.Random(1)

    @property
    def refresh(self) -> Refresh:
        assert self.crawl.committer.refresh is not None
        return self.crawl.committer.refresh

    def begin(self) -> None:
        self._commit(CommitGroup(seeds=[_found(seed) for seed in self.crawl.config.collection.seeds]))

    def announce_sitemaps(self) -> None:
        """Name the hosts' sitemaps, as their robots.txt would."""
        hosts = [host for host in self.world.hosts if host.sitemap != "none"]
        found = [_found(f"{self.world.roots[host.name].decode()}sitemap.xml") for host in hosts]
        for each in found:
            each.by = BY_SITEMAP | AS_SITEMAP
        self._commit(CommitGroup(seeds=found))

    def run(self, days: float, slot_s: float) -> None:
        """Let so many days pass, with a request to each host every `slot_s` seconds."""
        until_s = self.clock.at_s + days * DAY_S
        while self.clock.at_s + slot_s <= until_s:
            self.clock.at_s += slot_s
            visits = [visit for visit in map(self._visit, self._queues(slot_s)) if visit is not None]
            self._commit(CommitGroup(visits=visits))

    def run_paced(self, days: float, delays_s: Mapping[str, float], step_s: float) -> None:
        """Let so many days pass; each host is requested when its delay is over and it has something to request.

        Commits are `step_s` apart, and no host is requested twice between two of them.
        """
        until_s, ready_s = self.clock.at_s + days * DAY_S, dict[str, float]()
        while self.clock.at_s + step_s <= until_s:
            self.clock.at_s += step_s
            visits = []
            for queue in self._queues(0.0):
                delay_s = queue.server.last_delay_s = delays_s[queue.host]
                if self.clock.at_s >= ready_s.get(queue.host, 0.0):
                    visit, due_s = self._ask(queue)
                    ready_s[queue.host] = self.clock.at_s + delay_s if visit is not None else due_s or 0.0
                    visits += [visit] if visit is not None else []
            self._commit(CommitGroup(visits=visits))

    def _queues(self, slot_s: float) -> list[HostQueue]:
        queues = []
        for cell in self.crawl.committer.cells:
            for host_id, host in cell.frontier.db.execute(
                "SELECT host_id, name FROM hosts ORDER BY host_id"
            ).fetchall():
                queue = HostQueue(host, host_id, cell.number, 0, DelayTarget(host, last_delay_s=slot_s))
                queue.requests = self._requests[host]
                queues.append(queue)
        return queues

    def _visit(self, queue: HostQueue) -> ActiveVisit | None:
        return self._ask(queue)[0]

    def _ask(self, queue: HostQueue) -> tuple[ActiveVisit | None, float | None]:
        """The visit of a host's next URL; or, if none is to be visited now, when one may be."""
        items, due_s = self.crawl.committer._refill(queue, 1, (), CommitResult())
        if not items:
            return None, due_s
        (item,) = items
        self._requests[queue.host] += 1
        self.taken.append((self.clock.at_s, item.url))
        delay_s = queue.server.last_delay_s
        visit = ActiveVisit(queue, item, delay_before_s=delay_s, delay_s=delay_s, fetched=self._fetch(item))
        assert visit.fetched is not None
        visit.bytes_received = visit.fetched.bytes_received
        if visit.fetched.status:
            visit.result = decode_result(read(encode(task_for(self.crawl.read_settings, "page", item, visit.fetched))))
        visit.outcome = visit.result.outcome if visit.result is not None else visit.fetched.outcome
        visit.verdict = verdict_of(visit, self.crawl.config, self._chance)
        return visit, None

    def _fetch(self, item: QueuedUrl) -> Fetched:
        now_s, parts = self.clock.at_s, split(item.url)
        if parts.host in self.down:
            return Fetched(item.url, "timeout", 0, now_s, now_s)
        headers = {"if-none-match": item.etag} if item.etag else {}
        if item.last_modified:
            headers["if-modified-since"] = item.last_modified
        answer = self.world.answer(WorldRequest(parts.host, parts.target, headers=headers), now_s)
        if answer.status == 200:
            self.copied.append((now_s, item.url))
        head = b"HTTP/1.1 %d OK\r\n%b\r\n" % (answer.status, answer.headers)
        return Fetched(item.url, str(answer.status), answer.status, now_s, now_s, head=head, body=answer.body)

    def _commit(self, group: CommitGroup) -> CommitResult:
        done = self.crawl.committer.commit(group)
        while self.refresh.has_pending_work or self.refresh._running is not None:  # to be waited for
            if self.refresh._running is not None:
                self.refresh._running.exception()
            self.crawl.committer.commit(CommitGroup())
        return done

    # -- what came of it -----------------------------------------------------------------------------------

    def visits(self) -> dict[str, list[float]]:
        """When each page was visited."""
        times: dict[str, list[float]] = defaultdict(list)
        for time_s, url in self.taken:
            times[url].append(time_s)
        return times

    def truth(self) -> dict[str, PageTruth]:
        """What is true of every page of the world, visited or not."""
        found, times = {}, self.visits()
        for host in self.world.hosts:
            space = self.world.spaces[host.index]
            for slot in (each for each in range(host.size) if space.kind(each) is UrlKind.PAGE):
                url = (self.world.roots[host.name] + space.path(slot)).decode()
                events = self.world.changes.events(host.content, slot, self.world.days(self.clock.at_s))
                changes = [self.world.time_s(days) for days, is_meaningful in events if is_meaningful]
                found[url] = PageTruth(changes, times.get(url, []))
        return found

    def copied_freshness(self, from_day: float) -> float:
        """How fresh the copies were, by the truth, where a 304 makes no copy younger."""
        times: dict[str, list[float]] = defaultdict(list)
        for time_s, url in self.copied:
            times[url].append(time_s)
        pages = [replace(page, visits_s=times.get(url, [])) for url, page in self.truth().items()]
        return true_freshness(pages, EPOCH_S + from_day * DAY_S, self.clock.at_s)

    def freshness(self, from_day: float) -> float:
        """How fresh the copies were, by the truth, from a day of the world on."""
        return true_freshness(self.truth().values(), EPOCH_S + from_day * DAY_S, self.clock.at_s)


@contextmanager
def fresh_web(world: World, folder: Path, now_s: float = EPOCH_S, **settings: Any) -> Iterator[FreshWeb]:
    """Open a collection in the folder, as the last time left it; `settings` are dotted keys with `__` for the dot."""
    flags: dict[str, Any] = {
        "collection.seeds": world.seeds(),
        "collection.cells": 1,
        "scope.include": ["suffix:.test"],
        "sites.aliases": False,
        "sites.probe_after_pages": 0,
        "refresh.keep": True,
        "refresh.least_s": 60.0,
        "refresh.replan_s": 6 * 3_600.0,
    }
    flags |= {key.replace("__", "."): value for key, value in settings.items()}
    root = open_root(folder / "data", create=True)
    clock = ManualClock(now_s)
    config = configure(root, "main", None, {}, flags).config
    ledger = Ledger(root.path / "ledger.sqlite")
    try:
        with root.locked(), open_crawls(root, [config], ledger, clock) as (crawl,):
            crawl.committer.deliver(CommitResult())
            web = FreshWeb(world, crawl, clock, root.path)
            web.begin()
            yield web
    finally:
        ledger.close(clean=True, now_s=clock.now_s())


def _found(url: str) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), 0, in_links=0)
