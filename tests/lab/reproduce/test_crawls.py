"""The experiments that crawl a world: C5, T8 and F9, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.lab.reproduce import crawled
from teia.lab.reproduce.catalogue import EXPERIMENTS
from teia.lab.reproduce.registry import ExperimentInput, Figure, Table
from teia.lab.reproduce.sessions import reference_figure
from teia.lab.reproduce.statuses import PUBLISHED, status_table
from teia.views.reports.links import InlinkRange, Links
from teia.views.reports.outcomes import OutcomeRow, Outcomes


def results(mission_id: str, monkeypatch: pytest.MonkeyPatch, pages: int = 150) -> tuple[Table | Figure, ...]:
    monkeypatch.setattr(crawled, "QUICK_PAGES", pages)
    return tuple(EXPERIMENTS[mission_id].body(ExperimentInput(1, True, Path(), print)))


def test_published_statuses_are_those_of_the_paper() -> None:
    assert sum(PUBLISHED.values()) == 796_629
    assert (PUBLISHED[200], PUBLISHED[302], PUBLISHED[-11], PUBLISHED[-7]) == (676_261, 50_263, 31_086, 414)


def test_outcomes_of_one_code_are_added_and_those_without_stand_alone() -> None:
    rows = (
        OutcomeRow("200", 200, "", 6, 0.6, 6),
        OutcomeRow("connect", -11, "", 2, 0.2, 6),
        OutcomeRow("dns", -11, "", 1, 0.1, 0),
        OutcomeRow("redirect_loop", None, "redirect loop", 1, 0.1, 1),
    )
    table = status_table(Outcomes(10, 13, rows), 4, 2)
    by_code = {row.labels[0]: row for row in table.rows}
    assert by_code["-11"].labels[2:] == ("connect dns", "31086", "3")
    assert by_code["-11"].ours == pytest.approx(30)
    assert by_code["-11"].other == pytest.approx(100 * 31086 / 796_629)
    assert by_code[""].labels[2] == "redirect_loop"
    assert by_code[""].other is None


def test_references_per_url_count_downwards() -> None:
    spread = (
        InlinkRange(0, 0, 4, 0.4),
        InlinkRange(1, 1, 3, 0.3),
        InlinkRange(2, 3, 2, 0.2),
        InlinkRange(4, 7, 1, 0.1),
    )
    figure = reference_figure(Links(1, 9, 9, 0, 9.0, 0, 10, 0.9, (), spread, ()))
    (series,) = figure.series
    assert (series.x, series.y) == ((1.0, 2.0, 4.0), (6.0, 3.0, 1.0))


@pytest.mark.slow
def test_t8_tells_the_failures_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = results("T8", monkeypatch)
    statuses = next(each for each in found if each.name == "statuses")
    assert isinstance(statuses, Table)
    ours = {row.labels[0]: row.ours for row in statuses.rows}
    assert ours["200"] == pytest.approx(85, abs=10)
    assert sum(ours.values()) == pytest.approx(100)
    assert ours["302"] > 0 < ours["-11"]
    assert {each.name for each in found} == {"statuses", "servers", "over-time", "rates"}
    assert all(each.varies for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mission_id", "names"),
    [
        ("C5", {"size", "servers", "errors", "references", "references-per-url", "rates"}),
        ("F9", {"types", "space", "times"}),
    ],
)
def test_every_table_of_the_paper_has_numbers_of_ours(
    monkeypatch: pytest.MonkeyPatch, mission_id: str, names: set[str]
) -> None:
    found = results(mission_id, monkeypatch)
    assert {each.name for each in found} == names
    assert all(any(row.ours for row in each.rows) for each in found if isinstance(each, Table))
