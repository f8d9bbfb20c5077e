"""`teia lab reproduce ALL --quick`: every experiment once, in one report, and what each of them shows in small."""

from __future__ import annotations

import hashlib
import json
import math
from html import escape
from pathlib import Path

import pytest

from teia.clock import VirtualClock, WallClock
from teia.cluster.nats.servers import find_server
from teia.errors import MissingComponent
from teia.lab.reproduce.catalogue import ALL, EXPERIMENTS
from teia.lab.reproduce.registry import Experiment, ExperimentInput, Results, Table, experiment, number_text
from teia.lab.reproduce.runner import Reproduction, reproduce, summary
from teia.lab.server.squid import find_squid
from tests.conftest import missing

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

CHEAP = ("P7", "A6", "F2")
WITHOUT_PUBLISHED = {"A2", "A16", "F2"}
"""Experiments whose papers print no numbers; ours stand beside theory, a model, or one process."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    try:
        find_server()
        find_squid()
    except MissingComponent as error:
        missing(str(error))
    out = tmp_path_factory.mktemp("report")
    return reproduce([ALL], seed=1, quick=True, out=out, clock=WallClock(), progress=print)


def rows(made: Reproduction, mission_id: str, name: str) -> dict[tuple[str, ...], tuple[float, float | None]]:
    """Return a table as our number and the published one, by labels."""
    (done,) = (each for each in made.finished if each.experiment.id == mission_id)
    (table,) = (each for each in done.results if each.name == name and isinstance(each, Table))
    return {row.labels: (row.ours, row.other) for row in table.rows}


# -- the report --------------------------------------------------------------------------------------------------------


def test_every_experiment_is_in_the_report_and_none_failed_or_was_cut(made: Reproduction) -> None:
    assert made.heading.failures == ()
    assert [each.experiment.id for each in made.finished] == list(EXPERIMENTS)
    assert made.heading.not_run == ()
    assert [each.cut for each in made.finished] == [""] * len(EXPERIMENTS)
    text = made.report.read_text("utf-8")
    assert "size: quick: smaller than in the paper" in text
    assert "cut short" not in text.lower()


def test_both_formats_have_every_number_of_every_experiment(made: Reproduction) -> None:
    """Markdown refers to files, which exist; HTML holds the figures and needs no other file."""
    markdown, html = made.report.read_text("utf-8"), made.report.with_suffix(".html").read_text("utf-8")
    for done in made.finished:
        assert f"## {done.experiment.id}: {done.experiment.title}" in markdown
        assert f'<h2 id="{done.experiment.id}">' in html
        assert done.results
        for result in done.results:
            assert f"({done.file_name(result)})" in markdown
            assert (made.report.parent / done.file_name(result)).stat().st_size > 0
            assert f"### {result.title}" in markdown
            assert f"<h3>{escape(result.title)}</h3>" in html
            if isinstance(result, Table):
                assert result.rows, f"{done.experiment.id}: {result.name} has no row"
                assert all(f'<td class="n">{number_text(row.ours)}</td>' in html for row in result.rows)
                assert all(f"| {number_text(row.ours)} |" in markdown for row in result.rows)
    assert "<svg" in html
    assert "src=" not in html
    assert summary(made)["html"] == str(made.report.with_suffix(".html"))


def test_every_digest_is_of_data_and_of_other_data_than_the_others(made: Reproduction) -> None:
    digests = [each.digest for each in made.finished]
    assert len(set(digests)) == len(EXPERIMENTS)
    assert hashlib.sha256(b"").hexdigest() not in digests
    texts = made.report.read_text("utf-8"), made.report.with_suffix(".html").read_text("utf-8")
    assert all(digest in text for digest in digests for text in texts)
    described = json.loads(json.dumps(summary(made), allow_nan=False))["experiments"]
    assert [each["digest"] for each in described] == digests


def test_the_same_seed_gives_the_same_digests(made: Reproduction, tmp_path: Path) -> None:
    again = reproduce(CHEAP, seed=1, quick=True, out=tmp_path, clock=VirtualClock(), progress=print)
    before = {each.experiment.id: each.digest for each in made.finished}
    assert {each.experiment.id: each.digest for each in again.finished} == {name: before[name] for name in CHEAP}


def test_published_figures_stand_beside_ours(made: Reproduction) -> None:
    for done in made.finished:
        tables = [each for each in done.results if isinstance(each, Table)]
        published = [row for table in tables if table.compared_with == "published" for row in table.rows]
        beside = [row.other for row in published if row.other is not None]
        assert beside or done.experiment.id in WITHOUT_PUBLISHED, done.experiment.id
        assert all(math.isfinite(row.ours) for table in tables for row in table.rows)


def test_an_interrupted_run_says_in_both_formats_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "F2", _interrupted())
    with pytest.raises(KeyboardInterrupt):
        reproduce(["A6", "F2", "P7"], seed=1, quick=True, out=tmp_path, clock=VirtualClock(), progress=print)
    for name in ("REPORT.md", "REPORT.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert "cut short: F2, P7 did not run" in text
        assert "A6: The queue of the Sydney strategy" in text


def _interrupted() -> Experiment:
    @experiment("F2", title="interrupted", paper="none")
    def body(_run: ExperimentInput) -> Results:
        raise KeyboardInterrupt
        yield  # a generator, like every body

    return body


# -- what each experiment shows in small -------------------------------------------------------------------------------


def test_p6_has_the_papers_order(made: Reproduction) -> None:
    observed = rows(made, "P6", "observations")
    assert all(ours > 0 for labels, (ours, _) in observed.items() if labels[3] != "PSP over InfCrawlers")
    assert {row[0] for row in rows(made, "P6", "printed-budget")} == {"hour", "day"}
    (done,) = (each for each in made.finished if each.experiment.id == "P6")
    names = {"figure1", "figure1-hour", "figure2-day", "observations", "weights", "many-days", "transport"}
    assert {each.name for each in done.results} >= names


def test_a12_compares_strategies_by_a_model_and_by_real_nodes(made: Reproduction) -> None:
    """Under the paper's conditions rtt fetches most; real nodes in three regions fetch nothing twice."""
    by_model = {labels[1]: pair for labels, pair in rows(made, "A12", "model").items() if labels[0] == "pages"}
    assert max(by_model, key=lambda name: by_model[name]) == "rtt"
    assert by_model["rtt"][1] == 121.83
    described = rows(made, "A12", "described")
    assert all(described["pages", strategy, "mean"][0] > 0 for strategy in ("hash", "geo"))
    assert [ours for ours, _ in rows(made, "A12", "repeated").values()] == [0, 0]


