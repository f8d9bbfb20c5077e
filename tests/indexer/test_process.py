"""The indexer follows what was crawled: new pages, changed ones, gone ones; after a crash, and from nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import threading
from pathlib import Path

import pytest
import tantivy

from teia.clock import WallClock
from teia.collections.settings import amend
from teia.graph.rankfile import RankFile
from teia.index.cell import CellIndex
from teia.index.entry import PackedEntry, decode_entry, pack_entry
from teia.index.handover import Handover, HandoverReader
from teia.index.page_texts import PageTexts
from teia.index.training_words import Bag, Bags
from teia.indexer import semantic_model
from teia.indexer.indexer import CollectionIndexer
from teia.indexer.open_search import CollectionSearch
from teia.indexer.process import CollectionFollower
from teia.indexer.ranks import rank_file
from teia.indexer.rebuild import audit_index, rebuild_index
from teia.indexer.semantic_model import renew_model
from teia.lab.world.exchange import WorldAnswer
from teia.records import Edit, Operator
from teia.search.rank.semantic import Model, load
from teia.search.serve.searcher import SearchOptions
from teia.store.root import Root, open_root
from teia.transfer.read_all import idle_account
from teia.urls import key_of
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html

PAGES = {
    "/": html("/a", "/b", "/hidden", text="The beginning."),
    "/a": html("/b", text="Alpha is a letter.", head="<title>Alpha</title>"),
    "/b": html("/", text="Beta is another letter."),
    "/hidden": html("/", text="Gamma does not want to be found.", head="<meta name=robots content=noindex>"),
}


def follow(root: Root, *, steps: int | None = None) -> int:
    """Index all there is, or a number of steps without a commit; returns how many pages were read from the archive."""

    async def work() -> int:
        follower = CollectionFollower(root, "main", WallClock())
        try:
            if steps is None:
                await follower.finish()
            else:
                for _ in range(steps):
                    await follower.indexer.step()
            return follower.rereader.read
        finally:
            await follower.close()

    return asyncio.run(work())


def found(root: Root, word: str, field: str = "exact") -> list[str]:
    """URLs of the pages with a word, as searchers see them."""
    urls = []
    for folder in root.collection("main").cells():
        index = CellIndex(folder.index)
        searcher = index.searcher()
        hits = searcher.search(tantivy.Query.term_query(index.schema, field, word), 100).hits
        urls += [index.entry(searcher, address).url for _, address in hits]
    return sorted(url.partition("/")[2].partition("/")[2].partition("/")[2] for url in urls)


def crawled(tmp_path: Path, **pages: object) -> tuple[Crawled, Root]:
    web = ScriptedWeb({"x.test": PAGES | {f"/{path}": page for path, page in pages.items()}})
    result = crawl_web(web, tmp_path, "x.test/")
    return result, open_root(result.data)


def test_what_was_crawled_is_found_and_noindex_is_not(tmp_path: Path) -> None:
    _, root = crawled(tmp_path)
    assert follow(root) == 0, "everything came by the hand-over, nothing was read twice"
    assert found(root, "letter") == ["a", "b"]
    assert found(root, "gamma") == []
    audit = audit_index(root, "main")
    assert (audit.checked, audit.violations) == (3, 0)


def test_a_file_without_words_is_not_read_from_the_archive_again(tmp_path: Path) -> None:
    """Seen: a crawl with an image or an archive started parse children of the indexer's own, which found no words."""
    picture = WorldAnswer(200, b"Content-Type: image/gif\r\n", b"GIF89a\x01\x00\x01\x00\x80\x00\x00")
    _, root = crawled(tmp_path, b=html("/picture", text="Beta is another letter."), picture=picture)
    assert follow(root) == 0
    assert found(root, "letter") == ["a", "b"]
    audit = audit_index(root, "main")
    assert (audit.checked, audit.violations) == (3, 0)
    assert follow(root) == 0, "nor by the next indexer"


