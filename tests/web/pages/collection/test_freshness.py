"""The page about freshness (UX 2.9)."""

from __future__ import annotations

import csv
import io
import re
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from teia.collections.account import COARSE_S, FINE_S, note_truth
from teia.collections.control_file import CrawlReports
from teia.crawler.keep_fresh.freshness import LostFreshness
from teia.views.reports.freshness import BudgetReport, FreshnessReport, HostFreshnessRow
from teia.web.access.roles import Role
from teia.web.background.cache import AnswerCache
from teia.web.parts.freshness_report import _load_stored
from tests.web.conftest import Web


def report(fresh: float, best: float, possible: float, again: int = 900) -> FreshnessReport:
    """What a report would say; that it says so of real visits is shown in tests/crawler/keep_fresh/test_bound.py."""
    missing = max(0.0, best - fresh)
    return FreshnessReport(
        pages=1_000, visited_again=again, hosts=1, fresh=fresh, fresh_error=0.01, best=best, best_error=0.02,
        best_next=best, possible=possible, uniform=best - 0.2, well_known=610, requests_a_day=12_960,
        granted_a_day=17_280.0, lost=LostFreshness(1 - max(fresh, best), missing * 0.75, 0.0, missing * 0.25),
        rows=(_row(fresh, best, possible),), notes=(),
    )  # fmt: skip


def _row(fresh: float, best: float, possible: float) -> HostFreshnessRow:
    return HostFreshnessRow(
        host="x.test", pages=1_000, fresh=fresh, fresh_error=0.01, best=best, best_error=0.02, best_next=best,
        possible=possible, slot_s=5.0, requests_a_day=12_960, full_pass_s=5_000.0, late_share=0.0, week_slot_s=600.0,
        weight=1.0, changes_per_day=12.5, lost=1 - fresh,
    )  # fmt: skip


@pytest.mark.parametrize(("fresh", "best", "possible"), [(0.814, 0.849, 0.877), (0.95, 0.8, 0.96)])
def test_what_there_is_what_can_be_kept_and_what_nobody_exceeds_are_shown_as_they_are(
    web: Web, monkeypatch: pytest.MonkeyPatch, fresh: float, best: float, possible: float
) -> None:
    """UX acceptance 19, and the policy line of 2.9."""
    found = SimpleNamespace(value=report(fresh, best, possible), time_s=web.installation.clock.now_s())
    monkeypatch.setattr("teia.web.pages.collection.freshness.freshness_report", lambda *_: found)
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/freshness").json(), client.get("/c/main/freshness").text
    assert (twin["fresh"], twin["best"], twin["possible"]) == (fresh, best, possible)
    assert twin["is_settling"] == (fresh > best)
    assert ("still fresher than they can be kept" in page) == (fresh > best)
    assert twin["fresh"] + sum(twin["lost"].values()) == pytest.approx(1.0)
    for share in (fresh, best, possible):
        assert f"{100 * share:.1f}%" in page
    assert "x.test" in page
    assert twin["policy"]["used"] == 0.75
    for words in (
        "hosts allow 17,280 visits a day, 75% used within the last day",
        "61% of pages have 5 visits or more",
    ):
        assert words in page
    assert "12,960 / 17,280" in page


