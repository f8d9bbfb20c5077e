"""Everything about one page, and one URL's way through the roles."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teia.clock import VirtualClock, WallClock, iso_utc
from teia.collections.settings import saved
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup, UrlEntry
from teia.errors import StoreError
from teia.frontier.cell.schema import BY_LINK
from teia.store.fetchlog import FetchRow
from teia.store.root import Root, open_root
from teia.urls import key_of, split
from teia.views.links import archived_links_in, targets
from teia.views.page import PageView, page_view, suggestions
from teia.views.trace import trace
from tests.crawler.crawled import Crawled


def view(root: Root, url: str) -> PageView:
    with Lookup(root, "main") as lookup:
        return page_view(lookup, url, saved(root, "main").config, WallClock())


@pytest.fixture
def copied(crawled: Crawled, tmp_path: Path) -> Root:
    shutil.copytree(crawled.data, tmp_path / "data")
    return open_root(tmp_path / "data")


def in_frontier(root: Root, url: str, sql: str, *values: Any) -> None:
    """Change something of one URL in the frontier's own file."""
    with Lookup(root, "main") as lookup:
        path = lookup.folders[lookup.cell_number(split(url).host)].frontier
    with sqlite3.connect(path) as db:
        db.execute(sql, values)
    db.close()


def endorses(lookup: Lookup, url: str, target: str) -> bool:
    entry = lookup.find(url)
    if entry is None or entry.page is None or entry.page.noindex:
        return False
    return any(link.url == target and not link.nofollow for link in lookup.links(entry.cell, entry.page))


def test_a_page_says_what_the_lab_knows_of_it(crawled: Crawled) -> None:
    url = crawled.some("200")
    page, line = view(crawled.root, url), crawled.truth[url]
    assert page.outcome == "200"
    assert page.digest == crawled.urls[url]["digest"]
    assert page.type == "text/html"
    assert set(line["links"]) - {url} <= set(page.links_out)
    linking = {other for other, each in crawled.truth.items() if url in each["links"]}
    read = {other for other in linking - {url} if crawled.urls[other]["outcome"] == "200"}
    # The index answers: it has no pages that do not want to be found, and no links that are not endorsed.
    with Lookup(crawled.root, "main") as lookup:
        found = {other for other in read if endorses(lookup, other, url)}
    assert found <= set(page.links_in)
    assert [version.digest for version in page.versions] == [page.digest]
    assert (page.why_waiting, page.next_due, page.rate_per_day, page.fresh_probability) == (None, None, None, None)


def test_links_in_says_when_it_did_not_look_everywhere(crawled: Crawled) -> None:
    with Lookup(crawled.root, "main") as lookup:
        few, all_of_them = (archived_links_in(lookup, crawled.some("200"), at_most) for at_most in (3, 10_000))
    assert "first 3 pages" in few.note
    assert all_of_them.note == ""


def test_why_not_yet_has_a_sentence_for_every_state(crawled: Crawled) -> None:
    assert view(crawled.root, crawled.some("robots")).why_waiting == "robots.txt disallows it"
    failed = next((url for url, each in crawled.urls.items() if each["state"] == "failed"), None)
    assert failed is not None
    assert "no more retries" in (view(crawled.root, failed).why_waiting or "")


