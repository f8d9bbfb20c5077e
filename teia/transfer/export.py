"""Export of a collection for other programs: `teia export`.

An export reads only committed data, so it may run beside a crawl. It writes nothing into the data folder, not even an
index that could be cached there, and it replaces no file: an output file appears under its name when it is complete, or
not at all.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
from isal import igzip_lib

from teia.crawler.fetch_rows import log_part
from teia.crawler.lookup import Lookup
from teia.errors import DiskFull, StoreError, UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.store.archive import committed_files, index_path
from teia.store.cdxj import RUN_LINES, cdxj_line, merge_indexes, sorted_lines
from teia.store.erase import is_removed
from teia.store.fetchlog import log_files
from teia.store.parquet import SCHEMA, table_of, with_all_columns
from teia.store.reader import Member, file_records, ignore_damage, walk_file
from teia.store.root import Root
from teia.store.warc import COMPRESSION_LEVEL
from teia.transfer.read_all import committed_archive
from teia.views.links import edges


@dataclass(slots=True)
class ExportResult:
    """Result of an export; `damaged` counts places of the archive that cannot be read and were left out."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    damaged: int = 0


# ---- where it goes --------------------------------------------------------------------------------------------------


def check_target(root: Root, out: Path) -> None:
    """Refuse to write into a data folder, or over an existing file."""
    target = out.resolve()
    if target.is_relative_to(root.path.resolve()):
        raise UsageError(f"{out} is in the data folder, which may contain only teia's own files; choose another --out")
    # An empty folder may be the target of `export warc`.
    if target.is_dir() and not any(target.iterdir()):
        return
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out} exists and is not overwritten; remove it, or choose another --out")


@contextmanager
def new_file(out: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when the block succeeds; its parent folders are created."""
    temporary = out.with_name(f".{out.name}.tmp")
    with export_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(out)
        finally:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def export_errors(out: Path) -> Iterator[None]:
    """Translate a failed write into an error of one line."""
    try:
        yield
    # The reader of a pipe left early, which is no failure (cli/exits.py).
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise DiskFull(
                f"{out}: no space left on the disk for the export; free some space, or choose another --out"
            ) from error
        raise StoreError(f"{out}: cannot be written: {error.strerror or error}; choose another --out") from error


# ---- WARC -----------------------------------------------------------------------------------------------------------


def archive_files(root: Root, name: str) -> Iterator[tuple[Path, int | None]]:
    """Yield every archive file of a collection with the offset up to which it is committed (None: its end)."""
    for folder in root.collection(name).cells():
        yield from committed_files(folder.archive, committed_archive(folder))


def export_warc(root: Root, name: str, file: BinaryIO) -> ExportResult:
    """Write every readable record of a collection as one .warc.gz."""
    done = ExportResult(files=1)
    for path, end in archive_files(root, name):
        _copy_records(path, end, file, done)
    return done


def export_warc_folder(root: Root, name: str, out: Path) -> ExportResult:
    """Write the archive files of a collection into a folder, under their names."""
    done = ExportResult()
    with export_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    for path, end in archive_files(root, name):
        # Records are compressed on the way, so a plain `.warc` gets the name of a compressed file.
        target = out / path.name.removesuffix(".gz")
        with new_file(target.with_name(target.name + ".gz")) as file:
            # With them, so that `teia export cdxj` finds the others at their offsets.
            _copy_records(path, end, file, done, with_removed=True)
        done.files += 1
    return done


def _copy_records(
    path: Path, end: int | None, file: BinaryIO, done: ExportResult, *, with_removed: bool = False
) -> None:
    for member, data in readable_members(path, end, done):
        if not with_removed and is_removed(member.data):
            continue
        file.write(data)
        done.records += 1
        done.bytes += len(data)


def readable_members(path: Path, end: int | None, done: ExportResult) -> Iterator[tuple[Member, bytes]]:
    """Yield the readable members of a file as they are exported; those of an uncompressed one are compressed."""
    is_plain = path.name.endswith(".warc")
    with path.open("rb") as source:
        for member in walk_file(path, end):
            if member.damage:
                done.damaged += 1
            elif is_plain:
                yield member, igzip_lib.compress(member.data, COMPRESSION_LEVEL, igzip_lib.COMP_GZIP)
            else:
                # The stored bytes themselves: an export of our own files is identical to them.
                source.seek(member.offset)
                yield member, source.read(member.length)


# ---- CDXJ -----------------------------------------------------------------------------------------------------------


@contextmanager
def cdxj_lines(root: Root, name: str) -> Iterator[Iterator[bytes]]:
    """Open the CDXJ lines of a whole collection, in order. Missing indexes are made in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="teia-cdxj-") as folder:
        with export_errors(Path(folder)):
            indexes = [
                _cdxj_index(path, end, Path(folder) / f"{number}.cdxj")
                for number, (path, end) in enumerate(archive_files(root, name))
            ]
        yield merge_indexes(indexes)


def _cdxj_index(path: Path, end: int | None, temporary: Path) -> Path:
    index_file = index_path(path)
    # A file with an `end` may still be written; an index beside it would not match.
    if end is None and index_file.exists():
        return index_file
    lines = (line for record in file_records(path, ignore_damage, end) if (line := cdxj_line(record)) is not None)
    with temporary.open("wb") as file:
        file.writelines(sorted_lines(lines, RUN_LINES))
    return temporary


# ---- fetch log and graph --------------------------------------------------------------------------------------------


def export_log(root: Root, name: str, file: BinaryIO) -> ExportResult:
    """Write the fetch log of a collection as one Parquet file."""
    done = ExportResult(files=1)
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for folder in root.collection(name).cells():
            with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
                part = log_part(cell, folder.log)
            for path in log_files(part):
                with pq.ParquetFile(path) as parquet:
                    for batch in parquet.iter_batches():
                        writer.write_batch(with_all_columns(batch))
                        done.records += batch.num_rows
            # The newest rows are not in a file yet.
            pending = table_of(part.pending)
            if pending.num_rows:
                writer.write_table(pending)
                done.records += pending.num_rows
    return done


def graph_lines(root: Root, name: str) -> Iterator[bytes]:
    """Yield `source TAB target` lines, one for each link between pages."""
    with Lookup(root, name) as lookup:
        for source, target in edges(lookup):
            yield f"{source}\t{target}\n".encode()
