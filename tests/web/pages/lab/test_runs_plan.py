"""Plans from the browser: pages as a file, as text or of an earlier run; counts and times to take away (P4)."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from teia.errors import StoreError
from teia.refresh.scenario import parse_scenario
from teia.store.root import open_root
from teia.web.access.roles import Role
from teia.web.background.lab.findings import digest_of
from teia.web.background.lab.forms import (
    EXAMPLE_PAGES,
    EXAMPLE_SERVERS,
    PlanFields,
    example,
    plan_request,
    reusable_runs,
)
from tests.waiting import until
from tests.web.conftest import Web
from tests.web.pages.lab.test_runs import bench, ended, question

PAGES = "page,server,weight,rate_per_day\nb,x,1,1\na,x,1,1\nstill,y,2,0\nquick,y,1,30\n"
SHORT = {"horizon_h": "1", "politeness_s": "1200"}


def send(web: Web, file: bytes | None = None, **fields: str) -> int:
    """Ask for a plan by its form; return the number of its run."""
    client = web.client(Role.OPERATOR)
    sent = {"csrf": web.csrf(client), **SHORT, **fields}
    answer = client.post("/lab/plan", data=sent, files={"file": ("pages.csv", file or b"", "text/csv")})
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].rpartition("/")[2])


def test_a_file_becomes_a_plan_that_its_command_gives_again(web: Web, tmp_path: Path) -> None:
    run = ended(web, send(web, PAGES.encode()))
    assert (run.state, run.message, run.files) == ("done", "", ["plan.csv", "scenario.csv"])
    viewer = web.client(Role.VIEWER)
    page, twin = viewer.get(f"/lab/runs/{run.number}"), viewer.get(f"/api/v1/lab/runs/{run.number}").json()
    report = twin["report"]
    assert (report["pages"], report["servers"], report["visits"]) == (4, 2, 6)
    assert f"psp plans {report['visits']} visits" in page.text
    assert f"{report['staleness']:.1%}" in page.text or f"{report['staleness']:.2%}" in page.text
    assert "1 of 4 pages is never visited." in page.text
    for each in report["by_rate"]:
        assert f"{each['staleness']:.5f}" in page.text
    assert sum(each["pages"] * each["visits_per_page"] for each in report["by_rate"]) == pytest.approx(6)
    given, planned = (viewer.get(f"/lab/runs/{run.number}/files/{name}").text for name in ("scenario.csv", "plan.csv"))
    assert given == PAGES
    assert planned.splitlines()[0] == "page,count,times"
    (tmp_path / "scenario.csv").write_text(given)
    words = shlex.split(run.command)[1:]
    again = subprocess.run([sys.executable, "-m", "teia", *words], capture_output=True, check=True, cwd=tmp_path)
    assert digest_of("plan", json.loads(again.stdout.splitlines()[-1])) == twin["digest"]
    assert (tmp_path / "plan.csv").read_text() == planned
    chart = viewer.get(f"/lab/runs/{run.number}/svg")
    assert chart.text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    form = web.client(Role.OPERATOR).get(f"/lab/plan?again={run.number}").text
    assert f'<option value="{run.number}" selected>' in form, "its pages can be planned for again"
    second = ended(web, send(web, pages_of=str(run.number), policy="edf"))
    both = viewer.get(f"/api/v1/lab/compare?run={run.number}&run={second.number}").json()
    assert {row["name"] for row in both["asked"]} == {"pages_of", "policy"}
    assert {row["name"]: row["values"] for row in both["rows"]}["visits"] == [6, 6]


WRONG = (
    ("scenario", "", "choose a file, or enter pages here"),
    ("scenario", "page,server\n1,2\n", "the header is missing weight, rate_per_day"),
    ("scenario", PAGES + "z,x,1,often\n", "line 6: rate_per_day is 'often', not a number >= 0"),
    ("scenario", PAGES + "b,x,1,1\n<b>,,1,1\n", "duplicate page b (and 1 more invalid rows)"),
    ("pages_of", "99", "must be empty, example, or the number of a stored run"),
    ("pages_of", "../1", "must be empty, example, or the number of a stored run"),
    ("policy", "best", "must be one of psp"),
    ("horizon_h", "-1", "must be a number from 0.1 to 8,760"),
    ("politeness_s", "0", ""),
    ("budget", "many", "must be a whole number from 0 to 400,000"),
)


def test_what_is_wrong_is_reported_beside_its_field_and_nothing_typed_is_lost(web: Web) -> None:
    client, headers = web.client(Role.OPERATOR), web.token(Role.OPERATOR)
    for field, typed, says in WRONG:
        sent = {"scenario": PAGES, **SHORT, field: typed}
        at = field if says else "budget"
        answer = client.post("/lab/plan", data={**sent, "csrf": web.csrf(client)})
        assert answer.status_code == 400, (field, typed)
        fault = re.search(rf'id="{at}-fault">(.*?)</span>', answer.text)
        assert fault is not None
        assert (says or "is required where servers have no delay") in unescape(fault[1])
        if field == "scenario":
            kept = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
            assert kept is not None
            assert unescape(kept[1]) == typed
        by_api = client.post("/api/v1/lab/plan", json=sent, headers=headers)
        assert (by_api.status_code, by_api.json()["field"]) == (400, at)
    assert web.installation.lab.runs() == []


def test_a_file_that_is_no_text_or_too_long_to_show_is_requested_again(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    sent = {"csrf": web.csrf(client), **SHORT}
    for file, says in (
        (b"\xff\xfe\x00", "the file is not UTF-8 text"),
        (PAGES.encode() + b"p,x,1,often\n" * 3_000, "choose the file again"),
    ):
        answer = client.post("/lab/plan", data=sent, files={"file": ("pages.csv", file, "text/csv")})
        assert answer.status_code == 400
        assert says in answer.text
        assert len(answer.content) < 100_000
    without = client.post("/lab/plan", data=SHORT, files={"file": ("pages.csv", PAGES.encode(), "text/csv")})
    assert without.status_code == 403, "a form without its token is not taken, a file or not"
    assert web.installation.lab.runs() == []


def test_pages_that_were_typed_go_before_the_example_that_the_form_offers(web: Web) -> None:
    for choice in ("", "example"):
        asked, wrong = plan_request(PlanFields(scenario=PAGES, pages_of=choice, **SHORT), web.installation.lab.stored)
        assert asked is not None, wrong
        assert (asked.files, asked.parameters["pages_of"]) == ({"scenario.csv": PAGES}, "")


def test_the_pages_of_a_plan_that_never_began_can_be_planned_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled while it waited, at the end of the server, and after its death; one that was not written never was."""
    root = open_root(tmp_path / "data", create=True)
    with bench(root) as lab:
        first = lab.submit(question(), "ana")
        until(lambda: lab.progress(first.number).state == "running")
        asked = plan_request(PlanFields(scenario=PAGES, **SHORT), lab.stored)[0]
        assert asked is not None
        cancelled, left, killed = (lab.submit(asked, "ana").number for _ in range(3))
        assert lab.cancel(cancelled).files == ["scenario.csv"]
        lab._queue.pop()  # as if nobody had been there to end it
        monkeypatch.setattr(lab.stored, "write_inputs", full_disk)
        with pytest.raises(StoreError, match="no room"):
            lab.submit(asked, "ana")
        assert {run.number for run in lab.runs()} == {first.number, cancelled, left, killed}
    with bench(root) as again:
        assert [again.run(number).state for number in (left, killed)] == ["interrupted"] * 2
        assert reusable_runs(again.stored) == [killed, left, cancelled]
        assert again.stored.file(killed, "scenario.csv").decode() == PAGES


def full_disk(*_: object) -> None:
    raise StoreError("no room")


def test_more_visits_than_a_file_can_list_are_refused(web: Web) -> None:
    fields = PlanFields(scenario=PAGES, horizon_h="8760", politeness_s="0.1")
    question, wrong = plan_request(fields, web.installation.lab.stored)
    assert question is None
    assert [each.field for each in wrong] == ["horizon_h"]
    bounded = plan_request(fields.model_copy(update={"budget": "1000"}), web.installation.lab.stored)[0]
    assert bounded is not None
    assert bounded.command.startswith("teia lab plan --scenario scenario.csv --out plan.csv --horizon-h 8760 ")


def test_the_example_is_there_and_the_same_every_time(web: Web) -> None:
    read = parse_scenario(example(), "example")
    assert (len(read.pages), len(read.servers)) == (EXAMPLE_PAGES, EXAMPLE_SERVERS)
    assert "an example: 240 pages on 6 servers" in web.client(Role.OPERATOR).get("/lab/plan").text
    question = plan_request(PlanFields(pages_of="example"), web.installation.lab.stored)[0]
    assert question is not None
    assert question.files == {"scenario.csv": example()}
