"""A cell that has grown too large becomes two; nothing is lost on the way, whoever dies when (stage c)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.cluster.cells import split as cells_split
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import MAX_CELLS, CellLog, CellLost, NumberTaken
from teia.cluster.cells.site_homes import AWAY, DELAY, SiteHomes
from teia.cluster.cells.snapshots import Snapshots
from teia.cluster.cells.split import NotWhole, Splitter, check_whole, record_split, refuse_split, request_split
from teia.cluster.crawl.agent_events import AgentEvents
from teia.cluster.crawl.arrivals import Arrivals
from teia.cluster.crawl.commit import CellExchange
from teia.cluster.members.agreement import Agreement, Split, agree, amend_agreement, current_agreement
from teia.cluster.nats.objects import ObjectsAway
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer
from teia.config.sections import Config
from teia.crawler.commit import CommitResult
from teia.errors import ClusterError, DiskFull, StoreError
from teia.frontier.cell import cell as frontier_cell
from teia.frontier.cell import journal as frontier_journal
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.frontier.cell.journal import note_seq
from teia.frontier.cell.mail import THE_STREAM
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.split import middle_slot, split_cells
from teia.store.root import CellFolder
from teia.urls import cell_range, cell_starts, cell_table, key_of, slot_of
from tests.cluster.conftest import Nats
from tests.cluster.kept import IDENTITY, OwnedCell
from tests.waiting import until_async

CELLS = 8
STARTS = cell_starts(CELLS)


def sites(many: int) -> list[str]:
    """Sites that belong to cell 7."""
    first, end = cell_range(7, STARTS)
    return list(islice((f"s{n}.test" for n in count() if first <= slot_of(f"s{n}.test") < end), many))


def found(site: str, number: int) -> FoundUrl:
    host = f"www.{site}"
    return FoundUrl(host, key_of(f"http://{host}/{number}"), f"/{number}", depth=1)


class Halves(OwnedCell):
    """Cell 7 of a cluster of eight, about to be split; and its other half, cell 8."""

    def begin(self, urls: int = 5) -> None:
        config = Config()
        config = replace(config, collection=replace(config.collection, name="main", cells=CELLS))
        self.agreement: Agreement = self.wait_for(agree(self.wire, self.nats.clock, self.collection, config, 1))
        log, _ = self.become_owner("a")
        with self.open_cell(log, "a") as cell, cell.transaction():
            cell.add_links([found(site, number) for site in sites(20) for number in range(urls)], 1.0)
            rows = [(DELAY + f"www.{site}", 9e9) for site in sites(20)] + [(AWAY + sites(30)[-1], 3)]
            cell.db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        self.owners = {"a": log}
        self.request_split()

    def request_split(self) -> None:
        self.agreement = self.wait_for(
            amend_agreement(self.wire, self.nats.clock, self.collection, lambda now: request_split(now, 7), 1)
        )

    def look(self) -> Agreement:
        self.agreement = self.wait_for(current_agreement(self.wire, self.nats.clock, self.collection, 1))
        return self.agreement

    def take_over(self, node: str) -> CellLog:
        self.owners[node], _ = self.become_owner(node, self.snapshots())
        return self.owners[node]

    def splitter(self, node: str) -> Splitter:
        copies = CellCopies([self.folder_of(node)], self.thread, self.snapshots())
        owner: Any = SimpleNamespace(owned={7: self.owners[node]})
        return Splitter(self.wire, self.nats.clock, self.thread, self.collection, owner, copies, lambda: self.agreement)

    def split(self, node: str) -> None:
        """Do what a node's splitter does when the cell is its own."""
        splitter = self.splitter(node)
        assert splitter.held() == {7}
        self.wait_for(splitter._split_or_resume(7, self.owners[node]))

    def run(self, node: str, is_over: Callable[[Agreement], bool] = lambda now: now.splitting is None) -> Agreement:
        """Let a node's splitter run until what is agreed on says enough."""

        async def is_over_there() -> bool:
            return is_over(await self._current())

        async def watched() -> None:
            running = asyncio.get_running_loop().create_task(self.splitter(node).run())
            try:
                await until_async(is_over_there, "the split is over")
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

        self.wait_for(watched())
        return self.agreement

    async def _current(self) -> Agreement:
        self.agreement = await current_agreement(self.wire, self.nats.clock, self.collection, 1)
        return self.agreement

    def new_half(self) -> FrontierCell:
        """Cell 8 as a node that never saw it gets it: from its snapshot and its log."""
        folder = CellFolder(8, self.folder / "other" / "08")
        folder.archive.mkdir(parents=True)
        with closing(FrontierCell(folder.frontier, of_cluster=True)) as cell:
            cell.db.execute("INSERT INTO meta VALUES (?, ?)", (CLUSTER, IDENTITY))
        log = CellLog(self.wire, self.nats.clock, self.collection, 8, "b", "b-1")
        head = self.wait_for(log.head())
        assert head is not None
        assert head.record.kind == "release"
        self.wait_for(log.take(head))
        self.wait_for(CellCopies([folder], self.thread, self.snapshots()).open_all({8: log}))
        return FrontierCell(folder.frontier, read_only=True)

    def old_half(self, node: str) -> FrontierCell:
        return FrontierCell(self.folder_of(node).frontier, read_only=True)

    def check_halves(self, node: str) -> int:
        """Both halves together are the cell as it was, and share nothing; returns where the second begins."""
        (split,) = self.look().splits
        assert (split.cell, self.agreement.splitting) == (7, None)
        assert self.agreement.starts == (*STARTS, split.slot)
        with closing(self.old_half(node)) as old, closing(self.new_half()) as new:
            assert not urls(old) & urls(new)
            assert urls(old) | urls(new) == {(f"www.{site}", f"/{n}") for site in sites(20) for n in range(5)}
            assert all(slot < split.slot for slot in slots(old))
            assert all(slot >= split.slot for slot in slots(new))
            assert (old.known, old.queued) == (len(urls(old)), len(urls(old)))
            assert (new.known, new.queued) == (len(urls(new)), len(urls(new)))
            assert 30 <= old.known <= 70  # of a hundred
            assert delays(old) == {host for host, _ in urls(old)}
            assert delays(new) == {host for host, _ in urls(new)}
            assert split_cells(old) == {8: split.slot}
            assert split_cells(new) == {}
        return split.slot


