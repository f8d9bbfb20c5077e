"""The interface to SQLite: create and open files, check their versions, run transactions, translate errors.

A new file is written whole: its tables are created in memory once, and that image is linked to the file's name. So
there is no half-made database; four cells cost two syncs each instead of ten, and the DDL is parsed once.

`user_version` is the version of a file's tables; another one is refused. The version before is accepted where all that
changed since are names (`Schema.renamed`), and those from `Schema.oldest` on, which lack tables and columns too. A
writer migrates the file and keeps a copy of it (`back_up`). A reader sees the new names as views, or a migrated copy
in memory.

Errors of SQLite are translated by its result codes, never by its texts: a full disk may be tried again later
(`DiskFull`), a file that is no database or has a broken page is named (`CorruptFile`), everything else is a
`StoreError` of one line.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from teia.durable import disk_errors, sync_folder
from teia.errors import CorruptFile, DiskFull, StoreError

# SHMSIZE: no room for the shared-memory file beside the log.
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
PUBLIC, PRIVATE = 0o644, 0o600
"""Modes of a new file: readable by all as far as the umask allows, or by its owner alone if it will hold secrets."""

_NO_SUCH_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM}
"""Errors of a file system or kernel without unnamed files or links, or without /proc."""

_WAL = b"\x02\x02"
"""Bytes 18 and 19 of a file in WAL mode, which an image made in memory does not have."""

LOG_BYTES = 4 << 20
LIMIT_LOG = f"PRAGMA journal_size_limit = {LOG_BYTES}"
"""A larger log (`-wal`) is cut to this size when it is restarted; for every connection that writes our databases."""

_DELETE = ": stop teia and delete it with its -wal and -shm files;"
_REMEDIES = {
    "control": f"{_DELETE} requests that wait, standing commands and the record of runs are lost, no page is",
    "ledger": f"{_DELETE} then begin no crawl for a day, the longest delay that it can have held for a server",
    "web": f"{_DELETE} accounts and tokens are lost, and `teia serve` prints a code for a new first account",
    "signals": f"{_DELETE} announcements that wait are lost",
    "hubs": f"{_DELETE} feeds are subscribed to again",
    "subscriptions": f"{_DELETE} the subscriptions are lost",
    "frontier": (": restore it from a backup, or import its archive into another collection with `teia import warc`"),
}
"""Ways out of a damaged file, by its name without the ending."""

_FORBIDDEN = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


Renamed = Mapping[str, tuple[str, Mapping[str, str]]]
"""For each table, its other name and the other names of some of its columns."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one kind of file, and the settings of a connection that writes it."""

    version: int
    ddl: str
    pragmas: Sequence[str] = ()
    added: str = ""
    """Tables and indexes that are created where they are missing; all indexes of renamed tables are among them."""
    renamed: Renamed = field(default_factory=dict)
    """Names of the version before, with the present ones."""
    mode: int = PUBLIC
    added_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By table: present columns that older files of its version may lack, with their definitions."""
    oldest: int = 0
    """Oldest version that can be completed: it has no other tables and columns than the version before."""
    filled: Mapping[int, str] = field(default_factory=dict)
    """By such a version: the script that fills its new tables and columns, before triggers are created."""

    @property
    def readable(self) -> set[int]:
        """Versions that can be opened."""
        before = self.version - 1 if self.renamed else self.version
        return {self.version, before, *range(self.oldest or before, before)}


def open_database(
    path: Path, schema: Schema, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open a file for writing; create its tables if it is new, migrate them if the version before made it."""
    with sqlite_errors(path):
        if not path.exists():
            create_database(path, f"{schema.ddl}{schema.added}", schema.version, schema.mode)
        # Opened in one thread and used in another; callers make sure that one uses it at a time.
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=factory)
        try:
            for pragma in (*schema.pragmas, LIMIT_LOG):
                db.execute(pragma)
            # An empty file: the file system could not link the image, or another process is creating it.
            if _version(db) == 0:
                _run_to_version(db, schema.ddl, schema.version)
            version = _check_version(path, db, schema)
            if version != schema.version:
                back_up(db, copy_before(path, version), schema.mode)
                _migrate(db, schema, version)
            for table, columns in schema.added_columns.items():
                _add_columns(db, table, columns)
            db.executescript(schema.added)
        except BaseException:
            db.close()
            raise
    return db


def copy_before(path: Path, version: int) -> Path:
    """Return the name of the copy that is made of a file of this version before it is migrated."""
    return path.with_name(f"{path.name}.v{version}")


