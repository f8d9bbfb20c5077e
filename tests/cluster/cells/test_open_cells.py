"""A cell's files brought up to its log, and its archive cut where the log says it ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.cluster.cells.log import CellLost, TooLarge
from teia.cluster.cells.open_cells import OwnTail, _in_thread, prepare_cells
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.site_homes import SiteHomes
from teia.cluster.crawl.agent_events import AgentEvents
from teia.cluster.crawl.arrivals import Arrivals
from teia.cluster.crawl.commit import MAX_BULKS, MERGE_WITHIN_S, CellExchange, ClusterCells
from teia.cluster.crawl.signals import ForwardedSignals
from teia.config.sections import Config
from teia.crawler.commit import CommitGroup, CommitResult, Committer
from teia.crawler.open_cell import Cell, note_position
from teia.crawler.signals_in.announcements import Announcements, open_announcements
from teia.errors import ClusterError, DiskFull
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import NEWEST_FORMAT
from teia.frontier.cell.rows import FoundUrl
from teia.signals.announce import PROXY, Announcement, open_inbox
from teia.signals.indexnow import IndexNowKeys, IndexNowPing
from teia.store.archive import Position
from teia.store.root import CellFolder, open_root
from tests.cluster.kept import found


def test_the_archive_is_cut_at_the_last_position_on_our_own_disk(tmp_path: Path) -> None:
    """What others wrote after us is not here, and what of ours is in the log stays, to the byte."""
    folder = CellFolder(0, tmp_path)
    folder.archive.mkdir()
    frontier = FrontierCell(folder.frontier)
    (folder.archive / "ours-1").write_bytes(bytes(900))
    (folder.archive / "ours-2").write_bytes(bytes(700))
    tail = OwnTail(frontier, folder)
    tail.truncate()  # nothing is known yet: nothing is cut
    for file, offset in (("ours-1", 900), ("ours-2", 300), ("ours-2", 500), ("theirs-1", 40), ("theirs-1", 4_000)):
        with frontier.transaction():
            note_position(frontier, Position(file, offset))
        tail.note_position()
    tail.truncate()
    sizes = {path.name: path.stat().st_size for path in folder.archive.iterdir()}
    assert sizes == {"ours-1": 900, "ours-2": 500}
    frontier.close()


def test_kept_cells_are_found_by_their_number() -> None:
    cells = ClusterCells({5: "five", 2: "two"})  # type: ignore[dict-item]  # any object will do
    assert list(cells) == ["five", "two"]
    assert (cells[5], len(cells), cells.owns(2), cells.owns(0)) == ("five", 2, True, False)
    with pytest.raises(KeyError):
        cells[0]
    for _ in cells:
        cells.drop(5)
    assert list(cells) == ["two"]


def test_what_belongs_to_a_cluster_is_not_written_by_one_machine(tmp_path: Path) -> None:
    """A change behind the log's back would be in no other node's copy."""
    folder = open_root(tmp_path / "data", create=True).collection("main")
    prepare_cells(folder, 2, "this cluster")
    path = folder.cells()[0].frontier
    with pytest.raises(ClusterError, match="belongs to a cluster; only `teia node` may change it"):
        FrontierCell(path)
    FrontierCell(path, read_only=True).close()
    prepare_cells(folder, 2, "this cluster")
    with pytest.raises(ClusterError, match="another cluster"):
        prepare_cells(folder, 2, "that cluster")


class Failing:
    """A log that stores a record and then cannot say so, or cannot store it."""

    def __init__(self, problem: Exception) -> None:
        self.cell, self._problem = 0, problem

    async def append(self, body: bytes, links: object = (), new_cell: object = None) -> int:
        raise self._problem


class AtOnce:
    packing_s = 0.0

    def wait_for(self, what: Coroutine[Any, Any, int]) -> int:
        return asyncio.run(what)


@pytest.mark.parametrize(
    ("problem", "must_catch_up"),
    [(CellLost(0, "the session has ended"), True), (ClusterError("it is too large"), False)],
)
def test_what_the_log_may_name_is_not_cut_off_the_archive(
    tmp_path: Path, problem: Exception, must_catch_up: bool
) -> None:
    journal = LogJournal(Failing(problem), AtOnce())  # type: ignore[arg-type]
    with pytest.raises(type(problem)):
        journal.publish(b"changes")
    assert journal.must_catch_up is must_catch_up
    cell = Cell.__new__(Cell)
    cell._may_cut = lambda: not journal.must_catch_up
    reopened = []
    cell.frontier = SimpleNamespace(journal=journal, is_in_doubt=False)  # type: ignore[assignment]
    cell.archive = SimpleNamespace(close=lambda: reopened.append(1))  # type: ignore[assignment]
    cell._open_archive = lambda: cell.archive  # type: ignore[method-assign]
    cell.rewind()
    assert bool(reopened) is not must_catch_up


class Listener:
    """An exchange as far as it hears what others sent; `queued` says in which cells there is something to do."""

    def __init__(self, **queued: int) -> None:
        self.clock = VirtualClock()
        self.taken: list[tuple[object, list[int]]] = []
        self.full = False
        committer = self.committer = CellExchange.__new__(CellExchange)
        committer._committer = Committer.__new__(Committer)
        committer._committer.steps = (committer,)
        frontiers = {int(name[-1]): SimpleNamespace(queued=count) for name, count in queued.items()}
        cells = {number: SimpleNamespace(number=number, frontier=frontier) for number, frontier in frontiers.items()}
        committer.cells = ClusterCells(cells)  # type: ignore[arg-type]
        committer.received, committer.merged, committer._waiting_since, committer.inbox = {}, {}, {}, deque()
        committer._clock, committer._max_bulks = self.clock, MAX_BULKS
        committer.arrivals, committer._agents = Arrivals(self.clock), AgentEvents(self.clock, "a")
        committer._receive = self._take  # type: ignore[method-assign]
        committer._with_new_urls, committer._delays = set(), {}
        committer._has_new_urls = lambda *_: True  # type: ignore[method-assign]

    def _take(self, cell: Any, bulks: Any, done: object) -> None:
        if self.full and cell.number == 1:
            raise DiskFull("/data")
        self.taken.append((cell.number, [seq for _, seq, _ in bulks]))

    def get(self, *numbers: tuple[int, int]) -> None:
        self.committer.inbox.extend((cell, seq, msgspec.msgpack.encode([])) for cell, seq in numbers)

    def hear(self, *with_pages: int) -> None:
        self.committer._merge_received(with_pages, CommitResult())


def test_links_that_could_not_be_merged_are_merged_by_the_next_commit() -> None:
    """A full disk in one cell must not cost it, or the cells after it, what they have heard."""
    listener = Listener(cell_1=0, cell_2=0)
    listener.get((1, 10), (2, 11), (3, 12), (1, 13))
    listener.full = True
    with pytest.raises(DiskFull):
        listener.hear()
    assert (listener.taken, listener.committer.merged) == ([], {})
    listener.full = False
    listener.get((2, 14))
    listener.hear()
    assert listener.taken == [(1, [10, 13]), (2, [11, 14])]
    assert listener.committer.merged == {1: 13, 2: 14}


def test_links_wait_for_pages_of_their_cell_but_not_for_long_nor_where_nothing_is_to_be_done() -> None:
    """One record holds both; issue 7: at most 2 messages a page."""
    listener = Listener(cell_1=5, cell_2=0, cell_3=5)
    listener.get((1, 10), (2, 11), (3, 12))
    listener.hear(1)
    assert listener.taken == [(2, [11])]
    assert list(listener.committer.received) == [1, 3]  # the first goes with the pages of its cell
    listener.committer._note_merged(1)
    assert listener.committer.merged == {2: 11, 1: 10}
    assert not listener.committer.must_merge
    asyncio.run(listener.clock.advance(MERGE_WITHIN_S))
    assert listener.committer.must_merge
    listener.hear()
    assert listener.taken == [(2, [11]), (3, [12])]
    listener.get(*((1, seq) for seq in range(20, 20 + MAX_BULKS + 1)))
    listener.hear()
    assert len(listener.taken[-1][1]) == MAX_BULKS
    assert len(listener.committer.inbox) == 1


def bulk_of(links: list[FoundUrl]) -> bytes:
    return msgspec.msgpack.encode([(f.host, f.key, f.tail, f.depth, f.in_links, f.hops, f.by, f.hint) for f in links])


def test_links_that_are_known_wait_also_where_nothing_is_to_be_done(tmp_path: Path) -> None:
    """They only change counts: a record of its own for each would be most of what the end of a crawl costs."""
    with closing(FrontierCell(tmp_path / "frontier.sqlite")) as frontier:
        listener = Listener(cell_1=0)
        committer = listener.committer
        del committer._has_new_urls
        frontier.add_links([found(1), found(2)], 1.0)
        frontier.queued = 0
        committer.cells[1].frontier = frontier
        for seq, known in ((10, True), (11, False)):
            links = [found(1), found(2)] if known else [found(1), found(3)]
            committer.inbox.append((1, seq, bulk_of(links)))
            listener.hear()
            assert bool(listener.taken) is not known
        assert listener.taken == [(1, [10, 11])]
        committer.inbox.append((1, 12, bulk_of([found(2)])))
        listener.hear()
        assert not committer.must_merge
        asyncio.run(listener.clock.advance(MERGE_WITHIN_S))
        assert committer.must_merge


def test_a_file_is_not_closed_while_a_thread_still_writes_it() -> None:
    """A node that leaves while it catches up: the thread goes on, so whoever closes the file waits for it."""
    done: list[bool] = []

    def write() -> None:
        time.sleep(0.3)  # a slow write
        done.append(True)

    async def main() -> None:
        task = asyncio.create_task(_in_thread(write))
        await asyncio.sleep(0.05)  # the write has begun
        for each in asyncio.all_tasks() - {asyncio.current_task()}:  # as a node's loop does when it ends
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done

    asyncio.run(main())


def test_pages_whose_links_lead_to_too_many_cells_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And if the disk is full meanwhile, no page is committed twice and none forgotten."""
    committed: list[int] = []
    full = [True]

    def commit(_: Committer, group: CommitGroup) -> CommitResult:
        visits: list[Any] = group.visits
        if sum(visit.cells for visit in visits) > 1_000:
            raise TooLarge("a commit is too large for NATS")
        if visits and visits[0].number == 4 and full:
            raise DiskFull(str(full.pop()))
        committed.extend(visit.number for visit in visits)
        group.settled, group.visits = group.settled + visits, []
        return group.result

    monkeypatch.setattr(Committer, "_try_commit", commit)
    committer = Listener(cell_1=0).committer._committer
    queue = SimpleNamespace(cell=1)
    group = CommitGroup([SimpleNamespace(number=number, cells=400, queue=queue) for number in range(8)])  # type: ignore[misc]
    with pytest.raises(DiskFull):
        committer.commit(group)
    assert [visit.number for visit in group.visits] == [4, 5, 6, 7]  # type: ignore[attr-defined]
    committer.commit(group)
    assert committed == list(range(8))
    group.visits = [SimpleNamespace(number=8, cells=1_200, queue=queue)]  # type: ignore[list-item]
    with pytest.raises(TooLarge):
        committer.commit(group)


