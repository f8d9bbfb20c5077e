"""Warnings about probable mistakes in scope rules, shown beside the rule without blocking it (A8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.errors import ConfigError
from teia.frontier.rules.scope import Rulebook
from teia.lib.message import Message
from teia.urls import from_user, host_of, site_of

MAX_COMPARED = 200
"""Greatest number of rules that are compared pairwise."""

_WIDER = {
    "host": ("host", "domain", "suffix"),
    "domain": ("domain", "suffix"),
    "suffix": ("suffix",),
    "prefix": ("host", "domain", "suffix", "prefix"),
}
"""Kinds of rules that cover all of a rule if they match its examples: they test the same part of a URL."""


@dataclass(frozen=True, slots=True)
class RuleWarning:
    """A warning about one rule; `index` counts through the include list and on through the exclude list."""

    index: int
    message: str


def lint(include: Sequence[str], exclude: Sequence[str], seeds: Sequence[str] = ()) -> list[RuleWarning]:
    """Return warnings about rules that are probably mistakes; invalid rules are refused elsewhere."""
    rules = [rule.strip() for rule in (*include, *exclude)]
    warnings = _names_without_www(include, seeds)
    if include and all(rule.strip().startswith(("type:", "lang:")) or rule.strip() == "query:no" for rule in include):
        warnings.append(
            RuleWarning(0, Message("these rules only exclude: all other linked sites belong to the collection"))
        )
    if len(rules) <= MAX_COMPARED:
        warnings += _never_decides(rules, len(include))
    return sorted(warnings, key=lambda warning: warning.index)


def _names_without_www(include: Sequence[str], seeds: Sequence[str]) -> list[RuleWarning]:
    """Warn about a `host:` rule for a whole site: its subdomains, such as www, are left out."""
    hosts = {host_of(url) for url in map(from_user, seeds) if url is not None}
    warnings = []
    for index, rule in enumerate(include):
        kind, _, name = rule.strip().partition(":")
        name = name.strip().lower()
        url = from_user(f"http://{name}/") if kind == "host" else None
        # The name is a registered domain, so that its pages are probably at `www`.
        if url is not None and host_of(url) == name == site_of(name) and f"host:www.{name}" not in include:
            others = sorted(host for host in hosts if host.endswith(f".{name}"))
            other = others[0] if others else f"www.{name}"
            warnings.append(
                RuleWarning(
                    index, Message("host:{name} does not match {other}; domain:{name} does", name=name, other=other)
                )
            )
    return warnings


def _never_decides(rules: Sequence[str], include_count: int) -> list[RuleWarning]:
    """Warn about rules covered by another: one of the same list, or one that excludes what this would include."""
    warnings = []
    rulebooks = [_rulebook(rule) for rule in rules]
    for index, rule in enumerate(rules):
        examples, kind = _examples(rule), rule.partition(":")[0]
        for other, rulebook in enumerate(rulebooks):
            is_same_list = (index < include_count) == (other < include_count)
            # A rule of the exclude list overrules the include list, never the other way round.
            is_overruled_by = is_same_list or (index < include_count <= other)
            if other == index or not examples or rulebook is None or not is_overruled_by:
                continue
            wider = rules[other].partition(":")[0] in _WIDER.get(kind, ())
            if not wider or not all(rulebook.matches(url)[0] for url in examples):
                continue
            if is_same_list and other > index and _examples(rules[other]) == examples:
                continue  # the same rule twice: reported once, at the second
            by = {"n": index + 1, "other": other + 1, "rule": rules[other]}
            text = (
                Message("rule {n} has no effect: rule {other}, {rule}, covers it completely", **by)
                if is_same_list
                else Message("rule {n} has no effect: rule {other}, {rule}, excludes it completely", **by)
            )
            warnings.append(RuleWarning(index, text))
            break
    return warnings


def _rulebook(rule: str) -> Rulebook | None:
    try:
        return Rulebook((rule,)) if rule.partition(":")[0] in _WIDER else None
    except ConfigError:
        return None


def _examples(rule: str) -> list[str]:
    """Return URLs that stand for all that a rule matches."""
    kind, _, value = rule.partition(":")
    value = value.strip()
    if kind == "prefix":
        url = from_user(value)
        return [url] if url else []
    name = value.lower().lstrip(".")
    if kind not in _WIDER or not name:
        return []
    # `q7q` stands for any label.
    names = {"host": [name], "domain": [name, f"q7q.{name}"], "suffix": [f"q7q.{name}", f"q7q{value.lower()}"]}[kind]
    return [url for each in names if (url := from_user(f"http://{each}/")) is not None]
