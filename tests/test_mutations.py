"""The mutation check: what is taken away is gone, and a test that does not notice is reported."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import mutations

SOURCE = '''
from functools import cache

LIMIT: int = 3  # of all

@cache
def plain(number):
    """Double it."""
    one = number
    return one + number

class Box:
    @property
    def size(self):
        return 2

    def items(self):
        for each in "ab":
            yield each

async def later(á):
    return á

def outer():
    def inner():
        yield 1
    return inner
'''


@pytest.fixture
def mutated(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Give the names of the source after a mutation."""

    def run(name: str, instead: str = "None") -> dict[str, Any]:
        (tmp_path / "source.py").write_text(mutations.mutate(SOURCE, name, instead))
        return runpy.run_path(str(tmp_path / "source.py"))

    return run


def test_a_function_returns_what_is_said_instead_and_keeps_its_decorators(
    mutated: Callable[..., dict[str, Any]],
) -> None:
    changed = mutated("plain", "number * 10")
    assert changed["plain"](2) == 20
    assert changed["plain"].cache_info().misses == 1
    assert mutated("plain")["plain"](2) is None


def test_methods_generators_and_coroutines_stay_what_they_are(mutated: Callable[..., dict[str, Any]]) -> None:
    assert mutated("Box.size", "7")["Box"]().size == 7
    assert list(mutated("Box.items")["Box"]().items()) == []
    assert list(mutated("Box.items", "'xyz'")["Box"]().items()) == ["x", "y", "z"]
    assert asyncio.run(mutated("later", "á + 1")["later"](1)) == 2
    assert mutated("outer", "5")["outer"]() == 5


def test_a_constant_has_another_value_and_the_rest_is_as_it_was(mutated: Callable[..., dict[str, Any]]) -> None:
    assert mutated("LIMIT", "9")["LIMIT"] == 9
    assert mutations.mutate(SOURCE, "LIMIT", "9") == SOURCE.replace("3", "9", 1)


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"Box\.colour"):
        mutations.mutate(SOURCE, "Box.colour", "None")


def test_a_line_that_is_no_mutation_is_an_error(tmp_path: Path) -> None:
    document = tmp_path / "seeds.md"
    document.write_text(f"{mutations.HEADING}\n| A1 | somewhere | | a test |\n")
    with pytest.raises(ValueError, match="somewhere"):
        mutations.listed(document)


@pytest.mark.parametrize(
    ("status", "output", "end"),
    [
        (0, "1 passed in 0.1s", mutations.PASSES),
        (0, "1 skipped in 0.1s", mutations.BROKEN),
        (1, "1 failed in 0.1s", mutations.FAILS),
        (1, "Failed: Timeout (>120.0s) from pytest-timeout.", mutations.HANGS),
        (3, "INTERNALERROR> Failed: Timeout (>120.0s) from pytest-timeout.", mutations.HANGS),
        (4, "no tests ran", mutations.BROKEN),
    ],
)
def test_a_test_that_took_too_long_is_told_from_one_that_did_not_run(status: int, output: str, end: str) -> None:
    """On a busy machine the time was over in a teardown, and the test counted as one that does not exist."""
    assert mutations.end_of(status, output) == end


@pytest.mark.heavy
def test_a_test_that_passes_without_its_implementation_is_told_from_one_that_fails(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "shop.py").write_text("def price():\n    return 3\n")
    (root / "test_shop.py").write_text(
        "from shop import price\n\n\n"
        "def test_price():\n    assert price() == 3\n\n\n"
        "def test_any():\n    assert price() != 4\n"
    )
    checkout = mutations.copied(tmp_path, root)
    ends = [
        mutations.check(checkout, mutations.Mutation("A1", "shop", "price", instead, f"test_shop.py::{test}"))[0]
        for instead, test in [("7", "test_price"), ("7", "test_any"), ("7", "test_none")]
    ]
    assert ends == [mutations.FAILS, mutations.PASSES, mutations.BROKEN]
    assert (checkout / "shop.py").read_text() == (root / "shop.py").read_text()


@pytest.mark.heavy
def test_a_line_of_the_table_is_noticed_by_its_test(tmp_path: Path) -> None:
    """One of the quickest stands for all, which `scripts/mutations` checks by hand in some twenty minutes."""
    sample = next(each for each in mutations.listed() if each.id == "C9")
    assert mutations.check(mutations.copied(tmp_path), sample)[0] == mutations.FAILS
