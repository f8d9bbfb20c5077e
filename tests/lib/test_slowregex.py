"""Expressions that would hold up a crawl are known before they are used."""

from __future__ import annotations

import pytest

from teia.lib.slowregex import is_slow


@pytest.mark.parametrize("expression", [r"(a+)+$", r"(x+x+)+y", r"([a-z]+)*!$", r"^http://h.test/(\w+-?)*$"])
def test_an_expression_that_tries_every_way_is_slow(expression: str) -> None:
    assert is_slow(expression)


@pytest.mark.parametrize("expression", [r"/busca\?", r"\.(jpg|png)$", r"[?&]page=\d+", r"/20\d\d/\d\d/", ""])
def test_what_people_write_is_not(expression: str) -> None:
    assert not is_slow(expression)
