"""Signals: the socket that receives those of a Squid, and the inbox where all wait until the crawl takes them.

The inbox is a database of its own beside a collection's cells. Any process that receives a signal puts it there: the
crawler those of a Squid, `teia serve` those that arrive over HTTP. The crawler's commit thread takes them out. The
inbox is bounded: signals of a kind beyond its limit are dropped and counted. Counts are kept for good.

Beside it is the outbox of a node: messages for the owners of other cells (cluster/crawl/signals.py), until these have
acknowledged them. It is bounded too, in all and for each cell, and a message in it expires after a week.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import sqlite3
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from teia.errors import ConfigError
from teia.sqlite import Schema, open_database, open_to_read, sqlite_errors, transaction

if TYPE_CHECKING:  # helpers of a Squid use this module, and must start quickly
    from teia.config.sections import SignalsSettings

PROXY = "proxy"
"""Kind of signal from a Squid's helper: a user requests this page now."""

MOST = 100_000
"""Most waiting signals of a kind, and most URLs in the outbox."""

EXPIRY_S = 7 * 86_400.0
"""Time that a message waits for the owner of its cell, in seconds."""

_PRAGMAS = ("PRAGMA busy_timeout = 5000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL")
_DDL = """
CREATE TABLE inbox (
    kind TEXT NOT NULL, url TEXT NOT NULL, reported_s REAL NOT NULL, seen_s REAL NOT NULL, times INTEGER NOT NULL,
    cache TEXT NOT NULL DEFAULT '', PRIMARY KEY (kind, url)
) WITHOUT ROWID;
CREATE INDEX by_age ON inbox (kind, seen_s);
CREATE TABLE counts (kind TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (kind, what))
    WITHOUT ROWID;
"""
_ADDED = """
CREATE TABLE IF NOT EXISTS outgoing (
    number INTEGER PRIMARY KEY, cell INTEGER NOT NULL, urls INTEGER NOT NULL, kind TEXT NOT NULL,
    expires_s REAL NOT NULL, message BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS outgoing_by_cell ON outgoing (cell, number, urls);
CREATE INDEX IF NOT EXISTS outgoing_by_expiry ON outgoing (expires_s);
"""
_RENAMED = {"inbox": ("inbox", {"said_s": "reported_s"}), "signals_told": ("signals_pending", {"said_s": "reported_s"})}
_ADDED_COLUMNS = {
    "inbox": {"cache": "TEXT NOT NULL DEFAULT ''"},
    # Messages that are older than these columns do not expire.
    "outgoing": {"kind": f"TEXT NOT NULL DEFAULT '{PROXY}'", "expires_s": "REAL NOT NULL DEFAULT 9e99"},
}
SCHEMA = Schema(2, _DDL, _PRAGMAS, _ADDED, _RENAMED, added_columns=_ADDED_COLUMNS)
"""The tables of `signals.sqlite`. Those of IndexNow, which are in it too, are created when they are needed."""


class Announcement(NamedTuple):
    """One signal about a page. `url` is canonical; `reported_s` is the reported time of the change.

    `seen_s` is the time of its receipt. `times` counts repetitions: a signal that is received again while it
    waits is one announcement. `cache` is the name of the cache that announced it last (`signals.caches`).
    """

    url: str
    kind: str
    reported_s: float
    seen_s: float
    times: int = 1
    cache: str = ""


