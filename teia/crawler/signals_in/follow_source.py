"""Signal sources of other packages: programs that know which pages changed, from a queue, a log or a database.

A source is a function that takes the words of the command line and yields URLs, or pairs of a URL and the Unix time of
its change. It may wait, and need not end. Each URL goes into the collection's inbox at once. The crawler visits the
page sooner, unless such reports about its host have proved to be worthless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from teia.clock import Clock
from teia.crawler.signals_in.indexnow import SOURCE
from teia.signals.announce import Announcement, open_inbox
from teia.sqlite import sqlite_errors
from teia.urls import from_user

ReportedPage = str | tuple[str, float]


def follow_source(path: Path, reports: Iterable[ReportedPage], clock: Clock) -> Counter[str]:
    """Put the pages that a source reports into the inbox at `path`, until the source ends; return the counts."""
    counts: Counter[str] = Counter()
    with closing(open_inbox(path)) as inbox, sqlite_errors(path):
        for each in reports:
            text, reported_s = each if isinstance(each, tuple) else (each, clock.now_s())
            url = from_user(text)
            what = "malformed" if url is None else "received"
            if url is not None:
                # A source may report a time that has not come yet; nothing is known of the future.
                now_s = clock.now_s()
                inbox.put([Announcement(url, SOURCE, min(reported_s, now_s), now_s)])
            inbox.count(SOURCE, {what: 1})
            counts[what] += 1
    return counts
