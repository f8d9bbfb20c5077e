"""WebSub (W3C Recommendation): hubs notify us when a feed has changed, if we subscribe.

A feed names its hub and its own address (`rel="hub"`, `rel="self"`). We send the hub a request (POST,
`hub.mode=subscribe`). The hub verifies it at our callback (GET with `hub.challenge`). From then on, for the length of a
lease, it posts changes, signed with a secret that we gave it.

    wanted    to be requested, or requested again at `again_s`
    asked     the request was sent, and the hub may verify it for ANSWER_S
    active    the hub verified it; requested again before the lease ends
    refused   the hub refused, or too many tries failed; requested once more after a week, then forgotten

Any client can send anything to a callback. So only a pending request is confirmed, within its time; a push without the
right signature is a forgery, which is ignored and counted. A push says that the feed changed and, where it brings
entries, which pages. Its weight is learnt from the earlier pushes of the site (trust.py).
"""

from __future__ import annotations

import hmac
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe
from urllib.parse import urlencode

import msgspec

from teia.errors import ConfigError
from teia.sqlite import PRIVATE, Schema, transaction
from teia.urls import canonicalize, host_of

WEBSUB = "websub"
"""The kind of signal."""

SUBSCRIBE, UNSUBSCRIBE, DENIED = "subscribe", "unsubscribe", "denied"
WANTED, REQUESTED, ACTIVE, REFUSED = "wanted", "asked", "active", "refused"

MOST, MOST_OF_A_HOST = 10_000, 1_000
"""Feeds that have a hub, in all and of one host."""

LEASE_S = 10 * 86_400
SHORTEST_LEASE_S, LONGEST_LEASE_S = 300.0, 30 * 86_400.0
"""Lease that we request (`LEASE_S`), and bounds of the lease that a hub may choose instead, in seconds."""

RENEWED = 0.8
"""Share of a lease after which it is renewed."""

ANSWER_S = 600.0
TRIES = 8
FIRST_WAIT_S, LONGEST_WAIT_S = 60.0, 86_400.0
REFUSED_S = 7 * 86_400.0

NEVER_S = -1.0
"""Request time of a hub that was not requested, or has verified the request since."""

MAX_PUSH_BYTES = 512 << 10
MAX_CHALLENGE_CHARS = 2_000
MEDIA_TYPE = "application/x-www-form-urlencoded"
_SIGNATURE = re.compile(r"(sha1|sha256|sha384|sha512)=([0-9A-Fa-f]{40,128})")

