"""Announced pages on their way to the crawl (C7): from the socket to the inbox, and out of it when they are due.

The loop puts received announcements in (`hear`) and takes out the pages to request from the cache (`wanted`). The
commit thread does everything that needs a database (`work`):

  heard    -> inbox            a page that is announced again while it waits is one announcement
  inbox    -> wanted           after `signals.delay_s`, unless the capture is younger than `signals.max_age_s`
  arrivals -> frontier         an unknown page becomes known, just before its first visit is committed
  visits   -> frontier         a page that the cache does not have is queued like others, if the settings say so

Other processes write to the inbox too. If one holds it too long, the work on it is done at the next look. A host gets
its own row with its first page that is kept: announcements without a result leave no name behind.

Each announcement's result is counted, once: `updated`, `new`, `discarded` (the capture was young enough), `repeated`,
`not_cached`, `no_newer` (the cache's copy is older than the capture), `refused` (scope, robots, limits), or the error.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from teia.clock import Clock
from teia.config.sections import Config, SignalsSettings
from teia.crawler.open_cell import Cell
from teia.crawler.signals_in.for_other_nodes import ForwardedSignals, HostOwners, take_passed
from teia.crawler.signals_in.inbox import open_inbox
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.database import sqlite_errors, unless_busy
from teia.frontier.cell.fetch_now import visit_soon
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.cell.schema import BY_SIGNAL, LANE_NEW, STATE_EXCLUDED
from teia.frontier.cell.take import read_url
from teia.records import Fetched
from teia.signals.announce import PROXY, Announcement, AnnouncementInbox, transaction
from teia.signals.indexnow import FIRST, IndexNowKeys
from teia.urls import cell_of, key_of, site_of, slot_of, split

MAX_HEARD = 10_000
"""Maximum number of announcements between two commits; more are dropped and counted."""

BUSY_MS = 100
"""Time that the commit thread waits for other writers of the inbox."""

BUSY_AT_END_MS = 5_000
"""The same when the crawl ends, longer because unwritten announcements are lost then."""

MAX_HUBS = 1_000
"""Maximum number of feeds with a hub between two commits; others are found when they are read again."""

MAX_WANTED = 64
VISITED_AT_ONCE = 100
SOON_KINDS = ("indexnow", "websub")
"""Kinds of signals that lead to an ordinary visit, only sooner."""

DEPTH = 1
"""Depth of an announced page without links to it: as if it were one hop from a seed."""

_log = logging.getLogger(__name__)

Touched = list[tuple[Cell, list[tuple[int, str]]]]


class CacheRequest(NamedTuple):
    """A page to request from the cache: its URL in the frontier, and the time of the capture (0: there is none).

    `host_id` and `is_known` are as the commit thread found them; a host that is not known has the id 0.
    """

    item: QueuedUrl
    host_id: int
    host: str
    copy_s: float
    is_known: bool


class CacheArrival(NamedTuple):
    """An answer of the cache for a page that was not known until then."""

    visit: ActiveVisit
    fetched: Fetched


class Announcements:
    """Announcements of one collection while it is crawled; the module docstring says which thread calls what."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock) -> None:
        self._cells, self._starts, self._clock = cells, starts, clock
        self._inbox: AnnouncementInbox | None = None
        self._path = Path()
        self._settings = SignalsSettings()
        self._holds: Callable[[str], bool] = lambda _: False
        self._every_s = 0.0
        self._look_at = 0.0
        self._lock = Lock()
        self._heard: list[str] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        self._proved_to = FIRST
        self.wanted: deque[CacheRequest] = deque()
        self.arrivals: deque[CacheArrival] = deque()
        self.absorbed: deque[CacheArrival] = deque()
        self.refused: deque[ActiveVisit] = deque()
        """Arrivals of hosts that this node does not crawl any more; the loop drops them."""
        self.visits: deque[str] = deque(maxlen=MAX_HEARD)
        self.elsewhere: HostOwners | None = None
        """The owners of hosts that other nodes crawl; None on one machine."""
        self.passed: deque[ForwardedSignals] = deque()
        """Messages of other nodes, until the next look."""
        self._config = Config()
        self._hubs: deque[tuple[str, str, str]] = deque(maxlen=MAX_HUBS)

    def prepare(self, path: Path, config: Config, holds: Callable[[str], bool]) -> None:
        """Set the path of the inbox and the scope test; nothing else happens before `open`."""
        self._path, self._settings, self._holds, self._config = path, config.signals, holds, config
        self._every_s = config.commit.every_s

    def open(self) -> AnnouncementInbox:
        """Open the inbox and start taking announcements."""
        self._inbox = open_inbox(self._path)
        self._inbox.db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        return self._inbox

    def close(self) -> None:
        """Write the rest to the inbox, and close it."""
        inbox = self._opened()
        if inbox is not None:
            self._keep_hubs()
            with sqlite_errors(self._path):
                inbox.db.execute(f"PRAGMA busy_timeout = {BUSY_AT_END_MS}")
                with unless_busy():
                    self._keep_heard(inbox)
                    self._keep_passed(inbox)
                inbox.close()
            self._inbox = None
            if self.passed:
                _log.warning("%s is busy: %d messages of other nodes were dropped", self._path, len(self.passed))

    def _opened(self) -> AnnouncementInbox | None:
        """Return the inbox; if it is not open, open it when another node has forwarded something."""
        return self.open() if self._inbox is None and self.passed else self._inbox

    # -- the loop's side -----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Number of announcements that can be received until the next look."""
        return max(0, MAX_HEARD - len(self._heard))

    def hear(self, urls: Iterable[str]) -> None:
        """Receive announcements of canonical URLs that are in scope."""
        given, room = list(urls), self.room
        # The commit thread swaps the list (`_keep_heard`).
        with self._lock:
            self._heard += given[:room]
        self.count("dropped", len(given[room:]))

    def count(self, what: str, number: int = 1, kind: str = PROXY) -> None:
        """Count results of announcements."""
        if number:
            with self._lock:
                self._counted[kind, what] += number

    def note(self, visit: ActiveVisit) -> None:
        """Process a committed visit: count a page from the cache, note the hub that a feed names."""
        if visit.from_cache:
            self._note_kept(visit)
        told = visit.result.told if visit.result is not None else None
        if told is not None and told.hub and self._settings.websub:
            self._hubs.append((visit.item.url, told.topic, told.hub))

    def _note_kept(self, visit: ActiveVisit) -> None:
        """Count a page that was taken from the cache and is committed."""
        kept = visit.outcome in {"200", "304"} or visit.outcome.startswith("3")
        self.count(("updated" if visit.item.visits else "new") if kept else "unusable")

    @property
    def is_waiting(self) -> bool:
        """True if the commit thread has something to do here; looks are as far apart as commits."""
        if self._inbox is None:
            return bool(self.passed)
        return bool(self.arrivals) or self._clock.ticks_s() >= self._look_at

    # -- the commit thread's side --------------------------------------------------------------------------

    def work(self) -> Touched:
        """Move all announcements one step further; return hosts that have something to fetch."""
        inbox = self._opened()
        if inbox is None:
            return []
        touched = self._absorb()
        if self._clock.ticks_s() >= self._look_at:
            self._look_at = self._clock.ticks_s() + self._every_s
            with sqlite_errors(self._path), unless_busy():
                self._keep_heard(inbox)
                self._keep_passed(inbox)
                self._look(inbox, touched)
            self._keep_hubs()
        return touched

    def _keep_hubs(self) -> None:
        """Store the hubs that feeds named; the courier subscribes to them (websub.py)."""
        if self._hubs:
            from teia.crawler.signals_in.websub import keep_found  # only for collections with WebSub

            found = [self._hubs.popleft() for _ in range(len(self._hubs))]
            if not keep_found(self._path.with_name("hubs.sqlite"), found, self._config, self._clock.now_s()):
                self._hubs.extendleft(reversed(found))

    def _keep_heard(self, inbox: AnnouncementInbox) -> None:
        """Write received announcements and counts; keep for the next time those that cannot be written now."""
        with self._lock:
            heard, self._heard = self._heard, []
            counted, self._counted = self._counted, Counter()
        if not heard and not counted:
            return
        now_s = self._clock.now_s()
        try:
            with transaction(inbox.db):
                inbox.put(Announcement(url, PROXY, now_s, now_s, times) for url, times in Counter(heard).items())
                inbox.count(PROXY, {"in_scope": len(heard)})
                for (kind, what), number in counted.items():
                    inbox.count(kind, {what: number})
        except BaseException:
            # Put back in front of those received meanwhile.
            with self._lock:
                self._heard = heard + self._heard
                self._counted.update(counted)
            raise

    def _keep_passed(self, inbox: AnnouncementInbox) -> None:
        """Write messages of other nodes; keep for the next time those that cannot be written now."""
        while self.passed:
            from teia.crawler.signals_in.indexnow import receive_passed  # only for nodes that were sent something

            take_passed(inbox, self.passed[0], partial(receive_passed, now_s=self._clock.now_s()))
            # Dropped only after its transaction.
            self.passed.popleft()

    def _look(self, inbox: AnnouncementInbox, touched: Touched) -> None:
        """Take out due announcements; they are deleted from the inbox first, so that none is acted on twice."""
        now_s = self._clock.now_s()
        room = MAX_WANTED - len(self.wanted)
        for each in self._taken(inbox, PROXY, now_s - self._settings.delay_s, room) if room > 0 else ():
            wanted = self._judge(each, now_s)
            if wanted is not None:
                self.wanted.append(wanted)
        for _ in range(min(VISITED_AT_ONCE, len(self.visits))):
            url = self.visits.popleft()
            if self._is_here(split(url).host):
                touched.append(self._visit(url, now_s))
            else:
                self.count("refused")
        self._look_at_keys(inbox, touched, now_s)
        for kind in SOON_KINDS:
            touched += [self._visit(url, now_s) for url in self._told(inbox, kind, now_s)]

    def _taken(self, inbox: AnnouncementInbox, kind: str, before_s: float, limit: int) -> list[Announcement]:
        due = inbox.due(kind, before_s, limit)
        # Forwarded before it is deleted: a crash between the two sends it twice, which is harmless.
        if due and self.elsewhere is not None:
            due = self._passed_on(inbox, kind, due, self.elsewhere)
        if due:
            inbox.settle(kind, [each.url for each in due])
        return due

    def _passed_on(
        self, inbox: AnnouncementInbox, kind: str, due: Sequence[Announcement], elsewhere: HostOwners
    ) -> list[Announcement]:
        """Forward announcements for other nodes; return those for this node."""
        from teia.crawler.signals_in.indexnow import KEY_FILE, pass_files_on

        if kind == KEY_FILE:
            return pass_files_on(inbox, due, elsewhere)
        away = elsewhere.pass_on(due)
        self.count("passed_on", len(away), kind)
        if away:
            inbox.settle(kind, [each.url for each in away])
        return [each for each in due if each not in away]

    def _look_at_keys(self, inbox: AnnouncementInbox, touched: Touched, now_s: float) -> None:
        """Queue key files for a visit and check visited ones; any client can name a key file, so it is no signal."""
        from teia.crawler.signals_in.indexnow import KEY_FILE, prove  # only for collections that take pings

        for each in self._taken(inbox, KEY_FILE, now_s, VISITED_AT_ONCE):
            touched.append(self._visit(each.url, now_s, is_key=True))
        keys = IndexNowKeys(inbox.db)
        frontier_of = lambda host: self._cell(host).frontier  # noqa: E731
        self._proved_to = prove(inbox, keys, frontier_of, now_s, self._proved_to, self.elsewhere)

    def _told(self, inbox: AnnouncementInbox, kind: str, now_s: float) -> list[str]:
        """Take out the signals that sites sent on their own pages, and return those from credible sources."""
        from teia.crawler.signals_in.indexnow import is_heard

        told, heard = self._taken(inbox, kind, now_s, VISITED_AT_ONCE), []
        for each in told:
            host = split(each.url).host
            with self._cell(host).frontier.transaction() as frontier:
                heard += [each.url] if is_heard(frontier, each, host) else []
        if told:
            self.count("taken", len(heard), kind)
            self.count("unheard", len(told) - len(heard), kind)
        return heard

    def _cell(self, host: str) -> Cell:
        if self.elsewhere is not None:
            return self._cells[self.elsewhere.number_of(host)]
        return self._cells[cell_of(slot_of(site_of(host)), self._starts)]

    def _is_here(self, host: str) -> bool:
        return self.elsewhere is None or self.elsewhere.is_here(host)

    def _judge(self, announced: Announcement, now_s: float) -> CacheRequest | None:
        """Return the page to request from the cache; None if it is not wanted."""
        url, host = announced.url, split(announced.url).host
        with self._cell(host).frontier.transaction() as frontier:
            row = frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
            host_id = 0 if row is None else int(row[0])
            known = read_url(frontier.db, host, slot_of(site_of(host)), host_id, key_of(url)) if host_id else None
        if known is None:
            if not self._settings.new_pages:
                self.count("refused")
                return None
            item = QueuedUrl(url, key_of(url), LANE_NEW, 0, DEPTH, now_s, found_by=BY_SIGNAL)
            return CacheRequest(item, host_id, host, 0.0, False)
        if known.state == STATE_EXCLUDED:
            self.count("refused")
            return None
        if known.last_visit_s and now_s - known.last_visit_s < self._settings.max_age_s:
            self.count("discarded")
            return None
        return CacheRequest(known.item, host_id, host, known.last_visit_s, True)

    def _visit(self, url: str, now_s: float, *, is_key: bool = False) -> tuple[Cell, list[tuple[int, str]]]:
        """Queue a URL for an early visit by the crawler itself: a known one, or a new one in scope.

        A key file is not a new page: it is fetched even without `signals.new_pages`, and ahead of others.
        """
        cell = self._cell(split(url).host)
        with cell.frontier.transaction() as frontier:
            host = visit_soon(frontier, url, now_s)
            if host is None and self._holds(url) and (is_key or self._settings.new_pages):
                touched = frontier.absorb([found(url)], now_s)
                host = visit_soon(frontier, url, now_s) if is_key else None
                return cell, touched if host is None else [host]
            return cell, [] if host is None else [host]

    def _absorb(self) -> Touched:
        """Add pages whose answer waits to the frontier; a page that it does not absorb is not kept."""
        touched: Touched = []
        for _ in range(len(self.arrivals)):
            visit, fetched = self.arrivals.popleft()
            url, queue, now_s = visit.item.url, visit.queue, self._clock.now_s()
            if not self._is_here(queue.host):  # its cell was lost during the request to the cache
                self.refused.append(visit)
                continue
            cell = self._cells[queue.cell]
            with cell.frontier.transaction() as frontier:
                frontier.absorb([found(url)], now_s)
                touched.append((cell, [(frontier.host_id(queue.host, now_s), queue.host)]))
            self.absorbed.append(CacheArrival(visit, fetched))
        return touched


def found(url: str) -> FoundUrl:
    """Return an announced page in the form that the frontier absorbs."""
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), DEPTH, in_links=0, by=BY_SIGNAL)


@contextmanager
def open_announcements(announced: Announcements, path: Path, config: Config, holds: Callable[[str], bool]) -> Iterator[None]:
    """Process a collection's announcements while the block runs, if any can be expected."""
    signals = config.signals
    announced.prepare(path, config, holds)
    if signals.socket or signals.indexnow or signals.websub or path.exists():
        announced.open()
    try:
        yield
    finally:
        announced.close()
