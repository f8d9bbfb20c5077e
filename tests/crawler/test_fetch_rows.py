"""Rows of the fetch log on their way to files: a few wait with the frontier, and each is seen once at any instant."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from teia.crawler import commit, fetch_rows
from teia.crawler.commit import CommitGroup
from teia.crawler.fetch_rows import log_part, roll_out, write_log
from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import pending_log
from teia.store import parquet
from teia.store.fetchlog import FetchRow, log_files
from teia.store.root import open_root
from teia.store.sql import FetchLog
from teia.transfer.read_all import fetch_log
from tests.crawler.test_commit import NOW_S, Bench, found, host_in

AT_ONCE = 10


def row(number: int) -> FetchRow:
    return FetchRow(NOW_S + number, NOW_S + number + 0.5, f"http://a.test/{number}", "a.test", "a.test", "200", 200)


def add(cell: FrontierCell, *numbers: int) -> None:
    with cell.transaction():
        write_log(cell, map(row, numbers))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file hold ten rows, and a crawl move them when there are so many."""
    monkeypatch.setattr(fetch_rows, "ROLL_OUT_ROWS", AT_ONCE)
    monkeypatch.setattr(commit, "roll_out", partial(roll_out, at_least=AT_ONCE))


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite")
    yield opened
    opened.close()


