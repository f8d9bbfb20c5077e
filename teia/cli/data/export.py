"""`teia export`: the contents of a data folder in formats of other programs."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from teia.cli.long_work import archive_bytes, print_next, shown_work
from teia.cli.options import Collection, Data, open_collection
from teia.cli.output import progress_console
from teia.cli.progress import size
from teia.clock import WallClock
from teia.errors import UsageError
from teia.store.root import Root, open_root
from teia.transfer.export import (
    ExportResult,
    cdxj_lines,
    check_target,
    export_errors,
    export_log,
    export_warc,
    export_warc_folder,
    graph_lines,
    new_file,
)
from teia.transfer.export_wacz import export_wacz
from teia.transfer.read_all import known_urls

app = typer.Typer(help="Export data for other programs.", no_args_is_help=True)
Out = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="File or folder to write; standard output by default.")
]


@app.command()
def urls(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export all known URLs, one JSON object per line."""
    root, name = _open(data, collection, out)
    _write_lines((json.dumps(each).encode() + b"\n" for each in known_urls(root, name)), out)


@app.command()
def warc(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export the archive: as one file if PATH ends in .warc.gz, otherwise as a folder of WARC files.

    Example: teia export warc --data archive --out copy.warc.gz
    """
    root, name = _open(data, collection, out)
    with shown_work("exporting the archive", archive_bytes(root, name)):
        if out is not None and not out.name.endswith(".warc.gz"):
            done = export_warc_folder(root, name, out)
        else:
            with _open_binary(out) as file:
                done = export_warc(root, name, file)
    files = "FILE" if out is None else str(out) if out.name.endswith(".warc.gz") else f"{out}/*.warc.gz"
    _print_result(done, "records", out, f"teia import warc {files} --data OTHER, where you need it")


@app.command()
def wacz(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export the collection as one WACZ file, which ReplayWeb.page and other replay tools open.

    Example: teia export wacz --data archive --out archive.wacz
    """
    root, name = _open(data, collection, out)
    with shown_work("exporting the archive", archive_bytes(root, name)), _open_binary(out) as file:
        done = export_wacz(root, name, file, WallClock().now_s())
    _print_result(done, "records", out, f"open {out or 'the file'} with ReplayWeb.page")


@app.command()
def cdxj(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export the CDXJ index of the archive, sorted; its file names are those of `export warc` into a folder."""
    root, name = _open(data, collection, out)
    with cdxj_lines(root, name) as lines:
        _write_lines(lines, out)


@app.command()
def parquet(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export the fetch log, one row per request, as one Parquet file."""
    root, name = _open(data, collection, out)
    if out is not None:
        with new_file(out) as file:
            done = export_log(root, name, file)
    else:
        # Made as a whole first: an export that fails writes nothing to the pipe.
        with _open_binary(None) as file, tempfile.TemporaryFile() as whole:
            done = export_log(root, name, whole)
            whole.seek(0)
            shutil.copyfileobj(whole, file)
    _print_result(done, "rows", out, f"read {out or 'the file'} with DuckDB or pandas")


@app.command()
def graph(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Export the link graph, one `source TAB target` per line."""
    root, name = _open(data, collection, out)
    _write_lines(graph_lines(root, name), out)


def _open(data: Path, collection: str | None, out: Path | None) -> tuple[Root, str]:
    if out is not None:
        # Before anything is read: no existing file is overwritten.
        check_target(open_root(data), out)
    return open_collection(data, collection)


def _write_lines(lines: Iterable[bytes], out: Path | None) -> None:
    if out is not None:
        with new_file(out) as file:
            file.writelines(lines)
        return
    with export_errors(Path("standard output")):
        sys.stdout.buffer.writelines(lines)
        # Inside `export_errors`: a full disk behind a redirection may show only here.
        sys.stdout.buffer.flush()


@contextmanager
def _open_binary(out: Path | None) -> Iterator[BinaryIO]:
    """Open the file to write to; refuse to write binary data to a terminal."""
    if out is not None:
        with new_file(out) as file:
            yield file
        return
    if sys.stdout.isatty():
        raise UsageError("binary data is not written to a terminal; use --out PATH, or redirect the output with > or |")
    with export_errors(Path("standard output")):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _print_result(done: ExportResult, what: str, out: Path | None, next_step: str) -> None:
    written = f", {size(done.bytes)}" if done.bytes else ""
    progress_console().print(f"{done.records:,} {what}{written} written to {out or 'standard output'}", markup=False)
    if done.damaged:
        progress_console().print(f"{done.damaged:,} damaged records omitted; `teia audit archive` lists them")
        # A script must not take an incomplete export for a complete one.
        raise typer.Exit(1)
    print_next(next_step)
