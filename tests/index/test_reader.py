"""An index opened to be searched: it follows commits, writes nothing, and says what is wrong."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from tantivy import Query

from teia.errors import IndexFailure
from teia.index import union as union_module
from teia.index.cell import CellIndex
from teia.index.position import has_index
from teia.index.reader import CellReader, IndexReader
from teia.index.remote_pages import Extent
from teia.index.union import UnionReader

from .pages import indexed, page


def count(reader: IndexReader) -> int:
    return reader.searcher().num_docs


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if not path.name.startswith(".")}


def test_a_reader_sees_what_is_committed_after_it_was_opened(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page("http://a.test/1", "one"))
    index.commit(1)
    reader = CellReader(tmp_path / "index")
    before = reader.searcher()
    index.put(page("http://a.test/2", "two"))
    assert count(reader) == 1
    index.commit(2)
    assert count(reader) == 2
    assert before.num_docs == 1


def test_one_view_is_one_object_until_the_next_commit(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page("http://a.test/1", "one"))
    index.commit(1)
    reader = CellReader(tmp_path / "index")
    view = reader.searcher()
    assert reader.searcher() is view
    assert reader.last_searcher() is view
    index.put(page("http://a.test/2", "two"))
    index.commit(2)
    assert reader.last_searcher() is view
    assert reader.searcher() is not view
    assert reader.last_searcher() is reader.searcher()


def test_reading_changes_nothing(tmp_path: Path) -> None:
    folder = indexed(tmp_path / "index", [page("http://a.test/1", "one")])
    before = files(folder)
    reader = CellReader(folder)
    assert count(reader) == 1
    assert files(folder) == before


def test_a_folder_without_an_index_is_not_made_into_one(tmp_path: Path) -> None:
    assert not has_index(tmp_path / "nothing")
    with pytest.raises(IndexFailure, match="there is no index of this version yet"):
        CellReader(tmp_path / "nothing").searcher()
    assert not (tmp_path / "nothing").exists()


def test_an_index_that_is_made_again_is_taken_up(tmp_path: Path) -> None:
    folder = indexed(tmp_path / "index", [page("http://a.test/1", "one")])
    reader = CellReader(folder)
    assert count(reader) == 1
    (folder / "position.json").unlink()
    indexed(folder, [page(f"http://a.test/{number}", "again") for number in range(3)])
    assert count(reader) == 3


def test_pages_are_found_by_their_keys(tmp_path: Path) -> None:
    pages = [page(f"http://a.test/{number}", f"text {number}") for number in range(5)]
    reader = CellReader(indexed(tmp_path / "index", pages))
    found = reader.entries(reader.searcher(), [pages[3].key, 12345, pages[0].key])
    assert found == {pages[3].key: pages[3], pages[0].key: pages[0]}
    assert reader.entries(reader.searcher(), []) == {}


def test_pages_whose_places_are_known_are_read_there_and_the_others_looked_up(tmp_path: Path) -> None:
    pages = [page(f"http://a.test/{number}", f"text {number}") for number in range(120)]
    reader = CellReader(indexed(tmp_path / "index", pages))
    searcher = reader.searcher()
    addresses = [address for _, address in searcher.search(Query.all_query(), limit=len(pages)).hits]
    places = dict(zip(searcher.fast_field_values("key", addresses), addresses, strict=True))
    keys = [each.key for each in pages]
    everything = {each.key: each for each in pages}
    assert reader.entries(searcher, [*keys, 12345], places) == everything
    some = {key: places[key] for key in keys[:60]}
    assert reader.entries(searcher, [*keys, 12345], some) == everything


def test_all_pages_are_read_once_each(tmp_path: Path) -> None:
    pages = [page(f"http://a.test/{number}", f"text {number}") for number in range(300)]
    reader = CellReader(indexed(tmp_path / "index", pages))
    assert sorted(entry.url for entry in reader.all_entries()) == sorted(entry.url for entry in pages)


# ---- many cells as one ----------------------------------------------------------------------------------------------


def union(tmp_path: Path, *names: str) -> UnionReader:
    return UnionReader({name: tmp_path / name for name in names})


def test_cells_are_one_index(tmp_path: Path) -> None:
    for cell in "ab":
        indexed(tmp_path / cell, [page(f"http://{cell}.test/{number}", "some words") for number in range(3)])
    reader = union(tmp_path, "a", "b")
    assert count(reader) == 6
    assert reader.searcher().doc_freq("all", "word") == 6
    assert len(list(reader.all_entries())) == 6
    assert (reader.cells, reader.omitted_cells) == (2, {})


def test_all_pages_are_read_in_one_order_whatever_cells_they_lie_in(tmp_path: Path) -> None:
    """A model of meaning is learnt from them in this order; it differed with the cells, and with it the ranks."""
    pages = [page(f"http://a.test/{number}", f"text {number}") for number in range(200)]
    indexed(tmp_path / "a", pages[::-2])
    indexed(tmp_path / "b", pages[::2])
    indexed(tmp_path / "whole", pages)
    expected = sorted(entry.key for entry in pages)
    assert [entry.key for entry in union(tmp_path, "a", "b").all_entries()] == expected
    assert [entry.key for entry in union(tmp_path, "b", "a").all_entries()] == expected
    assert [entry.key for entry in CellReader(tmp_path / "whole").all_entries()] == expected


def test_a_reader_that_was_closed_keeps_its_last_view_and_makes_no_folder_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that searched while the server ended left a folder of links behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    index = CellIndex(tmp_path / "a")
    index.put(page("http://a.test/1", "one"))
    index.commit(1)
    reader, unused = union(tmp_path, "a"), union(tmp_path, "a")
    view = reader.searcher()
    assert len(list((tmp_path / "temporary").iterdir())) == 2
    reader.close()
    unused.close()
    index.put(page("http://a.test/2", "two"))
    index.commit(2)
    assert reader.searcher() is view
    assert len(list(reader.all_entries())) == 1
    with pytest.raises(IndexFailure, match="was closed"):
        unused.searcher()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_reader_is_not_closed_while_it_follows_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(tmp_path / "a", [page("http://a.test/1", "one")])
    reader = union(tmp_path, "a")
    closing, ended = [], threading.Event()
    join = UnionReader._join_segments

    def close() -> None:
        reader.close()
        ended.set()

    def close_beside(self: UnionReader, elsewhere: Extent) -> tuple[set[str], list[Path]]:
        closing.append(threading.Thread(target=close))
        closing[0].start()
        assert not ended.wait(0.1), "it waits for the view"
        return join(self, elsewhere)

    monkeypatch.setattr(UnionReader, "_join_segments", close_beside)
    assert count(reader) == 1
    closing[0].join()
    assert not reader._scratch.path.exists()


def test_a_score_does_not_depend_on_the_cells_that_pages_lie_in(tmp_path: Path) -> None:
    short = [page(f"http://a.test/{number}", f"moon {number}") for number in range(5)]
    long = [page(f"http://b.test/{number}", f"moon sun {number} " + "star " * 400) for number in range(5)]
    indexed(tmp_path / "a", short)
    indexed(tmp_path / "b", long)
    indexed(tmp_path / "whole", [*short, *long])

    def scores(reader: IndexReader) -> dict[int, float]:
        searcher = reader.searcher()
        hits = searcher.search(Query.term_query(reader.schema, "all", "moon"), limit=10).hits
        keys = searcher.fast_field_values("key", [address for _, address in hits])
        return {int(key or 0): score for key, (score, _) in zip(keys, hits, strict=True)}

    assert scores(union(tmp_path, "a", "b")) == scores(CellReader(tmp_path / "whole"))


@pytest.mark.heavy
def test_the_union_follows_commits_removals_and_merges_of_every_cell(tmp_path: Path) -> None:
    indexes = {cell: CellIndex(tmp_path / cell) for cell in "ab"}
    for index in indexes.values():
        index.commit(1)
    reader = union(tmp_path, "a", "b")
    assert count(reader) == 0
    expected = 0
    for turn in range(30):
        for cell, index in indexes.items():
            index.put(page(f"http://{cell}.test/{turn}", "words"))
            expected += 1
            if turn % 3 == 2:
                index.remove(page(f"http://{cell}.test/{turn - 1}", "").key)
                expected -= 1
            index.commit(turn + 2)
        assert count(reader) == expected
    for index in indexes.values():
        index.close()
    assert count(reader) == expected


def test_a_cell_without_an_index_is_left_out_and_named_until_it_has_one(tmp_path: Path) -> None:
    indexed(tmp_path / "a", [page("http://a.test/", "one")])
    reader = union(tmp_path, "a", "b")
    assert count(reader) == 1
    assert list(reader.omitted_cells) == ["b"]
    indexed(tmp_path / "b", [page("http://b.test/", "two")])
    assert count(reader) == 2
    assert reader.omitted_cells == {}


def test_a_cell_whose_list_is_damaged_is_left_out(tmp_path: Path) -> None:
    for cell in "ab":
        indexed(tmp_path / cell, [page(f"http://{cell}.test/", "one")])
    (tmp_path / "b" / "meta.json").write_text("{")
    reader = union(tmp_path, "a", "b")
    assert count(reader) == 1
    # The words of a library are for the log: the public reads this.
    assert reader.omitted_cells["b"] == "its index cannot be read; rebuild it with `teia rebuild index`"


def test_segments_that_are_lost_are_an_error_of_ours(tmp_path: Path) -> None:
    indexed(tmp_path / "a", [page("http://a.test/", "one")])
    for file in (tmp_path / "a").glob("*.idx"):
        file.unlink()
    with pytest.raises(IndexFailure, match="teia rebuild index"):
        union(tmp_path, "a").searcher()


def test_no_cells_at_all_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(IndexFailure, match="nothing to search"):
        union(tmp_path, "a", "b").searcher()
    with pytest.raises(IndexFailure, match="no cells"):
        union(tmp_path).searcher()


def test_the_temporary_folder_goes_with_the_reader(tmp_path: Path) -> None:
    indexed(tmp_path / "a", [page("http://a.test/", "one")])
    reader = union(tmp_path, "a")
    searcher = reader.searcher()
    place = reader._folder
    assert place.is_dir()
    reader.close()
    assert not place.exists()
    assert searcher.num_docs == 1


def test_a_temporary_folder_that_somebody_tidied_away_is_made_again(tmp_path: Path) -> None:
    indexed(tmp_path / "a", [page("http://a.test/1", "one")])
    reader = union(tmp_path, "a")
    assert count(reader) == 1
    shutil.rmtree(reader._folder)
    assert count(reader) == 1
    indexed(tmp_path / "a", [page("http://a.test/2", "two")])
    assert count(reader) == 2
    for link in reader._folder.glob("*.store"):
        link.unlink()
    indexed(tmp_path / "a", [page("http://a.test/3", "three")])
    assert count(reader) == 3


def test_a_file_that_a_merge_took_meanwhile_is_not_missed(tmp_path: Path) -> None:
    """It was found in the folder and was gone when it was to be read ahead."""
    index = CellIndex(tmp_path / "a")
    index.put(page("http://a.test/", "words"))
    index.commit(1)
    segment = next((tmp_path / "a").glob("*.fast")).stem
    (tmp_path / "a" / f"{segment}.1.fast").symlink_to(tmp_path / "gone")
    assert count(union(tmp_path, "a")) == 1


def test_the_links_of_a_reader_lie_in_memory_unless_a_folder_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk, making and removing them takes longer than a search."""
    for chosen, expected in (("", union_module.IN_MEMORY), (str(tmp_path), None)):
        monkeypatch.setenv("TMPDIR", chosen)
        assert union_module._folder_in_memory() == expected
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.setattr(union_module, "IN_MEMORY", str(tmp_path / "missing"))
    assert union_module._folder_in_memory() is None


def test_links_lie_elsewhere_if_memory_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full /dev/shm made every search fail, although the disk had room."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(union_module, "LEAST_FREE_BYTES", 1 << 60)
    made = union_module._make_folder(threading.Lock()).path
    assert made.parent == tmp_path
