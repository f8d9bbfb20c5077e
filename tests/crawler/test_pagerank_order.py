"""The order `pagerank` in a crawl: scores that appear while it runs decide what comes next (A6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teia.clock import VirtualClock
from teia.crawler.commit import CommitGroup
from teia.crawler.lookup import Lookup
from teia.crawler.pagerank_order import RELOAD_EVERY_S, CrawlPageRank
from teia.frontier.cell import pagerank_scores
from teia.graph.linkfile import LinkFile
from teia.graph.renewal import update_ranks
from teia.store.root import Root, open_root
from teia.urls import key_of
from teia.views.links import targets
from tests.crawler.offline import NOW_S, OfflineCrawl, Web, offline_crawl
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.indexer.test_process import follow

WEAK = [f"/w{number}" for number in range(1, 7)]


def markup(*links: str) -> str:
    return f"<html><body>{' '.join(f'<a href={link}>more</a>' for link in links)}"


def unequal_web() -> Web:
    """Everybody links to /hub, which links to /x; two pages to which one page links each link to /y and elsewhere."""
    web = {"/": markup("/hub", *WEAK), "/hub": markup("/x")}
    web |= {weak: markup("/hub", *(["/y", "/z"] if weak in WEAK[-2:] else [])) for weak in WEAK}
    web |= {leaf: markup() for leaf in ("/x", "/y", "/z")}
    return {f"http://a.test{path}": text for path, text in web.items()}


READ_FIRST = 8
"""The pages above that have links: the first, the hub and six weak ones."""


def rank_what_was_read(root: Root) -> None:
    """What the indexer does: links of the stored pages into link files, and from these the scores."""
    folder = root.collection("main")
    files = [cell.index / "links.bin" for cell in folder.cells()]
    with Lookup(root, "main") as lookup:
        for source, number, page in lookup.pages():
            with LinkFile(files[number]) as links:
                links.append(key_of(source), map(key_of, targets(lookup.links(number, page), source)))
    update_ranks(files, folder.ranks, NOW_S)


def begun(folder: Path, **settings: Any) -> Any:
    return offline_crawl(unequal_web(), folder, "http://a.test/", collection__order="pagerank", **settings)


def look_again(crawl: OfflineCrawl) -> None:
    """Let so much time pass that the crawl looks for scores, and commit."""
    asyncio.run(crawl.clock.advance(RELOAD_EVERY_S))
    crawl.crawl.committer.commit(CommitGroup())


def head(crawl: OfflineCrawl) -> str:
    """The URL that is next."""
    (cell,) = [each.frontier for each in crawl.crawl.committer.cells if each.frontier.queued]
    ((host_id, host, *_),) = cell.hosts_with_work()
    return cell.next_urls(host_id, host, 1, (), crawl.clock.now_s())[0].url


def test_without_scores_it_is_the_order_of_backlinks(tmp_path: Path) -> None:
    with (
        begun(tmp_path / "pagerank") as crawl,
        offline_crawl(unequal_web(), tmp_path / "backlinks", "http://a.test/", collection__order="backlinks") as other,
    ):
        assert crawl.run() == other.run()


def test_scores_that_appear_decide_what_comes_next(tmp_path: Path) -> None:
    with begun(tmp_path) as crawl:
        crawl.run(READ_FIRST)
        assert head(crawl) == "http://a.test/y", "two links are more than one"
        rank_what_was_read(open_root(tmp_path / "data"))
        look_again(crawl)
        assert head(crawl) == "http://a.test/x", "but one of the page to which everybody links is worth more"


def test_scores_that_were_taken_hold_after_a_restart(tmp_path: Path) -> None:
    with begun(tmp_path) as crawl:
        crawl.run(READ_FIRST)
    rank_what_was_read(open_root(tmp_path / "data"))
    with begun(tmp_path) as crawl:
        pagerank = crawl.crawl.committer.pagerank
        assert pagerank is not None
        assert not pagerank.has_pending_work, "they were taken with the first commit"
        assert head(crawl) == "http://a.test/x"
    (tmp_path / "data" / "main" / "ranks.bin").unlink()
    with begun(tmp_path) as crawl:
        assert crawl.run()[0] == "http://a.test/x"


@pytest.mark.parametrize("content", [b"", b"nonsense " * 40])
def test_a_rank_file_that_cannot_be_read_stops_nothing(tmp_path: Path, content: bytes) -> None:
    with begun(tmp_path) as crawl:
        crawl.run(READ_FIRST)
        ranks = open_root(tmp_path / "data").collection("main").ranks
        ranks.write_bytes(content)
        look_again(crawl)
        assert head(crawl) == "http://a.test/y"
        rank_what_was_read(open_root(tmp_path / "data"))
        look_again(crawl)
        assert head(crawl) == "http://a.test/x"


class BusyClock(VirtualClock):
    """Time that passes whenever somebody looks at it."""

    def ticks_s(self) -> float:
        self._elapsed_s += 0.02
        return self._elapsed_s


def test_many_urls_are_ranked_over_many_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontier of any size holds up a commit for a moment only, and the crawl asks for another until all is done."""
    monkeypatch.setattr(pagerank_scores, "AT_ONCE", 20)
    web = {"http://a.test/": markup(*(f"/{number}" for number in range(200)))}
    with offline_crawl(web, tmp_path, "http://a.test/", collection__order="pagerank") as crawl:
        crawl.run(1)
        rank_what_was_read(open_root(tmp_path / "data"))
        committer = crawl.crawl.committer
        crawl.crawl._seeds.clear()
        crawl.crawl._must_reevaluate = False
        assert not crawl.crawl.wants_commit(1e9), "it has no other reason"
        committer.pagerank = CrawlPageRank(
            open_root(tmp_path / "data").collection("main").ranks, committer.cells, BusyClock(NOW_S)
        )
        commits = 0
        while committer.pagerank.has_pending_work:
            assert crawl.crawl.wants_commit(1e9)
            committer.commit(CommitGroup())
            commits += 1
        assert 5 < commits < 30
        assert not crawl.crawl.wants_commit(1e9)
        assert len(crawl.run()) == 201


def test_a_real_crawl_by_pagerank_fetches_everything_once(tmp_path: Path) -> None:
    """Stopped, indexed and ranked, then gone on with: what the scores moved is neither lost nor asked for twice."""
    pages = {"/": html(*(f"/{number}" for number in range(16)))}
    pages |= {f"/{number}": html(f"/{number}/x", f"/{number // 2}/y") for number in range(16)}
    web, settings = ScriptedWeb({"a.test": pages}), {"collection__order": "pagerank", "courtesy__delay_s": 0.02}
    first = crawl_web(web, tmp_path, "a.test/", limits__pages=8, **settings)
    follow(open_root(first.data))
    second = crawl_web(web, tmp_path, "a.test/", limits__pages=0, port=first.port, **settings)
    pagerank = second.crawls[0].committer.pagerank
    assert pagerank is not None
    assert not pagerank.has_pending_work
    asked = [path for path in (*first.requested(), *second.requested()) if not path.endswith("robots.txt")]
    assert len(asked) == len(set(asked))
    assert {f"a.test{path}" for path in pages} | {f"a.test/{number}/x" for number in range(16)} <= set(asked)
    with Lookup(open_root(first.data), "main") as lookup:
        assert {key for cell in lookup.cells for (key,) in cell.db.execute("SELECT name FROM meta")} > {"scores"}
