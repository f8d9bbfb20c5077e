"""An index that lacks pages says so, and is mended: after a death, a deletion, a failed rebuild, damage."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tantivy
from msgspec.structs import replace

from teia.clock import WallClock
from teia.collections.index_state import read_index_state
from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisit_all import requeue_known
from teia.frontier.cell.schema import LANE_DUE, STATE_EXCLUDED, STATE_FAILED
from teia.index.anchors import MEMORY_BYTES
from teia.index.cell import CellIndex
from teia.index.position import META_FILE
from teia.index.schema import stemming_analyser
from teia.indexer.cell_indexer import BROKEN, CellIndexer, new_index_folder
from teia.indexer.keep_process import IndexerProcess, run_indexer
from teia.indexer.open_search import CollectionSearch
from teia.indexer.process import CollectionFollower, follow, indexing_lock
from teia.indexer.rebuild import audit_index, rebuild_index
from teia.indexer.repair_idle import IndexSupervisor
from teia.indexer.reread import Rereader
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.lib.entry_points import command_of
from teia.refresh.trust import Trust
from teia.store.archive import archive_path
from teia.store.root import CellFolder, CollectionFolder, Root, open_root
from teia.transfer.read_all import idle_account
from teia.urls import cell_starts, host_to_cell, key_of, site_of, slot_of
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html
from tests.waiting import until, until_async

PATHS = [f"/{number}" for number in range(8)]
WORD = "letter"


def web_of(**pages: Any) -> ScriptedWeb:
    found = {path: html("/", text=f"Page {path[1:]} speaks of a {WORD}.") for path in PATHS}
    return ScriptedWeb({"x.test": {"/": html(*PATHS, text=f"The first {WORD}.")} | found | pages})


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    return crawl_web(web_of(), tmp_path_factory.mktemp("once"), "x.test/")


@pytest.fixture
def crawled(once: Crawled, tmp_path: Path) -> Crawled:
    """Nine pages that were crawled and not indexed."""
    return dataclasses.replace(once, data=Path(shutil.copytree(once.data, tmp_path / "data")))


@pytest.fixture
def root(crawled: Crawled) -> Root:
    return open_root(crawled.data)


def work(root: Root, action: Callable[[CollectionFollower], Awaitable[None]] = CollectionFollower.finish) -> int:
    """Let an indexer do something; returns how many pages it read from the archive."""

    async def done() -> int:
        follower = CollectionFollower(root, "main", WallClock())
        try:
            await action(follower)
            return follower.rereader.read
        finally:
            await follower.close()

    with indexing_lock(root, "main"):
        return asyncio.run(done())


async def one_page(follower: CollectionFollower) -> None:
    await follower.indexer.step()
    follower.commit()


def busy_cell(root: Root, name: str = "main") -> CellFolder:
    """The cell that has the pages."""
    cells = root.collection(name).cells()
    return max(cells, key=lambda cell: sum(path.stat().st_size for path in cell.archive.glob("*.warc.gz")))


def without_handover(root: Root) -> None:
    """Let the archive be all that is left of the pages."""
    for cell in root.collection("main").cells():
        shutil.rmtree(cell.handover, ignore_errors=True)


def asked(root: Root) -> tuple[int, tuple[str, ...]]:
    """How many pages a search finds, and what it warns of."""
    with CollectionSearch(root, ["main"], WallClock()) as search:
        results = search.search(WORD)
        return results.total, tuple(results.warnings)


# ---- saying it ------------------------------------------------------------------------------------------------------


def test_an_index_that_fell_behind_is_reported_by_the_audit_the_status_and_the_search(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.indexer.STEP_CHANGES", 1)
    work(root, one_page)
    audit = audit_index(root, "main")
    assert (audit.checked, audit.violations) == (1, 8)
    assert "8 crawled pages are not indexed yet; no indexer is running" in audit.details[0]
    account = idle_account(root, "main")
    assert (account["indexed"], account["index_behind"]) == (1, 8)
    total, warnings = asked(root)
    assert total == 1
    assert any("8 crawled pages are not indexed" in each for each in warnings)
    work(root)
    assert audit_index(root, "main").violations == 0
    assert asked(root) == (9, ())


def test_pages_that_wait_for_an_indexer_at_work_are_no_violations(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.indexer.indexer.STEP_CHANGES", 1)
    work(root, one_page)
    with indexing_lock(root, "main"):
        audit = audit_index(root, "main")
        assert audit.violations == 0
        assert "an indexer is running" in audit.details[0]
        assert read_index_state(root.collection("main")).is_being_written


def test_a_deleted_index_is_reported_by_the_search_and_built_again_by_the_next_indexer(root: Root) -> None:
    work(root)
    cells = root.collection("main").cells()
    (other,) = [cell for cell in cells if cell != busy_cell(root)]
    assert (other.index / META_FILE).exists(), "without pages it has an index all the same"
    without_handover(root)
    shutil.rmtree(busy_cell(root).index)
    total, warnings = asked(root)
    assert total == 0
    assert any("9 crawled pages are not indexed" in each for each in warnings)
    assert audit_index(root, "main").violations >= 9
    assert work(root) == 9, "all of them were read from the archive"
    assert asked(root) == (9, ())
    assert audit_index(root, "main").violations == 0


# ---- mending it -----------------------------------------------------------------------------------------------------


def test_an_indexer_whose_index_is_deleted_while_it_runs_ends_and_reports_it(root: Root) -> None:
    async def deleted(follower: CollectionFollower) -> None:
        await follower.finish()
        shutil.rmtree(busy_cell(root).index)
        await follower.finish()

    with pytest.raises(StoreError, match="was deleted"):
        work(root, deleted)
    work(root)
    assert asked(root) == (9, ())


def test_pages_that_went_missing_are_read_again(crawled: Crawled, root: Root) -> None:
    work(root)
    change(root, lambda index: index.remove(key_of(f"http://x.test:{crawled.port}/3")))
    assert audit_index(root, "main").violations == 1
    assert work(root) == 1
    assert audit_index(root, "main").violations == 0
    assert asked(root) == (9, ())


def test_pages_that_nobody_knows_are_taken_out(crawled: Crawled, root: Root) -> None:
    work(root)

    def doubled(index: CellIndex) -> None:
        (page,) = index.entries([key_of(f"http://x.test:{crawled.port}/3")])
        index.put(replace(page.entry, key=7))

    change(root, doubled)
    assert audit_index(root, "main").violations == 1
    work(root)
    assert audit_index(root, "main").violations == 0


def change(root: Root, action: Callable[[CellIndex], None]) -> None:
    """Do something to the index behind the indexer's back."""
    index = CellIndex(busy_cell(root).index)
    action(index)
    index.commit(index.position)
    index.close()


