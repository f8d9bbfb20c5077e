"""A file, a log and a site on its way of version 3 are read; what is written for a node of version 3 has its names."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.frontier.cell import move_site, shorter_paths
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.histories import host_trust
from teia.frontier.cell.journal import STATEMENTS
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT, TO_NEW, TO_OLD, translate_statement
from teia.frontier.cell.schema import RENAMED, VERSION
from teia.frontier.cell.site_statements import has_tables, sources_of, statements_of_pages, trust_of
from teia.frontier.cell.split import copy_cell
from teia.frontier.tables.pages import compared_visits
from teia.frontier.traps.pattern_table import HostPatterns, suspicious_hosts
from teia.sqlite import rename_tables

from .renamed_rows import HOST, SLOT, contents, old_file, old_records, write_renamed
from .test_journal import MemoryJournal, copied

ALL_KEYS = (-(1 << 63), (1 << 63) - 1)
Contents = dict[str, tuple[list[str], list[Any]]]


def with_new_names(old: Contents) -> Contents:
    """Return the tables of version 3 under their present names."""
    new = {}
    for table, (columns, rows) in old.items():
        name, words = RENAMED.get(table, (table, {}))
        new[name] = [words.get(column, column) for column in columns], rows
    return new


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def read(cell: FrontierCell) -> list[Any]:
    """Read every renamed table with the verbs that others use."""
    patterns = HostPatterns(HOST, 1, SLOT)
    patterns.load(cell)
    return [
        has_tables(cell),
        statements_of_pages(cell, SLOT, 1, *ALL_KEYS),
        sources_of(cell, SLOT, 1),
        trust_of(cell, SLOT, 1),
        host_trust(cell, SLOT, 1),
        shorter_paths.pending(cell, 9),
        [(each.text, each.parent, each.state, each.reason) for each in patterns.by_number.values()],
        suspicious_hosts(cell),
        list(compared_visits(cell, SLOT, 1, *ALL_KEYS, 99)),
    ]


def test_a_file_of_version_3_has_rows_in_all_that_was_renamed(tmp_path: Path) -> None:
    found = contents(old_file(tmp_path / "old"))
    for table, (_, columns) in RENAMED.items():
        assert found[table][1], table
        assert set(columns) <= set(found[table][0])


def test_a_file_of_version_3_is_migrated_when_it_is_opened(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    expected = with_new_names(contents(path))
    with closing(FrontierCell(path)) as cell:
        migrated = read(cell)
    assert all(migrated)
    assert contents(path) == expected
    assert version_of(path) == VERSION
    with closing(FrontierCell(tmp_path / "new")) as cell:
        write_renamed(cell)
        assert read(cell) == migrated
    assert contents(tmp_path / "new") == expected
    assert schema_of(path) == schema_of(tmp_path / "new")


def schema_of(path: Path) -> set[tuple[str, str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return set(db.execute("SELECT type, name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL"))


def test_a_file_of_version_3_is_read_as_it_is_by_one_who_may_not_write(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    before = path.read_bytes()
    with closing(FrontierCell(path, read_only=True)) as cell:
        unmigrated = read(cell)
    assert path.read_bytes() == before
    with closing(FrontierCell(path)) as cell:
        assert read(cell) == unmigrated


def test_a_reader_continues_when_its_file_is_migrated(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    with closing(FrontierCell(path, read_only=True)) as reader, closing(FrontierCell(path, read_only=True)) as late:
        before = read(reader)
        late.begin_snapshot()
        FrontierCell(path).close()
        assert read(reader) == read(late) == before
        late.end_snapshot()
        assert read(reader) == read(late) == before


def test_a_reader_continues_after_a_snapshot_that_saw_the_migration(tmp_path: Path) -> None:
    """The end of the snapshot brought back the views of the old names, and nothing removed them any more."""
    path = old_file(tmp_path / "old")
    with closing(FrontierCell(path, read_only=True)) as reader:
        before = read(reader)
        FrontierCell(path).close()
        for _ in range(2):
            reader.begin_snapshot()
            assert read(reader) == before
            reader.end_snapshot()
            assert read(reader) == before
        with pytest.raises(sqlite3.OperationalError, match="no such table: missing"):
            reader.db.execute("SELECT * FROM missing")


def test_tables_that_an_older_cell_lacks_are_neither_shown_nor_renamed(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    with closing(sqlite3.connect(path)) as db:
        for table in ("said", "speakers", "voices"):
            db.execute(f"DROP TABLE {table}")
    with closing(FrontierCell(path, read_only=True)) as cell:
        assert not has_tables(cell)
    with closing(FrontierCell(path)) as cell:
        assert has_tables(cell)
        assert sources_of(cell, SLOT, 1) == []


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from teia import sqlite
from teia.frontier.cell.schema import SCHEMA

class Killed(sqlite3.Connection):
    def executescript(self, script):
        done = []
        def trace(sql):
            if sys.argv[2] in sql and len(done) > 3:
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(sql)
        self.set_trace_callback(trace)
        return super().executescript(script)

sqlite.open_database(Path(sys.argv[1]), SCHEMA, Killed)
"""