class AnnouncementInbox:
    """Waiting announcements, and counts of each kind by result.

    `db` was opened with this module's tables; other modules keep tables of their own beside them.
    """

    def __init__(self, db: sqlite3.Connection, most: int = MOST) -> None:
        self.db, self._most = db, most

    def close(self) -> None:
        self.db.close()

    def put(self, announcements: Iterable[Announcement]) -> int:
        """Queue announcements; return how many there was room for, repeats among them."""
        by_kind: defaultdict[str, list[Announcement]] = defaultdict(list)
        for each in announcements:
            by_kind[each.kind].append(each)
        accepted = 0
        with transaction(self.db):
            for kind, batch in by_kind.items():
                accepted += self._put(kind, batch)
        return accepted

    def _put(self, kind: str, batch: Sequence[Announcement]) -> int:
        room = self._most - self.waiting(kind)
        accepted = repeated = dropped = 0
        # A repetition needs no room: it only raises the count of a signal that waits already.
        repeat_sql = (
            "UPDATE inbox SET times = times + ?, reported_s = max(reported_s, ?), cache = ? WHERE kind = ? AND url = ?"
        )
        for url, _, reported_s, seen_s, times, cache in batch:
            if self.db.execute(repeat_sql, (times, reported_s, cache, kind, url)).rowcount:
                repeated += times
                accepted += 1
            elif room > 0:
                row = (kind, url, reported_s, seen_s, times, cache)
                self.db.execute("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?)", row)
                repeated += times - 1
                room -= 1
                accepted += 1
            else:
                dropped += times
        self._add(kind, {"repeated": repeated, "dropped": dropped})
        return accepted

    def waiting(self, kind: str) -> int:
        """Count the waiting signals of a kind."""
        return int(self.db.execute("SELECT count(*) FROM inbox WHERE kind = ?", (kind,)).fetchone()[0])

    def due(self, kind: str, before_s: float, limit: int) -> list[Announcement]:
        """Return those received before a time, the oldest first; they wait until they are settled."""
        sql = """
            SELECT url, kind, reported_s, seen_s, times, cache FROM inbox WHERE kind = ? AND seen_s <= ?
            ORDER BY seen_s LIMIT ?
        """
        return [Announcement(*row) for row in self.db.execute(sql, (kind, before_s, limit))]

    def settle(self, kind: str, urls: Iterable[str]) -> None:
        """Remove processed announcements."""
        with transaction(self.db):
            self.db.executemany("DELETE FROM inbox WHERE kind = ? AND url = ?", [(kind, url) for url in urls])

    # -- outbox --------------------------------------------------------------------------------------------

    def post(self, kind: str, cell: int, message: bytes, urls: int, now_s: float) -> None:
        """Queue a message with signals of one kind for the owner of another cell, if there is room; count its URLs.

        The messages to a cell may fill no more than the room that is left. So one cell whose owner is away takes half
        of the outbox at most, two take a third each, and there is always room for the others.
        """
        with transaction(self.db):
            self._drop("expires_s < ?", now_s)
            # The index covers these sums.
            sql = "SELECT coalesce(sum(urls), 0), coalesce(sum(urls) FILTER (WHERE cell = ?), 0) FROM outgoing"
            waiting, of_cell = self.db.execute(sql, (cell,)).fetchone()
            has_room = of_cell + urls <= self._most - (waiting + urls)
            if has_room:
                sql = "INSERT INTO outgoing (cell, urls, kind, expires_s, message) VALUES (?, ?, ?, ?, ?)"
                self.db.execute(sql, (cell, urls, kind, now_s + EXPIRY_S, message))
            self._add(kind, {"passed_on" if has_room else "dropped": urls})

    def drop(self, number: int) -> None:
        """Remove a message that cannot be sent, and count it as dropped."""
        with transaction(self.db):
            self._drop("number = ?", number)

    def _drop(self, condition: str, value: float) -> None:
        sql = f"DELETE FROM outgoing WHERE {condition} RETURNING kind, urls"  # noqa: S608  # a text of this class
        for kind, urls in self.db.execute(sql, (value,)).fetchall():
            self._add(kind, {"dropped": urls, "passed_on": -urls})

    def posted_to(self) -> list[int]:
        """Return the cells whose owners have messages to get."""
        # One look into the index for each cell; DISTINCT would read all messages of an owner that is away.
        sql = """
            WITH RECURSIVE cells(cell) AS (
                SELECT min(cell) FROM outgoing
                UNION ALL SELECT (SELECT min(cell) FROM outgoing WHERE cell > cells.cell) FROM cells WHERE cell NOT NULL
            ) SELECT cell FROM cells WHERE cell NOT NULL
        """
        return [cell for (cell,) in self.db.execute(sql)]

    def first_posted(self, cell: int) -> tuple[int, bytes] | None:
        """Return number and contents of the oldest message to the owner of a cell."""
        sql = "SELECT number, message FROM outgoing WHERE cell = ? ORDER BY number LIMIT 1"
        return self.db.execute(sql, (cell,)).fetchone()  # type: ignore[no-any-return]

    def acknowledge(self, number: int) -> None:
        """Remove a message that has arrived."""
        self.db.execute("DELETE FROM outgoing WHERE number = ?", (number,))

    # -- counts --------------------------------------------------------------------------------------------

    def count(self, kind: str, numbers: Mapping[str, int]) -> None:
        """Add to the counts of a kind of signal."""
        with transaction(self.db):
            self._add(kind, numbers)

    def _add(self, kind: str, numbers: Mapping[str, int]) -> None:
        sql = "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number"
        self.db.executemany(sql, [(kind, what, number) for what, number in numbers.items() if number])

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the lifetime counts, by kind and result."""
        found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for kind, what, number in self.db.execute("SELECT kind, what, number FROM counts ORDER BY kind, what"):
            found[kind][what] = number
        return dict(found)


def takes_announcements(path: Path, signals: SignalsSettings) -> bool:
    """Tell whether a collection may receive announcements, or has received some; `path` is its inbox."""
    return bool(signals.socket or signals.indexnow or signals.websub) or path.exists()


def open_inbox(path: Path) -> AnnouncementInbox:
    """Open a collection's inbox for reading and writing; it is made if it is missing."""
    return AnnouncementInbox(open_database(path, SCHEMA))