def is_aside(root: Root) -> bool:
    return (busy_cell(root).path / BROKEN / META_FILE).exists()


def missing(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("pattern", "action"), [("*.store", missing), ("*.term", cut_short), (META_FILE, cut_short), (META_FILE, replaced)]
)
def test_a_damaged_index_is_set_aside_until_another_one_has_caught_up(
    root: Root, monkeypatch: pytest.MonkeyPatch, pattern: str, action: Callable[[Path], None]
) -> None:
    work(root)
    cell = busy_cell(root)
    without_handover(root)
    action(next(cell.index.glob(pattern)))
    with monkeypatch.context() as patch:
        patch.setattr("teia.indexer.indexer.STEP_CHANGES", 1)
        assert work(root, one_page) == 1
    assert is_aside(root)
    assert work(root) == 8
    assert not is_aside(root)
    assert asked(root) == (9, ())
    assert audit_index(root, "main").violations == 0


def test_a_sound_index_that_the_system_does_not_let_be_read_stays(root: Root) -> None:
    """Tantivy has one error for damage and for a process that has too many open files."""
    work(root)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    cell = busy_cell(root)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))  # one is enough for the position, not for all
    try:
        with pytest.raises(StoreError, match="TooManyOpenFiles"):
            CellIndexer(cell)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not is_aside(root)
    assert work(root) == 0
    assert asked(root) == (9, ())


