"""Images of a disk after a power loss: `python -m tests.faults.powerloss IMAGES [SEED] [crawl | index | removal]`.

What was synced is there. Of the writes and truncations of a file since its last sync any may be there or not, a write
also in part, by sectors of 512 bytes. Of the changes of names in a folder since its last sync the first ones are there:
file systems keep those in order. Each image must open.

    crawl    a crawl of the image ends like one without a power loss, and no page is requested again whose commit had
             been acknowledged
    index    a crawl that is over is indexed; the same, and the index can be finished
    removal  a page and a site are removed from archive and index; the command is run again, and ends like one without a
             power loss. Every second image is crawled on before that: no page that stays may be missing
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .bench import Bench, after, compiled

SECTOR = 512


@dataclass(frozen=True)
class Deed:
    """One change: what, where in the file, its bytes, and the path; `other` is the old name."""

    what: str
    at: int
    data: bytes
    path: str
    other: str


def read_trace(file: Path) -> list[Deed]:
    data, deeds, place = file.read_bytes(), list[Deed](), 0
    while place < len(data):
        end = data.index(b"\n", place)
        what, at, size, names = data[place:end].decode().split(" ", 3)
        path, _, other = names.partition("|")
        place = end + 1 + int(size)
        deeds.append(Deed(what, int(at), data[end + 1 : place], path, other))
    return deeds


@dataclass
class _File:
    """A file's bytes as of its last sync, and what was done to it since."""

    durable: bytearray = field(default_factory=bytearray)
    since: list[Deed] = field(default_factory=list)


def _apply(content: bytearray, deed: Deed, data: bytes | None = None) -> None:
    if deed.what == "write":
        data = deed.data if data is None else data
        content.extend(bytes(max(0, deed.at - len(content))))
        content[deed.at : deed.at + len(data)] = data
    elif len(content) > deed.at:
        del content[deed.at :]
    else:
        content.extend(bytes(deed.at - len(content)))


class Disk:
    """A disk that has seen the first deeds of a trace; one that `lies` syncs nothing."""

    def __init__(self, *, lies: bool = False) -> None:
        self._lies = lies
        self._live: dict[str, _File] = {}
        self._durable: dict[str, _File | None] = {}
        """By path: a file, or None for a folder."""
        self._names: dict[str, list[tuple[str, str, _File | None]]] = defaultdict(list)
        self.acknowledged = 0

    def load(self, folder: Path) -> None:
        """Begin with all files of a folder, synced."""
        for path in sorted(folder.rglob("*")):
            name = str(path)
            self._durable[name] = None
            if path.is_file():
                self._durable[name] = self._live[name] = _File(bytearray(path.read_bytes()))

    def see(self, deed: Deed) -> None:
        if deed.what == "!":
            self.acknowledged = deed.at
        elif deed.what == "sync":
            self._sync(deed.path)
        elif deed.what == "mkdir":
            self._name("set", deed.path, None)
        elif deed.what == "unlink":
            self._live.pop(deed.path, None)
            self._name("gone", deed.path, None)
        elif deed.what == "rename":
            self._live[deed.path] = file = self._live.pop(deed.other, None) or _File()
            self._name("set", deed.path, file)
            if "#" not in deed.other:
                self._name("gone", deed.other, None)
        elif deed.what == "make":
            self._live[deed.path] = _File()
            self._name("set", deed.path, self._live[deed.path])
        else:
            what = Deed("truncate", 0, b"", deed.path, "") if deed.what == "empty" else deed
            self._live.setdefault(deed.path, _File()).since.append(what)

    def _name(self, what: str, path: str, file: _File | None) -> None:
        self._names[path.rpartition("/")[0]].append((what, path, file))

    def _sync(self, path: str) -> None:
        if self._lies and "frontier" in path:
            return
        if (file := self._live.get(path)) is not None:
            for deed in file.since:
                _apply(file.durable, deed)
            file.since.clear()
            return
        folder = path.removesuffix("/.")
        for change in self._names.pop(folder, []):
            _rename(self._durable, change)

    def write_image(self, chance: random.Random, root: str, to: Path) -> None:
        """Write one legal image of a folder."""
        names = dict(self._durable)
        for changes in self._names.values():
            for change in changes[: chance.randint(0, len(changes))]:
                _rename(names, change)
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        to.mkdir(parents=True, exist_ok=True)
        for path, file in sorted(names.items()):
            place = to / path.removeprefix(root).lstrip("/")
            if not place.parent.is_dir() or path.endswith("-shm"):  # lost with its folder; made anew by SQLite
                continue
            if file is None:
                place.mkdir(exist_ok=True)
            else:
                place.write_bytes(_torn(file, chance, keep))


def _rename(names: dict[str, _File | None], change: tuple[str, str, _File | None]) -> None:
    what, path, file = change
    if what == "set":
        names[path] = file
    else:
        names.pop(path, None)


