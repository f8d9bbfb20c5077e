"""A cell that is open: SQLite's log goes with the crawl, and is kept small while it runs, whoever reads meanwhile."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from teia.collections.control_file import CrawlReports
from teia.crawler.commit import SHRINK_EVERY_S, CommitGroup
from teia.crawler.open_cell import CLOSE_WAIT_S
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.queue.ledger import Ledger
from teia.sqlite import LOG_BYTES, log_bytes
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from tests.crawler.offline import offline_crawl

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


def test_a_large_log_is_cut_while_the_crawl_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.crawler.commit.LOG_BYTES", 100_000)
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
        assert log_bytes(frontier_of(tmp_path)) > 100_000
        asyncio.run(crawl.clock.advance(SHRINK_EVERY_S))
        crawl.crawl.committer.commit(CommitGroup())
        assert log_bytes(frontier_of(tmp_path)) == 0


def test_a_small_log_is_left_alone_while_the_crawl_goes_on(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, SEED, **ONE_CELL) as crawl:
        crawl.run()
        asyncio.run(crawl.clock.advance(SHRINK_EVERY_S))
        crawl.crawl.committer.commit(CommitGroup())
        assert 0 < log_bytes(frontier_of(tmp_path)) < LOG_BYTES


def test_logs_of_all_databases_are_limited(tmp_path: Path) -> None:
    control, ledger = CrawlReports(tmp_path / "control.sqlite"), Ledger(tmp_path / "ledger.sqlite")
    frontier = FrontierCell(tmp_path / "frontier.sqlite")
    for db in (control._db, ledger._db, frontier.db):
        assert db.execute("PRAGMA journal_size_limit").fetchone() == (LOG_BYTES,)
        db.close()
