"""Shipping of a cell's archive files to the store of its snapshots, and from there to the cell's present owner.

An archive file only grows, so it is uploaded in stretches: object `7-warc-<file>-<from>-<to>` holds these bytes of it.
Before each snapshot everything up to the committed position is uploaded. Bodies fetched after the last snapshot are
only on the disk of the node that fetched them. Stretches put one after another are the file, for any WARC reader.

A downloaded file may be read here and not written: it belongs to another node's epoch, and is read-only so that no
process appends to it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections import defaultdict
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from teia.cluster.cells.open_cells import is_downloaded, size_of
from teia.cluster.nats.objects import Objects
from teia.crawler.open_cell import committed_position
from teia.durable import disk_errors, sync_folder, temporary_name
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.captures import archive_files
from teia.store.archive import archive_path, committed_files
from teia.store.root import CellFolder

STRETCH_BYTES = 64 << 20
READ_BYTES = 1 << 20
_STRETCH = re.compile(r"\d+-warc-(.+\.warc(?:\.gz)?)-(\d+)-(\d+)")
_log = logging.getLogger(__name__)


class ArchiveTransfers:
    """Upload and download of archive files of one collection."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._uploaded: dict[int, dict[str, list[tuple[int, int]]]] = {}
        self._lock = asyncio.Lock()
        """Held while stretches are stored or read, so that none is replaced meanwhile."""

    async def upload(self, folder: CellFolder) -> int:
        """Upload committed archive bytes that are not stored yet; return their number."""
        async with self._lock:
            return await self._upload_new(folder)

    async def replace_changed(self, folder: CellFolder) -> int:
        """Store stretches again whose bytes differ from this disk, where records were erased; return their number.

        All of them are read. The object of a stretch is deleted before another one gets its name: a crash in between
        leaves a gap, which the next upload fills.
        """
        replaced = 0
        async with self._lock:
            for name, stretches in sorted((await self._stretches(folder.number)).items()):
                path = folder.archive / name
                for begin, end in stretches if path.parent == folder.archive else ():
                    if size_of(path) >= end and not await self._is_stored(folder, path, begin, end):
                        self._uploaded.pop(folder.number, None)
                        old = f"{folder.number}-warc-{name}-{begin}-{end}"
                        await self._objects.delete(old, must_erase=True)
                        await self._upload(folder, path, begin, end)
                        replaced += 1
        return replaced

    async def _is_stored(self, folder: CellFolder, path: Path, begin: int, end: int) -> bool:
        """Tell whether a stored stretch has the bytes of the file on this disk."""
        stretch = folder.path / ".stretch"
        try:
            await self._objects.get(f"{folder.number}-warc-{path.name}-{begin}-{end}", stretch)
            return await asyncio.to_thread(_has_part, path, stretch, begin, end)
        finally:
            stretch.unlink(missing_ok=True)

    async def _upload_new(self, folder: CellFolder) -> int:
        # Listed once for each cell: later stretches are this node's own.
        if folder.number not in self._uploaded:
            self._uploaded[folder.number] = await self._stretches(folder.number)
        uploaded, sent = self._uploaded[folder.number], 0
        for file, end in await asyncio.to_thread(_committed, folder):
            begin = _covered_end(uploaded.get(file.name, []))
            while begin < end:
                to = min(end, begin + STRETCH_BYTES)
                await self._upload(folder, file, begin, to)
                uploaded.setdefault(file.name, []).append((begin, to))
                sent, begin = sent + to - begin, to
        return sent

    async def _upload(self, folder: CellFolder, file: Path, begin: int, end: int) -> None:
        stretch = folder.path / ".stretch"
        try:
            await asyncio.to_thread(_copy_part, file, stretch, begin, end)
            await self._objects.put(f"{folder.number}-warc-{file.name}-{begin}-{end}", stretch)
        finally:
            stretch.unlink(missing_ok=True)

    async def _stretches(self, cell: int) -> dict[str, list[tuple[int, int]]]:
        """Return the stored stretches of a cell's files, by file name."""
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for name in await self._objects.names(f"{cell}-warc-"):
            if match := _STRETCH.fullmatch(name):
                found[match[1]].append((int(match[2]), int(match[3])))
        return dict(found)

    async def download(self, folder: CellFolder) -> int:
        """Download the files that other nodes wrote and this one lacks, or has less of; return their number."""
        return await self._download(folder, None)

    async def download_parents(self, folder: CellFolder, owned: Collection[int]) -> int:
        """Download the archive files that a split-off cell still references in its parents; return their number.

        Files of parents that are owned here are left out: they are downloaded as those cells' own.
        """
        downloaded = 0
        for path, names in (await asyncio.to_thread(_parent_files, folder)).items():
            before = CellFolder(int(path.name), path)
            if before.number not in owned and await asyncio.to_thread(before.archive.is_dir):
                downloaded += await self._download(before, names)
        return downloaded

    async def _download(self, folder: CellFolder, names: Collection[str] | None) -> int:
        async with self._lock:
            return await self._download_missing(folder, names)

    async def _download_missing(self, folder: CellFolder, names: Collection[str] | None) -> int:
        downloaded = 0
        for name, stretches in sorted((await self._stretches(folder.number)).items()):
            path = folder.archive / name
            # Names come from the store: a file must lie in this folder.
            if path.parent != folder.archive or size_of(path) >= _covered_end(stretches) or not _is_ours_to_write(path):
                continue
            if names is None or name in names:
                await self._download_file(folder, path, stretches)
                downloaded += 1
        return downloaded

    async def _download_file(self, folder: CellFolder, path: Path, stretches: list[tuple[int, int]]) -> None:
        whole, stretch = temporary_name(path), folder.path / ".stretch"
        with disk_errors(path, "written"):
            try:
                whole.unlink(missing_ok=True)
                for begin, end in _chain(stretches):
                    await self._objects.get(f"{folder.number}-warc-{path.name}-{begin}-{end}", stretch)
                    await asyncio.to_thread(_append, stretch, whole)
                await asyncio.to_thread(_install, whole, path)
            finally:
                whole.unlink(missing_ok=True)
                stretch.unlink(missing_ok=True)
        _log.info("brought %s", path)


