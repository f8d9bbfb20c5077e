"""What a transaction wrote, done again elsewhere, gives the same file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import NEWEST_FORMAT, RecordingConnection, applied_seq, apply
from teia.frontier.cell.mail import decode_links, post
from teia.frontier.cell.reconsider import END, progress, reconsider
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.traps.watch import TrapWatch
from teia.urls import key_of

from .random_cells import dump


class MemoryJournal:
    """A journal in memory."""

    def __init__(self, changes_format: int = NEWEST_FORMAT) -> None:
        self.format = changes_format
        self.changes: list[bytes] = []
        self.posted: list[tuple[int, bytes]] = []
        self.sent = 0
        self.forgotten: list[int] = []
        self.refuses = False

    @property
    def has_posts(self) -> bool:
        return len(self.posted) > self.sent

    def post(self, to_cell: int, bulk: bytes) -> None:
        self.posted.append((to_cell, bulk))

    def publish(self, changes: bytes) -> int:
        if self.refuses:
            raise ClusterError("stale")
        self.sent = len(self.posted)
        self.changes.append(changes)
        return len(self.changes)

    def forget(self, published: int) -> None:
        self.forgotten.append(published)


def found(path: str, host: str = "a.test", depth: int = 1) -> FoundUrl:
    return FoundUrl(host, key_of(f"http://{host}{path}"), path, depth)


def copied(journal: MemoryJournal, path: Path, upto: int | None = None) -> Path:
    """Another file, to which what the journal has was done."""
    cell = FrontierCell(path, journal=MemoryJournal())
    assert isinstance(cell.db, RecordingConnection)
    have = applied_seq(cell.db)
    apply(cell.db, enumerate(journal.changes[have:upto], have + 1))
    cell.close()
    return path


def write_some(cell: FrontierCell, now_s: float = 100.0) -> None:
    """Hosts, URLs, merges, a trap watch's tables, robots.txt, deletions: many kinds of statements."""
    for turn in range(5):
        with cell.transaction():
            cell.add_links([found(f"/{turn}/{n}", f"h{n % 3}.test", turn + 1) for n in range(40)], now_s + turn)
            cell.add_links([found(f"/{turn}/{n}", f"h{n % 3}.test", 1) for n in range(0, 40, 2)], now_s + turn)
            if cell.watch is not None:
                cell.watch.evaluate()
            host = cell.host_id("h1.test", now_s)
            cell.store_robots(host, "h1.test", "http://h1.test", now_s, "200", 200, b"\x00User-agent: *\xff")
            cell.count_requests([(host, 1000, "10.0.0.1", 0.25)])
            item = cell.next_urls(host, "h1.test", 1, (), now_s + 1000)[0]
            cell.withdraw(*place_of(cell, host, item.key), "robots", lane=item.lane, rank=item.rank)


def place_of(cell: FrontierCell, host_id: int, key: int) -> tuple[int, int, int]:
    row = cell.db.execute("SELECT slot FROM urls WHERE host_id = ? AND key = ?", (host_id, key)).fetchone()
    return row[0], host_id, key


def test_a_copy_that_got_every_change_is_the_same_file(tmp_path: Path) -> None:
    """NATS.md 3.2: SQLite is a prefix of the log."""
    journal = MemoryJournal()
    cell = FrontierCell(tmp_path / "a.sqlite", journal=journal)
    cell.watch = TrapWatch(cell, 10)
    write_some(cell)
    cell.close()
    copy = copied(journal, tmp_path / "b.sqlite", upto=3)
    assert dump(copy) != dump(tmp_path / "a.sqlite")
    assert dump(copied(journal, copy)) == dump(tmp_path / "a.sqlite")


def test_a_file_that_is_journalled_is_the_same_as_one_that_is_not(tmp_path: Path) -> None:
    for name, journal in (("plain", None), ("kept", MemoryJournal())):
        cell = FrontierCell(tmp_path / name, journal=journal)
        write_some(cell)
        cell.close()
    assert dump(tmp_path / "plain") == dump(tmp_path / "kept")


