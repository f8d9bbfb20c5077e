"""Every limit of the web server, in one place."""

from __future__ import annotations

import os

BODY_BYTES = 1 << 20
"""Size of a request body: the longest one is a list of seeds."""
BODY_S = 20.0
"""Time to send a request body."""
TARGET_BYTES = 16 << 10
SEARCH_TARGET_BYTES = 256 << 10
QUERY_CHARS = 2_000
"""Size of a request target, and of a search's target, because users paste whole texts.

A page repeats at most `QUERY_CHARS` of a query in its links; a longer query is cut there.
"""
CONNECTIONS = 500
WAITING = 250
WAITING_PER_ADDRESS = 100
HEADER_S = 10.0
"""Limits of connections.

`CONNECTIONS` is the total. `WAITING` of them may be idle: without a request, or with a complete response that the
client does not read; `WAITING_PER_ADDRESS` is the same per client address. After `HEADER_S` an incomplete request, or a
complete response of which the client reads nothing, is cut off.
"""
STALLED_S = 60.0
"""Like `HEADER_S` for a response that is still being produced: a download that stalls this long is cut off."""
IN_FLIGHT_PER_ADDRESS = 240
"""Simultaneous requests of one address, live pages included."""

REQUESTS_AT_ONCE = 120
REQUESTS_PER_S = 30.0
"""Token bucket per address: its size and its refill rate."""
ADDRESSES = 10_000
"""Number of addresses whose buckets are remembered."""
REFUSED_S = 0.5
"""Time before a refusal is sent, because some clients send the next request at once."""
SEARCHES_PER_ADDRESS = max(1, len(os.sched_getaffinity(0)) // 2)
SEARCH_WAIT_S = 10.0
"""Simultaneous searches of one address, so that one client takes no more than half of several cores; its others wait.

Those that wait longer are refused.
"""

SIGN_INS_AT_ONCE = 8
SIGN_INS_PER_S = 1 / 60
"""Token buckets of sign-in attempts: per address, and per user name over all addresses."""

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
"""Least time between two events of a live page."""

TOPIC_CHARS = 10_000
"""Length of a live page's topic: a URL filter whose characters may each take up to twelve when escaped."""

RAW_S = 600.0
"""Lifetime of the signed address of a capture's frame."""

RAW_AT_ONCE = 800
RAW_PER_S = 60.0
"""Token bucket of requests for archive records: a capture loads its images and style sheets."""

CAPTURES_AT_ONCE = 2
CAPTURES_WAITING = 20
CAPTURE_WAIT_S = 5.0
"""Captures parsed at the same time, each taking up to some 150 MB; requests that may wait, and how long."""
PAST_WAITING = 4
PAST_WAIT_S = 5.0
"""Searches of the past that may wait for the one that is running, and how long: each reads captures again."""
CAPTURE_STREAMS = 48
CAPTURE_STREAM_S = 120.0
"""Captures being sent at the same time, each as long as a record, and the longest time for one."""

TRY_S = 3.0
"""Time for testing URLs against rules; the URLs left after it are reported as not tried."""

SQL_S = 5.0
SQL_ROWS = 10_000
SQL_ANSWER_BYTES = 16 << 20
SQL_MEMORY_BYTES = 512 << 20
SQL_AT_ONCE = 2
"""Limits of an SQL query: time, rows and bytes of the result, memory of its process, simultaneous queries."""

EXPORT_S = 900.0
EXPORT_GRACE_S = 60.0
EXPORTS_AT_ONCE = 2
"""Limits of an export of all waiting URLs.

The export itself, the further time before a client that does not read the end is cut off, and simultaneous exports.
"""

AUDIT_S = 12 * 3600.0
"""Time for a requested audit, enough to read terabytes."""

LAB_S = 3_600.0
LAB_MEMORY_BYTES = 4 << 30
LAB_QUEUE = 8
"""Limits of a lab run: time, memory, and waiting runs."""
LAB_MAX_RUNS = 100
LAB_MAX_AGE_S = 180 * 86_400.0
LAB_REPORT_BYTES = 8 << 20
"""Limits of stored lab runs: their number, their age, and the size of each file."""

URL_CHARS = 8_000
"""Most characters of a URL that a form or a query names."""