def test_a_budget_is_shown_with_its_price_and_what_each_host_gets(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: the price is shown as the hours for which a visit keeps a page fresh."""
    told = report(0.814, 0.849, 0.877)
    row = replace(told.rows[0], slot_s=86_400 / 43.5, planned_a_day=43.5)
    told = replace(told, budget=BudgetReport(20_000, "requests", 7.25), rows=(row,))
    found = SimpleNamespace(value=told, time_s=web.installation.clock.now_s())
    monkeypatch.setattr("teia.web.pages.collection.freshness.freshness_report", lambda *_: found)
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/freshness").json(), client.get("/c/main/freshness").text
    assert twin["policy"]["budget"] == {"a_day": 20_000, "unit": "requests", "price_hours": 7.25}
    assert twin["rows"][0]["planned_a_day"] == 43.5
    assert "a budget of 20,000 requests a day for all hosts, where a visit keeps a page fresh for 7.2 hours" in page
    assert "12,960 / 43.5" in page


def test_the_list_of_hosts_has_the_same_numbers_under_the_same_names(web: Web) -> None:
    """It called `best` what is possible at this moment."""
    client = web.client(Role.VIEWER)
    (before,) = client.get("/api/v1/c/main/hosts").json()["rows"]
    assert (before["fresh"], before["best"], before["possible"]) == (None, None, None)
    told = report(0.814, 0.849, 0.877)
    told = replace(told, rows=(replace(told.rows[0], host=before["host"]),))
    web.installation.cache.store(("freshness", "main"), told, web.installation.clock.now_s())
    (row,) = client.get("/api/v1/c/main/hosts").json()["rows"]
    assert (row["fresh"], row["best"], row["possible"]) == (0.814, 0.849, 0.877)
    (in_csv,) = csv.DictReader(io.StringIO(client.get("/c/main/hosts.csv").text))
    assert (in_csv["best"], in_csv["possible"]) == ("0.849", "0.877")
    assert "81% / 88%" in client.get("/c/main/hosts").text, "fresh, and the bound of this moment"


def test_before_enough_was_seen_again_nothing_is_claimed(web: Web) -> None:
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/freshness").json(), client.get("/c/main/freshness").text
    assert (twin["fresh"], twin["possible"], twin["lost"], twin["rows"]) == (None, None, None, [])
    assert "Not enough visits to estimate: 0 of 200" in page
    assert client.get("/c/main/freshness?window=1y").status_code == 400


def test_how_it_went_has_gaps_and_its_bound_beside_it(web: Web) -> None:
    control, now_s = CrawlReports(web.installation.root.path / "control.sqlite"), web.installation.clock.now_s()
    for n in (100, 99, 98, 50, 49):
        control.note_point("main", FINE_S, now_s - FINE_S * n, (n, n, 1, 1, 0.9 - n / 1_000, 0.85, 0.91))
    control.note_point("main", COARSE_S, now_s - 4_000, (1, 1, 1, 1, None, None))  # as older versions wrote it
    control.close()
    client = web.client(Role.VIEWER)
    series = client.get("/api/v1/c/main/freshness?window=15min").json()["series"]
    assert [fresh is None for _, fresh, _ in series] == [False, False, False, True, False, False]
    assert {possible for _, fresh, possible in series if fresh is not None} == {0.91}
    assert client.get("/api/v1/c/main/freshness?window=24h").json()["series"] == [], "nothing is known of it"
    page = client.get("/c/main/freshness?window=15min").text
    assert page.count('<svg class="wide"') == 1


def test_what_is_true_in_the_lab_has_its_own_mark(web: Web) -> None:
    """UX 2.9: in the lab also true freshness, measured; nowhere else."""
    client, now_s = web.client(Role.VIEWER), web.installation.clock.now_s()
    with closing(CrawlReports(web.installation.root.path / "control.sqlite")) as control:
        for n in (3, 2, 1):
            control.note_point("main", FINE_S, now_s - FINE_S * n, (n, n, 1, 1, 0.9, 0.85, 0.91))
        address = "/c/main/freshness?window=15min"
        assert client.get(f"/api/v1{address}").json()["truth"] == []
        assert "true (lab)" not in client.get(address).text
        note_truth(control, "main", now_s - 2_000, 0.7)
        for n in (3, 2, 1):
            note_truth(control, "main", now_s - 10 * n, 0.6 + n / 100)
    assert [share for _, share in client.get(f"/api/v1{address}").json()["truth"]] == [0.63, 0.62, 0.61]
    page = client.get(address).text
    assert "true (lab)" in page
    assert page.count('<circle class="fill s2"') >= 3, "with points, for it is measured now and then"
    assert re.search(r">\s*60%?<", page), "its values are on the axis"
    assert "Not enough visits to estimate" in page
    assert "True freshness, measured in the lab: 61.0%," in page, "also without an estimate"


def test_the_last_report_is_there_when_the_server_starts_again(web: Web) -> None:
    """It may take long to find; until there is a new one the last is shown, with its age."""
    client = web.client(Role.VIEWER)
    first = client.get("/api/v1/c/main/freshness").json()
    stored = web.installation.root.path / "main" / "freshness.json"
    assert stored.exists()
    again = AnswerCache(web.installation.clock)
    web.installation.cache.close()
    web.installation.cache = again
    _load_stored(web.installation, "main")
    found = again.last(("freshness", "main"))
    assert found is not None
    assert (found.value.pages, found.value.hosts) == (first["pages"], first["hosts"])
    stored.write_bytes(b'{"no": "report"}')
    web.installation.cache = AnswerCache(web.installation.clock)
    assert client.get("/api/v1/c/main/freshness").json()["pages"] == first["pages"], "what makes no sense is not used"
