"""Users, their sessions and tokens, and the log of their changes, in `web.sqlite` of a root.

Only the owner of the file may read it. Passwords are stored as argon2id hashes. Sessions and tokens are random, and the
database holds only their SHA-256, so a reader of the file cannot sign in with it. There is no built-in password: the
server prints an invitation for the first user when it starts. An invitation works once, for a limited time.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from threading import Lock
from typing import Any

import argon2

from teia.clock import Clock, iso_utc
from teia.config.load import toml_value
from teia.durable import disk_errors
from teia.errors import StoreError, UsageError
from teia.lib.message import Message, decoded, encoded
from teia.sqlite import LIMIT_LOG, PRIVATE, back_up, copy_before, sqlite_errors
from teia.web import limits
from teia.web.access.roles import ALL_SCOPES, Role, TokenScope

VERSION = 4
SCHEMA = """
    CREATE TABLE users (
        name TEXT PRIMARY KEY, password TEXT, role INT, made_s REAL, seen_s REAL, preferences TEXT NOT NULL DEFAULT '{}'
    ) WITHOUT ROWID;
    CREATE TABLE sessions (hash BLOB PRIMARY KEY, user TEXT, csrf TEXT, made_s REAL, seen_s REAL) WITHOUT ROWID;
    CREATE TABLE tokens (
        hash BLOB PRIMARY KEY, name TEXT, user TEXT, role INT, made_s REAL, seen_s REAL, scopes TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID;
    CREATE TABLE invitations (hash BLOB PRIMARY KEY, role INT, until_s REAL) WITHOUT ROWID;
    CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
    CREATE TABLE audit (seq INTEGER PRIMARY KEY, time_s REAL, who TEXT, what TEXT, detail TEXT);
"""
_FROM_3 = "ALTER TABLE users RENAME COLUMN choices TO preferences"
_FROM_2 = "ALTER TABLE users ADD COLUMN preferences TEXT NOT NULL DEFAULT '{}'"
_FROM_1 = f"ALTER TABLE tokens ADD COLUMN scopes TEXT NOT NULL DEFAULT ''; {_FROM_2}"
"""Migrations from older versions.

Version 1 had no scopes; an empty `scopes` column means all of them. Until version 2, preferences were in cookies only.
In version 3 their column had another name.
"""


@dataclass(frozen=True, slots=True)
class UserSession:
    """Session of a signed-in user.

    `csrf` is the token that the user's forms must send; `preferences` are the user's preferences.
    """

    user: str
    role: Role
    csrf: str
    preferences: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class User:
    """User as the list of users shows it; `seen` is null if the user never came."""

    name: str
    role: str
    made: str
    seen: str | None


@dataclass(frozen=True, slots=True)
class ApiToken:
    """API token as the list of tokens shows it; the secret itself is shown once and never stored."""

    name: str
    user: str
    role: str
    made: str
    seen: str | None
    scopes: list[str]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One entry of the audit log: a change that a user made."""

    time_s: float
    who: str
    what: str
    detail: Mapping[str, Any]


class Accounts:
    """Accounts of one root; safe to share between threads."""

    def __init__(self, path: Path, clock: Clock, hasher: argon2.PasswordHasher | None = None) -> None:
        self._clock = clock
        self._lock = Lock()
        self._hasher = hasher or argon2.PasswordHasher()
        # Unknown user names are compared with this hash, so that they take as long to refuse as wrong passwords.
        self._dummy_hash = self._hasher.hash(secrets.token_urlsafe(18))
        # Created with its mode before SQLite opens it: SQLite would leave it readable by other users.
        with disk_errors(path, "opened"):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        with sqlite_errors(path):
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(LIMIT_LOG)
            if (version := self._version) != VERSION:
                if 0 < version < VERSION:
                    back_up(self._db, copy_before(path, version), PRIVATE)
                self._migrate(path)

    @property
    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _migrate(self, path: Path) -> None:
        with self._transaction() as db:
            version = self._version  # read inside the transaction: another server of this root may have migrated first
            if version not in (0, 1, 2, 3, VERSION):
                raise StoreError(f"{path} is of version {version}, but this version of teia reads {VERSION}")
            # Not `executescript`: it commits first, and would end the transaction of the migration.
            for statement in {0: SCHEMA, 1: _FROM_1, 2: _FROM_2, 3: _FROM_3}.get(version, "").split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, sqlite_errors(self._path):
            # IMMEDIATE takes the write lock now: no other server can change what the transaction reads.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite rolls back by itself after some errors, such as a full disk.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _store_last_seen(self, sql: str, *values: Any) -> None:
        """Store the time of the last request; ignore a full disk, so that users can still sign in."""
        with suppress(StoreError), self._transaction() as db:
            db.execute(sql, values)

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, sqlite_errors(self._path):
            return self._db.execute(sql, values).fetchall()

    # ---- people -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._rows("SELECT 1 FROM users LIMIT 1")

    def invite(self, role: Role, life_s: float = limits.INVITATION_S) -> str:
        """Return a code with which one person can create an account of this role, once, within `life_s`."""
        code = secrets.token_urlsafe(18)
        with self._transaction() as db:
            db.execute("DELETE FROM invitations WHERE until_s < ?", (self._clock.now_s(),))
            until_s = self._clock.now_s() + life_s
            db.execute("INSERT INTO invitations VALUES (?, ?, ?)", (_hash(code), int(role), until_s))
        return code

    def accept_invitation(self, code: str, name: str, password: str) -> None:
        """Create the account that an invitation is for.

        Raise UsageError if the code, the name or the password is not acceptable; the invitation then stays valid.
        """
        check_name(name)
        check_password(password)
        # Before the transaction: a hash takes long on purpose, and would block all other writers.
        made = self._hasher.hash(password)
        with self._transaction() as db:
            found = db.execute("SELECT role, until_s FROM invitations WHERE hash = ?", (_hash(code),)).fetchone()
            if found is None or found[1] < self._clock.now_s():
                raise UsageError(Message("this invitation was already used, or has expired"), "code")
            if db.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone():
                raise UsageError(Message("a user named {name} already exists", name=name), "name")
            # In the transaction that creates the user, so that no invitation makes two accounts.
            db.execute("DELETE FROM invitations WHERE hash = ?", (_hash(code),))
            now_s = self._clock.now_s()
            sql = "INSERT INTO users (name, password, role, made_s, seen_s) VALUES (?, ?, ?, ?, ?)"
            db.execute(sql, (name, made, found[0], now_s, now_s))

    def users(self) -> list[User]:
        rows = self._rows("SELECT name, role, made_s, seen_s FROM users ORDER BY name")
        return [User(name, Role(role).word, iso_utc(made_s), _time(seen_s)) for name, role, made_s, seen_s in rows]

    def remove_user(self, name: str) -> None:
        """Delete a user's account, sessions and tokens; refuse to delete the last admin."""
        with self._transaction() as db:
            self._check_admin_stays(db, name)
            for table, column in (("users", "name"), ("sessions", "user"), ("tokens", "user")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608  # our own names

    def set_role(self, name: str, role: Role) -> None:
        """Change a user's role, and lower the roles of the user's tokens to it."""
        with self._transaction() as db:
            if role is not Role.ADMIN:
                self._check_admin_stays(db, name)
            db.execute("UPDATE users SET role = ? WHERE name = ?", (int(role), name))
            # A token must never have more rights than its user.
            db.execute("UPDATE tokens SET role = min(role, ?) WHERE user = ?", (int(role), name))

    def set_password(self, name: str, old: str, new: str) -> None:
        """Change a password and end all sessions of the user."""
        check_password(new, "new")  # before the old one is compared, which takes long on purpose
        rows = self._rows("SELECT password FROM users WHERE name = ?", name)
        try:
            self._hasher.verify(rows[0][0] if rows else self._dummy_hash, old[: limits.PASSWORD_CHARS[1]])
        except argon2.exceptions.VerificationError:
            raise UsageError(Message("the old password is wrong"), "old") from None
        self.reset_password(name, new)

    def check_user(self, name: str) -> None:
        """Raise UsageError if there is no such user."""
        if not self._rows("SELECT 1 FROM users WHERE name = ?", name):
            raise UsageError(Message("there is no user {name!r}", name=name))

    def reset_password(self, name: str, new: str) -> None:
        """Set a password without the old one, and end all sessions of the user."""
        check_password(new, "new")
        self.check_user(name)
        made = self._hasher.hash(new)
        with self._transaction() as db:
            db.execute("UPDATE users SET password = ? WHERE name = ?", (made, name))
            # A stolen session ends with the old password.
            db.execute("DELETE FROM sessions WHERE user = ?", (name,))

    def set_preferences(self, name: str, preferences: Mapping[str, str]) -> None:
        """Store a user's preferences; those that `preferences` does not name keep their values."""
        with self._transaction() as db:
            # A loop over zero or one row: a user removed in the meantime is ignored.
            for before in db.execute("SELECT preferences FROM users WHERE name = ?", (name,)).fetchall():
                text = json.dumps(json.loads(before[0]) | dict(preferences))
                db.execute("UPDATE users SET preferences = ? WHERE name = ?", (text, name))

    @staticmethod
    def _check_admin_stays(db: sqlite3.Connection, name: str) -> None:
        found = db.execute("SELECT role FROM users WHERE name = ?", (name,)).fetchone()
        if found is None:
            raise UsageError(Message("there is no user {name!r}", name=name))
        others = db.execute("SELECT 1 FROM users WHERE role = ? AND name <> ?", (int(Role.ADMIN), name)).fetchone()
        if found[0] == Role.ADMIN and others is None:
            raise UsageError(Message("{name} is the only admin; create another one first", name=name))

    # ---- sessions ---------------------------------------------------------------------------------------------------

    def sign_in(self, name: str, password: str) -> str | None:
        """Return the secret of a new session, or None if name or password are wrong.

        Both failures take the same time, so that the response does not reveal which user names exist.
        """
        rows = self._rows("SELECT password FROM users WHERE name = ?", name[: limits.NAME_CHARS])
        try:
            self._hasher.verify(rows[0][0] if rows else self._dummy_hash, password[: limits.PASSWORD_CHARS[1]])
        except argon2.exceptions.VerificationError:
            return None
        if not rows:
            return None
        secret, now_s = secrets.token_urlsafe(32), self._clock.now_s()
        with self._transaction() as db:
            db.execute("DELETE FROM sessions WHERE seen_s < ? OR made_s < ?", _oldest_valid(now_s))
            # The sessions that were not used for longest make room for the new one.
            others = limits.SESSIONS - 1
            db.execute(
                "DELETE FROM sessions WHERE hash NOT IN (SELECT hash FROM sessions ORDER BY seen_s DESC LIMIT ?)",
                (others,),
            )
            values = (_hash(secret), name, secrets.token_urlsafe(18), now_s, now_s)
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", values)
            db.execute("UPDATE users SET seen_s = ? WHERE name = ?", (now_s, name))
        return secret

    def find_session(self, secret: str) -> UserSession | None:
        """Return the session of a secret; None if it has expired or its user was removed."""
        now_s = self._clock.now_s()
        sql = """SELECT s.user, u.role, s.csrf, u.preferences, s.made_s, s.seen_s
                 FROM sessions AS s JOIN users AS u ON u.name = s.user WHERE s.hash = ?"""
        for user, role, csrf, preferences, made_s, seen_s in self._rows(sql, _hash(secret)):
            least_seen_s, least_made_s = _oldest_valid(now_s)
            if seen_s < least_seen_s or made_s < least_made_s:
                return None
            # Not at every request, because each would be a write.
            if now_s - seen_s > SEEN_RESOLUTION_S:
                self._store_last_seen("UPDATE sessions SET seen_s = ? WHERE hash = ?", now_s, _hash(secret))
            return UserSession(user, Role(role), csrf, json.loads(preferences))
        return None

    def sign_out(self, secret: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),))

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def make_token(self, name: str, user: str, role: Role, scopes: frozenset[TokenScope] = ALL_SCOPES) -> str:
        """Create a token and return its secret; only the hash is stored."""
        check_name(name)
        if not scopes:  # an empty column would mean all scopes
            raise UsageError("a token needs at least one scope")
        secret = f"teia_{secrets.token_urlsafe(32)}"
        with self._transaction() as db:
            if db.execute("SELECT count(*) FROM tokens").fetchone()[0] >= limits.TOKENS:
                raise UsageError(Message("there are already {n} tokens; remove some first", n=limits.TOKENS))
            if db.execute("SELECT 1 FROM tokens WHERE name = ? AND user = ?", (name, user)).fetchone():
                raise UsageError(Message("{user} already has a token {name!r}", user=user, name=name))
            now_s = self._clock.now_s()
            values = (_hash(secret), name, user, int(role), now_s, 0.0, " ".join(sorted(scopes)))
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return secret

    def find_token(self, secret: str) -> tuple[str, Role, frozenset[TokenScope]] | None:
        """Return the user, role and scopes of a token; None if it is unknown."""
        rows = self._rows("SELECT user, role, seen_s, scopes FROM tokens WHERE hash = ?", _hash(secret))
        for user, role, seen_s, scopes in rows:
            if self._clock.now_s() - seen_s > SEEN_RESOLUTION_S:
                self._store_last_seen("UPDATE tokens SET seen_s = ? WHERE hash = ?", self._clock.now_s(), _hash(secret))
            return user, Role(role), _scopes(scopes)
        return None

    def remove_token(self, name: str, user: str) -> None:
        with self._transaction() as db:
            if not db.execute("DELETE FROM tokens WHERE name = ? AND user = ?", (name, user)).rowcount:
                raise UsageError(Message("{user} has no token {name!r}", user=user, name=name))

    def tokens(self) -> list[ApiToken]:
        rows = self._rows("SELECT name, user, role, made_s, seen_s, scopes FROM tokens ORDER BY made_s")
        found = []
        for name, user, role, made_s, seen_s, text in rows:
            scopes: list[str] = [scope for scope in TokenScope if scope in _scopes(text)]
            found.append(ApiToken(name, user, Role(role).word, iso_utc(made_s), _time(seen_s), scopes))
        return found

    # ---- audit log, and signing keys ---------------------------------------------------------------------------------

    def log_action(self, who: str, what: str, changes: Iterable[ChangeLine] = (), /, **detail: Any) -> None:
        """Add an action of a user, and the settings it changed, to the audit log."""
        text = json.dumps({**detail, **pack_changes(changes)}, default=str)
        with self._transaction() as db:
            values = (self._clock.now_s(), who, encoded(what), text)
            db.execute("INSERT INTO audit (time_s, who, what, detail) VALUES (?, ?, ?, ?)", values)
            db.execute("DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?", (limits.AUDIT_ROWS,))

    def logged_actions(self, n: int, before: int | None = None) -> list[tuple[int, AuditLine]]:
        """Return the last `n` entries of the audit log, newest first, each with its number."""
        sql = "SELECT seq, time_s, who, what, detail FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?"
        rows = self._rows(sql, before if before is not None else 1 << 62, n)
        return [
            (seq, AuditLine(time_s, who, decoded(what), json.loads(detail))) for seq, time_s, who, what, detail in rows
        ]

    def signing_key(self, name: str) -> bytes:
        """Return a signing key of this root; create it at the first call."""
        with self._transaction() as db:
            # Of two servers that start at once, the first one's key stays, and both read it.
            db.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", (name, secrets.token_bytes(32)))
            return bytes(db.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0])


