"""F11 in small: the paper's table beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.lab.reproduce import search_times
from teia.lab.reproduce.catalogue import EXPERIMENTS
from teia.lab.reproduce.registry import ExperimentInput, Table, compute_digest

pytestmark = pytest.mark.slow


def tables(out: Path) -> dict[str, Table]:
    results = EXPERIMENTS["F11"].body(ExperimentInput(1, True, out, lambda _: None))
    return {result.name: result for result in results if isinstance(result, Table)}


def test_f11_shows_its_table_beside_ours_and_finds_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11: eight searches, the 17.86 s phrase among them; the numbers that are no times repeat."""
    monkeypatch.setattr(search_times, "QUICK_PAGES", 800)
    monkeypatch.setattr(search_times, "QUICK_EACH", 1)
    first = tables(tmp_path)
    assert list(first) == ["times", "again", "found", "kinds", "costs"]
    published = {row.labels[1]: row.other for row in first["times"].rows}
    assert published['`"quero café"`'] == 17.86
    assert all(0 < row.ours < 60 for row in first["times"].rows)
    found = {row.labels[0]: row.ours for row in first["found"].rows}
    assert found["`café carro bolo`"] > found["`+informatica +banco +dados`"] > 0
    again = tables(tmp_path)
    assert compute_digest(list(first.values())) == compute_digest(list(again.values()))


def test_what_the_paper_does_not_print_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_times, "QUICK_PAGES", 300)
    monkeypatch.setattr(search_times, "QUICK_EACH", 1)
    shown = tables(tmp_path)
    assert {row.other for row in (*shown["found"].rows, *shown["kinds"].rows)} == {None}
    costs = {row.labels[0]: row.other for row in shown["costs"].rows}
    assert costs["seconds to index 1,000 pages"] == pytest.approx(1000 * 6333.98 / 609_212)