def counts_in(path: Path) -> dict[str, dict[str, int]]:
    """Return the counts of a collection's inbox, which may be missing."""
    if not path.exists():
        return {}
    with closing(AnnouncementInbox(open_to_read(path, SCHEMA))) as inbox, sqlite_errors(path):
        return inbox.counts()


# ---- datagrams of the helper beside a Squid (squid_helper.py), and the socket that receives them ---------------------


MAX_DATAGRAM_BYTES = 65_536
MAX_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux."""

DATAGRAMS_AT_ONCE = 64
"""Number of datagrams read before other work has its turn."""

URLS_AT_ONCE = 2_048
"""Number of URLs after which nothing more is read; further ones in the same datagram are dropped and counted."""

COUNTS = frozenset({"seen", "malformed", "skipped", "private", "dropped"})
"""Counts that a helper reports; the fate of announcements in this process is not among them."""

_HEADER = re.compile(rb"teia-announce 1(?: cache=([a-z0-9][a-z0-9-]{0,30}))?((?: [a-z]{1,16}=[0-9]{1,9}){0,16})")


@dataclass(frozen=True, slots=True)
class Datagram:
    """Contents of one datagram: the helper's counts since its last one, and URLs as users requested them.

    `cache` is the name of the cache where they did (`signals.caches`); empty: that of `signals.proxy`.
    """

    counts: dict[str, int]
    urls: tuple[str, ...]
    cache: str = ""


MALFORMED = Datagram({"malformed": 1}, ())


def decode(datagram: bytes) -> Datagram:
    """Parse a datagram; a foreign one counts as malformed, and so does each line that is no text."""
    header, *lines = datagram.split(b"\n")
    match = _HEADER.fullmatch(header)
    if match is None:
        return MALFORMED
    pairs = (pair.split(b"=") for pair in match[2].split())
    counts = {name.decode(): int(number) for name, number in pairs if name.decode() in COUNTS}
    # Before any decoding: a datagram of 65,536 bytes can hold tens of thousands of lines.
    if len(lines) > URLS_AT_ONCE:
        counts["dropped"] = counts.get("dropped", 0) + len(lines) - URLS_AT_ONCE
        del lines[URLS_AT_ONCE:]
    urls = [line.decode() for line in lines if line and line.isascii() and line.decode().isprintable()]
    if len(urls) < len(lines):
        counts["malformed"] = counts.get("malformed", 0) + len(lines) - len(urls)
    return Datagram(counts, tuple(urls), (match[1] or b"").decode())


class PathTaken(ConfigError):
    """Error: another crawler listens there."""


class AnnouncementSocket:
    """A socket that receives announcements; the crawl's own user may send, and the group of its folder.

    Its folder must be the crawl's own, so that a setting cannot put a socket in an arbitrary place. Every user who may
    write to the socket may send, so anything unexpected is counted as malformed. Only the counts that a helper has are
    accepted, and a limited number of URLs before other work has its turn. The kernel bounds the size of a datagram, and
    the socket's queue their number; a sender beyond that gets an error and counts it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_folder(path)
        _remove_stale_socket(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(str(path))
            # Squid's helper runs as another user; the folder's group is how the operator lets it write.
            os.chown(path, -1, path.parent.stat().st_gid)
            path.chmod(0o660)
            self._file = _file_at(path)
        except OSError as error:
            self._socket.close()
            if error.errno == errno.EADDRINUSE:  # it came there since we looked
                raise _path_taken(path) from error
            raise ConfigError(f"signals.socket: {path} cannot be created: {error.strerror}") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> Iterable[Datagram]:
        """Read received datagrams, a bounded number at a time."""
        urls = 0
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                datagram = decode(self._socket.recv(MAX_DATAGRAM_BYTES))
            except BlockingIOError:
                return
            yield datagram
            urls += len(datagram.urls)
            if urls >= URLS_AT_ONCE:
                return

    def close(self) -> None:
        """Stop receiving. The file is removed first, so that another crawler can create its own at once."""
        with suppress(OSError):
            if _file_at(self.path) == self._file:
                self.path.unlink()
        self._socket.close()


def _check_folder(path: Path) -> None:
    """Refuse a folder that another user owns, or that every user may write to."""
    folder = path.parent
    try:
        found = folder.stat()
    except OSError as error:
        raise ConfigError(f"signals.socket: {path} cannot be created in that folder: {error.strerror}") from error
    if not path.is_absolute() or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"signals.socket: {path} must be an absolute path")
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"signals.socket: {folder} must belong to the user of the crawler and must not be writable by"
            " everybody; create a folder for it"
        )


def _file_at(path: Path) -> tuple[int, int]:
    """Return device and inode of the file at a path, to compare files independently of names."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a dead crawler; any other file at that place is not ours to remove."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(f"signals.socket: {path} is too long for a socket; the maximum is {MAX_PATH_BYTES} bytes")
    try:
        is_socket, stale = stat.S_ISSOCK(path.lstat().st_mode), _file_at(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"signals.socket: {path} cannot be checked: {error.strerror}") from error
    if not is_socket:
        raise ConfigError(f"signals.socket: {path} is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
        try:
            # Connecting sends nothing, and succeeds only while a process has the socket open.
            probe.connect(str(path))
        except OSError as error:
            if error.errno == errno.ENOENT:  # its crawler has just ended
                return
            if error.errno != errno.ECONNREFUSED:
                raise ConfigError(f"signals.socket: {path} cannot be used: {error.strerror}") from error
        else:
            raise _path_taken(path)
    with suppress(FileNotFoundError):
        if _file_at(path) == stale:  # and not the socket of a crawler that was quicker
            path.unlink()


def _path_taken(path: Path) -> PathTaken:
    return PathTaken(f"signals.socket: another crawler is listening at {path}; choose another path")