def test_what_others_sent_is_merged_in_parts_where_it_is_too_much_to_be_passed_on_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However few pages there are: else the cell could be committed by no node any more."""
    listener = Listener(cell_1=0)
    committer, take = listener.committer, listener._take

    def commit(_: Committer, group: CommitGroup) -> CommitResult:
        committer.start(group)
        committer.end()
        return group.result

    monkeypatch.setattr(Committer, "_try_commit", commit)

    def small(cell: Any, bulks: Any, done: object) -> None:
        if len(bulks) > 30:
            raise TooLarge("a commit is too large for NATS")
        take(cell, bulks, done)

    committer._receive = small  # type: ignore[method-assign]
    committer._leave_out_lost = committer._send_sites = lambda *_: None  # type: ignore[method-assign]
    listener.get(*((1, seq) for seq in range(MAX_BULKS)))
    committer._committer.commit(CommitGroup([]))
    assert [seq for _, bulks in listener.taken for seq in bulks] == list(range(MAX_BULKS))
    assert (committer.merged, committer.received, committer._max_bulks) == ({1: MAX_BULKS - 1}, {}, MAX_BULKS)


class Full:
    """A log that takes nothing, some times."""

    format = NEWEST_FORMAT
    has_posts = False

    def __init__(self, times: int) -> None:
        self.times = times

    def post(self, to_cell: int, bulk: bytes) -> None:
        raise AssertionError("nothing is sent on")

    def publish(self, changes: bytes) -> int:
        if self.times:
            self.times -= 1
            raise DiskFull("/data")
        return 1

    def forget(self, published: int) -> None:
        assert not published


PAGE = Announcement("http://a.test/", PROXY, 5.0, 6.0, 3)
PING = IndexNowPing("a.test", "0123456789", "http://a.test/0123456789.txt", ("http://a.test/p",), 0, 7.0)
OLD_MESSAGE = (
    b"signal\x92\x91\x95\xaehttp://a.test/\xa5proxy\xcb@\x14\x00\x00\x00\x00\x00\x00\xcb@\x18\x00\x00\x00\x00\x00"
    b"\x00\x03\x91\x96\xa6a.test\xaa0123456789\xbchttp://a.test/0123456789.txt\x91\xafhttp://a.test/p\x00\xcb@\x1c"
    b"\x00\x00\x00\x00\x00\x00"
)
"""A page and a ping, as a node of the version before sends them and reads them."""


def test_signals_of_older_nodes_are_taken_up_once_however_often_their_commit_fails(tmp_path: Path) -> None:
    """And also by a node that expected none: its inbox is made for them."""
    with closing(FrontierCell(tmp_path / "frontier.sqlite", journal=Full(3))) as frontier:
        listener = Listener(cell_1=0)
        committer, announced = listener.committer, Announcements([], [0], listener.clock)
        del committer._receive
        committer.cells[1].frontier = frontier
        committer.homes = SiteHomes([0], [(1, frontier)])
        committer.announced = announced
        with open_announcements(announced, tmp_path / "signals.sqlite", Config(), lambda _: True):
            committer.inbox.append((1, 10, OLD_MESSAGE))
            for _ in range(3):
                with pytest.raises(DiskFull):
                    listener.hear()
            assert not announced.is_waiting
            assert not announced.path.exists()
            listener.hear()
            assert announced.is_waiting
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        assert inbox.due(PROXY, 1e12, 10) == [PAGE]
        (key,) = IndexNowKeys(inbox.db).pending_keys(10)
        assert IndexNowKeys(inbox.db).waiting_for(key) == [("http://a.test/p", 7.0)]


@pytest.mark.parametrize("has_older_nodes", [True, False])
def test_signals_are_sent_by_the_log_as_long_as_an_older_node_is_there(has_older_nodes: bool) -> None:
    """That node subscribes to no signals, and reads what is in its log; the others read both."""
    posted: list[tuple[int, bytes]] = []
    journal = SimpleNamespace(post=lambda cell, bulk: posted.append((cell, bulk)))
    listener = Listener(cell_1=0)
    listener.committer.cells[1].frontier = SimpleNamespace(journal=journal, transaction=nullcontext)  # type: ignore[assignment]
    listener.committer.has_older_nodes = has_older_nodes
    is_sent = listener.committer._send_signals_by_log([(7, ForwardedSignals([PAGE], [PING]))] * 40)
    assert is_sent is has_older_nodes
    assert posted == [(7, OLD_MESSAGE)] * 40 * is_sent
