"""Regular expressions mean the same in every Python that teia runs on."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants, _parser
from typing import Any

import pytest

import teia

POSSESSIVE = (_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP)


def forgotten(parsed: Any, is_inside: bool = False) -> Iterator[int]:
    """The groups inside of something possessive, which Python 3.11.2 (Debian 12) forgets now and then."""
    for what, argument in parsed:
        if what is _constants.SUBPATTERN and argument[0] is not None and is_inside:
            yield argument[0]
        yield from _below(argument, is_inside or what in POSSESSIVE)


def _below(argument: Any, is_inside: bool) -> Iterator[int]:
    if isinstance(argument, _parser.SubPattern):
        yield from forgotten(argument, is_inside)
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _below(each, is_inside)


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for module in pkgutil.walk_packages(teia.__path__, "teia."):
        if module.name.endswith("__main__") or "zygote" in module.name:
            continue
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            if isinstance(value, re.Pattern):
                yield f"{module.name}.{name}", value


def test_no_group_lies_in_something_possessive() -> None:
    """One did: every link to another host was taken for one to the same host."""
    found = dict(patterns())
    assert len(found) > 100
    lost = {name: list(forgotten(_parser.parse(each.pattern, each.flags & ~re.DEBUG))) for name, each in found.items()}
    assert {name: groups for name, groups in lost.items() if groups} == {}


@pytest.mark.parametrize(
    ("pattern", "groups"), [("(a)?+b", [1]), ("(?>x(a|b))", [1]), ("((?:a|b)*+)c", []), ("(a)?b", [])]
)
def test_such_groups_are_seen(pattern: str, groups: list[int]) -> None:
    assert list(forgotten(_parser.parse(pattern))) == groups
