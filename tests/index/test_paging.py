"""What every search needs is asked for at once, and large read-ahead does not read the index for a few words."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from teia.index import paging
from teia.index.reader import CellReader
from teia.index.union import UnionReader

from .pages import indexed, page

KB = 1024


def apply_crawl_delay(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """By the name of a file: from where on it was asked for."""
    asked: dict[str, int] = {}
    monkeypatch.setattr(paging, "prefetch", lambda file, start=0: asked.__setitem__(file.name, start))
    return asked


def files_of(folder: Path, sizes: dict[str, int]) -> list[Path]:
    for name, size in sizes.items():
        with (folder / name).open("wb") as file:
            file.truncate(size)
    return [folder / name for name in sizes]


def test_columns_are_wanted_whole_and_of_others_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = apply_crawl_delay(monkeypatch)
    sizes = {"a.fast": 90 * KB, "a.fieldnorm": 5, "a.term": 90 * KB, "a.idx": 3, "a.store": 40 * KB, "a.del": 9}
    paging.read_ahead([*files_of(tmp_path, sizes), tmp_path / "gone.pos"])
    expected = {"a.fast": 0, "a.fieldnorm": 0, "a.term": 74 * KB, "a.idx": 0, "a.store": 24 * KB, "gone.pos": 0}
    assert asked == expected


def test_small_segments_are_wanted_from_the_smallest_as_far_as_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = apply_crawl_delay(monkeypatch)
    monkeypatch.setattr(paging, "SMALL_BYTES", 6)
    files = files_of(tmp_path, {"a.term": 50, "b.term": 4, "c.term": 3, "c.idx": 5, "b.pos": 7, "a.store": 1})
    paging.read_words_ahead(files, most=50)
    assert list(asked) == ["c.term", "b.term", "c.idx"]
    asked.clear()
    paging.read_words_ahead(files, most=9)
    assert list(asked) == ["c.term", "b.term"]


def test_asking_brings_a_file_into_memory_and_a_missing_one_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    paging.prefetch(tmp_path / "file")
    paging.prefetch(tmp_path / "missing")


def test_the_read_ahead_of_a_disk_and_of_a_part_of_one_are_known(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    assert paging.read_ahead_kb(tmp_path, tmp_path / "nothing") == 0
    disk = tmp_path / "disk"
    (disk / "queue").mkdir(parents=True)
    (disk / "queue" / "read_ahead_kb").write_text("4096\n")
    (disk / "part").mkdir()
    for device_folder in (disk, disk / "part"):
        devices = tmp_path / f"devices of {device_folder.name}"
        devices.mkdir()
        (devices / name).symlink_to(device_folder)
        assert paging.read_ahead_kb(tmp_path, devices) == 4096


def test_only_mappings_on_disks_that_read_much_ahead_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    held = []
    for name in ("mine/one", "mine/a name with blanks", "other/one"):
        (tmp_path / name).write_bytes(b"x" * 9_000)
        with (tmp_path / name).open("rb") as file:
            held.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    for much, expected in ((paging.MUCH_READ_AHEAD_KB, 0), (paging.MUCH_READ_AHEAD_KB + 1, 2)):
        monkeypatch.setattr(paging, "read_ahead_kb", lambda _, much=much: much)
        assert paging.advise_random_access([tmp_path / "mine"]) == expected
    flags = flags_of(str(tmp_path / "mine" / "one"))
    assert not flags or "rr" in flags  # VM_RAND_READ, where the kernel tells
    assert "rr" not in flags_of(str(tmp_path / "other" / "one"))
    assert [each[0] for each in held] == [ord("x")] * 3


def flags_of(path: str) -> list[str]:
    """What the kernel was told of a mapped file; nothing where it does not say."""
    lines = Path("/proc/self/smaps").read_text("utf-8").splitlines() if Path("/proc/self/smaps").exists() else []
    is_here = False
    for line in lines:
        is_here = line.endswith(path) or (is_here and not line.startswith("VmFlags"))
        if is_here and line.startswith("VmFlags"):
            return line.split()[1:]
    return []


def test_an_index_that_is_read_so_answers_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "read_ahead_kb", lambda _: 1 << 20)
    pages = [page(f"http://a.test/{number}", f"text {number}") for number in range(50)]
    folder = indexed(tmp_path / "index", pages)
    union, alone = UnionReader({"cell": folder}), CellReader(folder)
    keys = [each.key for each in pages]
    assert union.entries(union.searcher(), keys) == alone.entries(alone.searcher(), keys)
    union.close()
