"""The tables of a cell's `frontier.sqlite`.

The slot leads every key, so that splitting a cell is copying a range. A host's rows lie together, a URL is found by
the 64-bit hash of its text. `tail` is what follows the host in a URL, with an `s` before it for https, so that the
name is stored once. Times are Unix seconds. `user_version` is the version of this file; another one is refused.

    urls    every URL ever seen: how deep it lies, how often it is linked to, what told us of it (`found_by`, the bits
            BY_…), what state it is in
    queue   the URLs that wait, two lanes a host: NEW by the collection's order, DUE by time (retries, revisits);
            `urls` holds each one's place too, so that it is found without a search through its host's queue
    pages   what the last visits of a URL found; validators, digests, where the copy lies
    visits  one row a visit: the history that change rates are learnt from
    log     rows of the fetch log not yet rolled out to Parquet
    outbox  links for other cells, until those have them; `inbox` is how far each sender was heard
"""

from __future__ import annotations

VERSION = 1

LANE_NEW = 0
LANE_DUE = 1

STATE_QUEUED = 0
STATE_DONE = 1
STATE_FAILED = 2
STATE_EXCLUDED = 3
STATE_NAMES = ("queued", "done", "failed", "excluded")

BY_LINK = 1
BY_SITEMAP = 2
BY_FEED = 4
BY_SEED = 8
BY_REDIRECT = 16
BY_REQUISITE = 32
"""Who told us of a URL; a URL keeps every bit it ever got, because coverage is estimated from the overlap (C9)."""

DDL = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE hosts (
    host_id INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,
    found_s REAL NOT NULL,
    requests INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    parked TEXT NOT NULL DEFAULT '',
    address TEXT NOT NULL DEFAULT '',
    response_s REAL NOT NULL DEFAULT 0
);
CREATE TABLE robots (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, origin TEXT NOT NULL,
    fetched_s REAL NOT NULL, outcome TEXT NOT NULL, status INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, origin)
) WITHOUT ROWID;
CREATE TABLE urls (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL,
    tail TEXT NOT NULL,
    depth INTEGER NOT NULL,
    in_links INTEGER NOT NULL,
    state INTEGER NOT NULL,
    found_s INTEGER NOT NULL,
    hops INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    lane INTEGER NOT NULL, rank INTEGER NOT NULL,
    found_by INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE queue (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, lane INTEGER NOT NULL, rank INTEGER NOT NULL, key INTEGER NOT NULL,
    PRIMARY KEY (slot, host_id, lane, rank, key)
) WITHOUT ROWID;
CREATE TABLE pages (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL,
    visits INTEGER NOT NULL, changes INTEGER NOT NULL,
    last_visit_s REAL NOT NULL, last_change_s REAL NOT NULL,
    status INTEGER NOT NULL,
    digest BLOB NOT NULL, text_digest BLOB NOT NULL, simhash INTEGER NOT NULL,
    media_type TEXT NOT NULL, language TEXT NOT NULL, title TEXT NOT NULL,
    etag TEXT NOT NULL, last_modified TEXT NOT NULL,
    redirect_to TEXT NOT NULL, canonical TEXT NOT NULL,
    noindex INTEGER NOT NULL, payload_digest TEXT NOT NULL,
    file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE visits (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, time_s REAL NOT NULL,
    outcome TEXT NOT NULL, digest BLOB NOT NULL, changed INTEGER,
    file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY (slot, host_id, key, time_s)
) WITHOUT ROWID;
CREATE TABLE log (seq INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE outbox (seq INTEGER PRIMARY KEY, to_cell INTEGER NOT NULL, bulk BLOB NOT NULL);
CREATE TABLE inbox (from_cell INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
"""

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -49152",
    "PRAGMA mmap_size = 0",
    "PRAGMA wal_autocheckpoint = 32000",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 10000",
)
