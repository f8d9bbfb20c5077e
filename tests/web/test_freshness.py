"""The page about freshness (UX 2.9)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from teia.crawl.control import Control
from teia.crawl.reports.freshness import Freshness, HostRow
from teia.crawl.series import COARSE_S, FINE_S
from teia.crawl.standing import Lost
from teia.web.kept import Kept
from teia.web.pages.freshness import _recall
from teia.web.roles import Role

from .conftest import Web


def report(fresh: float, best: float, again: int = 900) -> Freshness:
    """What a report would say; that it says so of real visits is shown in tests/crawl/test_standing.py."""
    lost = Lost(1 - max(fresh, best), max(0.0, best - fresh) * 0.75, 0.0, max(0.0, best - fresh) * 0.25)
    row = HostRow("x.test", 1_000, fresh, 0.01, best, best, 5.0, 5_000.0, 0.0, 600.0, 1.0, 12.5, 1 - fresh)
    return Freshness(1_000, again, 1, fresh, 0.01, best, best, best - 0.2, 610, lost, (row,), ())


@pytest.mark.parametrize(("fresh", "best"), [(0.814, 0.849), (0.95, 0.8)])
def test_live_is_below_the_bound_and_the_parts_add_up(
    web: Web, monkeypatch: pytest.MonkeyPatch, fresh: float, best: float
) -> None:
    """UX acceptance 19."""
    found = SimpleNamespace(value=report(fresh, best), time_s=web.site.clock.now_s())
    monkeypatch.setattr("teia.web.pages.freshness.report_of", lambda *_: found)
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/freshness").json(), client.get("/c/main/freshness").text
    assert twin["fresh"] <= twin["possible"]
    assert twin["is_settling"] == (fresh > best)
    assert twin["fresh"] + sum(twin["lost"].values()) == pytest.approx(1.0)
    assert f"{100 * fresh:.1f}%" in page
    assert f"{100 * best:.1f}%" in page
    assert "x.test" in page


def test_before_enough_was_seen_again_nothing_is_claimed(web: Web) -> None:
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/freshness").json(), client.get("/c/main/freshness").text
    assert (twin["fresh"], twin["possible"], twin["lost"], twin["rows"]) == (None, None, None, [])
    assert "Not enough visits to estimate: 0 of 200" in page
    assert client.get("/c/main/freshness?window=1y").status_code == 400


def test_how_it_went_has_gaps_and_stays_below_its_bound(web: Web) -> None:
    control, now_s = Control(web.site.root.path / "control.sqlite"), web.site.clock.now_s()
    for n in (100, 99, 98, 50, 49):
        control.note_point("main", FINE_S, now_s - FINE_S * n, (n, n, 1, 1, 0.9 - n / 1_000, 0.85))
    control.note_point("main", COARSE_S, now_s - 4_000, (1, 1, 1, 1, None, None))
    control.close()
    client = web.client(Role.VIEWER)
    series = client.get("/api/v1/c/main/freshness?window=15min").json()["series"]
    assert [fresh is None for _, fresh, _ in series] == [False, False, False, True, False, False]
    assert all(fresh <= possible for _, fresh, possible in series if fresh is not None)
    assert client.get("/api/v1/c/main/freshness?window=24h").json()["series"] == [], "nothing is known of it"
    page = client.get("/c/main/freshness?window=15min").text
    assert page.count('<svg class="wide"') == 1


def test_the_last_report_is_there_when_the_server_starts_again(web: Web) -> None:
    """It may take long to find; until there is a new one the last is shown, with its age."""
    client = web.client(Role.VIEWER)
    first = client.get("/api/v1/c/main/freshness").json()
    stored = web.site.root.path / "main" / "freshness.json"
    assert stored.exists()
    again = Kept(web.site.clock)
    web.site.kept.close()
    web.site.kept = again
    _recall(web.site, "main")
    found = again.last(("freshness", "main"))
    assert found is not None
    assert (found.value.pages, found.value.hosts) == (first["pages"], first["hosts"])
    stored.write_bytes(b'{"no": "report"}')
    web.site.kept = Kept(web.site.clock)
    assert client.get("/api/v1/c/main/freshness").json()["pages"] == first["pages"], "what makes no sense is not used"
