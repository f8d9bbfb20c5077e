"""Scope rules: the URLs that belong to a collection (A8, C4).

A rule is text, `KIND:VALUE`, so that it can stand in a file, on the command line and in a form:

    host:NAME        exactly this host                 domain:NAME   this registered domain and all below it
    suffix:.br       hosts that end so                 prefix:URL    URLs that begin so
    regex:EXPR       URLs in which EXPR is found       query:no      URLs without a query
    type:text/html   answers of this media type        lang:pt       pages in this language
    py:MODULE.NAME   a function of yours, url -> bool  list:FILE     the rules in a file (rule_lists.py)

Repeated rules of a list are "or". A URL is in scope if it matches the include list (or the list is empty) and no
rule of the exclude list. Three kinds restrict rather than add when they stand alone in the include list:
`query:no`, `type:` and `lang:`. The last two cannot be decided from a URL and so judge the answer; they cannot be
excluded. `not(RULE)`, `and(RULE, RULE…)` and `or(…)` compose rules. A comma in a regex inside them does not end a rule
if it stands in brackets or behind a backslash. A `list:` stands alone, in either of the two lists.

A rule of the include list may compose `lang:` with others: `or(suffix:.pt, lang:pt)` is Portugal's domain, and
Portuguese elsewhere (T10). Links to all URLs that may fulfil it are followed; a fetched page that does not is left out,
with its links. As with `lang:` alone, a page whose language was not recognised fulfils `lang:`.

Expressions are matched in one pass over the URL (lib/linearregex.py), so that none holds up a crawl or a page;
constructs that need more, like lookahead, are refused. A function that raises must be fixed by its author. The URLs
they see are canonical and at most `limits.url_chars` long.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from teia.config import extensions
from teia.config.extensions import load_extension
from teia.errors import ConfigError
from teia.frontier.rules.rule_lists import RuleTable, read_list
from teia.lib.linearregex import any_of, compile_test, size_of
from teia.lib.message import Message, message_of
from teia.urls import canonicalize, host_of

Test = Callable[[str], bool]
PageTest = Callable[[str, str], bool]
"""Test of a URL and the language of its page; with an empty language, of whether any page there may pass."""

Lists = Mapping[str, Sequence[str]]
"""Rules of list files by path, in canonical form, for callers that have read them already."""

COPIED = "copied:"
"""Beginning of a rule that names a copy of a list, in canonical form; only teia writes such rules."""

ANSWER_KINDS = ("type", "lang")
TABLE_FROM = 8
"""Number of hosts, domains and prefixes from which one table is faster than separate tests."""


class WrongRule(ConfigError):
    """A scope rule cannot be used."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(Message("scope rule {rule}: {why}", rule=rule, why=why))


@dataclass(frozen=True, slots=True)
class Scope:
    """The compiled rules of one collection. `include` has the rules about URLs alone, `language_tests` the others."""

    include: tuple[Test, ...]
    exclude: tuple[Test, ...]
    media_types: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()
    queries: bool = True
    language_tests: tuple[PageTest, ...] = ()

    def allows(self, url: str) -> bool:
        """Tell whether a link to this URL is followed."""
        if (not self.queries and "?" in url) or self.excludes(url):
            return False
        for test in self.include:
            if test(url):
                return True
        if self.language_tests:
            return any(test(url, "") for test in self.language_tests)
        # Without include rules, everything that is not excluded belongs to the collection.
        return not self.include

    def excludes(self, url: str) -> bool:
        """Tell whether a rule forbids this URL, from any source."""
        for test in self.exclude:  # noqa: SIM110  # run for every new link; a generator costs more than the test
            if test(url):
                return True
        return False

    def allows_type(self, media_type: str) -> bool:
        return not self.media_types or media_type in self.media_types

    def allows_language(self, url: str, language: str) -> bool:
        """Tell whether a page in this language belongs to the collection; its URL is allowed."""
        # A page whose language was not recognised is kept.
        if not language:
            return True
        if self.languages and language not in self.languages:
            return False
        if not self.language_tests:
            return True
        return any(test(url) for test in self.include) or any(test(url, language) for test in self.language_tests)


