"""A cell that is open: SQLite's log goes with the crawl, and is kept small while it runs, whoever reads meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.crawler.commit import TIDY_EVERY_S, CommitGroup
from teia.crawler.open_cell import CLOSE_WAIT_S, ErasureStopped, finish_erasures, plan_erasures, stored_records
from teia.frontier import log_mover
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.log_mover import MAX_LOG_BYTES
from teia.frontier.page_sums import MovedFrames, _sums_of, damaged_pages
from teia.frontier.queue.ledger import Ledger
from teia.frontier.tables.captures import captures_by_page, forget_captures
from teia.sqlite import LOG_BYTES, log_bytes
from teia.store.reader import ArchiveReader
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from tests.crawler.offline import offline_crawl
from tests.waiting import until

SEED = "http://a.test/"
WEB = {SEED: "".join(f'<a href="/{number}">{number}</a>' for number in range(20))}
ONE_CELL = {"collection__cells": 1}


def frontier_of(folder: Path) -> Path:
    return folder / "data" / "main" / "cells" / "00" / "frontier.sqlite"


def test_the_log_is_gone_after_a_crawl_though_somebody_has_the_cell_open(tmp_path: Path) -> None:
    """An indexer or a web server has: then nobody removes the log, and it stays as large as it was (70 MB)."""
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        reader = FrontierCell(frontier_of(tmp_path), read_only=True)
        crawl.run()
        assert log_bytes(frontier_of(tmp_path)) > 100_000
    with closing(reader):
        assert log_bytes(frontier_of(tmp_path)) == 0
        assert reader.db.execute("SELECT count(*) FROM urls WHERE state = 1").fetchone() == (21,)


@pytest.mark.heavy
def test_a_reader_of_an_older_state_holds_nobody_up_and_loses_nothing(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        reader = FrontierCell(frontier_of(tmp_path), read_only=True)
        reader.db.execute("BEGIN")
        assert reader.db.execute("SELECT count(*) FROM pages").fetchone() == (0,)
        crawl.run()
        began = time.monotonic()
    assert time.monotonic() - began < CLOSE_WAIT_S + 20
    with closing(reader):
        assert reader.db.execute("SELECT count(*) FROM pages").fetchone() == (0,)
    assert len(list(known_urls(open_root(tmp_path / "data"), "main"))) == 21
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        assert crawl.run() == []
    assert log_bytes(frontier_of(tmp_path)) == 0


def test_a_large_log_is_moved_while_the_crawl_goes_on_and_truncated_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.crawler.commit.LOG_BYTES", 100_000)
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
        path = frontier_of(tmp_path)
        size = log_bytes(path)
        assert size > 100_000
        (cell,) = crawl.crawl.committer.cells

        def after_a_minute() -> None:
            asyncio.run(crawl.clock.advance(TIDY_EVERY_S))
            crawl.crawl.committer.commit(CommitGroup())
            until(
                lambda: cell.frontier._log._thread is None or not cell.frontier._log._thread.is_alive(), "it is moved"
            )

        after_a_minute()  # a thread begins to move it
        assert log_bytes(path) == size
        assert damaged_pages(path) == []
        after_a_minute()  # the rest is moved
        assert damaged_pages(path) == []
        assert 0 not in _sums_of(path), "all checksums are known"
        after_a_minute()
        assert log_bytes(path) == 0


def test_no_commit_waits_for_a_log_that_is_large_and_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a minute a commit truncated the logs of all cells: half a second for 90 MiB."""
    path = tmp_path / "frontier.sqlite"
    moved_by = list[str]()
    move = log_mover.shrink_summed_log

    def watched(*arguments: Any, **options: Any) -> MovedFrames:
        moved_by.append(threading.current_thread().name)
        return move(*arguments, **options)

    monkeypatch.setattr(log_mover, "shrink_summed_log", watched)
    with closing(FrontierCell(path)) as cell:
        with cell.transaction():
            cell.db.executemany("INSERT INTO log (row) VALUES (?)", [(bytes(500),) for _ in range(4_000)])
        cell.tidy_log(1 << 20)
        cell._log.wait()
        assert moved_by == ["log"], "a thread has moved it"
        with cell.transaction():
            cell.db.execute("INSERT INTO log (row) VALUES (x'00')")
        cell.tidy_log(1 << 20)
        assert log_bytes(path) > 1 << 20, "the file stays, and is written over"
        assert damaged_pages(path) == []


