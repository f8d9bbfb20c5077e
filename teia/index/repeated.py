"""Lines that the pages of a host repeat: menus, breadcrumbs, notices about cookies, footers.

The indexer counts the lines at the beginning and the end of a host's first pages, and later of one page in 64. A line
that enough of these pages have is no part of what one page says, and snippets leave it out (search/show/content.py).
Counts are halved from time to time, so a site may change its layout. The file is derived from the archive and lies
beside the index of its cell.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from urllib.parse import quote
from zlib import crc32

from teia.index.entry import IndexEntry
from teia.sqlite import data_version, open_derived, sync_log, transaction

FILE = "repeated.sqlite"
FIRST_PAGES = 24
"""First pages of a host, all of which are counted."""

LATER_PAGES = 64
"""After the first pages, one in so many is counted."""

HALVED_AT = 128
"""Number of counted pages at which all counts are halved."""

MIN_PAGES = 3
SHARE = 16
"""A line is repeated if at least one in so many of the counted pages have it, and at least `MIN_PAGES`."""

HEAD_CHARS, TAIL_CHARS = 8_192, 4_096
MAX_LINES = 4_000
MAX_COUNT = 255
MAX_HOSTS = 1_000
"""Hosts whose repeated lines a search has in memory."""

MAX_COUNTED_LINES = 250_000
"""Lines whose counts the indexer of a cell has in memory, of all hosts together: some 20 MB."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS hosts (
    host TEXT PRIMARY KEY, pages INTEGER NOT NULL, lines BLOB NOT NULL, counts BLOB NOT NULL, keys BLOB NOT NULL
) WITHOUT ROWID;
"""

Lines = frozenset[int]
"""Numbers of lines (`number_of_line`)."""


def number_of_line(line: str) -> int:
    """Return a number that differs for nearly all other lines."""
    return crc32(line.encode("utf-8", "replace"))


def number_of_title(title: str) -> int:
    """Return the number of a title, which no line has."""
    return number_of_line(f"\0{title}")


def pack_lines(lines: Iterable[int]) -> bytes:
    return array("I", lines).tobytes()


def unpack_lines(octets: bytes) -> Lines:
    """Return packed lines; a rest that is no whole number is left out, because the octets may come from elsewhere."""
    return frozenset(memoryview(octets)[: len(octets) // 4 * 4].cast("I"))


def numbers_in(entry: IndexEntry) -> set[int]:
    """Return the numbers of a page's first and last lines, and of its title."""
    text = entry.text
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        # The two lines that are cut become lines that no other page has.
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    numbers = set(map(crc32, text.encode("utf-8", "replace").split(b"\n")))
    numbers.add(number_of_title(entry.title))
    return numbers


class _HostLines:
    """Counts of one host: of pages, and of the pages that have each line."""

    __slots__ = ("counts", "keys", "pages")

    def __init__(self, pages: int = 0, counts: Counter[int] | None = None, keys: Iterable[int] = ()) -> None:
        self.pages = pages
        self.counts: Counter[int] = Counter() if counts is None else counts
        self.keys = dict.fromkeys(keys)

    def takes(self, key: int) -> bool:
        """Tell whether a page is to be counted: a page that changes must not be counted as another one."""
        return (self.pages < FIRST_PAGES or key % LATER_PAGES == 0) and key not in self.keys

    def add(self, key: int, numbers: Iterable[int]) -> None:
        self.keys[key] = None
        self.pages += 1
        self.counts.update(numbers)
        if self.pages >= HALVED_AT:
            self.pages //= 2
            self.counts = Counter({line: count // 2 for line, count in self.counts.items() if count > 1})
            self.keys = dict.fromkeys(list(self.keys)[-HALVED_AT:])
        elif self.pages == FIRST_PAGES or len(self.counts) > MAX_LINES:
            self.counts = Counter({line: count for line, count in self.counts.items() if count > 1})

    def repeated(self) -> Lines:
        # Of three pages two are enough; one page cannot tell.
        needed = max(min(MIN_PAGES, 1 + self.pages // 2), self.pages // SHARE, 2)
        return frozenset(line for line, count in self.counts.items() if count >= needed)


class RepeatedLinesWriter:
    """The lines of one cell's hosts, counted; one writer."""

    def __init__(self, path: Path) -> None:
        self._path, self._db = path, open_derived(path, _SCHEMA)
        self._hosts: dict[str, _HostLines] = {}
        self._changed: set[str] = set()
        self._lines = 0

    def add(self, entry: IndexEntry) -> None:
        """Count the lines of a page, if it is one of those that are counted."""
        host = self._hosts.get(entry.host)
        if host is None:
            host = self._hosts[entry.host] = _read(self._db, entry.host) or _HostLines()
            self._lines += 1 + len(host.counts)
        if host.takes(entry.key):
            numbers = numbers_in(entry)
            host.add(entry.key, numbers)
            self._lines += len(numbers)
            self._changed.add(entry.host)
        if self._lines > MAX_COUNTED_LINES:
            self.flush()
            self._hosts.clear()
            self._lines = 0

    def flush(self) -> None:
        """Write the counts that changed."""
        if self._changed:
            with transaction(self._db):
                self._db.executemany(
                    "INSERT OR REPLACE INTO hosts VALUES (?, ?, ?, ?, ?)", map(self._row, self._changed)
                )
            self._changed.clear()

    def sync(self) -> None:
        """Make all that was added durable."""
        self.flush()
        sync_log(self._path)

    def _row(self, name: str) -> tuple[str, int, bytes, bytes, bytes]:
        host = self._hosts[name]
        counts = bytes(min(count, MAX_COUNT) for count in host.counts.values())
        return name, host.pages, pack_lines(host.counts), counts, array("q", host.keys).tobytes()

    def close(self) -> None:
        self._db.close()


class RepeatedLinesReader:
    """The lines that hosts of one cell repeat, while an indexer may be writing them; threads may share it.

    Without a file, or with a damaged one, no line is known to be repeated: a search works without it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._version = -1
        self._known: dict[str, Lines] = {}
        self._lock = Lock()

    def of(self, host: str) -> Lines:
        with self._lock:
            try:
                return self._of(host)
            except sqlite3.Error:
                return frozenset()

    def _of(self, host: str) -> Lines:
        if self._db is None:
            self._db = sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True, check_same_thread=False)
        version = data_version(self._db)
        if version != self._version or len(self._known) > MAX_HOSTS:
            self._known.clear()
            self._version = version
        if host not in self._known:
            found = _read(self._db, host)
            self._known[host] = frozenset() if found is None else found.repeated()
        return self._known[host]

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None


def _read(db: sqlite3.Connection, name: str) -> _HostLines | None:
    """Return the counts of a host; None if there are none, or damaged ones, which are counted anew."""
    row = db.execute("SELECT pages, lines, counts, keys FROM hosts WHERE host = ?", (name,)).fetchone()
    if row is None:
        return None
    pages, lines, counts, keys = row
    try:
        numbers = dict(zip(memoryview(lines).cast("I"), counts, strict=True))
        return _HostLines(int(pages), Counter(numbers), array("q", keys))
    except (TypeError, ValueError):
        return None
