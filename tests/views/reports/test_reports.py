"""Reports of a collection that was counted by hand (crawler/handmade.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from teia.cli.read.report import report
from teia.crawler.keep_fresh.freshness import LostFreshness
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import BY_LINK, STATE_EXCLUDED
from teia.records import Outcome
from teia.store.root import open_root
from teia.views.reports.catalogue import REPORTS, unit_of
from teia.views.reports.coverage import coverage
from teia.views.reports.duplicates import duplicates
from teia.views.reports.errors import errors
from teia.views.reports.freshness import FreshnessReport, HostFreshnessRow
from teia.views.reports.growth import growth
from teia.views.reports.hosts import hosts
from teia.views.reports.links import links
from teia.views.reports.outcomes import code_of, describe_outcome, outcomes
from teia.views.reports.permissions import permissions
from teia.views.reports.servers import part_holding, servers
from teia.views.reports.source import LateLog, Source, open_source
from teia.views.reports.space import space
from teia.views.reports.types import types
from tests.crawler.handmade import CONFIG, NOW_S, Cell, found, make, row
from tests.crawler.offline import offline_crawl


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    with open_source(make(tmp_path / "data"), "main") as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Source]:
    """A collection whose seed has not been asked for yet."""
    root = open_root(tmp_path / "empty", create=True)
    for folder in root.create_collection("main", CONFIG, cells=2).cells():
        FrontierCell(folder.frontier).close()
    with open_source(root, "main") as opened:
        yield opened


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_of_nothing_is_empty_and_not_an_error(empty: Source, name: str) -> None:
    assert "notes" in asdict(REPORTS[name](empty, 5))


def test_a_report_without_a_query_does_not_read_the_fetch_log(source: Source) -> None:
    """Its newest rows were read for every report: 3 s and 530 MB with 49,000 of them in each of four cells."""
    opened = list[int]()
    watched = replace(source, late_log=LateLog(lambda: opened.append(1) or source.log))
    assert duplicates(watched).rows
    permissions(watched)
    assert (opened, watched.damaged) == ([], ())
    outcomes(watched)
    outcomes(watched)
    assert opened == [1]


def test_commands_and_pages_do_not_open_the_log_for_a_report_without_a_query(
    source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They asked it for damaged files afterwards, which opened it."""
    opened = list[int]()
    monkeypatch.setattr("teia.store.sql.FetchLog", lambda *_: opened.append(1))
    report("permissions", source.control.parent, as_json=True)
    assert json.loads(capsys.readouterr().out)["damaged_files"] == []
    assert opened == []


def test_outcomes_count_urls_and_requests(source: Source) -> None:
    found = outcomes(source)
    rows = {row.outcome: (row.code, row.count, row.requests) for row in found.rows}
    assert rows == {
        "200": (200, 7, 7),
        "404": (404, 1, 1),
        "robots": (-7, 1, 0),
        "timeout": (-10, 1, 3),
        "dns": (-11, 1, 0),
    }
    assert (found.count, found.requests) == (11, 11)
    assert found.rows[0].outcome == "200"
    assert sum(row.share for row in found.rows) == pytest.approx(1)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_description(outcome: str) -> None:
    assert describe_outcome(outcome)
    assert code_of(outcome) == Outcome(outcome).tarantula_code


@pytest.mark.parametrize(("outcome", "meaning"), [("302", "HTTP: Found"), ("999", "HTTP: unregistered status")])
def test_http_statuses_are_their_own_code(outcome: str, meaning: str) -> None:
    assert (code_of(outcome), describe_outcome(outcome)) == (int(outcome), meaning)


def test_types_by_documents_and_bytes(source: Source) -> None:
    found = types(source)
    rows = {row.media_type: (row.documents, row.answers, row.wire_bytes, row.decoded_bytes) for row in found.rows}
    assert rows == {
        "text/html": (5, 5, 3500, 7000),
        "application/pdf": (1, 1, 4000, 8000),
        "text/xml": (1, 1, 250, 500),
    }
    assert (found.documents, found.wire_bytes, found.decoded_bytes) == (7, 7750, 15500)
    assert found.rows[0].mean_decoded_bytes == 1400


def test_servers_by_documents_and_over_time(source: Source) -> None:
    found = servers(source, top=1)
    assert [(row.host, row.documents) for row in found.top] == [("a.test", 5)]
    assert (found.servers, found.documents, found.documents_per_server) == (2, 7, 3.5)
    assert found.part_with_80 == 1.0
    assert found.bucket_s == 1
    assert sum(bucket.documents for bucket in found.over_time) == 7
    assert found.over_time[0].start == "2023-11-14T22:13:24Z"
    assert found.over_time[-1].cumulative_share == 1


