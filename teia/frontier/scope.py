"""Which URLs belong to a collection (A8, C4).

A rule is text, `KIND:VALUE`, so that it can stand in a file, on the command line and in a form:

    host:NAME        exactly this host                 domain:NAME   this registered domain and all below it
    suffix:.br       hosts that end so                 prefix:URL    URLs that begin so
    regex:EXPR       URLs in which EXPR is found       query:no      URLs without a query
    type:text/html   answers of this media type        lang:pt       pages in this language
    py:MODULE.NAME   a function of yours, url -> bool  list:FILE     what the lines of a file say (rulelists.py)

Repeated rules of a list are "or"; a URL is in scope if it matches the include list (or the list is empty) and nothing
of the exclude list. Three kinds restrict rather than add when they stand alone in the include list: `query:no`, and
`type:` and `lang:`, which cannot be told from a URL and so judge the answer; these two can be neither excluded nor
composed. `not(RULE)`, `and(RULE, RULE…)` and `or(…)` compose; a comma in a regex inside them is no end of a rule if it
stands in brackets or behind a backslash. A `list:` stands alone, in either of the two lists.

Rules are written by operators, never by the web: an expression that backtracks for ever on a long URL, or a function
that raises, is theirs to mend. The URLs they see are canonical and at most `limits.url_chars` long.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from teia.errors import ConfigError
from teia.frontier.rulelists import RuleTable, read_list
from teia.urls import canonicalize, host_of

Test = Callable[[str], bool]
Lists = Mapping[str, Sequence[str]]
"""The rules of list files by path, in canonical form, for those who have read them already."""

COPIED = "copied:"
"""How a rule begins that names a copy of a list, in canonical form; nobody but us writes one."""

ANSWER_KINDS = ("type", "lang")
TABLE_FROM = 8
"""So many hosts, domains and prefixes are matched faster together than one after the other."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The rules of one collection, compiled."""

    include: tuple[Test, ...]
    exclude: tuple[Test, ...]
    media_types: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()
    queries: bool = True

    def holds(self, url: str) -> bool:
        """Whether a link to this URL is followed."""
        if (not self.queries and "?" in url) or self.excludes(url):
            return False
        for test in self.include:
            if test(url):
                return True
        return not self.include

    def excludes(self, url: str) -> bool:
        """Whether a rule forbids this URL, whoever names it."""
        for test in self.exclude:  # noqa: SIM110  # run for every new link; a generator costs more than the test
            if test(url):
                return True
        return False

    def keeps_type(self, media_type: str) -> bool:
        return not self.media_types or media_type in self.media_types

    def keeps_language(self, language: str) -> bool:
        return not self.languages or not language or language in self.languages


def compile_scope(
    include: Sequence[str],
    exclude: Sequence[str] = (),
    *,
    types: Sequence[str] = (),
    queries: bool = True,
    lists: Lists | None = None,
) -> Scope:
    """Compile the rules; a wrong one is named with what is allowed. Files of `lists` are not read again."""
    include = [rule.strip() for rule in include]
    of_urls = [rule for rule in include if not rule.startswith(("type:", "lang:")) and rule != "query:no"]
    try:
        return Scope(
            _compile_all(of_urls, lists or {}),
            _compile_all(exclude, lists or {}),
            _values("type", include) | {each.lower() for each in types},
            _values("lang", include),
            queries and "query:no" not in include,
        )
    except RecursionError:
        raise ConfigError("scope rules: composed too deeply") from None


@dataclass(frozen=True, slots=True)
class Ruling:
    """How rules judge a URL. `kept_by` and `skipped_by` are places in the two lists of rules; None: no rule of it.

    `is_query`: it is left out because it has a query, which the collection does not follow.
    """

    is_kept: bool
    kept_by: int | None
    skipped_by: int | None
    is_query: bool


class Rulebook:
    """Rules that say which of them decides about a URL; what they decide is what the compiled `scope` says."""

    def __init__(
        self,
        include: Sequence[str],
        exclude: Sequence[str] = (),
        *,
        types: Sequence[str] = (),
        queries: bool = True,
        lists: Lists | None = None,
    ) -> None:
        self.scope = compile_scope(include, exclude, types=types, queries=queries, lists=lists)
        self._include = [_tests_of(rule, lists or {}) for rule in include]
        self._exclude = [_compile_all((rule,), lists or {}) for rule in exclude]

    def ruling(self, url: str) -> Ruling:
        """Judge a canonical URL that a page links to."""
        is_query = not self.scope.queries and "?" in url
        return Ruling(self.scope.holds(url), _first(self._include, url), _first(self._exclude, url), is_query)

    def matches(self, url: str) -> list[bool]:
        """Which rules a URL matches: those of the include list, then those of the exclude list."""
        return [any(test(url) for test in tests) for tests in (*self._include, *self._exclude)]


