"""Who links here: by the index, and by the archive where there is none (F5)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from teia.crawler.lookup import Lookup
from teia.graph.rankfile import RankFile
from teia.store.root import open_root
from teia.urls import key_of
from teia.views.links import LinksIn, archived_links_in, edges, indexed_links_in, links_in
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html
from tests.indexer.test_process import follow

PAGES = {
    "/": html("/a", "/b", "/c", "/t"),
    "/a": html("/t", "/t", "/b", text="Alpha."),
    "/b": html("/t", text="Beta."),
    "/c": html("/", text="Gamma."),
    "/t": html("/t", "/", text="The target of all."),
}


def crawled(folder: Path) -> Crawled:
    return crawl_web(ScriptedWeb({"x.test": PAGES, "y.test": {}}), folder, "x.test/")


def paths(found: LinksIn | None) -> list[str]:
    assert found is not None
    return ["/" + url.split("/", 3)[3] for url in found.urls]


def test_index_and_archive_say_the_same(tmp_path: Path) -> None:
    result = crawled(tmp_path)
    root, base = open_root(result.data), f"http://x.test:{result.port}"
    with Lookup(root, "main") as lookup:
        assert indexed_links_in(lookup, f"{base}/t") is None, "nothing is indexed"
        assert sorted(paths(links_in(lookup, f"{base}/t"))) == ["/", "/a", "/b"]
        linked = {target for _, target in edges(lookup)}
    follow(root)
    with Lookup(root, "main") as lookup:
        for url in (*linked, f"{base}/nobody"):
            by_index, by_archive = links_in(lookup, url), archived_links_in(lookup, url)
            assert sorted(by_index.urls) == sorted(by_archive.urls)
            assert (by_index.note, by_archive.note) == ("", "")
        assert len(linked) == 5


def test_the_most_important_come_first(tmp_path: Path) -> None:
    result = crawled(tmp_path)
    root, base = open_root(result.data), f"http://x.test:{result.port}"
    follow(root)
    with Lookup(root, "main") as lookup:
        found = links_in(lookup, f"{base}/t").urls
        path = root.collection("main").ranks
        scores = RankFile.open(path).scores(np.array([key_of(url) for url in found])).tolist()
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1] > 0
        path.unlink()
        path.write_bytes(b"damaged")
        assert sorted(links_in(lookup, f"{base}/t").urls) == sorted(found)


def test_what_is_not_listed_or_not_indexed_yet_is_reported(tmp_path: Path) -> None:
    result = crawled(tmp_path)
    root, base = open_root(result.data), f"http://x.test:{result.port}"
    follow(root)
    with Lookup(root, "main") as lookup:
        few = indexed_links_in(lookup, f"{base}/t", at_most=2)
        assert few is not None
        assert (len(few.urls), few.note) == (2, "showing 2 of 3 pages that link here")
    crawl_web(ScriptedWeb({"x.test": PAGES, "y.test": {"/": html(f"{base}/t")}}), tmp_path, "y.test/", port=result.port)
    with Lookup(root, "main") as lookup:
        assert links_in(lookup, f"{base}/t").note == "pages that are not indexed yet may link here too: 1"
