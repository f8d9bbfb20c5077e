"""The lab's pages: runs as child processes, one at a time, bounded, kept and compared (UX 2.12)."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from teia.clock import WallClock
from teia.config.sections import POLICIES
from teia.lab.reproduce.catalogue import EXPERIMENTS as KNOWN_EXPERIMENTS
from teia.lib.message import Message
from teia.refresh.policies import POLICIES as KNOWN_POLICIES
from teia.store.root import Root, open_root
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.background.lab.findings import digest_of, simulation_warnings, what_if_warnings
from teia.web.background.lab.forms import (
    EXPERIMENTS,
    ReproduceFields,
    RunRequest,
    SimulateFields,
    WhatIfFields,
    reproduce_request,
    simulate_request,
    whatif_request,
)
from teia.web.background.lab.runs import LabRun, UnknownRun
from teia.web.background.lab.workbench import FullQueue, Workbench
from tests.crawler.fresh_crawls import fresh_web, quiet_world
from tests.waiting import until
from tests.web.conftest import Web
from tests.web.labs import keep, report_of, some_run

CLOCK = WallClock()
TINY = {"pages": "60", "servers": "3", "policies": ["psp", "edf"], "days": "2", "politeness_s": "5"}
SLEEP = "import time; time.sleep(600)"


def ended(web: Web, number: int) -> LabRun:
    until(lambda: web.installation.lab.run(number).is_over)
    return web.installation.lab.run(number)


def ask(web: Web, kind: str, **fields: Any) -> int:
    """Start a run by its form; return its number."""
    client = web.client(Role.OPERATOR)
    answer = client.post(f"/lab/{kind}", data={"csrf": web.csrf(client), **fields})
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].rpartition("/")[2])


# ---- what is asked --------------------------------------------------------------------------------------------------


def test_the_forms_offer_what_the_commands_know() -> None:
    assert tuple(KNOWN_POLICIES) == POLICIES
    assert {each.id: each.title for each in KNOWN_EXPERIMENTS.values()} == EXPERIMENTS
    assert all(isinstance(title, Message) for title in EXPERIMENTS.values()), "in other languages, too"


NONSENSE = (
    ("pages", "many", "must be a whole number from 1 to 2,000,000"),
    ("pages", "-5", "must be a whole number"),
    ("pages", "1.5", "must be a whole number"),
    ("pages", "99999999999999999999", "must be a whole number"),
    ("servers", "61", "must be at most the 60 pages"),
    ("theta", "nan", "must be a number from 0 to 10"),
    ("theta", "1e9", "must be a number"),
    ("rates", "zipf:", "must be uniform, or zipf:X"),
    ("weights", "__import__('os')", "must be uniform, or zipf:X"),
    ("rate_unit", "week", "must be one of day, hour"),
    ("process", "<script>", "must be one of poisson, mix"),
    ("policies", "best", "unknown policy"),
    ("seed", "٣", "must be a whole number"),
    ("days", "0", "must be a number from 0.01"),
)


def test_nonsense_is_reported_beside_its_field_and_nothing_typed_is_lost(web: Web) -> None:
    client, headers = web.client(Role.OPERATOR), web.token(Role.OPERATOR)
    for field, typed, says in NONSENSE:
        answer = client.post("/lab/simulate", data={**TINY, field: typed, "csrf": web.csrf(client)})
        assert answer.status_code == 400
        fault = re.search(rf'id="{field}-fault">(.*?)</span>', answer.text)
        assert fault is not None
        assert says in fault[1]
        assert "<script>" not in answer.text.partition("<main")[2]
        if field not in {"policies", "rate_unit", "process"}:
            shown = re.search(rf'id="{field}" name="{field}" value="(.*?)"', answer.text)
            assert shown is not None
            assert unescape(shown[1]) == typed
        sent = {**TINY, field: [typed] if field == "policies" else typed}
        by_api = client.post("/api/v1/lab/simulate", json=sent, headers=headers)
        assert (by_api.status_code, by_api.json()["field"]) == (400, field)
    assert web.installation.lab.runs() == []


def test_numbers_are_read_as_people_write_them() -> None:
    fields = SimulateFields(pages="20,000", servers="1.000", theta="0,5", policies=["edf"])
    question, wrong = simulate_request(fields)
    assert question is not None, wrong
    assert question.command.startswith("teia lab simulate --pages 20000 --servers 1000 --theta 0.5 ")


def test_what_would_take_longer_than_an_hour_is_refused() -> None:
    fields = SimulateFields(pages="1000000", servers="2000", policies=["psp", "edf"], days="365")
    question, wrong = simulate_request(fields)
    assert question is None
    assert wrong[0].field == "days"
    assert "exceed the maximum of a run" in wrong[0].message


def test_a_what_if_and_an_experiment_need_something_that_is_there(tmp_path: Path) -> None:
    assert whatif_request(WhatIfFields(), tmp_path, ["main"])[1][0].message == "choose one"
    assert whatif_request(WhatIfFields(collection="../x"), tmp_path, ["main"])[1][0].message == "must be one of main"
    wrong = whatif_request(WhatIfFields(collection="main", delay_s="-1", nodes="0", policy="x"), tmp_path, ["main"])[1]
    assert [each.field for each in wrong] == ["delay_s", "nodes", "policy"]
    assert [each.field for each in reproduce_request(ReproduceFields(id="P99"))[1]] == ["id"]
    good = whatif_request(WhatIfFields(collection="main", delay_s="3"), tmp_path, ["main"])[0]
    assert good is not None
    assert good.command == f"teia lab whatif --data {tmp_path} --collection main --delay 3 --days 14 --seed 1 --json"


# ---- real runs ------------------------------------------------------------------------------------------------------


def test_a_simulation_says_on_its_page_what_its_twin_says_and_its_command_gives_it_again(web: Web) -> None:
    run = ended(web, ask(web, "simulate", **TINY))
    assert (run.state, run.message) == ("done", "")
    viewer = web.client(Role.VIEWER)
    page, twin = viewer.get(f"/lab/runs/{run.number}"), viewer.get(f"/api/v1/lab/runs/{run.number}").json()
    assert page.status_code == 200
    for row in twin["report"]["policies"].values():
        assert f"{row['staleness']:.5f}" in page.text
        assert f"{row['visits']:,}" in page.text
    assert twin["digest"] in page.text
    assert run.command.replace("'", "&#39;") in page.text
    again = subprocess.run(
        [sys.executable, "-m", "teia", *shlex.split(run.command)[1:]], capture_output=True, check=True, cwd=Path.cwd()
    )
    assert digest_of("simulate", json.loads(again.stdout.splitlines()[-1])) == twin["digest"]
    best = min(twin["report"]["policies"], key=lambda name: twin["report"]["policies"][name]["staleness"])
    csv = viewer.get(f"/lab/runs/{run.number}/csv")
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.text.splitlines()[1].startswith(f"{best},{twin['report']['policies'][best]['staleness']}")
    svg = viewer.get(f"/lab/runs/{run.number}/svg")
    assert svg.headers["content-disposition"].startswith("attachment")
    assert svg.text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert best in svg.text
    assert 'class="wide"' in page.text
    assert 'class="narrow"' in page.text
    noted = [line for _, line in web.installation.accounts.logged_actions(5, None)]
    assert [(line.what, line.detail["run"]) for line in noted if "lab" in line.what] == [("start lab run", run.number)]
    shown = web.client(Role.OPERATOR).get(f"/lab/simulate?again={run.number}").text
    assert 'value="60"' in shown, "what was asked can be asked again, with changes"


@pytest.mark.heavy
def test_a_what_if_leads_to_the_form_with_its_value_filled_in(web: Web, tmp_path: Path) -> None:
    values = {"pages": 12, "hosts": 2, "seed": 3, "changes__fastest": 3.0, "text__paragraphs": 1}
    with fresh_web(quiet_world(**values), tmp_path / "kept", courtesy__delay_s=3_600.0) as kept:
        kept.run(4, 3_600.0)
    shutil.copytree(tmp_path / "kept" / "data" / "main", web.installation.root.path / "kept")
    config = web.installation.root.path / "kept" / "teia.toml"
    config.write_text(config.read_text().replace('name = "main"', 'name = "kept"'))
    run = ended(web, ask(web, "whatif", collection="kept", delay_s="1800", days="4"))
    assert (run.state, run.message) == ("done", "")
    report = web.installation.lab.stored.report(run.number)
    assert report is not None
    page = web.client(Role.OPERATOR).get(f"/lab/runs/{run.number}").text
    for side in ("as_is", "what_if"):
        assert f"{report[side]['fresh']['mean']:.1%}" in page
    assert "Not enough visits" in page, "few pages were visited again, and that is said"
    leads = re.search(r'href="(/c/kept/edit\?delay_s=1800[^"]*)#delay_s"', page)
    assert leads is not None
    form = web.client(Role.OPERATOR).get(leads[1]).text
    assert re.search(r'name="delay_s" value="1800"', form)
    assert "Apply" not in web.client(Role.VIEWER).get(f"/lab/runs/{run.number}").text
    assert web.installation.config("kept").courtesy.delay_s == 3_600.0, "nothing is saved yet"


@pytest.mark.heavy
def test_a_run_that_fails_says_why_in_the_commands_own_words(web: Web) -> None:
    run = ended(web, ask(web, "whatif", collection="main"))
    assert run.state == "failed"
    assert "no page was visited twice yet" in run.message
    page = web.client(Role.VIEWER).get(f"/lab/runs/{run.number}").text
    assert "no page was visited twice yet" in page
    assert web.client(Role.VIEWER).get(f"/lab/runs/{run.number}/csv").status_code == 404


@pytest.mark.heavy
def test_an_experiment_shows_the_published_numbers_beside_ours(web: Web) -> None:
    run = ended(web, ask(web, "reproduce", id="P7", quick="yes"))
    assert (run.state, run.message) == ("done", "")
    viewer = web.client(Role.VIEWER)
    page, report = viewer.get(f"/lab/runs/{run.number}"), web.installation.lab.stored.report(run.number)
    assert report is not None
    rows = report["experiments"][0]["tables"]["shares"]
    for row in rows:
        assert f"{row['published']:.4f}" in page.text
        assert f"{row['ours']:.4f}" in page.text
    assert run.digest == report["experiments"][0]["digest"], "what a researcher cites"
    assert run.digest in page.text
    assert len(page.content) <= 100_000
    assert "A quick run" in page.text
    assert set(run.files) == {
        "P7-gap-distributions.svg",
        "P7-gaps.csv",
        "P7-policies.csv",
        "P7-shares.csv",
        "REPORT.md",
    }
    table = viewer.get(f"/lab/runs/{run.number}/files/P7-shares.csv")
    assert table.text.splitlines()[0] == "process,published,ours,difference"
    for name in ("run.json", "..%2Frun.json", "%2Fetc%2Fpasswd", "report.json"):
        assert viewer.get(f"/lab/runs/{run.number}/files/{name}").status_code == 404
    kept = sorted(path.name for path in web.installation.lab.stored.folder(run.number).iterdir())
    assert kept == sorted([*run.files, "log", "report.json", "run.json"]), "and nothing else is left"


# ---- one at a time, bounded -----------------------------------------------------------------------------------------


@contextmanager
def bench(root: Root, program: str = SLEEP) -> Iterator[Workbench]:
    """A workbench with a program that stands for the command, and cannot be mistaken for one that works."""
    made = Workbench(root, CLOCK, [sys.executable, "-c", program])
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return open_root(tmp_path / "data", create=True)


def question(**fields: Any) -> RunRequest:
    found, wrong = simulate_request(SimulateFields(**{**TINY, **fields}))
    assert found is not None, wrong
    return found


def pids_in(folder: Path) -> list[int]:
    """The processes that work in a folder."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if (path / "cwd").readlink() == folder:
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def test_one_run_goes_at_a_time_of_low_priority_and_the_queue_is_bounded(root: Root) -> None:
    with bench(root) as lab:
        first, *waiting = (lab.submit(question(), "ana") for _ in range(3))
        until(lambda: len(pids_in(lab.stored.folder(first.number))) == 1)
        (pid,) = pids_in(lab.stored.folder(first.number))
        until(lambda: os.getpriority(os.PRIO_PROCESS, pid) >= 10)
        assert [lab.progress(each.number).ahead for each in waiting] == [1, 2]
        assert lab.progress(waiting[0].number).starts_in_s is None, "nothing like it was measured yet"
        for _ in range(limits.LAB_QUEUE - 2):
            lab.submit(question(), "ana")
        with pytest.raises(FullQueue, match="8 runs are already queued"):
            lab.submit(question(), "ana")
        assert lab.cancel(waiting[0].number).state == "cancelled"
        assert lab.progress(waiting[1].number).ahead == 1
        assert lab.cancel(first.number).state == "cancelled"
        assert pids_in(lab.stored.folder(first.number)) == []
        until(lambda: len(pids_in(lab.stored.folder(waiting[1].number))) == 1)
    assert pids_in(lab.stored.folder(waiting[1].number)) == [], "it ends with the server"
    assert {run.state for run in lab.stored.all()} == {"cancelled", "interrupted"}