def _tests_of(rule: str, lists: Lists) -> tuple[Test, ...]:
    """What a rule of the include list adds; those that restrict add nothing."""
    text = rule.strip()
    is_restriction = text.startswith(("type:", "lang:")) or text == "query:no"
    return () if is_restriction else _compile_all((rule,), lists)


def _first(rules: Sequence[tuple[Test, ...]], url: str) -> int | None:
    return next((place for place, tests in enumerate(rules) if any(test(url) for test in tests)), None)


def _values(kind: str, rules: Sequence[str]) -> frozenset[str]:
    """What the rules of one kind about answers name."""
    values = [rule.partition(":")[2].strip().lower() for rule in rules if rule.startswith(f"{kind}:")]
    if not all(values):
        raise ConfigError(f"scope rule '{kind}:': must name a {'media type' if kind == 'type' else 'language'}")
    return frozenset(values)


def seeds_scope(seeds: Sequence[str]) -> list[str]:
    """The scope of a collection that names none: the hosts of its seeds."""
    return sorted({f"host:{host_of(seed)}" for seed in seeds})


def list_of(rule: str) -> str:
    """Return the path that a `list:` rule names; empty for other rules."""
    return rule.strip().removeprefix("list:").strip() if rule.strip().startswith("list:") else ""


def why_out_of_scope(url: str, include: Sequence[str], exclude: Sequence[str], queries: bool) -> str:
    """Say which rule keeps a URL out, or nothing; for a person's question, not for every link."""
    for rule in exclude:
        if compile_scope((), (rule,)).excludes(url):
            return f"{rule} excludes it"
    scope = compile_scope(include, queries=queries)
    if scope.holds(url):
        return ""
    return "it has a query" if not scope.queries and "?" in url else "it matches no rule of scope.include"


def _compile_all(rules: Sequence[str], lists: Lists) -> tuple[Test, ...]:
    """Compile rules that are "or"; many names among them become one table."""
    tests: list[Test] = []
    named = [rule for rule in map(str.strip, rules) if rule.startswith(_IN_TABLE)]
    if len(named) >= TABLE_FROM:
        tests += _compile_canonical([_canonical(rule) for rule in named])
        rules = [rule for rule in rules if not rule.strip().startswith(_IN_TABLE)]
    for rule in rules:
        path = list_of(rule)
        if path:
            tests += _compile_canonical(lists[path] if path in lists else canonical_list(path))
        elif rule.startswith(COPIED):
            tests += _compile_canonical(Path(rule.removeprefix(COPIED)).read_text("utf-8").split("\n"))
        else:
            tests.append(_compile(rule))
    return tuple(tests)


def canonical_list(path: str) -> tuple[str, ...]:
    """Read a list file; its names and URLs come back in canonical form, and a wrong rule is named with the file."""
    rules = read_list(Path(path))
    if any(list_of(rule) for rule in rules):
        raise ConfigError(f"scope rule 'list:{path}': a list may not name another list")
    try:
        canonical = tuple(map(_canonical, rules))
        _compile_canonical(canonical)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return canonical


_IN_TABLE = ("host:", "domain:", "prefix:")


def _canonical(rule: str) -> str:
    kind, _, value = rule.partition(":")
    if not rule.startswith(_IN_TABLE):
        return rule
    return f"{kind}:{_beginning(value) if kind == 'prefix' else _name(kind, value)}"


def _compile_canonical(rules: Sequence[str]) -> tuple[Test, ...]:
    """Compile the rules of a list: one table, and what does not fit into it. An empty list matches nothing."""
    values = [[rule.partition(":")[2] for rule in rules if rule.startswith(kind)] for kind in _IN_TABLE]
    others = [_compile(rule) for rule in rules if rule and not rule.startswith(_IN_TABLE)]
    return (RuleTable(*values), *others)