SEEN_RESOLUTION_S = 60.0
"""Resolution of `seen_s`: the last visit of a user is written at most this often."""


def check_name(name: str) -> None:
    allowed = name.isprintable() and name == name.strip() and name.replace("-", "").replace("_", "").isalnum()
    if not allowed or not 1 <= len(name) <= limits.NAME_CHARS:
        raise UsageError(Message("a name must have 1 to {n} letters, digits, - and _", n=limits.NAME_CHARS), "name")


def check_password(password: str, field: str = "password") -> None:
    least, most = limits.PASSWORD_CHARS
    if not least <= len(password) <= most:
        raise UsageError(Message("a password must have {least} to {most:,} characters", least=least, most=most), field)


def _scopes(text: str) -> frozenset[TokenScope]:
    """Return the scopes stored for a token; unknown words are ignored, an empty text means all scopes."""
    return frozenset(scope for scope in TokenScope if scope in text.split()) if text else ALL_SCOPES


def _time(unix_s: float) -> str | None:
    return iso_utc(unix_s) if unix_s else None


def _hash(secret: str) -> bytes:
    # A fast hash is enough: these secrets are long and random, and cannot be guessed like passwords.
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _oldest_valid(now_s: float) -> tuple[float, float]:
    return now_s - limits.SESSION_IDLE_S, now_s - limits.SESSION_S


