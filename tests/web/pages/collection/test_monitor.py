"""Monitor, and what it says in JSON: is it going well, what needs me? (UX 2.6)"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from teia.collections.account import FINE_S
from teia.collections.control_file import CrawlReports
from teia.views.alerts import Disk
from teia.web.access.roles import Role
from tests.web.clusters import FixedSource, three_nodes
from tests.web.conftest import XSS, Web

LIVE: dict[str, Any] = {
    "now": [{"host": "x.test", "url": "http://x.test/a", "seconds": 1.5}],
    "under_way": 1,
    "done": [
        {"number": 7, "time": "2026-11-15T12:00:00.000000Z", "outcome": "200", "url": f"http://x.test/{XSS}", "ms": 12,
         "bytes": 2_345, "links": 3},
    ],
    "hosts": {"ready": 1, "resting": 88, "fetching": 7, "idle": 316},
    "early": 0,
    "closest_s": 0.053,
    "closest_of_s": 0.05,
}  # fmt: skip


@pytest.fixture
def running(web: Web) -> Iterator[CrawlReports]:
    """A crawl that runs, as far as its account says."""
    control, now_s = CrawlReports(web.installation.root.path / "control.sqlite"), web.installation.clock.now_s()
    account = web.client(Role.VIEWER).get("/api/v1/c/main/status").json()
    account |= {"state": "running", "pages": 1_204_511, "urls_queued": 5, "live": LIVE}
    control.begin("main", now_s)
    control.write_account("main", account, now_s)
    for n in range(30):
        point = (100 * n, 50 * n, 1_000 + n, 500 - n, None, None)
        control.note_point("main", FINE_S, now_s - FINE_S * (30 - n), point)
    yield control
    control.close()


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", "", page)


@pytest.mark.usefixtures("running")
def test_the_page_shows_the_numbers_of_its_twin(web: Web) -> None:
    """UX acceptance 7."""
    client = web.client(Role.VIEWER)
    page, twin = text_of(client.get("/c/main").text), client.get("/api/v1/c/main/status").json()
    assert twin["is_running"]
    assert twin["pages_per_s_now"] == 10.0
    for shown in (
        "1,204,511",
        "10.0",
        "shortest gap 0.053 s (minimum 0.050 s)",
        "1,204,511 pages fetched in this run",
        "88 in delay",
        "running",
        "12",
    ):
        assert shown in page, shown
    assert len(twin["series"]["rate"]) == 29
    assert {rate for _, rate in twin["series"]["rate"]} == {20.0}
    assert twin["series"]["visited"][-1][1] == 1_029 - 471


@pytest.mark.usefixtures("running")
def test_what_sites_wrote_is_text_and_charts_are_pictures(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main").text
    assert XSS not in page
    assert page.count('<svg class="wide"') == 2
    assert " style=" not in page
    assert len(page) < 100_000


def test_a_crawl_that_is_not_running_says_so_and_loses_nothing(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main").text
    assert re.search(r'<span class="state finished">finished</span>', page)
    assert 'value="start"' not in page, "a viewer has no buttons"
    assert "No alerts" in page
    twin = web.client(Role.VIEWER).get("/api/v1/c/main/status").json()
    assert (twin["finish"], twin["needs"], twin["live"], twin["is_running"]) == (None, [], None, False)


def test_what_needs_a_person_is_on_the_page(web: Web, running: CrawlReports) -> None:
    run = running.running_crawl("main")
    assert run is not None
    seeds = [f"http://y.test/{XSS}: timeout", f"http://exmaple.test/{XSS}: dns (no such name)"]
    account = {**run.account, "live": {**LIVE, "early": 2}, "failed_seeds": seeds}
    running.write_account("main", account, web.installation.clock.now_s())
    client = web.client(Role.VIEWER)
    needs = client.get("/api/v1/c/main/status").json()["needs"]
    assert [alert["kind"] for alert in needs] == ["early", "no_host", "seeds"]
    page = client.get("/c/main").text
    assert "2 requests were sent before the delay of their server had passed." in page
    assert "1 seed could not be fetched:" in page
    assert "No such host: exmaple.test" in text_of(page)
    assert XSS not in page
    assert "Correct the seed" not in page, "a viewer has no actions"
    page = web.client(Role.OPERATOR).get("/c/main").text
    assert '<a class="act" href="/c/main/edit#seeds">Correct the seed</a>' in page
    assert "/c/main/frontier/bulk?deed=retry&amp;host=exmaple.test" in page


def test_a_seed_that_failed_is_explained_in_words(web: Web, running: CrawlReports) -> None:
    """A newcomer read `blocked_address` in an alert, in both languages."""
    run = running.running_crawl("main")
    assert run is not None
    seeds = ["http://127.0.0.1/: blocked_address (127.0.0.1 is loopback)"]
    running.write_account("main", {**run.account, "failed_seeds": seeds}, web.installation.clock.now_s())
    client = web.client(Role.OPERATOR)
    message = client.get("/api/v1/c/main/status").json()["needs"][0]["message"]
    assert message.endswith("http://127.0.0.1/: address blocked by the address guard (127.0.0.1 is loopback)")
    for language, words in (("en", "address blocked by the address guard"), ("pt-BR", "bloqueado")):
        page = client.get("/c/main", headers={"accept-language": language}).text
        alert = text_of(page[page.index('<ul class="needs">') :]).partition("Dismiss")[0]
        assert words in alert
        assert "blocked_address" not in alert


def test_the_bounds_of_freshness_move_with_the_estimate(web: Web, running: CrawlReports) -> None:
    """UX 2.9: they stand together, also on a page that has been open for an hour."""
    message = {"pages": 900, "visited_again": 800, "fresh": 0.9, "fresh_error": 0.01, "best": 0.85, "possible": 0.93}
    run = running.running_crawl("main")
    assert run is not None
    running.write_account("main", {**run.account, "freshness": message}, web.installation.clock.now_s())
    page = web.client(Role.VIEWER).get("/c/main").text
    for name, text in (("fresh", "90.0%"), ("best", "85.0%"), ("possible", "93.0%")):
        assert re.search(rf'data-live="freshness.{name}" data-as="percent:1">{text}<', page), name
    assert "</span> possible" in page


def test_monitor_speaks_portuguese(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main", headers={"accept-language": "pt-BR"}).text
    assert "Alertas" in page
    assert "Alerts" not in page


def test_a_missing_collection_is_reported(web: Web) -> None:
    client = web.client(Role.VIEWER)
    for path in ("", "/hosts", "/frontier", "/freshness", "/reports/outcomes", "/sql"):
        answer = client.get(f"/c/none{path}")
        assert answer.status_code == 404, path
        assert "none" in answer.text


def test_a_warning_is_set_aside_and_shown_again(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """UX 2.6: who set it aside, and when, stays on the page."""
    monkeypatch.setattr("teia.web.parts.collection_state.measure_disk", lambda *_: Disk(0.06, 0.05))
    client = web.client(Role.OPERATOR)
    (alert,) = client.get("/api/v1/c/main/status").json()["needs"]
    assert alert["kind"] == "disk"

    def send(deed: str, kind: str = "disk") -> int:
        sent = {"kind": kind, "about": "", "deed": deed, "csrf": web.csrf(client)}
        return client.post("/c/main/needs", data=sent).status_code

    assert send("dismiss", "early") == 404, "what is not there cannot be set aside"
    assert send("dismiss") == 303
    status, page = client.get("/api/v1/c/main/status").json(), client.get("/c/main").text
    assert status["needs"] == []
    (set_aside_alerts,) = status["dismissed"]
    assert set_aside_alerts["who"].startswith("operator")
    assert "1 dismissed" in page
    assert "dismissed by operator" in page
    assert client.get("/api/v1/c").json()["collections"][0]["needs"] == []
    monkeypatch.setattr("teia.web.parts.collection_state.measure_disk", lambda *_: Disk(0.02, 0.05))
    assert client.get("/api/v1/c/main/status").json()["needs"], "it is three times as bad"
    monkeypatch.setattr("teia.web.parts.collection_state.measure_disk", lambda *_: Disk(0.06, 0.05))
    assert (send("restore"), send("restore")) == (303, 404)
    assert client.get("/api/v1/c/main/status").json()["needs"]
    assert [each.what for _, each in web.installation.accounts.logged_actions(2)] == [
        "warning: restore",
        "warning: dismiss",
    ]
    assert "Dismiss" not in web.client(Role.VIEWER).get("/c/main").text


def test_the_monitor_of_a_node_shows_the_whole_cluster_and_says_what_is_of_this_node(web: Web) -> None:
    client = web.client(Role.VIEWER)
    assert client.get("/api/v1/c/main/status").json()["cluster"] is None, "one machine"
    view = three_nodes()
    dead = [replace(each, state="dead") if each.name == "node-b" else each for each in view.nodes]
    web.installation.cluster = FixedSource(replace(view, nodes=dead))
    whole = client.get("/api/v1/c/main/status").json()["cluster"]
    assert (whole["here"], whole["nodes"], whole["dead"], whole["cells"]) == ("node-a", 3, 1, 64)
    assert whole["urls_queued"] == sum(cell.queued or 0 for cell in view.cells)
    assert whole["cells_without_owner"] == 1
    page = client.get("/c/main").text
    assert "Whole cluster: 3 nodes" in page
    assert "This node:" in page
    assert "1 dead" in page