def compile_scope(
    include: Sequence[str],
    exclude: Sequence[str] = (),
    *,
    types: Sequence[str] = (),
    queries: bool = True,
    lists: Lists | None = None,
) -> Scope:
    """Compile the rules; an error names the invalid rule and the allowed forms. Files in `lists` are not read again."""
    include = [rule.strip() for rule in include]
    of_urls = [rule for rule in include if not rule.startswith(("type:", "lang:")) and rule != "query:no"]
    try:
        return Scope(
            _compile_all([rule for rule in of_urls if not composes_language(rule)], lists or {}),
            _compile_all(exclude, lists or {}),
            _values("type", include) | {each.lower() for each in types},
            _values("lang", include),
            queries and "query:no" not in include,
            tuple(_compile_page_test(rule) for rule in of_urls if composes_language(rule)),
        )
    # A user's rule may nest without end, and is compiled recursively.
    except RecursionError:
        raise ConfigError(Message("scope rules: nested too deeply")) from None


@dataclass(frozen=True, slots=True)
class Ruling:
    """Decision about a URL. `included_by` and `excluded_by` are indices in the two lists of rules; None: no rule of it.

    `is_query`: it is left out because it has a query, which the collection does not follow.
    """

    is_included: bool
    included_by: int | None
    excluded_by: int | None
    is_query: bool


class Rulebook:
    """Rules that report which of them decides about a URL; the decision is that of the compiled `scope`."""

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

    def decide(self, url: str) -> Ruling:
        """Evaluate a canonical URL that a page links to."""
        is_query = not self.scope.queries and "?" in url
        return Ruling(self.scope.allows(url), _first(self._include, url), _first(self._exclude, url), is_query)

    def matches(self, url: str) -> list[bool]:
        """Return one flag a rule, True if it matches: the include list first, then the exclude list."""
        return [any(test(url) for test in tests) for tests in (*self._include, *self._exclude)]


def _tests_of(rule: str, lists: Lists) -> tuple[Test, ...]:
    """Return the tests of a rule of the include list; none for a rule that restricts."""
    text = rule.strip()
    is_restriction = text.startswith(("type:", "lang:")) or text == "query:no"
    if composes_language(text):
        test = _compile_page_test(text)
        return (lambda url: test(url, ""),)
    return () if is_restriction else _compile_all((rule,), lists)


def _first(rules: Sequence[tuple[Test, ...]], url: str) -> int | None:
    return next((index for index, tests in enumerate(rules) if any(test(url) for test in tests)), None)


def _values(kind: str, rules: Sequence[str]) -> frozenset[str]:
    """Return the values of the rules of one kind about answers."""
    values = [rule.partition(":")[2].strip().lower() for rule in rules if rule.startswith(f"{kind}:")]
    if not all(values):
        why = Message("must name a media type") if kind == "type" else Message("must name a language")
        raise WrongRule(f"'{kind}:'", why)
    return frozenset(values)


def seeds_scope(seeds: Sequence[str]) -> list[str]:
    """Return the scope of a collection that names none: the hosts of its seeds."""
    return sorted({f"host:{host_of(seed)}" for seed in seeds})


def list_of(rule: str) -> str:
    """Return the path that a `list:` rule names; empty for other rules."""
    return rule.strip().removeprefix("list:").strip() if rule.strip().startswith("list:") else ""


def why_out_of_scope(url: str, include: Sequence[str], exclude: Sequence[str], queries: bool) -> str:
    """Return the rule that keeps a URL out, or ""; for a user's query, not for every link."""
    for rule in exclude:
        if compile_scope((), (rule,)).excludes(url):
            return Message("{rule} excludes it", rule=rule)
    scope = compile_scope(include, queries=queries)
    if scope.allows(url):
        return ""
    is_query = not scope.queries and "?" in url
    return Message("it has a query string") if is_query else Message("it matches no rule of scope.include")


