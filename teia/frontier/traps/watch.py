"""The watch for traps: the stored patterns of each host, and the URLs that wait or are given up because of them.

    patterns     one row for each pattern of a requested host (detector.py describes them)
    text_hashes  hashes of all texts a host has served; a page with one of them has nothing new
    spellings    hashes of plain spellings (spellings.py) of which another one was found first

A cell calls the watch for four things. `classify`: a page links to a URL that was never seen; it returns the lane, or
None if the URL is not stored. `count_link`: a page links to a queued URL. `count_visit` and `evaluate`: pages were
read; the states are updated. `admit`: returns the URLs of a host that may go now. URLs of waiting patterns lie in a
lane of their own (LANE_LATER), which is read when the host has nothing else to do.

All of it runs in the commit thread, inside the cell's transactions where it writes. Memory holds the hosts of
recent pages; a transaction that fails makes the watch forget them, and they are read again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from teia.errors import CorruptFile
from teia.frontier.cell import trails
from teia.frontier.cell.cell import DISCOVERY, FrontierCell, PlacedLink
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of, url_from
from teia.frontier.cell.schema import (
    BY_FEED,
    BY_SEED,
    BY_SITEMAP,
    LANE_LATER,
    LANE_NEW,
    STATE_EXCLUDED,
    STATE_QUEUED,
)
from teia.frontier.traps.detector import (
    DOUBT_COST,
    FOREIGN_COST,
    SHAPE,
    SPELLING,
    PageImpression,
    Pattern,
    PatternState,
    WatchReason,
)
from teia.frontier.traps.pattern_table import HostPatterns
from teia.frontier.traps.patterns import FAR, REPEATS, is_variant, pattern_of, years_away
from teia.frontier.traps.spellings import plain_of
from teia.lib.undecodable import UNDECODABLE
from teia.records import Outcome
from teia.urls import key_of, site_of, slot_of

LISTED = BY_SEED | BY_SITEMAP | BY_FEED
"""URLs that a person, a sitemap or a feed lists never wait: their source vouches for each of them."""

MAX_HOSTS = 4_096
FAR_YEARS = 10
LAG = 3
"""Number of hops by which a URL that is not in its plainest spelling looks deeper than it is."""

ROUNDS = 3
READ_PAST = 128
MAX_BESIDE_TRIAL = 4
MOVED_AT_ONCE = 1_024
"""Limits on how often, and how far, a host's queue is read to find a URL that may go."""


@dataclass(slots=True)
class AdmittedUrls:
    """URLs that may go now. `held`: there are more, and the result of these decides about them."""

    items: list[QueuedUrl]
    held: bool = False


