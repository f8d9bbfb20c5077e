"""The index beside each closed WARC file: where the answers to a URL lie.

One line for each response and revisit, sorted by octets, in the form pywb and other replay tools read (a revisit has
the type `warc/revisit` and, by their convention, no status):

    com,example)/a 20240102030405 {"url": "http://example.com/a", "mime": "text/html", "status": "200", "digest":
    "sha256:…", "length": "1234", "offset": "567", "filename": "teia-….warc.gz"}                        (on one line)

It is derived from the WARC file alone, by reading it once (`write_index`), so it may be lost and made again. Sorting
spills runs to temporary files, so memory does not grow with the file.
"""

from __future__ import annotations

import heapq
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO

from teia.durable import disk_errors, replacing
from teia.store.archive import archive_files, index_path, serial_of
from teia.store.reader import ArchiveRecord, file_records, ignore_damage, split_head
from teia.store.surt import surt

RUN_LINES = 20_000
"""Lines sorted in memory at a time, about 10 MB."""

_STATUS = re.compile(rb"HTTP/[\d.]+ +(\d{3})", re.IGNORECASE)
_MEDIA_TYPE = re.compile(rb"^content-type:[ \t]*([!-~]+/[^\s;,]+)", re.IGNORECASE | re.MULTILINE)


def timestamp(unix_s: float) -> str:
    """Return a time as web archive indexes write it: fourteen digits, UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y%m%d%H%M%S")


def cdx_fields(record: ArchiveRecord) -> dict[str, str] | None:
    """Return the fields of a response or revisit in the index; None for other records."""
    if record.kind not in {"response", "revisit"}:
        return None
    head = split_head(record.block)[0]
    status, media_type = _STATUS.match(head), _MEDIA_TYPE.search(head)
    # "unk" is the CDX convention for an answer without a Content-Type.
    mime = media_type[1].decode("ascii", "replace").lower() if media_type else "unk"
    is_revisit = record.kind == "revisit"
    return {
        "url": record.url,
        "mime": "warc/revisit" if is_revisit else mime,
        "status": status[1].decode() if status and not is_revisit else "-",
        # CDX files name SHA-1 digests without their algorithm; pywb's own indexer does the same.
        "digest": record.headers.get("warc-payload-digest", "-").removeprefix("sha1:"),
        "length": str(record.length),
        "offset": str(record.offset),
        "filename": record.file,
    }


def cdxj_line(record: ArchiveRecord) -> bytes | None:
    """Return the line of a response or revisit, line end included; None for other records."""
    fields = cdx_fields(record)
    if fields is None:
        return None
    return f"{surt(record.url)} {timestamp(record.time_s)} {json.dumps(fields)}\n".encode()


def index_lines(warc: Path, run_lines: int = RUN_LINES) -> Iterator[bytes]:
    """Yield the sorted lines of one WARC file. Damaged records have none; finding those is the audit's work."""
    return _sorted_records(file_records(warc, ignore_damage), run_lines)


def _sorted_records(records: Iterable[ArchiveRecord], run_lines: int) -> Iterator[bytes]:
    return sorted_lines((line for record in records if (line := cdxj_line(record)) is not None), run_lines)


def write_index(warc: Path, records: Iterable[ArchiveRecord] | None = None) -> Path:
    """Write the CDXJ file of a closed WARC file beside it, whole or not at all; return its path.

    `records` are all of its records, if the caller reads them for another purpose too.
    """
    path = index_path(warc)
    with replacing(path) as file:
        file.writelines(index_lines(warc) if records is None else _sorted_records(records, RUN_LINES))
    return path


def unindexed_files(folder: Path, open_file: str) -> list[Path]:
    """Return the closed WARC files of a folder that have no CDXJ beside them.

    `open_file` was open when the caller looked; the writer may have begun the next one since. So no file from it on
    counts as closed: an index is written once, and that of a file that still grows would stay incomplete.
    """
    first_open = serial_of(open_file) or 0
    with disk_errors(folder, "read"):
        return [
            path
            for path in archive_files(folder)
            if ((serial := serial_of(path.name)) is None or serial < first_open)
            and path.name != open_file
            and not index_path(path).exists()
        ]


def merge_indexes(indexes: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of several CDXJ files in order, each line once: what an export of the whole collection is."""
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in indexes]
        last = b""
        for line in heapq.merge(*files):
            if line != last:
                yield line
            last = line


def sorted_lines(lines: Iterator[bytes], run_lines: int) -> Iterator[bytes]:
    """Sort more lines than should be held in memory: sorted runs in temporary files, then merged."""
    with ExitStack() as stack:
        # TemporaryFile has no name: a process that is killed leaves nothing to clean up.
        runs: list[IO[bytes]] = []
        while run := sorted(islice(lines, run_lines)):
            runs.append(stack.enter_context(tempfile.TemporaryFile()))
            runs[-1].writelines(run)
            runs[-1].seek(0)
        yield from heapq.merge(*runs)
