"""Announced pages on their way to the crawl (C7): from the socket to the inbox, and out of it when they are due.

The loop puts received announcements in (`receive`) and takes out the pages to request from the cache (`wanted`). The
commit thread does everything that needs a database (`process`):

  received -> inbox            a page that is announced again while it waits is one announcement
  inbox    -> wanted           after `signals.delay_s`, unless the capture is younger than `signals.max_age_s`
  inbox    -> outbox           at the same time, if another node crawls the page (cluster/crawl/signals.py)
  arrivals -> frontier         an unknown page becomes known, just before its first visit is committed
  visits   -> frontier         a page that the cache does not have is queued like others, if the settings say so

Other processes write to the inbox too. If one holds it too long, the work on it is done at the next check. A host gets
its own row with its first page that is kept: announcements without a result leave no name behind.

Each announcement's result is counted, once: `updated`, `new`, `discarded` (the capture was young enough), `repeated`,
`not_cached`, `no_newer` (the cache's copy is older than the capture), `refused` (scope, robots, limits), or the error.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from teia.clock import Clock
from teia.config.sections import Config, SignalsSettings
from teia.crawler.open_cell import Cell, Touched
from teia.crawler.ownership import HostOwners
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.fetch_now import visit_soon
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.cell.schema import BY_SIGNAL, LANE_NEW, STATE_EXCLUDED
from teia.frontier.cell.take import read_url
from teia.records import Fetched
from teia.signals.announce import PROXY, Announcement, AnnouncementInbox, open_inbox, takes_announcements
from teia.signals.indexnow import FIRST, IndexNowKeys
from teia.sqlite import sqlite_errors, transaction, unless_busy
from teia.urls import host_to_cell, key_of, site_of, slot_of, split

MAX_RECEIVED = 10_000
"""Maximum number of announcements between two commits; more are dropped and counted."""

BUSY_MS = 100
"""Time that the commit thread waits for other writers of the inbox."""

BUSY_AT_END_MS = 5_000
"""The same when the crawl ends, longer because unwritten announcements are lost then."""

MAX_HUBS = 1_000
"""Maximum number of feeds with a hub between two commits; others are found when they are read again."""

MAX_WANTED = 64
VISITED_AT_ONCE = 100
SOON_KINDS = ("indexnow", "websub", "source")
"""Kinds of signals that lead to an ordinary visit, only sooner."""

DEPTH = 1
"""Depth of an announced page without links to it: as if it were one hop from a seed."""


class CacheRequest(NamedTuple):
    """A page to request from the cache: its URL in the frontier, and the time of the capture (0: there is none).

    `host_id` and `is_known` are as the commit thread found them; a host that is not known has the id 0. `cache` is the
    name of the cache that announced it.
    """

    item: QueuedUrl
    host_id: int
    host: str
    captured_s: float
    is_known: bool
    cache: str = ""


class CacheArrival(NamedTuple):
    """An answer of the cache for a page that was not known until then."""

    visit: ActiveVisit
    fetched: Fetched


class Announcements:
    """Announcements of one collection while it is crawled; the module docstring says which thread calls what."""

    def __init__(
        self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock, owners: HostOwners | None = None
    ) -> None:
        self._cells, self._clock = cells, clock
        self._inbox: AnnouncementInbox | None = None
        self.path = Path()
        self._settings = SignalsSettings()
        self._is_in_scope: Callable[[str], bool] = lambda _: False
        self._every_s = 0.0
        self._process_at = 0.0
        self._lock = Lock()
        self._received: list[tuple[str, str]] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        self._takes_pings = False
        self._proved_up_to = FIRST
        self.wanted: deque[CacheRequest] = deque()
        self.arrivals: deque[CacheArrival] = deque()
        self.absorbed: deque[CacheArrival] = deque()
        self.refused: deque[ActiveVisit] = deque()
        """Arrivals of hosts that this node does not crawl any more; the loop drops them."""
        self.visits: deque[str] = deque(maxlen=MAX_RECEIVED)
        self.owners = owners or HostOwners(host_to_cell(starts))
        self.has_forwarded = False
        """True after another node has put something into the inbox; it may not have been expected."""
        self._config = Config()
        self._hubs: deque[tuple[str, str, str]] = deque(maxlen=MAX_HUBS)
        self._newly_named: list[tuple[str, int]] = []

    def prepare(self, path: Path, config: Config, is_in_scope: Callable[[str], bool]) -> None:
        """Set the path of the inbox and the scope test; nothing else happens before `open`."""
        self.path, self._settings, self._is_in_scope, self._config = path, config.signals, is_in_scope, config
        self._every_s = config.commit.every_s

    def open(self) -> AnnouncementInbox:
        """Open the inbox and start taking announcements."""
        self._inbox = open_inbox(self.path)
        self._inbox.db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        self._takes_pings = self._settings.indexnow or IndexNowKeys(self._inbox.db).has_tables
        return self._inbox

    def close(self) -> None:
        """Write the rest to the inbox, and close it."""
        inbox = self._get_inbox()
        if inbox is not None:
            self._store_hubs()
            with sqlite_errors(self.path):
                inbox.db.execute(f"PRAGMA busy_timeout = {BUSY_AT_END_MS}")
                with unless_busy():
                    self._store_received(inbox)
                inbox.close()
            self._inbox = None

    def _get_inbox(self) -> AnnouncementInbox | None:
        """Return the inbox; if it is not open, open it when another node has forwarded something."""
        return self.open() if self._inbox is None and self.has_forwarded else self._inbox

    # -- the loop's side -----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Number of announcements that can be received until the next check."""
        return max(0, MAX_RECEIVED - len(self._received))

    def receive(self, urls: Iterable[str], cache: str = "") -> None:
        """Receive a cache's announcements of canonical URLs that are in scope."""
        given, room = [(url, cache) for url in urls], self.room
        # The commit thread swaps the list (`_store_received`).
        with self._lock:
            self._received += given[:room]
        self.count("dropped", len(given[room:]))

    def count(self, what: str, number: int = 1, kind: str = PROXY) -> None:
        """Count results of announcements."""
        if number:
            with self._lock:
                self._counted[kind, what] += number

    def note_visit(self, visit: ActiveVisit) -> None:
        """Process a committed visit: count a page from the cache, note the hub that a feed names."""
        if visit.from_cache:
            self._count_cached(visit)
        reported = visit.result.reported if visit.result is not None else None
        if reported is not None and reported.hub and self._settings.websub:
            self._hubs.append((visit.item.url, reported.topic, reported.hub))

    def _count_cached(self, visit: ActiveVisit) -> None:
        """Count a page that was taken from the cache and is committed."""
        is_stored = visit.outcome in {"200", "304"} or visit.outcome.startswith("3")
        self.count(("updated" if visit.item.visits else "new") if is_stored else "unusable")

    @property
    def is_waiting(self) -> bool:
        """True if the commit thread has something to do here; checks are as far apart as commits."""
        if self._inbox is None:
            return self.has_forwarded
        return bool(self.arrivals) or self._clock.ticks_s() >= self._process_at

    # -- the commit thread's side --------------------------------------------------------------------------

    def process(self) -> Touched:
        """Move all announcements one step further; return hosts that have something to fetch."""
        inbox = self._get_inbox()
        if inbox is None:
            return []
        touched = self._absorb()
        if self._clock.ticks_s() >= self._process_at:
            self._process_at = self._clock.ticks_s() + self._every_s
            with sqlite_errors(self.path), unless_busy():
                self._store_received(inbox)
                self._process_due(inbox, touched)
            self._store_hubs()
        return touched

    def _store_hubs(self) -> None:
        """Store the hubs that feeds named; the notifier subscribes to them (websub.py)."""
        if self._hubs:
            from teia.crawler.signals_in.websub import store_hubs  # only for collections with WebSub

            found = [self._hubs.popleft() for _ in range(len(self._hubs))]
            if not store_hubs(self.path.with_name("hubs.sqlite"), found, self._config, self._clock.now_s()):
                self._hubs.extendleft(reversed(found))

    def _store_received(self, inbox: AnnouncementInbox) -> None:
        """Write received announcements and counts; keep for the next time those that cannot be written now."""
        with self._lock:
            received, self._received = self._received, []
            counted, self._counted = self._counted, Counter()
        if not received and not counted:
            return
        now_s = self._clock.now_s()
        try:
            with transaction(inbox.db):
                inbox.put(
                    Announcement(url, PROXY, now_s, now_s, times, cache)
                    for (url, cache), times in Counter(received).items()
                )
                inbox.count(PROXY, {"in_scope": len(received)})
                for (kind, what), number in counted.items():
                    inbox.count(kind, {what: number})
        except BaseException:
            # Put back in front of those received meanwhile.
            with self._lock:
                self._received = received + self._received
                self._counted.update(counted)
            raise

    def _process_due(self, inbox: AnnouncementInbox, touched: Touched) -> None:
        """Take out due announcements; they are deleted from the inbox first, so that none is acted on twice."""
        now_s = self._clock.now_s()
        room = MAX_WANTED - len(self.wanted)
        for each in self._take_due(inbox, PROXY, now_s - self._settings.delay_s, room) if room > 0 else ():
            wanted = self._evaluate(each, now_s)
            if wanted is not None:
                self.wanted.append(wanted)
        self._store_sources()
        for _ in range(min(VISITED_AT_ONCE, len(self.visits))):
            url = self.visits.popleft()
            if self.owners.is_here(split(url).host):
                touched.append(self._queue_visit(url, now_s))
            else:
                self.count("refused")
        if self._takes_pings:
            self._check_keys(inbox, touched, now_s)
        for kind in SOON_KINDS:
            touched += [self._queue_visit(url, now_s) for url in self._take_credible(inbox, kind, now_s)]

    def _store_sources(self) -> None:
        """Record that signals named known pages, also those that need no visit.

        Coverage is estimated from what links and signals both name (C9).
        """
        by_cell: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for host, key in self._newly_named:
            by_cell[self.owners.cell_number(host)].append((host, key))
        self._newly_named.clear()
        for number, named in by_cell.items():
            with self._cells[number].frontier.transaction() as frontier:
                for host, key in named:
                    frontier.add_source(host, key, BY_SIGNAL)

    def _take_due(self, inbox: AnnouncementInbox, kind: str, before_s: float, limit: int) -> list[Announcement]:
        """Take out due announcements: post those for other nodes, return those for this one."""
        due = inbox.due(kind, before_s, limit)
        # Posted before it is deleted: a crash between the two sends it twice, which is harmless.
        away = self.owners.forward(inbox, kind, due, self._clock.now_s())
        if due:
            inbox.settle(kind, [each.url for each in due])
        return [each for each in due if each not in away]

    def _check_keys(self, inbox: AnnouncementInbox, touched: Touched, now_s: float) -> None:
        """Queue key files for a visit and check visited ones; any client can name a key file, so it is no signal."""
        from teia.crawler.signals_in.indexnow import prove_keys, take_key_files  # only for collections that take pings

        for url in take_key_files(inbox, now_s, VISITED_AT_ONCE, self.owners):
            touched.append(self._queue_visit(url, now_s, is_key=True))
        keys = IndexNowKeys(inbox.db)
        frontier_of = lambda host: self._cell(host).frontier  # noqa: E731
        self._proved_up_to = prove_keys(inbox, keys, frontier_of, now_s, self.owners, self._proved_up_to)

    def _take_credible(self, inbox: AnnouncementInbox, kind: str, now_s: float) -> list[str]:
        """Take out the signals that sites sent on their own pages, and return those from credible sources."""
        signals = self._take_due(inbox, kind, now_s, VISITED_AT_ONCE)
        if not signals:
            return []
        from teia.crawler.signals_in.indexnow import note_signal

        credible = []
        for each in signals:
            host = split(each.url).host
            with self._cell(host).frontier.transaction() as frontier:
                credible += [each.url] if note_signal(frontier, each, host) else []
        self.count("taken", len(credible), kind)
        self.count("unheard", len(signals) - len(credible), kind)
        return credible

    def _cell(self, host: str) -> Cell:
        return self._cells[self.owners.cell_number(host)]

    def _evaluate(self, announced: Announcement, now_s: float) -> CacheRequest | None:
        """Return the page to request from the cache; None if it is not wanted."""
        url, host = announced.url, split(announced.url).host
        frontier = self._cell(host).frontier
        with sqlite_errors(frontier.path):
            host_id = frontier.find_host(host) or 0
            known = read_url(frontier, host, slot_of(site_of(host)), host_id, key_of(url)) if host_id else None
        if known is None:
            if not self._settings.new_pages:
                self.count("refused")
                return None
            item = QueuedUrl(url, key_of(url), LANE_NEW, 0, DEPTH, now_s, found_by=BY_SIGNAL)
            return CacheRequest(item, host_id, host, 0.0, False, announced.cache)
        if known.state == STATE_EXCLUDED:
            self.count("refused")
            return None
        if not known.item.found_by & BY_SIGNAL:
            self._newly_named.append((host, known.item.key))
        if known.last_visit_s and now_s - known.last_visit_s < self._settings.max_age_s:
            self.count("discarded")
            return None
        return CacheRequest(known.item, host_id, host, known.last_visit_s, True, announced.cache)

    def _queue_visit(self, url: str, now_s: float, *, is_key: bool = False) -> tuple[Cell, list[tuple[int, str]]]:
        """Queue a URL for an early visit by the crawler itself: a known one, or a new one in scope.

        A key file is not a new page: it is fetched even without `signals.new_pages`, and ahead of others.
        """
        cell = self._cell(split(url).host)
        with cell.frontier.transaction() as frontier:
            host = visit_soon(frontier, url, now_s)
            if host is not None and not is_key:
                frontier.add_source(host[1], key_of(url), BY_SIGNAL)
            if host is None and self._is_in_scope(url) and (is_key or self._settings.new_pages):
                touched = frontier.add_links([found_url(url)], now_s)
                host = visit_soon(frontier, url, now_s) if is_key else None
                return cell, touched if host is None else [host]
            return cell, [] if host is None else [host]

    def _absorb(self) -> Touched:
        """Add pages whose answer waits to the frontier; a page that it does not accept is not stored."""
        touched: Touched = []
        for _ in range(len(self.arrivals)):
            visit, fetched = self.arrivals.popleft()
            url, queue, now_s = visit.item.url, visit.queue, self._clock.now_s()
            if not self.owners.is_here(queue.host):  # its cell was lost during the request to the cache
                self.refused.append(visit)
                continue
            cell = self._cells[queue.cell]
            with cell.frontier.transaction() as frontier:
                frontier.add_links([found_url(url)], now_s)
                touched.append((cell, [(frontier.host_id(queue.host, now_s), queue.host)]))
            self.absorbed.append(CacheArrival(visit, fetched))
        return touched


def found_url(url: str) -> FoundUrl:
    """Return an announced page in the form that the frontier absorbs."""
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), DEPTH, in_links=0, by=BY_SIGNAL)


@contextmanager
def open_announcements(
    announced: Announcements, path: Path, config: Config, is_in_scope: Callable[[str], bool]
) -> Iterator[None]:
    """Process a collection's announcements while the block runs; a node opens the inbox with the first it is sent."""
    announced.prepare(path, config, is_in_scope)
    if takes_announcements(path, config.signals):
        announced.open()
    try:
        yield
    finally:
        announced.close()
