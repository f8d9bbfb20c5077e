"""A damaged file of an index is named, whichever it is; a search goes on with the other cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.index.checksums import damaged_files
from teia.index.reader import DamagedIndex, name_panics
from teia.index.union import UnionReader
from teia.search.serve.searcher import Searcher
from teia.search.serve.shards import LocalShard

from .pages import indexed, page

KINDS = ("term", "idx", "pos", "fast", "store", "fieldnorm")


def damage(file: Path) -> None:
    """Overwrite the second half, but for the footer."""
    data = bytearray(file.read_bytes())
    half = len(data) // 2
    data[half : len(data) - 100] = bytes(each ^ 0xFF for each in data[half : len(data) - 100])
    data[3] ^= 0x10
    file.write_bytes(data)


@pytest.fixture
def cells(tmp_path: Path) -> dict[str, Path]:
    return {
        cell: indexed(tmp_path / cell, [page(f"http://{cell}.test/{n}", f"words of {cell} {n}") for n in range(30)])
        for cell in "ab"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_of_any_kind_is_named(cells: dict[str, Path], kind: str) -> None:
    assert damaged_files(cells["a"]) == []
    damaged = next(cells["a"].glob(f"*.{kind}"))
    whole = damaged.read_bytes()
    damage(damaged)
    assert damaged_files(cells["a"]) == [damaged.name]
    damaged.write_bytes(whole[:-30])
    assert damaged_files(cells["a"]) == [damaged.name], "cut short"
    damaged.write_bytes(whole)
    assert damaged_files(cells["a"]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_over_a_damaged_cell_answers_from_the_others(cells: dict[str, Path], kind: str) -> None:
    """tantivy's panic was no Exception: a server answered 500 without JSON."""
    damage(next(cells["a"].glob(f"*.{kind}")))
    reader = UnionReader(cells)
    searcher = Searcher([LocalShard("here", reader)], WallClock())
    try:
        for query in ("words", "a", '"words of"', "site:a.test words", "wor*"):
            results = searcher.search(query)
            urls = {hit.url.partition("/")[2] for hit in results.hits}
            # Damage that tantivy does not notice cannot be seen here; what it does notice costs that cell alone.
            assert urls or results.is_partial or "a" in query
            if results.is_partial:
                assert "teia rebuild index" in str(results.notes)
    finally:
        searcher.close()
        reader.close()


def test_a_panic_is_an_error_of_ours_and_other_errors_stay_what_they_are() -> None:
    class PanicException(BaseException):
        """What pyo3 raises for a panic."""

    with pytest.raises(DamagedIndex, match="teia rebuild index"), name_panics():
        raise PanicException("range end index 9 out of range for slice of length 3")
    with pytest.raises(KeyboardInterrupt), name_panics():
        raise KeyboardInterrupt