def urls(cell: FrontierCell) -> set[tuple[str, str]]:
    sql = "SELECT h.name, u.tail FROM urls AS u JOIN hosts AS h USING (host_id) JOIN queue AS q ON q.key = u.key"
    return set(cell.db.execute(sql).fetchall())


def slots(cell: FrontierCell) -> set[int]:
    return {slot for table in ("urls", "hosts", "queue") for (slot,) in cell.db.execute(f"SELECT slot FROM {table}")}


def delays(cell: FrontierCell) -> set[str]:
    rows = cell.db.execute("SELECT name FROM meta WHERE name LIKE 'rest %'").fetchall()
    return {name.removeprefix(DELAY) for (name,) in rows}


@pytest.fixture
def halves(nats: Nats, tmp_path: Path) -> Iterator[Halves]:
    with LoopThread() as thread:
        made = Halves(tmp_path, nats, thread)
        made.begin()
        try:
            yield made
        finally:
            made.wait_for(made.wire.end())
            nats.wires.clear()


def test_a_cell_becomes_two_and_nothing_is_lost(halves: Halves) -> None:
    halves.split("a")
    halves.check_halves("a")


def test_an_owner_that_lost_its_cell_cannot_split_it(halves: Halves) -> None:
    """It is refused by NATS, and what it stored for the new cell is named by nobody."""
    halves.folder_of("b")
    halves.take_over("b")
    with pytest.raises(CellLost):
        halves.split("a")
    assert halves.look().splitting == 7
    assert halves.wait_for(CellLog(halves.wire, halves.nats.clock, halves.collection, 8, "x", "x").head()) is None
    halves.split("b")
    halves.check_halves("b")