def test_the_wait_is_what_runs_like_it_took(root: Root) -> None:
    with bench(root) as lab:
        keep(lab.stored)  # two seconds, of as much work
        like = lab.stored.get(1)
        first = lab.submit(replace(question(), work=3 * like.work), "ana")
        second = lab.submit(replace(question(), work=like.work), "ana")
        third = lab.submit(question(), "ana")
        until(lambda: lab.progress(first.number).left_s is not None)
        left_s = lab.progress(first.number).left_s
        assert left_s is not None
        assert 0 <= left_s <= 6
        starts_in_s = lab.progress(third.number).starts_in_s
        assert starts_in_s is not None
        assert 2 <= starts_in_s <= 8
        assert lab.progress(second.number).ahead == 1


def test_how_far_a_run_is_comes_from_what_it_says(root: Root) -> None:
    said = 'import sys, time; print(\'{"share": 0.25, "doing": "psp"}\', file=sys.stderr, flush=True); time.sleep(600)'
    with bench(root, said) as lab:
        run = lab.submit(question(), "ana")
        until(lambda: lab.progress(run.number).share == 0.25)
        now = lab.progress(run.number)
        assert now.doing == "psp"
        assert now.left_s == pytest.approx(3 * (now.seconds or 0.0), rel=0.01)