def in_files(cell: FrontierCell, folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return [url for path in log_files(log_part(cell, folder)) for url in pq.read_table(path)["url"].to_pylist()]


def pending(cell: FrontierCell, folder: Path) -> list[str]:
    return [each.url for each in log_part(cell, folder).pending]


@pytest.mark.heavy
def test_a_crawl_that_goes_on_moves_its_rows_to_files(tmp_path: Path) -> None:
    """They all waited for the end of the crawl: every reader, and the end, held the requests of weeks in memory."""
    bench, url, most = Bench(tmp_path), f"http://{host_in(0)}/", 0
    root, frontier = open_root(tmp_path / "data"), bench.cells[0].frontier
    try:
        for number in range(35):
            bench.committer.commit(CommitGroup(seeds=[found(f"{url}{number}")]))
            bench.committer.commit(CommitGroup(visits=[bench.visit(f"{url}{number}")]))
            most = max(most, frontier.db.execute("SELECT count(*) FROM log").fetchone()[0])
            with fetch_log(root, "main") as log:
                (counted,) = log.query("SELECT count(*), count(DISTINCT url) FROM fetches").rows
                assert counted == (number + 1, number + 1)
        assert most < AT_ONCE
        assert len(list(bench.cells[0].folder.log.glob("*.parquet"))) == 3
        bench.committer.is_winding_up = True
        visits = [bench.visit(f"{url}{number}") for number in _queue(bench, url, AT_ONCE)]
        bench.committer.commit(CommitGroup(visits=visits))
        assert len(list(bench.cells[0].folder.log.glob("*.parquet"))) == 3, "a stop writes no file before its end"
    finally:
        bench.close()


def _queue(bench: Bench, url: str, number: int) -> range:
    numbers = range(100, 100 + number)
    bench.committer.commit(CommitGroup(seeds=[found(f"{url}{each}") for each in numbers]))
    return numbers


def test_many_rows_become_files_of_a_bounded_size(cell: FrontierCell, tmp_path: Path) -> None:
    """Folders of older versions have millions of rows that wait."""
    add(cell, *range(34))
    roll_out(cell, tmp_path, at_least=5)
    files = log_files(log_part(cell, tmp_path))
    assert [path.name for path in files] == [f"fetches-{number:08d}.parquet" for number in (1, 2, 3)]
    assert in_files(cell, tmp_path) == [row(number).url for number in range(30)]
    assert pending(cell, tmp_path) == [row(number).url for number in range(30, 34)]
    roll_out(cell, tmp_path, at_least=4)
    add(cell, 34)
    assert len(in_files(cell, tmp_path)) == 34
    assert pending(cell, tmp_path) == [row(34).url]


def test_rows_of_a_file_are_not_in_memory_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a cell were objects at once at the end of a crawl: up to 50,000 in each cell."""
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 4)
    read, converted = list[int](), list[int]()
    part_of = parquet._part_of

    def convert(rows: list[FetchRow]) -> object:
        converted.append(len(read))
        return part_of(rows)

    monkeypatch.setattr(parquet, "_part_of", convert)
    path = parquet.write_parquet(tmp_path, (read.append(number) or row(number) for number in range(10)), 1)
    assert converted == [4, 8, 10], "rows are read only once those before them are in columns"
    assert parquet.pq.read_table(path)["url"].to_pylist() == [row(number).url for number in range(10)]


def watch_conversions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Convert four rows at a time; return how many were decoded each time."""
    decoded, converted, decode, part_of = list[bytes](), list[int](), fetch_rows._decode, parquet._part_of
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr(fetch_rows, "_decode", lambda packed: decoded.append(packed) or decode(packed))
    monkeypatch.setattr(parquet, "_part_of", lambda rows: converted.append(len(decoded)) or part_of(rows))
    return converted


def test_waiting_rows_are_read_as_they_are_written(
    cell: FrontierCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a file were read into a list first: 50,000 of them, some 20 MB, in each of four cells at a time."""
    converted = watch_conversions(monkeypatch)
    monkeypatch.setattr(pending_log, "read", None)
    add(cell, *range(10))
    roll_out(cell, tmp_path, at_least=1)
    monkeypatch.undo()
    assert converted == [4, 8, 10]
    assert in_files(cell, tmp_path) == [row(number).url for number in range(10)]
    assert pending(cell, tmp_path) == []


@pytest.mark.heavy
def test_arrow_keeps_no_memory_for_the_next_file(tmp_path: Path) -> None:
    """It kept some 50 MB, and four times as much at the end of a crawl, where four cells wrote at the same time."""
    script = """
import sys
from pathlib import Path
from teia.store.fetchlog import FetchRow
from teia.store.parquet import write_parquet

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

def write(number, serial):
    urls = (f"http://h{each}.test/{each}" for each in range(number))
    write_parquet(Path(sys.argv[1]), (FetchRow(1.0, 2.0, url, url, url, "200", 200) for url in urls), serial)

write(10, 1)
before = resident_mb()
write(50_000, 2)
print(resident_mb() - before)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 30, done.stdout


def test_a_death_between_file_and_transaction_leaves_each_row_once(
    cell: FrontierCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = parquet.write_parquet

    def die(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    add(cell, *range(15))
    monkeypatch.setattr(parquet, "write_parquet", die)
    with pytest.raises(KeyboardInterrupt):
        roll_out(cell, tmp_path, AT_ONCE)
    assert (tmp_path / "fetches-00000001.parquet").exists()
    assert (in_files(cell, tmp_path), len(pending(cell, tmp_path))) == ([], 15)
    monkeypatch.setattr(parquet, "write_parquet", write)
    add(cell, 15)
    roll_out(cell, tmp_path, at_least=1)
    assert in_files(cell, tmp_path) == [row(number).url for number in range(16)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_reader_sees_each_row_once_whenever_rows_are_moved(
    cell: FrontierCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The rows were read before the number of the files: those that moved in between were there twice."""
    add(cell, *range(12))
    looks, next_serial = [0], pending_log.next_serial
    reader = FrontierCell(tmp_path / "frontier.sqlite", read_only=True)

    def look(frontier: FrontierCell) -> int:
        if frontier is reader:
            looks[0] += 1
            if looks[0] == at:
                roll_out(cell, tmp_path, AT_ONCE)
        return next_serial(frontier)

    monkeypatch.setattr(pending_log, "next_serial", look)
    part = log_part(reader, tmp_path)
    reader.close()
    seen = [each.url for each in part.pending]
    files = log_files(part)
    assert len(seen) + AT_ONCE * len(files) == 12
    assert len(files) == (at > 0)


def test_rows_that_wait_are_counted_by_their_numbers(cell: FrontierCell, tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(20):
        add(cell, *range(chance.randrange(8)))
        (number,) = cell.db.execute("SELECT count(*) FROM log").fetchone()
        assert pending_log.count(cell) == number
        roll_out(cell, tmp_path, at_least=chance.randrange(1, 20))


def test_rows_of_an_older_teia_are_read(cell: FrontierCell, tmp_path: Path) -> None:
    """They end before the numbers of images and e-mail addresses."""
    older = msgspec.msgpack.encode(tuple(row(1))[:-2])
    with cell.transaction():
        pending_log.append(cell, [older])
    (read,) = log_part(cell, tmp_path).pending
    assert read == row(1)


def test_rows_of_a_newer_teia_are_read_without_their_new_columns(cell: FrontierCell, tmp_path: Path) -> None:
    """While a cluster is upgraded node by node, an older node reads the log of a cell that a newer one wrote."""
    with cell.transaction():
        pending_log.append(cell, [msgspec.msgpack.encode((*row(1), "new", 7))])
    (read,) = log_part(cell, tmp_path).pending
    assert read == row(1)
    with cell.transaction():
        pending_log.append(cell, [msgspec.msgpack.encode(("damaged",))])
    with pytest.raises(CorruptFile, match="a row of its fetch log cannot be read"):
        list(log_part(cell, tmp_path).pending)
    with pytest.raises(CorruptFile, match="a row of its fetch log cannot be read"):
        roll_out(cell, tmp_path, at_least=1)


def test_pending_rows_of_a_query_are_not_objects_together(
    cell: FrontierCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of figures took 530 MB beside a crawl with 49,000 pending rows in each of four cells."""
    converted = watch_conversions(monkeypatch)
    add(cell, *range(10))
    parts = (log_part(cell, tmp_path) for _ in range(2))
    with FetchLog(parts) as log:
        assert converted == [4, 8, 10, 14, 18, 20]
        assert log.query("SELECT count(*), count(DISTINCT url) FROM fetches").rows == [(20, 10)]
