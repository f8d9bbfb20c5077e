from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from teia import durable
from teia.durable import disk_errors, file_lock, lock_holder, replacing, temporary_name, write_atomically
from teia.errors import DiskFull, StoreError


def test_a_file_is_replaced(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_failure_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"old")
    with pytest.raises(RuntimeError):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_no_room_leaves_the_old_file_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(DiskFull, match="no space left"):
            write_atomically(path, b"x" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old"
    assert not temporary_name(path).exists()


def test_what_a_crash_left_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a"
    temporary_name(path).write_bytes(b"torn, and longer than what follows")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert not temporary_name(path).exists()


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, DiskFull, "free some space"),
        (errno.EDQUOT, DiskFull, "free some space"),
        (errno.EROFS, StoreError, "choose another folder with --data"),
        (errno.EACCES, StoreError, "choose another folder with --data"),
        (errno.EIO, StoreError, "Input/output error"),
    ],
)
def test_disk_errors_are_one_line_with_advice(number: int, kind: type[StoreError], advice: str) -> None:
    with pytest.raises(kind, match=advice) as raised, disk_errors(Path("x"), "written"):
        raise OSError(number, os.strerror(number))
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)


def _write_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half of the new")
        raise RuntimeError


@pytest.mark.parametrize("can_exchange", [True, False])
def test_two_folders_trade_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:  # as on file systems that do not know how
        monkeypatch.setattr(durable, "_exchange", lambda *_: False)
    one, other = tmp_path / "index", tmp_path / "index.new"
    for folder in (one, other):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    durable.exchange_folders(one, other)
    assert [(folder / "name").read_text() for folder in (one, other)] == ["index.new", "index"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "index.new"]


def test_an_exchange_that_fails_or_dies_half_way_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_exchange", lambda *_: False)
    one, aside = tmp_path / "index", tmp_path / ".index.aside"
    one.mkdir()
    (one / "name").write_text("old")
    with pytest.raises(StoreError):
        durable.exchange_folders(one, tmp_path / "is not there")
    assert (one / "name").read_text() == "old"
    one.rename(aside)  # as a death after the first step leaves it
    durable.repair_exchange(one)
    assert (one / "name").read_text() == "old"
    aside.mkdir()  # as one before the last does
    durable.repair_exchange(one)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_lock_is_held_by_one_and_names_its_holder_if_it_signed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock_holder(path) is None
    with file_lock(path, mode=0o600) as first, file_lock(path, tries=3, pause_s=0.001) as second:
        assert (first, second) == (True, False)
        assert lock_holder(path) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    with file_lock(path, is_signed=True) as first:
        assert (first, lock_holder(path)) == (True, os.getpid())
    assert lock_holder(path) is None
    with file_lock(tmp_path) as first, file_lock(tmp_path) as second:  # a folder
        assert (first, second) == (True, False)


def test_a_lock_that_cannot_be_opened_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"), file_lock(tmp_path / "missing" / "lock"):
        pass
