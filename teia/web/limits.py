"""Every limit of the web server, in one place."""

from __future__ import annotations

BODY_BYTES = 1 << 20
"""Of a request: the longest thing a person sends is a list of seeds."""
BODY_S = 20.0
"""To send it in."""
TARGET_BYTES = 16 << 10
SEARCH_TARGET_BYTES = 256 << 10
QUERY_CHARS = 2_000
"""Of an address; and of that of a search, for people paste whole texts. A page repeats so much of a query in its links,
and no more: a longer one is cut there."""
CONNECTIONS = 500

REQUESTS_AT_ONCE = 120
REQUESTS_PER_S = 30.0
"""Of one address: a bucket of so many, filled at this rate."""
ADDRESSES = 10_000
"""Whose buckets are remembered."""

SIGN_INS_AT_ONCE = 8
SIGN_INS_PER_S = 1 / 60
"""Attempts to sign in: of one address, and of all addresses for one name."""

PASSWORD_CHARS = (10, 1_000)
NAME_CHARS = 64
INVITATION_S = 600.0
SESSION_IDLE_S = 12 * 3600.0
SESSION_S = 30 * 86_400.0
SESSIONS = 10_000
TOKENS = 1_000
AUDIT_ROWS = 100_000

STREAMS_PER_SESSION = 4
STREAMS = 200
EVENT_S = 1.0
"""Between two events of a live page, at least."""

TOPIC_CHARS = 10_000
"""Of what a live page is about: a filter of URLs, each of whose characters may be written as twelve."""

RAW_S = 600.0
"""How long the address of a copy's frame is good for."""

RAW_AT_ONCE = 800
RAW_PER_S = 60.0
"""Requests for records of the archive: a copy has its pictures and style sheets."""

SQL_S = 5.0
SQL_ROWS = 10_000
SQL_AT_ONCE = 2
"""A question in SQL: how long it may take, how many rows it may have, how many are answered at a time."""

EXPORT_S = 900.0
EXPORT_GRACE_S = 60.0
EXPORTS_AT_ONCE = 2
"""All URLs that wait: how long they may take to be taken along, after how much more somebody who does not read the end
is cut off, and how many people may do so at a time."""

AUDIT_S = 12 * 3600.0
"""An audit that somebody asked for: terabytes are read in that time."""

LAB_S = 3_600.0
LAB_MEMORY_BYTES = 4 << 30
LAB_QUEUE = 8
"""A run of the lab: how long it may take, how much memory it may have, how many may wait."""
LAB_KEPT = 100
LAB_KEPT_S = 180 * 86_400.0
LAB_REPORT_BYTES = 8 << 20
"""Of runs that have ended: how many are kept and for how long, and how large a file of theirs may be."""
