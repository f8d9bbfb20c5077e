"""The data folder (`--data DIR`): its format, its lock, its collections and their cells.

    DIR/format                       the version of everything below, one line: `teia 1`
    DIR/lock                         held (flock) by the crawler while it runs; holds its process id
    DIR/serve.sock                   socket at which `teia serve` answers `teia search` of the same user
    DIR/<collection>/teia.toml       the collection's configuration
    DIR/<collection>/cells/07/       archive/ index/ log/ frontier.sqlite
    DIR/<collection>/cells/starts.json   the first slot of each cell, where a cluster may have split some

A folder is ours when it has a `format` file; an empty or missing one becomes ours, any other is refused. A format that
is not this one is refused too, with the way out. Reading needs no lock: `teia serve` and reports open a folder that a
crawler is writing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from teia.clock import iso_utc
from teia.durable import disk_errors, file_lock, lock_holder, sync_folder, write_atomically
from teia.errors import CorruptFile, StoreError
from teia.lib.message import Message
from teia.urls import cell_starts

FORMAT = 1
RESERVED_NAMES = frozenset({"format", "lock", "control", "ledger", "tmp"})
"""Names of our own files in the root, and what could be taken for one."""

EDIT_TRIES, EDIT_PAUSE_S = 200, 0.05
"""Wait of one process for another that changes the same configuration: ten seconds in all."""

RETRY_S = 0.05
"""Wait before a second try: a process that only looks up the holder takes the lock for an instant."""

STARTS_FILE = "starts.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_FORMAT_LINE = re.compile(r"teia (\d{1,9})\n?")
_CELL = re.compile(r"\d{2,4}")


class _PathInside:
    """A file or folder of a folder, as an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: CellFolder | CollectionFolder, _: object = None) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True)
class CellFolder:
    """One cell's files. `handover`, for pages on their way to the index, may be missing."""

    number: int
    path: Path

    frontier = _PathInside("frontier.sqlite")
    archive = _PathInside("archive")
    index = _PathInside("index")
    log = _PathInside("log")
    handover = _PathInside("handover")