# ---- values of settings before and after a change --------------------------------------------------------------------
# A value may be a list of thousands of seeds. Of a long list, the log keeps the removed and the added items. Of any
# other long text, it keeps the part that differs, with some context. A part that is still too long is cut and ends with
# the number of omitted items or characters: `… +120`.

VALUE_CHARS, LIST_CHARS, CONTEXT_CHARS = 500, 4_000, 60


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One setting with its value before and after a change, made or proposed."""

    key: str
    before: str
    after: str

    def excerpts(self) -> tuple[str, str]:
        """Return both values; of long ones, only the parts that differ."""
        if max(len(self.before), len(self.after)) <= VALUE_CHARS:
            return self.before, self.after
        # Both are empty for a list that was only reordered, and for values that are no lists.
        gone, new = _removed_and_added(_items(self.before), _items(self.after))
        if gone or new:
            return _format_items(gone), _format_items(new)
        return _differing_parts(self.before, self.after)


def pack_changes(changes: Iterable[ChangeLine]) -> dict[str, tuple[str, str]]:
    """Return the excerpts before and after each change, by key."""
    return {each.key: each.excerpts() for each in changes}


def unpack_changes(detail: Mapping[str, Any]) -> tuple[list[ChangeLine], dict[str, str]]:
    """Split a log entry into its changes and its other details; entries of old logs have only details."""
    changes = [ChangeLine(key, *map(str, value)) for key, value in detail.items() if _is_pair(value)]
    return changes, {key: str(value) for key, value in detail.items() if not _is_pair(value)}


def _is_pair(value: object) -> bool:
    # `pack_changes` makes tuples, which JSON returns as lists; all other details are texts and numbers.
    return isinstance(value, list) and len(value) == 2


def _items(text: str) -> list[str]:
    """Return the items of a list as TOML values; empty if the text is not a list."""
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [toml_value(item) for item in value] if isinstance(value, list) else []


def _removed_and_added(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Return the removed and the added items."""
    gone, new = Counter(before), Counter(after)
    return list((gone - new).elements()), list((new - gone).elements())


def _format_items(items: list[str]) -> str:
    ends = accumulate(len(item) for item in items)
    fitting = max(1, sum(1 for end in ends if end <= LIST_CHARS))
    shown, left = [_cut(item, LIST_CHARS) for item in items[:fitting]], len(items) - fitting
    return f"[{', '.join(['…', *shown, *([f'… +{left}'] if left > 0 else [])])}]"


def _differing_parts(before: str, after: str) -> tuple[str, str]:
    first = _common_prefix_length(before, after)
    # Without the common beginning, so that the two equal parts cannot overlap.
    last = _common_prefix_length(before[first:][::-1], after[first:][::-1])
    begin, end_cut = max(first - CONTEXT_CHARS, 0), max(last - CONTEXT_CHARS, 0)
    left, right = "…" if begin else "", "…" if end_cut else ""
    both = [_cut(text[begin : len(text) - end_cut], VALUE_CHARS) for text in (before, after)]
    return f"{left}{both[0]}{right}", f"{left}{both[1]}{right}"


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… +{len(text) - most}"
