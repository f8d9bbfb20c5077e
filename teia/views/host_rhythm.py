"""Last requests to one host, from the end of its cell's fetch log: times, durations, sizes, and politeness.

Rows that are still in the frontier are read newest first; before them the last Parquet file, by its column of hosts
alone. Both are bounded, so that the view of a host costs the same after any amount of crawling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from teia.crawler.fetch_rows import with_serial
from teia.frontier.cell.cell import FrontierCell
from teia.store.fetchlog import FetchRow, LogPart, log_files
from teia.store.root import CellFolder

ROWS_LOOKED_AT = 20_000
KEPT = 2_000
TOLERANCE_S = 0.001
_decode = msgspec.msgpack.Decoder(FetchRow).decode


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `is_early`: the delay before it was shorter than politeness required."""

    time_s: float
    took_s: float
    outcome: str
    bytes: int
    is_early: bool


def last_requests(folder: CellFolder, frontier: FrontierCell, host: str) -> list[Asked]:
    """Return the last requests to a host, oldest first."""

    def read(serial: int) -> list[Asked]:
        found = list(_pending(frontier, host))
        return found if len(found) >= KEPT else found + _rolled_out(folder, serial, host)

    found, _ = with_serial(frontier, read)
    return sorted(found[:KEPT], key=lambda each: each.time_s)


def _pending(frontier: FrontierCell, host: str) -> Iterator[Asked]:
    sql = "SELECT row FROM (SELECT row FROM log ORDER BY seq DESC LIMIT ?) WHERE instr(row, ?)"
    for (blob,) in frontier.db.execute(sql, (ROWS_LOOKED_AT, host.encode())):  # only those are read that may be its
        row = _decode(blob)
        if row.host == host:
            yield asked(row.started, row.ended, row.outcome, row.bytes, row.rest_s, row.rested_s)


def _rolled_out(folder: CellFolder, serial: int, host: str) -> list[Asked]:
    files = log_files(LogPart(folder.log, serial))
    if not files:
        return []
    import pyarrow as pa  # only where something was rolled out
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = ["started", "ended", "outcome", "bytes", "rest_s", "rested_s"]
    with pq.ParquetFile(files[-1], read_dictionary=["host", "outcome"]) as file:
        table = file.read([*columns, "host"], use_threads=False)
    table = table.filter(pc.equal(table.column("host"), host))
    table = table.slice(max(0, len(table) - KEPT))
    since_1970 = pa.timestamp("us", "UTC")
    times = [table.column(name).cast(since_1970).cast(pa.int64()).to_pylist() for name in columns[:2]]
    others = [table.column(name).to_pylist() for name in columns[2:]]
    rows = [asked(began / 1e6, ended / 1e6, *rest) for began, ended, *rest in zip(*times, *others, strict=True)]
    return rows[::-1]


def asked(
    started_s: float, ended_s: float, outcome: str, size: int, rest_s: float | None, rested_s: float | None
) -> Asked:
    is_early = rest_s is not None and rested_s is not None and rested_s < rest_s - TOLERANCE_S
    return Asked(started_s, max(0.0, ended_s - started_s), outcome, size, is_early)


# ---- in bins --------------------------------------------------------------------------------------------------------

Bin = tuple[float, float, int]
"""(from, to, how many)"""

PER_DECADE = (1.0, 2.0, 5.0)


def log_bins(values: Iterable[float]) -> list[Bin]:
    """Count positive values in bins between 1, 2 and 5 of every power of ten; bins outside the values are left out."""
    found = np.fromiter(values, float)
    found = found[found > 0]
    if not len(found):
        return []
    decade = np.floor(np.log10(found))
    figures = found / 10.0**decade / (1 - 1e-12)
    steps = 3 * decade + np.clip(np.searchsorted(PER_DECADE, figures, "right") - 1, 0, None)
    counts = dict(zip(*(each.tolist() for each in np.unique(steps.astype(int), return_counts=True)), strict=True))
    return [(_edge(number), _edge(number + 1), counts.get(number, 0)) for number in range(min(counts), max(counts) + 1)]


def _edge(number: int) -> float:
    return float(f"{PER_DECADE[number % 3] * 10.0 ** (number // 3):.6g}")


def quantile(values: Sequence[float], part: float) -> float | None:
    """Return the quantile of the values; None if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
