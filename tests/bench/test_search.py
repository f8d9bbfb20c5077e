"""`teia bench search` in small: it runs, its figures fit together, and a cold search is a cold one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import search
from bench.search import cached_collection, cold_search, drop_from_memory, measure, read_bytes, some_of_each, write
from teia.lab.corpus.questions import PUBLISHED, TEMPLATES, SampleQuery

pytestmark = pytest.mark.slow
PAGES = 2_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def result(cache: Path) -> dict[str, Any]:
    return measure(PAGES, each=2, cold=0, progress=lambda _: None, cache=cache)


def test_every_row_has_n_and_times_in_order(result: dict[str, Any]) -> None:
    assert {row["kind"] for row in result["rows"]} == {template.kind for template in TEMPLATES} | {"pasted text"}
    for row in result["rows"]:
        assert (row["n"], row["searches"]) == (PAGES, 2)
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["max_ms"]
        assert 0 < row["cpu_p50_ms"] <= row["cpu_p95_ms"]


def test_frequent_words_are_found_more_often_than_rare_ones(result: dict[str, Any]) -> None:
    found = {row["words"]: row["total_p50"] for row in result["rows"] if row["kind"] == "any word"}
    assert found["high"] > found["medium"] > found["low"] > 0


def test_the_papers_table_stands_beside_ours(result: dict[str, Any]) -> None:
    """F11: the 17.86 s phrase is there, and every search was done."""
    rows = {row["query"]: row for row in result["table_26"]}
    assert list(rows) == [each.text for each in PUBLISHED]
    assert rows['"quero café"']["published_s"] == 17.86
    assert all(0 < row["s"] < 60 for row in rows.values())
    assert rows['"sistema de busca"']["found"] > 0


def test_a_result_states_what_it_was_measured_on(result: dict[str, Any]) -> None:
    assert result["collection"]["pages"] == PAGES
    assert result["collection"]["pages_per_s"] > 0
    assert result["all"]["threads"] >= 1
    assert set(result["tantivy_ms"]) >= {"ours", "search", "doc_freq"}
    json.dumps(result)


def test_a_cold_search_reads_from_the_disk_and_finds_the_same(cache: Path, result: dict[str, Any]) -> None:
    found = cached_collection(PAGES, 1, cache=cache)
    row = cold_search(found, SampleQuery("any word", "F11", "café carro bolo"), semantics=True)
    by_query = {each["query"]: each["found"] for each in result["table_26"]}
    assert row["found"] == by_query["café carro bolo"] > 0
    assert row["open_ms"] > 0
    assert row["ms"] > 0


def test_dropping_files_from_memory_leaves_them_whole(cache: Path, result: dict[str, Any]) -> None:
    found = cached_collection(PAGES, 1, cache=cache)
    before = {path: path.stat().st_size for path in found.files()}
    drop_from_memory(found)
    assert {path: path.stat().st_size for path in found.files()} == before
    assert read_bytes() >= 0


def test_some_of_each_takes_so_many_of_every_kind() -> None:
    queries = [SampleQuery(kind, words, "x") for kind in "ab" for words in "cd" for _ in range(3)]
    assert len(some_of_each(queries, 2)) == 8


def test_results_of_several_sizes_stand_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    for size in (20_000, 2_000, 20_000):
        write({"n": size, "rows": []}, path)
    assert list(json.loads(path.read_text())) == ["2000", "20000"]
    assert search.RESULTS.parent.is_dir()
