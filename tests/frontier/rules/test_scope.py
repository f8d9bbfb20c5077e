"""Which URLs belong to a collection (A8, C4)."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from teia.errors import ConfigError
from teia.frontier.rules.scope import Rulebook, Scope, compile_scope, seeds_scope


def scope(*include: str, exclude: tuple[str, ...] = (), types: tuple[str, ...] = (), queries: bool = True) -> Scope:
    return compile_scope(include, exclude, types=types, queries=queries)


# ---- each kind ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("host:example.org", "http://example.org:8080/x", "http://www.example.org/"),
        ("host:EXAMPLE.org.", "https://example.org/", "http://example.org.br/"),
        ("host:Bücher.example", "http://xn--bcher-kva.example/", "http://bucher.example/"),
        ("host:127.0.0.1", "http://127.0.0.1:81/", "http://127.0.0.2/"),
        ("host:[::1]", "http://[::1]:81/", "http://[::2]/"),
        ("domain:example.org", "http://a.b.example.org/", "http://notexample.org/"),
        ("domain:.example.org", "http://example.org/", "http://example.org.evil.test/"),
        ("suffix:.br", "http://example.com.br/", "http://br.example.com/"),
        ("suffix:.BR", "http://example.br/", "http://br/"),
        ("suffix:ufmg.br", "http://www.dcc.ufmg.br/", "http://ufmg.com/"),
        ("prefix:http://example.org/docs/", "http://example.org/docs/a", "https://example.org/docs/a"),
        ("prefix:HTTP://Example.org:80/docs", "http://example.org/docs2", "http://example.org/doc"),
        (r"regex:/\d{4}/", "http://example.org/2026/x", "http://example.org/20/x"),
        ("regex:^https:", "https://example.org/", "http://example.org/https:"),
        ("query:yes", "http://example.org/?a", "http://example.org/a"),
    ],
)
def test_each_kind_of_rule(rule: str, inside: str, outside: str) -> None:
    assert scope(rule).allows(inside)
    assert not scope(rule).allows(outside)


def test_no_rule_lets_everything_in() -> None:
    assert scope().allows("http://example.org/?a=b")


def test_rules_of_a_list_are_or() -> None:
    both = scope("host:a.test", "host:b.test")
    assert both.allows("http://a.test/")
    assert both.allows("http://b.test/")
    assert not both.allows("http://c.test/")


def test_exclude_beats_include() -> None:
    rules = scope("domain:example.org", exclude=("prefix:http://example.org/private/", "host:old.example.org"))
    assert rules.allows("http://example.org/public/")
    assert not rules.allows("http://example.org/private/x")
    assert not rules.allows("http://old.example.org/")


def test_exclude_works_without_include() -> None:
    assert scope(exclude=("suffix:.test",)).allows("http://example.org/")
    assert not scope(exclude=("suffix:.test",)).allows("http://example.test/")


def test_blanks_around_a_rule_are_forgiven() -> None:
    rules = scope(" host:example.org ", " type:text/html", " query:no ", exclude=(" host:b.test ",))
    assert rules.allows("http://example.org/")
    assert rules.media_types == {"text/html"}
    assert not rules.queries


# ---- restrictions ---------------------------------------------------------------------------------------------------


def test_query_no_restricts_instead_of_adding() -> None:
    rules = scope("host:example.org", "query:no")
    assert rules.allows("http://example.org/a")
    assert not rules.allows("http://example.org/a?b")
    assert not rules.allows("http://other.test/a")


def test_query_no_alone_lets_every_host_in() -> None:
    assert scope("query:no").allows("http://other.test/a")


def test_setting_against_queries_is_the_same() -> None:
    assert not scope("host:example.org", queries=False).allows("http://example.org/?a")


def test_queries_can_be_excluded() -> None:
    assert not scope(exclude=("query:yes",)).allows("http://example.org/?a")


def test_types_restrict_answers_and_not_urls() -> None:
    rules = scope("host:example.org", "type:text/html", "type:Application/PDF", types=("text/plain",))
    assert rules.allows("http://example.org/picture.png")
    assert not rules.allows("http://other.test/page.html")
    assert [rules.allows_type(each) for each in ("text/html", "application/pdf", "text/plain")] == [True] * 3
    assert not rules.allows_type("image/png")
    assert scope().allows_type("image/png")


def test_languages_restrict_pages_whose_language_is_known() -> None:
    rules = scope("lang:pt", "lang:GL")
    assert rules.allows("http://other.test/")
    page = "http://other.test/"
    assert rules.allows_language(page, "pt")
    assert rules.allows_language(page, "gl")
    assert rules.allows_language(page, ""), "unknown is not another language"
    assert not rules.allows_language(page, "en")
    assert scope().allows_language(page, "en")


@pytest.mark.parametrize("rules", [("or(suffix:.pt, lang:pt)",), ("or(lang:pt, lang:gl)", "suffix:.pt")])
def test_a_domain_or_a_language_elsewhere(rules: tuple[str, ...]) -> None:
    """Tarântula's next scope: .pt, and Portuguese beyond it (T10)."""
    both = scope(*rules, exclude=("host:bad.test",))
    for url in ("http://a.pt/", "http://b.test/"):
        assert both.allows(url), "its language is known only when it was fetched"
        assert both.allows_language(url, "pt")
        assert both.allows_language(url, "")
    assert both.allows_language("http://a.pt/", "en")
    assert not both.allows_language("http://b.test/", "en")
    assert not both.allows("http://bad.test/")


