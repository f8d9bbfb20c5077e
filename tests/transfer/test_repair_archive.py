"""A folder whose archive is shorter than its frontier says: refused, repaired, and whole again after a crawl."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from teia.cli.data.audit import app
from teia.clock import VirtualClock
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup
from teia.crawler.open_cell import stored_records
from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.store.reader import walk_file
from teia.store.root import Root, open_root
from teia.transfer.read_all import audit_archives, committed_archive, known_urls
from teia.transfer.repair_archive import RepairResult, repair
from tests.crawler.offline import NOW_S, offline_crawl

SEED = "http://a.test/"
WEB = {
    SEED: "".join(f'<a href="/{number}">{number}</a>' for number in range(6)),
    **{f"{SEED}{number}": f"<p>page {number} and words of its own, {number * 7}" for number in range(6)},
}
ONE_CELL = {"collection__cells": 1}


def crawled(folder: Path) -> Root:
    with offline_crawl(WEB, folder, SEED, **ONE_CELL) as crawl:
        assert set(crawl.run()) == set(WEB)
    return open_root(folder / "data")


def archive_of(root: Root) -> Path:
    """The only archive file there is."""
    (path,) = root.collection("main").cells()[0].archive.glob("*.warc.gz")
    return path


def cut(path: Path, records: int, torn_bytes: int = 0) -> None:
    """Leave so many whole records, and some bytes of the next."""
    members = list(walk_file(path))
    with path.open("r+b") as file:
        file.truncate(members[records].offset + torn_bytes)


def with_copies(root: Root) -> dict[str, bool]:
    """By URL that is done: whether its copy can be read."""
    found = {}
    with Lookup(root, "main") as lookup:
        for each in known_urls(root, "main"):
            if each["state"] == "done":
                found[each["url"]] = lookup.capture(each["url"]).status == 200
    return found


def assert_whole_after_a_crawl(folder: Path, root: Root, asked: set[str]) -> None:
    """Crawl again: exactly the lost pages are asked for, and then nothing is missing."""
    with offline_crawl(WEB, folder, SEED, **ONE_CELL) as crawl:
        assert set(crawl.run()) == asked
    assert with_copies(root) == dict.fromkeys(WEB, True)
    assert audit_archives(root, "main").violations == 0
    with offline_crawl(WEB, folder, SEED, **ONE_CELL) as crawl:
        assert crawl.run() == []


@pytest.mark.parametrize("torn_bytes", [0, 40])
def test_pages_behind_the_end_of_the_archive_are_fetched_again_and_no_others(tmp_path: Path, torn_bytes: int) -> None:
    root = crawled(tmp_path)
    path = archive_of(root)
    kept = list(walk_file(path))[:7]
    cut(path, len(kept), torn_bytes)
    with pytest.raises(CorruptFile, match="audit archive --repair"), offline_crawl(WEB, tmp_path, SEED, **ONE_CELL):
        pass
    with root.locked():
        done = repair(root, "main", VirtualClock(NOW_S))
    end = kept[-1].offset + kept[-1].length
    assert f"is complete up to {end:,}" in done.details[0]
    position = committed_archive(root.collection("main").cells()[0])
    assert position is not None
    assert (position.file, position.offset) == (path.name, end)
    waiting = {each["url"] for each in known_urls(root, "main") if each["state"] == "queued"}
    assert done == RepairResult(1, len(waiting), len(waiting), done.details)
    assert waiting
    assert with_copies(root) == {url: True for url in WEB if url not in waiting}
    cell = FrontierCell(root.collection("main").cells()[0].frontier, read_only=True)
    assert stored_records(cell) == len(kept) - 1
    cell.close()
    with fetch_log(root, "main") as log:
        rows = log.query("SELECT url, warc_file FROM fetches").rows
    assert {url for url, file in rows if file is None} == waiting
    assert_whole_after_a_crawl(tmp_path, root, waiting)


def test_an_archive_file_that_is_gone_is_gone_on_without(tmp_path: Path) -> None:
    root = crawled(tmp_path)
    archive_of(root).unlink()
    with root.locked():
        done = repair(root, "main", VirtualClock(NOW_S))
    assert done.urls == len(WEB)
    assert "nothing is left of it" in done.details[0]
    assert_whole_after_a_crawl(tmp_path, root, set(WEB))


def test_a_sound_folder_is_left_as_it_is(tmp_path: Path) -> None:
    root = crawled(tmp_path)
    before = list(known_urls(root, "main")), archive_of(root).read_bytes()
    with root.locked():
        assert repair(root, "main", VirtualClock(NOW_S)) == RepairResult()
    assert (list(known_urls(root, "main")), archive_of(root).read_bytes()) == before


def test_the_command_repairs_tells_and_audits(tmp_path: Path) -> None:
    root, run = crawled(tmp_path), CliRunner()
    cut(archive_of(root), 7)
    words = ["archive", "--data", str(root.path)]
    assert run.invoke(app, words).exit_code == 1
    repaired = run.invoke(app, [*words, "--repair"])
    assert repaired.exit_code == 0, repaired.output
    assert "URLs are queued again" in repaired.output
    assert "0 violations" in repaired.output
    again = run.invoke(app, [*words, "--repair"])
    assert "nothing to repair" in again.output
