"""IndexNow: a site announces changes of its own pages, and proves its identity by a file that holds its key.

    GET  /indexnow?url=URL&key=KEY[&keyLocation=URL]
    POST /indexnow  {"host": HOST, "key": KEY, "keyLocation": URL, "urlList": [URL, ...]}

Any client can send this in any site's name. So nothing is done before the crawler has seen the key at
`https://HOST/KEY.txt`, or at `keyLocation` on the same host; a key in a folder is valid for that folder alone. The
crawler fetches the file like any page of the collection: with address guard, robots.txt and politeness delays. Until
then the announcements wait, a limited number for each host. A missing key is a forgery: the announcements that wait for
it are dropped and counted, and the key is not fetched again for REFUSED_S. Only a few keys a day are fetched for each
host, so forged pings cause no more than that many requests to a server. A key that was proved once is always fetched
again.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from teia.errors import UsageError
from teia.sqlite import transaction
from teia.urls import canonicalize, resolve, split

MAX_URLS = 10_000
"""Most URLs of one message; the protocol's limit."""

WAITING_PER_HOST = 1_000
WAITING = 20_000
KEYS = 10_000
KEYS_PER_HOST = 16
"""Most stored keys in all (`KEYS`), and most unproved ones of one host: unchecked, or refused recently."""

VERIFIED_S = 30 * 86_400.0
REFUSED_S = 86_400.0
PATIENCE_S = 7 * 86_400.0
"""Validity of a proved key, of a refusal, and of a pending check, in seconds."""

VERIFIED, PENDING, REFUSED = "verified", "asked", "refused"
CROWDED = "crowded"
"""State of a key for which there is no room; it is not stored."""

KeyPosition = tuple[str, str, str]
"""Place of a key: its host, the key itself, its location."""

FIRST: KeyPosition = ("", "", "")
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")

TABLES = """
CREATE TABLE IF NOT EXISTS signals_keys (
    host TEXT NOT NULL, key TEXT NOT NULL, location TEXT NOT NULL, state TEXT NOT NULL, since_s REAL NOT NULL,
    PRIMARY KEY (host, key, location)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS signals_pending (
    host TEXT NOT NULL, key TEXT NOT NULL, location TEXT NOT NULL, url TEXT NOT NULL, reported_s REAL NOT NULL,
    PRIMARY KEY (host, key, location, url)
) WITHOUT ROWID;
DROP TABLE IF EXISTS signals_unproved;
"""


class IndexNowPing(NamedTuple):
    """A valid message: pages of one host, its key, and the place where the key should lie.

    `reported_s` is the time another node received it; 0 if it is received now.
    """

    host: str
    key: str
    location: str
    urls: tuple[str, ...]
    refused: int
    reported_s: float = 0.0


class IndexNowKey(NamedTuple):
    """A key of a host, with its `state` and the time of that state."""

    host: str
    key: str
    location: str
    state: str
    since_s: float


def read_ping(key: str, urls: Sequence[str], location: str = "", host: str = "") -> IndexNowPing:
    """Check a message; UsageError names the error in it. URLs of other hosts and folders are left out and counted."""
    if not _KEY.fullmatch(key):
        raise UsageError("key: must be 8 to 128 letters, digits or hyphens")
    if not 1 <= len(urls) <= MAX_URLS:
        raise UsageError(f"urlList: must contain 1 to {MAX_URLS:,} URLs")
    canonical_urls = [url for url in (canonicalize(str(each)) for each in urls) if url is not None]
    if not canonical_urls:
        raise UsageError("url: must be a URL, such as https://www.example.org/page")
    first = split(canonical_urls[0])
    # A GET has no `host` field: there the first URL names it.
    authority = host.strip().lower() or first.authority
    root = f"{first.scheme}://{authority}/"
    proof = canonicalize(location) if location else resolve(f"/{key}.txt", root)
    if proof is None or split(proof).authority != authority or "?" in proof:
        raise UsageError("keyLocation: must be a URL of the same host, without a query string")
    # Compared without the scheme: a key proves http and https pages of its host alike.
    folder = proof.rpartition("/")[0].partition("://")[2] + "/"
    accepted = tuple(dict.fromkeys(url for url in canonical_urls if url.partition("://")[2].startswith(folder)))
    return IndexNowPing(split(proof).host, key, proof, accepted, len(urls) - len(accepted))


def is_proof(key: str, digest: bytes) -> bool:
    """Tell whether a file with this SHA-256 holds the key and nothing else but an end of line."""
    return any(sha256(f"{key}{end}".encode()).digest() == digest for end in ("", "\n", "\r\n"))


