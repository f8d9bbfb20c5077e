from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.errors import LabError, UsageError
from teia.lab.reproduce.catalogue import EXPERIMENTS, choose
from teia.lab.reproduce.registry import (
    IDS,
    ExperimentInput,
    Figure,
    PlotLine,
    ResultRow,
    Results,
    Table,
    compute_digest,
    experiment,
)
from teia.lab.reproduce.report import Finished, Heading, render_html, render_markdown, write_report
from teia.lab.reproduce.runner import Reproduction, reproduce, summary
from teia.version import __version__

PUBLISHED_SHARES = {"Poisson": 0.6, "Pareto": 0.3, "quasi-deterministic": 0.1}
MIX = "Wolf's mix"


@pytest.fixture(scope="module")
def p7(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    out = tmp_path_factory.mktemp("p7")
    return reproduce(["P7"], seed=1, quick=True, out=out, clock=VirtualClock(1_800_000_000), progress=print)


@experiment("T8", title="a drawn line", paper="none")
def two_numbers(run: ExperimentInput) -> Results:
    drawn = float(run.random(1).random())
    yield Table("pair", "Two numbers", ("which",), (ResultRow(("known",), drawn, 0.5), ResultRow(("unknown",), 2.0)))
    yield Figure(
        "line", "A line", "x", "y", (PlotLine("ours", (0, 1), (0, drawn)), PlotLine("theirs", (0, 1), (0, 0.5), False))
    )


def finished(seed: int = 1) -> Finished:
    return Finished(two_numbers, tuple(two_numbers.body(ExperimentInput(seed, True, Path(), print))), 0.25)


def write(out: Path, seed: int = 1) -> str:
    out.mkdir(exist_ok=True)
    heading = Heading("teia lab reproduce T8", seed, quick=True, date_s=1_800_000_000)
    return write_report(out, heading, [finished(seed)]).read_text()


def test_report_says_how_it_was_made(tmp_path: Path) -> None:
    report = write(tmp_path)
    for log_lines in (
        "`teia lab reproduce T8`",
        "seed: 1",
        "2027-01-15T08:00:00.000000Z",
        f"teia {__version__}",
        finished().digest,
    ):
        assert log_lines in report


def test_unpublished_number_stays_empty(tmp_path: Path) -> None:
    write(tmp_path)
    with (tmp_path / "T8-pair.csv").open(newline="") as file:
        known, unknown = csv.DictReader(file)
    assert float(known["difference"]) == pytest.approx(float(known["ours"]) - 0.5, abs=1e-5)
    assert (unknown["published"], unknown["ours"], unknown["difference"]) == ("", "2", "")


def test_report_names_files_that_exist(tmp_path: Path) -> None:
    report = write(tmp_path)
    assert "(T8-pair.csv)" in report
    assert "(T8-line.svg)" in report
    assert {path.name for path in tmp_path.iterdir()} == {"REPORT.md", "T8-pair.csv", "T8-line.svg"}


def test_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "one") == write(tmp_path / "two")
    for name in ("T8-pair.csv", "T8-line.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_figure_is_drawn_once_however_often_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: the report is written after each experiment, in two formats, and each time all figures were drawn anew."""
    drawn: list[str] = []

    def draw(figure: Figure) -> str:
        drawn.append(figure.name)
        return "<svg></svg>"

    monkeypatch.setattr("teia.lab.reproduce.report.render_svg", draw)
    done, heading = finished(), Heading("teia lab reproduce T8", 1, quick=True, date_s=1_800_000_000)
    for _ in range(3):
        write_report(tmp_path, heading, [done])
        assert "<figure><svg></svg></figure>" in render_html(heading, [done])
    assert drawn == ["line"]


def test_other_seed_has_another_digest() -> None:
    assert finished(1).digest == finished(1).digest != finished(2).digest


def test_digest_sees_every_number() -> None:
    one = Table("t", "T", ("a",), (ResultRow(("x",), 1.0, 2.0),))
    other = Table("t", "T", ("a",), (ResultRow(("x",), 1.0, 3.0),))
    assert compute_digest([one]) != compute_digest([other])


def test_there_is_no_digest_of_nothing() -> None:
    """Seen: C7, C8 and F9, whose results all vary, showed the SHA-256 of no bytes as the digest of their data."""
    varying = Table("t", "T", ("a",), (ResultRow(("x",), 1.0),), varies=True)
    with pytest.raises(ValueError, match="no data"):
        compute_digest([varying])
    assert compute_digest([varying], ["a world"]) == compute_digest([], ["a world"]) != compute_digest([], ["another"])


@pytest.mark.parametrize("name", ["A12", "C5", "C7", "C8", "T8", "F9"])
def test_experiment_on_a_real_crawl_has_the_digest_of_what_it_was_given(name: str) -> None:
    """Seen: C5 and T8 showed different digests for equal runs, because what a crawl comes to depends on the moment."""
    input_lines = EXPERIMENTS[name].input_lines
    assert input_lines is not None
    one, two, other = (list(input_lines(ExperimentInput(seed, True, Path(), print))) for seed in (1, 1, 2))
    assert compute_digest([], one) == compute_digest([], two) != compute_digest([], other)
    assert len(one) > 100


def test_report_says_what_the_digest_is_of() -> None:
    table, varying = (Table(name, "T", ("a",), (ResultRow(("x",), 1.0),), varies=name == "v") for name in "tv")
    for results, log_lines in (((table, varying), "and of t"), ((varying,), "all its measurements vary")):
        done = Finished(two_numbers, results, 0.1, ("a world",))
        assert log_lines in done.digest_scope
        report = render_markdown(Heading("teia", 1, quick=True, date_s=0.0), [done])
        assert f"Digest of {done.digest_scope}: `{done.digest}`." in report
    assert finished().digest_scope == "its data"


def test_number_that_is_none_cannot_enter_a_table() -> None:
    with pytest.raises(ValueError, match="finite"):
        ResultRow(("x",), float("nan"))


def test_experiment_needs_an_id_of_the_mission() -> None:
    with pytest.raises(ValueError, match="P10"):
        experiment("P10", title="", paper="")


def test_unknown_id_lists_what_there_is_and_what_is_missing() -> None:
    with pytest.raises(UsageError) as refused:
        choose(["P7", "Z9"])
    assert "Z9 is not an ID" in str(refused.value)
    assert "known: P6 P7" in str(refused.value)
    without = str(refused.value).rpartition(": ")[2].split()
    assert set(without) == set(IDS) - set(EXPERIMENTS)


def test_id_without_experiment_says_so() -> None:
    with pytest.raises(UsageError, match="A11 has no experiment yet"):
        choose(["a11"])


def test_ids_are_taken_once_and_in_either_case() -> None:
    assert [each.id for each in choose(["p7", "P7"])] == ["P7"]


def test_p7_draws_the_published_shares(p7: Reproduction) -> None:
    shares = summary(p7)["experiments"][0]["tables"]["shares"]
    assert {row["process"]: row["published"] for row in shares} == PUBLISHED_SHARES
    for row in shares:
        assert row["ours"] == pytest.approx(row["published"], abs=0.03)
    gaps = summary(p7)["experiments"][0]["tables"]["gaps"]
    medians = [(row["ours"], row["theory"]) for row in gaps if row["measure"] == "median"]
    assert len(medians) == 3
    assert all(ours == pytest.approx(theory, rel=0.05) for ours, theory in medians)


def test_p7_compares_the_policies_under_the_mix(p7: Reproduction) -> None:
    """Wolf's policy is below both of Cho's where rates are per day; the mix is drawn, and is not Poisson."""
    rows = summary(p7)["experiments"][0]["tables"]["policies"]
    stale = {(row["rates per"], row["P, s"], row["policy"], row["changes"]): row["ours"] for row in rows}
    assert len(stale) == 2 * 2 * 5 * 2
    for delay in ("0", "15"):
        mix = {policy: value for (*world, policy, of), value in stale.items() if [*world, of] == ["day", delay, MIX]}
        assert mix["EDF"] < mix["M-Wolf"] < min(mix["uniform"], mix["proportional"])
    assert all(abs(stale[*key, MIX] / stale[*key, "Poisson"] - 1) > 0.03 for *key, of in stale if of == MIX)


def test_p7_repeats(p7: Reproduction) -> None:
    two, other = (
        compute_digest(tuple(EXPERIMENTS["P7"].body(ExperimentInput(seed, True, Path(), print)))) for seed in (1, 2)
    )
    assert p7.finished[0].digest == two != other


def test_summary_is_json(p7: Reproduction) -> None:
    result = json.loads(json.dumps(summary(p7), allow_nan=False))
    folder = p7.report.parent
    assert result["report"] == str(folder / "REPORT.md")
    assert result["date"] == "2027-01-15T08:00:00.000000Z"
    assert all((folder / name).is_file() for name in result["experiments"][0]["files"])


def test_folder_that_cannot_be_made_stops_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileExistsError):
        reproduce(["P7"], seed=1, quick=True, out=tmp_path / "file", clock=VirtualClock(), progress=pytest.fail)


