"""Snapshots of cells: made by their owners, named by their logs, read by later owners.

A snapshot is a copy of a cell's file at a known record of its log. A new owner reads it and the records after it, and
NATS may purge the records before it. It is made in this order, and may be interrupted after any step:

    1  copy the file, as it is between two commits, and pack the changed pieces (packs.py)
    2  store the pack, then the map that lists the pieces of the file
    3  one atomic batch: the pointer in `snap.<cell>`, and a record in `log.<cell>` on condition that the one before is
       still the last. From here on the snapshot is the cell's. A node that lost the cell is refused
    4  purge the log; delete objects that no pointer names

Before step 3 there are at most objects without a pointer; step 4 is repeated by the next snapshot. The pointer names
two snapshots: the last and the one before. They share no object, because each builds on the one before the last, and
the log reaches back to the older. So an object that is damaged or gone only costs time: the snapshot before it is read,
and more of the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from teia.clock import Clock
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.packs import Damaged, FileMap, pack, read_map, unpack, write_map
from teia.cluster.nats.objects import ObjectGone, Objects
from teia.durable import disk_errors, sync_folder
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.frontier.cell.split import compact_copy, copy_cell, extract_slots
from teia.frontier.page_sums import forget_sums
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import CellFolder

VERSION = 1
AT_ONCE = 2
"""Snapshots that one node reads at the same time."""

_OURS = re.compile(r"\d+-(\d+)-\d+-[0-9a-f]+\.(map|pack)")
_log = logging.getLogger(__name__)


class CannotRestore(ClusterError):
    """No snapshot of a cell can be read; another node may have its own copy, or the store may come back."""

    cell: int | None = None
    """The cell, if it was one of many."""


class Snapshot(msgspec.Struct, frozen=True):
    """One snapshot, as the pointer describes it."""

    name: str
    log_seq: int
    """The last record that is in it."""
    last_links_seq: int = msgspec.field(name="heard")
    """The last message with links for the cell that is in it."""
    map_sha256: bytes
    objects: list[str]
    """All objects that it is put together from; the first is its map."""
    size: int
    stored: int
    """Bytes of the cell's file (`size`), and those that had to be stored for it (`stored`)."""
    time_s: float


class Pointer(msgspec.Struct, frozen=True):
    """The content of `snap.<cell>`, as JSON."""

    last: Snapshot
    before: Snapshot | None = None
    version: int = VERSION

    @property
    def purged_below(self) -> int:
        """The record from which on the log is complete."""
        return 0 if self.before is None else self.before.log_seq


