"""Files that are not ours, of another version, broken, or where nothing can be written; and full disks."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.errors import CorruptFile, DiskFull, StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import SCHEMA
from teia.frontier.queue import ledger
from teia.frontier.queue.ledger import Ledger
from teia.signals import announce, indexnow, subscriptions, websub
from teia.sqlite import PRIVATE, PUBLIC, Schema, copy_before, create_database, open_database, open_to_read
from teia.web.access.accounts import Accounts
from tests.frontier.cells import NOW_S, add_links, assert_counters_are_true, found, image, page


def test_full_disk_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(cell, found(page(1)))
    before = image(cell)
    pages = cell.db.execute("PRAGMA page_count").fetchone()[0]
    cell.db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(DiskFull, match=r"frontier\.sqlite: no space left on the disk"):
        add_links(cell, *(found(page(f"{number}/{'x' * 500}")) for number in range(500)))
    assert image(cell) == before
    cell.db.execute("PRAGMA max_page_count = 1000000")
    add_links(cell, found(page(2)))
    assert_counters_are_true(cell)
    cell.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_other_version_is_refused_with_the_way_out(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "frontier.sqlite"
    FrontierCell(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA.version + 1}")
    db.close()
    with pytest.raises(
        StoreError, match=rf"format {SCHEMA.version + 1}, but this version reads {SCHEMA.version}; export"
    ) as refusal:
        FrontierCell(path, read_only=read_only)
    assert not isinstance(refusal.value, CorruptFile)


@pytest.mark.parametrize("read_only", [False, True])
def test_file_that_is_no_database_is_named(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "frontier.sqlite"
    path.write_bytes(b"this is no database, but it is long enough to look at" * 100)
    with pytest.raises(CorruptFile, match=r"frontier\.sqlite") as refusal:
        FrontierCell(path, read_only=read_only)
    assert refusal.value.path == path


def test_database_with_a_broken_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "frontier.sqlite"
    FrontierCell(path).close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(CorruptFile):
        FrontierCell(path)


@pytest.mark.parametrize(
    ("name", "open_file", "way_out"),
    [
        ("control.sqlite", CrawlReports, "no page is"),
        ("ledger.sqlite", Ledger, "no crawl for a day"),
        ("web.sqlite", lambda path: Accounts(path, WallClock()), "`teia serve` prints a code"),
        ("frontier.sqlite", FrontierCell, "teia import warc"),
    ],
)
def test_a_broken_file_is_refused_with_a_way_out(
    tmp_path: Path, name: str, open_file: Callable[[Path], object], way_out: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"whatever it was before, it is no database now" * 300)
    with pytest.raises(CorruptFile) as refusal:
        open_file(path)
    assert way_out in str(refusal.value)
    path.unlink()
    open_file(path)  # the way out leads somewhere


def unwritable(tmp_path: Path) -> list[Path]:
    """Folders in which not even root makes a file, and one without the right to write."""
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    file = tmp_path / "file"
    file.touch()
    return [Path("/proc"), tmp_path / "missing", file, *([] if os.geteuid() == 0 else [closed])]


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    for folder in unwritable(tmp_path):
        with pytest.raises(StoreError) as refusal:
            FrontierCell(folder / "frontier.sqlite")
        assert not isinstance(refusal.value, CorruptFile)
        assert str(refusal.value).startswith(f"{folder}/frontier.sqlite: ")
        assert "\n" not in str(refusal.value)


def test_reader_of_a_missing_or_empty_cell_gets_a_message(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="never crawled"):
        FrontierCell(tmp_path / "frontier.sqlite", read_only=True)
    (tmp_path / "frontier.sqlite").touch()
    with pytest.raises(StoreError, match="never crawled"):
        FrontierCell(tmp_path / "frontier.sqlite", read_only=True)


def test_reader_sees_what_is_committed_and_changes_nothing(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(cell, found(page(1)))
    reader = FrontierCell(cell.path, read_only=True)
    assert reader.known == 1
    with pytest.raises(StoreError), reader.transaction():
        reader.add_links([found(page(2))], NOW_S)
    reader.close()
    assert cell.known == 1
    cell.close()


# ---- new files ------------------------------------------------------------------------------------------------------

TABLES = "CREATE TABLE words (word TEXT PRIMARY KEY) WITHOUT ROWID;"
LOG = ("PRAGMA journal_mode = WAL",)
WORDS = Schema(1, TABLES, LOG)


def schema(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def test_new_file_is_what_sqlite_would_have_made(tmp_path: Path) -> None:
    path = tmp_path / "made.sqlite"
    create_database(path, f"{SCHEMA.ddl}{SCHEMA.added}", SCHEMA.version)
    assert [each.name for each in tmp_path.iterdir()] == ["made.sqlite"], "it is whole, without a log or another name"
    made = open_to_read(path, SCHEMA)
    plain = sqlite3.connect(tmp_path / "plain.sqlite", isolation_level=None)
    plain.executescript(f"{SCHEMA.ddl}{SCHEMA.added}")
    assert schema(made) == schema(plain)
    assert made.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert made.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for db in (made, plain):
        db.close()


@pytest.mark.parametrize(("mode", "allowed"), [(PUBLIC, 0o644), (PRIVATE, 0o600)])
@pytest.mark.parametrize("linked", [True, False])
def test_a_private_file_is_its_owners_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, allowed: int, linked: bool
) -> None:
    if not linked:
        monkeypatch.setattr(os, "link", refuse)
    before = os.umask(0)
    try:
        open_database(tmp_path / "words.sqlite", replace(WORDS, mode=mode)).close()
    finally:
        os.umask(before)
    assert (tmp_path / "words.sqlite").stat().st_mode & 0o777 == allowed


def test_log_of_a_file_that_is_gone_is_not_read_into_a_new_one(tmp_path: Path) -> None:
    """It was: a frontier had the newest numbers of its log and none of its hosts."""
    path = tmp_path / "words.sqlite"
    first = open_database(path, WORDS)
    for number in range(3):
        first.execute("INSERT INTO words VALUES (?)", (f"{number}" * 5_000,))
    log = path.with_name("words.sqlite-wal").read_bytes()
    first.close()
    path.unlink()
    path.with_name("words.sqlite-wal").write_bytes(log)  # as after a kill, and somebody removed the database alone
    second = open_database(path, WORDS)
    assert second.execute("SELECT count(*) FROM words").fetchone() == (0,)
    assert second.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    second.close()


def test_what_somebody_else_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    db = open_database(path, WORDS)
    db.execute("INSERT INTO words VALUES ('here')")
    create_database(path, TABLES, 1)  # by one who looked before it was there
    late = open_database(path, WORDS)
    assert late.execute("SELECT word FROM words").fetchall() == [("here",)]
    late.close()
    db.close()


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.mark.parametrize("linked", [True, False])
def test_many_at_once_make_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    if not linked:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "words.sqlite"

    def write(number: int) -> None:
        db = open_database(path, replace(WORDS, pragmas=(*LOG, "PRAGMA busy_timeout = 10000")))
        db.execute("INSERT INTO words VALUES (?)", (str(number),))
        db.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(24)))
    db = open_database(path, WORDS)
    assert db.execute("SELECT count(*) FROM words").fetchone() == (24,)
    db.close()


def test_where_files_need_names_sqlite_makes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "words.sqlite"
    create_database(path, TABLES, 1)
    assert not path.exists()
    db = open_database(path, WORDS)
    assert db.execute("SELECT count(*) FROM words").fetchone() == (0,)
    db.close()


def test_new_file_in_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/words\.sqlite: cannot be created: No such file"):
        open_database(tmp_path / "nowhere" / "words.sqlite", WORDS)


# ---- files of the version before ------------------------------------------------------------------------------------

BEFORE = {
    "ledger": (
        ledger.SCHEMA,
        """
        CREATE TABLE places (
            kind TEXT NOT NULL, name TEXT NOT NULL, ready_at_s REAL NOT NULL, rest_s REAL NOT NULL,
            PRIMARY KEY (kind, name)
        ) WITHOUT ROWID;
        CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE shared (address TEXT PRIMARY KEY, sites INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO places VALUES ('server', 'a.test', 5000.0, 30.0);
        """,
        {"delays": [("server", "a.test", 5000.0, 30.0)]},
    ),
    "signals": (
        replace(announce.SCHEMA, added=indexnow.TABLES),
        """
        CREATE TABLE inbox (
            kind TEXT NOT NULL, url TEXT NOT NULL, said_s REAL NOT NULL, seen_s REAL NOT NULL, times INTEGER NOT NULL,
            PRIMARY KEY (kind, url)
        ) WITHOUT ROWID;
        CREATE INDEX by_age ON inbox (kind, seen_s);
        CREATE TABLE counts (kind TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (kind, what))
            WITHOUT ROWID;
        CREATE TABLE signals_keys (
            host TEXT NOT NULL, key TEXT NOT NULL, location TEXT NOT NULL, state TEXT NOT NULL, since_s REAL NOT NULL,
            PRIMARY KEY (host, key, location)
        ) WITHOUT ROWID;
        CREATE TABLE signals_told (
            host TEXT NOT NULL, key TEXT NOT NULL, location TEXT NOT NULL, url TEXT NOT NULL, said_s REAL NOT NULL,
            PRIMARY KEY (host, key, location, url)
        ) WITHOUT ROWID;
        INSERT INTO inbox VALUES ('proxy', 'http://a.test/', 1.0, 2.0, 3);
        INSERT INTO signals_told VALUES ('a.test', 'k', 'http://a.test/k.txt', 'http://a.test/', 4.0);
        """,
        {
            "inbox": [("proxy", "http://a.test/", 1.0, 2.0, 3)],
            "signals_pending": [("a.test", "k", "http://a.test/k.txt", "http://a.test/", 4.0)],
        },
    ),
    "hubs": (
        websub.SCHEMA,
        """
        CREATE TABLE hubs (
            feed TEXT PRIMARY KEY, topic TEXT NOT NULL, hub TEXT NOT NULL, mode TEXT NOT NULL, state TEXT NOT NULL,
            key TEXT NOT NULL UNIQUE, callback TEXT NOT NULL, secret TEXT NOT NULL, asked_s REAL NOT NULL,
            until_s REAL NOT NULL, again_s REAL NOT NULL, tries INTEGER NOT NULL, outcome TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX hubs_due ON hubs (again_s);
        INSERT INTO hubs VALUES ('f', 't', 'h', 'm', 's', 'k', 'c', 'x', 1.0, 2.0, 3.0, 4, '');
        """,
        {"hubs": [("f", "t", "h", "m", "s", "k", "c", "x", 1.0, 2.0, 3.0, 4, "")]},
    ),
    "subscriptions": (
        subscriptions.SCHEMA,
        subscriptions.SCHEMA.ddl.replace("CREATE TABLE notified", "CREATE TABLE told")
        + "INSERT INTO told VALUES ('s', 7, 8.0);",
        {"notified": [("s", 7, 8.0)]},
    ),
}
"""For each file: its schema, the tables of the version before with rows, and those rows by the names of today."""


@pytest.mark.parametrize("name", BEFORE)
def test_a_file_of_the_version_before_gets_the_names_of_today(tmp_path: Path, name: str) -> None:
    today, ddl, rows = BEFORE[name]
    path = tmp_path / name
    create_database(path, ddl, today.version - 1)
    for open_file in (open_to_read, open_database, open_to_read):  # as it is, migrated, and again
        with closing(open_file(path, today)) as db:
            found = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in rows}
            # Columns that a writer adds come last.
            assert {table: [row[: len(rows[table][0])] for row in found[table]] for table in found} == rows
    with closing(open_to_read(path, today)) as db, closing(open_database(tmp_path / "new", today)) as new:
        assert columns(db) == columns(new)
    copy = copy_before(path, today.version - 1)
    assert copy.stat().st_mode & 0o777 & ~0o644 == 0
    assert today.mode != PRIVATE or copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as old, closing(sqlite3.connect(":memory:")) as made:
        made.executescript(ddl)
        assert list(old.iterdump()) == list(made.iterdump()), "the older teia finds what it wrote"
        assert old.execute("PRAGMA user_version").fetchone() == (today.version - 1,)
    assert {each.name.removeprefix(name) for each in tmp_path.glob(f"{name}*")} <= {
        "",
        f".v{today.version - 1}",
        "-wal",
        "-shm",
    }


def test_a_migration_without_room_for_the_copy_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    today, ddl, rows = BEFORE["ledger"]
    path = tmp_path / "ledger"
    create_database(path, ddl, today.version - 1)

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", no_room)
    with pytest.raises(DiskFull):
        open_database(path, today)
    assert [each.name for each in tmp_path.iterdir() if "v1" in each.name] == []
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM places").fetchall() == rows["delays"]


def columns(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Return (kind, table, column) of a whole file, indexes included."""
    sql = "SELECT m.type, m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
    return set(db.execute(sql).fetchall() + db.execute("SELECT type, tbl_name, name FROM sqlite_master").fetchall())


GROWN = Schema(
    3, "CREATE TABLE named (a INTEGER, b INTEGER NOT NULL DEFAULT 7); CREATE TABLE more (x);",
    renamed={"before": ("named", {})}, oldest=1, filled={1: "UPDATE named SET b = 9;"},
)  # fmt: skip


@pytest.mark.parametrize("crashed", ["", "ALTER TABLE before RENAME TO named;"], ids=["whole", "after a crash"])
def test_a_file_that_lacks_tables_and_columns_is_completed(tmp_path: Path, crashed: str) -> None:
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE before (a INTEGER); INSERT INTO before VALUES (1); PRAGMA user_version = 1;")
        db.executescript(crashed)
    untouched = path.read_bytes()
    with closing(open_to_read(path, GROWN)) as db:
        assert db.execute("SELECT a, b FROM named").fetchall() == [(1, 9)]
        assert db.execute("SELECT * FROM more").fetchall() == []
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM named")
    assert path.read_bytes() == untouched
    with closing(open_database(path, GROWN)) as db:
        assert db.execute("SELECT a, b FROM named").fetchall() == [(1, 9)]
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
    assert copy_before(path, 1).exists()