@pytest.mark.parametrize("at", ["RENAME COLUMN", "RENAME TO", "COMMIT"])
def test_a_migration_that_was_killed_is_done_again(tmp_path: Path, at: str) -> None:
    path = old_file(tmp_path / "old")
    before = contents(path)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), at], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert (version_of(path), contents(path)) == (VERSION - 1, before)
    FrontierCell(path).close()
    assert (version_of(path), contents(path)) == (VERSION, with_new_names(before))


def test_of_two_who_migrate_at_once_the_second_finds_it_done(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old")
    expected = with_new_names(contents(path))

    class Late(sqlite3.Connection):
        def executescript(self, script: str, /) -> sqlite3.Cursor:
            FrontierCell(path).close()
            return super().executescript(script)

    with closing(sqlite3.connect(path, isolation_level=None, factory=Late)) as db:
        rename_tables(db, RENAMED, VERSION)
    assert contents(path) == expected


# ---- a cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_a_log_of_version_3_is_replayed(tmp_path: Path, number: int) -> None:
    journal = MemoryJournal()
    journal.changes = old_records()[number]
    expected = with_new_names(contents(old_file(tmp_path / "old")))
    assert contents(copied(journal, tmp_path / "copy")) == expected


@pytest.mark.parametrize("number", [1, 2])
def test_a_log_for_a_node_of_version_3_is_as_that_would_write_it(tmp_path: Path, number: int) -> None:
    journal = MemoryJournal(number)
    with closing(FrontierCell(tmp_path / "new", journal=journal)) as cell:
        write_renamed(cell)
    written, expected = ([msgspec.msgpack.decode(each) for each in records] for records in
                         (journal.changes, old_records()[number]))  # fmt: skip
    if number != STATEMENTS:  # the tables come in the order of their names, which has no meaning
        for record in (*written, *expected):
            record[1].sort(key=lambda group: group[:3])
    assert written == expected


def test_a_log_has_the_present_names_when_all_nodes_know_them(tmp_path: Path) -> None:
    journal = MemoryJournal(NEW_NAMES_FORMAT)
    with closing(FrontierCell(tmp_path / "new", journal=journal)) as cell:
        write_renamed(cell)
    records = [msgspec.msgpack.decode(each) for each in journal.changes]
    assert {format_ for format_, _ in records} == {NEW_NAMES_FORMAT}
    tables = {group[0] for _, groups in records for group in groups}
    assert {name for name, _ in RENAMED.values()} <= tables
    assert not tables & (RENAMED.keys() - {"visits", "patterns"})
    assert contents(copied(journal, tmp_path / "copy")) == contents(tmp_path / "new")


def test_a_column_is_translated_where_its_table_is_named() -> None:
    old = "UPDATE said SET heard_s = said_s, open_s = ? WHERE key = ?"
    new = "UPDATE site_statements SET checked_s = reported_s, open_s = ? WHERE key = ?"
    assert (translate_statement(TO_NEW, old), translate_statement(TO_OLD, new)) == (new, old)
    of_urls = "UPDATE urls SET state = ? WHERE text = ?"
    assert translate_statement(TO_OLD, of_urls) == translate_statement(TO_NEW, of_urls) == of_urls


@pytest.mark.parametrize("number", [1, 2])
def test_a_snapshot_for_a_node_of_version_3_has_its_names(tmp_path: Path, number: int) -> None:
    with closing(FrontierCell(tmp_path / "new")) as cell:
        write_renamed(cell)
    copy_cell(tmp_path / "new", tmp_path / "snapshot", number)
    assert {each.name for each in tmp_path.glob("snapshot*")} == {"snapshot"}, "a snapshot is this one file"
    old = old_file(tmp_path / "old")
    assert (version_of(tmp_path / "snapshot"), contents(tmp_path / "snapshot")) == (VERSION - 1, contents(old))
    copy_cell(tmp_path / "new", tmp_path / "present", NEW_NAMES_FORMAT)
    assert contents(tmp_path / "present") == contents(tmp_path / "new")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_site_moves_between_nodes_of_two_versions(tmp_path: Path, number: int) -> None:
    journal = MemoryJournal(number)
    with closing(FrontierCell(tmp_path / "from", journal=journal)) as cell:
        write_renamed(cell)
        expected = read(cell)
        with cell.transaction():
            move_site.send(cell, "a.test", 3, {})
    parts = [bulk for _, bulk in journal.posted]
    sent = [msgspec.msgpack.decode(zlib.decompress(part[len(move_site.MARK) :])) for part in parts]
    tables = {table for part in sent for table, _ in part[6]}
    assert {part[1] for part in sent} == {VERSION - (number < NEW_NAMES_FORMAT)}
    assert ("said" in tables, "site_statements" in tables) == (number < NEW_NAMES_FORMAT, number >= NEW_NAMES_FORMAT)
    with closing(FrontierCell(tmp_path / "to")) as cell:
        with cell.transaction():
            for part in parts:
                move_site.store_part(cell, move_site.decode_part(part))
        assert read(cell) == expected