def back_up(db: sqlite3.Connection, copy: Path, mode: int) -> None:
    """Copy an open file as it is; a copy that is there stays. The older teia that wrote it can use the copy."""
    if copy.exists():
        return
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}.tmp")
    try:
        with disk_errors(copy, "written"):
            os.close(os.open(temporary, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, mode))
        with closing(sqlite3.connect(temporary, isolation_level=None)) as target:
            db.backup(target)
            # One file, synced: the log of a copy would be forgotten.
            target.execute("PRAGMA journal_mode = DELETE")
        with disk_errors(copy, "written"):
            temporary.rename(copy)
            sync_folder(copy.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _run_to_version(db: sqlite3.Connection, script: str, version: int) -> None:
    """Run a script that makes a file one of this version, unless another process does so meanwhile; all or nothing."""
    try:
        db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {version}; COMMIT;")
    except sqlite3.OperationalError:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if _version(db) != version:
            raise


def rename_tables(db: sqlite3.Connection, renamed: Renamed, version: int) -> None:
    """Give tables and columns other names, and the file this version, in one transaction; no row is touched."""
    script = []
    for table, (name, columns) in renamed.items():
        for (index,) in db.execute(_INDEXES, (table,)) if name != table else ():
            script.append(f'DROP INDEX "{index}";')
        found = _columns(db, table)
        script += [
            f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{columns[old]}";' for old in found if old in columns
        ]
        if found and name != table:
            script.append(f'ALTER TABLE "{table}" RENAME TO "{name}";')
    _run_to_version(db, " ".join(script), version)


def _migrate(db: sqlite3.Connection, schema: Schema, version: int) -> None:
    """Make a file of an earlier version one of the present version."""
    if version == schema.version - 1:
        rename_tables(db, schema.renamed, schema.version)
        return
    rename_tables(db, schema.renamed, version)
    _run_to_version(db, " ".join(_missing_parts(db, schema, version)), schema.version)


def _missing_parts(db: sqlite3.Connection, schema: Schema, version: int) -> Iterator[str]:
    """Yield the statements that give a file with the present names all that it lacks of the present version."""
    found = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    with closing(sqlite3.connect(":memory:")) as present:
        present.executescript(schema.ddl)
        made = present.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        for kind, name, sql in made:
            if kind == "table" and name not in found:
                yield f"{sql};"
            elif kind == "table":
                columns = set(_columns(db, name))
                for _, column, of_type, is_needed, default, _ in present.execute(f'PRAGMA table_info("{name}")'):
                    if column not in columns:
                        rule = f"NOT NULL DEFAULT {default}" if is_needed else ""
                        yield f'ALTER TABLE "{name}" ADD COLUMN "{column}" {of_type} {rule};'
        yield schema.filled.get(version, "")
        yield from (f"{sql};" for kind, name, sql in made if kind != "table" and name not in found)


_INDEXES = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f'PRAGMA main.table_info("{table}")')]


def _add_columns(db: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> None:
    found = set(_columns(db, table))
    if not found or columns.keys() <= found:  # a table that is missing is created with all columns
        return
    with transaction(db):
        for name in columns.keys() - set(_columns(db, table)):  # another process may have added some meanwhile
            db.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {columns[name]}')


def inverse(renamed: Renamed) -> Renamed:
    """Return the old names for the new ones."""
    return {new: (old, {b: a for a, b in columns.items()}) for old, (new, columns) in renamed.items()}


def create_database(path: Path, ddl: str, version: int = 0, mode: int = PUBLIC) -> None:
    """Create a file with these tables, unless another process just did; an existing file is never replaced.

    The file has no name before it is whole. Where the file system cannot do that, no file is created, or an empty
    one if it is for its owner alone, and SQLite creates the tables. The same happens where the log of a deleted
    file was left behind: SQLite removes it beside an empty file, and would read it into a whole one.
    """
    with disk_errors(path, "created"):
        if not path.with_name(f"{path.name}-wal").exists():
            _create_whole(path, _image(ddl, version), mode)
        if not path.exists() and mode != PUBLIC:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, mode))


def _create_whole(path: Path, image: bytes, mode: int) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The image is synced before it has a name; the sync of the folder makes the name durable.
        with suppress(FileExistsError):
            _link_image(folder, path.name, image, mode)
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_SUCH_FILES:
            raise
    finally:
        os.close(folder)


def _link_image(folder: int, name: str, image: bytes, mode: int) -> None:
    descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(image)
        file.flush()
        os.fsync(descriptor)
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder)


@lru_cache(maxsize=4)
def _image(ddl: str, version: int) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(f"BEGIN; {ddl} PRAGMA user_version = {version}; COMMIT;")
        image = db.serialize()
    return image[:18] + _WAL + image[20:]


def open_derived(path: Path, ddl: str, remedy: str = "rebuild it with `teia rebuild index`") -> sqlite3.Connection:
    """Open a file of derived data for writing. A power loss may take transactions since `sync_log`, and no others."""
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
        db.execute("PRAGMA journal_mode = WAL")
        # Syncs at checkpoints only. Without these a power loss could leave a file that cannot be opened.
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(ddl)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot be opened ({error}); {remedy}") from error
    return db


def sync_log(path: Path) -> None:
    """Make all committed transactions of a file durable: those in its log; older ones are in the file."""
    with disk_errors(path, "synced"), suppress(FileNotFoundError), path.with_name(f"{path.name}-wal").open("rb") as log:
        os.fdatasync(log.fileno())


