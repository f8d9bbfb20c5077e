"""Whoever has the public key finds every change of a signed file and of the chain itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from teia.store import manifest
from teia.store.archive import Position
from teia.store.erase import erase
from teia.store.manifest import (
    MANIFEST,
    ManifestEvent,
    Statement,
    accept_mismatches,
    append,
    begin_erasure,
    end_erasure,
    inode_of,
    mismatch,
    pinned,
    read_manifest,
    read_signed_file,
    unsigned_files,
)
from teia.store.reader import walk_file
from teia.store.signing_key import open_signer

from .signed_archives import NOW_S, SignedArchive, change_byte, sign, signed_archive, unsigned_archive


@pytest.fixture
def made(tmp_path: Path) -> SignedArchive:
    return signed_archive(tmp_path)


def lines(made: SignedArchive) -> list[bytes]:
    return (made.collection / MANIFEST).read_bytes().splitlines(keepends=True)


def complaints(made: SignedArchive) -> list[str]:
    return read_manifest(made.collection, must_verify=True).complaints


def mismatches(made: SignedArchive) -> dict[str, str]:
    files = read_manifest(made.collection).files.values()
    return {signed.file: why for signed in files if (why := mismatch(made.collection, signed))}


def events(made: SignedArchive) -> list[str]:
    return [json.loads(line)["event"] for line in lines(made)]


def test_a_closed_file_is_signed_whole_and_the_open_one_up_to_its_committed_end(made: SignedArchive) -> None:
    entries = [json.loads(line) for line in lines(made)]
    assert [entry["event"] for entry in entries] == ["closed"] * (len(made.files) - 1) + ["grew"]
    for entry, path in zip(entries, made.files, strict=True):
        assert entry["file"] == f"cells/07/archive/{path.name}"
        assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert (entry["from"], entry["bytes"]) == (0, path.stat().st_size)
        assert entry.get("records") == (None if entry["event"] == "grew" else len(list(walk_file(path))))
    assert [entry["number"] for entry in entries] == list(range(1, len(entries) + 1))
    assert complaints(made) == []
    assert mismatches(made) == {}
    assert sign(made) == 0


def test_a_file_that_a_crash_would_open_again_is_not_signed_as_closed(tmp_path: Path) -> None:
    """Until something is committed in the next file, a crash removes that one, and this one grows."""
    made = unsigned_archive(tmp_path)
    before = Position(made.files[-2].name, made.files[-2].stat().st_size)
    found = unsigned_files(made.collection, made.files[0].parent, before, read_manifest(made.collection))
    assert made.files[-2] not in found.closed
    assert found.open_file == made.files[-2]
    assert made.files[-1] not in found.closed


def test_an_open_file_is_signed_part_by_part_and_closed_as_a_whole(tmp_path: Path) -> None:
    made = unsigned_archive(tmp_path)
    path = made.files[0]
    middle = [member.offset for member in walk_file(path)][4]
    sign(made, Position(path.name, middle))
    sign(made, Position(path.name, path.stat().st_size))
    assert events(made) == ["grew", "grew"]
    assert [(json.loads(line)["from"], json.loads(line)["bytes"]) for line in lines(made)] == [
        (0, middle),
        (middle, path.stat().st_size),
    ]
    assert mismatches(made) == {}
    change_byte(path, middle + 1)
    assert "entry 2" in mismatches(made)[made.name(0)]
    change_byte(path, middle + 1)
    sign(made)
    assert read_manifest(made.collection).files[made.name(0)].numbers == (3,)
    assert (mismatches(made), complaints(made)) == ({}, [])


@pytest.mark.parametrize("harm", ["change", "cut", "lengthen", "remove"])
def test_a_file_that_was_changed_is_named(made: SignedArchive, harm: str) -> None:
    path = made.files[1]
    if harm == "change":
        change_byte(path, path.stat().st_size // 2)
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif harm == "lengthen":
        path.write_bytes(path.read_bytes() + b"\0")
    else:
        path.unlink()
    assert list(mismatches(made)) == [made.name(1)]


def test_an_open_file_may_grow(made: SignedArchive) -> None:
    made.files[-1].write_bytes(made.files[-1].read_bytes() + b"more")
    assert mismatches(made) == {}


def test_every_changed_octet_of_the_manifest_is_found(made: SignedArchive) -> None:
    data = (made.collection / MANIFEST).read_bytes()
    for offset in range(0, len(data), 17):
        changed = bytearray(data)
        changed[offset] ^= 1
        (made.collection / MANIFEST).write_bytes(bytes(changed))
        assert complaints(made), offset


@pytest.mark.parametrize("which", [0, 1])
def test_an_entry_that_was_left_out_is_noticed(made: SignedArchive, which: int) -> None:
    left = [line for number, line in enumerate(lines(made)) if number != which]
    (made.collection / MANIFEST).write_bytes(b"".join(left))
    assert any("line" in each for each in complaints(made))


def test_an_entry_signed_again_with_another_key_breaks_the_chain_and_names_the_key(
    made: SignedArchive, tmp_path: Path
) -> None:
    other = tmp_path / "thief" / "main"
    other.mkdir(parents=True)
    thief = open_signer(other.parent)
    forged = json.loads(lines(made)[0])
    del forged["signature"]
    forged |= {"sha256": "0" * 64, "key": thief.public.hex()}
    text = json.dumps(forged)
    line = f'{text[:-1]}, "signature": "{thief.sign(text.encode()).hex()}"}}\n'
    (made.collection / MANIFEST).write_bytes(b"".join([line.encode(), *lines(made)[1:]]))
    found = read_manifest(made.collection, must_verify=True)
    assert any("line 2: does not follow" in each for each in found.complaints)
    assert thief.public in found.keys


def test_a_torn_last_line_counts_for_nothing_and_is_cut(made: SignedArchive) -> None:
    whole = (made.collection / MANIFEST).read_bytes()
    for end in (1, len(whole) // 2, len(whole) - 1):
        (made.collection / MANIFEST).write_bytes(whole[:end])
        sign(made)
        assert complaints(made) == []
        assert mismatches(made) == {}
        assert len(read_manifest(made.collection).files) == len(made.files)


def test_an_entry_after_a_changed_number_has_the_number_of_its_line(made: SignedArchive) -> None:
    *others, last = lines(made)
    changed = json.loads(last) | {"number": 99}
    (made.collection / MANIFEST).write_bytes(b"".join(others) + json.dumps(changed).encode() + b"\n")
    before = complaints(made)
    append(made.collection, [Statement(ManifestEvent.LOST, "cells/07/archive/x", 0, 0, "")], NOW_S)
    assert complaints(made) == before


@pytest.mark.parametrize("tail_bytes", [1, 100, 700, 1 << 16])
def test_an_entry_is_appended_by_the_end_of_the_file_alone(
    made: SignedArchive, monkeypatch: pytest.MonkeyPatch, tail_bytes: int
) -> None:
    monkeypatch.setattr(manifest, "_TAIL_BYTES", tail_bytes)
    before = len(lines(made))
    for number in range(3):
        file = f"cells/07/archive/{number}.warc.gz"
        append(made.collection, [Statement(ManifestEvent.CLOSED, file, 0, 1, "00")], NOW_S)
        with (made.collection / MANIFEST).open("ab") as torn:
            torn.write(b'{"version": 1, "nu')
    found = read_manifest(made.collection, must_verify=True)
    assert (found.entries, found.complaints) == (before + 3, [])


def test_no_other_file_gets_the_inode_of_a_pinned_one(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"first")
    with pinned(path) as inode:
        assert inode == inode_of(path)
        for number in range(100):
            other.write_bytes(b"%d" % number)
            other.replace(path)
            assert inode_of(path) != inode
    with pinned(tmp_path / "missing") as none:
        assert none == inode_of(tmp_path / "missing") == 0


def test_a_name_that_leads_out_of_the_archive_is_no_entry(made: SignedArchive) -> None:
    append(made.collection, [Statement(ManifestEvent.CLOSED, "cells/07/archive/../../../signing.key", 0, 1, "")], NOW_S)
    assert complaints(made) == [f"{MANIFEST} line {len(made.files) + 1}: is not entry {len(made.files) + 1}"]


# ---- removals -------------------------------------------------------------------------------------------------------


def erase_one(made: SignedArchive, path: Path, *, is_killed: bool = False) -> None:
    offsets = [member.offset for member in walk_file(path)]
    begin_erasure(made.collection, path, "removal", NOW_S)
    erase(path, offsets[2:3], "removal", NOW_S)
    if not is_killed:
        end_erasure(made.collection, path, "removal", NOW_S)


def test_a_removal_has_an_entry_that_names_the_one_it_replaces(made: SignedArchive) -> None:
    erase_one(made, made.files[1])
    last = json.loads(lines(made)[-1])
    assert (last["event"], last["reason"], last["replaces"]) == ("erased", "removal", [2])
    assert last["records"] == len(list(walk_file(made.files[1])))
    assert (complaints(made), mismatches(made)) == ([], {})
    assert sign(made) == 0, "it is still closed"


def test_a_removal_that_was_killed_is_ended_by_its_repetition(made: SignedArchive) -> None:
    erase_one(made, made.files[1], is_killed=True)
    assert read_manifest(made.collection).files[made.name(1)].is_erasing
    erase_one(made, made.files[1])
    assert events(made)[-2:] == ["erasing", "erased"]
    assert "damaged" not in events(made)
    assert (complaints(made), mismatches(made)) == ([], {})


def test_a_removal_from_the_open_file_leaves_it_open(made: SignedArchive) -> None:
    erase_one(made, made.files[-1])
    made.files[-1].write_bytes(made.files[-1].read_bytes() + b"more")
    assert mismatches(made) == {}


def test_a_removal_does_not_hide_that_the_file_had_been_changed(made: SignedArchive) -> None:
    """Signed anew after the removal, a changed file would pass every later audit."""
    change_byte(made.files[1], made.files[1].stat().st_size - 4)
    erase_one(made, made.files[1])
    assert events(made)[-3:] == ["damaged", "erasing", "erased"]
    assert mismatches(made) == {}
    assert read_manifest(made.collection).files[made.name(1)].damaged_s == NOW_S
    assert len(accept_mismatches(made.collection, {}, "disk was replaced", NOW_S)) == 1
    assert read_manifest(made.collection).files[made.name(1)].damaged_s is None


def test_a_damaged_file_that_is_lost_later_is_accepted_once(made: SignedArchive) -> None:
    change_byte(made.files[1], made.files[1].stat().st_size - 4)
    erase_one(made, made.files[1])
    made.files[1].unlink()
    assert len(accept_mismatches(made.collection, {}, "disk was replaced", NOW_S)) == 1
    assert accept_mismatches(made.collection, {}, "again", NOW_S) == []


def test_a_file_that_was_never_signed_needs_no_entry(tmp_path: Path) -> None:
    made = unsigned_archive(tmp_path)
    erase_one(made, made.files[0])
    assert not (made.collection / MANIFEST).exists()


def test_accepted_files_are_signed_as_they_are(made: SignedArchive) -> None:
    change_byte(made.files[0], 500)
    made.files[1].unlink()
    accepted = accept_mismatches(made.collection, {made.name(-1): made.end.offset}, "known damage", NOW_S)
    assert [line.partition(":")[0] for line in accepted] == [made.name(0), made.name(1)]
    assert events(made)[-2:] == ["accepted", "lost"]
    assert (complaints(made), mismatches(made)) == ([], {})
    assert accept_mismatches(made.collection, {}, "again", NOW_S) == []


def test_a_closed_file_that_a_repair_opened_again_may_grow(made: SignedArchive) -> None:
    made.files[-1].unlink()
    path = made.files[-2]
    accept_mismatches(made.collection, {made.name(-2): path.stat().st_size}, "repair", NOW_S)
    path.write_bytes(path.read_bytes() + b"more")
    assert mismatches(made) == {}


def test_a_removal_parses_the_entries_of_its_file_alone(made: SignedArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file of a removal reads the manifest, whose length grows with the number of files."""
    said = read_manifest(made.collection).of(made.name(0)).parts[-1].said
    append(made.collection, [replace(said, file=f"cells/07/archive/{n}.warc.gz") for n in range(1_000)], NOW_S)
    parsed, parse = list[bytes](), manifest._parse

    def count(line: bytes) -> manifest.Entry | None:
        parsed.append(line)
        return parse(line)

    monkeypatch.setattr(manifest, "_parse", count)
    erase_one(made, made.files[0])
    assert len(parsed) < 20
    assert read_signed_file(made.collection, said.file) == read_manifest(made.collection).of(said.file)
