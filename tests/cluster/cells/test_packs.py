"""A file as pieces: what did not change is not stored again, and nothing that is damaged is taken for whole."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest

from teia.cluster.cells.packs import MAX_PACKS, PIECE_BYTES, Damaged, FileMap, pack, read_map, unpack, write_map


def packed(folder: Path, data: bytes, name: str, base: FileMap | None = None) -> FileMap:
    (folder / "file").write_bytes(data)
    return pack(folder / "file", folder / name, name, base)


def unpacked(folder: Path, made: FileMap) -> bytes:
    into = io.BytesIO()
    unpack(made, {name: folder / name for name in made.packs}, into)
    return into.getvalue()


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES - 1])
def test_a_file_comes_back_as_it_was(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    made = packed(tmp_path, data, "a")
    digest = write_map(made, tmp_path / "map")
    assert unpacked(tmp_path, read_map(tmp_path / "map", digest)) == data


def test_only_what_changed_is_stored_again(tmp_path: Path) -> None:
    """Issue 7: incremental; whatever is changed, added or cut, the file comes back whole."""
    chance = random.Random(7)
    data, made = bytearray(os.urandom(20 * PIECE_BYTES)), None
    for step in range(2 * MAX_PACKS):
        made = packed(tmp_path, bytes(data), f"p{step}", made)
        assert unpacked(tmp_path, made) == data
        stored = (tmp_path / f"p{step}").stat().st_size
        assert step == 0 or len(made.packs) == 1 or stored <= 5 * PIECE_BYTES
        assert sum(made.pack_bytes) <= 3 * len(data)
        for _ in range(3):
            data[chance.randrange(len(data))] ^= 1
        if step % 5 == 4:
            data = data[: chance.randrange(16 * PIECE_BYTES, len(data))] + os.urandom(PIECE_BYTES)
    same = packed(tmp_path, bytes(data), "again", packed(tmp_path, bytes(data), "once"))
    assert same.packs == ["once"]


def test_whatever_is_damaged_is_noticed(tmp_path: Path) -> None:
    made = packed(tmp_path, os.urandom(3 * PIECE_BYTES), "a")
    digest = write_map(made, tmp_path / "map")
    for name, read in (("a", lambda: unpacked(tmp_path, made)), ("map", lambda: read_map(tmp_path / "map", digest))):
        whole = (tmp_path / name).read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            (tmp_path / name).write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            with pytest.raises(Damaged):
                read()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(Damaged):
            read()
        (tmp_path / name).write_bytes(whole)
        read()
