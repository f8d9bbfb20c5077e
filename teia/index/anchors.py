"""Anchor texts of links to a cell's pages, stored beside its index (F7: users search a page by others' names for it).

A text counts once for each linking host, so that a menu on ten thousand pages of a site is one vote. Only a few texts
of one host, and a limited number of one page, are stored: more would not change the page's topic. Most links repeat
those of other pages of their site, so the texts of recent targets are in memory too.

A page must be indexed again for new words to be found with it, which costs as much as indexing it the first time. So
that happens when the number of its texts has doubled, and for the others when there is nothing else to do
(`due_pages(everything=True)`); the list of due pages is on disk, and survives a crash. It has a number for the words
that a page is indexed with: a page whose new texts bring no new words (cell.py) need not be indexed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from sys import getsizeof

import xxhash

from teia.durable import disk_errors
from teia.sqlite import open_derived, sync_log, transaction

MAX_TEXTS = 64
MAX_TEXTS_PER_HOST = 3
MAX_TEXT_CHARS = 200
MEMORY_BYTES = 32 << 20
"""Bytes of texts in memory, at most; the cells of one collection share them."""

HOST_BYTES, TARGET_BYTES = 450, 200
"""Memory that a host takes, and one of its targets beside its texts, at most."""

AT_ONCE = 500
"""Targets of one statement."""

NO_WORDS = 0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS anchors (
    target INTEGER NOT NULL, host INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (target, host, text)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS targets (
    target INTEGER PRIMARY KEY, texts INTEGER NOT NULL, indexed INTEGER NOT NULL DEFAULT 0,
    words INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS due ON targets (target) WHERE texts > indexed;
"""

# One statement for many targets: a page of a new site names a hundred, and the statements took longer than the rows.
_SOME = "target IN (SELECT value FROM json_each(?))"
_OF_HOST = f"SELECT target, text FROM anchors WHERE {_SOME} AND host = ?"  # noqa: S608  # our own text
_TEXTS = f"SELECT target, text FROM anchors WHERE {_SOME} ORDER BY target, text, host"  # noqa: S608
_COUNTS = f"SELECT target, texts FROM targets WHERE {_SOME}"  # noqa: S608
_COUNT = "INSERT INTO targets (target, texts) VALUES (?, ?) ON CONFLICT DO UPDATE SET texts = texts + excluded.texts"

TargetText = tuple[int, str]
"""(key of the page linked to, the words on the link)"""


class AnchorTexts:
    """The anchor texts of one cell. One writer; any thread may call `texts_of`."""

    def __init__(self, path: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        with disk_errors(path, "opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._db = path, open_derived(path, _SCHEMA)
        self._remembered: dict[int, dict[int, Sequence[str] | None]] = {}
        """By host: its texts for recent targets; None where it can add none."""

        self._remembered_bytes = 0
        self.memory_bytes = memory_bytes

    def add(self, host: str, links: Iterable[TargetText]) -> None:
        """Add the links that pages of one host have to pages of this cell."""
        host_hash = _hash_host(host)
        texts_of = self._remembered.get(host_hash, {})
        cleaned = {(target, text[:MAX_TEXT_CHARS]) for target, text in links if text}
        new = [
            (target, text)
            for target, text in cleaned
            if (known := texts_of.get(target, ())) is not None and text not in known
        ]
        if not new:
            return
        with transaction(self._db):
            # Sorted: which texts are stored does not depend on the order of a set.
            groups = ((target, [text for _, text in each]) for target, each in groupby(sorted(new), key=itemgetter(0)))
            while named := dict(islice(groups, AT_ONCE)):
                for target, texts in self._add_texts(host_hash, named).items():
                    self._remember(host_hash, target, texts)

    def _remember(self, host_hash: int, target: int, texts: Sequence[str] | None) -> None:
        texts_bytes = sum(map(getsizeof, texts or ()))
        if self._remembered_bytes + HOST_BYTES + TARGET_BYTES + texts_bytes > self.memory_bytes:
            self._remembered, self._remembered_bytes = {}, 0
        if host_hash not in self._remembered:
            self._remembered[host_hash] = {}
            self._remembered_bytes += HOST_BYTES
        self._remembered[host_hash][target] = texts
        # A target that gets another text counts again: the sum is never too small.
        self._remembered_bytes += TARGET_BYTES + texts_bytes

    def _add_texts(self, host_hash: int, named: Mapping[int, Sequence[str]]) -> dict[int, Sequence[str] | None]:
        """Store new texts by target; return all texts of this host for each, or None where it can add none."""
        keys = str(list(named))  # JSON, because they are integers
        known_of: dict[int, list[str]] = {target: [] for target in named}
        for target, text in self._db.execute(_OF_HOST, (keys, host_hash)):
            known_of[target].append(text)
        count_of: dict[int, int] = dict(self._db.execute(_COUNTS, (keys,)))
        found = dict[int, Sequence[str] | None]()
        added = dict[int, Sequence[str]]()
        for target, texts in named.items():
            # The limits of host and page are applied in this order, so one host cannot fill a page's list.
            known = known_of[target]
            new = [text for text in texts if text not in known][: MAX_TEXTS_PER_HOST - len(known)]
            if not new:
                found[target] = None if len(known) >= MAX_TEXTS_PER_HOST else known
                continue
            added[target] = new[: max(0, MAX_TEXTS - count_of.get(target, 0))]
            stored = [*known, *added[target]]
            is_full = len(stored) >= MAX_TEXTS_PER_HOST or len(added[target]) < len(new)
            found[target] = None if is_full else stored
        rows = ((target, host_hash, text) for target, texts in added.items() for text in texts)
        self._db.executemany("INSERT OR IGNORE INTO anchors VALUES (?, ?, ?)", rows)
        self._db.executemany(_COUNT, ((target, len(texts)) for target, texts in added.items()))
        return found

    def texts_of(self, targets: Iterable[int]) -> dict[int, list[str]]:
        """Return the texts of links to each of some pages, each repeated by its number of hosts, in a stable order."""
        found: dict[int, list[str]] = {target: [] for target in targets}
        for target, text in self._db.execute(_TEXTS, (str(list(found)),)):
            found[target].append(text)
        return found

    def due_pages(self, limit: int, *, everything: bool = False) -> dict[int, int]:
        """Return pages to index again, each with the number of the words that it is indexed with.

        These are pages whose texts have doubled, or with `everything` those with any new.
        """
        # Doubling bounds the work: a page with n texts is indexed again about log2(n) times.
        enough = "texts > indexed" if everything else "texts > indexed AND texts >= 2 * indexed"
        sql = f"SELECT target, words FROM targets WHERE {enough} LIMIT ?"  # noqa: S608  # our own text
        return dict(self._db.execute(sql, (limit,)))

    def mark_indexed(self, words: Mapping[int, int]) -> None:
        """Record that these pages are indexed with all their texts, by the number of the words; or not at all."""
        sql = "UPDATE targets SET indexed = texts, words = ? WHERE target = ?"
        with transaction(self._db):
            self._db.executemany(sql, ((number, key) for key, number in words.items()))

    def sync(self) -> None:
        """Make all that was added durable."""
        sync_log(self._path)

    def close(self) -> None:
        self._db.close()


def _hash_host(host: str) -> int:
    """Hash a host to eight octets: a collision would only make two hosts one vote."""
    number: int = xxhash.xxh3_64_intdigest(host.encode())
    # SQLite integers are signed.
    return number - (1 << 64) if number >= 1 << 63 else number
