"""Entries on their way from the crawler to the indexer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teia.index import handover
from teia.index.handover import Handover, HandoverReader


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "handover"


def test_what_was_written_is_there(folder: Path) -> None:
    crawler = Handover(folder)
    for change in range(1, 6):
        crawler.write(change, -change, b"page %d" % change)
    crawler.close()
    assert HandoverReader(folder).entries(2, 4) == {n: (-n, b"page %d" % n) for n in (2, 3, 4)}


def test_of_two_with_one_number_the_later_counts(folder: Path) -> None:
    """A commit failed, and the number was given to another page."""
    crawler = Handover(folder)
    crawler.write(1, 7, b"never committed")
    crawler.write(1, 8, b"committed")
    crawler.close()
    assert HandoverReader(folder).entries(1, 1) == {1: (8, b"committed")}


def test_a_frame_that_is_still_on_its_way_is_left(folder: Path) -> None:
    crawler = Handover(folder)
    crawler.write(1, 1, b"whole")
    crawler.write(2, 2, b"cut")
    crawler.close()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    waiting = HandoverReader(folder)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert set(waiting.entries(1, 9)) <= {1}
    path.write_bytes(whole)
    assert waiting.entries(1, 9) == {1: (1, b"whole"), 2: (2, b"cut")}


def test_files_go_when_the_index_has_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "FILE_BYTES", 100)
    crawler, waiting = Handover(folder), HandoverReader(folder)
    for change in range(1, 31):
        crawler.write(change, 0, b"x" * 30)
    crawler.flush()
    assert len(list(folder.iterdir())) == 15
    assert len(waiting.entries(1, 30)) == 30
    waiting.forget(10)
    assert len(list(folder.iterdir())) == 10
    assert set(waiting.entries(11, 30)) == set(range(11, 31))
    waiting.forget(30)
    assert len(list(folder.iterdir())) == 1, "the newest may still be written to"
    crawler.close()


def test_the_last_file_goes_when_the_crawl_has_ended_and_the_index_has_it(folder: Path) -> None:
    """Seen: sixteen megabytes stayed for ever in the folder of every crawl."""
    crawler, waiting = Handover(folder), HandoverReader(folder)
    for change in (1, 2, 3):
        crawler.write(change, change, b"entry")
    crawler.flush()
    waiting.forget(2, is_ended=True)
    assert set(waiting.entries(3, 3)) == {3}
    waiting.forget(3, is_ended=True)
    assert list(folder.iterdir()) == []
    # A crawler that still has the file open notices it, and writes to another.
    crawler.write(4, 4, b"lost")
    crawler.flush()
    crawler.write(5, 5, b"entry")
    crawler.close()
    assert set(waiting.entries(4, 5)) == {5}


def test_when_too_many_wait_none_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "FILE_BYTES", 100)
    crawler, waiting = Handover(folder, max_bytes=1_000), HandoverReader(folder)
    for change in range(1, 101):
        crawler.write(change, 0, b"x" * 80)
    crawler.flush()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_000
    assert set(waiting.entries(1, 100)) == set(range(1, 11))
    waiting.forget(100)
    for change in range(101, 102 + handover.CHECK_EVERY):
        crawler.write(change, 0, b"x" * 80)
    crawler.close()
    assert waiting.entries(101, 200), "there is room again"


def test_a_restarted_crawler_adds_to_what_waits(folder: Path) -> None:
    first = Handover(folder)
    first.write(1, 1, b"before")
    first.close()
    second = Handover(folder)
    second.write(2, 2, b"after")
    second.close()
    assert set(HandoverReader(folder).entries(1, 2)) == {1, 2}


def test_an_entry_is_read_once_however_many_wait_behind_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step read all entries of a file that waited: of 3,185 pages each was read 2.7 times."""
    crawler, waiting = Handover(folder), HandoverReader(folder)
    for change in range(1, 31):
        crawler.write(change, change, b"x" * 1_000)
    crawler.flush()
    read_bytes, pread = 0, os.pread

    def count(descriptor: int, length: int, at: int) -> bytes:
        nonlocal read_bytes
        read_bytes += length
        return pread(descriptor, length, at)

    monkeypatch.setattr(handover.os, "pread", count)
    for first in range(1, 31, 3):
        assert set(waiting.entries(first, first + 2)) == {first, first + 1, first + 2}
    (path,) = folder.iterdir()
    assert read_bytes == path.stat().st_size
    crawler.close()
