"""One cell's frontier on disk: hosts, URLs, their queue and their history.

One process writes a cell, through one connection, in transactions that the group commit opens. Links *merge*: a URL
that one more page links to has one more in-link and may be less deep. A new URL that is still queued then moves up
in its host's queue if the collection's order says so (T1, F1). A link that disappeared from its page
(in_link_counts.py) lowers the count again. This module knows nothing about time, politeness or the network.

The counters `known`, `queued` and `captures` are kept in the `meta` table by the same transactions, because counting
ten million rows takes seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from math import ceil
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Protocol

from teia.errors import ClusterError, CorruptFile
from teia.frontier.cell import revisits, shorter_paths, trails
from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.journal import (
    Journal,
    RecordingConnection,
    applied_seq,
    apply,
    choose_format,
    forget,
    note_seq,
    publish,
)
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT
from teia.frontier.cell.rows import NOT_ARCHIVED, CaptureLocation, FoundUrl, PageRow, QueuedUrl, SettledVisit, merge_via
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_NEW,
    LANE_REFRESH,
    SCHEMA,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.frontier.cell.take import read_lane
from teia.frontier.log_mover import MAX_LOG_BYTES, LogMover
from teia.frontier.page_sums import damage_text, damaged_pages
from teia.frontier.queue.order import TOP_SCORE, Order, breadth, is_aside, merge_hints, sequence_of
from teia.frontier.queue.sydney import sample_links
from teia.lib.message import encoded
from teia.records import NOT_MODIFIED, Outcome
from teia.sqlite import open_database, open_to_read, sqlite_errors, store_error
from teia.urls import site_of, slot_of

# Greatest number of host names in memory; the cache is cleared when it is full.
HOST_CACHE = 20_000
LEAST_CACHE_BYTES = 256 << 10
# Lanes of a crawl that keeps nothing fresh, retries first.
DISCOVERY = (LANE_DUE, LANE_NEW)


PlacedLink = tuple[RowKey, int, FoundUrl]
"""A link, with the key of its URL's row and its place in the sequence in which links came."""


class TrapFilter(Protocol):
    """The trap detector as a cell calls it while links come in (frontier/traps/watch.py has the real one)."""

    def forget(self) -> None:
        """Clear the memory, because a transaction was rolled back."""

    def begin_batch(self, links: Iterable[PlacedLink], now_s: float) -> None:
        """Register links that are about to be placed together."""

    def classify(self, host_id: int, item: FoundUrl) -> tuple[int, int, int] | None:
        """Return (pattern, lane, lag) of a URL that was never seen; None if it is not stored."""

    def count_link(self, host_id: int, item: FoundUrl, number: int) -> None:
        """Register another link to a queued URL of a pattern."""

    def end_batch(self) -> None:
        """End the batch that `begin_batch` began."""