def _compile_all(rules: Sequence[str], lists: Lists) -> tuple[Test, ...]:
    """Compile rules that are "or"; many names among them become one table."""
    tests: list[Test] = []
    named = [rule for rule in map(str.strip, rules) if rule.startswith(_IN_TABLE)]
    if len(named) >= TABLE_FROM:
        tests += _compile_canonical([_canonical(rule) for rule in named])
        rules = [rule for rule in rules if not rule.strip().startswith(_IN_TABLE)]
    expressions, rules = _expressions_apart(rules)
    tests += _compile_expressions(expressions)
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
    """Read a list file and return its rules in canonical form; an error names the invalid rule and the file."""
    rules = read_list(Path(path))
    if any(list_of(rule) for rule in rules):
        raise WrongRule(f"'list:{path}'", "a rule list must not contain another list")
    try:
        canonical = tuple(map(_canonical, rules))
        # Compiled only for its errors, which then name the file.
        _compile_canonical(canonical)
    except ConfigError as error:
        raise ConfigError(Message("{path}: {why}", path=path, why=error)) from error
    return canonical


_IN_TABLE = ("host:", "domain:", "prefix:")
_REGEX = "regex:"
_COMPOSED = re.compile(r"(and|or|not)\((.*)\)", re.DOTALL)


def _canonical(rule: str) -> str:
    kind, _, value = rule.partition(":")
    if not rule.startswith(_IN_TABLE):
        return rule
    return f"{kind}:{_beginning(value) if kind == 'prefix' else _name(kind, value)}"


def _compile_canonical(rules: Sequence[str]) -> tuple[Test, ...]:
    """Compile the rules of a list: one table, and tests for the rest. An empty list matches nothing."""
    values = [[rule.partition(":")[2] for rule in rules if rule.startswith(kind)] for kind in _IN_TABLE]
    expressions, others = _expressions_apart([rule for rule in rules if rule and not rule.startswith(_IN_TABLE)])
    return (RuleTable(*values), *_compile_expressions(expressions), *map(_compile, others))