def test_a_rebuild_removes_an_index_that_was_set_aside(root: Root) -> None:
    work(root)
    shutil.copytree(busy_cell(root).index, busy_cell(root).path / BROKEN)
    asyncio.run(rebuild_index(root, "main", WallClock()))
    assert not is_aside(root)


def test_a_page_that_waits_to_be_visited_again_stays_in_an_index_made_anew(crawled: Crawled, root: Root) -> None:
    work(root)
    requeue(root, crawled, "/3")
    assert asyncio.run(rebuild_index(root, "main", WallClock())) == 9
    assert audit_index(root, "main").violations == 0


@pytest.mark.parametrize(("state", "outcome"), [(STATE_FAILED, "connect"), (STATE_EXCLUDED, "robots")])
def test_a_page_that_is_gone_does_not_come_back_by_waiting_to_be_requested_again(
    crawled: Crawled, root: Root, state: int, outcome: str
) -> None:
    work(root)
    leave(root, crawled, "/3", state, outcome)
    work(root)
    assert asked(root) == (8, ())
    cell = FrontierCell(busy_cell(root).frontier)
    with cell.transaction():
        requeue_known(cell, WallClock().now_s() + 60, lambda: True)
    cell.close()
    assert audit_index(root, "main").violations == 0
    assert read_index_state(root.collection("main")).lag == 0
    assert work(root) == 0, "nothing is missing, nothing is read again"
    assert asked(root) == (8, ())
    assert asyncio.run(rebuild_index(root, "main", WallClock())) == 8
    assert audit_index(root, "main").violations == 0


def test_a_page_that_went_missing_and_then_left_is_not_put_back(crawled: Crawled, root: Root) -> None:
    work(root)
    change(root, lambda index: index.remove(key_of(f"http://x.test:{crawled.port}/3")))

    async def left(follower: CollectionFollower) -> None:
        leave(root, crawled, "/3", STATE_EXCLUDED, "robots")
        await follower.finish()

    work(root, left)
    assert audit_index(root, "main").violations == 0
    assert asked(root) == (8, ())


def leave(root: Root, crawled: Crawled, path: str, state: int, outcome: str) -> None:
    """Let a visit of a page end in a state that takes it out of the index."""
    place = (slot_of(site_of("x.test")), key_of(f"http://x.test:{crawled.port}{path}"))
    cell = FrontierCell(busy_cell(root).frontier)
    with cell.transaction():
        sql = "UPDATE urls SET state = ?, outcome = ? WHERE slot = ? AND key = ?"
        assert cell.db.execute(sql, (state, outcome, *place)).rowcount == 1
    cell.close()


def requeue(root: Root, crawled: Crawled, path: str) -> None:
    """Let a page be due again."""
    url = f"http://x.test:{crawled.port}{path}"
    cell = FrontierCell(busy_cell(root).frontier)
    with cell.transaction():
        place = (slot_of(site_of("x.test")), cell.host_id("x.test", 0.0), key_of(url))
        cell.requeue(*place, lane=LANE_DUE, rank=0)
        sql = "UPDATE urls SET lane = ?, rank = 0 WHERE slot = ? AND host_id = ? AND key = ?"
        cell.db.execute(sql, (LANE_DUE, *place))
    cell.close()


def test_a_cell_made_anew_keeps_the_words_on_links_from_other_cells(tmp_path: Path) -> None:
    names = [f"{letter}.test" for letter in "abcdefgh"]
    number_of = host_to_cell(cell_starts(2))
    first = next(name for name in names if number_of(name) == 0)
    other = next(name for name in names if number_of(name) == 1)
    root = open_root(crawl_linked(first, other, tmp_path).data)
    work(root)
    assert called(root, 1) == 1
    shutil.rmtree(root.collection("main").cells()[1].index)
    work(root)
    assert called(root, 1) == 1