@dataclass(frozen=True, slots=True)
class CollectionFolder:
    """One collection's files; all but `config` may be missing."""

    name: str
    path: Path

    config = _PathInside("teia.toml")
    # Copies of the rule lists that its crawl was begun with.
    lists = _PathInside("lists")
    # PageRank of its pages and of the URLs they link to.
    ranks = _PathInside("ranks.bin")
    # Results of the last audits.
    audits = _PathInside("audits")
    # Signals that wait for the crawl, and counts of them.
    signals = _PathInside("signals.sqlite")
    # Subscriptions, with their secrets.
    subscriptions = _PathInside("subscriptions.sqlite")
    # Hubs that announce changed feeds (WebSub), with their secrets.
    hubs = _PathInside("hubs.sqlite")
    # Checksums of stored bodies, for the content-seen test.
    seen = _PathInside("seen.sqlite")
    # The semantic model learnt from its pages.
    semantic = _PathInside("semantic")

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Hold the lock to read, change and write teia.toml; other processes wait for a while."""
        # Lock the folder and not teia.toml: an atomic write replaces that file, and the lock would go with it.
        with file_lock(self.path, tries=EDIT_TRIES, pause_s=EDIT_PAUSE_S) as is_ours:
            if not is_ours:
                raise StoreError(f"{self.config}: locked by another process for too long; try again")
            yield

    def write_config(self, text: str) -> None:
        """Replace teia.toml atomically; a concurrent reader sees the old one or the new one."""
        write_atomically(self.config, text.encode())

    def create_cells(self, count: int) -> tuple[CellFolder, ...]:
        """Make the folders of cells 0 to count - 1, those that are not there; return all."""
        cells = [self._cell(number) for number in range(count)]
        with disk_errors(self.path, "written"):
            for cell in cells:
                for folder in (cell.archive, cell.index, cell.log):
                    folder.mkdir(parents=True, exist_ok=True)
                sync_folder(cell.path)
            sync_folder(self.path / "cells")
            sync_folder(self.path)
        return tuple(cells)

    def cells(self) -> tuple[CellFolder, ...]:
        """Return the cells there are, by number."""
        folder = self.path / "cells"
        with disk_errors(folder, "read"):
            names = [path.name for path in folder.iterdir() if _CELL.fullmatch(path.name)] if folder.is_dir() else []
        # Folders beyond the list belong to a split that was not finished.
        starts = self._written_starts()
        numbers = sorted(number for number in map(int, names) if not starts or number < len(starts))
        return tuple(self._cell(number) for number in numbers)

    def starts(self) -> tuple[int, ...]:
        """Return the first slot of each cell, by number: equal ranges, but for cells that were split."""
        return self._written_starts() or cell_starts(max(1, len(self.cells())))

    def _written_starts(self) -> tuple[int, ...]:
        """Return the stored first slots of the cells; empty if no cell was ever split."""
        path = self.path / "cells" / STARTS_FILE
        try:
            return tuple(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return ()
        except (ValueError, TypeError, OSError) as error:
            raise CorruptFile(path, f"the first slots of the cells cannot be read ({error})") from error

    def write_starts(self, starts: Sequence[int]) -> None:
        """Store the first slots of the cells, once their folders exist; a cell that is not named does not exist yet."""
        if tuple(starts) != self._written_starts():
            write_atomically(self.path / "cells" / STARTS_FILE, json.dumps(list(starts)).encode())

    def _cell(self, number: int) -> CellFolder:
        return CellFolder(number, self.path / "cells" / f"{number:02d}")


@dataclass(frozen=True, slots=True)
class Root:
    """An installation's folder, checked to be ours. Made by `open_root`."""

    path: Path

    @property
    def control(self) -> Path:
        """Requests to the crawler, and its reports (collections/control_file.py)."""
        return self.path / "control.sqlite"

    def collections(self) -> tuple[str, ...]:
        """Return the names of the collections, sorted."""
        with disk_errors(self.path, "read"):
            found = [path.parent.name for path in self.path.glob("*/teia.toml")]
        return tuple(sorted(name for name in found if _NAME.fullmatch(name)))

    def collection(self, name: str) -> CollectionFolder:
        """Return the folder of a collection, which need not exist yet; names that lead elsewhere are refused."""
        path = self.path / check_name(name)
        if path.is_symlink():
            raise StoreError(f"{path} is a symbolic link; a collection must be a folder in {self.path}")
        return CollectionFolder(name, path)

    def create_collection(self, name: str, config_text: str, cells: int) -> CollectionFolder:
        """Make a collection. teia.toml comes last: a collection without it was never finished, and is made again."""
        collection = self.collection(name)
        with disk_errors(collection.path, "created"):
            collection.path.mkdir(exist_ok=True)
            collection.create_cells(cells)
            sync_folder(self.path)
        collection.write_config(config_text)
        return collection

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one writing process. The lock ends with the process, however it ends."""
        path = self.path / "lock"
        with file_lock(path, tries=2, pause_s=RETRY_S, is_signed=True) as is_ours:
            if not is_ours:
                holder, since = self.lock_holder() or "unknown", iso_utc(path.stat().st_mtime)[:16].replace("T", " ")
                raise StoreError(
                    f"{self.path} is in use by process {holder} since {since} UTC; stop it (teia stop --data "
                    f"{self.path}), or choose another folder with --data"
                )
            yield

    def lock_holder(self) -> int | None:
        """Return the process that holds the folder for writing; None if none does, 0 if it is unknown."""
        return lock_holder(self.path / "lock")


def check_name(name: str) -> str:
    """Return a collection's name if it may be one; it becomes a folder name, so it may contain no way out."""
    if not _NAME.fullmatch(name):
        shown = name if len(name) <= 40 else name[:40] + "…"
        raise StoreError(
            Message(
                "{name!r} cannot be the name of a collection: use only a-z, 0-9, _ and -; start with a letter"
                " or digit; 63 characters at most",
                name=shown,
            )
        )
    if name in RESERVED_NAMES:
        raise StoreError(
            Message(
                "{name!r} cannot be the name of a collection: the data folder contains a file of that name;"
                " choose another",
                name=name,
            )
        )
    return name


def open_root(path: Path, *, create: bool = False) -> Root:
    """Return the data folder at a path; with `create` make it ours if it is missing or empty."""
    with disk_errors(path, "opened"):
        if not path.exists() and create:
            path.mkdir(parents=True)
            sync_folder(path.parent)
        if not path.is_dir():
            raise StoreError(f"{path}: {'is not a folder' if path.exists() else 'folder not found'}; see --data")
        if not (path / "format").exists():
            _initialize(path, create)
        text = (path / "format").read_text("utf-8", "replace")[:64]
    match = _FORMAT_LINE.fullmatch(text)
    if match is None:
        raise StoreError(f"{path / 'format'}: unknown version ({text.strip()!r}); restore it from a backup")
    if int(match[1]) != FORMAT:
        raise StoreError(
            f"{path} has format {match[1]}, but this version reads format {FORMAT}; run `teia export warc` and"
            " `teia export urls` with the version that wrote it, then `teia import` into a new folder here"
        )
    return Root(path)


def discard_unused(root: Root) -> None:
    """Remove a folder that the caller has just created, unless there is a collection in it."""
    if not root.collections():
        shutil.rmtree(root.path, ignore_errors=True)


def _initialize(path: Path, create: bool) -> None:
    # Hidden files are allowed: a crash during the write below leaves one, and mount points may have their own.
    others = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
    if others:
        raise StoreError(f"{path} is not a data folder of teia: it contains {min(others)!r}; choose an empty folder")
    if not create:
        raise StoreError(f"{path} is empty; start a crawl with `teia crawl SEED --data {path}`")
    write_atomically(path / "format", f"teia {FORMAT}\n".encode())
