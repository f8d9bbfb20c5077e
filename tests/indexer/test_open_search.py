"""A crawled collection is searched: from Python, while it is there and as it is (F7, T10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import teia
from teia.clock import WallClock
from teia.errors import IndexFailure
from teia.frontier.cell.cell import FrontierCell
from teia.indexer.open_search import CollectionRanks, CollectionSearch
from teia.indexer.process import CollectionFollower
from teia.indexer.ranks import rank_file
from teia.indexer.semantic_model import renew_model
from teia.search.rank.semantic import load
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.store.root import Root, open_root
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.index.pages import indexed, page

PAGES = {
    "/": html("/lei", "/renda", text="O começo de tudo."),
    "/lei": html("/renda", text="A lei do imposto de renda."),
    "/renda": html("/", text="A renda das pessoas."),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawled and indexed collection."""
    crawled = crawl_web(ScriptedWeb({"x.test": PAGES}), tmp_path_factory.mktemp("crawl"), "x.test/")
    follow(open_root(crawled.data))
    return crawled.data


def follow(root: Root) -> None:
    async def work() -> None:
        follower = CollectionFollower(root, "main", WallClock())
        try:
            await follower.finish()
        finally:
            await follower.close()

    asyncio.run(work())


@pytest.fixture
def opened(data: Path) -> Iterator[CollectionSearch]:
    with CollectionSearch(open_root(data), ["main"], WallClock()) as search:
        yield search


def test_what_was_crawled_is_found_with_what_the_frontier_knows(opened: CollectionSearch) -> None:
    results = opened.search("imposto")
    (hit,) = results.hits
    assert hit.url.endswith("/lei")
    assert "<mark>imposto</mark>" in hit.snippet.html()
    assert hit.backlinks == 1
    assert hit.last_visit_s is not None
    assert abs(hit.last_visit_s - WallClock().now_s()) < 3_600
    assert results.warnings == ()


def test_authority_comes_from_the_links(opened: CollectionSearch, data: Path) -> None:
    hits = opened.search("renda", options=SearchOptions(explain=True)).hits
    assert rank_file(open_root(data).collection("main")).exists()
    assert any(hit.explanation is not None and hit.explanation.authority > 1 for hit in hits)


def test_python_searches_in_one_line(data: Path) -> None:
    results = teia.search("lei", data=data)
    assert results.hits[0].url.endswith("/lei")
    with teia.Collection(data) as collection:
        assert collection.search("lei", 5, explain=True).hits[0].explanation is not None
        assert collection.similar(results.hits[0].url).warnings == ()


def test_a_search_sees_pages_that_are_indexed_while_it_is_open(opened: CollectionSearch, data: Path) -> None:
    assert opened.search("novidade").total == 0
    cell = open_root(data).collection("main").cells()[0]
    indexed(cell.index, [page("http://new.test/", "uma novidade")])
    assert opened.search("novidade").total == 1


@pytest.mark.parametrize(("kept", "searches"), [(200, 1), (0, 2)])
def test_repeated_searches_are_answered_from_memory_unless_the_setting_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, searches: int
) -> None:
    root = open_root(tmp_path / "data", create=True)
    text = f'[collection]\nseeds = ["http://a.test/"]\n[index]\ncached_answers = {kept}\n'
    for cell in root.create_collection("main", text, 1).cells():
        FrontierCell(cell.frontier).close()
        indexed(cell.index, [page("http://a.test/", "imposto de renda")])
    asked: list[str] = []
    search = Searcher._search
    monkeypatch.setattr(Searcher, "_search", lambda self, *of: asked.append(of[0]) or search(self, *of))
    with CollectionSearch(root, ["main"], WallClock()) as opened:
        assert [opened.search("renda").total for _ in range(2)] == [1, 1]
    assert asked == ["renda"] * searches


def test_a_collection_without_an_index_says_what_to_do(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", '[collection]\nseeds = ["http://a.test/"]\n', 2)
    with pytest.raises(IndexFailure, match=r"main has no index yet; .*teia rebuild index"):
        CollectionSearch(root, ["main"], WallClock())


def test_a_collection_crawled_without_an_index_says_so(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    text = '[collection]\nseeds = ["http://a.test/"]\n[index]\nenabled = false\n'
    root.create_collection("main", text, 2)
    with pytest.raises(IndexFailure, match="without an index"):
        CollectionSearch(root, ["main"], WallClock())


def test_ranks_that_are_missing_or_damaged_do_not_keep_pages_from_being_found(tmp_path: Path) -> None:
    path = tmp_path / "ranks.bin"
    ranks = CollectionRanks([path])
    keys = np.array([1, 2], np.int64)
    assert ranks.percentiles(keys).tolist() == [0.0, 0.0]
    path.write_bytes(b"nonsense")
    assert ranks.percentiles(keys).tolist() == [0.0, 0.0]


def test_a_model_is_trained_once_there_are_pages_enough(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    folder = root.create_collection("main", '[collection]\nseeds = ["http://a.test/"]\n', 2)
    for cell in folder.cells():
        indexed(cell.index, [page("http://a.test/", "x")])
    assert not renew_model(folder, WallClock(), seed=1)
    assert load(folder.semantic) is None


@pytest.mark.slow
def test_a_model_is_trained_again_when_the_collection_has_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.indexer.semantic_model.MIN_PAGES", 50)
    monkeypatch.setattr("teia.search.rank.train_semantic.train.__kwdefaults__", {"min_pages": 3, "axes": 5})
    root = open_root(tmp_path / "data", create=True)
    folder = root.create_collection("main", '[collection]\nseeds = ["http://a.test/"]\n', 1)
    (cell,) = folder.cells()

    def grow(first: int, last: int) -> None:
        indexed(cell.index, [page(f"http://a.test/{n}", f"word{n % 7} thing{n % 5} more") for n in range(first, last)])

    grow(0, 60)
    assert renew_model(folder, WallClock(), seed=1)
    assert not renew_model(folder, WallClock(), seed=1)
    grow(60, 130)
    assert renew_model(folder, WallClock(), seed=1)
    kept = load(folder.semantic)
    assert kept is not None
    assert kept.pages == 130