def test_an_account_counts_the_pages_that_can_be_found_now(tmp_path: Path) -> None:
    """The contract of `teia status --json`: `indexed`, beside what the index has not come to yet."""
    _, root = crawled(tmp_path)
    before = idle_account(root, "main")
    assert (before["indexed"], before["index_behind"], before["index_writing"]) == (0, 3, False)
    follow(root)
    account = idle_account(root, "main")
    assert (account["indexed"], account["index_behind"], account["index_unreadable"]) == (3, 0, 0)


def test_words_on_links_are_found_with_their_target(tmp_path: Path) -> None:
    """F7: a page is also what others call it."""
    _, root = crawled(tmp_path, c=html(text="Nothing of the kind."), d=html("/c"))
    follow(root)
    assert found(root, "b", "anchor") == ["b"], "the links to it say: to /b"


def test_a_page_is_indexed_once_and_again_only_for_new_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: every page of a site went through the index two or three times, for texts of links with words it had."""
    result, root = crawled(tmp_path)
    indexed: list[int] = []
    put = CellIndex.put_page

    def count(index: CellIndex, page: PackedEntry, texts: PageTexts, words: str) -> None:
        indexed.append(page.entry.key)
        put(index, page, texts, words)

    monkeypatch.setattr(CellIndex, "put_page", count)
    follow(root)
    assert len(indexed) == 3
    key = key_of(f"http://x.test:{result.port}/b")
    for host, text, times in (("y.test", "to /b", 3), ("z.test", "xylophone", 4)):
        follower = CollectionFollower(root, "main", WallClock())
        for cell in follower.indexer._cells:
            cell.anchors.add(host, [(key, text)])
        asyncio.run(follower.finish())
        asyncio.run(follower.close())
        assert len(indexed) == times
    assert found(root, "xylophon", "anchor") == ["b"]


def test_links_are_kept_for_who_links_here_and_for_ranks(tmp_path: Path) -> None:
    result, root = crawled(tmp_path)
    follow(root)
    target = key_of(f"http://x.test:{result.port}/b")
    linking = []
    for folder in root.collection("main").cells():
        index = CellIndex(folder.index)
        searcher = index.searcher()
        hits = searcher.search(tantivy.Query.term_query(index.schema, "links", target), 10).hits
        linking += [index.entry(searcher, address).url.rpartition("/")[2] for _, address in hits]
    assert sorted(linking) == ["", "a"]
    ranks = RankFile.open(rank_file(root.collection("main")))
    assert len(ranks) >= 3


def test_after_a_crash_before_the_commit_nothing_is_missing(tmp_path: Path) -> None:
    _, root = crawled(tmp_path)
    follow(root, steps=3)
    assert found(root, "letter") == []
    follow(root)
    assert found(root, "letter") == ["a", "b"]
    assert audit_index(root, "main").violations == 0


def test_without_the_hand_over_pages_are_read_from_the_archive(tmp_path: Path) -> None:
    _, root = crawled(tmp_path)
    for folder in root.collection("main").cells():
        shutil.rmtree(folder.handover, ignore_errors=True)
    assert follow(root) == 3
    assert found(root, "letter") == ["a", "b"]
    assert audit_index(root, "main").violations == 0


def test_entries_handed_over_by_another_version_are_read_from_the_archive(tmp_path: Path) -> None:
    """Entries were packed for some time; they may wait when teia is upgraded."""
    _, root = crawled(tmp_path)
    for folder in root.collection("main").cells():
        waiting = HandoverReader(folder.handover).entries(0, 1 << 60)
        for path in folder.handover.glob("*"):
            path.unlink()
        before = Handover(folder.handover)
        for change, (key, encoded) in waiting.items():
            before.write(change, key, pack_entry(decode_entry(encoded)))
        before.close()
    assert follow(root) == 3
    assert found(root, "letter") == ["a", "b"]


def test_an_entry_is_packed_once_by_the_indexer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crawl is over sooner: to pack an entry takes as long as to extract its text."""
    _, root = crawled(tmp_path)
    waiting = [HandoverReader(folder.handover).entries(0, 1 << 60) for folder in root.collection("main").cells()]
    assert any(b"letter" in encoded for of_cell in waiting for _, encoded in of_cell.values())
    monkeypatch.setattr("teia.index.entry.encode_entry", None)
    assert follow(root) == 0
    assert found(root, "letter") == ["a", "b"]


