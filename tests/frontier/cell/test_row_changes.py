"""Row changes: what SQLite noted of a transaction gives the same file elsewhere, and holds no more than it must."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import NEWEST_FORMAT, RecordingConnection, applied_seq, apply
from teia.frontier.cell.mail import post
from teia.frontier.cell.schema import RENAMED, VERSION
from teia.frontier.cell.split import delete_slots
from teia.sqlite import rename_tables
from teia.urls import SLOTS

from .random_cells import change_at_random, dump
from .renamed_rows import contents
from .test_journal import MemoryJournal, copied, found, write_some

RECORDED = Path(__file__).with_name("format1.log")
FORMATS = (1, 2, 3)


def groups(changes: bytes) -> list[Any]:
    """Return the groups of a record: (table, kind, columns, rows)."""
    version, done = msgspec.msgpack.decode(changes)
    assert version == NEWEST_FORMAT
    return done  # type: ignore[no-any-return]


@pytest.fixture
def cell(tmp_path: Path) -> Any:
    with closing(FrontierCell(tmp_path / "cell.sqlite", journal=MemoryJournal())) as cell:
        yield cell


def journal_of(cell: FrontierCell) -> MemoryJournal:
    assert isinstance(cell.journal, MemoryJournal)
    return cell.journal


@pytest.mark.parametrize("seed", range(4))
def test_random_transactions_give_the_same_file_in_all_formats(tmp_path: Path, seed: int) -> None:
    journals = {number: MemoryJournal(number) for number in FORMATS}
    for number, journal in journals.items():
        with closing(FrontierCell(tmp_path / f"{number}", journal=journal)) as cell:
            change_at_random(cell, seed, 40)
    expected = without_captures(tmp_path / "1")
    assert without_captures(tmp_path / "2") == without_captures(tmp_path / "3") == expected
    for number, journal in journals.items():
        copy = copied(journal, tmp_path / f"copy of {number}")
        assert without_captures(copy) == expected
        assert dump(copy) == dump(tmp_path / f"{number}")


def without_captures(path: Path) -> list[str]:
    """The rows without the counter of captures, which exists only in the newest format."""
    return [line for line in dump(path) if "'captures'" not in line]


def test_the_formats_may_change_from_record_to_record(tmp_path: Path) -> None:
    journal = MemoryJournal()
    with closing(FrontierCell(tmp_path / "a", journal=journal)) as cell:
        for turn in range(6):
            journal.format = FORMATS[turn % 3]
            change_at_random(cell, turn, 5)
    assert {changes[1] for changes in journal.changes} == {*FORMATS}
    assert dump(copied(journal, tmp_path / "b")) == dump(tmp_path / "a")
    with closing(FrontierCell(tmp_path / "a", read_only=True)) as cell:
        (visits,) = cell.row("SELECT count(*) FROM visits WHERE length > 0")
        assert cell.captures == visits, "also after records of nodes that do not count them"


def test_a_log_that_the_version_before_wrote_is_replayed(tmp_path: Path) -> None:
    """Made by the teia before format 2: `change_at_random(cell, 7, 30)`, its records and its file."""
    recorded = zlib.decompress(RECORDED.read_bytes())
    records, expected = msgspec.msgpack.decode(recorded, type=tuple[list[bytes], list[str]])
    journal = MemoryJournal()
    journal.changes = records
    assert len(records) > 15
    with closing(sqlite3.connect(tmp_path / "old")) as db:
        db.executescript("\n".join(expected))
        rename_tables(db, RENAMED, VERSION)
    assert contents(copied(journal, tmp_path / "copy")) == contents(tmp_path / "old")


def test_records_are_no_larger_than_those_of_statements(tmp_path: Path) -> None:
    sizes = {}
    for number in FORMATS:
        journal = MemoryJournal(number)
        with closing(FrontierCell(tmp_path / f"{number}", journal=journal)) as cell:
            write_some(cell)
        sizes[number] = sum(map(len, journal.changes))
    assert max(sizes[2], sizes[3]) < sizes[1]


def test_every_table_is_recorded_whatever_its_columns_are_called(cell: FrontierCell) -> None:
    tables = cell.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in tables:
        columns = cell.db.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
        samples: dict[str, Any] = {"INTEGER": 7, "REAL": 0.5, "TEXT": "x", "BLOB": b"\x00", "": None}
        row = [samples[kind] for _, kind, _ in columns]
        marks = ", ".join("?" * len(row))
        with cell.transaction():
            cell.db.execute(f'INSERT INTO "{name}" VALUES ({marks})', row)
        with cell.transaction():
            for column, kind, place in columns:
                if not place and kind:
                    cell.db.execute(f'UPDATE "{name}" SET "{column}" = ?', (samples[kind] * 2,))
        with cell.transaction():
            cell.db.execute(f'INSERT OR IGNORE INTO "{name}" VALUES ({marks})', row)
            key = next(column for column, _, place in columns if place == 1)
            cell.db.execute(f'UPDATE "{name}" SET "{key}" = ? WHERE "{key}" = ?', ("y" if row[0] == "x" else 8, row[0]))
    changed = {(group[0], group[1]) for changes in journal_of(cell).changes for group in groups(changes)}
    assert {name for (name,) in tables} == {name for name, kind in changed if kind == "put"}
    assert dump(copied(journal_of(cell), cell.path.with_name("copy"))) == dump(cell.path)


def test_a_record_holds_no_sql(tmp_path: Path) -> None:
    """Nodes of two versions need not have the same statements."""
    journal = MemoryJournal()
    with closing(FrontierCell(tmp_path / "a", journal=journal)) as cell:
        change_at_random(cell, 3, 20)
    for word in (b"INSERT", b"UPDATE", b"DELETE", b"WHERE"):
        assert word not in b"".join(journal.changes)


def test_a_row_that_is_written_often_is_one_change(cell: FrontierCell) -> None:
    with cell.transaction():
        for value in range(10):
            cell.db.execute("INSERT OR REPLACE INTO meta VALUES ('x', ?)", (value,))
    (meta,) = groups(journal_of(cell).changes[0])
    assert meta[:3] == ["meta", "put", ["name", "value"]]
    assert ["x", 9] in meta[3]
    assert len(meta[3]) == 4  # with the three counters


def test_an_update_holds_the_key_and_the_changed_columns(cell: FrontierCell) -> None:
    with cell.transaction():
        cell.add_links([found("/a/long/path/that/never/changes")], 1.0)
    with cell.transaction():
        cell.db.execute("UPDATE urls SET state = 1, outcome = '200', depth = depth")
        cell.db.execute("UPDATE urls SET failures = failures")
    (urls,) = [group for group in groups(journal_of(cell).changes[1]) if group[0] == "urls"]
    assert urls[1:3] == ["set", ["slot", "host_id", "key", "state", "outcome"]]
    assert b"never" not in journal_of(cell).changes[1]


def test_an_update_that_changes_nothing_is_no_record(cell: FrontierCell) -> None:
    with cell.transaction():
        cell.add_links([found("/")], 1.0)
    with cell.transaction():
        cell.db.execute("UPDATE urls SET depth = depth")
    assert len(journal_of(cell).changes) == 1


def test_a_transaction_that_only_posts_has_a_record_without_changes(cell: FrontierCell) -> None:
    """No statement without an effect has to carry the posts."""
    for number in (3, 2, 1):
        journal_of(cell).format = number
        with cell.transaction():
            post(cell, 3, [found("/", "other.test")])
    empty = [msgspec.msgpack.decode(changes) for changes in journal_of(cell).changes]
    assert empty == [[3, []], [2, []], [1, 3, [], []]]
    assert applied_seq(cell.db) == 3


def test_a_split_is_one_short_change_for_each_table(cell: FrontierCell) -> None:
    with cell.transaction():
        cell.add_links([found(f"/{n}", f"h{n % 50}.site{n % 50}.test") for n in range(2_000)], 1.0)
    with cell.transaction():
        gone = delete_slots(cell, 8, 0, SLOTS, ())
    with cell.transaction():  # the triggers are back
        cell.add_links([found("/", "new.test")], 1.0)
    assert gone == 2_000
    assert len(journal_of(cell).changes[1]) < 2_000
    assert {group[1] for group in groups(journal_of(cell).changes[1])} == {"cut", "put"}
    assert dump(copied(journal_of(cell), cell.path.with_name("copy"))) == dump(cell.path)


def test_columns_that_a_record_lacks_get_their_defaults(cell: FrontierCell) -> None:
    """A later version adds a column; records of the version before still fit."""
    assert isinstance(cell.db, RecordingConnection)
    row = [1, 2, "a.test", 5.0]
    apply(cell.db, [(1, _changes("hosts", "put", ["host_id", "slot", "name", "found_s"], row))])
    assert cell.db.execute("SELECT * FROM hosts").fetchall() == [(1, 2, "a.test", 5.0, 0, 0, "", "", 0.0)]


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (("planets", "put", ["name"], ["x"]), "no table 'planets'"),
        (("hosts", "put", ["host_id", "colour"], [1, "red"]), "'hosts' has no column 'colour'"),
        (("hosts", "merge", ["host_id"], [1]), "'merge' of 'hosts'"),
        (("hosts", "delete", ["name"], ["x"]), "'delete' of 'hosts'"),
        (("hosts", "set", ["name", "host_id"], ["x", 1]), "'set' of 'hosts'"),
        (("hosts", "delete", ["host_id"], [1, 2]), "cannot be read"),
        (("hosts", "delete", ["host_id"], [{}]), "cannot be read"),
        (("hosts", "delete", ["host_id"], [2**64 - 1]), "cannot be read"),
    ],
)
def test_what_a_reader_does_not_know_is_named_and_nothing_is_changed(
    cell: FrontierCell, group: tuple[Any, ...], says: str
) -> None:
    assert isinstance(cell.db, RecordingConnection)
    good = ("hosts", "put", ["host_id", "slot", "name", "found_s"], [1, 2, "a.test", 5.0])
    with pytest.raises(ClusterError, match=f"record 2 .*{says}|record 2 {says}"):
        apply(cell.db, [(1, _changes(*good)), (2, _changes(*group))])
    assert cell.db.execute("SELECT count(*) FROM hosts").fetchone() == (0,)
    assert applied_seq(cell.db) == 0


def test_a_record_of_a_later_format_is_refused_with_advice(cell: FrontierCell) -> None:
    assert isinstance(cell.db, RecordingConnection)
    with pytest.raises(ClusterError, match=r"newer teia \(format 4 of changes, [^;]*; upgrade this node$"):
        apply(cell.db, [(1, msgspec.msgpack.encode([4, []]))])


def _changes(table: str, kind: str, columns: list[str], row: list[Any]) -> bytes:
    return msgspec.msgpack.encode((NEWEST_FORMAT, [(table, kind, columns, [row])]))
