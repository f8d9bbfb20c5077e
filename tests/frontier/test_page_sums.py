"""Every flipped byte of a frontier is found, and no checksum is ever wrong, wherever a process dies."""

from __future__ import annotations

import gc
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from teia.errors import CorruptFile
from teia.frontier import log_mover, page_sums
from teia.frontier.cell import cell as cell_module
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.page_sums import damaged_pages, shrink_summed_log, sums_path
from teia.sqlite import log_bytes, move_log, shrink_log

PAGE = 4_096


def write(cell: FrontierCell, chance: random.Random, rows: int = 60) -> None:
    with cell.transaction():
        cell.set_meta({f"row {chance.randrange(400)}": chance.randbytes(chance.randrange(900)) for _ in range(rows)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A frontier with some megabytes' worth of commits, closed."""
    with closing(FrontierCell(tmp_path / "frontier.sqlite")) as cell:
        for turn in range(12):
            write(cell, random.Random(turn))
    return tmp_path / "frontier.sqlite"


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_every_single_flipped_byte_is_found(path: Path) -> None:
    """Of 60 flipped bytes 34 changed what a reader sees, and three were reported."""
    assert damaged_pages(path) == []
    chance, size = random.Random(24), path.stat().st_size
    for _ in range(200):
        at, bit = chance.randrange(100, size), chance.randrange(8)  # the header tells whether it is a database at all
        flip(path, at, bit)
        assert damaged_pages(path) == [1 + at // PAGE], at
        flip(path, at, bit)
    assert damaged_pages(path) == []


def test_a_damaged_frontier_is_named_with_the_ways_out(path: Path) -> None:
    flip(path, path.stat().st_size - 7, 3)
    with closing(FrontierCell(path, read_only=True)) as cell, pytest.raises(CorruptFile) as found:
        cell.check_pages()
    assert "do not match their checksums" in str(found.value)
    assert "teia audit frontier --accept" in str(found.value)


def test_a_frontier_without_checksums_gets_them_when_it_is_next_written(path: Path) -> None:
    sums_path(path).unlink()
    assert damaged_pages(path) == []
    FrontierCell(path).close()
    flip(path, 5 * PAGE + 99, 0)
    assert damaged_pages(path) == [6]


def test_checksums_follow_any_commits_and_a_reader_that_holds_the_log_back(tmp_path: Path) -> None:
    path, chance = tmp_path / "frontier.sqlite", random.Random(3)
    with closing(FrontierCell(path)) as cell:
        for turn in range(30):
            write(cell, chance, 20)
            if turn % 7 == 3:
                with closing(FrontierCell(path, read_only=True)) as reader:
                    reader.begin_snapshot()
                    write(cell, chance, 5)
                    cell.shrink_log()
            elif chance.random() < 0.4:
                cell.shrink_log()
            assert damaged_pages(path) == []
    assert log_bytes(path) == 0
    flip(path, path.stat().st_size // 2, 1)
    assert damaged_pages(path), "unknown pages are not checked"


def test_pages_of_a_log_that_a_reader_held_back_have_checksums_after_the_next_one(path: Path) -> None:
    """Their sums stayed unknown for ever, so a flipped byte in them went unnoticed."""
    with closing(FrontierCell(path)) as cell:
        write(cell, random.Random(1), 300)
        with closing(FrontierCell(path, read_only=True)) as reader:
            reader.begin_snapshot()
            cell.shrink_log()
            assert 0 in page_sums._sums_of(path)
        # The log begins anew, with other pages.
        with cell.transaction():
            cell.set_meta({"one": 1})
        cell.shrink_log()
        assert 0 not in page_sums._sums_of(path)
    assert damaged_pages(path) == []


def test_no_checksum_is_wrong_wherever_the_owner_dies(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files as they are before and after each step of a checkpoint, opened by another process."""
    images: list[Path] = []

    def keep() -> None:
        images.append(tmp_path / f"image{len(images)}")
        images[-1].mkdir()
        for file in tmp_path.glob("frontier.*"):
            shutil.copy(file, images[-1])

    def keeping(step: Callable[..., object]) -> Callable[..., object]:
        def around(*arguments: object, **options: object) -> object:
            keep()
            done = step(*arguments, **options)
            keep()
            return done

        return around

    monkeypatch.setattr(page_sums, "_write_sums", keeping(page_sums._write_sums))
    monkeypatch.setattr(page_sums, "shrink_log", keeping(shrink_log))
    with closing(FrontierCell(path)) as cell:
        write(cell, random.Random(99))
        cell.shrink_log()
    monkeypatch.undo()
    assert len(images) >= 6
    for image in images:
        copy = image / path.name
        assert damaged_pages(copy) == [], image
        FrontierCell(copy).close()
        assert damaged_pages(copy) == [], image
        flip(copy, 2 * PAGE, 5)
        assert damaged_pages(copy) == [3], image


def test_a_frontier_that_an_error_leaves_open_is_not_taken_for_damaged(path: Path, tmp_path: Path) -> None:
    """SQLite moves the log of a crash into the file when a connection that nobody closed is deleted."""
    (tmp_path / "crashed").mkdir()
    with closing(FrontierCell(path)) as cell:
        write(cell, random.Random(7))
        for each in (path.name, f"{path.name}-wal", sums_path(path).name):
            shutil.copy(tmp_path / each, tmp_path / "crashed" / each)
    crashed = tmp_path / "crashed" / path.name
    assert log_bytes(crashed) > 0
    cell = FrontierCell(crashed)
    del cell
    gc.collect()
    assert log_bytes(crashed) == 0
    assert damaged_pages(crashed) == []


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are moved from 300 kB on, and commits wait for that at 400 kB."""
    monkeypatch.setattr(log_mover, "MOVE_FROM_BYTES", 300_000)
    monkeypatch.setattr(log_mover, "MAX_LOG_BYTES", 400_000)
    monkeypatch.setattr(cell_module, "MAX_LOG_BYTES", 400_000)


@pytest.mark.usefixtures("small_logs")
def test_a_reader_that_holds_a_large_log_back_does_not_slow_every_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try to move the log reads all of it: 95 ms of a commit with a log of 157 MiB, and more with each one."""
    tries, path, chance = list[int](), tmp_path / "frontier.sqlite", random.Random(3)
    with closing(FrontierCell(path)) as cell, closing(FrontierCell(path, read_only=True)) as reader:

        def counted(*given: Any, **how: Any) -> page_sums.MovedFrames:
            tries.append(1)
            return shrink_summed_log(*given, **how)

        monkeypatch.setattr(log_mover, "shrink_summed_log", counted)
        reader.db.execute("BEGIN")
        reader.row("SELECT count(*) FROM urls")
        commits = 0
        while log_bytes(path) < 1_200_000:
            write(cell, chance, 3)
            commits += 1
        assert 2 <= len(tries) <= 8 < commits - 15
        reader.db.execute("ROLLBACK")
        while log_bytes(path) > 400_000:
            write(cell, chance, 3)
        assert len(tries) <= 10, "the first try after the reader has gone moves it"
    assert damaged_pages(path) == []


@pytest.mark.usefixtures("small_logs")
def test_commits_go_on_while_the_log_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that moved the log of a cell of ten million URLs took half a second."""
    path, chance, may_end, has_begun = tmp_path / "frontier.sqlite", random.Random(4), Event(), Event()

    def slow_move(db: sqlite3.Connection) -> tuple[int, int]:
        if current_thread() is not main_thread():
            has_begun.set()
            assert may_end.wait(30)
        return move_log(db)

    monkeypatch.setattr(page_sums, "move_log", slow_move)
    with closing(FrontierCell(path)) as cell:
        while not has_begun.is_set():
            write(cell, chance, 3)
            has_begun.wait(0.01 if cell._log._thread else 0)
        for turn in range(3):
            with cell.transaction():  # would wait for ever
                cell.set_meta({"turn": turn})
        may_end.set()
        cell._log.wait()
        # What was committed since it began is still in the log, and nowhere else.
        assert 0 < cell._log._last.moved < cell._log._last.seen
        assert damaged_pages(path) == []
        with closing(FrontierCell(path, read_only=True)) as reader:
            assert reader.meta("turn") == 2
        write(cell, chance, 3)
    assert damaged_pages(path) == []


@pytest.mark.usefixtures("small_logs")
def test_pages_committed_while_the_log_is_moved_have_right_checksums_wherever_the_owner_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mover reads the log before SQLite moves it: pages that are committed between the two must not be moved."""
    path, chance, images = tmp_path / "frontier.sqlite", random.Random(11), list[Path]()

    def move_and_keep(db: sqlite3.Connection) -> tuple[int, int]:
        is_beside = current_thread() is not main_thread()
        if is_beside:
            # Another connection commits: the same page again, and new ones.
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("PRAGMA wal_autocheckpoint = 0")
                number = len(images)
                other.execute("INSERT OR REPLACE INTO meta VALUES ('between', ?)", (bytes([number % 256]) * 3_000,))
        moved = move_log(db)
        if is_beside:
            images.append(tmp_path / f"image{len(images)}")
            images[-1].mkdir()
            for file in (path, sums_path(path)):
                shutil.copy(file, images[-1])
        return moved

    FrontierCell(path).close()
    monkeypatch.setattr(page_sums, "move_log", move_and_keep)
    with closing(FrontierCell(path)) as cell:
        for _ in range(120):
            with cell.transaction():
                cell.set_meta({f"row {chance.randrange(400)}": chance.randbytes(900) for _ in range(20)})
            if cell._log._thread is not None:
                cell._log._thread.join()  # no other writer while `other` writes
                assert damaged_pages(path) == []
    assert len(images) >= 3
    assert [image for image in images if damaged_pages(image / path.name)] == []
    assert damaged_pages(path) == []


@pytest.mark.usefixtures("small_logs")
def test_a_log_that_was_moved_is_written_over_and_loses_nothing(tmp_path: Path) -> None:
    """It was truncated, and grew again: blocks freed and allocated took a sixth of the time of links."""
    path, chance, sizes = tmp_path / "frontier.sqlite", random.Random(8), list[int]()
    with closing(FrontierCell(path)) as cell:
        for turn in range(80):
            with cell.transaction():
                cell.set_meta({f"row {chance.randrange(400)}": chance.randbytes(900) for _ in range(20)})
                cell.set_meta({"turn": turn})
            sizes.append(log_bytes(path))
            assert damaged_pages(path) == []
            if turn % 8 == 5:  # killed here
                if cell._log._thread is not None:
                    cell._log._thread.join()  # files are copied one after another
                (tmp_path / f"killed{turn}").mkdir()
                for each in (path.name, f"{path.name}-wal", sums_path(path).name):
                    if (tmp_path / each).exists():
                        shutil.copy(tmp_path / each, tmp_path / f"killed{turn}" / each)
                with closing(FrontierCell(tmp_path / f"killed{turn}" / path.name)) as killed:
                    assert killed.meta("turn") == turn
                    killed.check_pages()
                    assert killed.row("PRAGMA integrity_check") == ("ok",)
                assert damaged_pages(tmp_path / f"killed{turn}" / path.name) == []
        full = next(at for at, size in enumerate(sizes) if size > 400_000)
        assert min(sizes[full:]) == 400_000, "it keeps its size"
        assert max(sizes) < 300_000 + 3 * 150_000, "two commits at most are larger than the log should be"
    assert log_bytes(path) == 0


def test_pages_of_a_transaction_that_was_taken_back_leave_no_checksums(path: Path) -> None:
    """A large one is in the log before its end; its pages never come into the file."""
    with closing(FrontierCell(path)) as cell:
        write(cell, random.Random(2))
        cell.db.execute("PRAGMA cache_size = 5")
        size = log_bytes(path)
        with suppress(ZeroDivisionError), cell.transaction():
            cell.set_meta({f"row {number}": bytes(900) for number in range(400)})
            assert log_bytes(path) > size, "SQLite has written pages"
            raise ZeroDivisionError
        for keeps_file in (True, False):
            shrink_summed_log(cell.db, path, keeps_file=keeps_file)
            assert damaged_pages(path) == []
            assert 0 not in page_sums._sums_of(path)[: path.stat().st_size // PAGE]
    assert damaged_pages(path) == []


def test_checksums_that_cannot_be_written_are_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page_sums, "_write_sums", full)
    with closing(FrontierCell(path)) as cell:
        write(cell, random.Random(5))
        cell.shrink_log()
        assert log_bytes(path) == 0, "the log gives its space back all the same"
    monkeypatch.undo()
    assert damaged_pages(path) == []