@pytest.mark.parametrize(
    ("counts", "part"), [([80, 10, 5, 5], 0.25), ([1, 1, 1, 1, 1], 0.8), ([7], 1.0), ([], 0.0), ([79, 21], 1.0)]
)
def test_least_part_of_servers_that_holds_80_percent(counts: list[int], part: float) -> None:
    assert part_holding(counts, 0.8) == part


def test_errors_by_class_with_examples_and_by_host(source: Source) -> None:
    found = errors(source)
    rows = {row.outcome: (row.kind, row.urls, row.hosts, row.detail, row.examples) for row in found.rows}
    assert rows == {
        "404": ("client", 1, 1, "", ("http://a.test/4",)),
        "robots": ("refused", 1, 1, "", ("http://a.test/5",)),
        "timeout": ("network", 1, 1, "too slow", ("http://b.test/7",)),
        "dns": ("network", 1, 1, "", ("http://c.test/",)),
    }
    assert (found.visited, found.errors) == (11, 4)
    by_host = {row.host: (row.errors, row.mostly) for row in found.by_host}
    assert by_host == {"a.test": (2, "404"), "b.test": (1, "timeout"), "c.test": (1, "dns")}
    assert found.by_host[0].share == pytest.approx(2 / 7)


def test_space_by_cell(source: Source) -> None:
    found = space(source)
    first, second = found.cells
    assert (first.documents, first.wire_bytes, first.warc_bytes, first.cdxj_bytes) == (5, 2390, 5000, 0)
    assert (second.documents, second.wire_bytes, second.decoded_bytes, second.warc_bytes) == (2, 5500, 11000, 0)
    assert first.log_bytes > 0 == second.log_bytes
    total = {each.what: each.total_bytes for each in found.total}
    assert total["frontier"] == first.frontier_bytes + second.frontier_bytes > 0
    assert total["disk"] == 5000 + total["frontier"] + total["log"]
    assert found.total[0].per_document_bytes == pytest.approx((2390 + 5500) / 7)


def test_links_found_and_how_they_spread(source: Source) -> None:
    found = links(source)
    assert (found.pages_read, found.references, found.references_in_scope) == (6, 16, 13)
    assert (found.references_unindexable, found.named_by_lists) == (3, 3)
    ways = {row.way: (row.urls, row.only) for row in found.found_by}
    assert ways["link"] == (10, 7)
    assert ways["sitemap"] == (4, 2)
    assert ways["seed"] == (1, 0)
    spread = {(row.least, row.most): row.urls for row in found.per_url}
    assert spread == {(0, 0): 2, (1, 1): 7, (2, 3): 2, (4, 7): 1}
    assert (found.top[0].url, found.top[0].in_links) == ("http://a.test/", 5)
    assert found.references_per_url == pytest.approx(16 / 12)


@pytest.fixture
def two_days(tmp_path: Path) -> Iterator[Source]:
    """Two pages of one minute, a third a day later, a file of a type that is not kept, and two URLs that wait."""
    root = open_root(tmp_path / "days", create=True)
    (cell,) = map(Cell, root.create_collection("main", CONFIG, cells=1).cells())
    names = ("", "1", "2", "film.avi", "3", "4")
    with cell.frontier.transaction():
        cell.frontier.add_links([found(f"http://a.test/{name}", BY_LINK) for name in names], NOW_S)
    cell.page("http://a.test/", 0, links=2, images=3, mail_links=1)
    cell.page("http://a.test/1", 5, links=0, images=1, mail_links=0)
    cell.page("http://a.test/2", 86_400, links=0)
    cell.settle("http://a.test/film.avi", "forbidden_type", STATE_EXCLUDED, "video/x-msvideo", status=200)
    refused = row("http://a.test/film.avi", "forbidden_type", 86_460, bytes=9000, decoded_bytes=9000)
    cell.rows.append(refused._replace(status=200, media_type="video/x-msvideo", cell=0))
    cell.close(rolled_out=False)
    with open_source(root, "main") as opened:
        yield opened


def test_answers_of_refused_types_are_no_documents(two_days: Source) -> None:
    of_types, of_servers = types(two_days), servers(two_days)
    assert [(each.media_type, each.documents, each.answers) for each in of_types.rows] == [("text/html", 3, 3)]
    assert (of_types.documents, of_types.to_collect, of_types.wire_bytes) == (3, 2, 1500)
    assert (of_servers.documents, hosts(two_days).rows[0].pages, space(two_days).documents) == (3, 3, 3)
    assert coverage(two_days).held == 3


def test_rates_by_day_count_the_minutes_with_requests(two_days: Source) -> None:
    rates = [(day.day, day.documents, day.minutes, day.documents_per_minute) for day in servers(two_days).by_day]
    assert rates == [("2023-11-14", 2, 1, 2.0), ("2023-11-15", 1, 2, 0.5)]


def test_images_and_mail_addresses_are_counted(two_days: Source) -> None:
    counted = links(two_days)
    assert (counted.images, counted.mail_links) == (4, 1)