_PRAGMAS = ("PRAGMA busy_timeout = 5000", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
_DDL = """
CREATE TABLE hubs (
    feed TEXT PRIMARY KEY, topic TEXT NOT NULL, hub TEXT NOT NULL, mode TEXT NOT NULL, state TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE, callback TEXT NOT NULL, secret TEXT NOT NULL, requested_s REAL NOT NULL,
    until_s REAL NOT NULL, again_s REAL NOT NULL, tries INTEGER NOT NULL, outcome TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX hubs_due ON hubs (again_s);
"""
SCHEMA = Schema(2, _DDL, _PRAGMAS, renamed={"hubs": ("hubs", {"asked_s": "requested_s"})}, mode=PRIVATE)
_COLUMNS = "feed, topic, hub, mode, state, key, callback, secret, requested_s, until_s, again_s, tries, outcome"


@dataclass(frozen=True, slots=True)
class HubTopic:
    """A feed with a hub. `feed` is its URL as we know it, `topic` its own name for itself."""

    feed: str
    topic: str
    hub: str
    mode: str
    state: str
    key: str
    callback: str
    secret: str
    requested_s: float
    until_s: float
    again_s: float
    tries: int
    outcome: str

    def __repr__(self) -> str:
        return f"Topic({self.feed})"  # secrets stay out of logs

    @property
    def is_over(self) -> bool:
        """True if its tries are used up; a refused one gets one more after a week."""
        return self.tries > TRIES or (self.tries == TRIES and self.state != REFUSED)


CONFIRMED, REFUSAL_NOTED, ACCEPTED = "confirmed", "denied", "accepted"
"""Verdicts on calls that are as they should be; others are counted (crawler/signals_in/websub.py)."""


class HubCall(msgspec.Struct, frozen=True, array_like=True):
    """A hub's call at a callback: a verification or a refusal (with a mode), or a push (with a body)."""

    key: str
    mode: str = ""
    topic: str = ""
    lease_s: int = 0
    reason: str = ""
    signature: str = ""
    body: bytes = b""


class HubVerdict(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a call by the node that has the subscription; an empty verdict: it is not as it should be."""

    verdict: str
    feed: str


def parse_base_url(text: str) -> str:
    """Return the public address of the web interface from `signals.websub`; empty where there is none."""
    if not text:
        return ""
    url = canonicalize(text, ())
    if url is None or "?" in url or "@" in text:
        raise ConfigError(f"signals.websub: {text!r} is not a URL such as https://crawl.example.org")
    return url.rstrip("/")


def is_signed(secret: str, header: str, body: bytes) -> bool:
    """Tell whether a push is signed with the secret (`X-Hub-Signature`)."""
    match = _SIGNATURE.fullmatch(header.strip())
    if match is None:
        return False
    expected = hmac.new(secret.encode(), body, match[1]).hexdigest()
    # Compared in constant time: an early exit would reveal the signature byte by byte.
    return hmac.compare_digest(expected, match[2].lower())


def request_form(topic: HubTopic) -> bytes:
    """Return the form of a request to a hub."""
    form = {"hub.callback": topic.callback, "hub.mode": topic.mode, "hub.topic": topic.topic}
    if topic.mode == SUBSCRIBE:
        form |= {"hub.lease_seconds": str(LEASE_S), "hub.secret": topic.secret}
    return urlencode(form).encode()


def _wait_s(tries: int) -> float:
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries, 20))


class Hubs:
    """The feeds of a collection that have a hub; `db` was opened with this module's tables."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        db.create_function("host_of", 1, host_of, deterministic=True)

    def close(self) -> None:
        self.db.close()

    def record_hub(self, feed: str, topic: str, hub: str, base: str, now_s: float) -> None:
        """Record that a feed named its hub. A known one stays, unless its hub, its name or our address changed."""
        with transaction(self.db):
            known = self._one("feed", feed)
            same = known is not None and (known.topic, known.hub, known.mode) == (topic, hub, SUBSCRIBE)
            if known is not None and same and known.callback.startswith(f"{base}/"):
                return
            if known is None and (self.number >= MOST or self._count_of_host(feed) >= MOST_OF_A_HOST):
                return
            # A new hub gets a new callback and secret; pushes with the old ones are no longer accepted.
            key = token_urlsafe(24)
            row = (feed, topic, hub, SUBSCRIBE, WANTED, key, f"{base}/{key}", token_hex(24), NEVER_S, 0.0, now_s, 0, "")
            placeholders = ", ".join("?" * len(row))
            self.db.execute(f"INSERT OR REPLACE INTO hubs ({_COLUMNS}) VALUES ({placeholders})", row)  # noqa: S608

    def unsubscribe(self, now_s: float, is_over: Callable[[str], bool] = lambda _: True) -> None:
        """End the subscriptions to feeds: active hubs get an unsubscribe request, the others are forgotten."""
        rows = self.db.execute("SELECT feed FROM hubs WHERE mode = ?", (SUBSCRIBE,)).fetchall()
        over = [(feed,) for (feed,) in rows if is_over(feed)]
        if not over:
            return
        with transaction(self.db):
            # These hubs have nothing to end; all others get a request.
            gone = f"DELETE FROM hubs WHERE feed = ? AND state IN ('{WANTED}', '{REFUSED}')"  # noqa: S608  # our names
            self.db.executemany(gone, over)
            sql = "UPDATE hubs SET mode = ?, state = ?, again_s = ?, tries = 0 WHERE feed = ?"
            self.db.executemany(sql, [(UNSUBSCRIBE, WANTED, now_s, feed) for (feed,) in over])

    @property
    def number(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM hubs").fetchone()[0])

    def _count_of_host(self, feed: str) -> int:
        """Count the feeds of the same host."""
        at = feed[: feed.index("/", 8)]
        sql = "SELECT count(*) FROM hubs WHERE feed >= ? AND feed < ?"
        return int(self.db.execute(sql, (f"{at}/", f"{at}0")).fetchone()[0])  # "0" comes after "/"

    def all(self) -> list[HubTopic]:
        rows = self.db.execute(f"SELECT {_COLUMNS} FROM hubs ORDER BY feed")  # noqa: S608  # our own names
        return [HubTopic(*row) for row in rows]

    def with_key(self, key: str) -> HubTopic | None:
        """Return the feed whose callback has this key."""
        return self._one("key", key) if key else None

    def _one(self, column: str, value: str) -> HubTopic | None:
        row = self.db.execute(f"SELECT {_COLUMNS} FROM hubs WHERE {column} = ?", (value,)).fetchone()  # noqa: S608
        return None if row is None else HubTopic(*row)

    # -- requests ------------------------------------------------------------------------------------------

    def due(self, now_s: float, limit: int) -> list[HubTopic]:
        """Return the first due request for each hub host, so that a hub with many feeds does not block others."""
        sql = f"""
            SELECT {_COLUMNS}, min(again_s) AS first_s FROM hubs WHERE again_s <= ?
            GROUP BY host_of(hub) ORDER BY first_s LIMIT ?
        """  # noqa: S608  # our own names; SQLite takes the other columns from the row that has the minimum
        return [HubTopic(*row[:-1]) for row in self.db.execute(sql, (now_s, limit))]

    def record_request(self, topic: HubTopic, now_s: float) -> None:
        """Record that a hub is about to be requested: it may verify before it answers. Silence counts as a failure."""
        # A renewal does not end a subscription that works: it stays active until its lease ends.
        keeps_state = topic.state == REFUSED or (topic.state == ACTIVE and topic.mode == SUBSCRIBE)
        state, again_s = topic.state if keeps_state else REQUESTED, now_s + max(ANSWER_S, _wait_s(topic.tries))
        sql = "UPDATE hubs SET state = ?, again_s = ?, outcome = ?, requested_s = ?, tries = tries + 1 WHERE feed = ?"
        self.db.execute(sql, (state, again_s, "no answer", now_s, topic.feed))

    def record_refusal(self, topic: HubTopic, outcome: str, now_s: float) -> None:
        """Record that a hub could not be reached, or refused."""
        known = self._one("feed", topic.feed)
        if known is None or known.key != topic.key or known.requested_s == NEVER_S:
            return  # it has verified the request since: it understood it, regardless of its answer
        if known.tries > TRIES or (known.mode == UNSUBSCRIBE and known.tries >= TRIES):
            self._forget(known)  # it ends by itself, with its lease; a feed that is read again begins anew
        elif known.tries >= TRIES:
            self._set(known, REFUSED, now_s + REFUSED_S, outcome)
        else:
            self._set(known, known.state, now_s + _wait_s(known.tries), outcome)

    # -- verification --------------------------------------------------------------------------------------

    def confirm(self, topic: HubTopic, mode: str, name: str, lease_s: float, now_s: float) -> bool:
        """Handle a hub's verification; return False if we did not make this request, or too long ago."""
        is_ours = name == topic.topic and mode == topic.mode and topic.requested_s != NEVER_S
        if not is_ours or now_s > topic.requested_s + ANSWER_S:
            return False
        if mode == UNSUBSCRIBE:
            self._forget(topic)
            return True
        # A hub may answer with any lease: a short one would cause endless requests, a long one would hide a dead hub.
        lease_s = min(max(lease_s, SHORTEST_LEASE_S), LONGEST_LEASE_S)
        sql = """
            UPDATE hubs SET state = ?, requested_s = ?, until_s = ?, again_s = ?, tries = 0, outcome = '' WHERE feed = ?
        """
        self.db.execute(sql, (ACTIVE, NEVER_S, now_s + lease_s, now_s + RENEWED * lease_s, topic.feed))
        return True

    def deny(self, topic: HubTopic, name: str, why: str, now_s: float) -> bool:
        """Handle a hub's refusal to notify us, or its end."""
        if name != topic.topic:
            return False
        self._set(topic, REFUSED, now_s + REFUSED_S, f"denied: {why}")
        sql = "UPDATE hubs SET requested_s = ?, until_s = 0, tries = ? WHERE feed = ?"
        self.db.execute(sql, (NEVER_S, TRIES, topic.feed))
        return True

    def is_push_expected(self, topic: HubTopic, now_s: float) -> bool:
        """Tell whether a push of a hub is expected: the subscription was verified, and its lease has not long ended.

        One that cannot be renewed is valid until its lease ends.
        """
        return topic.mode == SUBSCRIBE and topic.until_s > 0 and now_s <= topic.until_s + ANSWER_S

    def _set(self, topic: HubTopic, state: str, again_s: float, outcome: str) -> None:
        sql = "UPDATE hubs SET state = ?, again_s = ?, outcome = ? WHERE feed = ?"
        self.db.execute(sql, (state, again_s, outcome[:200], topic.feed))

    def _forget(self, topic: HubTopic) -> None:
        self.db.execute("DELETE FROM hubs WHERE feed = ?", (topic.feed,))