def test_a_small_log_is_left_alone_while_the_crawl_goes_on(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
        asyncio.run(crawl.clock.advance(TIDY_EVERY_S))
        crawl.crawl.committer.commit(CommitGroup())
        assert 0 < log_bytes(frontier_of(tmp_path)) < LOG_BYTES


def test_a_reader_of_an_older_state_costs_no_checksum_of_a_log_that_was_moved(tmp_path: Path) -> None:
    """Each minute the log could not be truncated, and the checksums of its pages became unknown: damage went unseen."""
    path = tmp_path / "frontier.sqlite"
    with closing(FrontierCell(path)) as cell:
        with cell.transaction():
            cell.db.executemany("INSERT INTO log (row) VALUES (?)", [(bytes(500),) for _ in range(4_000)])
        with closing(FrontierCell(path, read_only=True)) as reader:
            reader.db.execute("BEGIN")
            assert reader.db.execute("SELECT count(*) FROM log").fetchone() == (4_000,)
            for _ in range(4):  # a thread moves it, the rest is moved, and it cannot be truncated, twice
                cell.tidy_log(1 << 20)
                if (thread := cell._log._thread) is not None:
                    thread.join()
            assert log_bytes(path) > 1 << 20
            assert 0 not in _sums_of(path)
        cell.tidy_log(1 << 20)
        assert log_bytes(path) == 0
        assert 0 not in _sums_of(path)
        assert damaged_pages(path) == []


@pytest.mark.parametrize(("cells", "kib"), [(1, 32_768), (8, 32_768), (64, 4_096)])
def test_the_caches_of_all_cells_are_limited_together(tmp_path: Path, cells: int, kib: int) -> None:
    """Each cell had 32 MiB, and a collection may have 1,024."""
    with offline_crawl({}, tmp_path, SEED, collection__cells=cells) as crawl:
        opened = [cell.frontier for cell in crawl.crawl.committer.cells]
        assert {each.db.execute("PRAGMA cache_size").fetchone() for each in opened} == {(-kib,)}
        opened[0].limit_cache(1)
        assert opened[0].db.execute("PRAGMA cache_size").fetchone() == (-256,)


def test_logs_of_all_databases_are_limited(tmp_path: Path) -> None:
    control, ledger = CrawlReports(tmp_path / "control.sqlite"), Ledger(tmp_path / "ledger.sqlite")
    frontier = FrontierCell(tmp_path / "frontier.sqlite")
    # That of a cell is written over while links come fast.
    for db, limit in ((control._db, LOG_BYTES), (ledger._db, LOG_BYTES), (frontier.db, MAX_LOG_BYTES)):
        assert db.execute("PRAGMA journal_size_limit").fetchone() == (limit,)
        db.close()


def test_the_next_crawl_finishes_a_removal(tmp_path: Path) -> None:
    web = {SEED: '<a href="/1">1</a>', f"{SEED}1": "one"}
    with offline_crawl(web, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
    (folder,) = open_root(tmp_path / "data").collection("main").cells()
    with closing(FrontierCell(folder.frontier)) as cell:
        records = stored_records(cell)
        row_key, (capture,) = max(captures_by_page(cell), key=lambda each: each[1][0].time_s)
        with cell.transaction():
            forget_captures(cell, [(row_key, capture.time_s)])
            plan_erasures(cell, [(capture.file, capture.offset)], "retention")
        assert cell.captures == 1
    assert len([each for each in ArchiveReader(folder.archive).records() if each.kind == "response"]) == 2
    with offline_crawl(web, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
        found = list(ArchiveReader(folder.archive).records())
    assert [each.url for each in found if each.kind == "response"] == [SEED]
    with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
        assert cell.meta("erasures") is None
        assert stored_records(cell) == records - 1 == len(found) - 1, "without the first record of the file"


def test_a_stop_ends_an_erasure_in_the_middle_of_a_file(tmp_path: Path) -> None:
    """A stop waits 30 s for the commit thread, and a file may be so large that its erasure takes minutes."""
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
    (folder,) = open_root(tmp_path / "data").collection("main").cells()
    with closing(FrontierCell(folder.frontier)) as cell:
        captures = {(row_key, each.time_s): each for row_key, found in captures_by_page(cell) for each in found[:1]}
        with cell.transaction():
            forget_captures(cell, captures)
            plan_erasures(cell, [(each.file, each.offset) for each in captures.values()], "retention")
        calls = count()
        with pytest.raises(ErasureStopped):
            finish_erasures(folder, WallClock(), cell, lambda: next(calls) > 10)
        assert next(calls) == 12
        assert finish_erasures(folder, WallClock(), cell).records >= len(captures)
        assert audit_archives(open_root(tmp_path / "data"), "main").details == ()