def _compile(rule: str) -> Test:
    rule = rule.strip()
    if match := re.fullmatch(r"(and|or|not)\((.*)\)", rule, re.DOTALL):
        return _composed(match.group(1), [_compile(part) for part in _arguments(match.group(2))], rule)
    kind, colon, value = rule.partition(":")
    if kind in ANSWER_KINDS:
        raise ConfigError(f"scope rule {rule!r}: {kind} must stand alone in the include list; it judges answers")
    if kind == "list":
        raise ConfigError(f"scope rule {rule!r}: list must stand alone and name a file")
    if not colon or kind not in _KINDS or not value:
        kinds = ", ".join((*_KINDS, "list", *ANSWER_KINDS))
        raise ConfigError(f"scope rule {rule!r}: must be KIND:VALUE with KIND one of {kinds}")
    return _KINDS[kind](value)


def _composed(operator: str, tests: list[Test], rule: str) -> Test:
    if not tests or (operator == "not" and len(tests) != 1):
        raise ConfigError(
            f"scope rule {rule!r}: {operator} needs {'one rule' if operator == 'not' else 'rules'} inside"
        )
    if operator == "not":
        return lambda url: not tests[0](url)
    combine = all if operator == "and" else any
    return lambda url: combine(test(url) for test in tests)


def _arguments(text: str) -> list[str]:
    """Split at commas that are not inside brackets of any kind, nor behind a backslash."""
    parts, depth, start, escaped = [], 0, 0, False
    for position, character in enumerate(text):
        if escaped or character == "\\":
            escaped = not escaped
            continue
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


_NOT_OF_A_NAME = re.compile(r"[\s/?#@(),\\]|:(?!.*\]$)")
"""What would make more than a host of `http://VALUE/`; colons stand in addresses alone."""


_PLAIN_NAME = re.compile(r"(?!.*xn--)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}")
"""Names that are canonical as they are, which most in a list are: they need no parser."""


def _name(kind: str, value: str) -> str:
    """The canonical form of a host name or the end of one: lower case, `xn--` for other scripts, no dot behind."""
    value = value.lstrip(".") if kind != "host" else value
    if _PLAIN_NAME.fullmatch(value):
        return value
    url = None if _NOT_OF_A_NAME.search(value) else canonicalize(f"http://{value.rstrip('.')}/")
    if url is None:
        raise ConfigError(f"scope rule '{kind}:{value}': must be a host name, like example.org")
    return host_of(url)


def _host(value: str) -> Test:
    name = _name("host", value)
    return lambda url: host_of(url) == name


def _domain(value: str) -> Test:
    name = _name("domain", value)
    below = "." + name

    def test(url: str) -> bool:
        host = host_of(url)
        return host == name or host.endswith(below)

    return test


def _suffix(value: str) -> Test:
    dot = "." if value.startswith(".") else ""
    ending = dot + _name("suffix", value)
    return lambda url: host_of(url).endswith(ending)


def _beginning(value: str) -> str:
    beginning = canonicalize(value)
    if beginning is None:
        raise ConfigError(f"scope rule 'prefix:{value}': must be an http or https URL")
    return beginning


def _prefix(value: str) -> Test:
    beginning = _beginning(value)
    return lambda url: url.startswith(beginning)


def _regex(value: str) -> Test:
    try:
        expression = re.compile(value)
    except re.error as error:
        raise ConfigError(f"scope rule 'regex:{value}': {error}") from error
    return lambda url: expression.search(url) is not None


def _query(value: str) -> Test:
    if value not in {"no", "yes"}:
        raise ConfigError(f"scope rule 'query:{value}': must be query:no or query:yes")
    return lambda url: ("?" in url) == (value == "yes")


def _python(value: str) -> Test:
    """A function of the user's own. It is code the operator names, never text that came from the web."""
    module, _, name = value.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the operator's own and may fail in any way when it is loaded
        raise ConfigError(f"scope rule 'py:{value}': cannot be imported: {error}") from error
    if not callable(function):
        raise ConfigError(f"scope rule 'py:{value}': is not a function")
    return cast(Test, function)


_KINDS: dict[str, Callable[[str], Test]] = {
    "host": _host,
    "domain": _domain,
    "suffix": _suffix,
    "prefix": _prefix,
    "regex": _regex,
    "query": _query,
    "py": _python,
}
