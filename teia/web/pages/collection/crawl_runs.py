"""Runs of a collection: the list of all, and one with its changes and its log."""

from __future__ import annotations

from dataclasses import dataclass

from teia.clock import iso_utc
from teia.views.runs import RunDetail, RunPart, RunSummary, recorded_runs, run_detail, run_summaries
from teia.web.access.roles import Role
from teia.web.background.cache import CachedAnswer
from teia.web.parts.collection_state import account_of
from teia.web.server.installation import Installation
from teia.web.server.json_routes import InstallationDep, PageRoutes

FRESH_S = 10.0


@dataclass(frozen=True, slots=True)
class RunsView:
    """The runs of a collection, newest first, as counted at `counted`; `urls_queued` wait for the next."""

    runs: list[RunSummary]
    counted: str
    state: str
    is_running: bool
    urls_queued: int


@dataclass(frozen=True, slots=True)
class OneRunView:
    """One run with a part of its requests; `before` and `after` are the numbers of its neighbours."""

    detail: RunDetail
    before: int | None
    after: int | None
    state: str
    is_running: bool
    urls_queued: int
    counted: str


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/runs", "runs.html", Role.VIEWER)(runs)
    pages.page("/c/{collection}/runs/{run}", "run.html", Role.VIEWER)(one_run)


def runs(installation: InstallationDep, collection: str) -> RunsView:
    """Return the runs of a collection: duration, size, and changes against the run before."""
    account, running = account_of(installation, collection)

    def make() -> list[RunSummary]:
        return run_summaries(installation.root, collection, installation.clock.now_s())

    found: CachedAnswer[list[RunSummary]] = installation.cache.get(
        ("runs", collection), make, FRESH_S, installation.patience_s(collection), _stamp(installation, collection)
    )
    queued = int(account["urls_queued"])
    return RunsView(found.value, iso_utc(found.time_s), account["state"], running is not None, queued)


def one_run(installation: InstallationDep, collection: str, run: int, part: RunPart = RunPart.ALL) -> OneRunView:
    """Return one run: its changes against the run before, and its log."""
    account, running = account_of(installation, collection)

    def make() -> RunDetail:
        return run_detail(installation.root, collection, run, installation.clock.now_s(), part)

    found: CachedAnswer[RunDetail] = installation.cache.get(
        ("run", collection, run, part), make, FRESH_S, installation.patience_s(collection),
        _stamp(installation, collection),
    )  # fmt: skip
    numbers = [each.number for each in recorded_runs(installation.root, collection)]
    return OneRunView(
        detail=found.value,
        before=max((each for each in numbers if each < run), default=None),
        after=min((each for each in numbers if each > run), default=None),
        state=account["state"],
        is_running=running is not None,
        urls_queued=int(account["urls_queued"]),
        counted=iso_utc(found.time_s),
    )


def _stamp(installation: Installation, collection: str) -> object:
    """Return a value that changes when a run begins or ends."""
    last = next(iter(recorded_runs(installation.root, collection, 1)), None)
    return None if last is None else (last.number, last.ended_s)