def test_a_waiting_url_says_how_many_are_before_it_and_when_the_delay_of_its_host_ends(
    copied: Root, crawled: Crawled
) -> None:
    host = max({split(url).host for url in crawled.urls}, key=lambda name: sum(name in url for url in crawled.urls))
    urls = [url for url in crawled.urls if split(url).host == host][:3]
    for rank, url in enumerate(urls):
        key = key_of(url)
        in_frontier(copied, url, "UPDATE urls SET state = 0, lane = 0, rank = ? WHERE key = ?", rank, key)
        in_frontier(copied, url, "INSERT INTO queue SELECT slot, host_id, 0, ?, key FROM urls WHERE key = ?", rank, key)
    soon_s = WallClock().now_s() + 3600
    with sqlite3.connect(copied.path / "ledger.sqlite") as db:
        db.execute("INSERT OR REPLACE INTO delays VALUES ('server', ?, ?, 5)", (host, soon_s))
    db.close()
    rest = f"delay of its host until {iso_utc(soon_s)}"
    assert view(copied, urls[0]).why_waiting == rest
    assert view(copied, urls[2]).why_waiting == f"{rest}; queued behind 2 URLs of its host"
    sql = "UPDATE urls SET lane = 1, rank = ?, failures = 2, outcome = 'timeout' WHERE key = ?"
    in_frontier(copied, urls[0], sql, int(soon_s * 1000), key_of(urls[0]))
    waiting = view(copied, urls[0])
    assert waiting.next_due == iso_utc(int(soon_s * 1000) / 1000)
    assert (waiting.why_waiting or "").startswith("failed 2 times (timed out), next attempt at")
    in_frontier(copied, urls[0], "UPDATE hosts SET parked = 'asks for 7200 s of rest' WHERE name = ?", host)
    assert "its host is parked: asks for 7200 s of rest" in (view(copied, urls[0]).why_waiting or "")


def test_an_unknown_url_comes_with_what_is_like_it(crawled: Crawled) -> None:
    url = crawled.some("200")
    with pytest.raises(StoreError, match="did you mean") as refused:
        view(crawled.root, url + "x")
    assert url in str(refused.value)
    with pytest.raises(StoreError, match="out of scope"):
        view(crawled.root, "http://elsewhere.example/")
    with pytest.raises(StoreError, match="not an http"):
        view(crawled.root, "mailto:someone")
    with Lookup(crawled.root, "main") as lookup:
        misspelt = split(url).host.replace(".test", ".tset")
        assert split(url).host in suggestions(lookup, f"http://{misspelt}/")[0]


def test_trace_walks_through_the_roles_in_order_with_times(crawled: Crawled) -> None:
    """A1: every role that a single machine has, in causal order, each with the time that its own record has."""
    with Lookup(crawled.root, "main") as lookup:
        entry = next(each for each in map(lookup.find, crawled.urls) if each is not None and links_away(lookup, each))
        linked, steps = entry.url, trace(lookup, entry, WallClock())
    roles = [step.role for step in steps]
    assert roles[:3] == ["Join", "Distributor", "Synchronizer"], "before any of its URLs"
    way = roles[3:]
    assert way == [
        "LinkExtractor", "Bulk", "Distributor", "Take", "Frontier",
        "Downloader", "Analyzer", "URLScheduler", "LinkExtractor", "ContentExtractor", "MetadataExtractor",
        "Bulk", "Distributor", "Frontier",
    ]  # fmt: skip
    times = [step.time or "" for step in steps]
    assert all(times)
    assert times == sorted(times), "causes come before their effects"
    assert [step.message for step in steps[3:]] == [
        "Bulk", "Put", "Key", None, "URL", "Analyze", None, "Link", "Bulk", None, None, "Put", "Key", None,
    ]  # fmt: skip
    downloader, extractor, bulk = steps[8], steps[11], steps[14]
    assert downloader.values["status"] == 200
    assert downloader.values["rest_s"] is None or downloader.values["rested_s"] >= downloader.values["rest_s"]
    assert extractor.values["links"] >= len(set(crawled.truth[linked]["links"]) - {linked})
    row = fetched(crawled.root, linked)
    assert [downloader.time, extractor.time, bulk.time] == [iso_utc(row[name].timestamp()) for name in TIMES]
    json.dumps([asdict(step) for step in steps])