def _expressions_apart(rules: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the expressions of the `regex:` rules, and the other rules."""
    is_expression = [rule.strip().startswith(_REGEX) and rule.strip() != _REGEX for rule in rules]
    expressions = [
        rule.strip().removeprefix(_REGEX) for rule, is_one in zip(rules, is_expression, strict=True) if is_one
    ]
    return expressions, [rule for rule, is_one in zip(rules, is_expression, strict=True) if not is_one]


def _compile_expressions(expressions: Sequence[str]) -> tuple[Test, ...]:
    """Compile expressions that are "or": all in one pass, where they fit into one."""
    tests = [_regex(each) for each in expressions]  # an invalid one is named
    return any_of(expressions) if len(expressions) > 1 else tuple(tests)


def regex_size(rules: Sequence[str]) -> int:
    """Return the steps that the rules' expressions need per character of a hard URL; an error names an invalid one."""
    return sum(_size(part) for rule in rules for part in _parts(rule) if part.startswith(_REGEX))


def _size(rule: str) -> int:
    try:
        return size_of(rule.removeprefix(_REGEX))
    except ValueError as error:
        raise WrongRule(repr(rule), message_of(error)) from error


def _parts(rule: str) -> list[str]:
    """Return the plain rules that a rule is composed of."""
    match = _COMPOSED.fullmatch(rule.strip())
    return [part for each in _arguments(match[2]) for part in _parts(each)] if match else [rule.strip()]


def composes_language(rule: str) -> bool:
    """Tell whether a rule has `lang:` inside `and`, `or` or `not`."""
    return _COMPOSED.fullmatch(rule.strip()) is not None and any(part.startswith("lang:") for part in _parts(rule))


def _compile_page_test(rule: str) -> PageTest:
    """Compile a rule that composes `lang:` with others."""
    rule = rule.strip()
    if rule.startswith("lang:"):
        (language,) = _values("lang", [rule])
        return lambda _, of_page: not of_page or of_page == language
    if not composes_language(rule):
        test = _compile(rule)
        return lambda url, _: test(url)
    match = _COMPOSED.fullmatch(rule)
    assert match is not None
    if match[1] == "not":
        # A page in any other language would fulfil it, so it would not limit the links that are followed.
        raise WrongRule(repr(rule), Message("lang must not be inside not(…)"))
    tests, combine = [_compile_page_test(part) for part in _arguments(match[2])], all if match[1] == "and" else any
    return lambda url, of_page: combine(each(url, of_page) for each in tests)


def _compile(rule: str) -> Test:
    rule = rule.strip()
    if match := _COMPOSED.fullmatch(rule):
        return _composed(match.group(1), [_compile(part) for part in _arguments(match.group(2))], rule)
    kind, colon, value = rule.partition(":")
    if kind in ANSWER_KINDS:
        why = Message(
            "{kind} must be a rule of its own in the include list, because it is checked after the response", kind=kind
        )
        raise WrongRule(repr(rule), why)
    if kind == "list":
        raise WrongRule(repr(rule), Message("list must be a rule of its own, with a file"))
    if not colon or kind not in _KINDS or not value:
        kinds = ", ".join((*_KINDS, "list", *ANSWER_KINDS))
        raise WrongRule(repr(rule), Message("must be KIND:VALUE, where KIND is one of {kinds}", kinds=kinds))
    return _KINDS[kind](value)


def _composed(operator: str, tests: list[Test], rule: str) -> Test:
    if not tests or (operator == "not" and len(tests) != 1):
        what = Message("one rule") if operator == "not" else Message("rules")
        raise WrongRule(repr(rule), Message("{operator} needs {what} in parentheses", operator=operator, what=what))
    if operator == "not":
        return lambda url: not tests[0](url)
    if len(tests) == 2:  # without a generator, which takes longer than most tests
        one, other = tests
        return (lambda url: one(url) and other(url)) if operator == "and" else (lambda url: one(url) or other(url))
    combine = all if operator == "and" else any
    return lambda url: combine(test(url) for test in tests)


def _arguments(text: str) -> list[str]:
    """Split at commas that are not inside brackets of any kind, nor behind a backslash."""
    parts, depth, start, escaped = [], 0, 0, False
    for position, character in enumerate(text):
        # A backslash escapes one character; the flag falls with that character.
        if escaped or character == "\\":
            escaped = not escaped
            continue
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


_NOT_OF_A_NAME = re.compile(r"[\s/?#@(),\\]|:(?!.*\]$)")
"""Characters that would make more than a host of `http://VALUE/`; colons occur in addresses alone."""


_PLAIN_NAME = re.compile(r"(?!.*xn--)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}")
"""Names that are canonical already, as most in a list are: they need no parser."""


def _name(kind: str, value: str) -> str:
    """Return the canonical form of a host name or its end: lower case, `xn--` for other scripts, no final dot."""
    value = value.lstrip(".") if kind != "host" else value
    if _PLAIN_NAME.fullmatch(value):
        return value
    url = None if _NOT_OF_A_NAME.search(value) else canonicalize(f"http://{value.rstrip('.')}/")
    if url is None:
        raise WrongRule(f"'{kind}:{value}'", Message("must be a host name, such as example.org"))
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
    # `_name` removes the dot; without it `suffix:.br` would match a host that ends in `nobr`.
    dot = "." if value.startswith(".") else ""
    ending = dot + _name("suffix", value)
    return lambda url: host_of(url).endswith(ending)


def _beginning(value: str) -> str:
    beginning = canonicalize(value)
    if beginning is None:
        raise WrongRule(f"'prefix:{value}'", Message("must be an http or https URL"))
    return beginning


def _prefix(value: str) -> Test:
    beginning = _beginning(value)
    return lambda url: url.startswith(beginning)


def _regex(value: str) -> Test:
    try:
        return compile_test(value)
    except ValueError as error:
        raise WrongRule(f"'regex:{value}'", message_of(error)) from error


def _query(value: str) -> Test:
    if value not in {"no", "yes"}:
        raise WrongRule(f"'query:{value}'", Message("must be query:no or query:yes"))
    return lambda url: ("?" in url) == (value == "yes")


def _python(value: str) -> Test:
    """Import a function of the user's own, or one that a package offers as `py:NAME`.

    It is code the operator names, never text that came from the web.
    """
    module, _, name = value.rpartition(".")
    if not module and (offered := load_extension(extensions.SCOPE_RULES, value)) is not None:
        return cast(Test, offered)
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the operator's own and may fail in any way when it is loaded
        raise WrongRule(f"'py:{value}'", f"cannot be imported: {error}") from error
    if not callable(function):
        raise WrongRule(f"'py:{value}'", "is not a function")
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