def test_a_death_after_the_batch_leaves_both_cells(halves: Halves, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has it and the file has not: whoever comes next, the same node or another, finds it in the log."""

    def full(*_: object) -> None:
        raise DiskFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(frontier_journal, "note_seq", full)
        with pytest.raises(DiskFull):
            halves.split("a")
    with closing(halves.old_half("a")) as old:
        assert len(urls(old)) == 100
    halves.take_over("b")
    halves.split("b")
    halves.check_halves("b")


def test_a_death_before_it_was_reported_is_made_good_by_the_next_owner(
    halves: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then nobody opens the old cell as if it were whole."""

    async def away(*_: object) -> None:
        raise NoAnswer("NATS is away")

    with monkeypatch.context() as patch:
        patch.setattr(cells_split, "amend_agreement", away)
        with pytest.raises(NoAnswer):
            halves.split("a")
    halves.take_over("b")
    with pytest.raises(NoAnswer, match="was split"):
        check_whole(halves.folder_of("b"), halves.look().starts)
    halves.split("b")
    slot = halves.check_halves("b")
    check_whole(halves.folder_of("b"), (*STARTS, slot))


def test_a_cell_of_one_site_stays_whole(halves: Halves) -> None:
    """The wish is taken back, with the reason for whoever wished for it."""
    with halves.open_cell(halves.owners["a"], "a") as cell, cell.transaction():
        cell.db.execute("DELETE FROM urls WHERE slot <> ?", (slot_of(sites(1)[0]),))
    now = halves.run("a")
    assert not now.splits
    assert "one slot" in now.unsplit["7"]
    assert halves.splitter("a").held() == set()


def test_a_split_that_happened_is_never_refused(halves: Halves, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if everything goes wrong after the batch, more often than is tried for a split that did not happen."""
    often = [0]

    def broken(*_: object) -> None:
        often[0] += 1
        raise StoreError("disk I/O error")

    monkeypatch.setattr(cells_split, "TRY_AGAIN_S", 0.05)
    monkeypatch.setattr(cells_split, "TRIES", 2)
    with monkeypatch.context() as patch:
        patch.setattr(frontier_journal, "note_seq", broken)
        patch.setattr(frontier_cell, "note_seq", lambda *given: broken() if often[0] else note_seq(*given))
        assert halves.run("a", lambda _: often[0] >= 5).splitting == 7
    assert not halves.agreement.unsplit
    halves.run("a")
    halves.check_halves("a")


def test_a_split_that_cannot_go_on_is_given_up_with_the_reason(halves: Halves, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a full disk or a store that is away would keep the largest cell from being crawled."""

    async def away(*_: object) -> None:
        raise ObjectsAway("the store is away")

    monkeypatch.setattr(cells_split, "TRY_AGAIN_S", 0.05)
    monkeypatch.setattr(cells_split, "TRIES", 3)
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "divide", away)
        now = halves.run("a")
    assert (now.splits, now.unsplit) == ([], {"7": "failed after 3 attempts: the store is away"})
    with closing(halves.old_half("a")) as old:
        assert len(urls(old)) == 100
    halves.request_split()  # a person may
    halves.run("a")
    halves.check_halves("a")


def test_a_split_that_nobody_wants_any_more_is_reported_by_whoever_opens_the_cell(
    halves: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise NoAnswer("NATS is away")

    with monkeypatch.context() as patch:
        patch.setattr(cells_split, "amend_agreement", away)
        with pytest.raises(NoAnswer):
            halves.split("a")
    change: Callable[[Agreement], Agreement] = lambda now: request_split(refuse_split(now, 7, "no"), 3)  # noqa: E731
    now = halves.wait_for(amend_agreement(halves.wire, halves.nats.clock, halves.collection, change, 1))
    with pytest.raises(NotWhole):
        halves.wait_for(halves.splitter("a").check(halves.folder_of("a"), now.starts))
    now = halves.look()
    assert (now.splitting, now.unsplit, [split.cell for split in now.splits]) == (3, {}, [7])
    halves.wait_for(halves.splitter("a").check(halves.folder_of("a"), now.starts))


def test_a_number_is_not_given_twice(halves: Halves) -> None:
    """Whatever a node believes to be agreed on: NATS takes the first records of a new cell only if they are the first.

    The old cell stays as it is, and so does what the new one is read from.
    """
    before = halves.agreement
    halves.split("a")
    log, pointer = halves.owners["a"], halves.wait_for(_pointer_of_8(halves))
    with pytest.raises(NumberTaken, match="cell 8 already"):
        halves.wait_for(log.append(b"other", new_cell=(8, b"another pointer", log.last)))
    assert halves.wait_for(_pointer_of_8(halves)) == pointer
    halves.wait_for(log.append(b"", [(3, b"links")]))  # the log goes on
    halves.agreement = before
    with halves.open_cell(log, "a") as cell:
        cell.db.execute("DELETE FROM meta WHERE name LIKE 'split %'")  # as if another cell had got the number
    with pytest.raises(NumberTaken):
        halves.wait_for(halves.splitter("a")._split(halves.folder_of("a"), log, STARTS))


async def _pointer_of_8(halves: Halves) -> bytes | None:
    return await CellLog(halves.wire, halves.nats.clock, halves.collection, 8, "x", "x").pointer()


def test_the_middle_divides_urls_and_not_slots(tmp_path: Path) -> None:
    with closing(FrontierCell(tmp_path / "cell.sqlite")) as cell:
        many, *few = sorted(sites(10), key=slot_of)
        with cell.transaction():
            cell.add_links([found(many, number) for number in range(50)], 1.0)
            cell.add_links([found(site, 1) for site in few], 1.0)
        assert middle_slot(cell, 0, 1024) == slot_of(few[0])
        assert middle_slot(cell, 0, slot_of(few[0])) is None


def test_links_that_come_the_old_way_are_passed_on(halves: Halves) -> None:
    """A node that does not know of the split sends them to the cell that had the site before."""
    halves.split("a")
    slot = halves.check_halves("a")
    there, here = (next(s for s in sites(20) if (slot_of(s) >= slot) is moved) for moved in (True, False))
    with halves.open_cell(halves.owners["a"], "a") as cell:
        homes = SiteHomes((*STARTS, slot), [(7, cell)])
        with cell.transaction():
            homes.apply_message(7, cell, [found(there, 99), found(here, 99)], 2.0)
        assert cell.known == len(urls(cell))
        assert (f"www.{here}", "/99") in urls(cell)
        assert (f"www.{there}", "/99") not in urls(cell)
    info = halves.wait_for(halves.wire.js.stream_info(f"TEIA_{halves.collection}", subjects_filter="*.links.*"))
    assert info.state.subjects == {f"{halves.collection}.links.8": 1}


def test_links_of_many_bulks_are_passed_on_together(halves: Halves) -> None:
    """Else as many bulks as a commit merges would be more messages than NATS takes in a batch."""
    halves.split("a")
    slot = halves.check_halves("a")
    there = next(site for site in sites(20) if slot_of(site) >= slot)
    with halves.open_cell(halves.owners["a"], "a") as cell:
        committer = CellExchange.__new__(CellExchange)
        committer.homes, committer._clock = SiteHomes((*STARTS, slot), [(7, cell)]), halves.nats.clock
        committer._agents, committer.arrivals = AgentEvents(halves.nats.clock, "a"), Arrivals(halves.nats.clock)
        bulks = [(THE_STREAM, number, [found(there, number)]) for number in range(1, 201)]
        with cell.transaction():
            committer._merge(SimpleNamespace(number=7, frontier=cell), bulks, CommitResult())  # type: ignore[arg-type]
    info = halves.wait_for(halves.wire.js.stream_info(f"TEIA_{halves.collection}", subjects_filter="*.links.*"))
    assert info.state.subjects == {f"{halves.collection}.links.8": 1}


def test_numbers_of_cells_need_not_be_in_the_order_of_slots() -> None:
    table = cell_table((0, 512, 256))
    assert [table[slot] for slot in (0, 255, 256, 511, 512, 1023)] == [0, 0, 2, 2, 1, 1]
    assert [cell_range(number, (0, 512, 256)) for number in range(3)] == [(0, 256), (512, 1024), (256, 512)]
    assert cell_table(cell_starts(64))[1023] == 63


def test_one_cell_is_split_at_a_time() -> None:
    from teia.config.load import to_toml

    config = replace(Config(), collection=replace(Config().collection, cells=4))
    agreement = request_split(Agreement("x", to_toml(config), 1), 2)
    assert request_split(agreement, 2) == agreement
    with pytest.raises(ClusterError, match="cell 2 is being split"):
        request_split(agreement, 3)
    with pytest.raises(ClusterError, match="numbered from 0 to 3"):
        request_split(refuse_split(agreement, 2, "no"), 4)
    assert refuse_split(agreement, 2, "no").unsplit == {"2": "no"}
    done = record_split(agreement, 2, 4, 600)
    assert (done.splits, done.splitting) == ([Split(2, 600)], None)
    assert record_split(done, 2, 4, 600) == done
    assert record_split(refuse_split(agreement, 2, "no"), 2, 4, 600) == done  # it happened, whatever was said of it
    other = record_split(request_split(refuse_split(agreement, 2, "no"), 1), 2, 4, 600)
    assert (other.splits, other.splitting) == ([Split(2, 600)], 1)


def test_there_are_no_more_cells_than_the_links_of_a_page_fit_into_a_batch_for() -> None:
    from teia.config.load import to_toml

    config = replace(Config(), collection=replace(Config().collection, cells=512))
    full = Agreement("x", to_toml(config), 1, splits=[Split(0, 1)] * (MAX_CELLS - 512))
    with pytest.raises(ClusterError, match="maximum of 900 cells"):
        request_split(full, 3)
