"""A crawl of a small web, judged by the lab's truth and the lab's log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.fetch.robots import parse_robots
from teia.lab.server.requestlog import RequestLogEntry
from teia.lab.server.witness import early_requests
from teia.store.reader import ArchiveReader
from teia.store.root import open_root
from teia.transfer.links_audit import audit_links
from teia.transfer.read_all import audit_archives, known_urls

from .labs import IMPATIENT, crawl, running_lab

SPEC = """
seed = 5
hosts = 12
pages = 400

[sites]
theta = 0.3

[errors]
silent_s = 3.0

[robots]
present = 0.8
excluded = 0.05
nofollow = 0
crawl_delay = 0.3
crawl_delay_s = 0.3
"""
DELAY_S = 0.1


@dataclass(frozen=True)
class Crawled:
    """A finished crawl and everything the lab knows about it."""

    data: Path
    summary: dict[str, Any]
    again: dict[str, Any]
    entries: list[RequestLogEntry]
    truth: dict[str, dict[str, Any]]

    @property
    def known(self) -> dict[str, dict[str, Any]]:
        return {each["url"]: each for each in known_urls(open_root(self.data), "main")}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    folder = tmp_path_factory.mktemp("crawl")
    with running_lab(folder, SPEC, 92, truth=True) as lab:
        summary = crawl(lab, folder / "data", "--delay", str(DELAY_S), environ=IMPATIENT)
        again = crawl(lab, folder / "data", "--delay", str(DELAY_S), environ=IMPATIENT)
        return Crawled(folder / "data", summary, again, lab.settled_entries(), lab.truth())


def test_summary_has_the_keys_others_rely_on_and_ends_finished(crawled: Crawled) -> None:
    keys = """collection state seconds requests pages pages_per_s bytes hosts urls_known urls_queued outcomes links
        archive_records indexed politeness_violations"""
    assert set(keys.split()) <= set(crawled.summary)
    assert crawled.summary["state"] == "finished"
    assert crawled.summary["urls_queued"] == 0
    assert crawled.summary["requests"] == len(crawled.entries)


def test_every_page_that_may_be_fetched_and_is_linked_was_fetched(crawled: Crawled) -> None:
    """What the truth says is reachable from the seed by links of allowed pages is in the archive, as it was served."""
    reached, waiting = set(), [next(iter(crawled.truth))]
    while waiting:
        url = waiting.pop()
        line = crawled.truth.get(url)
        if url in reached or line is None or not line["robots_allowed"]:
            continue
        reached.add(url)
        if line["kind"] in {"page", "noindex"} or line["location"]:
            waiting += [link for link in line["links"] if link not in line["nofollow"]]
            waiting += [line["location"]] if line["location"] else []
    fetched = {url for url, each in crawled.known.items() if each["outcome"] == "200"}
    pages = {url for url in reached if crawled.truth[url]["versions"]}
    assert len(pages) > 200
    assert pages - fetched == set()


def test_nothing_that_robots_forbids_was_requested(crawled: Crawled) -> None:
    forbidden = {url for url, line in crawled.truth.items() if not line["robots_allowed"]}
    asked = {f"http://{entry.headers['host']}{entry.path}" for entry in crawled.entries}
    assert forbidden
    assert asked & forbidden == set()
    assert any(each["outcome"] == "robots" for each in crawled.known.values())


def test_no_request_was_early_by_the_servers_log(crawled: Crawled) -> None:
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.host) == []
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.address) == []
    assert crawled.summary["politeness_violations"] == 0


def test_crawl_delays_were_kept_from_the_first_page_on(crawled: Crawled) -> None:
    delayed = 0
    for host in {entry.host for entry in crawled.entries}:
        record = stored(crawled.data, f"http://{host}")
        delay_s = parse_robots(record, "teia").crawl_delay_s if record is not None else None
        if delay_s:
            delayed += 1
            of_host = [entry for entry in crawled.entries if entry.host == host]
            assert early_requests(of_host, delay_s, lambda entry: entry.host) == []
    assert delayed


def stored(data: Path, origin_prefix: str) -> bytes | None:
    """The archived robots.txt of a host, if it has one."""
    for folder in open_root(data).collection("main").cells():
        reader = ArchiveReader(folder.archive)
        for record in reader.records():
            if (
                record.kind == "response"
                and record.url.startswith(origin_prefix)
                and record.url.endswith("/robots.txt")
            ):
                answer = reader.answer(record.file, record.offset)
                return answer.payload if answer.status == 200 else None
    return None


def test_archive_is_whole(crawled: Crawled) -> None:
    audit = audit_archives(open_root(crawled.data), "main")
    assert audit.violations == 0, audit.details
    assert audit.checked >= crawled.summary["archive_records"]


def test_every_link_count_is_exact(crawled: Crawled) -> None:
    """Every page that was read counts once for each page it links to, itself left out."""
    expected = dict.fromkeys(crawled.known, 0)
    for url, each in crawled.known.items():
        line = crawled.truth.get(url)
        if line is None or each["outcome"] != "200":
            continue
        for link in line["links"]:
            if link not in line["nofollow"] and link != url and link in expected:
                expected[link] += 1
    found = {url: each["in_links"] for url, each in crawled.known.items() if url in crawled.truth}
    wrong = {url: (number, expected[url]) for url, number in found.items() if number != expected[url]}
    assert wrong == {}
    assert audit_links(open_root(crawled.data), "main").violations == 0


def test_same_command_again_finds_nothing_to_do(crawled: Crawled) -> None:
    assert crawled.again["state"] == "finished"
    assert crawled.again["requests"] == 0
    assert crawled.again["urls_known"] == crawled.summary["urls_known"]
