"""Scores on disk: found by key, replaced whole, taken up when they are replaced."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import CorruptFile
from teia.graph.pagerank import Ranks, pagerank
from teia.graph.rankfile import NO_STAMP, RankFile, compute_percentiles, write_ranks

from .webs import graph, random_web

NOW_S = 1_700_000_000.0


def keys(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def some_ranks(seed: int = 1) -> Ranks:
    return pagerank(graph(random_web(60, 40, 5, seed)))


def test_every_key_finds_its_own_numbers(tmp_path: Path) -> None:
    ranks = some_ranks()
    write_ranks(tmp_path / "ranks.bin", ranks, NOW_S)
    file = RankFile.open(tmp_path / "ranks.bin")
    backwards = ranks.keys[::-1]
    assert (file.scores(backwards) == ranks.scores[::-1].astype(np.float32)).all()
    assert (file.in_links(backwards) == ranks.in_links[::-1]).all()
    assert (len(file), file.made_s) == (len(ranks.keys), NOW_S)
    assert (file.alone, file.per_link) == (ranks.alone, ranks.per_link)
    assert file.scores(ranks.keys).sum() == pytest.approx(1, abs=1e-5)


@given(asked=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_unknown_keys_have_nothing(tmp_path_factory: pytest.TempPathFactory, asked: list[int]) -> None:
    path = tmp_path_factory.mktemp("ranks") / "ranks.bin"
    write_ranks(path, pagerank(graph({-5: [7], 7: [2**63 - 1]})), NOW_S)
    file = RankFile.open(path)
    unknown = [key not in {-5, 7, 2**63 - 1} for key in asked]
    for column in (file.scores, file.percentiles, file.in_links):
        assert not column(keys(*asked))[unknown].any()
    assert file.scores(keys(7))[0] > 0


def test_percentiles_say_how_many_of_the_pages_that_link_have_less() -> None:
    scores = np.array([0.1, 0.4, 0.2, 0.2, 0.05, 0.9], np.float32)
    links = np.array([True, True, True, True, False, False])
    assert compute_percentiles(scores, links).tolist() == [0.0, 0.75, 0.25, 0.25, 0.0, 1.0]


def test_where_there_is_no_file_everything_is_unknown(tmp_path: Path) -> None:
    file = RankFile.open(tmp_path / "ranks.bin")
    assert (len(file), file.stamp) == (0, NO_STAMP)
    assert file.scores(keys(1, 2)).tolist() == file.percentiles(keys(1, 2)).tolist() == [0.0, 0.0]
    assert not file.reload()


def test_a_file_without_nodes_is_a_file(tmp_path: Path) -> None:
    write_ranks(tmp_path / "ranks.bin", pagerank(graph({})), NOW_S)
    file = RankFile.open(tmp_path / "ranks.bin")
    assert (len(file), file.made_s) == (0, NOW_S)
    assert file.scores(keys(1)).tolist() == [0.0]


def test_a_reader_keeps_its_version_until_it_reloads(tmp_path: Path) -> None:
    path = tmp_path / "ranks.bin"
    file = RankFile.open(path)
    write_ranks(path, pagerank(graph({1: [2]})), NOW_S)
    assert file.scores(keys(2))[0] == 0
    assert file.reload()
    before, stamp = file.scores(keys(2))[0], file.stamp
    write_ranks(path, pagerank(graph({1: [2, 3]})), NOW_S + 1)
    assert file.scores(keys(2))[0] == before
    assert file.reload()
    assert not file.reload()
    assert file.scores(keys(2))[0] < before
    assert file.stamp != stamp
    path.unlink()
    assert file.reload()
    assert file.stamp == NO_STAMP


def test_the_same_scores_have_the_same_stamp(tmp_path: Path) -> None:
    for name, made_s in (("a", NOW_S), ("b", NOW_S + 60)):
        write_ranks(tmp_path / name, some_ranks(), made_s)
    write_ranks(tmp_path / "c", some_ranks(seed=2), NOW_S)
    stamps = [RankFile.open(tmp_path / name).stamp for name in "abc"]
    assert stamps[0] == stamps[1] != stamps[2]


def test_a_file_that_is_not_ours_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ranks.bin"
    write_ranks(path, some_ranks(), NOW_S)
    whole = path.read_bytes()
    bad = [(b"", "is not a rank file"), (b"x" * 100, "is not a rank file"), (whole[:-1], "incomplete")]
    bad += [(whole + b"x", "incomplete"), (whole[:8] + b"\x09" + whole[9:], "of another version")]
    for content, why in bad:
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=rf"ranks\.bin: .*{why}.*; delete it, it will be rebuilt"):
            RankFile.open(path)


@pytest.mark.heavy
def test_threads_share_a_file_that_is_being_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ranks.bin"
    versions = [pagerank(graph({1: list(range(2, 3 + size))})) for size in range(5)]
    allowed = {float(np.float32(ranks.scores[0])) for ranks in versions}
    write_ranks(path, versions[0], NOW_S)
    file, seen, is_over = RankFile.open(path), set[float](), threading.Event()

    def look() -> None:
        while not is_over.is_set():
            seen.add(float(file.scores(keys(1))[0]))

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(40):
        write_ranks(path, versions[turn % 5], NOW_S)
        file.reload()
    is_over.set()
    for reader in readers:
        reader.join()
    assert seen <= allowed