class TrapWatch:
    """The watch over one cell; see the module's docstring. Links are followed to `max_depth`."""

    def __init__(self, cell: FrontierCell, max_depth: int) -> None:
        self._cell = cell
        self._max_depth = max_depth
        self._hosts: dict[int, HostPatterns] = {}
        self._touched_hosts: dict[HostPatterns, None] = {}
        self._batch: set[int] = set()
        self._given_up = 0
        self._blocked: dict[str, set[int]] = {}
        self._year = 0

    def forget(self) -> None:
        """Clear the memory; committed data is read again."""
        self._hosts.clear()
        self._touched_hosts.clear()
        self._given_up = 0
        self._blocked.clear()

    def host(self, host_id: int, host: str) -> HostPatterns:
        """Return the patterns of a host, read from disk if necessary."""
        known = self._hosts.get(host_id)
        if known is None:
            # Never while counts are unsaved: a host in `_touched_hosts` would lose them.
            while len(self._hosts) >= MAX_HOSTS and not self._touched_hosts:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host_id] = HostPatterns(host, host_id, slot_of(site_of(host)))
            try:
                known.load(self._cell)
            except (*UNDECODABLE, ValueError, TypeError) as error:
                raise CorruptFile(self._cell.path, f"the patterns of {host} cannot be read: {error}") from error
        return known

    # -- URLs come in --------------------------------------------------------------------------------------

    def begin_batch(self, links: Iterable[PlacedLink], now_s: float) -> None:
        """Register links that are about to be placed together."""
        self._year = time.gmtime(now_s).tm_year
        # Hosts that are not in memory are not watched; their links need not be known.
        self._batch = {key for (_, host_id, key), _, _ in links if host_id in self._hosts}

    def classify(self, host_id: int, item: FoundUrl) -> tuple[int, int, int] | None:
        """Return (pattern, lane, lag) of a URL that was never seen; None if it is not stored.

        The pattern is negative as long as only pages of the pattern link to the URL. The lag is the number of hops
        by which it should look deeper than it is.
        """
        host = self._hosts.get(host_id)
        # No page of this host was read lately. The URL gets its pattern when it goes out (`_admit_new`).
        if host is None:
            return 0, LANE_NEW, 0
        pattern, lag = self._pattern_of(host, item)
        named_by = host.get(item.via) if item.via else None
        is_own = pattern is named_by
        is_listed = bool(item.by & LISTED)
        if is_own:
            pattern.now.own += 1
            pattern.now.linked_twice += item.via < 0
            self._note(host, pattern)
        # A listed URL is stored even if its pattern is a trap.
        if not is_listed and (pattern.is_hopeless or (is_own and pattern.state is PatternState.PARKED)):
            pattern.refused += 1
            self._note(host, pattern)
            return None
        if not is_own and named_by is not None and pattern.is_useful:
            named_by.now.others += 1
            self._note(host, named_by)
        number = -pattern.number if is_own and item.via > 0 else pattern.number
        return number, LANE_NEW if pattern.state is PatternState.OPEN or is_listed else LANE_LATER, lag

    def end_batch(self) -> None:
        """Store the results of placing, once the URLs are written; in the same transaction."""
        # A copy, because `_prefer_plain` may make a pattern, which adds to `_touched_hosts`.
        for host in list(self._touched_hosts):
            for key in host.plain:
                self._prefer_plain(host, key)
            host.plain.clear()
            if host.new:
                host.save(self._cell, host.new)
                host.new.clear()

    def count_link(self, host_id: int, item: FoundUrl, number: int) -> None:
        """Count that a page links to a URL that is known and still queued; `number` is its stored pattern."""
        host = self._hosts.get(host_id)
        pattern = None if host is None else host.get(number)
        if host is None or pattern is None:
            return
        if abs(item.via) == pattern.number:
            pattern.now.leads += 1
            self._note(host, pattern)
        if number < 0:
            pattern.now.linked_twice += 1
            host.linked_twice.append(item.key)
            self._note(host, pattern)

    def _note(self, host: HostPatterns, pattern: Pattern) -> None:
        host.touched[pattern] = None
        self._touched_hosts[host] = None

    def _pattern_of(self, host: HostPatterns, item: FoundUrl) -> tuple[Pattern, int]:
        """Return the pattern of a URL that was never seen, and its lag.

        A URL that has a plainer spelling, or is a page with an addition, has a lag: the plain one may be found
        first, and then this one need not be read.
        """
        parent, lag = abs(item.via), 0
        differs_in, is_known = self._other_spelling(host, item)
        if differs_in:
            lag = LAG
            if is_known:
                pattern = self._get_or_create(host, SPELLING + differs_in, parent, WatchReason.SPELLING)
                # Once spellings are acquitted at this host, the URL counts as one of its own pattern.
                if pattern.state is not PatternState.OPEN:
                    return pattern, 0
        if REPEATS.search(item.tail):
            return self._get_or_create(host, WatchReason.REPEATS, parent, WatchReason.REPEATS), lag
        text = pattern_of(item.tail)
        if years_away(item.tail, self._year) > FAR_YEARS:
            return self._get_or_create(host, text + FAR, parent, WatchReason.FAR), lag
        pattern = self._get_or_create(host, text, parent)
        return pattern, LAG if is_variant(pattern.text) else lag

    def _get_or_create(
        self, host: HostPatterns, text: str, parent: int = 0, reason: WatchReason = WatchReason.NONE
    ) -> Pattern:
        pattern = host.by_text.get(text)
        if pattern is None:
            pattern = host.get_or_create(text, parent, reason)
            self._touched_hosts[host] = None
        return pattern

    def _other_spelling(self, host: HostPatterns, item: FoundUrl) -> tuple[str, bool]:
        """Return a URL's differences from its plainest spelling ("" if none), and whether another spelling is known."""
        spelling = plain_of(item.tail)
        if spelling is None:
            if host.has_spellings:
                host.plain.append(item.key)
                self._touched_hosts[host] = None
            return "", False
        plain = key_of(url_from(host.host, spelling.plain))
        if self._is_known(host, plain) or self._earlier_spelling(host, plain) is not None:
            return spelling.differs_in, True
        bare = key_of(url_from(host.host, spelling.bare)) if spelling.bare else 0
        if bare and self._is_known(host, bare):
            return spelling.differs_in, True
        plains = {plain, bare} if bare else {plain}
        sql = "INSERT OR IGNORE INTO spellings VALUES (?, ?, ?, ?, ?)"
        rows = [(host.slot, host.host_id, each, item.key, spelling.differs_in) for each in plains]
        self._cell.db.executemany(sql, rows)
        host.has_spellings = True
        return spelling.differs_in, False

    def _prefer_plain(self, host: HostPatterns, plain: int) -> None:
        """Put a plain URL before another spelling of it that was found earlier and is still queued."""
        found = self._earlier_spelling(host, plain)
        if found is None:
            return
        key, differs_in = found
        sql = "SELECT rank FROM urls WHERE slot = ? AND host_id = ? AND key = ? AND state = ? AND lane = ?"
        row = self._cell.db.execute(sql, (host.slot, host.host_id, key, STATE_QUEUED, LANE_NEW)).fetchone()
        if row is not None:
            pattern = self._get_or_create(host, SPELLING + differs_in, 0, WatchReason.SPELLING)
            sql = "UPDATE urls SET pattern = ? WHERE slot = ? AND host_id = ? AND key = ?"
            self._cell.db.execute(sql, (pattern.number, host.slot, host.host_id, key))
            if pattern.state is not PatternState.OPEN:
                self._move(host, [(row[0], key)], LANE_NEW, LANE_LATER)

    def _is_known(self, host: HostPatterns, key: int) -> bool:
        # Links of the same batch are not in the table yet.
        if key in self._batch:
            return True
        sql = "SELECT 1 FROM urls WHERE slot = ? AND host_id = ? AND key = ?"
        return self._cell.db.execute(sql, (host.slot, host.host_id, key)).fetchone() is not None

    def _earlier_spelling(self, host: HostPatterns, plain: int) -> tuple[int, str] | None:
        """Return (key, differences) of the first spelling of a plain URL that was found before the URL itself."""
        sql = "SELECT key, differs_in FROM spellings WHERE slot = ? AND host_id = ? AND plain = ?"
        row: tuple[int, str] | None = self._cell.db.execute(sql, (host.slot, host.host_id, plain)).fetchone()
        return row

    # -- pages are read ------------------------------------------------------------------------------------

    def count_visit(self, host_id: int, host: str, item: QueuedUrl, text: bytes, outline: int) -> None:
        """Count the first visit of a page; inside a transaction.

        `text` is the digest of its text, empty if the page does not exist.
        """
        known = self.host(host_id, host)
        pattern = known.get(item.pattern)
        if pattern is None:
            return
        is_twin = self._is_twin(known, item, pattern, text) if text else None
        if is_twin is None and pattern.reason is WatchReason.SPELLING:
            return  # the URL it is another spelling of has not been read, so this proves nothing
        first = self._first_with_text(known, text, pattern) if text else None
        cost = 0.0
        if first is not None:
            cost = 1.0 if first is pattern else FOREIGN_COST if first.state is PatternState.OPEN else DOUBT_COST
        pattern.count_page(PageImpression(not text, cost, bool(is_twin), outline, item.depth >= self._max_depth))
        self._note(known, pattern)

    def _first_with_text(self, host: HostPatterns, text: bytes, pattern: Pattern) -> Pattern | None:
        """Return the pattern whose page had the same text before; None if the text is new.

        If that was a variant of this page, and this is the page itself, the variant is blamed for having come
        first.
        """
        # Eight bytes tell the texts of one host apart, and fit into an INTEGER.
        text_key = (host.slot, host.host_id, int.from_bytes(text[:8], "big", signed=True))
        db = self._cell.db
        if db.execute("INSERT OR IGNORE INTO text_hashes VALUES (?, ?, ?, ?)", (*text_key, pattern.number)).rowcount:
            return None
        sql = "SELECT pattern FROM text_hashes WHERE slot = ? AND host_id = ? AND hash = ?"
        row = db.execute(sql, text_key).fetchone()
        first = host.get(row[0])
        if first is None or not is_variant(first.text) or is_variant(pattern.text):
            return first
        first.count_duplicate()
        self._note(host, first)
        sql = "UPDATE text_hashes SET pattern = ? WHERE slot = ? AND host_id = ? AND hash = ?"
        db.execute(sql, (pattern.number, *text_key))
        return None

    def _is_twin(self, host: HostPatterns, item: QueuedUrl, pattern: Pattern, text: bytes) -> bool | None:
        """Tell whether a plainer spelling of a URL has the same text; None if none was read.

        If a plainer spelling is a trap, the URL counts as its twin.
        """
        if "?" not in item.url and pattern.reason is not WatchReason.SPELLING:
            return None
        tail = tail_of(item.url, host.host)
        path, mark, _ = tail.partition("?")
        tails = [path] if mark else []
        keys = []
        spelling = plain_of(tail) if pattern.reason is WatchReason.SPELLING else None
        if spelling is not None:
            tails += [spelling.plain, spelling.bare] if spelling.bare else [spelling.plain]
            first = self._earlier_spelling(host, key_of(url_from(host.host, spelling.plain)))
            if first is not None and first[0] != item.key:
                keys.append(first[0])
        sql = """
            SELECT u.outcome, p.text_digest, p.digest FROM urls AS u
            LEFT JOIN pages AS p ON p.slot = u.slot AND p.host_id = u.host_id AND p.key = u.key
            WHERE u.slot = ? AND u.host_id = ? AND u.key = ?
        """
        found = None
        for key in (*(key_of(url_from(host.host, each)) for each in tails), *keys):
            row = self._cell.db.execute(sql, (host.slot, host.host_id, key)).fetchone()
            if row is not None and (row[0] == Outcome.TRAP or row[2] is not None):
                if row[0] == Outcome.TRAP or (row[1] or row[2]) == text:
                    return True
                found = False
        return found

    def note_returned(self, host_id: int, item: QueuedUrl, *, was_answered: bool) -> None:
        """Record that a URL left the crawler's memory."""
        host = self._hosts.get(host_id)
        pattern = None if host is None else host.get(item.pattern)
        if host is not None:
            host.loaded.pop(item.key, None)
        if pattern is not None:
            pattern.unanswered += not was_answered

    def count_refused(self, host_id: int, host: str, shapes: Mapping[str, int]) -> None:
        """Count links that the shape rules (url_shapes.py) refused. Inside a transaction."""
        known = self.host(host_id, host)
        for rule, links in shapes.items():
            pattern = self._get_or_create(known, SHAPE + rule)
            pattern.refused += links
            self._note(known, pattern)

    def evaluate(self) -> None:
        """Evaluate the pages and links counted since the last call. Inside a transaction."""
        self.end_batch()
        for host in self._touched_hosts:
            # A second linking page was found: the pattern's number loses its sign.
            sql = "UPDATE urls SET pattern = -pattern WHERE slot = ? AND host_id = ? AND key = ? AND pattern < 0"
            self._cell.db.executemany(sql, [(host.slot, host.host_id, key) for key in host.linked_twice])
            for pattern in host.touched:
                if pattern.evaluate(host.parent_of(pattern), is_alone=host.is_alone(pattern)):
                    self._apply_state(host, pattern)
            host.save(self._cell, host.touched)
            host.linked_twice.clear()
            host.touched.clear()
        self._touched_hosts.clear()

    def pop_changes(self) -> tuple[int, dict[str, set[int]]]:
        """Return the number of URLs given up since the last call, and the patterns by host that may not go any more.

        After the transaction.
        """
        changes = self._given_up, self._blocked
        self._given_up, self._blocked = 0, {}
        return changes

    # -- lanes of URLs -------------------------------------------------------------------------------------

    def _apply_state(self, host: HostPatterns, pattern: Pattern) -> None:
        """Move a pattern's URLs to the lane of its new state; those of a waiting pattern move one by one later."""
        if pattern.state is PatternState.OPEN:
            self._release(host, pattern)
            return
        self._blocked.setdefault(host.host, set()).add(pattern.number)
        if pattern.state is PatternState.PARKED:
            self._give_up(host, pattern)

    def _release(self, host: HostPatterns, pattern: Pattern) -> None:
        host_key, db = (host.slot, host.host_id), self._cell.db
        self._move(host, self._waiting(host, pattern), LANE_LATER, LANE_NEW)
        if pattern.given_up:
            sql = "SELECT key, rank FROM urls WHERE slot = ? AND host_id = ? AND abs(pattern) = ? AND outcome = ?"
            for key, rank in db.execute(sql, (*host_key, pattern.number, Outcome.TRAP)).fetchall():
                self._cell.requeue(*host_key, key, lane=LANE_NEW, rank=rank)
            pattern.given_up = 0

    def _give_up(self, host: HostPatterns, pattern: Pattern) -> None:
        # A URL in the crawler's memory will be fetched, and its visit settles it.
        waiting = [row for row in self._waiting(host, pattern) if row[1] not in host.loaded]
        host_key, db = (host.slot, host.host_id), self._cell.db
        db.executemany(
            "DELETE FROM queue WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?",
            [(*host_key, LANE_LATER, rank, key) for rank, key in waiting],
        )
        db.executemany(
            "UPDATE urls SET state = ?, outcome = ?, lane = ? WHERE slot = ? AND host_id = ? AND key = ?",
            [(STATE_EXCLUDED, Outcome.TRAP, LANE_NEW, *host_key, key) for _, key in waiting],
        )
        self._cell.queued -= len(waiting)
        pattern.given_up += len(waiting)
        self._given_up += len(waiting)

    def _waiting(self, host: HostPatterns, pattern: Pattern) -> list[tuple[int, int]]:
        """Return (rank, key) of a pattern's URLs that wait behind everything else."""
        sql = f"SELECT q.rank, q.key {_OF_PATTERN}"
        return self._cell.db.execute(sql, (host.slot, host.host_id, LANE_LATER, pattern.number)).fetchall()

    def _move(self, host: HostPatterns, rows: Sequence[tuple[int, int]], lane: int, to_lane: int) -> None:
        host_key, db = (host.slot, host.host_id), self._cell.db
        db.executemany(
            "UPDATE queue SET lane = ? WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?",
            [(to_lane, *host_key, lane, rank, key) for rank, key in rows],
        )
        db.executemany(
            "UPDATE urls SET lane = ? WHERE slot = ? AND host_id = ? AND key = ?",
            [(to_lane, *host_key, key) for _, key in rows],
        )

    # -- URLs go out ---------------------------------------------------------------------------------------

    def admit(
        self,
        host_id: int,
        host: str,
        limit: int,
        skip: Collection[int],
        now_s: float,
        lanes: Sequence[int] = DISCOVERY,
    ) -> AdmittedUrls:
        """Return the next URLs of a host that may go: due ones and new ones, and if there are none, tries.

        While the crawler finds out whether a pattern is a maze, few other URLs go: pages found meanwhile under
        other names may be known by better ones soon.
        """
        known = self.host(host_id, host)
        # Keys that have left the crawler's memory are no longer loaded.
        known.loaded = {key: number for key, number in known.loaded.items() if key in skip}
        admitted = AdmittedUrls([])
        urgent = [pattern for pattern in known.by_number.values() if pattern.is_urgent]
        for pattern in urgent:
            if pattern.number not in known.loaded.values():
                self._add(known, admitted, self._deepest(known, pattern, 1))
        room = max(0, MAX_BESIDE_TRIAL - len(known.loaded)) if admitted.items else limit
        is_all = self._admit_new(known, admitted, min(limit, len(admitted.items) + room), skip, now_s, lanes)
        # Nothing else of this host is in memory or due: waiting patterns are tried.
        if is_all and not admitted.items and not admitted.held and not skip:
            self._admit_tries(known, admitted)
        admitted.held |= len(admitted.items) < limit and (not is_all or self._has_later(known))
        return admitted

    def _admit_new(
        self,
        host: HostPatterns,
        admitted: AdmittedUrls,
        limit: int,
        skip: Collection[int],
        now_s: float,
        lanes: Sequence[int],
    ) -> bool:
        """Take URLs that are due or new and may go, until there are `limit`; return True if all were read.

        On the way, URLs of waiting patterns are put behind everything else.
        """
        under_way = Counter(host.loaded.values())
        skipped, wanted = {*skip, *host.loaded}, limit
        # Each round reads further past URLs that may not go now.
        for _ in range(ROUNDS if limit > len(admitted.items) else 0):
            items = self._cell.next_urls(host.host_id, host.host, wanted, skipped, now_s, lanes)
            later = []
            for item in items:
                if len(admitted.items) >= limit:
                    return False
                skipped.add(item.key)
                # A URL found while its host was not watched has no pattern yet.
                pattern = host.get(item.pattern) or self._get_or_create(host, pattern_of(tail_of(item.url, host.host)))
                is_new = item.lane == LANE_NEW and not item.found_by & LISTED
                if is_new and pattern.state is not PatternState.OPEN:
                    later.append((item, pattern))
                elif is_new and under_way[pattern.number] >= pattern.allowance():
                    admitted.held = True
                else:
                    under_way[pattern.number] += 1
                    host.loaded[item.key] = pattern.number
                    admitted.items.append(item if item.pattern else replace(item, pattern=pattern.number))
            if later:
                self._defer(host, later)
            if len(items) < wanted:
                return True
            # Deferred URLs left the lane, so a long read moves many at once; held ones are only read past.
            wanted = MOVED_AT_ONCE if later else READ_PAST
        return False

    def _defer(self, host: HostPatterns, later: Sequence[tuple[QueuedUrl, Pattern]]) -> None:
        """Put URLs behind everything else of their host."""
        host_key = (host.slot, host.host_id)
        with self._cell.transaction():
            # New patterns are stored before URLs refer to their numbers.
            self.end_batch()
            self._move(host, [(item.rank, item.key) for item, _ in later], LANE_NEW, LANE_LATER)
            sql = "UPDATE urls SET pattern = ? WHERE slot = ? AND host_id = ? AND key = ? AND pattern = 0"
            self._cell.db.executemany(sql, [(pattern.number, *host_key, item.key) for item, pattern in later])

    def _has_later(self, host: HostPatterns) -> bool:
        sql = "SELECT 1 FROM queue WHERE slot = ? AND host_id = ? AND lane = ? LIMIT 1"
        return self._cell.db.execute(sql, (host.slot, host.host_id, LANE_LATER)).fetchone() is not None

    def _admit_tries(self, host: HostPatterns, admitted: AdmittedUrls) -> None:
        """Take URLs of waiting patterns, the deepest and newest of each, to find out their value.

        A pattern is not tried before its parent, as long as the parent has URLs to try.
        """
        if not self._has_later(host):
            return
        taken: dict[Pattern, list[QueuedUrl]] = {}
        for pattern in host.by_number.values():
            if pattern.state is not PatternState.OPEN:
                taken[pattern] = self._deepest(host, pattern, int(pattern.allowance()))
        for pattern, items in taken.items():
            parent = host.parent_of(pattern)
            waits_for_parent = parent is not None and parent is not pattern and parent.state is PatternState.WAITING
            if not (waits_for_parent and taken.get(parent)):  # type: ignore[arg-type]  # not None, if it waits for her
                self._add(host, admitted, items)
        if not admitted.items:  # only URLs whose patterns are open again are left
            with self._cell.transaction():
                sql = "SELECT rank, key FROM queue WHERE slot = ? AND host_id = ? AND lane = ?"
                rows = self._cell.db.execute(sql, (host.slot, host.host_id, LANE_LATER)).fetchall()
                self._move(host, rows, LANE_LATER, LANE_NEW)
            admitted.held = True

    def _add(self, host: HostPatterns, admitted: AdmittedUrls, items: list[QueuedUrl]) -> None:
        host.loaded.update((item.key, abs(item.pattern)) for item in items)
        if self._cell.order.stores_trails:
            items = trails.attach_hints(self._cell, host.slot, host.host_id, items)
        admitted.items += items

    def _deepest(self, host: HostPatterns, pattern: Pattern, limit: int) -> list[QueuedUrl]:
        columns = "u.tail, q.key, q.rank, u.depth, u.found_s, u.failures, u.hops, u.found_by, u.pattern"
        sql = f"SELECT {columns} {_OF_PATTERN} ORDER BY q.rank DESC, q.key LIMIT ?"
        rows = self._cell.db.execute(sql, (host.slot, host.host_id, LANE_LATER, pattern.number, limit))
        return [
            QueuedUrl(url_from(host.host, tail), key, LANE_LATER, rank, depth, float(found_s), 0, *state)
            for tail, key, rank, depth, found_s, *state in rows
        ]


_OF_PATTERN = """
    FROM queue AS q JOIN urls AS u ON u.slot = q.slot AND u.host_id = q.host_id AND u.key = q.key
    WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND abs(u.pattern) = ?
"""
