"""docs/seeds.md: a row for every line of the mission, and only true ones."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache

from teia.lab.reproduce.catalogue import EXPERIMENTS
from teia.lab.reproduce.registry import IDS
from tests import mutations

from .tree import ROOT

MISSION = ROOT.parent / "shared" / "MISSION.md"
NOT_YET = "not yet"
EXPERIMENT = re.compile(r"`teia lab reproduce ([A-Z0-9]+)`")


@dataclass(frozen=True)
class Row:
    id: str
    asks: str
    where: str
    shows: str

    @property
    def paths(self) -> list[str]:
        """What stands between backticks and looks like a path: it has a slash and no blank."""
        quoted = re.findall(r"`([^`]+)`", f"{self.where} {self.shows}")
        return [text for text in quoted if "/" in text and " " not in text]


@cache
def rows() -> tuple[Row, ...]:
    text = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
    lines = text.partition(mutations.HEADING)[0].splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [PACTF]\d", line))
    return tuple(Row(*each) for each in cells)


def wanted_ids() -> set[str]:
    """The ids as the mission has them now, or as they were when it is not beside the checkout."""
    if not MISSION.is_file():
        return set(IDS)
    return set(re.findall(r"\b[PACTF]\d{1,2}\b", MISSION.read_text(encoding="utf-8")))


def test_ids_of_the_mission_are_those_we_know() -> None:
    assert wanted_ids() == set(IDS)


def test_every_id_has_one_row_in_order() -> None:
    assert [row.id for row in rows()] == list(IDS)


def test_every_row_says_something_in_each_column() -> None:
    empty = [row.id for row in rows() if not (row.asks and row.where and row.shows)]
    assert not empty, f"write {NOT_YET!r} where there is nothing: {empty}"


def test_every_path_in_a_row_exists() -> None:
    dead = [f"{row.id}: {path}" for row in rows() for path in row.paths if not (ROOT / path).exists()]
    assert not dead, "\n".join(dead)


def test_what_lives_somewhere_names_a_path() -> None:
    vague = [row.id for row in rows() if NOT_YET not in row.where and not row.paths]
    assert not vague, f"name the module: {vague}"


def test_every_experiment_is_named_in_its_row_and_no_other_is() -> None:
    named = {match for row in rows() for match in EXPERIMENT.findall(row.shows)}
    assert named == set(EXPERIMENTS)


def test_every_id_has_an_implementation_that_can_be_taken_away() -> None:
    assert list(dict.fromkeys(each.id for each in mutations.listed())) == list(IDS)


@cache
def tree_of(path: str) -> ast.Module | None:
    file = ROOT / path
    return ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else None


def test_every_implementation_that_is_taken_away_exists_and_its_substitute_is_an_expression() -> None:
    for each in mutations.listed():
        tree = tree_of(each.path)
        assert tree is not None, f"{each.id}: no module {each.module}"
        assert mutations.find(tree, each.name), f"{each.id}: {each.module} has no {each.name}"
        ast.parse(each.instead, mode="eval")


def test_every_test_that_must_fail_exists_and_is_one_of_the_ordinary_suite() -> None:
    for each in mutations.listed():
        path, _, name = each.test.partition("::")
        tree = tree_of(path)
        assert tree is not None, f"{each.id}: no file {path}"
        test = mutations.find(tree, re.sub(r"\[.*", "", name))
        assert isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef), f"{each.id}: {path} has no test {name}"
        marks = [*test.decorator_list, *(node for node in tree.body if "pytestmark" in ast.unparse(node))]
        slow = [mark for mark in marks if "parametrize" not in ast.unparse(mark) and "mark.slow" in ast.unparse(mark)]
        assert not slow, f"{each.id}: {name} is left out by scripts/test"
