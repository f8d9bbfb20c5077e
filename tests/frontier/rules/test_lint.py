"""What is probably not meant in rules is said, and nothing else."""

from __future__ import annotations

import pytest

from teia.frontier.rules.lint import lint


@pytest.mark.parametrize(
    ("include", "exclude", "place", "message"),
    [
        (["host:diario.test"], [], 0, "does not match www.diario.test; domain:diario.test does"),
        (["domain:a.test", "host:b.a.test"], [], 1, "rule 2 has no effect: rule 1, domain:a.test, covers it"),
        (
            ["domain:a.test"],
            ["domain:test", "prefix:http://a.test/x"],
            0,
            "rule 2, domain:test, excludes it completely",
        ),
        (["suffix:.test"], ["domain:a.test", "domain:a.test"], 2, "rule 3 has no effect: rule 2"),
        (["lang:pt"], [], 0, "all other linked sites"),
    ],
)
def test_a_rule_that_cannot_mean_what_it_says_is_named(
    include: list[str], exclude: list[str], place: int, message: str
) -> None:
    found = [remark.message for remark in lint(include, exclude) if remark.index == place]
    assert any(message in each for each in found), found


@pytest.mark.parametrize(
    ("include", "exclude"),
    [
        (["domain:a.test"], ["prefix:http://a.test/x", "regex:/busca"]),
        (["host:www.a.test"], ["host:b.www.a.test"]),
        (["prefix:http://a.test/x", "prefix:http://a.test/y"], ["query:yes"]),
        (["nonsense", "host:", "host:a b"], ["regex:("]),
    ],
)
def test_rules_that_decide_are_left_in_peace(include: list[str], exclude: list[str]) -> None:
    assert lint(include, exclude) == []