def test_trace_in_a_folder_of_an_older_version_shows_what_was_recorded(crawled: Crawled, copied: Root) -> None:
    """Its fetch log has no times of extraction and commit, and its cells have no events."""
    url, columns = crawled.some("200"), FetchRow._fields.index("images")
    for folder in copied.collection("main").cells():
        with sqlite3.connect(folder.frontier) as db:
            for seq, row in db.execute("SELECT seq, row FROM log").fetchall():
                older = msgspec.msgpack.encode(msgspec.msgpack.decode(row)[:columns])
                db.execute("UPDATE log SET row = ? WHERE seq = ?", (older, seq))
            db.execute("DELETE FROM meta WHERE name LIKE 'agent.%'")
        db.close()
    with Lookup(copied, "main") as lookup:
        entry = lookup.find(url)
        assert entry is not None
        steps = trace(lookup, entry, WallClock())
    assert [step.role for step in steps[:4]] == ["Take", "Frontier", "Downloader", "Analyzer"]
    times = [step.time for step in steps if step.time is not None]
    assert times == sorted(times)
    assert [step.time for step in steps if step.role == "Bulk"] == [None]


def test_trace_tells_no_speed_of_a_server_that_a_cache_answered_for(crawled: Crawled, copied: Root) -> None:
    url, kind = crawled.some("200"), FetchRow._fields.index("kind")

    def said() -> list[str]:
        with Lookup(copied, "main") as lookup:
            entry = lookup.find(url)
            assert entry is not None
            return [step.what for step in trace(lookup, entry, WallClock()) if step.role == "Analyzer"]

    (speed,) = said()
    assert speed.endswith(" kB/s")
    for folder in copied.collection("main").cells():
        with sqlite3.connect(folder.frontier) as db:
            for seq, row in db.execute("SELECT seq, row FROM log").fetchall():
                fields = msgspec.msgpack.decode(row)
                fields[kind] = "cached"
                db.execute("UPDATE log SET row = ? WHERE seq = ?", (msgspec.msgpack.encode(fields), seq))
        db.close()
    assert said() == []


TIMES = ("started", "parsed", "committed")


def fetched(root: Root, url: str) -> dict[str, Any]:
    """The times of a URL's only visit, as the fetch log has them."""
    with fetch_log(root, "main") as log:
        rows = log.query(f"SELECT {', '.join(TIMES)}, ended FROM fetches WHERE url = '{url}'")
    (row,) = rows.rows
    found = dict(zip(rows.columns, row, strict=True))
    assert found["started"] <= found["ended"] <= found["parsed"] <= found["committed"]
    return found


def links_away(lookup: Lookup, entry: UrlEntry) -> bool:
    """Tell whether a page was found by a link alone, visited once, and links to pages of other cells."""
    page = entry.page
    if page is None or entry.outcome != "200" or entry.found_by != BY_LINK or page.visits != 1:
        return False
    links = targets(lookup.links(entry.cell, page), entry.url)
    return any(lookup.cell_number(split(url).host) != entry.cell for url in links)


def test_trace_of_a_url_that_may_not_be_fetched_says_why(crawled: Crawled) -> None:
    with Lookup(crawled.root, "main") as lookup:
        entry = lookup.find(crawled.some("robots"))
        assert entry is not None
        steps = trace(lookup, entry, VirtualClock())
    assert [step.what for step in steps if step.role == "Downloader"] == ["not fetched: robots.txt disallows it"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "teia", *words], capture_output=True, text=True, check=False)


def test_commands_have_the_keys_others_rely_on(crawled: Crawled) -> None:
    url, data = crawled.some("200"), str(crawled.data)
    page = json.loads(command("page", url, "--data", data, "--json").stdout)
    keys = """url canonical outcome depth title lang type digest versions links_out links_in rate_per_day next_due
        fresh_probability why_waiting"""
    assert set(keys.split()) <= set(page)
    assert {"time", "digest", "changed"} <= set(page["versions"][0])
    traced = command("trace", url, "--data", data)
    assert traced.stdout.splitlines()[0] == url
    assert "Downloader" in traced.stdout
    unknown = command("page", url + "x", "--data", data)
    assert (unknown.returncode, unknown.stderr.count("\n")) == (1, 1)
