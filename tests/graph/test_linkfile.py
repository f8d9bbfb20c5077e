"""The links of a cell on disk: the last word of a page counts, whatever happens to the file (F5)."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import CorruptFile, DiskFull, StoreError
from teia.graph import linkfile
from teia.graph.linkfile import MAX_LINKS, START, Edges, LinkFile

KEYS = st.integers(-(2**63), 2**63 - 1)
SAID = st.lists(st.tuples(st.sampled_from([*range(6), -(2**63), 2**63 - 1]), st.lists(KEYS, max_size=5)), max_size=30)

Links = dict[int, list[int]]


def links_in(path: Path) -> Links:
    """Every page that counts, with its links."""
    found: Links = {}
    with Edges(path) as edges:
        for chunk in edges:
            ends = np.cumsum(chunk.counts)
            for source, start, end in zip(chunk.sources, ends - chunk.counts, ends, strict=True):
                assert int(source) not in found, "a page comes once"
                found[int(source)] = [int(key) for key in chunk.targets[start:end]]
        assert edges.pages == len(found)
        assert edges.links == sum(map(len, found.values()))
    return found


def expected(said: list[tuple[int, list[int]]]) -> Links:
    last = {source: sorted(set(targets) - {source}) for source, targets in said}
    return {source: targets for source, targets in last.items() if targets}


def write(path: Path, *said: tuple[int, list[int]]) -> None:
    with LinkFile(path) as links:
        for source, targets in said:
            links.append(source, targets)


# ---- what counts ----------------------------------------------------------------------------------------------------


@given(said=SAID, flushed=st.integers(1, 5))
def test_of_each_page_the_last_record_counts(tmp_path_factory: pytest.TempPathFactory, said: Any, flushed: int) -> None:
    path = tmp_path_factory.mktemp("links") / "links.bin"
    for start in range(0, len(said), flushed):
        write(path, *said[start : start + flushed])
    assert links_in(path) == expected(said)


def test_a_page_without_links_is_taken_out_and_may_come_back(tmp_path: Path) -> None:
    path = tmp_path / "links.bin"
    write(path, (1, [2, 3]), (2, [1]))
    write(path, (1, []))
    assert links_in(path) == {2: [1]}
    write(path, (1, [9]))
    assert links_in(path) == {1: [9], 2: [1]}


def test_repeated_targets_and_the_page_itself_are_no_links(tmp_path: Path) -> None:
    write(tmp_path / "links.bin", (1, [3, 1, 2, 3, 2]), (5, [5]))
    assert links_in(tmp_path / "links.bin") == {1: [2, 3]}


def test_a_page_with_too_many_links_keeps_some(tmp_path: Path) -> None:
    write(tmp_path / "links.bin", (-1, list(range(MAX_LINKS + 10))))
    assert links_in(tmp_path / "links.bin") == {-1: list(range(MAX_LINKS))}


def test_saying_everything_twice_changes_nothing(tmp_path: Path) -> None:
    """After a crash the indexer begins again where it last noted how far it had come."""
    said = [(1, [2]), (2, [3]), (1, [4]), (3, [])]
    write(tmp_path / "once", *said)
    write(tmp_path / "twice", *said, *said[1:])
    assert links_in(tmp_path / "once") == links_in(tmp_path / "twice")


def test_nothing_is_read_where_nothing_was_written(tmp_path: Path) -> None:
    assert links_in(tmp_path / "missing") == {}
    write(tmp_path / "empty")
    assert links_in(tmp_path / "empty") == {}


def test_a_reader_sees_what_was_flushed_and_keeps_to_it(tmp_path: Path) -> None:
    path = tmp_path / "links.bin"
    with LinkFile(path) as links:
        links.append(1, [2])
        assert links_in(path) == {}
        links.flush()
        with Edges(path) as edges:
            links.append(1, [3])
            links.append(2, [3])
            links.flush()
            assert [chunk.targets.tolist() for chunk in edges] == [[2]]
        assert links_in(path) == {1: [3], 2: [3]}


def test_appending_without_end_is_written_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded whether or not anybody flushes."""
    monkeypatch.setattr(linkfile, "BLOCK_LINKS", 10)
    with LinkFile(tmp_path / "links.bin") as links:
        for source in range(10):
            links.append(source, [20, 21])
        assert len(links_in(tmp_path / "links.bin")) == 10


# ---- death ----------------------------------------------------------------------------------------------------------


def test_wherever_a_write_is_torn_what_was_flushed_before_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "links.bin"
    ends = []
    for said in ([(1, [2, 3])], [(2, [4]), (1, [9])], [(3, [5])]):
        write(path, *said)
        ends.append(path.stat().st_size)
    whole = path.read_bytes()
    states = [{1: [2, 3]}, {1: [9], 2: [4]}, {1: [9], 2: [4], 3: [5]}]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        known = [state for state, end in zip(states, ends, strict=True) if end <= size]
        assert links_in(path) == (known[-1] if known else {}), "a reader passes over the torn end"
        write(path, (7, [8]))
        assert links_in(path) == {**(known[-1] if known else {}), 7: [8]}


