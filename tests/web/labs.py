"""Runs of the lab that are there already, with reports made by the lab's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from teia.clock import WallClock
from teia.lab.plan import plan_file
from teia.lab.simulate.command import SimulationRequest, compare, make_crawlers
from teia.refresh.scenario import draw_world
from teia.web.background.lab.findings import digest_of, finding_of
from teia.web.background.lab.forms import (
    FILES_FOLDER,
    SCENARIO,
    TIMETABLE,
    PlanFields,
    RunRequest,
    SimulateFields,
    plan_request,
    simulate_request,
)
from teia.web.background.lab.runs import LabRun, StoredRuns

from .conftest import Web


def report_of(policies: Sequence[str] = ("psp", "edf"), days: float = 1.0, **world: Any) -> dict[str, Any]:
    """What `teia lab simulate --json` prints of a small world."""
    shape: dict[str, Any] = {"horizon_s": 86_400.0, "politeness_s": 5.0, "budget": None}
    shape |= {"crawlers": make_crawlers(2, "1")}
    made = draw_world(np.random.default_rng(1), pages=60, servers=3, **{**shape, **world})
    request = SimulationRequest(",".join(policies), days)
    return compare(made, [], request, WallClock(), lambda _: None) | {"rate_unit": "day", "theta": 1.0}


def queued(kept: StoredRuns, kind: str, question: RunRequest) -> LabRun:
    """A run that waits, as the form would have added it."""
    return kept.add(
        kind=kind,
        asked=question.parameters,
        words=list(question.arguments),
        command=question.command,
        seed=question.seed,
        by="ana",
        like=question.like,
        work=question.work,
    )


def keep(kept: StoredRuns, policies: Sequence[str] = ("psp", "edf"), days: float = 1.0) -> LabRun:
    """Keep a run with such a report."""
    fields = SimulateFields(pages="60", servers="3", policies=list(policies), days=str(days))
    question, wrong = simulate_request(fields)
    assert question is not None, wrong
    run = queued(kept, "simulate", question)
    report = report_of(policies, days)
    kept.save_report(run.number, report)
    said: dict[str, Any] = {"digest": digest_of("simulate", report), "finding": finding_of("simulate", report)}
    return kept.save(replace(run, state="done", began_s=run.queued_s, ended_s=run.queued_s + 2.0, **said))


def some_run(web: Web) -> int:
    """The number of a run that is kept; made if there is none."""
    found = web.installation.lab.stored.all()
    return found[0].number if found else keep(web.installation.lab.stored).number


def keep_plan(kept: StoredRuns) -> LabRun:
    """Keep a run of `teia lab plan` for the pages of the example, with its files."""
    question, wrong = plan_request(PlanFields(pages_of="example"), kept)
    assert question is not None, wrong
    run = queued(kept, "plan", question)
    kept.write_inputs(run.number, question.files)
    made = kept.folder(run.number) / FILES_FOLDER
    how: dict[str, Any] = {"horizon_s": 86_400.0, "politeness_s": 900.0, "budget": None, "clock": WallClock()}
    report = plan_file(made / SCENARIO, made / TIMETABLE, "psp", **how)
    kept.save_report(run.number, report)
    said: dict[str, Any] = {"digest": digest_of("plan", report), "finding": finding_of("plan", report)}
    files = kept.collect_files(run.number, made)
    return kept.save(replace(run, state="done", began_s=run.queued_s, ended_s=run.queued_s + 1.0, files=files, **said))
