"""The tables of a cell's `frontier.sqlite`.

The slot leads every key, so that splitting a cell is copying a range. A host's rows lie together, a URL is found by
the 64-bit hash of its text. `tail` is the part of a URL after the host, with an `s` before it for https, so that
the name is stored once. Times are Unix seconds. `user_version` is the version of this file. Version 3 differs in names
alone (`RENAMED`), versions 1 and 2 lack tables and columns; they are migrated when they are opened.

Rows of `urls` lie in the order in which they were found, with an index of their keys: a new link changes a page of the
short index, and shares the page of its row with others (docs/decisions/0076-rows-by-arrival.md). Cells that an earlier
version created have whole rows by their keys, and keep that.

    urls    every URL ever seen: its depth, number of in-links, sources (`found_by`, the bits BY_…) and state
    queue   the queued URLs, four lanes a host: NEW by the collection's order, DUE by time (retries), LATER for
            possible traps (frontier/traps/watch.py), REFRESH by time for known pages that are kept fresh
            (revisits.py); `urls` holds each one's place too, so that it is found without a search through its queue
    pages   the results of a URL's last visits: validators, digests, location of the capture. `change` numbers the
            pages in the order of their last changes, for the index to follow; `is_gone`: they left it
    visits  one row a visit; `comparison` is the result of comparing it with the one before (refresh/history.py)
    histories, host_histories  revisited pages: the data from which change rates are learnt, and the varying parts of
            their texts; the same of hosts, with the trust in their validators (histories.py)
    site_statements, statement_sources, signal_trust  sites' reports of their pages' changes, and the trust in them
            (site_statements.py)
    outlinks  the links of each page that are counted in `in_links` (in_link_counts.py)
    shorter_paths  pages whose links lie nearer to a seed than is recorded (shorter_paths.py)
    log     rows of the fetch log not yet rolled out to Parquet
    outbox  links for other cells, until those have them; `inbox` is the last number received from each sender
    probes  a host's answer for URLs that do not exist (soft404.py)
    samples, aliases  some pages of each host, and the names that are, or may be, one site (alias_evidence.py)
    patterns, text_hashes, spellings  the kinds of URLs of a host and their value (watch.py); a URL's `pattern` is
            negative as long as only pages of that pattern link to it
    renderings, rendered_pages  kinds of pages that are rendered by a browser or not, and the pages that were
            (frontier/tables/renderings.py)
    trails  only where the order is `focused`: the promise of the pages that link to a URL, and its own relevance;
            `rules` counts the kinds of pages that led to each kind
"""

from __future__ import annotations

from teia.frontier.cell.site_statements import TABLES
from teia.lib.message import Message
from teia.sqlite import Renamed, Schema

VERSION = 4
RENAMED: Renamed = {
    "manners": ("host_histories", {}),
    "nearer": ("shorter_paths", {}),
    "said": ("site_statements", {"said_s": "reported_s", "heard_s": "checked_s", "speaker": "source"}),
    "speakers": ("statement_sources", {}),
    "voices": ("signal_trust", {}),
    "visits": ("visits", {"saw": "comparison"}),
    "patterns": ("patterns", {"mother": "parent", "standing": "state", "doubt": "reason"}),
    "texts": ("text_hashes", {"text": "hash"}),
}
"""Names of tables and columns in version 3, with the present ones (docs/decisions/0042-stored-names.md)."""

# These numbers are stored; they do not say in which order lanes are read.
LANE_LATER = -2
LANE_NEW = 0
LANE_DUE = 1
LANE_REFRESH = 2

STATE_QUEUED = 0
STATE_DONE = 1
STATE_FAILED = 2
STATE_EXCLUDED = 3
STATE_NAMES = (Message("queued"), Message("done"), Message("failed"), Message("excluded"))

BY_LINK = 1
BY_SITEMAP = 2
BY_FEED = 4
BY_SEED = 8
BY_REDIRECT = 16
BY_REQUISITE = 32
BY_SIGNAL = 128
"""Source of a URL that a signal named: a cache request, or a notification."""

BY_LIST = 256
"""Source of a URL that a user's list named: URLs, or host names (`teia import urls`, `teia import hosts`)."""

FOUND_BY = {
    "link": BY_LINK, "sitemap": BY_SITEMAP, "feed": BY_FEED, "seed": BY_SEED, "redirect": BY_REDIRECT,
    "requisite": BY_REQUISITE, "signal": BY_SIGNAL, "list": BY_LIST,
}  # fmt: skip
"""Sources of a URL. A URL keeps every bit it ever got, because coverage is estimated from the overlap (C9)."""

AS_SITEMAP = 64
"""Additional bit: robots.txt or a sitemap index lists the URL as a sitemap, so it is read as one, text or XML."""

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
    pattern INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (slot, host_id, key)
);
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
    change INTEGER NOT NULL DEFAULT 0, is_gone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE INDEX pages_by_change ON pages (change);