def crawl_linked(first: str, other: str, folder: Path) -> Crawled:
    """Crawl a page whose link to another host calls it by a word of its own."""

    def linking(request: WorldRequest) -> WorldAnswer:
        port = request.headers["host"].rpartition(":")[2]
        link = f'<a href="http://{other}:{port}/target">xylophone</a>'
        return WorldAnswer(200, b"Content-Type: text/html\r\n", f"<title>T</title><p>Some words. {link}".encode())

    pages = {first: {"/": linking}, other: {"/target": html(text="Nothing of the kind.")}}
    return crawl_web(ScriptedWeb(pages), folder, f"{first}/")


def called(root: Root, number: int) -> int:
    """How many pages of a cell are called by that word."""
    index = CellIndex(root.collection("main").cells()[number].index)
    query = tantivy.Query.term_query(index.schema, "anchor", stemming_analyser().analyze("xylophone")[0])
    return len(index.searcher().search(query, 10).hits)


# ---- the indexer beside a crawl -------------------------------------------------------------------------------------


def configs(root: Root) -> list[Config]:
    return [saved(root, "main").config]


async def killed(indexer: IndexerProcess) -> None:
    """Kill the indexer as often as it takes to hit it alive, and wait until the crawl has noticed."""
    deaths = indexer.deaths
    await until_async(lambda: indexer.pid is not None, "an indexer runs")
    assert indexer.pid is not None
    os.kill(indexer.pid, signal.SIGKILL)
    await until_async(lambda: indexer.deaths > deaths, "its death is noticed")


def test_an_indexer_that_is_killed_is_started_again_and_nothing_is_missing(
    root: Root, caplog: pytest.LogCaptureFixture
) -> None:
    async def crawl() -> IndexerProcess:
        indexer = await IndexerProcess.start(root, configs(root))
        assert indexer is not None
        try:
            await killed(indexer)
            assert "SIGKILL" in indexer.error
            await until_async(lambda: indexer.indexed.get("main") == 9, "another one goes on")
            assert indexer.error == ""
            await indexer.finish()
        finally:
            await indexer.kill()
        return indexer

    indexer = asyncio.run(crawl())
    assert indexer.deaths >= 1
    assert indexer.error == ""
    assert "restarting it in 0.5 s" in caplog.text
    assert audit_index(root, "main").violations == 0
    assert idle_account(root, "main")["indexed"] == 9


