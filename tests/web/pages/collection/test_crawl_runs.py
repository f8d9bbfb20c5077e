"""The pages of runs, and their JSON."""

from __future__ import annotations

from teia.collections.control_file import CrawlReports
from teia.web.access.roles import Role
from tests.web.conftest import Web

HOUR_S = 3_600.0


def record_run(web: Web, began_s: float | None = None) -> None:
    """Record a run of two hours that has ended; by default, all requests of the log are in it."""
    began_s = web.installation.clock.now_s() - HOUR_S if began_s is None else began_s
    with CrawlReports(web.installation.root.control) as reports:
        reports.note_run("main", reports.begin_run("main", began_s), began_s + 2 * HOUR_S, "finished")


def test_runs_are_listed_with_their_changes_and_opened_with_their_log(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    assert "No runs recorded yet." in client.get("/c/main/runs").text
    record_run(web)
    page, twin = client.get("/c/main/runs").text, client.get("/api/v1/c/main/runs").json()
    (run,) = twin["runs"]
    assert (run["number"], run["state"], run["seconds"], run["requests"], run["new"]) == (1, "finished", 7_200.0, 5, 4)
    assert "Run 1</a>" in page
    assert "Run again" in page
    log = client.get("/c/main/runs/1").text
    assert "fetched for the first time" in log
    assert log.count('class="url"') == 5, "with robots.txt"
    new = client.get("/api/v1/c/main/runs/1?part=new").json()
    assert len(new["detail"]["rows"]) == 4
    assert "None in this run." in client.get("/c/main/runs/1?part=gone").text


def test_an_unknown_run_is_not_found_and_viewers_cannot_run_again(web: Web) -> None:
    record_run(web)
    client = web.client(Role.VIEWER)
    assert client.get("/api/v1/c/main/runs/9").status_code == 404
    assert "Run again" not in client.get("/c/main/runs").text


def test_a_later_run_counts_only_its_own_requests(web: Web) -> None:
    record_run(web)
    record_run(web, web.installation.clock.now_s())
    second, first = web.client(Role.VIEWER).get("/api/v1/c/main/runs").json()["runs"]
    assert (second["requests"], second["new"], first["requests"]) == (0, 0, 5), "with robots.txt"
    assert "Changes by run" in web.client(Role.VIEWER).get("/c/main/runs").text