def test_growth_counts_urls_by_when_they_were_found_and_first_fetched(source: Source) -> None:
    """Twelve URLs were found at once; nine were requested in 24 s, one of them three times; robots.txt is none."""
    found = growth(source)
    assert (found.found, found.fetched, found.share, found.bucket_s) == (12, 9, 9 / 12, 1)
    rows = [(row.start[17:19], row.found, row.fetched, row.found_in_all, row.fetched_in_all) for row in found.over_time]
    assert rows[:3] == [("20", 12, 0, 12, 0), ("24", 0, 1, 12, 1), ("25", 0, 1, 12, 2)]
    assert rows[-1] == ("44", 0, 1, 12, 9)
    assert found.over_time[-1].share == 9 / 12


def test_coverage_of_a_host_with_two_lists(source: Source) -> None:
    """a.test: 4 by links (one of them waits), 3 by its sitemap, 2 by both; b.test and c.test have no sitemap.

    Of what links alone found, 3 of 7 visited URLs are pages: 2 of 6 as deep as the one that waits, 1 of 3 on a.test. So
    it counts as (1 + 5 * s) / (3 + 5) with s = 3.5 / 7.5, less 2 * (s - (2 + 5 * s) / (6 + 5)): 0.27 pages. 4.27 pages
    are known, and 1.27 * 1 / (2 + 1) are on neither list.
    """
    found = coverage(source)
    row = next(each for each in found.by_host if each.host == "a.test")
    assert (row.held, row.by_links, row.by_sitemaps, row.by_both) == (4, 4, 3, 2)
    share = 3.5 / 7.5
    known = 4 + (1 + 5 * share) / 8 - 2 * (share - (2 + 5 * share) / 11)
    assert row.estimate == round(known + (known - 3) / 3, 1) == 4.7
    assert row.coverage == pytest.approx(4 / (known + (known - 3) / 3))
    assert row.low is not None
    assert row.high is not None
    assert 4 == row.low < 4.7 < row.high
    assert next(each for each in found.by_host if each.host == "b.test").estimate is None
    assert (found.hosts_estimated, found.held, found.held_without_estimate) == (1, 6, 2)
    assert found.total is not None
    assert (found.total.estimate, found.total.low, found.total.high) == (row.estimate, row.low, row.high)
    assert any("assumptions" in note for note in found.notes)


def test_hosts_one_by_one(source: Source) -> None:
    found = hosts(source)
    rows = {row.host: row for row in found.rows}
    assert (found.hosts, found.parked) == (3, 1)
    a, b = rows["a.test"], rows["b.test"]
    assert (a.urls, a.pages, a.queued, a.failed, a.excluded) == (8, 5, 1, 0, 1)
    assert (a.rest_s, a.crawl_delay_s) == (3.0, 3.0)
    assert a.response_s == pytest.approx(0.5)
    assert (b.failed, b.crawl_delay_s, b.parked) == (1, None, "")
    assert rows["c.test"].parked == "no address"


def test_lists_are_as_long_as_requested(source: Source) -> None:
    assert len(hosts(source, 1).rows) == len(coverage(source, 1).by_host) == len(links(source, 1).top) == 1
    assert hosts(source, 1).rows[0].host == "a.test"


def test_report_sees_one_instant_of_a_crawl_that_goes_on(source: Source) -> None:
    writer = FrontierCell(source.cells[1].folder.frontier)
    with writer.transaction():
        writer.add_links([found("http://b.test/new", BY_LINK)], NOW_S)
    writer.close()
    assert links(source).urls_known == 12


@pytest.mark.parametrize("rows", [FreshnessReport, HostFreshnessRow, LostFreshness])
def test_every_number_of_freshness_has_a_unit(rows: type) -> None:
    """Else `teia report freshness` and the page write 0.9 where 93.4% is meant."""
    named = {name for name, kind in get_type_hints(rows).items() if kind in {float, float | None}}
    assert named
    assert {name for name in named if not unit_of(name)} <= {"granted_a_day", "planned_a_day", "changes_per_day"}


def test_permissions_are_counted_from_the_archive(tmp_path: Path) -> None:
    home = "http://a.test/"
    web = {
        home: '<a href="/1">1</a><a href="/2">2</a>',
        f"{home}1": '<meta name="robots" content="noarchive">one',
        f"{home}2": '<meta name="robots" content="noarchive, nofollow, noindex">two',
    }
    with offline_crawl(web, tmp_path, home) as crawl:
        crawl.run()
    with open_source(open_root(tmp_path / "data"), "main") as opened:
        found = permissions(opened, 10)
    assert found.pages == 3
    assert {row.directive: (row.pages, row.hosts, row.examples) for row in found.rows} == {
        "noarchive": (2, 1, (f"{home}1", f"{home}2")),
        "nofollow": (1, 1, (f"{home}2",)),
        "noindex": (1, 1, (f"{home}2",)),
    }