def open_to_read(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open a file that another process may be writing, read-only."""
    if not path.exists():
        raise StoreError(f"{path}: file not found; the collection was never crawled")
    with sqlite_errors(path):
        name = f"file:{quote(str(path))}?mode=ro"
        db = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, factory=_Reader)
        try:
            version = _check_version(path, db, schema)
            if version < schema.version - 1:
                return _migrated_copy(db, schema, version)
            if version != schema.version:
                db.show_present_names(schema.renamed)
        except BaseException:
            db.close()
            raise
    return db


def _migrated_copy(db: sqlite3.Connection, schema: Schema, version: int) -> sqlite3.Connection:
    """Return a copy in memory of an old file, migrated, and close the file: readers change no file."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with closing(db):
        db.backup(copy)
    _migrate(copy, schema, version)
    copy.executescript(schema.added)
    copy.execute("PRAGMA query_only = ON")
    return copy


class _Reader(sqlite3.Connection):
    """A connection that shows the tables of the version before under their present names, until they have those."""

    _views: tuple[str, ...] = ()
    _version = 0

    def show_present_names(self, renamed: Renamed) -> None:
        self._version = _version(self)
        for table, (name, columns) in renamed.items():
            if found := _columns(self, table):
                # With the alias: SQLite takes a quoted name alone for a text if there is no such column any more.
                shown = ", ".join(f't."{column}" AS "{columns.get(column, column)}"' for column in found)
                self.execute(f'CREATE TEMP VIEW "{name}" AS SELECT {shown} FROM main."{table}" AS t')  # noqa: S608
                self._views += (name,)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError:
            # If a writer has migrated the file since, the views name tables and columns that are gone.
            if not self._views or _version(self) == self._version:
                raise
            # The names are kept: if this is a part of a transaction, its end by ROLLBACK brings the views back.
            for view in self._views:
                super().execute(f'DROP VIEW IF EXISTS temp."{view}"')
            return super().execute(sql, parameters)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Translate every SQLite error of the block into a StoreError about `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(path, error) from error


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Make the block one change of a database; inside another one, a part of that."""
    if db.in_transaction:
        yield
        return
    # IMMEDIATE takes the write lock now. A deferred one may fail at its first write, with no wait for busy_timeout.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def unless_busy() -> Iterator[None]:
    """Leave the block if another process holds a file too long; for work that can be done later."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # The low byte is the primary result code; the higher ones are details.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise


def move_log(db: sqlite3.Connection) -> tuple[int, int]:
    """Move as much of SQLite's log into the database as readers and the disk allow, without waiting.

    Return the number of frames in the log, -1 after an error, and how many of them were moved. If all were, the next
    transaction writes over them, unless a reader still uses them.
    """
    try:
        _, frames, moved = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.Error:
        return -1, 0
    return frames, moved


def shrink_log(db: sqlite3.Connection, wait_s: float = 0.0) -> bool:
    """Move SQLite's log into the database and truncate it; return True if it is gone.

    Readers of an older state are waited for `wait_s` and no longer. Then as much is moved as possible, and the log
    is truncated another time. The same holds on a disk that is full or fails: committed data stays in the log.
    """
    try:
        # The connection's own waiting time is restored afterwards.
        (waited_ms,) = db.execute("PRAGMA busy_timeout").fetchone()
        db.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
        try:
            return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            db.execute(f"PRAGMA busy_timeout = {waited_ms}")
    except sqlite3.Error:
        return False


def data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed to the file."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def log_bytes(path: Path) -> int:
    """Return the size of a database's log; 0 if there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0


def store_error(path: Path, error: sqlite3.Error) -> StoreError:
    """Return an error that names the problem, the file and a fix."""
    # Errors that Python's module raises by itself have no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    primary = code & 0xFF
    if code in _FULL:
        return DiskFull(f"{path}: no space left on the disk ({error}); free some space and run the command again")
    if primary in _CORRUPT:
        return CorruptFile(path, f"{error}; it is damaged, or not a file of teia{_REMEDIES.get(path.stem, '')}")
    if primary in _FORBIDDEN:
        return StoreError(f"{path}: {error}; grant write permission, or choose another folder with --data")
    return StoreError(f"{path}: {error}")


def check_format(path: Path, schema: Schema) -> None:
    """Refuse a file of another version by reading only its header, so that no file is touched."""
    with disk_errors(path, "read"):
        try:
            with path.open("rb") as file:
                # Bytes 60 to 63 of SQLite's header are `user_version`.
                found = int.from_bytes(file.read(100)[60:64], "big")
        except FileNotFoundError:
            return
    if found not in {0, *schema.readable}:
        raise _other_format(path, found, schema.version)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _check_version(path: Path, db: sqlite3.Connection, schema: Schema) -> int:
    """Return the version of a file; refuse one that cannot be opened."""
    found = _version(db)
    if found == 0:
        raise StoreError(f"{path}: is empty; the collection was never crawled")
    if found not in schema.readable:
        raise _other_format(path, found, schema.version)
    return found


def _other_format(path: Path, found: int, version: int) -> StoreError:
    return StoreError(
        f"{path}: format {found}, but this version reads {version}; export the collection with the version that"
        " wrote it, and import it here"
    )