def test_an_end_that_is_there_but_was_never_filled_is_cut(tmp_path: Path) -> None:
    """A power loss may leave the length of a file and not what was in it."""
    path = tmp_path / "links.bin"
    write(path, (1, [2, 3]))
    size = path.stat().st_size
    write(path, (2, [4, 5, 6]))
    content = bytearray(path.read_bytes())
    for start in (size, size + 24, size + 40):
        path.write_bytes(content[:start] + bytes(len(content) - start))
        assert links_in(path) == {1: [2, 3]}
        with LinkFile(path) as links:
            assert links.cut_bytes == len(content) - size
        assert path.stat().st_size == size


def test_damage_that_is_no_torn_end_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "links.bin"
    for number in range(3):
        write(path, (number, [7, 8]))
    content = bytearray(path.read_bytes())
    content[len(START) + 30] ^= 1
    path.write_bytes(content)
    for opened in (Edges, LinkFile):
        with pytest.raises(
            CorruptFile, match=r"links\.bin: is damaged at byte 16; rebuild it with `teia rebuild index`"
        ):
            opened(path)
    path.write_bytes(b"something else altogether")
    with pytest.raises(CorruptFile, match="is not a link file of this version"):
        Edges(path)


def test_noise_is_never_taken_for_links(tmp_path: Path) -> None:
    """Whatever one octet becomes, what is read is what was flushed at some time, or an error that names the file."""
    path = tmp_path / "links.bin"
    chance, said = random.Random(5), [(1, [2, 3]), (2, [4]), (1, [5]), (3, [])]
    for each in said:
        write(path, each)
    whole = path.read_bytes()
    honest = [expected(said[:number]) for number in range(len(said) + 1)]
    for _ in range(300):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        with suppress(CorruptFile):
            assert links_in(path) in honest


def test_a_full_disk_leaves_what_was_there_and_lets_one_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "links.bin"
    write(path, (1, [2]))
    links, sync = LinkFile(path), os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    links.append(2, [3])
    monkeypatch.setattr(linkfile.os, "fsync", full)
    with pytest.raises(DiskFull, match="no space left on the disk"):
        links.flush()
    assert links_in(path) == {1: [2]}
    monkeypatch.setattr(linkfile.os, "fsync", sync)
    links.close()
    assert links_in(path) == {1: [2], 2: [3]}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/links\.bin: cannot be opened"):
        LinkFile(tmp_path / "nowhere" / "links.bin")


# ---- the past is left behind ----------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let small files be worth compacting."""
    return lambda octets: monkeypatch.setattr(linkfile, "MIN_COMPACTED_BYTES", octets)


def test_a_file_that_is_mostly_past_is_written_anew(tmp_path: Path, soon: Callable[[int], None]) -> None:
    soon(2_000)
    path, sizes = tmp_path / "links.bin", []
    said = [(page, [page + version, page + version + 1]) for version in range(1, 40) for page in range(20)]
    with LinkFile(path) as links:
        for number, (page, targets) in enumerate(said):
            links.append(page, targets)
            if number % 20 == 19:
                links.flush()
                sizes.append(path.stat().st_size)
    assert links_in(path) == expected(said)
    assert any(after < before for before, after in pairwise(sizes))
    assert max(sizes) < 6_000, "39 versions of 20 pages would be 25,000 octets"


def test_a_file_that_is_mostly_true_is_left_alone(tmp_path: Path, soon: Callable[[int], None]) -> None:
    soon(100)
    path = tmp_path / "links.bin"
    with LinkFile(path) as links:
        for page in range(100):
            links.append(page, [200, 201, 202])
            links.flush()
        inode = path.stat().st_ino
        for page in range(45):
            links.append(page, [200, 201, 203])
        links.flush()
    with LinkFile(path):
        assert path.stat().st_ino == inode


def test_writing_anew_fills_blocks_and_keeps_their_limits(
    tmp_path: Path, soon: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    soon(1_000)
    monkeypatch.setattr(linkfile, "BLOCK_LINKS", 64)
    path = tmp_path / "links.bin"
    said = [(page, [1_000, 1_001, 1_002]) for page in range(100)]
    for each in range(0, len(said), 10):
        write(path, *said[each : each + 10])
    again = [(page, [1_000, 1_001, version]) for version in range(2_000, 2_003) for page in range(60)]
    write(path, *again)
    assert links_in(path) == expected([*said, *again])
    with LinkFile(path), Edges(path) as edges:
        sizes = [len(chunk.targets) for chunk in edges]
    assert sizes[:2] == [60, 60], "four blocks of 30 became two"
    assert max(sizes) <= 66, "a block is written when it has reached 64, and a page has three"


def test_a_reader_of_the_old_file_reads_on(tmp_path: Path, soon: Callable[[int], None]) -> None:
    soon(100)
    path = tmp_path / "links.bin"
    write(path, *((page, [50, 51]) for page in range(10)))
    with Edges(path) as edges, LinkFile(path) as links:
        for version in range(3):
            for page in range(10):
                links.append(page, [60 + version])
            links.flush()
        assert [chunk.targets.tolist() for chunk in edges] == [[50, 51] * 10]
    assert links_in(path) == {page: [62] for page in range(10)}