class FrontierCell(CellConnection):
    """The database of one cell; see the module's docstring."""

    def __init__(
        self,
        path: Path,
        order: Order = breadth,
        *,
        read_only: bool = False,
        journal: Journal | None = None,
        of_cluster: bool = False,
    ) -> None:
        """Open a cell. A cluster's cell is written through its journal alone, or by a caller that sets `of_cluster`."""
        self.order = order
        self.journal = journal
        """Publisher of changes before they are committed, in a cluster; None on one machine."""
        kind = sqlite3.Connection if journal is None else RecordingConnection
        super().__init__(path, open_to_read(path, SCHEMA) if read_only else open_database(path, SCHEMA, kind))
        self._must_shrink = not read_only
        self._log = LogMover(path)
        if not read_only:
            self.db.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
        if journal is None and not read_only and not of_cluster and self.is_of_cluster:
            self.close()
            raise ClusterError(f"{path} belongs to a cluster; only `teia node` may change it")
        self._host_ids: dict[str, int] = {}
        self._new_robots: dict[tuple[int, int, str], tuple[float, str, int, bytes]] = {}
        self.new_hosts: set[int] = set()
        """Some of the hosts that this connection has added and that have not been requested: no row is about them."""
        self.watch: TrapFilter | None = None
        """Detector of traps, if one is attached (frontier/traps/watch.py)."""
        self.is_in_doubt = False
        """True if a commit failed: the file may hold it as committed, though this connection does not see it."""
        with sqlite_errors(path):
            self._sequence = int(self.meta("sequence") or 0)
            self.known = int(self.meta("known") or 0)
            self.queued = int(self.meta("queued") or 0)
            stored = self.meta("captures")
            self._captures = None if stored is None else int(stored)
            if not read_only:
                self._captures = self.captures  # before other threads read it
            self._stored_captures, self._has_counter = self._captures, stored is not None
            self.changes = self.last_change()
            """Number of changes as of the last transaction; unlike `last_change`, any thread may read it."""
            self.new_links: list[tuple[int, int, int, bytes]] = []
            """Rows of counted links that this transaction adds (in_link_counts.py)."""
            self.knows_links = bool(self.meta("outlinks"))
            """True if the counted links of every page are stored; False where an older teia has read some pages."""

    _must_shrink = False
    """True while the cell is open for writing."""

    def close(self) -> None:
        # SQLite would move the log without the checksums of its pages.
        if self._must_shrink:
            self.shrink_log()
        self._must_shrink = False
        super().close()

    def __del__(self) -> None:
        # After an error at the start nobody closes the cell, and SQLite would move the log then as well.
        if self._must_shrink:
            self.close()

    def shrink_log(self, wait_s: float = 0.0) -> None:
        """Truncate SQLite's log as far as readers and the disk allow; the checksums of pages follow (page_sums.py)."""
        self._log.truncate(self.db, wait_s)

    def limit_cache(self, octets: int) -> None:
        """Let SQLite's cache of this cell's pages take so much, if that is less than it has (schema.py)."""
        (kib,) = self.db.execute("PRAGMA cache_size").fetchone()
        self.db.execute(f"PRAGMA cache_size = -{min(-kib, max(LEAST_CACHE_BYTES, octets) >> 10)}")

    def tidy_log(self, octets: int) -> None:
        """Move a log of so many octets beside the next commits; truncate one that is idle (log_mover.py)."""
        self._log.tidy(self.db, octets)

    def check_pages(self) -> None:
        """Raise CorruptFile if pages of the file do not match their checksums."""
        if damaged := damaged_pages(self.path):
            raise CorruptFile(self.path, damage_text(damaged))

    @property
    def captures(self) -> int:
        """Number of visits whose answers are in the archive; counted where an older teia wrote the cell."""
        if self._captures is None:
            self.count_captures()
        assert self._captures is not None
        return self._captures

    @captures.setter
    def captures(self, number: int) -> None:
        self._captures = number

    def _had_capture(self, row_key: RowKey, time_s: float) -> bool:
        """Tell whether a visit of this time is recorded with an answer in the archive."""
        at = "slot = ? AND host_id = ? AND key = ? AND time_s = ?"
        return self.row(f"SELECT 1 FROM visits WHERE {at} AND length > 0", *row_key, time_s) is not None  # noqa: S608

    def count_captures(self) -> None:
        """Count the captures anew, by their rows."""
        self._captures = int(self.row("SELECT count(*) FROM visits WHERE length > 0")[0])

    @contextmanager
    def transaction(self) -> Iterator[FrontierCell]:
        """Commit all or nothing, the counters included. A full disk raises DiskFull with nothing changed.

        Nothing changed as far as this connection sees. A COMMIT that fails may have written all of the transaction
        into SQLite's log, its last mark too, without syncing it: a process that opens the file after a crash would
        find it committed. So the cell is in doubt until a later transaction, which overwrites that place, has been
        committed.
        """
        counters = (self._sequence, self.known, self.queued)
        captures = (self._captures, self._stored_captures, self._has_counter)
        published, before = 0, self.db.total_changes
        try:
            if self.journal is not None:
                choose_format(self.db, self.journal)
            self.db.execute("BEGIN IMMEDIATE")
            yield self
            self._write_robots()
            self.write_links()
            # Counters belong to the transaction: after a crash they agree with the rows.
            if self.journal is None:
                self._save_counters()
            else:
                # In a cluster the record is published before COMMIT, so the file is always a prefix of the log.
                published = publish(self.db, self.journal, self._save_counters)
            has_changes = self.db.total_changes > before
            # In doubt from here on: a COMMIT that fails may still be found in SQLite's log after a crash.
            self.is_in_doubt, was_in_doubt = True, self.is_in_doubt
            self.db.execute("COMMIT")
            # Only a commit that wrote something has overwritten the doubtful place.
            self.is_in_doubt = was_in_doubt and not has_changes
            self.changes = self.last_change()
            self._log.after_commit(self.db)
        except BaseException as error:
            # Memory follows the rollback: counters, host numbers and patterns.
            self._sequence, self.known, self.queued = counters
            self._captures, self._stored_captures, self._has_counter = captures
            self._host_ids.clear()
            self.new_hosts.clear()
            self.new_links.clear()
            self._new_robots.clear()
            if self.watch is not None:
                self.watch.forget()
            if self.db.in_transaction:
                with suppress(sqlite3.Error):  # on a failing disk; the next BEGIN reports it
                    self.db.execute("ROLLBACK")
            if self.journal is not None:
                forget(self.db, self.journal, published)
            if isinstance(error, sqlite3.Error):
                raise store_error(self.path, error) from error
            raise

    # -- the log of a cluster's cell -----------------------------------------------------------------------

    def applied_seq(self) -> int:
        """Return the number of the last record of the log that is in the file; 0 if there is none."""
        return applied_seq(self.db)

    def replay(self, records: Iterable[tuple[int, bytes]], on_record: Callable[[], None]) -> None:
        """Apply records of the log to an older copy of the cell, in one transaction; call `on_record` after each."""
        assert isinstance(self.db, RecordingConnection)
        apply(self.db, records, on_record)
        self._log.after_commit(self.db)

    def note_seq(self, seq: int) -> None:
        """Store the number of the last record, if that was no change."""
        assert isinstance(self.db, RecordingConnection)
        note_seq(self.db, seq)

    # -- hosts ---------------------------------------------------------------------------------------------

    def host_id(self, host: str, now_s: float) -> int:
        """Return the host's number, assigning one if it is new."""
        host_id = self._host_ids.get(host)
        if host_id is not None:
            return host_id
        host_id = self.find_host(host)
        if host_id is None:
            sql = "INSERT INTO hosts (slot, name, found_s) VALUES (?, ?, ?) RETURNING host_id"
            host_id = int(self.db.execute(sql, (slot_of(site_of(host)), host, now_s)).fetchone()[0])
            if len(self.new_hosts) >= HOST_CACHE:
                self.new_hosts.clear()
            self.new_hosts.add(host_id)
        if len(self._host_ids) >= HOST_CACHE:
            self._host_ids.clear()
        self._host_ids[host] = host_id
        return host_id

    def hosts_with_work(self, *, or_requests: bool = False) -> Iterator[tuple[int, str, str, int]]:
        """Yield (host id, name, last address, requests so far) of every host that has URLs to fetch, by number.

        With `or_requests` also those that were requested. The cell must not be written meanwhile.
        """
        sql = """
            SELECT h.host_id, h.name, h.address, h.requests FROM hosts AS h
            WHERE (h.requests AND ?)
                OR EXISTS (SELECT 1 FROM queue AS q WHERE q.slot = h.slot AND q.host_id = h.host_id AND q.lane < ?)
            ORDER BY h.host_id
        """
        yield from self.db.execute(sql, (or_requests, LANE_REFRESH))

    def read_hosts(self, host_ids: Sequence[int]) -> list[tuple[int, str, str, int]]:
        """Return (host id, name, last address, requests so far) of hosts; those that are unknown are left out."""
        marks = ", ".join("?" * len(host_ids))
        sql = f"SELECT host_id, name, address, requests FROM hosts WHERE host_id IN ({marks})"  # noqa: S608  # only marks
        return self.db.execute(sql, host_ids).fetchall()

    def count_requests(self, requests: Iterable[tuple[int, int, str, float]]) -> None:
        """Add requests, (host id, bytes received, address, response time), to their hosts; inside a transaction."""
        hosts: dict[int, tuple[int, int, str, float]] = {}
        for host_id, size, address, response_s in requests:
            number, received, _, _ = hosts.get(host_id, (0, 0, "", 0.0))
            hosts[host_id] = (number + 1, received + size, address, response_s)
        self.db.executemany(
            "UPDATE hosts SET requests = requests + ?, bytes = bytes + ?, address = ?, response_s = ?, parked = ''"
            " WHERE host_id = ?",
            [(*counted, host_id) for host_id, counted in hosts.items()],
        )
        self.new_hosts.difference_update(hosts)

    def park_host(self, host_id: int, why: str) -> None:
        """Record the reason a host is not requested; its next request clears it. Inside a transaction."""
        self.db.execute("UPDATE hosts SET parked = ? WHERE host_id = ?", (encoded(why), host_id))

    def store_robots(
        self, host_id: int, host: str, origin: str, now_s: float, outcome: str, status: int, body: bytes
    ) -> None:
        """Store an origin's answer for robots.txt, so that a restart need not fetch it again; inside a transaction."""
        # Written together at the end of the transaction: a broad crawl stores one for every host.
        self._new_robots[slot_of(site_of(host)), host_id, origin] = (now_s, outcome, status, body)
        self.new_hosts.discard(host_id)

    def robots_of(self, host_id: int, host: str) -> list[tuple[str, float, str, int, bytes]]:
        """Return (origin, fetched, outcome, status, body) of every robots.txt kept for a host."""
        sql = "SELECT origin, fetched_s, outcome, status, body FROM robots WHERE slot = ? AND host_id = ?"
        return self.db.execute(sql, (slot_of(site_of(host)), host_id)).fetchall()

    # -- URLs come in --------------------------------------------------------------------------------------

    def add_links(self, found: Iterable[FoundUrl], now_s: float) -> list[tuple[int, str]]:
        """Merge links into the cell; return (host id, name) of hosts that got something new to fetch."""
        touched: dict[int, str] = {}
        new_urls, new_queue, known, moved, shorter, removed = [], [], [], [], [], []
        order = self.order
        if order.sample_size:
            found = sample_links(found, order.sample_size, order.seed, lambda item: self._is_new_or_aside(item, now_s))
        # Rows are read in their order on disk; the changes are collected and written together below.
        links = self._number_and_sort(found, now_s)
        columns = "u.depth, u.state, u.in_links, u.hops, u.lane, u.rank, u.found_by, u.pattern"
        rows = self.look_up([row_key for row_key, _, _ in links], columns)
        watch = self.watch
        if watch is not None:
            watch.begin_batch(links, now_s)
        for row_key, sequence, item in links:
            row = rows.get(row_key)
            # No tail: pages no longer link to this URL (in_link_counts.removed_link).
            if not item.tail:
                # A URL that was not stored when it was found (frontier/traps/watch.py) has no row.
                if row is not None:
                    removed.append((row_key, row, item.in_links))
                continue
            score = TOP_SCORE if item.hint is None else item.hint.score
            if row is None:
                # Never seen. The trap detector may put it behind the others, or refuse to store it.
                placement = watch.classify(row_key[1], item) if watch is not None else (0, LANE_NEW, 0)
                if placement is None:
                    continue
                pattern, lane, lag = placement
                # The same batch may take more links back than it brings.
                in_links = max(0, item.in_links)
                rank = order.rank(item.depth + lag, in_links, sequence, score)
                state = (STATE_QUEUED, int(now_s), item.hops, lane, rank, item.by, pattern)
                new_urls.append((*row_key, item.tail, item.depth, in_links, *state))
                new_queue.append((*row_key[:2], lane, rank, item.key))
                touched[row_key[1]] = item.host
            else:
                # Known. Depth and hops only fall, in-links are added up, sources are collected.
                depth, in_links, rank = min(row[0], item.depth), max(0, row[2] + item.in_links), row[5]
                # The page's own links lie nearer too (shorter_paths.py); orders with trails have their own rule.
                if depth < row[0] and row[1] == STATE_DONE and not order.stores_trails:
                    shorter.append(row_key)
                # Only new URLs move: DUE is ordered by time, and a `fixed` rank waits for new scores.
                if row[1] == STATE_QUEUED and row[4] == LANE_NEW and not rank & order.fixed_bit:
                    rank = min(rank, order.rank(depth, in_links, sequence_of(rank), score))
                    if rank < row[5]:
                        moved.append((rank, *row_key, row[5]))
                        # The buffer in memory may now hold URLs that come after this one.
                        if order.rereads_buffers:
                            touched[row_key[1]] = item.host
                if row[7] and row[1] == STATE_QUEUED and watch is not None:
                    watch.count_link(row_key[1], item, row[7])
                hops, by = min(row[3], item.hops), row[6] | item.by
                # Most links of a page that is visited again change nothing.
                if (depth, in_links, hops, rank, by) != (row[0], row[2], row[3], row[5], row[6]):
                    known.append((depth, in_links, hops, rank, by, *row_key))
        self._insert_new(new_urls, new_queue)
        self._update_known(known, moved)
        self._remove_links(removed)
        # After the inserts: the detector moves rows that must exist by now.
        if watch is not None:
            watch.end_batch()
        if shorter:
            shorter_paths.add(self, shorter)
        if order.stores_trails:
            touched.update(self._store_trails([each for each in links if each[2].tail], now_s))
        return list(touched.items())

    def add_source(self, host: str, key: int, by: int) -> None:
        """Record another source (bit BY_…) of a known URL, without any other effect."""
        sql = "UPDATE urls SET found_by = found_by | ? WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.execute(sql, (by, slot_of(site_of(host)), self.find_host(host), key))

    def _remove_links(self, removed: Sequence[tuple[RowKey, Sequence[int], int]]) -> None:
        """Lower the in-link counts of URLs that pages no longer link to; queued ones move back if the order uses links.

        Given are (row key, row as `add_links` looked it up, number of new links, which is negative).
        """
        order, lowered, moved = self.order, [], []
        for row_key, (depth, state, before, _, lane, rank, *_), fewer in removed:
            in_links, now = max(0, before + fewer), rank
            if order.depends_on_links and (state, lane) == (STATE_QUEUED, LANE_NEW) and not rank & order.fixed_bit:
                # Never forwards: a lost link can only make a URL wait longer.
                now = max(rank, order.rank(depth, in_links, sequence_of(rank), order.score_of(rank)))
                if now != rank:
                    moved.append((now, *row_key, rank))
            lowered.append((in_links, now, *row_key))
        sql = "UPDATE urls SET in_links = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.executemany(sql, lowered)
        self._move_in_queue(moved)

    def _is_new_or_aside(self, item: FoundUrl, now_s: float) -> bool:
        """Tell whether Sydney may still choose a URL: it was not visited and is not in the primary queue."""
        row_key = (slot_of(site_of(item.host)), self.host_id(item.host, now_s), item.key)
        sql = "SELECT state, lane, rank FROM urls WHERE slot = ? AND host_id = ? AND key = ?"
        row = self.db.execute(sql, row_key).fetchone()
        return row is None or (row[:2] == (STATE_QUEUED, LANE_NEW) and is_aside(row[2]))

    def _store_trails(self, links: Sequence[PlacedLink], now_s: float) -> dict[int, str]:
        """Store the links' hints; return the hosts of pages that are revisited to evaluate their links anew."""
        again: dict[int, str] = {}
        for row_key, _, item in links:
            if trails.is_shorter_path(self, row_key, item.hint) and self.visit_again(row_key, now_s):
                again[row_key[1]] = item.host
        trails.store_hints(self, ((row_key, item.hint) for row_key, _, item in links))
        return again

    def note_read(self, host_id: int, host: str, item: QueuedUrl, read: trails.ReadingResult, now_s: float) -> bool:
        """Record the result of reading a page; return True if a shorter path, found meanwhile, requeues it."""
        row_key = (slot_of(site_of(host)), host_id, item.key)
        trails.note_read(self, row_key, read)
        return trails.has_shorter_path(self, row_key, item.hint) and self.visit_again(row_key, now_s)

    def visit_again(self, row_key: Sequence[int], now_s: float) -> bool:
        """Put a finished page back into the queue, due now; return False if it was not finished."""
        rank = int(now_s * 1000)
        sql = "UPDATE urls SET state = ?, lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ? AND state = ?"
        slot, host_id, key = row_key
        revisits.withdraw(self, (slot, host_id, key))
        if not self.db.execute(sql, (STATE_QUEUED, LANE_DUE, rank, *row_key, STATE_DONE)).rowcount:
            return False
        self._enter_queue(slot, host_id, key, lane=LANE_DUE, rank=rank)
        return True

    def _number_and_sort(self, found: Iterable[FoundUrl], now_s: float) -> list[PlacedLink]:
        """Return links with their row keys, numbered as they came and sorted as they lie on disk.

        Neighbours on disk then share a page of the database instead of writing it again for each
        (bench/frontier.py).
        """
        hosts: dict[str, tuple[int, int]] = {}
        links: list[PlacedLink] = []
        for sequence, item in enumerate(_merged(found), self._sequence + 1):
            host = hosts.get(item.host)
            if host is None:
                host = hosts[item.host] = (slot_of(site_of(item.host)), self.host_id(item.host, now_s))
            links.append(((*host, item.key), sequence, item))
        self._sequence += len(links)
        links.sort(key=itemgetter(0))
        return links

    def _insert_new(self, new_urls: Sequence[tuple[object, ...]], new_queue: Sequence[tuple[object, ...]]) -> None:
        self.db.executemany(
            "INSERT INTO urls (slot, host_id, key, tail, depth, in_links, state, found_s, hops, lane, rank, found_by,"
            " pattern) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            new_urls,
        )
        # Sorted, so that neighbours in the queue are written together (see `_number_and_sort`).
        self.db.executemany("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", sorted(new_queue))
        self.known += len(new_urls)
        self.queued += len(new_queue)

    def _update_known(self, known: Sequence[tuple[int, ...]], moved: Sequence[tuple[int, ...]]) -> None:
        """Write the changes of known URLs; `moved` are (new rank, slot, host, key, old rank) in the queue."""
        self.db.executemany(
            "UPDATE urls SET depth = ?, in_links = ?, hops = ?, rank = ?, found_by = ?"
            " WHERE slot = ? AND host_id = ? AND key = ?",
            known,
        )
        self._move_in_queue(moved)

    def _move_in_queue(self, moved: Sequence[tuple[int, ...]]) -> None:
        # Lane 0 is LANE_NEW, the only lane that the order ranks.
        self.db.executemany(
            "UPDATE queue SET rank = ? WHERE slot = ? AND host_id = ? AND lane = 0 AND key = ? AND rank = ?", moved
        )

    # -- URLs go out ---------------------------------------------------------------------------------------

    def next_urls(
        self, host_id: int, host: str, limit: int, skip: Collection[int], now_s: float, lanes: Sequence[int] = DISCOVERY
    ) -> list[QueuedUrl]:
        """Return the next URLs of a host: those that are due, then new ones; `skip` are already in memory."""
        slot = slot_of(site_of(host))
        urls: list[QueuedUrl] = []
        for lane in lanes:
            if len(urls) >= limit and not self.order.by_arrival:
                break
            # Ranks of DUE are milliseconds, and later ones are not due. Ranks of NEW are no times: all qualify.
            before = 1 << 62 if lane == LANE_NEW else int(now_s * 1000)
            room = limit if self.order.by_arrival else limit - len(urls)
            urls += islice(read_lane(self, host, (slot, host_id, lane), before, limit, skip), room)
        if self.order.by_arrival:
            urls = sorted(urls, key=attrgetter("since_s"))[:limit]
        return trails.attach_hints(self, slot, host_id, urls) if self.order.stores_trails else urls

    def next_due_s(self, host_id: int, host: str) -> float | None:
        """Return the time of the earliest URL of the DUE lane; None if there is none."""
        sql = "SELECT rank FROM queue WHERE slot = ? AND host_id = ? AND lane = ? ORDER BY rank LIMIT 1"
        row = self.db.execute(sql, (slot_of(site_of(host)), host_id, LANE_DUE)).fetchone()
        return None if row is None else row[0] / 1000

    # -- visits end ----------------------------------------------------------------------------------------

    def settle(self, settled: SettledVisit, host: str) -> bool | None:
        """Record the end of one visit, as `settle_all` does."""
        return self.settle_all([(settled, host)])[0]

    def settle_all(self, visits: Sequence[tuple[SettledVisit, str]]) -> list[bool | None]:
        """Record the ends of visits of different URLs, given with their hosts; inside a transaction.

        Each URL leaves its place in the queue and takes the state of its verdict. Return for each True if its answer
        is the first of its page, None if the page is not kept.
        """
        row_keys = [(slot_of(site_of(host)), settled.host_id, settled.queued.key) for settled, host in visits]
        columns = (
            "u.lane, u.rank, u.state, u.depth, p.last_visit_s, p.digest, p.text_digest, p.file, p.offset, p.length"
        )
        rows = self.look_up(row_keys, columns, "LEFT JOIN pages AS p USING (slot, host_id, key)")
        left, entered, states, shorter = [], [], [], []
        pages = _PageWrites()
        firsts: list[bool | None] = []
        for row_key, (settled, _) in zip(row_keys, visits, strict=True):
            row = rows.get(row_key)
            # An announced page that the trap detector did not store has no row, and is not kept.
            if row is None:
                firsts.append(None)
                continue
            lane, rank, state, depth, last_visit_s, *before = row
            # Recorded before, by an import of the same record: then it is replaced, and is no further capture.
            if last_visit_s is not None and last_visit_s >= settled.time_s:
                self.captures -= self._had_capture(row_key, settled.time_s)
            item, failures = settled.queued, 0
            # A page of the REFRESH lane is DONE or FAILED while it waits; it leaves its lane below.
            if state == STATE_QUEUED:
                left.append((*row_key[:2], lane, rank, row_key[2]))
            if lane == LANE_REFRESH:
                lane = revisits.leave_lane(self, row_key, rank)
            if settled.state == STATE_QUEUED:
                # Rounded up: a retry is never due before its wait is over.
                lane, rank, failures = LANE_DUE, ceil(settled.again_s * 1000), item.failures + 1
                entered.append((*row_key[:2], lane, rank, row_key[2]))
            states.append((settled.state, failures, settled.outcome, lane, rank, *row_key))
            firsts.append(settled.page is not None and pages.add(row_key, settled, settled.page, before))
            # A shorter path was found while the page was read at its old depth.
            if settled.page is not None and depth < item.depth and settled.state == STATE_DONE:
                shorter.append(row_key)
        leave = "DELETE FROM queue WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
        self.queued += len(entered) - self.db.executemany(leave, left).rowcount
        self.db.executemany("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", entered)
        self.db.executemany(
            "UPDATE urls SET state = ?, failures = ?, outcome = ?, lane = ?, rank = ?"
            " WHERE slot = ? AND host_id = ? AND key = ?",
            states,
        )
        pages.write(self.db)
        self.captures += pages.captures
        if shorter and not self.order.stores_trails:
            shorter_paths.add(self, shorter)
        return firsts

    def _leave_queue(self, slot: int, host_id: int, key: int, *, lane: int, rank: int) -> None:
        sql = "DELETE FROM queue WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
        self.queued -= self.db.execute(sql, (slot, host_id, lane, rank, key)).rowcount

    def _enter_queue(self, slot: int, host_id: int, key: int, *, lane: int, rank: int) -> None:
        self.db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (slot, host_id, lane, rank, key))
        self.queued += 1

    def requeue(self, slot: int, host_id: int, key: int, *, lane: int, rank: int) -> None:
        """Queue a settled URL again, at the place it had; inside a transaction."""
        sql = "UPDATE urls SET state = ?, outcome = '' WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.execute(sql, (STATE_QUEUED, slot, host_id, key))
        self._enter_queue(slot, host_id, key, lane=lane, rank=rank)

    def requeue_due(self, row_key: RowKey, lane: int, due: int) -> None:
        """Queue a settled URL again, in the DUE lane; inside a transaction."""
        # Out of the REFRESH lane first, or the URL would be in the queue twice.
        if lane == LANE_REFRESH:
            revisits.withdraw(self, row_key)
        sql = "UPDATE urls SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.execute(sql, (LANE_DUE, due, *row_key))
        self.requeue(*row_key, lane=LANE_DUE, rank=due)

    def make_due(self, slot: int, host_id: int, key: int, *, lane: int, rank: int, due: int) -> None:
        """Move a queued URL to the DUE lane; inside a transaction. It stays queued, so its page stays in the index."""
        sql = "UPDATE queue SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
        self.db.execute(sql, (LANE_DUE, due, slot, host_id, lane, rank, key))
        sql = "UPDATE urls SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.execute(sql, (LANE_DUE, due, slot, host_id, key))

    def withdraw(self, slot: int, host_id: int, key: int, outcome: str, *, lane: int, rank: int) -> None:
        """Take a URL out of the queue without a visit; it keeps its place. Inside a transaction."""
        self._leave_queue(slot, host_id, key, lane=lane, rank=rank)
        sql = "UPDATE urls SET state = ?, outcome = ? WHERE slot = ? AND host_id = ? AND key = ?"
        self.db.execute(sql, (STATE_EXCLUDED, outcome, slot, host_id, key))

    def _write_robots(self) -> None:
        if self._new_robots:
            rows = [(*key, *self._new_robots[key]) for key in sorted(self._new_robots)]
            self.db.executemany("INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._new_robots.clear()

    def write_links(self) -> None:
        """Write the rows of `new_links`, in their order on disk (see `_number_and_sort`)."""
        if self.new_links:
            self.new_links.sort()
            # OR REPLACE: an earlier version left rows of pages that it did not store.
            self.db.executemany("INSERT OR REPLACE INTO outlinks VALUES (?, ?, ?, ?)", self.new_links)
            self.new_links.clear()

    # -- small things --------------------------------------------------------------------------------------

    def changes_of(self, row_keys: Iterable[RowKey]) -> dict[RowKey, int]:
        """Return the numbers of the last changes of pages."""
        pages = self.look_up(row_keys, "p.change", "JOIN pages AS p USING (slot, host_id, key)")
        return {row_key: change for row_key, (change,) in pages.items()}

    def _save_counters(self) -> None:
        self.set_meta({"sequence": self._sequence, "known": self.known, "queued": self.queued})
        if self._captures != self._stored_captures:
            self._save_captures()

    def _save_captures(self) -> None:
        """Store the counter of captures, unless older nodes of a cluster write the cell too, which do not keep it."""
        if self.journal is None or self.journal.format >= NEW_NAMES_FORMAT:
            self.set_meta({"captures": self._captures})
            self._has_counter = True
        elif self._has_counter:
            self.delete_meta(["captures"])
            self._has_counter = False
        self._stored_captures = self._captures


_KEEPS_CAPTURE = frozenset({Outcome.TOO_LARGE, Outcome.NOT_RENDERED})
"""Outcomes of visits that leave the page's last good capture in its row."""


class _PageWrites:
    """Rows of `visits` and `pages` that a group of visits writes."""

    def __init__(self) -> None:
        self._visits: list[tuple[object, ...]] = []
        self._new: list[tuple[object, ...]] = []
        self._visited: list[tuple[object, ...]] = []
        self._captured: list[tuple[object, ...]] = []
        self.captures = 0

    def add(self, row_key: RowKey, settled: SettledVisit, page: PageRow, before: Sequence[Any]) -> bool:
        """Add a visit to the history, and update the page's row; return True if the page had none.

        `before` has the digests and the capture of the row. A page changed if the normalised text differs (F3), or the
        bytes where there is no text. A 304 and a first visit have nothing to compare: a 304 reports "unchanged" itself
        and keeps the row; a first visit reports nothing. Nor does a visit that failed: the page of a 503, or one that
        has become too large, is in the history and in the archive, but the row keeps the last good capture.
        """
        archived, is_first = settled.archived, before[0] is None
        failed = settled.state in {STATE_QUEUED, STATE_FAILED} or settled.outcome in _KEEPS_CAPTURE
        # Texts are compared; bytes only where a page has no text.
        earlier = b"" if is_first else before[1] or before[0]
        is_other = page.status != NOT_MODIFIED and earlier != (page.text_digest or page.digest)
        # The crawler's own comparison comes first, then the digests; None where there is nothing to compare.
        can_compare = earlier and not failed and settled.is_comparable
        changed = settled.changed if settled.visit_result is not None else is_other if can_compare else None
        digest = before[0] if not is_first and page.status == NOT_MODIFIED else page.digest
        visit = (settled.time_s, settled.outcome, digest, changed, *archived, settled.visit_result)
        self._visits.append((*row_key, *visit))
        self.captures += archived.length > 0
        if is_first:
            # The row names the record with the body. A failed first visit leaves a row without a capture.
            archived = settled.body_at if settled.body_at.file else archived
            page, archived = (PageRow(page.status), NOT_ARCHIVED) if failed else (page, archived)
            self._new.append((*row_key, settled.time_s, settled.time_s, *page, *archived))
            return True
        self._visited.append((bool(changed), settled.time_s, *row_key))
        if page.status != NOT_MODIFIED and not failed:
            # A revisit record has no body: the row continues to name the record that has it.
            if settled.repeats:
                archived = settled.body_at if settled.body_at.file else CaptureLocation(*before[2:])
            self._captured.append((*page, *archived, changed or not earlier, settled.time_s, *row_key))
        return False

    def write(self, db: sqlite3.Connection) -> None:
        """Write the rows, after the states of their URLs: the schema's triggers rely on that."""
        db.executemany("INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._visits)
        insert = f"INSERT INTO pages VALUES (?, ?, ?, 1, 0, ?, ?{', ?' * 16}, 0, 0)"  # noqa: S608  # only marks
        db.executemany(insert, self._new)
        db.executemany(
            "UPDATE pages SET visits = visits + 1, changes = changes + ?, last_visit_s = ?"
            " WHERE slot = ? AND host_id = ? AND key = ?",
            self._visited,
        )
        db.executemany(
            """
            UPDATE pages SET status = ?, digest = ?, text_digest = ?, simhash = ?, media_type = ?, language = ?,
                -- The title of an error page is not that of the page that was there.
                title = CASE WHEN ?1 IN (404, 410) AND title <> '' THEN title ELSE ?7 END,
                etag = ?, last_modified = ?, redirect_to = ?, canonical = ?, noindex = ?,
                payload_digest = ?, file = ?, offset = ?, length = ?,
                last_change_s = CASE WHEN ? THEN ? ELSE last_change_s END
            WHERE slot = ? AND host_id = ? AND key = ?
            """,
            self._captured,
        )


def _merged(found: Iterable[FoundUrl]) -> Iterable[FoundUrl]:
    """Return the links with one entry a URL. The caller's objects are not changed, because it may commit them again."""
    by_url: dict[tuple[str, int], FoundUrl] = {}
    for item in found:
        same = by_url.get((item.host, item.key))
        # One of the two only takes links back: the fields of the other count.
        if same is not None and not (same.tail and item.tail):
            item = replace(same if same.tail else item, in_links=same.in_links + item.in_links)
        elif same is not None:
            depth, hops = min(same.depth, item.depth), min(same.hops, item.hops)
            in_links, by = same.in_links + item.in_links, same.by | item.by
            hint, via = merge_hints(same.hint, item.hint), merge_via(same.via, item.via)
            item = replace(same, depth=depth, in_links=in_links, hops=hops, by=by, hint=hint, via=via)
        by_url[item.host, item.key] = item
    return by_url.values()