CREATE TABLE visits (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, time_s REAL NOT NULL,
    outcome TEXT NOT NULL, digest BLOB NOT NULL, changed INTEGER,
    file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    comparison INTEGER,
    PRIMARY KEY (slot, host_id, key, time_s)
) WITHOUT ROWID;
CREATE TABLE histories (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, record BLOB NOT NULL, mask BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE host_histories (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, trust BLOB NOT NULL, mask BLOB NOT NULL,
    PRIMARY KEY (slot, host_id)
) WITHOUT ROWID;
CREATE TABLE shorter_paths (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE log (seq INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE outbox (seq INTEGER PRIMARY KEY, to_cell INTEGER NOT NULL, bulk BLOB NOT NULL);
CREATE TABLE inbox (from_cell INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE probes (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, url TEXT NOT NULL, time_s REAL NOT NULL, outcome TEXT NOT NULL,
    text_digest BLOB NOT NULL, simhash INTEGER NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (slot, host_id)
) WITHOUT ROWID;
CREATE TABLE samples (
    slot INTEGER NOT NULL, sample INTEGER NOT NULL, host TEXT NOT NULL,
    PRIMARY KEY (slot, sample)
) WITHOUT ROWID;
CREATE TABLE aliases (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, other TEXT NOT NULL, state INTEGER NOT NULL,
    since_s REAL NOT NULL, checked_s REAL NOT NULL, checking_s REAL NOT NULL, evidence BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, other)
) WITHOUT ROWID;
CREATE TABLE trails (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL,
    score INTEGER NOT NULL, off_topic INTEGER NOT NULL, via INTEGER NOT NULL,
    relevance INTEGER, kind INTEGER, depends INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE patterns (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    parent INTEGER NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL, credit REAL NOT NULL,
    acquittals INTEGER NOT NULL, convictions INTEGER NOT NULL, refused INTEGER NOT NULL, given_up INTEGER NOT NULL,
    counts BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, number)
) WITHOUT ROWID;
CREATE TABLE text_hashes (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, hash INTEGER NOT NULL, pattern INTEGER NOT NULL,
    PRIMARY KEY (slot, host_id, hash)
) WITHOUT ROWID;
CREATE TABLE spellings (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, plain INTEGER NOT NULL, key INTEGER NOT NULL,
    differs_in TEXT NOT NULL,
    PRIMARY KEY (slot, host_id, plain)
) WITHOUT ROWID;
CREATE TABLE rules (
    via INTEGER NOT NULL, kind INTEGER NOT NULL, seen INTEGER NOT NULL,
    PRIMARY KEY (via, kind)
) WITHOUT ROWID;
"""

OUTLINKS = """
CREATE TABLE IF NOT EXISTS outlinks (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, targets BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, key)
);
"""
"""Created where it is missing, so that older cells have it too.

A table with row numbers, unlike the others: its rows are long and keys are random, so that each row of a commit would
rewrite a page of its own; with row numbers, only pages of the short index are rewritten.
"""

RENDER_TABLES = """
CREATE TABLE IF NOT EXISTS renderings (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rendered_pages (
    slot INTEGER NOT NULL, host_id INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (slot, host_id, key)
) WITHOUT ROWID;
"""
"""Created where they are missing, as above (frontier/tables/renderings.py)."""

# A new cell stores counted links from its first page on; older cells lack this row.
DDL += "INSERT INTO meta VALUES ('outlinks', 1);\n"

NEXT_CHANGE = """
    INSERT INTO meta VALUES ('changes', 1) ON CONFLICT DO UPDATE SET value = value + 1;
    UPDATE pages SET change = (SELECT value FROM meta WHERE name = 'changes')
    WHERE slot = NEW.slot AND host_id = NEW.host_id AND key = NEW.key;
"""
DDL += f"""
CREATE TRIGGER page_is_new AFTER INSERT ON pages BEGIN {NEXT_CHANGE} END;
CREATE TRIGGER page_is_other AFTER UPDATE OF status, digest, noindex, is_gone ON pages
WHEN OLD.digest <> NEW.digest OR OLD.status <> NEW.status OR OLD.noindex <> NEW.noindex OR OLD.is_gone <> NEW.is_gone
BEGIN {NEXT_CHANGE} END;
CREATE TRIGGER page_is_gone AFTER UPDATE OF state ON urls WHEN NEW.state IN ({STATE_FAILED}, {STATE_EXCLUDED}) BEGIN
    UPDATE pages SET is_gone = 1 WHERE slot = NEW.slot AND host_id = NEW.host_id AND key = NEW.key AND NOT is_gone;
END;
CREATE TRIGGER page_is_back AFTER UPDATE OF state ON urls WHEN NEW.state = {STATE_DONE} BEGIN
    UPDATE pages SET is_gone = 0 WHERE slot = NEW.slot AND host_id = NEW.host_id AND key = NEW.key AND is_gone;
END;
"""  # noqa: S608  # only our own numbers
"""Triggers, because a page leaves the index for many reasons, and no writer should have to handle them."""

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # Each commit is synced before it returns: nothing counts before that.
    "PRAGMA synchronous = FULL",
    # In KiB: 32 MiB for each cell. With 24 or 48, links take the same time (docs/measured.md).
    "PRAGMA cache_size = -32768",
    # An I/O error in mapped memory kills the process; a plain read reports it.
    "PRAGMA mmap_size = 0",
    # The cell moves its log itself, with the checksums of the pages (page_sums.py).
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 10000",
)

NUMBERED_CHANGES = f"""
UPDATE pages SET is_gone = 1 WHERE EXISTS (
    SELECT 1 FROM urls AS u WHERE u.slot = pages.slot AND u.host_id = pages.host_id AND u.key = pages.key
    AND u.state IN ({STATE_FAILED}, {STATE_EXCLUDED})
);
UPDATE pages SET change = numbered.number FROM (
    SELECT slot, host_id, key, row_number() OVER (ORDER BY last_change_s, key) AS number FROM pages
) AS numbered WHERE (pages.slot, pages.host_id, pages.key) = (numbered.slot, numbered.host_id, numbered.key);
INSERT INTO meta SELECT 'changes', count(*) FROM pages;
"""  # noqa: S608  # only our own numbers
"""What the triggers would have written; version 1 had no search index, and so neither triggers nor their columns."""

SCHEMA = Schema(
    VERSION, DDL, PRAGMAS, TABLES + OUTLINKS + RENDER_TABLES, RENAMED, oldest=1, filled={1: NUMBERED_CHANGES}
)
