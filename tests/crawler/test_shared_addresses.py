"""Many sites at one address: crawled as the rule says, by the server's log, and audited by it (A7, RELIABILITY 22)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from teia.config.sections import CourtesySettings
from teia.frontier.queue.ledger import read_shared_addresses
from teia.lab.server.witness import TOLERANCE_S, early_requests
from teia.store.root import open_root
from teia.transfer.read_all import audit_fetch_log
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html

SITES = 30
DELAY_S, SHARED_SITES, SHARED_REST_S = 0.4, 4, 0.05
ADDRESS = "127.77.90.88"
RULE = {"courtesy__delay_s": DELAY_S, "courtesy__shared_sites": SHARED_SITES, "courtesy__shared_rest_s": SHARED_REST_S}


def web() -> ScriptedWeb:
    names = [f"site{number}.test" for number in range(SITES)]
    pages = {name: {"/": html("/1"), "/1": html(text=f"All about {name}")} for name in names}
    return ScriptedWeb(pages, dict.fromkeys(names, ADDRESS))


def seeds() -> list[str]:
    return [f"site{number}.test/" for number in range(SITES)]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    return crawl_web(web(), tmp_path_factory.mktemp("shared"), *seeds(), **RULE, sites__aliases=False)


def owed_s(sites: int) -> float:
    return DELAY_S if sites <= SHARED_SITES else min(DELAY_S, max(SHARED_REST_S, DELAY_S * SHARED_SITES / sites))


def test_no_host_is_requested_early(crawled: Crawled) -> None:
    assert len(crawled.entries) == 3 * SITES
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.host) == []


def test_address_is_requested_as_often_as_the_rule_allows_and_no_more(crawled: Crawled) -> None:
    entries = sorted(crawled.entries, key=lambda entry: entry.start_s)
    sites: set[str] = set()
    for before, after in pairwise(entries):
        sites.add(before.host)
        assert after.start_s - before.end_s >= owed_s(len(sites)) - TOLERANCE_S
    took_s = entries[-1].end_s - entries[0].start_s
    assert took_s < 0.7 * 3 * SITES * DELAY_S, "the sites do not wait for each other as if they were one server"


def test_audit_knows_the_rule(crawled: Crawled) -> None:
    root, courtesy = open_root(crawled.data), crawled.crawls[0].config.courtesy
    assert audit_fetch_log(root, "main", courtesy).violations == 0
    strict = CourtesySettings(delay_s=DELAY_S, response_factor=0.0, shared_sites=SITES)
    assert audit_fetch_log(root, "main", strict).violations > SITES, "by another rule they were early"


@pytest.mark.slow
def test_number_of_sites_is_kept_for_the_next_run(crawled: Crawled, tmp_path: Path) -> None:
    assert read_shared_addresses(crawled.data / "ledger.sqlite") == {ADDRESS: SITES}
    first = crawl_web(web(), tmp_path, *seeds()[:10], **RULE, sites__aliases=False)
    again = crawl_web(
        web(), tmp_path, *seeds()[10:14], collections={"more": {}}, port=first.port, **RULE, sites__aliases=False
    )
    entries = sorted(
        (e for e in again.entries if e.start_s > max(f.end_s for f in first.entries)), key=lambda e: e.start_s
    )
    gaps = [after.start_s - before.end_s for before, after in pairwise(entries)]
    assert min(gaps) >= owed_s(14) - TOLERANCE_S
    assert sum(gap < DELAY_S - TOLERANCE_S for gap in gaps) > len(gaps) / 2, "it did not have to learn that again"
    assert audit_fetch_log(open_root(again.data), "more", again.crawls[0].config.courtesy).violations == 0


def test_named_network_has_the_short_delay_from_the_start(tmp_path: Path) -> None:
    crawled = crawl_web(
        web(), tmp_path, *seeds()[:5], **RULE, courtesy__cdn_nets=["127.77.90.88/32"], sites__aliases=False
    )
    entries = sorted(crawled.entries, key=lambda entry: entry.start_s)
    gaps = [after.start_s - before.end_s for before, after in pairwise(entries)]
    assert min(gaps) >= SHARED_REST_S - TOLERANCE_S
    assert sorted(gaps)[len(gaps) // 2] < DELAY_S
    assert early_requests(crawled.entries, DELAY_S, lambda entry: entry.host) == []
    assert audit_fetch_log(open_root(crawled.data), "main", crawled.crawls[0].config.courtesy).violations == 0