def test_an_index_made_again_from_the_archive_is_the_same(tmp_path: Path) -> None:
    _, root = crawled(tmp_path)
    follow(root)
    before = {word: found(root, word) for word in ("letter", "beginning", "alpha", "gamma", "is")}
    assert asyncio.run(rebuild_index(root, "main", WallClock())) == 3
    assert {word: found(root, word) for word in before} == before
    assert audit_index(root, "main").violations == 0


def test_the_audit_sees_a_page_that_is_missing_and_one_too_many(tmp_path: Path) -> None:
    result, root = crawled(tmp_path)
    follow(root)
    url = f"http://x.test:{result.port}/a"
    for folder in root.collection("main").cells():
        index = CellIndex(folder.index)
        index.remove(key_of(url))
        index.commit(index.position)
        index.close()
    audit = audit_index(root, "main")
    assert audit.violations == 1
    assert url in audit.details[0]


@pytest.fixture
def learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """A crawl with enough pages for a small model."""
    monkeypatch.setattr("teia.indexer.semantic_model.MIN_PAGES", 3)
    for name in ("train", "train_on"):
        defaults = {"min_pages": 3, "axes": 2}
        monkeypatch.setattr(f"teia.search.rank.train_semantic.{name}.__kwdefaults__", defaults)
    pages = {f"/{n}": html(text=f"Alpha beta number{n % 2} letter word{n % 3}.") for n in range(8)}
    web = ScriptedWeb({"x.test": PAGES | pages | {"/": html(*pages, "/a", text="The beginning.")}})
    return open_root(crawl_web(web, tmp_path, "x.test/").data)


def test_a_collection_learns_what_words_mean(learning: Root) -> None:
    """F10: a model is made with the index, without being asked for, and made again with it."""
    root = learning
    folder = root.collection("main")
    follow(root)
    model = load(folder.semantic)
    assert model is not None
    assert model.pages == audit_index(root, "main").checked
    asyncio.run(rebuild_index(root, "main", WallClock()))
    again = load(folder.semantic)
    assert again is not None
    assert (again.pages, again.stems) == (model.pages, model.stems)
    shutil.rmtree(folder.semantic)
    assert not renew_model(folder, WallClock(), seed=1, max_pages=again.pages - 1), "the end of a crawl does not wait"
    assert renew_model(folder, WallClock(), seed=1, max_pages=again.pages)
    assert _uses_model(root)
    amend(root, "main", [Edit("index.semantics", Operator.SET, False)])
    assert not _uses_model(root)


def test_the_model_is_trained_while_the_last_pages_are_committed(
    learning: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_committed, ends = threading.Event(), list[bool]()
    train_on, commit = semantic_model._train_on, CollectionIndexer.commit

    def train_after_the_commit(bags: Bags, seed: int) -> Model | None:
        ends.append(is_committed.wait(30))
        return train_on(bags, seed)

    def note_commit(indexer: CollectionIndexer) -> None:
        commit(indexer)
        is_committed.set()

    monkeypatch.setattr(semantic_model, "_train_on", train_after_the_commit)
    monkeypatch.setattr(CollectionIndexer, "commit", note_commit)
    follow(learning)
    assert ends == [True], "one training, and the commit did not wait for it"
    assert load(learning.collection("main").semantic) is not None


def test_a_model_of_some_pages_is_not_taken_for_that_of_all(learning: Root) -> None:
    follow(learning)
    folder = learning.collection("main")
    model = load(folder.semantic)
    assert model is not None
    some = dataclasses.replace(model, keys=model.keys[:3], vectors=model.vectors[:3])
    bags = Bags()
    for key in some.keys.tolist():
        bags.add(key, Bag(b"", b"", b""))
    assert renew_model(folder, WallClock(), seed=1, force=True, bags=bags, trained_on_bags=some)
    again = load(folder.semantic)
    assert again is not None
    assert again.pages == model.pages


def _uses_model(root: Root) -> bool:
    with CollectionSearch(root, ["main"], WallClock()) as search:
        hits = search.search("alpha number1", 5, options=SearchOptions(explain=True)).hits
    return any(hit.explanation.semantics != 0 for hit in hits if hit.explanation is not None)