@pytest.mark.parametrize(
    ("program", "limit", "says"),
    [
        (SLEEP, ("LAB_S", 0.2), "stopped after"),
        (
            "x = b'x' * (600 << 20); import time; time.sleep(600)",
            ("LAB_MEMORY_BYTES", 256 << 20),
            "more memory than the 0.25 GiB",
        ),
        ("import sys; sys.exit('teia: the disk is made of cheese')", ("LAB_QUEUE", 8), "made of cheese"),
        ("print('no object')", ("LAB_QUEUE", 8), "exited with status 0 without a message"),
        ("print('x' * (64 << 20)); import time; time.sleep(600)", ("LAB_QUEUE", 8), "larger than a report can be"),
    ],
)
def test_a_run_has_its_limits(
    root: Root, program: str, limit: tuple[str, float], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"teia.web.limits.{limit[0]}", limit[1])
    with bench(root, program) as lab:
        run = lab.submit(question(), "ana")
        until(lambda: lab.run(run.number).is_over)
        found = lab.run(run.number)
        assert found.state == "failed"
        assert says in found.message
        assert not (lab.stored.folder(run.number) / "printed").exists()


# ---- kept -----------------------------------------------------------------------------------------------------------


def test_a_run_whose_server_was_killed_is_interrupted_and_the_others_are_as_they_were(root: Root) -> None:
    with bench(root) as lab:
        done = keep(lab.stored)
        going = lab.stored.save(replace(keep(lab.stored), state="running", ended_s=None))
    with bench(root) as again:
        assert again.run(going.number).state == "interrupted"
        assert again.run(done.number) == done
        assert again.stored.report(done.number) is not None
        assert again.submit(question(), "eva").number == going.number + 1


