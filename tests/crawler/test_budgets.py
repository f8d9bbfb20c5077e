"""Budgets of hosts and registered domains: requests, bytes, failures; over restarts too (T9, RELIABILITY 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from teia.config.sections import LimitSettings
from teia.crawler.budgets import SHARDS, Budgets, SiteTable
from teia.crawler.running_collection import CrawlState
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.lab.world.exchange import ServerFault, WorldAnswer
from teia.records import Fetched
from tests.crawler.webs import HTML, Crawled, Page, ScriptedWeb, crawl_web, html

FAST: dict[str, Any] = {"courtesy__delay_s": 0.0, "sites__aliases": False, "sites__probe_after_pages": 0}


def site(*hosts: str, pages: int = 30, text: str = "x") -> ScriptedWeb:
    """Hosts with a home page that links to so many pages, each with its own text."""
    of_host: dict[str, dict[str, Page]] = {}
    for host in hosts:
        paths = [f"/{number}" for number in range(pages)]
        of_host[host] = {"/": html(*paths), **{path: html(text=f"{host} {path} {text}") for path in paths}}
    return ScriptedWeb(of_host)


def requests(crawled: Crawled, host: str = "") -> int:
    return sum(entry.host == (host or entry.host) for entry in crawled.entries)


def test_host_costs_no_more_requests_than_its_budget(tmp_path: Path) -> None:
    crawled = crawl_web(site("a.test"), tmp_path, "a.test/", **FAST, limits__pages_per_host=10)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert requests(crawled) == 10
    assert "budget" in crawled.outcomes().values()


def test_registered_domain_costs_no_more_than_its_budget_under_however_many_names(tmp_path: Path) -> None:
    hosts = [f"n{number}.example.test" for number in range(6)]
    crawled = crawl_web(site(*hosts), tmp_path, *(f"{host}/" for host in hosts), **FAST, limits__pages_per_site=40)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert 40 <= requests(crawled) <= 40 + len(hosts), "one request a host may be under way when it is used up"


def test_bytes_of_a_host_are_a_budget_too(tmp_path: Path) -> None:
    crawled = crawl_web(
        site("a.test", text="word " * 2_000), tmp_path, "a.test/", **FAST, limits__bytes_per_host=50_000
    )
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert 5 <= requests(crawled) <= 9
    assert "budget" in crawled.outcomes().values()


def test_bytes_of_a_registered_domain_are_added_up(tmp_path: Path) -> None:
    hosts = [f"n{number}.example.test" for number in range(4)]
    web = site(*hosts, text="word " * 2_000)
    crawled = crawl_web(web, tmp_path, *(f"{host}/" for host in hosts), **FAST, limits__bytes_per_site=100_000)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert 100_000 <= crawled.crawls[0].counts.bytes_received <= 100_000 + len(hosts) * 11_000


def test_budgets_count_over_all_runs(tmp_path: Path) -> None:
    """A host that had nothing to do when the crawler started again has not got its budget back."""
    first = crawl_web(site("a.test", pages=8), tmp_path, "a.test/", **FAST, limits__pages_per_host=12)
    assert requests(first) == 10
    more = crawl_web(
        site("a.test", pages=30), tmp_path, "a.test/29", **FAST, port=first.port, limits__pages_per_host=12
    )
    assert requests(more) <= 12 - requests(first)
    bytes_first = crawl_web(site("b.test", pages=2, text="word " * 2_000), tmp_path / "b", "b.test/", **FAST)
    assert requests(bytes_first) == 4
    again = crawl_web(
        site("b.test", pages=9, text="word " * 2_000), tmp_path / "b", "b.test/8", **FAST, port=bytes_first.port,
        limits__bytes_per_host=20_000,
    )  # fmt: skip
    assert requests(again) == 0
    assert again.outcomes()["b.test/8"] == "budget"


def test_host_that_fails_too_often_in_a_row_is_given_up(tmp_path: Path) -> None:
    dead: dict[str, Page] = {f"/{number}": WorldAnswer(200, HTML, b"", fault=ServerFault.RESET) for number in range(30)}
    web = ScriptedWeb({"a.test": {"/": html(*dead), **dead}})
    # Without the watch for traps, which lets few URLs of a kind go at first: retries after 10 ms would come next.
    crawled = crawl_web(
        web, tmp_path, "a.test/", **FAST, courtesy__retry_wait_s=0.01, limits__failures_per_host=6, sites__traps=False
    )
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert requests(crawled) <= 2 + 6 + 6


def test_registered_domain_that_fails_under_every_name_is_given_up(tmp_path: Path) -> None:
    """Wildcard DNS in front of a dead server: each name alone would be asked several times."""
    hosts = [f"n{number}.example.test" for number in range(30)]
    reset = WorldAnswer(200, HTML, b"", fault=ServerFault.RESET)
    web = ScriptedWeb({"a.test": {"/": html()}, **{host: {"/robots.txt": reset, "/": reset} for host in hosts}})
    crawled = crawl_web(
        web, tmp_path, "a.test/", *(f"{host}/" for host in hosts),
        **FAST, courtesy__retry_wait_s=0.01, courtesy__robots=False, courtesy__max_hosts=2, limits__failures_per_site=5,
    )  # fmt: skip
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert requests(crawled) - requests(crawled, "a.test") <= 12
    assert crawled.outcomes()["a.test/"] == "200"


def test_the_account_of_a_site_outlives_its_hosts_in_memory() -> None:
    """A site with a million host names of one page each would otherwise never use up its budget."""
    budgets, limits = Budgets(), LimitSettings(pages_per_site=5)
    for number in range(5):
        queue = HostQueue(f"n{number}.example.test", number, 0, 0, DelayTarget("n"))
        assert not budgets.exhausted(queue, limits)
        item = QueuedUrl(f"http://{queue.host}/", 0, 0, 0, 0, 0.0)
        fetched = Fetched(item.url, "200", 200, 0.0, 0.0)
        budgets.count(ActiveVisit(queue, item, fetched=fetched, bytes_received=100), 0.0, 1.0)
        budgets.forget(queue.host)
    assert "registered domain" in budgets.exhausted(HostQueue("n.example.test", 9, 0, 0, DelayTarget("n")), limits)


def test_a_table_of_sites_adds_up_and_gives_back() -> None:
    table, sites = SiteTable(), [f"s{number}.test" for number in range(2 * SHARDS)]
    for number, name in enumerate(sites):
        table.add(name, number, 1000 * number)
    for name in sites[::3]:
        table.add(name, 1, 5_000_000_000)
    taken = [table.take(name) for name in sites]
    assert taken == [
        (number + 1, 1000 * number + 5_000_000_000) if number % 3 == 0 else (number, 1000 * number)
        for number in range(len(sites))
    ]
    assert table.take(sites[0]) == (0, 0)
