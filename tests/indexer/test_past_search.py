"""A collection is searched as it was: each page with the capture that was current then."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from teia.cli.main import application
from teia.clock import VirtualClock, iso_utc
from teia.crawler.lookup import Lookup
from teia.errors import UsageError
from teia.frontier.tables.page_changes import pages_changed_after
from teia.frontier.tables.pages import VisitEntry
from teia.indexer import past_search
from teia.indexer.past_search import PastSearch, current_at, parse_moment
from teia.store.root import Root, open_root
from tests.crawler.offline import NOW_S, offline_crawl
from tests.indexer.test_open_search import follow

DAY_S = 86_400.0
CHANGING, SAME, GONE, NEW = "http://a.test/", "http://a.test/same", "http://a.test/gone", "http://a.test/new"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A page in three versions, ten days apart; one that stays; one that is gone after the first; one that is new."""
    folder = tmp_path_factory.mktemp("past")
    web = {
        CHANGING: '<p>The mayor opened the bridge.<a href="/same">same</a><a href="/gone">gone</a>',
        SAME: "<p>The bridge is long.",
        GONE: "<p>The ferry crosses the river.",
    }
    with offline_crawl(web, folder, CHANGING, collection__cells=1) as crawl:
        crawl.run()
        for text in ("<p>The mayor closed the bridge.", '<p>The museum is open.<a href="/new">new</a>'):
            asyncio.run(crawl.clock.advance(10 * DAY_S))
            web[CHANGING] = text
            web.pop(GONE, None)
            web[NEW] = "<p>A new bridge is planned."
            crawl.revisit_only(CHANGING)
            crawl.revisit_only(GONE)
    root = open_root(folder / "data")
    follow(root)
    return root


def found(root: Root, days: float, query: str) -> dict[str, str]:
    """The snippets of what a query found so many days after the beginning, by URL."""
    with PastSearch(root, "main", NOW_S + days * DAY_S, VirtualClock(NOW_S + 30 * DAY_S)) as opened:
        return {hit.url: hit.snippet.plain() for hit in opened.search(query).hits}


def test_a_query_finds_the_versions_of_the_moment(root: Root) -> None:
    first = found(root, 1, "bridge")
    assert first.keys() == {CHANGING, SAME}
    assert "opened the bridge" in first[CHANGING]
    assert "closed the bridge" in found(root, 11, "bridge")[CHANGING]
    assert found(root, 11, "museum") == {}
    assert CHANGING not in found(root, 25, "bridge")
    assert found(root, 25, "museum").keys() == {CHANGING}


def test_a_page_that_is_gone_is_found_at_a_time_when_it_was_there(root: Root) -> None:
    assert found(root, 1, "ferry").keys() == {GONE}
    assert found(root, 15, "ferry") == {}


def test_nothing_is_found_before_the_first_capture(root: Root) -> None:
    assert found(root, -1, "bridge") == {}


def test_pages_that_were_not_known_yet_are_not_looked_up(root: Root) -> None:
    """A search as of 1970 looked up every page of the collection, one by one, to find none."""
    with Lookup(root, "main") as lookup:
        assert [page for cell in lookup.cells for page in pages_changed_after(cell, NOW_S - DAY_S)] == []
        assert [page for cell in lookup.cells for page in pages_changed_after(cell, NOW_S + DAY_S)]


def test_pages_beyond_the_limit_are_counted(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_search, "MAX_REREAD", 1)
    with PastSearch(root, "main", NOW_S + DAY_S, VirtualClock(NOW_S)) as opened:
        results = opened.search("bridge")
    assert results.is_partial
    assert "1 pages changed since then" in " ".join(results.warnings)


@pytest.mark.heavy
def test_the_command_takes_a_day_or_a_time(root: Root) -> None:
    words = ["search", "bridge", "--data", str(root.path), "--as-of", iso_utc(NOW_S + 11 * DAY_S), "--json"]
    said = json.loads(CliRunner().invoke(application(["search"]), words).stdout.splitlines()[-1])
    snippets = {hit["url"]: hit["snippet"] for hit in said["hits"]}
    assert "closed the <mark>bridge</mark>" in snippets[CHANGING]
    assert {hit["url"]: hit["last_visit"] for hit in said["hits"]}[CHANGING] <= iso_utc(NOW_S + 11 * DAY_S)


def test_a_day_means_its_end_and_other_texts_are_refused() -> None:
    assert parse_moment("2026-03-31") == parse_moment("2026-03-31T23:59:59Z")
    for text in ("yesterday", "2026-13-01", ""):
        with pytest.raises(UsageError, match="is no date"):
            parse_moment(text)


def test_a_capture_that_was_removed_is_not_replaced_by_an_older_one() -> None:
    visits = [VisitEntry(1.0, "200", b"a", None, "f", 0, 9), VisitEntry(2.0, "200", b"b", True, "", 0, 0)]
    assert current_at(visits, 1.5) is visits[0]
    assert current_at(visits, 2.5) is None