@pytest.mark.slow
def test_an_indexer_that_cannot_work_is_given_up_only_at_the_end(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.indexer.keep_process.FINISH_TRIES", 2)
    monkeypatch.setattr("teia.indexer.keep_process.FIRST_WAIT_S", 0.01)

    async def crawl() -> IndexerProcess:
        with indexing_lock(root, "main"):  # somebody else writes, and does not end
            indexer = await IndexerProcess.start(root, configs(root))
            assert indexer is not None
            await until_async(lambda: indexer.deaths > 0, "it cannot begin")
            await indexer.finish()
            await indexer.kill()
        return indexer

    indexer = asyncio.run(crawl())
    assert indexer.deaths >= 2
    assert "another process is writing the index of main" in indexer.error


class Followers:
    """Two collections with nine pages each, followed in this process; `lines` reads what is said of them."""

    NAMES = ("main", "other")

    def __init__(self, root: Root, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        twin(root, "other")
        monkeypatch.setattr("teia.indexer.process.COMMIT_S", 0.05)
        monkeypatch.setattr("teia.indexer.process.REPORT_S", 0.05)
        monkeypatch.setattr("teia.indexer.process.IDLE_S", 0.02)
        self._root, self._capfd = root, capfd
        self.ends = asyncio.Event()

    def lines(self) -> list[dict[str, Any]]:
        """What was said since the last call."""
        return [json.loads(line) for line in self._capfd.readouterr().out.splitlines()]

    async def line(self, true: Callable[[dict[str, Any]], bool], what: str) -> None:
        await until_async(lambda: any(true(line) for line in self.lines()), what)

    async def follow(self) -> None:
        await follow(self._root, self.NAMES, WallClock(), self.ends)


def counts(root: Root, name: str) -> int:
    return read_index_state(root.collection(name)).indexed


def test_one_of_several_collections_that_fails_is_begun_again_while_the_crawl_goes_on(
    root: Root, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crawl() -> None:
        followers = Followers(root, capfd, monkeypatch)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(followers.follow())
            await followers.line(lambda line: line["indexed"] == {"main": 9, "other": 9}, "both are indexed")
            shutil.rmtree(busy_cell(root, "other").index)
            await followers.line(lambda line: "was deleted" in line.get("error", ""), "it is said")
            await until_async(lambda: counts(root, "other") == 9, "it is made anew")
            await followers.line(lambda line: "error" not in line and "indexed" in line, "all is well again")
            followers.ends.set()

    asyncio.run(crawl())
    assert audit_index(root, "other").violations == 0


def test_a_collection_whose_index_another_process_writes_does_not_hold_up_the_others(
    root: Root, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.process.LOCK_PAUSE_S", 0.001)

    async def crawl() -> None:
        followers = Followers(root, capfd, monkeypatch)
        async with asyncio.TaskGroup() as tasks:
            with indexing_lock(root, "other"):
                tasks.create_task(followers.follow())
                await until_async(lambda: counts(root, "main") == 9, "the other one is indexed")
                followers.lines()
                said = list[dict[str, Any]]()
                await until_async(lambda: len(said.extend(followers.lines()) or said) >= 5, "it goes on")
                assert all("another process is writing the index of other" in line["error"] for line in said), (
                    "each time"
                )
            await until_async(lambda: counts(root, "other") == 9, "its turn comes")
            followers.ends.set()

    asyncio.run(crawl())


def test_one_of_several_collections_that_is_out_in_the_end_is_reported_and_the_others_are_finished(
    root: Root, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = Followers(root, capfd, monkeypatch)
    followers.ends.set()
    with indexing_lock(root, "other"), pytest.raises(StoreError, match="another process is writing the index of other"):
        asyncio.run(followers.follow())
    assert (counts(root, "main"), counts(root, "other")) == (9, 0)
    asyncio.run(followers.follow())
    assert (counts(root, "main"), counts(root, "other")) == (9, 9)


def test_the_crawl_learns_of_the_collection_that_is_not_indexed(
    root: Root, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.keep_process.FINISH_TRIES", 1)
    twin(root, "other")
    command = command_of(run_indexer, str(root.path), "main", "other")

    async def crawl() -> IndexerProcess:
        indexer = IndexerProcess(command)
        await indexer.begin()
        try:
            await indexer.finish()
        finally:
            await indexer.kill()
        return indexer

    with indexing_lock(root, "other"):
        indexer = asyncio.run(crawl())
    assert "another process is writing the index of other" in indexer.error
    assert (
        caplog.text.count("not all pages could be indexed: other: another process is writing the index of other") == 1
    )
    assert indexer.indexed == {"main": 9}
    assert counts(root, "main") == 9


def test_a_crawl_that_ends_does_not_wait_as_long_as_its_indexer_was_waited_for_before(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.keep_process.FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("teia.indexer.keep_process.FINISH_TRIES", 3)

    def waits() -> list[float]:
        said = [record.args for record in caplog.records if record.name == "teia.indexer.keep_process"]
        return [float(str(args[1])) for args in said if isinstance(args, tuple)]

    async def crawl() -> int:
        indexer = IndexerProcess(["false"])
        await indexer.begin()
        await until_async(lambda: len(waits()) >= 8, "it dies again and again")
        before = len(waits())
        await indexer.finish()
        return before

    before = asyncio.run(crawl())
    assert waits()[:before] == [0.001 * 2**times for times in range(before)]
    assert waits()[before:] == [0.001, 0.002], "of three tries the last is not waited for"


def test_an_indexer_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.indexer.keep_process.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("teia.indexer.keep_process.LONGEST_WAIT_S", 0.05)
    program, draft = tmp_path / "indexer", tmp_path / "draft"

    def install(text: str) -> None:
        draft.write_text(f"#!/bin/sh\n{text}\n")
        draft.chmod(0o755)
        draft.rename(program)

    async def crawl() -> IndexerProcess:
        indexer = IndexerProcess([str(program)])
        install('echo \'{"indexed": {"main": 0}}\'; read line; exit 3')
        await indexer.begin()
        await until_async(lambda: indexer.indexed == {"main": 0}, "the first one runs")
        program.unlink()
        assert indexer.pid is not None
        os.kill(indexer.pid, signal.SIGKILL)
        await until_async(lambda: "cannot be started: No such file" in indexer.error, "it is said")
        install('echo \'{"indexed": {"main": 1}}\'; read line; exit 0')
        await until_async(lambda: indexer.indexed == {"main": 1}, "another one is started")
        assert indexer.error == ""
        await indexer.finish()
        return indexer

    indexer = asyncio.run(crawl())
    assert (indexer.error, indexer.deaths) == ("", 1)


def test_an_indexer_that_cannot_be_started_at_all_is_given_up_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.keep_process.FIRST_WAIT_S", 0.01)

    async def crawl() -> IndexerProcess:
        indexer = IndexerProcess([str(tmp_path / "nothing")])
        await indexer.begin()
        await indexer.finish()
        await indexer.kill()
        return indexer

    indexer = asyncio.run(crawl())
    assert "the indexer cannot be started: No such file or directory; `teia audit index`" in indexer.error
    assert indexer.deaths == 0


def test_a_server_brings_an_index_up_to_date_that_nobody_crawls(root: Root) -> None:
    keeper = IndexSupervisor(root, WallClock(), poll_s=0.05, first_poll_s=0.0)
    keeper.start()
    try:
        until(lambda: idle_account(root, "main")["indexed"] == 9, "it is brought up to date")
    finally:
        keeper.stop()
    assert audit_index(root, "main").violations == 0


def test_a_server_whose_first_collection_is_damaged_goes_on_with_the_others(root: Root) -> None:
    damaged = twin(root, "first")
    break_table(damaged, "pages")
    keeper = IndexSupervisor(root, WallClock(), poll_s=0.05, first_poll_s=0.0)
    keeper.start()
    try:
        until(lambda: idle_account(root, "main")["indexed"] == 9, "the other is brought up to date")
    finally:
        keeper.stop()
    with pytest.raises(CorruptFile):
        read_index_state(damaged)


def twin(root: Root, name: str) -> CollectionFolder:
    """Make another collection with the same pages."""
    shutil.copytree(root.collection("main").path, root.collection(name).path)
    return root.collection(name)


def break_table(collection: CollectionFolder, table: str) -> None:
    """Overwrite the page of the file in which a table begins, in every cell."""
    for cell in collection.cells():
        with closing(sqlite3.connect(cell.frontier)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (number,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            (size,) = db.execute("PRAGMA page_size").fetchone()
        with cell.frontier.open("r+b") as file:
            file.seek((number - 1) * size)
            file.write(b"\xff" * size)


# ---- rebuilding -----------------------------------------------------------------------------------------------------


def test_a_rebuild_that_fails_leaves_the_old_index_answering(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    work(root)

    async def fails(*_: object) -> dict[int, object]:
        assert asked(root) == (9, ()), "while it is made"
        raise StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Rereader, "entries", fails)
        with pytest.raises(StoreError, match="the disk is gone"):
            asyncio.run(rebuild_index(root, "main", WallClock()))
    assert asked(root) == (9, ())
    assert audit_index(root, "main").violations == 0
    assert not new_index_folder(busy_cell(root)).exists()


@pytest.mark.slow
def test_a_rebuild_that_is_killed_leaves_the_old_index_answering_and_can_be_repeated(root: Root) -> None:
    work(root)
    command = [sys.executable, "-m", "teia", "rebuild", "index", "--data", str(root.path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        ends = time.monotonic() + 60
        while not new_index_folder(busy_cell(root)).exists():
            assert process.poll() is None
            assert time.monotonic() < ends
        process.kill()
    assert asked(root) == (9, ())
    assert audit_index(root, "main").violations == 0
    assert asyncio.run(rebuild_index(root, "main", WallClock())) == 9
    assert asked(root) == (9, ())
    assert not new_index_folder(busy_cell(root)).exists()


def test_a_search_that_is_open_sees_the_old_index_and_then_the_new_one(root: Root) -> None:
    work(root)
    with CollectionSearch(root, ["main"], WallClock()) as search:
        assert search.search(WORD).total == 9
        asyncio.run(rebuild_index(root, "main", WallClock()))
        assert search.search(WORD).total == 9
        assert search.search(WORD).hits[0].snippet is not None


# ---- damage in the archive ------------------------------------------------------------------------------------------


def damage(root: Root, crawled: Crawled, path: str) -> None:
    """Flip a bit in the archived copy of a page."""
    with Lookup(root, "main") as lookup:
        entry = lookup.find(f"http://x.test:{crawled.port}{path}")
        assert entry is not None
        assert entry.page is not None
        file = archive_path(lookup.folders[entry.cell].archive, entry.page.file)
        content = bytearray(file.read_bytes())
        content[entry.page.offset + entry.page.length // 2] ^= 0x10
        file.write_bytes(content)


def copy(root: Root, crawled: Crawled, path: str) -> bytes:
    with Lookup(root, "main") as lookup:
        return lookup.capture(f"http://x.test:{crawled.port}{path}").payload


def test_a_page_with_a_damaged_capture_is_reported_and_stored_whole_at_its_next_visit(
    crawled: Crawled, root: Root, tmp_path: Path
) -> None:
    before = copy(root, crawled, "/3")
    damage(root, crawled, "/3")
    without_handover(root)
    work(root)
    assert idle_account(root, "main")["index_unreadable"] == 1
    total, warnings = asked(root)
    assert total == 8
    assert any("1 pages cannot be found because their captures cannot be read" in each for each in warnings)
    assert audit_index(root, "main").violations == 1
    requeue(root, crawled, "/3")
    crawl_web(web_of(), tmp_path, "x.test/", port=crawled.port)
    assert copy(root, crawled, "/3") == before, "the same answer was stored whole"
    work(root)
    assert idle_account(root, "main")["index_unreadable"] == 0
    assert asked(root) == (9, ())
    assert audit_index(root, "main").violations == 0


def test_a_page_whose_copy_is_sound_is_not_stored_again(crawled: Crawled, root: Root, tmp_path: Path) -> None:
    requeue(root, crawled, "/3")
    crawl_web(web_of(), tmp_path, "x.test/", port=crawled.port)
    url = f"http://x.test:{crawled.port}/3"
    with Lookup(root, "main") as lookup:
        entry = lookup.find(url)
        assert entry is not None
        kinds = [lookup.record(entry.cell, visit.file, visit.offset).kind for visit in lookup.visits(entry)]
    assert kinds == ["response", "revisit"]


def test_a_damaged_copy_is_not_requested_by_its_validators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says 304 sends no body: nothing would ever heal."""
    monkeypatch.setattr(Trust, "is_audit", lambda *_: False)
    seen: list[bool] = []

    def page(request: WorldRequest) -> WorldAnswer:
        seen.append("if-none-match" in request.headers)
        answer = html("/", text=f"A page with a tag and a {WORD}.")
        return WorldAnswer(answer.status, answer.headers + b'ETag: "one"\r\n', answer.body)

    crawled = crawl_web(web_of(**{"/3": page}), tmp_path, "x.test/")
    root = open_root(crawled.data)
    requeue(root, crawled, "/3")
    crawl_web(web_of(**{"/3": page}), tmp_path, "x.test/", port=crawled.port)
    damage(root, crawled, "/3")
    requeue(root, crawled, "/3")
    crawl_web(web_of(**{"/3": page}), tmp_path, "x.test/", port=crawled.port)
    assert seen == [False, True, False]
    assert WORD.encode() in copy(root, crawled, "/3")


def test_the_cells_of_a_collection_share_the_memory_for_anchor_texts(root: Root) -> None:
    limits: list[int] = []

    async def look(follower: CollectionFollower) -> None:
        limits.extend(cell.anchors.memory_bytes for cell in follower.indexer._cells)

    work(root, look)
    assert len(limits) == len(root.collection("main").cells()) > 1
    assert sum(limits) <= MEMORY_BYTES
