"""Rules of the Analyzer: sites that match a rule go to the nodes of a region, or to one node (A1, A4).

A rule is `RULE TARGET`: a scope rule (scope.py), and the name of a region or node. Examples: `suffix:.br br`,
`or(domain:example.org, domain:example.net) node-3`, `py:mine.is_blog pt`. The scope rule is tested with the root of the
site, http://SITE/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from teia.frontier.rules.scope import WrongRule, compile_scope
from teia.lib.message import Message


class SiteRule(NamedTuple):
    """A compiled rule; `matches` takes the URL of a site's root."""

    matches: Callable[[str], bool]
    target: str
    text: str


def compile_site_rules(texts: Sequence[str]) -> tuple[SiteRule, ...]:
    """Compile rules in their order; WrongRule for one that is invalid."""
    return tuple(_compile(text) for text in texts)


def _compile(text: str) -> SiteRule:
    rule, _, target = text.strip().rpartition(" ")
    if not rule.strip() or not target:
        raise WrongRule(repr(text), Message("must be RULE TARGET, such as suffix:.br br"))
    return SiteRule(compile_scope((), [rule]).excludes, target, text.strip())