def test_all_stands_for_every_experiment() -> None:
    assert choose(["all"]) == choose(["P6", "ALL"]) == list(EXPERIMENTS.values())


def test_text_of_a_report_is_escaped_and_a_cut_run_says_so() -> None:
    table = Table(
        "t", "A <b> title", ("which",), (ResultRow(("`<x>` & y",), 1.0),), note="`a` < b", cut="1 of 3 rounds"
    )
    heading = Heading("c", 1, False, 0.0, ("C7 (no Squid)",), ("F9", "F11"))
    page = render_html(heading, [Finished(two_numbers, (table,), 1.0)])
    assert "cut short: F9, F11 did not run" in page
    assert "<td><code>&lt;x&gt;</code> &amp; y</td>" in page
    assert "<h3>A &lt;b&gt; title</h3>" in page
    assert "<strong>Cut short</strong>: 1 of 3 rounds." in page
    assert "failed: C7 (no Squid)" in page


def test_one_experiment_that_fails_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_run: ExperimentInput) -> Results:
        raise LabError("no Squid")
        yield  # a generator, like every body

    monkeypatch.setitem(EXPERIMENTS, "C7", replace(EXPERIMENTS["C7"], body=broken, input_lines=None))
    monkeypatch.setitem(EXPERIMENTS, "T8", two_numbers)
    options = {"seed": 1, "quick": True, "clock": VirtualClock(0), "progress": print}
    made = reproduce(["C7", "T8"], out=tmp_path, **options)
    assert [each.experiment.id for each in made.finished] == ["T8"]
    assert "failed: C7 (no Squid)" in made.report.read_text()
    assert summary(made)["failures"] == ["C7 (no Squid)"]
    with pytest.raises(LabError, match="no Squid"):
        reproduce(["C7"], out=tmp_path, **options)
