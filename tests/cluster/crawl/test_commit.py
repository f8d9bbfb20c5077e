"""The commit of a node whose cell is lost in the middle of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.cluster.cells.log import CellLost
from teia.cluster.crawl.ownership import NodeOwnership
from teia.crawler.commit import CommitGroup
from teia.crawler.running_collection import Crawl
from teia.frontier.cell.cell import FrontierCell
from tests.contract.test_ownership import WEB, Owned, node
from tests.crawler.offline import offline_crawl


def lose(monkeypatch: pytest.MonkeyPatch, number: int, frontier: FrontierCell) -> None:
    """Let NATS refuse every record of a cell, as it does once another node has the cell."""
    transaction = frontier.transaction

    @contextmanager
    def lost() -> Iterator[FrontierCell]:
        with transaction() as written:
            yield written
            raise CellLost(number, "b owns it")

    monkeypatch.setattr(frontier, "transaction", lost)


@contextmanager
def page_of_lost_cell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Owned, Crawl]]:
    """A node with a page that waits for its commit, and whose cell is lost."""
    with offline_crawl(WEB, folder, "http://a.test/") as offline:
        owned, crawl = Owned(offline, node), offline.crawl
        assert isinstance(owned.ownership, NodeOwnership)
        crawl.committer.cells = owned.ownership.exchange.cells
        groups: list[CommitGroup] = []
        monkeypatch.setattr(offline, "_commit", groups.append)
        offline.run(1)
        (visit,) = groups[0].visits
        owned.queue.exhausted, visit.queue, crawl._seeds = True, owned.queue, []
        crawl.note_start(visit)
        crawl.conclude(visit, owned.now)
        number = crawl.committer.cell_number("a.test")
        lose(monkeypatch, number, crawl.committer.cells[number].frontier)
        yield owned, crawl


def test_hosts_of_a_cell_that_is_lost_during_a_commit_get_no_urls_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped node ended with KeyError(1): a page of cell 1 had brought a link to its own host, which had no more.

    The failed transaction had noted the host as one with new work, so the second try read the host's next URLs.
    """
    with page_of_lost_cell(tmp_path, monkeypatch) as (owned, crawl):
        group = crawl.take_group(owned.now, 0.0)
        assert [order[0] for order in group.refills_if_new] == [owned.queue]
        crawl.apply_commit(crawl.committer.commit(group), owned.schedule, VirtualClock())
        assert crawl.open_pages == 0, "the visit is left to the cell's next owner"
        assert not owned.queue.buffer
        assert owned.queue not in crawl._low_buffers, "nobody asks for more URLs of a cell that is gone"


def test_pages_of_a_lost_cell_do_not_count_for_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each left its size among the bytes that wait to be written, until the crawl took its quota for used up."""
    with page_of_lost_cell(tmp_path, monkeypatch) as (owned, crawl):
        assert crawl.awaited_bytes > 0
        group = crawl.take_group(owned.now, 0.0)
        crawl.apply_commit(crawl.committer.commit(group), owned.schedule, VirtualClock())
        assert crawl.awaited_bytes == 0
