"""Import of access logs: requested pages are added to the collection, and weigh more (docs/signals.md).

The number of requests of each page is stored in `hits.txt` of the collection, lines of URL and hits; `refresh.weights`
= `hits` uses it. Hits of several logs add up. Parts that were imported before are not counted again: a mark of each log
is stored, the number of octets read and their digest, both after decompression. A log that begins with a marked part is
read from there on, so it may have grown, and been renamed or compressed since. Only pages in scope are stored, and
nothing of other sites.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from gzip import BadGzipFile
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from teia.crawler.commit import CommitGroup
from teia.crawler.compiled_settings import compile_settings
from teia.crawler.keep_fresh.weights import MARK, LogBeginning, hits_file, read_hits
from teia.durable import disk_errors, write_atomically
from teia.errors import UsageError
from teia.frontier.cell.rows import FoundUrl, tail_of
from teia.frontier.cell.schema import BY_SIGNAL
from teia.signals.accesslog import (
    MAX_LINE_BYTES,
    SAMPLED_LINES,
    Format,
    Hits,
    count_hits,
    detect_format,
    open_log,
    read_lines,
)
from teia.store.root import CollectionFolder
from teia.transfer.import_data import Target
from teia.urls import key_of, split

BATCH = 2_000
DEPTH = 1
"""Depth of a page that only a log names: as if it were one hop from a seed."""


@dataclass(slots=True)
class HitsImport:
    """Result of reading logs. `hits` are requests for pages in scope, `urls` the number of these pages.

    `skipped` are logs with nothing that was not read before, `empty` ones without a line.
    """

    collection: str
    files: int = 0
    lines: int = 0
    hits: int = 0
    urls: int = 0
    urls_new: int = 0
    out_of_scope: int = 0
    broken: int = 0
    not_pages: int = 0
    no_url: int = 0
    dropped: int = 0
    torn: int = 0
    skipped: int = 0
    empty: int = 0
    formats: dict[str, str] = field(default_factory=dict)


def import_hits(
    target: Target, folder: CollectionFolder, files: Sequence[Path], log_format: Format | None, site: str
) -> HitsImport:
    """Count the hits of logs, store those of pages in scope, and queue pages that are not known."""
    done = HitsImport(folder.name)
    compiled = compile_settings(target.config, folder.lists)
    path = hits_file(folder)
    stored_hits, marks = read_hits(path)
    found = Hits(Counter(), Counter())
    for file in files:
        chosen = log_format or _detect_format(file)
        if chosen is None:
            done.empty += 1
            continue
        known = _imported_bytes(file, marks)
        with disk_errors(file, "read"), open_log(file) as log:
            reader = _LogReader(log)
            # Counted by an earlier import; read for the digest alone.
            reader.read_to(known)
            count_hits(cast("BinaryIO", reader), chosen, found, site, queries=target.config.signals.queries)
        if known and reader.mark.size == known:
            done.skipped += 1
            continue
        done.formats[file.name] = chosen
        marks.append(reader.mark)
        done.files += 1
    in_scope = {url: hits for url, hits in found.urls.items() if compiled.wants_link(url, DEPTH, BY_SIGNAL)}
    done.out_of_scope = found.urls.total() - sum(in_scope.values())
    done.hits, done.urls = sum(in_scope.values()), len(in_scope)
    for name in ("lines", "broken", "not_pages", "no_url", "dropped", "torn"):
        setattr(done, name, found.lines[name])
    # First the pages, then hits and marks in one write: a death in between counts no hit twice.
    _discover(target, in_scope, done)
    stored_hits.update(in_scope)
    text = [
        *(f"{MARK}{mark.size} {mark.digest}" for mark in marks),
        *(f"{url} {number}" for url, number in sorted(stored_hits.items())),
    ]
    write_atomically(path, ("\n".join(text) + "\n").encode())
    return done


def _discover(target: Target, urls: dict[str, int], done: HitsImport) -> None:
    """Queue pages that were not known."""
    waiting = iter(urls)
    while batch := list(islice(waiting, BATCH)):
        seeds = [_found(url) for url in batch]
        done.urls_new += target.committer.commit(CommitGroup(seeds=seeds)).new_urls


def _found(url: str) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), DEPTH, in_links=0, by=BY_SIGNAL)


def _detect_format(path: Path) -> Format | None:
    """Detect the format of a log; None for one without a line, such as a log that was just created."""
    with disk_errors(path, "read"), open_log(path) as log:
        lines = [line for line in islice(read_lines(log, Counter()), SAMPLED_LINES) if line.strip()]
    if not lines:
        return None
    log_format = detect_format(lines)
    if log_format is None:
        raise UsageError(f"{path}: is neither a Squid log nor a combined or common log; set the format with --format")
    return log_format


class _LogReader:
    """A log read line by line, and the mark of the part read so far."""

    def __init__(self, log: BinaryIO) -> None:
        self._log = log
        self._size, self._digest = 0, sha256()

    def readline(self, size: int) -> bytes:
        line = self._log.readline(size)
        self._size += len(line)
        self._digest.update(line)
        return line

    def read_to(self, size: int) -> None:
        """Read so many octets from the beginning, or the whole log if it is shorter."""
        while self._size < size and self.readline(min(MAX_LINE_BYTES, size - self._size)):
            pass

    @property
    def mark(self) -> LogBeginning:
        return LogBeginning(self._size, self._digest.hexdigest()[:16])


def _imported_bytes(path: Path, marks: Sequence[LogBeginning]) -> int:
    """Return how much of a log was read before, under any name: its longest prefix that has a mark."""
    known = 0
    with disk_errors(path, "read"), open_log(path) as log, suppress(EOFError, zlib.error, BadGzipFile):
        reader = _LogReader(log)
        # Shortest first: one pass over the log checks all marks.
        for mark in sorted(marks):
            reader.read_to(mark.size)
            if reader.mark == mark:
                known = mark.size
    return known