class Snapshots:
    """The snapshots of one collection's cells, made and read; see the module."""

    def __init__(self, objects: Objects, clock: Clock, cluster: str) -> None:
        self._objects, self._clock, self._cluster = objects, clock, cluster
        self._maps: dict[str, FileMap] = {}
        self._bad: set[str] = set()
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._saving: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def pointer_of(self, log: CellLog) -> Pointer | None:
        """Return the snapshot pointer of a cell; None if it never had a snapshot."""
        data = await log.pointer()
        if data is None:
            return None
        try:
            pointer = msgspec.json.decode(data, type=Pointer)
        except UNDECODABLE as error:
            raise ClusterError(f"the pointer of cell {log.cell} cannot be read: {error}") from error
        if pointer.version != VERSION:
            raise ClusterError(
                f"cell {log.cell} has snapshots of another version of teia; run the same version on all nodes"
            )
        return pointer

    # -- making --------------------------------------------------------------------------------------------

    async def save(self, log: CellLog, folder: CellFolder, *, must_make_room: bool = False) -> Snapshot | None:
        """Make a snapshot of a cell that is owned here; None if its file has nothing new.

        With `must_make_room` the log is purged up to the new snapshot, so the snapshot before it can no longer be used.
        """
        async with self._saving[log.cell]:
            return await self._save(log, folder, must_make_room=must_make_room)

    async def replace_all(self, log: CellLog, folder: CellFolder) -> Snapshot:
        """Make a snapshot that shares nothing with earlier ones, and delete those, with the log before it.

        So rows that are no longer in the cell's file are nowhere in NATS (removal.py).
        """
        # One at a time: a snapshot that was begun before would name its older copy afterwards.
        async with self._saving[log.cell]:
            with _workspace(folder.path / ".snapshot") as workspace:
                made = await self._make(log, folder, None, workspace, is_compact=True)
            log.unsaved_bytes = 0
            await log.purge(made.last.log_seq)
            await log.purge_links(made.last.last_links_seq)
            await self._sweep(log, made, must_erase=True)
        return made.last

    async def _save(self, log: CellLog, folder: CellFolder, *, must_make_room: bool) -> Snapshot | None:
        pointer = await self.pointer_of(log)
        last = None if pointer is None else pointer.last
        applied = await asyncio.to_thread(_applied_seq, folder.frontier)
        if last is not None and applied <= last.log_seq and last.name not in self._bad:
            # Nothing new to store, but records before the last snapshot can go.
            if must_make_room:
                await log.purge(last.log_seq)
            return None
        # Records that are written during the copy are not in it.
        unsaved = log.unsaved_bytes
        with _workspace(folder.path / ".snapshot") as workspace:
            made = await self._make(log, folder, pointer, workspace)
        log.unsaved_bytes = max(0, log.unsaved_bytes - unsaved)
        # 4. A failure from here on only leaves garbage, which the next snapshot removes.
        await log.purge(made.last.log_seq if must_make_room else made.purged_below)
        await log.purge_links(made.last.last_links_seq)
        await self._sweep(log, made)
        return made.last

    async def _make(
        self, log: CellLog, folder: CellFolder, pointer: Pointer | None, workspace: Path, *, is_compact: bool = False
    ) -> Pointer:
        """Do steps 1 to 3 of the module docstring: copy and pack the file, store it, publish its pointer.

        The snapshots of `pointer` stay; with `is_compact` the copy has no free space, where deleted rows might be left.
        """
        copy = workspace / "copy"
        log_seq, last_links_seq = await asyncio.to_thread(copy_cell, folder.frontier, copy, log.changes_format())
        if is_compact:
            await asyncio.to_thread(compact_copy, copy)
        name = f"{log.cell}-{log.epoch}-{log_seq}-{secrets.token_hex(3)}"
        before = None if pointer is None else pointer.last
        # Built on the snapshot before the last, so that the last and the new one share no object.
        base = None if pointer is None else await self._map_of(pointer.before, workspace / "base")
        # the one before it is our only fallback: share nothing with it
        if before is not None and before.name in self._bad:
            before, base = pointer.before if pointer is not None else None, None
        last, made = await self._store(name, copy, (log_seq, last_links_seq), base, workspace)
        now = Pointer(last, before)
        # 3. From here on the snapshot is the cell's.
        await log.publish_pointer(msgspec.json.encode(now))
        alive = {last.name} | ({before.name} if before is not None else set())
        ours = {
            other: each for other, each in self._maps.items() if not other.startswith(f"{log.cell}-") or other in alive
        }
        self._maps = ours | {name: made}
        _log.info("cell=%d snapshot record=%d bytes=%d stored=%d", log.cell, log_seq, made.size, last.stored)
        return now

    async def _store(
        self, name: str, copy: Path, at: tuple[int, int], base: FileMap | None, workspace: Path
    ) -> tuple[Snapshot, FileMap]:
        """Store a copy, except for pieces in `base`, and delete it.

        `at`: its last record, and its last links message.
        """
        packed, mapped = workspace / "pack", workspace / "map"
        made = await asyncio.to_thread(pack, copy, packed, f"{name}.pack", base)
        await asyncio.to_thread(copy.unlink)
        digest = await asyncio.to_thread(write_map, made, mapped)
        stored = mapped.stat().st_size
        if f"{name}.pack" in made.packs:
            stored += made.pack_bytes[-1]
            await self._objects.put(f"{name}.pack", packed)
        await self._objects.put(f"{name}.map", mapped)
        objects = [f"{name}.map", *made.packs]
        return Snapshot(name, *at, digest, objects, made.size, stored, self._clock.now_s()), made

    async def divide(
        self, log: CellLog, folder: CellFolder, number: int, slots: tuple[int, int], prefixes: Sequence[str]
    ) -> tuple[int, bytes]:
        """Store some slots of a cell that is not open now as a new cell; return its last record and its pointer.

        No log names the new cell before the old cell's owner publishes the split (split.py).
        """
        with _workspace(folder.path / ".split") as workspace:
            copy = workspace / "copy"
            log_seq, last_links_seq = await asyncio.to_thread(copy_cell, folder.frontier, copy, log.changes_format())
            await asyncio.to_thread(extract_slots, copy, *slots, prefixes, log_seq)
            name = f"{number}-0-{log_seq}-{secrets.token_hex(3)}"
            snapshot, _ = await self._store(name, copy, (log_seq, last_links_seq), None, workspace)
        return log_seq, msgspec.json.encode(Pointer(snapshot))

    async def _map_of(self, snapshot: Snapshot | None, file: Path) -> FileMap | None:
        """Return the map of a snapshot to build on; None if there is none, or none that can be read."""
        if snapshot is None or snapshot.name in self._bad:
            return None
        if snapshot.name not in self._maps:
            try:
                await self._objects.get(snapshot.objects[0], file)
                self._maps[snapshot.name] = await asyncio.to_thread(read_map, file, snapshot.map_sha256)
            except (ObjectGone, Damaged) as error:
                _log.warning("snapshot %s cannot be extended: %s", snapshot.name, error)
                return None
        return self._maps[snapshot.name]

    async def _sweep(self, log: CellLog, pointer: Pointer, *, must_erase: bool = False) -> None:
        """Delete objects that no pointer names and that no later owner can have stored."""
        referenced = {name for each in (pointer.last, pointer.before) if each is not None for name in each.objects}
        for name in await self._objects.names(f"{log.cell}-"):
            match = _OURS.fullmatch(name)
            if match is not None and name not in referenced and int(match[1]) <= log.epoch:
                await self._objects.delete(name, must_erase=must_erase)

    # -- reading -------------------------------------------------------------------------------------------

    def is_last_damaged(self, pointer: Pointer) -> bool:
        """Tell whether the last snapshot of a cell was found to be damaged."""
        return pointer.last.name in self._bad

    async def restore(self, log: CellLog, folder: CellFolder) -> Snapshot:
        """Replace a cell's file by its last snapshot, or by the one before if that is damaged."""
        pointer = await self.pointer_of(log)
        if pointer is None:
            raise CannotRestore(f"cell {log.cell} has no snapshot, and its log does not reach back to this copy")
        async with self._reading:
            for snapshot in (pointer.last, pointer.before):
                if snapshot is None:
                    continue
                try:
                    with _workspace(folder.path / ".restore") as workspace:
                        await self._download(snapshot, folder, workspace)
                    return snapshot
                except (Damaged, ObjectGone) as error:
                    self._bad.add(snapshot.name)
                    _log.error("cell=%d SNAPSHOT DAMAGED %s: %s", log.cell, snapshot.name, error)
        raise CannotRestore(f"no snapshot of cell {log.cell} can be read; start a node that has a copy of the cell")

    async def _download(self, snapshot: Snapshot, folder: CellFolder, workspace: Path) -> None:
        mapped, copy = workspace / "map", workspace / "copy"
        await self._objects.get(snapshot.objects[0], mapped)
        made = await asyncio.to_thread(read_map, mapped, snapshot.map_sha256)
        packs = {name: workspace / str(number) for number, name in enumerate(made.packs)}
        for name, file in packs.items():
            await self._objects.get(name, file)
        await asyncio.to_thread(_assemble, made, packs, copy)
        await asyncio.to_thread(self._check, copy, snapshot)
        await asyncio.to_thread(replace_database, copy, folder.frontier)
        _log.info("record=%d of %s restored bytes=%d", snapshot.log_seq, folder.path, made.size)

    def _check(self, copy: Path, snapshot: Snapshot) -> None:
        with closing(FrontierCell(copy, read_only=True)) as frontier:
            if frontier.meta(CLUSTER) != self._cluster:
                raise Damaged("it belongs to another cluster")
            if frontier.applied_seq() != snapshot.log_seq:
                raise Damaged(f"it ends at record {frontier.applied_seq()}")


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """Provide a folder for temporary files; files left there by an earlier crash are removed."""
    with disk_errors(folder, "written"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _applied_seq(file: Path) -> int:
    with closing(FrontierCell(file, read_only=True)) as frontier:
        return frontier.applied_seq()


def _assemble(made: FileMap, packs: dict[str, Path], copy: Path) -> None:
    with disk_errors(copy, "written"), copy.open("wb") as file:
        unpack(made, packs, file)
        file.flush()
        os.fsync(file.fileno())


def replace_database(copy: Path, file: Path) -> None:
    """Replace a database by another file. The old one's side files go first: SQLite would use them for the new one.

    The WAL goes before its database, or a newly created database would use it. A crash in between leaves no database,
    or one without its last commits; snapshot and log restore them.
    """
    with disk_errors(file, "replaced"):
        forget_sums(file)
        for ending in ("-wal", "-shm", ""):
            file.with_name(file.name + ending).unlink(missing_ok=True)
        sync_folder(file.parent)
        copy.rename(file)
        sync_folder(file.parent)