def test_two_servers_of_a_folder_do_not_share_the_workbench(root: Root) -> None:
    with bench(root) as first, bench(root) as second:
        run = first.submit(question(), "ana")
        until(lambda: first.progress(run.number).state == "running")
        until(lambda: second.run(run.number).state == "running")
        with pytest.raises(Exception, match="another server"):
            second.submit(question(), "ana")


def test_runs_are_kept_up_to_a_number_and_an_age(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.LAB_MAX_RUNS", 3)
    with bench(root) as lab:
        for _ in range(5):
            keep(lab.stored)
        lab.stored.prune()
        assert [run.number for run in lab.stored.all()] == [5, 4, 3]
        lab.stored.save(replace(lab.stored.get(4), ended_s=1.0))
        lab.stored.prune()
        assert [run.number for run in lab.stored.all()] == [5, 3]
        (lab.stored.folder(3) / "run.json").write_text('{"number": 3')
        assert [run.number for run in lab.runs()] == [5], "one that is damaged is left out"
        with pytest.raises(UnknownRun):
            lab.run(3)


# ---- who may what, and what is said ---------------------------------------------------------------------------------


def test_viewers_read_and_operators_start_and_cancel(web: Web) -> None:
    number = some_run(web)
    viewer, operator = web.client(Role.VIEWER), web.client(Role.OPERATOR)
    for kind in ("plan", "simulate", "whatif", "reproduce"):
        assert 'method="post" action="/lab/' not in viewer.get(f"/lab/{kind}").text
        assert f'method="post" action="/lab/{kind}"' in operator.get(f"/lab/{kind}").text
        assert viewer.post(f"/lab/{kind}", data={"csrf": web.csrf(viewer)}).status_code == 403
        assert web.client().get(f"/api/v1/lab/{kind}").status_code == 401
    assert f"/lab/runs/{number}" in viewer.get("/lab").text
    assert viewer.post(f"/lab/runs/{number}/cancel", data={"csrf": web.csrf(viewer)}).status_code == 403
    assert operator.get("/lab/runs/77").status_code == 404


@pytest.mark.heavy
def test_cancelling_is_written_down(web: Web) -> None:
    web.installation.lab._program = (sys.executable, "-c", SLEEP)
    client = web.client(Role.OPERATOR)
    number = ask(web, "simulate", **TINY)
    until(lambda: web.installation.lab.progress(number).state == "running")
    busy = client.get("/lab/reproduce").text
    assert "A lab run is using the machine; this one starts after it." in busy
    assert client.post(f"/lab/runs/{number}/cancel", data={"csrf": web.csrf(client)}).status_code == 303
    assert web.installation.lab.run(number).state == "cancelled"
    assert "Cancelled by a user." in client.get(f"/lab/runs/{number}").text
    assert web.installation.accounts.logged_actions(1, None)[0][1].what == "cancel lab run"


def test_runs_of_one_kind_are_compared(web: Web) -> None:
    kept = web.installation.lab.stored
    one, other = keep(kept, ("psp", "edf")), keep(kept, ("edf", "index"), 2.0)
    viewer, address = web.client(Role.VIEWER), f"/lab/compare?run={one.number}&run={other.number}"
    twin = viewer.get(f"/api/v1{address}").json()
    assert {row["name"]: row["values"] for row in twin["asked"]} == {
        "policies": ["psp edf", "edf index"],
        "days": ["1.0", "2.0"],
    }
    rows = {row["name"]: row["values"] for row in twin["rows"]}
    first, second = kept.report(one.number), kept.report(other.number)
    assert first is not None
    assert second is not None
    assert rows["edf staleness"] == [report["policies"]["edf"]["staleness"] for report in (first, second)]
    assert rows["psp staleness"] == [first["policies"]["psp"]["staleness"], None]
    assert f"{rows['edf visits'][0]:,}" in viewer.get(address).text
    kept.save(replace(other, kind="whatif"))
    assert "of one kind" in viewer.get(address).text
    assert viewer.get(f"/lab/compare?run={one.number}").status_code == 400
    assert viewer.get(f"/lab/compare?run={one.number}&run=99").status_code == 404


def test_a_researcher_is_warned_of_units_rounds_and_loose_bounds() -> None:
    """UX 1, the researcher."""
    one_day = report_of()
    assert {"unit", "few_rounds"} <= {each.code for each in simulation_warnings(one_day)}
    long = report_of(days=8.0)
    assert "few_rounds" not in {each.code for each in simulation_warnings(long)}
    loose = {**long, "bounds": {"wp": 0.5 * min(row["staleness"] for row in long["policies"].values())}}
    assert "loose_bound" in {each.code for each in simulation_warnings(loose)}
    assert "budget" in {each.code for each in simulation_warnings({**long, "budget": 10**9})}
    side = {"terms": {}, "fresh": {"mean": 0.6, "low": 0.5, "high": 0.7}, "bound": 0.8}
    unsure = {"visited_again": 3, "prior_share": 0.9, "gain": {"mean": 0.0, "low": -0.1, "high": 0.1}, "as_is": side}
    codes = [each.code for each in what_if_warnings(unsure)]
    assert codes == ["few_visits", "prior", "unsure", "far_from_bound"]


def test_an_empty_lab_says_what_can_be_done(web: Web) -> None:
    assert "No runs yet." in web.client(Role.VIEWER).get("/lab").text
    assert web.client(Role.VIEWER).get("/api/v1/lab").json()["runs"] == []
    assert not web.installation.lab.stored.path.exists(), "looking makes nothing"
