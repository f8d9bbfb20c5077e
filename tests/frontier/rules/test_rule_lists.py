"""Words, lists of them in files, and thousands of names matched at once (A10)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import ConfigError
from teia.frontier.rules.rule_lists import RuleTable, read_list, rules_of_line, rules_of_word
from teia.frontier.rules.scope import TABLE_FROM, compile_scope, why_out_of_scope


def listed(folder: Path, *lines: str) -> str:
    path = folder / "blocked.txt"
    path.write_text("\n".join(lines), "utf-8")
    return f"list:{path}"


# ---- what people write ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "rules"),
    [
        ("example.org", ["domain:example.org"]),
        ("  example.org ", ["domain:example.org"]),
        ("https://example.org/private/", ["prefix:https://example.org/private/"]),
        ("HTTP://example.org/", ["prefix:HTTP://example.org/"]),
        ("example.org/a", ["prefix:http://example.org/a", "prefix:https://example.org/a"]),
        ("example.org:8080/a", ["prefix:http://example.org:8080/a", "prefix:https://example.org:8080/a"]),
        ("host:example.org", ["host:example.org"]),
        (r"regex:/\d+/", [r"regex:/\d+/"]),
        ("and(host:a.test, query:yes)", ["and(host:a.test, query:yes)"]),
    ],
)
def test_a_word_stands_for_rules(word: str, rules: list[str]) -> None:
    assert rules_of_word(word) == rules
    assert rules_of_line(word) == rules


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("", []),
        ("# asked us to", []),
        ("example.org  # since March", ["domain:example.org"]),
        ("http://example.org/#top", ["prefix:http://example.org/#top"]),
        ("0.0.0.0 ads.example.org", ["host:ads.example.org"]),
        ("127.0.0.1\tads.example.org ads2.example.org # both", ["host:ads.example.org", "host:ads2.example.org"]),
        ("::1 localhost", []),
        ("0.0.0.0 0.0.0.0", []),
    ],
)
def test_a_line_of_a_list(line: str, rules: list[str]) -> None:
    assert rules_of_line(line) == rules


def test_a_list_is_read_whatever_its_line_ends_and_marks(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"\xef\xbb\xbfa.test\r\nb.test\r\n\r\na.test\r\n")
    assert read_list(path) == ("domain:a.test", "domain:b.test")


# ---- in a scope -----------------------------------------------------------------------------------------------------


def test_a_list_excludes_what_its_lines_say(tmp_path: Path) -> None:
    rule = listed(tmp_path, "a.test", "host:b.test", "http://c.test/private", "regex:logout", "d.test/x")
    scope = compile_scope(["suffix:.test"], [rule])
    for url in (
        "http://a.test/",
        "https://deep.below.a.test/x",
        "http://b.test/",
        "http://c.test/private/x",
        "http://z.test/logout",
        "https://d.test/x/y",
    ):
        assert not scope.allows(url), url
    for url in ("http://www.b.test/", "http://c.test/", "https://c.test/private", "http://nota.test/"):
        assert scope.allows(url), url


def test_a_list_includes_too_and_an_empty_one_includes_nothing(tmp_path: Path) -> None:
    assert compile_scope([listed(tmp_path, "a.test")]).allows("http://www.a.test/")
    assert not compile_scope([listed(tmp_path, "# nothing yet")]).allows("http://a.test/")


def test_a_wrong_line_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"blocked\.txt: scope rule 'domain:not a name': must be a host name"):
        compile_scope((), [listed(tmp_path, "a.test", "not a name")])


def test_a_list_that_is_not_there_or_names_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere': cannot be read: No such file"):
        compile_scope((), [f"list:{tmp_path}/nowhere"])
    with pytest.raises(ConfigError, match="must not contain another list"):
        compile_scope((), [listed(tmp_path, "list:/etc/hosts")])
    with pytest.raises(ConfigError, match="must be a rule of its own, with a file"):
        compile_scope((), ["not(list:x)"])
    with pytest.raises(ConfigError, match="must be a rule of its own, with a file"):
        compile_scope((), ["list:"])


def test_the_rule_that_keeps_a_url_out_is_named(tmp_path: Path) -> None:
    rule = listed(tmp_path, "a.test")
    why = "http://a.test/", ["suffix:.test"], ["host:b.test", rule], True
    assert why_out_of_scope(*why) == f"{rule} excludes it"
    assert why_out_of_scope("http://c.org/", ["suffix:.test"], [], True) == "it matches no rule of scope.include"
    assert why_out_of_scope("http://c.test/?a", ["suffix:.test"], [], False) == "it has a query string"
    assert why_out_of_scope("http://c.test/?a", ["suffix:.test"], [], True) == ""


# ---- many of them ---------------------------------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "ab", "c"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
URLS = st.builds(lambda name, path: f"http://{name}.test/{path}", NAMES, st.text("ab/", max_size=5))


@given(
    st.lists(NAMES.map(lambda name: f"host:{name}.test"), max_size=5),
    st.lists(NAMES.map(lambda name: f"domain:{name}.test"), max_size=5),
    st.lists(URLS.map(lambda url: f"prefix:{url}"), max_size=8),
    st.lists(URLS, min_size=1, max_size=20),
)
def test_many_rules_together_judge_like_each_alone(
    hosts: list[str], domains: list[str], prefixes: list[str], urls: list[str]
) -> None:
    rules = [*hosts, *domains, *prefixes, *[f"host:never{n}.test" for n in range(TABLE_FROM)]]
    together = compile_scope((), rules)
    assert len(together.exclude) == 1
    for url in urls:
        assert together.excludes(url) == any(compile_scope((), [rule]).excludes(url) for rule in rules)


def test_time_to_match_does_not_grow_with_the_list() -> None:
    """A hundred thousand entries cost about what a thousand do; one after the other would cost a hundred times more."""

    def seconds(entries: int) -> float:
        names = [f"host{n}.example" for n in range(entries)]
        table = RuleTable(names, names, [f"http://p{n}.example/x" for n in range(entries)])
        began = time.thread_time()
        for _ in range(2_000):
            assert not table("http://www.other.example.org/some/page")
        return time.thread_time() - began

    few = min(seconds(1_000) for _ in range(3))
    many = min(seconds(100_000) for _ in range(3))
    assert many < 10 * few
