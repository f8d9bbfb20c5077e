"""The group commit when something goes wrong in the middle of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import astuple

from teia.clock import VirtualClock
from teia.crawler.child.messages import FoundLink, ReadResult, in_columns
from teia.crawler.commit import CommitGroup, CommitResult, Committer
from teia.crawler.open_cell import Cell
from teia.crawler.visit import ActiveVisit
from teia.errors import DiskFull
from teia.frontier.cell.alias_evidence import requeue_first
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, tail_of
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.queue.ledger import DelayEntry, Ledger
from teia.frontier.queue.order import breadth
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.retry import RetryVerdict
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched
from teia.store.root import open_root
from teia.urls import cell_of, cell_starts, key_of, site_of, slot_of, split

NOW_S = 1_700_000_000.0
STARTS = cell_starts(2)


def host_in(cell: int) -> str:
    """A host name whose site falls into a cell."""
    return next(f"h{n}.test" for n in range(100) if cell_of(slot_of(site_of(f"h{n}.test")), STARTS) == cell)


def found(url: str, depth: int = 0) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), depth)


class Bench:
    """Two cells, their committer, and visits made by hand."""

    def __init__(self, folder: Path) -> None:
        clock = VirtualClock(NOW_S)
        root = open_root(folder / "data", create=True)
        collection = root.create_collection("main", "", 2)
        self.cells = [Cell(each, "main", breadth, 1 << 30, clock) for each in collection.cells()]
        self.ledger = Ledger(folder / "ledger.sqlite")
        self.committer = Committer(self.cells, STARTS, self.ledger, clock)

    def visit(self, url: str, *links: str) -> ActiveVisit:
        host = split(url).host
        cell = cell_of(slot_of(site_of(host)), STARTS)
        frontier = self.cells[cell].frontier
        host_id = frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()[0]
        item = next(each for each in frontier.next_urls(host_id, host, 99, (), NOW_S) if each.url == url)
        queue = HostQueue(host, host_id, cell, 0, DelayTarget(host))
        visit = ActiveVisit(queue, item, outcome="200", verdict=RetryVerdict(STATE_DONE))
        visit.fetched = Fetched(url, "200", 200, NOW_S, NOW_S)
        visit.result = result(*links)
        return visit

    def close(self) -> None:
        for cell in self.cells:
            cell.close()
        self.ledger.close(clean=True, now_s=NOW_S)


def result(*links: str) -> ReadResult:
    named = [FoundLink(split(u).host, key_of(u), tail_of(u, split(u).host), 1, "", 1) for u in links]
    fields = {name: type_of() for name, type_of in _EMPTY.items()}
    return ReadResult(
        **{**fields, "outcome": "200", "links": in_columns([astuple(each) for each in named]), "links_seen": len(named)}
    )


_EMPTY = {
    name: {"str": str, "bool": bool, "int": int, "bytes": bytes}.get(str(kind), tuple)
    for name, kind in ReadResult.__annotations__.items()
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def break_once(monkeypatch: pytest.MonkeyPatch, frontier: FrontierCell) -> None:
    """Let a cell's next transaction fail for want of space, as it ends."""
    whole = frontier.transaction

    @contextmanager
    def full() -> Iterator[FrontierCell]:
        monkeypatch.setattr(frontier, "transaction", whole)
        with whole():
            yield frontier
            raise DiskFull("no room")

    monkeypatch.setattr(frontier, "transaction", full)


def repeat_every_commit(monkeypatch: pytest.MonkeyPatch, committer: Committer) -> None:
    """Let the first commit of each group of visits fail for want of disk space, and be repeated."""
    commit = committer.commit

    def twice(group: CommitGroup) -> CommitResult:
        if group.visits:
            break_once(monkeypatch, committer.cells[group.visits[0].queue.cell].frontier)
            with pytest.raises(DiskFull):
                commit(group)
        return commit(group)

    monkeypatch.setattr(committer, "commit", twice)


def test_commit_that_failed_half_way_is_finished_and_nothing_counts_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f"http://{host_in(0)}/", f"http://{host_in(1)}/"
    bench.committer.commit(CommitGroup(seeds=[found(first), found(second)]))
    across = f"http://{host_in(1)}/x"
    group = CommitGroup(visits=[bench.visit(first, across), bench.visit(second, across)])
    break_once(monkeypatch, bench.cells[1].frontier)
    with pytest.raises(DiskFull):
        bench.committer.commit(group)
    assert len(group.settled) == 1
    done = bench.committer.commit(group)
    assert (done.hosts, len(group.settled)) == ({(1, host_in(1)): 1}, 2)
    sql = "SELECT in_links FROM urls WHERE key = ?"
    assert bench.cells[1].frontier.db.execute(sql, (key_of(across),)).fetchone() == (2,)
    visits = [cell.frontier.db.execute("SELECT sum(visits) FROM pages").fetchone()[0] for cell in bench.cells]
    assert visits == [1, 1]