def test_a_language_on_some_hosts_only() -> None:
    rules = scope("and(suffix:.ch, or(lang:fr, host:a.ch))", "host:b.test")
    assert not rules.allows("http://c.test/")
    assert [rules.allows_language(f"http://{host}/", "de") for host in ("a.ch", "c.ch", "b.test")] == [
        True,
        False,
        True,
    ]
    assert rules.allows_language("http://c.ch/", "fr")
    assert Rulebook(["or(suffix:.pt, lang:pt)"]).decide("http://b.test/").included_by == 0


@pytest.mark.parametrize("rule", ["not(lang:pt)", "and(suffix:.pt, not(or(lang:pt, host:a.test)))"])
def test_a_language_is_not_turned_round(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"lang must not be inside not"):
        scope(rule)


# ---- composed -------------------------------------------------------------------------------------------------------


def test_and_needs_all_or_needs_one_not_turns_round() -> None:
    rules = scope("and(domain:example.org, not(host:old.example.org), or(regex:^https:, query:no))")
    assert rules.allows("http://example.org/a")
    assert rules.allows("https://example.org/?a")
    assert not rules.allows("http://example.org/?a")
    assert not rules.allows("http://old.example.org/a")


def test_query_no_inside_a_composition_is_a_rule_like_others() -> None:
    rules = scope("and(host:a.test, query:no)", "host:b.test")
    assert not rules.allows("http://a.test/?x")
    assert rules.allows("http://b.test/?x")


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        (r"and(regex:/x{2,3}$, host:a.test)", "http://a.test/xxx", "http://a.test/x"),
        (r"and(regex:/[,;]$, host:a.test)", "http://a.test/,", "http://a.test/."),
        (r"and(regex:/(a|b)/, host:a.test)", "http://a.test/b/", "http://a.test/c/"),
        (r"and(regex:/\(x\,y$, host:a.test)", "http://a.test/(x,y", "http://a.test/xy"),
    ],
)
def test_brackets_and_commas_of_an_expression_stay_its_own(rule: str, inside: str, outside: str) -> None:
    assert scope(rule).allows(inside)
    assert not scope(rule).allows(outside)


def test_composition_works_in_exclude_and_nests() -> None:
    rules = scope(exclude=("or(and(host:a.test,query:yes),not(not(host:b.test)))",))
    assert rules.allows("http://a.test/")
    assert not rules.allows("http://a.test/?x")
    assert not rules.allows("http://b.test/")


# ---- functions of the user's own ------------------------------------------------------------------------------------


@pytest.fixture
def own_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_filters")
    vars(module).update(short=lambda url: len(url) < 25, number=7)
    monkeypatch.setitem(sys.modules, "own_filters", module)


@pytest.mark.usefixtures("own_filters")
def test_function_of_ones_own_filters() -> None:
    rules = scope("and(py:own_filters.short, host:example.org)")
    assert rules.allows("http://example.org/")
    assert not rules.allows("http://example.org/" + "x" * 20)


@pytest.mark.usefixtures("own_filters")
@pytest.mark.parametrize(
    "value", ["own_filters.missing", "own_filters.number", "no_such_module.x", "short", ".relative.x", "own_filters."]
)
def test_function_that_is_not_there_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match=rf"scope rule 'py:{value}': "):
        scope(f"py:{value}")


def test_module_that_fails_when_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_filters.py").write_text("1 / 0", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'py:broken_filters\.x': cannot be imported: division by zero"):
        scope("py:broken_filters.x")


# ---- wrong rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "example.org",
            "must be KIND:VALUE, where KIND is one of host, domain, suffix, prefix, regex, query, py, list, type, lang",
        ),
        ("hots:example.org", "must be KIND:VALUE"),
        ("host:", "must be KIND:VALUE"),
        ("", "must be KIND:VALUE"),
        ("host:example.org/x", "must be a host name"),
        ("host:example.org:80", "must be a host name"),
        ("host:a b", "must be a host name"),
        ("domain:http://example.org", "must be a host name"),
        ("suffix:.", "must be a host name"),
        ("prefix:example.org/x", "must be an http or https URL"),
        ("prefix:ftp://example.org/", "must be an http or https URL"),
        ("regex:(", "missing )"),
        ("query:maybe", "must be query:no or query:yes"),
        ("type:", "must name a media type"),
        ("lang: ", "must name a language"),
        ("and()", "and needs rules in parentheses"),
        ("not(host:a.test, host:b.test)", "not needs one rule in parentheses"),
        ("not()", "not needs one rule in parentheses"),
        ("and(host:a.test", "must be KIND:VALUE"),
        ("and(host:a.test, )x", "must be KIND:VALUE"),
        ("and(host:a.test),or(host:b.test)", "must be a host name"),
        ("and(type:text/html, host:a.test)", "type must be a rule of its own in the include list"),
    ],
)
def test_wrong_rule_is_named_with_what_is_allowed(rule: str, says: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        scope(rule)
    message = str(refusal.value)
    assert says in message
    assert message.startswith("scope rule ")
    assert "\n" not in message


@pytest.mark.parametrize("rule", ["type:text/html", "lang:pt", "or(lang:pt, host:a.test)"])
def test_answers_cannot_be_excluded(rule: str) -> None:
    with pytest.raises(
        ConfigError, match=r"scope rule '(type|lang):.*': .* must be a rule of its own in the include list"
    ):
        scope(exclude=(rule,))


def test_composition_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="too deeply"):
        scope("not(" * 1_000 + "host:a.test" + ")" * 1_000)


# ---- the scope of the seeds -----------------------------------------------------------------------------------------


def test_collection_without_rules_stays_on_the_hosts_of_its_seeds() -> None:
    rules = seeds_scope(["http://b.test/x", "https://a.test:8080/", "http://b.test/y", "http://[::1]/"])
    assert rules == ["host:[::1]", "host:a.test", "host:b.test"]
    assert scope(*rules).allows("https://b.test/z")
    assert not scope(*rules).allows("https://c.test/")
