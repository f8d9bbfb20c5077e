"""The short way to a canonical URL gives what the parser gives."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teia.parse.html.base import MAX_CACHED, Base
from teia.urls import DEFAULT_RULES, resolve

BASES = [
    "http://a.test/",
    "https://a.test:8443/x/y/z.html?q=/1/2",
    "http://a.test/dir/page.html",
    "http://a.test/a%20b/;v=1/c",
    "http://a.test//x//y",
    "http://[::1]:81/d/",
    "http://1.2.3.4/.well-known/x",
]
PIECES = [
    "/", "//", "..", "../", "./", ".", "?", "#", "&", "=", ":", "@", "%", "%2e", ";", "~", "+", ",", "!", "-", "_", " ",
    "\t", "\\", "é", "http://", "https://", "HTTP://", "https:", "b.test", "B.test", "xn--a", "a--b", "-a", "1.2.3.4",
    "0x7f.1", "x", "index.html", "utm_source=1", "sid=0123456789abcdef0", "PHPSESSID", "fbclid=", "q=1", "javascript:",
    "\ud800",
]  # fmt: skip


@given(st.sampled_from(BASES), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("http://a.test/a/b/c", "../../../../x")
@example("http://a.test/a/b/c", "..")
@example("http://a.test/a", "http://b.test/x?utm_source=1#y")
def test_every_reference_means_what_the_parser_says(base: str, reference: str) -> None:
    # A fragment is no part of a request, so not even a lone surrogate in it matters.
    expected = resolve(reference.partition("#")[0], base)
    assert Base(base).resolve(reference) == expected
    assert Base(base).resolve(reference) == expected, "the second time it is remembered"


@given(
    st.sampled_from(BASES),
    st.from_regex(r"(?:(?:\.\./){0,3}|/|https?://[a-z0-9.-]{1,9}/)[\w./~+,=@!?&#-]*", fullmatch=True),
)
@example("http://a.test/a", "https://b.test/x")  # was https://a.test/x with Python 3.11.2
def test_plain_references_mean_what_the_parser_says(base: str, reference: str) -> None:
    assert Base(base).resolve(reference) == resolve(reference, base)


@pytest.mark.parametrize("rules", [(), ("escapes",), (*DEFAULT_RULES, "index-file", "slashes"), ("sorted-query",)])
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_rules_that_were_requested_are_followed(rules: tuple[str, ...], reference: str) -> None:
    for base in BASES:
        assert Base(base, rules).resolve(reference) == resolve(reference.partition("#")[0], base, rules)


@given(
    st.lists(st.sampled_from(["x", "?", "?q=1", " ", ":", "http:", ".", "/", "\n", "#", "..", "y"]), max_size=5).map(
        "".join
    )
)
def test_what_is_remembered_of_a_page_is_true_of_the_next_in_its_folder(reference: str) -> None:
    for page in ("http://a.test/d/one.html", "http://a.test/d/two?x", "http://a.test/d/"):
        assert Base(page).resolve(reference) == resolve(reference.partition("#")[0], page)


def test_what_is_remembered_is_bounded() -> None:
    base = Base("http://many.test/")
    for number in range(3 * MAX_CACHED):
        base.resolve(f"/{number}")
        assert len(base.known) <= MAX_CACHED


def test_overlong_references_are_refused() -> None:
    assert Base("http://a.test/").resolve("/" + "x" * 70_000) is None
    assert Base("http://a.test/").resolve("/x#" + "y" * 70_000) is None
