"""A page is removed while its collection is crawled: nothing of it is left, and the crawl loses nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.collections.commands import give_command
from teia.collections.control_file import Inbox
from teia.crawler.lookup import Lookup
from teia.errors import StoreError
from teia.indexer.open_search import CollectionSearch
from teia.records import Command
from teia.render.page import BrowserAnswer, FetchForPage, RenderedPage
from teia.store.root import Root, open_root
from teia.transfer.links_audit import audit_links
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives, known_urls
from teia.transfer.removal import RemovalResult, remove
from tests.crawler.rendering.stub_browsers import use_stub
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html, robots
from tests.transfer.test_removal import files_with
from tests.waiting import until, until_async

HOST = "w.test"
LINKS = [f"/{number}" for number in range(24)]
WORD = "xqslander"


def web() -> ScriptedWeb:
    """Pages of which two have the same body, and another one a word that must go."""
    same = html(text="the very same words " * 40)
    pages = {"/": html("/bad", "/bad-twin", "/good-twin", *LINKS), "/bad": html(text=WORD)}
    pages |= {"/bad-twin": same, "/good-twin": same} | {link: html(text=f"words of {link}") for link in LINKS}
    return ScriptedWeb({HOST: pages})


def captured(root: Root, ending: str) -> str:
    """Return the URL with this ending as soon as it has a capture."""
    with suppress(StoreError), Lookup(root, "main") as lookup:
        for url in lookup.urls_of_host(HOST, 100):
            entry = lookup.find(url)
            if url.endswith(ending) and entry is not None and entry.page is not None and entry.page.digest:
                return url
    return ""


def crawl_and_remove(folder: Path, *endings: str, **settings: Any) -> tuple[Crawled, list[RemovalResult]]:
    """Crawl, and remove pages as soon as they are there."""
    done: list[RemovalResult] = []

    def meanwhile(root: Root) -> None:
        urls = [until(lambda ending=each: captured(root, ending), f"{each} is captured") for each in endings]
        done.append(remove(root, "main", urls, "court order", WallClock(), dry_run=False))

    crawled = crawl_web(web(), folder, f"{HOST}/", meanwhile=meanwhile, **{"courtesy__delay_s": 0.1, **settings})
    return crawled, done


@pytest.mark.heavy
def test_a_page_is_removed_while_its_collection_is_crawled(tmp_path: Path) -> None:
    crawled, (removed,) = crawl_and_remove(tmp_path, "/bad")
    root = open_root(crawled.data)
    assert removed.is_proven
    assert (removed.urls, removed.records > 0) == (1, True)
    assert files_with(root, WORD.encode()) == []
    states = {each["url"].rpartition("/")[2]: each["state"] for each in known_urls(root, "main")}
    assert states.pop("bad") == "excluded"
    assert set(states.values()) == {"done"}, "the crawl continues, and reads everything else"
    assert len(states) == len(LINKS) + 3
    assert crawled.requested().count(f"{HOST}/bad") == 1
    check_audits(root)
    with closing(CollectionSearch(root, ["main"], WallClock())) as search:
        assert [hit.url for hit in search.search(WORD, 10).hits] == []


@pytest.mark.heavy
def test_a_page_that_shared_the_removed_body_is_fetched_again_in_the_same_crawl(tmp_path: Path) -> None:
    crawled, (removed,) = crawl_and_remove(tmp_path, "/bad-twin")
    root = open_root(crawled.data)
    assert removed.is_proven
    with Lookup(root, "main") as lookup:
        (url,) = (each for each in lookup.urls_of_host(HOST, 100) if each.endswith("/good-twin"))
        assert b"the very same words" in lookup.capture(url).payload
    check_audits(root)


@pytest.mark.heavy
def test_a_crawl_that_is_stopped_leaves_the_removal_to_the_command(tmp_path: Path) -> None:
    """The command requests a removal of a crawl that ends before it has answered."""
    with ThreadPoolExecutor(1) as other:
        removals = []

        def meanwhile(root: Root) -> None:
            url = until(lambda: captured(root, "/bad"), "the page is captured")
            removals.append(other.submit(remove, root, "main", [url], "", WallClock(), dry_run=False))
            give_command(root, "main", Command.STOP, WallClock())

        crawled = crawl_web(web(), tmp_path, f"{HOST}/", meanwhile=meanwhile, courtesy__delay_s=0.1)
        assert removals[0].result().is_proven
    assert files_with(open_root(crawled.data), WORD.encode()) == []
    check_audits(open_root(crawled.data))


@pytest.mark.heavy
def test_a_page_of_a_collection_that_is_idle_is_removed_by_the_crawler_of_another(tmp_path: Path) -> None:
    first = crawl_web(web(), tmp_path, f"{HOST}/")
    url, done = captured(open_root(first.data), "/bad"), list[RemovalResult]()

    def meanwhile(root: Root) -> None:
        done.append(remove(root, "main", [url], "", WallClock(), dry_run=False))

    crawl_web(web(), tmp_path, f"{HOST}/", collections={"other": {}}, meanwhile=meanwhile, port=first.port)
    assert done[0].is_proven
    assert captured(open_root(first.data), "/bad") == ""
    check_audits(open_root(first.data))


def check_audits(root: Root) -> None:
    assert audit_archives(root, "main").details == ()
    assert audit_manifest(root, "main", WallClock()).details == ()
    assert audit_links(root, "main").violations == 0


@pytest.mark.heavy
def test_a_page_in_the_browser_gets_its_requests_and_then_pages_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it would wait until its time is over, count as a failure of its kind, and delay the removal."""
    answers: list[BrowserAnswer | None] = []
    data = tmp_path / "data"

    def is_paused() -> bool:
        with Inbox(data / "control.sqlite") as inbox:
            run = inbox.running_crawl("main")
            return run is not None and run.account.get("state") == "paused"

    async def render(url: str, fetch: FetchForPage) -> RenderedPage:
        await until_async(is_paused, "the crawl has paused for the removal")
        answers.append(await fetch(url.replace("/app", "/app.js")))
        return RenderedPage(b"<title>T</title><p>words that a script has brought")

    use_stub(monkeypatch, render)
    application = html(head='<script src="/app.js"></script>', text="")
    pages = {"/": html("/bad", "/app"), "/bad": html(text=WORD), "/app": application, "/app.js": robots("1")}
    done = list[RemovalResult]()

    def meanwhile(root: Root) -> None:
        url = until(lambda: captured(root, "/bad"), "the page is captured")
        done.append(remove(root, "main", [url], "", WallClock(), dry_run=False))

    crawled = crawl_web(ScriptedWeb({HOST: pages}), tmp_path, f"{HOST}/", meanwhile=meanwhile, courtesy__delay_s=0.1)
    assert done[0].is_proven
    assert [answer is not None and answer.status for answer in answers][-1:] == [200]
    assert open_root(crawled.data).path == data