def _committed(folder: CellFolder) -> list[tuple[Path, int]]:
    """Return the archive files of a cell on this disk, each with the end of its committed part."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        position = committed_position(frontier)
    if position is None:
        return []
    return [(path, size_of(path) if end is None else end) for path, end in committed_files(folder.archive, position)]


def _parent_files(folder: CellFolder) -> dict[Path, set[str]]:
    """Return the archive files of other cells that a cell references, by the folder of their cell."""
    found: defaultdict[Path, set[str]] = defaultdict(set)
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        for file in archive_files(frontier):
            place = archive_path(folder.archive, file)
            if place.parent != folder.archive:
                found[place.parent.parent].add(file)
    return dict(found)


def _chain(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the stretches that make up the beginning of a file, in order; two owners may have cut it differently."""
    chain, at = list[tuple[int, int]](), 0
    while best := max((each for each in stretches if each[0] == at), key=lambda each: each[1], default=None):
        chain.append(best)
        at = best[1]
    return chain


def _covered_end(stretches: list[tuple[int, int]]) -> int:
    chain = _chain(stretches)
    return chain[-1][1] if chain else 0


def _is_ours_to_write(path: Path) -> bool:
    """Tell whether a file may be replaced: it is missing or was downloaded.

    A file of our own epoch is never touched.
    """
    return not path.exists() or is_downloaded(path)


def _copy_part(source: Path, target: Path, begin: int, end: int) -> None:
    with disk_errors(source, "read"), source.open("rb") as file, target.open("wb") as into:
        file.seek(begin)
        left = end - begin
        while left and (chunk := file.read(min(READ_BYTES, left))):
            into.write(chunk)
            left -= len(chunk)


def _has_part(file: Path, part: Path, begin: int, end: int) -> bool:
    """Tell whether a part of a file equals another file."""
    with disk_errors(file, "read"), file.open("rb") as whole, part.open("rb") as other:
        whole.seek(begin)
        left = end - begin
        while left:
            chunk = whole.read(min(READ_BYTES, left))
            if not chunk or other.read(len(chunk)) != chunk:
                return False
            left -= len(chunk)
        return not other.read(1)


def _append(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("ab") as into:
        shutil.copyfileobj(file, into, READ_BYTES)


def _install(whole: Path, path: Path) -> None:
    # Read-only before it has its name, so that no process ever appends to it.
    whole.chmod(0o444)
    whole.replace(path)
    sync_folder(path.parent)