def _torn(file: _File, chance: random.Random, keep: float) -> bytes:
    content = bytearray(file.durable)
    for deed in file.since:
        if chance.random() >= keep:
            continue
        if deed.what == "write" and len(deed.data) > SECTOR and chance.random() < 0.3:
            _apply(content, deed, deed.data[: SECTOR * chance.randint(1, len(deed.data) // SECTOR)])
        else:
            _apply(content, deed)
    return bytes(content)


def torn_images(
    bench: Bench, disk: Disk, deeds: Sequence[Deed], root: str, points: Iterable[int], chance: random.Random
) -> Iterator[tuple[str, int, Path]]:
    """Write an image for each of some points of a trace; yield its name, what was acknowledged, and its folder."""
    seen = 0
    for point in points:
        for deed in deeds[seen:point]:
            disk.see(deed)
        seen = point
        image = bench.new_data()
        disk.write_image(chance, root, image)
        yield f"after call {point} of {len(deeds)}", disk.acknowledged, image


def complaints(
    bench: Bench, calm: dict[str, Any], number: int, chance: random.Random, *, lies: bool = False
) -> dict[str, list[str]]:
    """Trace a crawl, and have so many images of it crawled; return what is wrong with each."""
    with bench.data() as data:
        trace = data.parent / "trace"
        told = bench.order(crawl=str(data), trace=str(trace))
        assert told.get("state") == "finished", told
        deeds, root = read_trace(trace), str(data)
    marks = [at for at, deed in enumerate(deeds) if deed.what == "!"]
    points = sorted(chance.randint(marks[-1] if lies else 1, len(deeds)) for _ in range(number))

    def crawled(name: str, acknowledged: int, image: Path) -> tuple[str, list[str]]:
        try:
            again = bench.order(crawl=str(image), look=str(image))
        finally:
            bench.drop(image)
        return name, after({"acknowledged": told["acknowledged"][:acknowledged]}, again, calm)

    torn = torn_images(bench, Disk(lies=lies), deeds, root, points, chance)
    return by_name(bench.all_done(partial(crawled, *each) for each in torn))


def later_complaints(bench: Bench, stage: str, number: int, chance: random.Random) -> dict[str, list[str]]:
    """Return what is wrong with images of the indexing of a crawl (`index`), or of a removal (`remove`)."""
    with bench.data() as data:
        told = bench.order(crawl=str(data), look=str(data)) if stage == "remove" else bench.order(crawl=str(data))
        assert told.get("state") == "finished", told
        disk, trace, root = Disk(), data.parent / "trace", str(data)
        disk.load(data)
        calm = bench.order(**{stage: root, "trace": str(trace), "look": root})
        assert calm.get("state") == "finished", calm
        deeds = read_trace(trace)
    hurt = {"acknowledged": told["acknowledged"] if stage == "index" else []}
    points = sorted(chance.randint(0, len(deeds)) for _ in range(number))

    def finished(nth: int, name: str, image: Path) -> tuple[str, list[str]]:
        found = list[str]()
        try:
            if stage == "remove" and nth % 2:
                again = bench.order(crawl=str(image), look=str(image))
                found += [f"{key}: {again[key]}" for key in ("error", "crash", "complaints") if again.get(key)]
                stays = {url for url in calm["urls"] if calm["urls"][url][0] == "done"}
                found += [f"{url} is missing" for url in stays if again.get("urls", {}).get(url) != calm["urls"][url]]
            order = {"crawl": str(image)} if stage == "index" else {stage: str(image)}
            again = bench.order(**order, look=str(image))
        finally:
            bench.drop(image)
        found += after(hurt, again, calm)
        return name, found + ([] if again.get("is_proven", True) else ["the removal is not proven"])

    torn = torn_images(bench, disk, deeds, root, points, chance)
    return by_name(bench.all_done(partial(finished, nth, name, image) for nth, (name, _, image) in enumerate(torn)))


def by_name(found: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Return what is wrong, by the name of its image. Images of the same moment differ: none may hide another."""
    wrong: dict[str, list[str]] = {}
    for name, lines in found:
        if lines:
            wrong.setdefault(name, []).extend(lines)
    return wrong


def main(number: int, seed: int, stage: str) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, Bench(Path(folder), compiled(Path(folder))) as bench:
        if stage == "crawl":
            wrong = complaints(bench, bench.undisturbed(), number, chance)
        else:
            wrong = later_complaints(bench, {"removal": "remove"}.get(stage, stage), number, chance)
    for name, lines in wrong.items():
        print(name, *lines, sep="\n  ")
    print(f"{stage}, seed {seed}: {number:,} power losses, {len(wrong):,} with something wrong")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]), int(given[1]) if len(given) > 1 else 24, given[2] if len(given) > 2 else "crawl")
