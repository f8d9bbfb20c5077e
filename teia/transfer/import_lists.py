"""Import of URL lists, and of the fetch log of another teia.

A list is text with one URL a line, or JSON lines as `teia export urls` writes them. A URL of a list waits to be
fetched, at its depth; one that failed for good or was excluded there (`state`, `outcome`) keeps that, so that a moved
collection does not try it all over. A URL that is known stays as it is.

Rows of a log are marked (`run` = IMPORTED_RUN): they are not requests of ours, and the politeness audit skips them. The
places of their records in the other archive are dropped.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from teia.crawler.commit import CommitGroup
from teia.crawler.fetch_rows import IMPORTED_RUN, as_stored, roll_out, write_log
from teia.durable import disk_errors
from teia.errors import CorruptFile
from teia.frontier.cell.rows import FoundUrl, tail_of
from teia.frontier.cell.schema import BY_LIST, BY_SEED, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.frontier.queue.retry import RetryVerdict
from teia.frontier.tables.pages import find_url_at
from teia.records import Outcome
from teia.store.fetchlog import FetchRow
from teia.store.parquet import is_readable, with_all_columns
from teia.transfer.import_data import ImportedVisit, ImportResult, Target, read_mark, write_mark
from teia.transfer.warc_captures import content_id
from teia.urls import MAX_REFERENCE_CHARS, from_user, key_of, split

BATCH = 2_000
MAX_DEPTH = 10_000
TIMES = ("started", "ended", "parsed", "committed")
REQUIRED = tuple(name for name in FetchRow._fields if name not in FetchRow._field_defaults)
LATEST_S = 253_402_300_800.0  # the year 10000
_FINAL = {"failed": STATE_FAILED, "excluded": STATE_EXCLUDED}
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True)
class UrlListLine:
    """One line of a list; `is_text` tells a list of somebody else from the URLs that a teia knew."""

    url: str
    depth: int = 0
    state: str = "queued"
    outcome: str = ""
    is_text: bool = False


# ---- URLs -----------------------------------------------------------------------------------------------------------


def read_urls(path: Path, done: ImportResult) -> Iterator[UrlListLine]:
    """Yield the URLs of a list; invalid lines are counted, empty ones and comments (#) skipped."""
    with disk_errors(path, "read"), path.open("rb") as file:
        number = 0
        # Bounded, so that a file without line ends does not fill the memory.
        while line := file.readline(2 * MAX_REFERENCE_CHARS):
            number += 1
            text = line.decode("utf-8", "replace").strip()
            if not text or text.startswith("#"):
                continue
            entry = _parse_line(text)
            if entry is None:
                done.refused += 1
                done.add_detail(f"{path} line {number}: not a URL: {text[:60]!r}")
            else:
                yield entry


def _parse_line(text: str) -> UrlListLine | None:
    if not text.startswith("{"):
        url = from_user(text)
        return None if url is None else UrlListLine(url, is_text=True)
    try:
        fields = json.loads(text)
        url, depth = from_user(fields["url"]), fields.get("depth") or 0
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # `type`, not `isinstance`: JSON's `true` is an int for Python.
    if url is None or type(depth) is not int or not 0 <= depth <= MAX_DEPTH:
        return None
    state, outcome = fields.get("state"), fields.get("outcome")
    is_final = isinstance(state, str) and state in _FINAL and isinstance(outcome, str) and _is_outcome(outcome)
    return UrlListLine(url, depth, state, outcome) if is_final else UrlListLine(url, depth)


def _is_outcome(text: str) -> bool:
    return text in _OUTCOMES or (len(text) == 3 and text.isascii() and text.isdigit())


def hosts_of_lists(files: Sequence[Path]) -> set[str]:
    ignored = ImportResult("")
    return {split(entry.url).host for path in files for entry in read_urls(path, ignored)}


def import_urls(target: Target, files: Sequence[Path], done: ImportResult) -> None:
    """Import lists. A repetition changes nothing, so no progress is stored."""
    for path in files:
        lines = read_urls(path, done)
        while batch := list(islice(lines, BATCH)):
            # A final state in the list must not undo a page that was fetched here.
            final = [
                _final_visit(target, each, path)
                for each in batch
                if each.state in _FINAL and _is_undecided(target, each.url)
            ]
            waiting = [_found(each) for each in batch if each.state not in _FINAL]
            done.urls_new += target.committer.commit(CommitGroup(list(final), seeds=waiting)).new_urls
            done.rows += len(batch)
        done.files += 1


def _found(entry: UrlListLine) -> FoundUrl:
    host = split(entry.url).host
    # BY_LIST tells a start URL of a list from a former seed of the collection, which needs a rule of the scope.
    by = (BY_SEED | BY_LIST if entry.depth == 0 else 0) | (BY_LIST if entry.is_text else 0)
    return FoundUrl(host, key_of(entry.url), tail_of(entry.url, host), entry.depth, 0, by=by)


def _is_undecided(target: Target, url: str) -> bool:
    """Tell whether a URL is undecided: it is not known, or it is queued."""
    host = split(url).host
    known = find_url_at(target.cell_for(host).frontier, host, key_of(url))
    return known is None or known.state == STATE_QUEUED


def _final_visit(target: Target, entry: UrlListLine, path: Path) -> ImportedVisit:
    return ImportedVisit(
        target.queue_for(split(entry.url).host),
        target.item_for(entry.url, entry.depth),
        outcome=entry.outcome,
        verdict=RetryVerdict(_FINAL[entry.state]),
        source=f"list:{path.name[:100]}",
    )


# ---- fetch log ------------------------------------------------------------------------------------------------------


def hosts_of_logs(files: Sequence[Path]) -> set[str]:
    return {
        row.host for path in files for batch in _read_log(path, ImportResult("")) for row in batch if row is not None
    }


def _read_log(path: Path, done: ImportResult) -> Iterator[list[FetchRow | None]]:
    """Yield the rows of a log in batches; rows without a value that each must have are counted, and None."""
    _check_log(path)
    position = 0
    with _log_errors(path), pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(BATCH):
            rows = with_all_columns(batch)
            # As whole microseconds: Python has no date for some of them.
            for number, column in enumerate(rows.schema):
                if pa.types.is_timestamp(column.type):
                    rows = rows.set_column(number, column.name, rows.column(number).cast(pa.int64()))
            yield [_row(row, path, number, done) for number, row in enumerate(rows.to_pylist(), position)]
            position += batch.num_rows


def _check_log(path: Path) -> None:
    if not is_readable(path):
        raise CorruptFile(path, "not a fetch log of this version; `teia export parquet` writes one")


@contextmanager
def _log_errors(path: Path) -> Iterator[None]:
    """Translate errors of a Parquet file; others wrote it, and any part of it may be of another form."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        raise CorruptFile(path, f"cannot be read as a fetch log: {str(error).partition(chr(10))[0]}") from error


def import_log(target: Target, files: Sequence[Path], done: ImportResult) -> None:
    """Import fetch logs that `teia export parquet` wrote, or that lie in the log folder of a cell."""
    for path in files:  # before the first one is imported
        _check_log(path)
    for path in files:
        source, position = content_id(path), 0
        for rows in _read_log(path, done):
            _import_rows(target, [row for row in rows if row is not None], source, position, done)
            position += len(rows)
        done.files += 1


def _import_rows(target: Target, rows: list[FetchRow], source: str, position: int, done: ImportResult) -> None:
    by_cell: dict[int, list[FetchRow]] = defaultdict(list)
    for row in rows:
        by_cell[target.cell_for(row.host).number].append(row)
    for number, cell_rows in by_cell.items():
        cell = target.cells[number]
        # A mark is the first row of the last batch that the cell has.
        if position <= read_mark(cell, source):
            done.skipped += len(cell_rows)
            continue
        with cell.frontier.transaction():
            write_log(cell.frontier, cell_rows)
            write_mark(cell, source, position)
        roll_out(cell.frontier, cell.folder.log)
        done.rows += len(cell_rows)


def _row(row: dict[str, Any], path: Path, number: int, done: ImportResult) -> FetchRow | None:
    values = {name: value for name, value in row.items() if value is not None}
    values |= {name: values[name] / 1e6 for name in TIMES if name in values}
    not_here: dict[str, Any] = {"run": IMPORTED_RUN, "warc_file": None, "warc_offset": None, "warc_length": None}
    if missing := [name for name in REQUIRED if name not in values]:
        problem = f"no value of {missing[0]}"
    elif any(not 0 <= values[name] < LATEST_S for name in TIMES if name in values):
        problem = "a time that is no date"
    elif len(values["url"]) > MAX_REFERENCE_CHARS:
        problem = "its URL is too long"
    elif not values["host"].isprintable() or not values["host"].strip():
        problem = "a host that is no name"
    else:
        try:
            # A row that readers cannot decode would make the log of the whole cell unreadable.
            return as_stored(FetchRow(**{**values, **not_here}))
        except ValueError as error:
            problem = str(error)
    done.refused += 1
    done.add_detail(f"{path} row {number}: {problem}")
    return None