def test_what_could_not_be_published_is_not_committed(tmp_path: Path) -> None:
    journal = MemoryJournal()
    cell = FrontierCell(tmp_path / "a", journal=journal)
    write_some(cell)
    before = (cell.known, cell.queued, dump(tmp_path / "a"))
    journal.refuses = True
    with pytest.raises(ClusterError), cell.transaction():
        cell.add_links([found("/new")], 200.0)
    assert (cell.known, cell.queued, dump(tmp_path / "a")) == before
    assert journal.forgotten == [0]
    journal.refuses = False
    with cell.transaction():
        cell.add_links([found("/other")], 200.0)
    cell.close()
    assert dump(copied(journal, tmp_path / "b")) == dump(tmp_path / "a")


def test_a_transaction_that_wrote_nothing_publishes_nothing(tmp_path: Path) -> None:
    journal = MemoryJournal()
    cell = FrontierCell(tmp_path / "a", journal=journal)
    with cell.transaction():
        list(cell.hosts_with_work())
    assert journal.changes == []
    with suppress(ValueError), cell.transaction():
        cell.add_links([found("/x")], 1.0)
        raise ValueError
    assert journal.changes == []
    cell.close()


def test_links_for_other_cells_go_with_the_transaction_and_not_through_the_outbox(tmp_path: Path) -> None:
    journal = MemoryJournal()
    cell = FrontierCell(tmp_path / "a", journal=journal)
    links = [found(f"/{n}", "other.test") for n in range(2_500)]
    with cell.transaction():
        post(cell, 3, links)
    assert cell.db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    assert [to for to, _ in journal.posted] == [3, 3, 3]
    assert [link for _, bulk in journal.posted for link in decode_links(bulk)] == links
    cell.close()


def test_changes_that_are_none_are_refused(tmp_path: Path) -> None:
    """RELIABILITY 56: what comes from outside changes tables of ours and nothing else."""
    import msgspec

    cell = FrontierCell(tmp_path / "a", journal=MemoryJournal())
    assert isinstance(cell.db, RecordingConnection)
    for changes, says in (
        (b"junk", "cannot be read"),
        (msgspec.msgpack.encode([1, 99, [], []]), "run the same version"),
        (msgspec.msgpack.encode([1, 3, ["ATTACH '/tmp/x' AS x"], [[0, [[]]]]]), "not a change of a cell"),
        (msgspec.msgpack.encode([1, 3, ["PRAGMA journal_mode = OFF"], [[0, [[]]]]]), "not a change of a cell"),
    ):
        with pytest.raises(ClusterError, match=says):
            apply(cell.db, [(1, changes)])
    assert applied_seq(cell.db) == 0
    with pytest.raises(ClusterError, match="neither a change nor a query"):
        cell.db.execute("VACUUM")
    cell.close()


def test_that_an_empty_cell_was_judged_is_no_record_of_its_own(tmp_path: Path) -> None:
    """Issue 7: at most 2 messages a page, also in brief crawls; it goes with the first change."""
    journal = MemoryJournal()
    cell = FrontierCell(tmp_path / "cell.sqlite", journal=journal)
    with cell.transaction():
        assert reconsider(cell, "these settings", lambda _: True, lambda: True) == []
    assert journal.changes == []
    assert progress(cell, "these settings") == END
    journal.refuses = True
    with suppress(ClusterError), cell.transaction():
        cell.add_links([found("/1")], 100.0)
    assert progress(cell, "these settings") == END
    journal.refuses = False
    with cell.transaction():
        cell.add_links([found("/1")], 100.0)
    cell.close()
    assert len(journal.changes) == 1
    assert dump(copied(journal, tmp_path / "copy.sqlite")) == dump(tmp_path / "cell.sqlite")
    again = FrontierCell(tmp_path / "copy.sqlite", journal=MemoryJournal())
    assert progress(again, "these settings") == END
    assert progress(again, "others") != END
    again.close()