def in_links(bench: Bench, url: str) -> int:
    host = split(url).host
    cell = bench.cells[cell_of(slot_of(site_of(host)), STARTS)].frontier
    return int(cell.db.execute("SELECT in_links FROM urls WHERE key = ?", (key_of(url),)).fetchone()[0])


def again(bench: Bench, url: str) -> None:
    """Let a page that was visited wait again."""
    host = split(url).host
    cell = bench.cells[cell_of(slot_of(site_of(host)), STARTS)].frontier
    with cell.transaction():
        requeue_first(cell, host, tail_of(url, host), NOW_S)


@pytest.mark.parametrize("cell", [0, 1])
def test_links_taken_back_in_a_commit_that_failed_half_way_are_taken_back_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, cell: int
) -> None:
    first, second = f"http://{host_in(0)}/", f"http://{host_in(1)}/"
    old, new = f"http://{host_in(1)}/old", f"http://{host_in(1)}/new"
    bench.committer.commit(CommitGroup(seeds=[found(first), found(second)]))
    bench.committer.commit(CommitGroup(visits=[bench.visit(first, old), bench.visit(second, old, first)]))
    assert (in_links(bench, old), in_links(bench, first)) == (2, 2)
    again(bench, first)
    again(bench, second)
    group = CommitGroup(visits=[bench.visit(first, new), bench.visit(second, new)])
    break_once(monkeypatch, bench.cells[cell].frontier)
    with pytest.raises(DiskFull):
        bench.committer.commit(group)
    bench.committer.commit(group)
    assert (in_links(bench, old), in_links(bench, first), in_links(bench, new)) == (0, 1, 2)


def test_two_visits_of_one_page_in_a_group_count_as_the_last(bench: Bench) -> None:
    url, old, new = f"http://{host_in(0)}/", f"http://{host_in(1)}/old", f"http://{host_in(0)}/new"
    bench.committer.commit(CommitGroup(seeds=[found(url)]))
    bench.committer.commit(CommitGroup(visits=[bench.visit(url, old), bench.visit(url, old, new)]))
    assert (in_links(bench, old), in_links(bench, new)) == (1, 1)
    again(bench, url)
    again(bench, url)
    bench.committer.commit(CommitGroup(visits=[bench.visit(url, old), bench.visit(url, new)]))
    assert (in_links(bench, old), in_links(bench, new)) == (0, 1)


def test_delays_are_on_disk_before_anything_else_can_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://{host_in(0)}/"
    bench.committer.commit(CommitGroup(seeds=[found(url)]))
    break_once(monkeypatch, bench.cells[0].frontier)
    rest = DelayEntry("server", host_in(0), NOW_S + 600, 600.0)
    with pytest.raises(DiskFull):
        bench.committer.commit(CommitGroup(visits=[bench.visit(url)], delays=[rest]))
    assert bench.ledger.delays(NOW_S) == [rest]


def test_delays_are_on_disk_before_a_step_waits_for_other_machines(bench: Bench) -> None:
    delay = DelayEntry("server", host_in(0), NOW_S + 600, 600.0)
    step = Mock()
    step.start.side_effect = DiskFull("the stream is full")
    step.can_retry.return_value = False
    bench.committer.steps = [step]
    with pytest.raises(DiskFull):
        bench.committer.commit(CommitGroup(delays=[delay]))
    assert bench.ledger.delays(NOW_S) == [delay]


@pytest.mark.parametrize("step", ["_absorb_seeds", "_commit_cell", "deliver"])
def test_a_death_at_any_step_loses_no_sitemap_of_a_robots_txt_that_is_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The robots.txt was committed first: the sitemaps that it names were not queued, nor was it read again."""
    url, sitemap = f"http://{host_in(0)}/", f"http://{host_in(0)}/sitemap.xml"
    bench.committer.commit(CommitGroup(seeds=[found(url)]))
    group = CommitGroup(visits=[bench.visit(url)], seeds=[found(sitemap, depth=1)])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.committer, step, die)
    with pytest.raises(KeyboardInterrupt):
        bench.committer.commit(group)
    frontier = bench.cells[0].frontier
    is_committed = frontier.db.execute("SELECT count(*) FROM pages").fetchone()[0] > 0
    is_known = frontier.db.execute("SELECT 1 FROM urls WHERE key = ?", (key_of(sitemap),)).fetchone() is not None
    assert is_known >= is_committed
    assert is_committed == (step == "deliver")