def test_a16_finds_with_real_nodes_what_the_model_says_of_exchange(made: Reproduction) -> None:
    """A3 as well: links reach the owner's node, all pages are found, and none is fetched twice."""
    found = rows(made, "A16", "nodes")
    assert found[("coverage",)] == (1, 1)
    assert found[("overlap",)] == (0, 0)
    assert found[("messages to NATS per page",)][0] > 0


def test_c7_renews_copies_from_the_cache(made: Reproduction) -> None:
    """With real Squids: under the paper's conditions most requests of users lead to an update."""
    of_paper = rows(made, "C7", "table-3-conditions")
    papers = {labels[0]: ours for labels, (ours, _) in of_paper.items() if labels[1] == "share"}
    assert max(papers, key=lambda name: papers[name]) == "updates performed"
    ours = rows(made, "C7", "table-3")
    assert ours["user requests", "number"][0] > 0
    assert ours["updates discarded", "number"][0] > 0
    assert rows(made, "C7", "gain")[("requests to servers",)][0] > 0


def test_c8_collects_more_with_more_collectors(made: Reproduction) -> None:
    few, many = (ours for ours, _ in rows(made, "C8", "rates").values())
    assert many > 2 * few
    alone, two = (rate for rate, _ in rows(made, "C8", "nodes").values())
    assert two > 1.5 * alone > 0
    ours, published = rows(made, "C8", "latencies")["25", "scheduler, s"]
    assert published == 0.02
    assert 0 < ours < 0.1


def test_t8_tells_the_failures_apart(made: Reproduction) -> None:
    ours = {labels[0]: share for labels, (share, _) in rows(made, "T8", "statuses").items()}
    assert ours["200"] == pytest.approx(85, abs=10)
    assert sum(ours.values()) == pytest.approx(100)
    assert ours["302"] > 0 < ours["-11"]
    (done,) = (each for each in made.finished if each.experiment.id == "T8")
    assert all(each.varies for each in done.results)


@pytest.mark.parametrize(
    ("mission_id", "names"),
    [
        ("C5", {"size", "servers", "errors", "references", "references-per-url", "rates"}),
        ("T8", {"statuses", "servers", "over-time", "rates"}),
        ("F9", {"types", "space", "times"}),
    ],
)
def test_every_table_of_a_crawl_has_numbers_of_ours(made: Reproduction, mission_id: str, names: set[str]) -> None:
    (done,) = (each for each in made.finished if each.experiment.id == mission_id)
    assert {each.name for each in done.results} == names
    assert all(any(row.ours for row in each.rows) for each in done.results if isinstance(each, Table))


def test_f11_runs_the_papers_searches(made: Reproduction) -> None:
    times = {labels[1]: pair for labels, pair in rows(made, "F11", "times").items()}
    assert times['`"quero café"`'][1] == 17.86
    assert all(0 < ours < 60 for ours, _ in times.values())
    (done,) = (each for each in made.finished if each.experiment.id == "F11")
    assert [each.name for each in done.results] == ["times", "again", "found", "kinds", "costs"]
    found = {labels[0]: ours for labels, (ours, _) in rows(made, "F11", "found").items()}
    assert found["`café carro bolo`"] > found["`+informatica +banco +dados`"] > 0
    costs = {labels[0]: other for labels, (_, other) in rows(made, "F11", "costs").items()}
    assert costs["seconds to index 1,000 pages"] == pytest.approx(1000 * 6333.98 / 609_212)
    unpublished = rows(made, "F11", "found") | rows(made, "F11", "kinds")
    assert {other for _, other in unpublished.values()} == {None}, "what the paper does not print stays empty"
