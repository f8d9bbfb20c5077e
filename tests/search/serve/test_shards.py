"""A shard shows what it found where it found it, and never a page as it was before the last commit."""

from __future__ import annotations

from pathlib import Path

from teia.index.cell import CellIndex
from teia.index.reader import CellReader
from teia.search.rank.plan import Group, Plan, Term
from teia.search.serve.shards import MAX_CACHED_SEARCHES, LocalShard
from tests.index.pages import page

URL = "http://a.test/"


def asking(word: str) -> Plan:
    return Plan(Group(should=(Term("exact", word, 1.0, 1.0, word),)))


def keys(shard: LocalShard, word: str) -> list[int]:
    found: list[int] = shard.candidates(asking(word), 10).rows["key"].tolist()
    return found


def test_a_page_that_changed_after_it_was_found_is_shown_as_it_is_now(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    old, other = page(URL, "apples before"), page(URL + "other", "pears")
    index.put(old)
    index.put(other)
    index.commit(1)
    shard = LocalShard("all", CellReader(tmp_path / "index"))
    assert keys(shard, "apples") == [old.key]
    assert shard.entries([old.key]) == {old.key: old}
    index.put(page(URL, "apples now"))
    index.commit(2)
    assert shard.entries([old.key]) == {old.key: old}  # of the view that was searched last
    assert keys(shard, "pears") == [other.key]
    assert shard.entries([old.key, other.key]) == {old.key: page(URL, "apples now"), other.key: other}


def test_a_page_that_went_after_it_was_found_is_not_shown(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page(URL, "apples"))
    index.put(page(URL + "other", "pears"))
    index.commit(1)
    shard = LocalShard("all", CellReader(tmp_path / "index"))
    (key,) = keys(shard, "apples")
    index.remove(key)
    index.commit(2)
    assert keys(shard, "pears")
    assert shard.entries([key]) == {}


def test_pages_of_searches_long_ago_are_found_too(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(2 * MAX_CACHED_SEARCHES)]
    index = CellIndex(tmp_path / "index")
    for word in words:
        index.put(page(URL + word, word))
    index.commit(1)
    shard = LocalShard("all", CellReader(tmp_path / "index"))
    found = [key for word in words for key in keys(shard, word)]
    assert [shard.entries([key])[key].text for key in found] == words
    assert list(shard.entries(found)) != []
    assert {entry.text for entry in shard.entries(found).values()} == set(words)