class IndexNowKeys:
    """Known keys, and the announcements that wait for a proof. `db` is that of the inbox (announce.py)."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def prepare(self) -> None:
        """Create the tables, if they are missing."""
        self._db.executescript(TABLES)

    @property
    def has_tables(self) -> bool:
        return self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'signals_keys'").fetchone() is not None

    def state(self, ping: IndexNowPing, now_s: float) -> str:
        """Return the current state of a message's key; empty if it is unknown or expired."""
        sql = "SELECT state, since_s FROM signals_keys WHERE host = ? AND key = ? AND location = ?"
        row = self._db.execute(sql, ping[:3]).fetchone()
        holds_s = {VERIFIED: VERIFIED_S, REFUSED: REFUSED_S, PENDING: PATIENCE_S}
        return "" if row is None or now_s > row[1] + holds_s[row[0]] else str(row[0])

    def queue(self, ping: IndexNowPing, now_s: float) -> int:
        """Queue a message until its key is checked; return how many of its URLs there was room for.

        If there is no room for the key, nothing is queued: its state stays empty.
        """
        with transaction(self._db):
            # Make room before the limits are tested, in the same transaction.
            self._remove_expired(now_s)
            if not self.state(ping, now_s) and not self._queue_key(ping, now_s):
                return 0
            count = "SELECT count(*), coalesce(sum(host = ?), 0) FROM signals_pending"
            total, of_host = self._db.execute(count, (ping.host,)).fetchone()
            room = max(0, min(WAITING - total, WAITING_PER_HOST - of_host))
            sql = "INSERT OR IGNORE INTO signals_pending VALUES (?, ?, ?, ?, ?)"
            queued = ping.urls[:room]
            self._db.executemany(sql, [(*ping[:3], url, ping.reported_s or now_s) for url in queued])
        return len(queued)

    def _queue_key(self, ping: IndexNowPing, now_s: float) -> bool:
        """Queue a key for a check, if there is room for it."""
        sql = "SELECT count(*), coalesce(sum(host = ? AND state <> ?), 0) FROM signals_keys"
        total, unproved = self._db.execute(sql, (ping.host, VERIFIED)).fetchone()
        sql = "SELECT 1 FROM signals_keys WHERE host = ? AND key = ? AND location = ?"
        was_proved = self._db.execute(sql, ping[:3]).fetchone() is not None  # others are forgotten with their time
        if not was_proved and (total >= KEYS or unproved >= KEYS_PER_HOST):
            return False
        self._set(ping.host, ping.key, ping.location, PENDING, now_s)
        return True

    def _remove_expired(self, now_s: float) -> None:
        """Make room. A proved key is stored for longer than it is valid, because its site will use it again."""
        for state, retention_s in ((VERIFIED, 2 * VERIFIED_S), (REFUSED, REFUSED_S), (PENDING, PATIENCE_S)):
            self._db.execute("DELETE FROM signals_keys WHERE state = ? AND since_s < ?", (state, now_s - retention_s))
        self._db.execute("DELETE FROM signals_pending WHERE reported_s < ?", (now_s - PATIENCE_S,))

    def pending_keys(self, limit: int, after: KeyPosition = FIRST) -> list[IndexNowKey]:
        """List keys that are not checked yet, ordered by place, from the one after `after` on."""
        sql = """
            SELECT host, key, location, state, since_s FROM signals_keys
            WHERE state = ? AND (host, key, location) > (?, ?, ?) ORDER BY host, key, location LIMIT ?
        """
        return [IndexNowKey(*row) for row in self._db.execute(sql, (PENDING, *after, limit))]

    def pending_at(self, host: str, location: str) -> list[IndexNowKey]:
        """Return the unchecked keys that should lie at one place."""
        sql = """
            SELECT host, key, location, state, since_s FROM signals_keys WHERE state = ? AND host = ? AND location = ?
        """
        return [IndexNowKey(*row) for row in self._db.execute(sql, (PENDING, host, location))]

    def waiting_for(self, key: IndexNowKey) -> list[tuple[str, float]]:
        """Return (URL, time received) of the announcements that wait for a key, the oldest first."""
        sql = """
            SELECT url, reported_s FROM signals_pending WHERE host = ? AND key = ? AND location = ?
            ORDER BY reported_s, url
        """
        return self._db.execute(sql, key[:3]).fetchall()

    def remove(self, key: IndexNowKey, urls: Iterable[str]) -> None:
        """Delete these URLs of a key, and the key, unless others wait for it meanwhile."""
        at = key[:3]
        with transaction(self._db):
            sql = "DELETE FROM signals_pending WHERE host = ? AND key = ? AND location = ? AND url = ?"
            self._db.executemany(sql, [(*at, url) for url in urls])
            if not self.waiting_for(key):
                self._db.execute("DELETE FROM signals_keys WHERE host = ? AND key = ? AND location = ?", at)

    def settle(self, key: IndexNowKey, *, is_proved: bool, now_s: float) -> list[tuple[str, float]]:
        """Record the result of a key check; return (URL, time received) of the announcements that waited for it."""
        at = (key.host, key.key, key.location)
        with transaction(self._db):
            self._set(*at, VERIFIED if is_proved else REFUSED, now_s)
            waited = self.waiting_for(key)
            self._db.execute("DELETE FROM signals_pending WHERE host = ? AND key = ? AND location = ?", at)
        return waited

    def _set(self, host: str, key: str, location: str, state: str, now_s: float) -> None:
        sql = "INSERT OR REPLACE INTO signals_keys VALUES (?, ?, ?, ?, ?)"
        self._db.execute(sql, (host, key, location, state, now_s))
