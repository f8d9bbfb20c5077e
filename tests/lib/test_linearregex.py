"""Expressions take time in proportion to the text, mean what Python's mean, and say what they cannot."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.lib.linearregex import any_of, compile_test, size_of, to_re2

HARD = [
    r"(?:ABCDEFGHIJKLMNOPQRSTUVWXY)?(Z|Z)+#",
    r"(a+)+$",
    r"(x+x+)+y",
    r"([a-z]+)*!$",
    r"^http://h.test/(\w+-?)*$",
    r"(.*)*(.*)*(.*)*#",
    r"(x|y)*x(x|y){15}z",
]
USUAL = [
    r"/busca\?", r"\.(jpg|png)$", r"[?&]page=\d+", r"/20\d\d/\d\d/", "", "^https:", "logout", r"^http://a\.test/$",
    r"(?i)\.PDF$", r"a{,3}b", r"a{2}", r"[^]a]/", r"[{,3}]", r"\Z", r"a\Z", r"[]{,2}]", r"(?P<year>\d{4})/(?P<m>\d\d)",
    r"x*?y", r"\bnews\b", r"\u0061b", r"a(?#a comment)b", r"\/x", r"a|b|", r"\\", r"\\{,2}", r"[\]{,2}]x",
    r"a.c", r"(?s)a.b", r"%C3%A9", r"a\,b", r"a\-b", "é",
]  # fmt: skip


@pytest.mark.parametrize("expression", HARD)
def test_no_expression_is_slow(expression: str) -> None:
    """In a process of its own: an engine that tries every way could not be interrupted."""
    texts = [f"http://h.test/{sign * 2_000}{end}" for sign in "aZxy-" for end in ("!", "", "#?")]
    code = f"from teia.lib.linearregex import compile_test\nt = compile_test({expression!r})\n[t(x) for x in {texts!r}]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_match_takes_time_in_proportion_to_the_text() -> None:
    test = compile_test(HARD[0])
    test("Z")
    took_s = []
    for chars in (20_000, 200_000):
        before_s = time.process_time()
        assert not test("Z" * chars)
        took_s.append(time.process_time() - before_s)
    assert took_s[1] < 40 * max(took_s[0], 0.001)


@pytest.mark.parametrize("expression", USUAL)
def test_an_expression_means_what_it_means_in_python(expression: str) -> None:
    chance, test, peer = random.Random(7), compile_test(expression), re.compile(expression)
    signs = "ab/.?=&0129xyABPDF%C3A9-{},\\]é#news c:htps"
    texts = ["".join(chance.choices(signs, k=chance.randrange(12))) for _ in range(2_000)]
    texts += ["http://a.test/", "https://b/x.jpg", "https://b/x.PNG", "/2026/11/", "a.PDF", "aab", "ab", "abc", "a,b"]
    for text in texts:
        assert test(text) == (peer.search(text) is not None), (expression, to_re2(expression), text)


@settings(max_examples=300, deadline=None)
@given(st.text("ab.^$|\\/-", max_size=8), st.text("ab./-$^|", max_size=8))
def test_what_both_engines_take_means_the_same(expression: str, text: str) -> None:
    try:
        peer, test = re.compile(expression), compile_test(expression)
    except (re.error, ValueError):
        return
    if re.search(r"\\[A-Za-z]", expression):
        return
    assert test(text) == (peer.search(text) is not None)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("(?=a)b", "uses look-ahead or look-behind; use two rules instead, such as and(regex:A, not(regex:B))"),
        ("(?!a)b", "uses look-ahead"), ("(?<=a)b", "look-behind"), ("(?<!a)b", "look-behind"),
        (r"(a)\1", "back-reference"), ("(?P<x>a)(?P=x)", "back-reference"), ("(a)?(?(1)b|c)", "back-reference"),
        ("(?>a+)b", "atomic group"), ("a++b", "possessive"), ("a*+b", "possessive"), ("a{1,2}+", "possessive"),
        ("(?x) a", "an unknown flag"), ("(?a)b", "an unknown flag"),
        ("a{1001}", "more than 1,000 times"), ("((a{30}){30}){30}", "nested repetitions"),
        (r"(.{900}a)(.{900}b)(.{900}c)(.{900}d)", "too large"), ("(", "missing )"), ("[a", "missing ]"),
        (r"a\e", "invalid escape sequence"), (r"(.{0,900}a){3}", "nested repetitions"),
        ("a\ud800(b|c)", "not valid UTF-8"),
    ],
)  # fmt: skip
def test_what_cannot_be_matched_in_one_pass_is_refused_with_what_to_do(expression: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        compile_test(expression)
    assert said in str(raised.value)


def test_many_expressions_are_matched_in_one_pass() -> None:
    tests = any_of([r"/a\d", "(?i)/b[x-z]", "/c[0-9]", "logout"])
    assert len(tests) == 2
    for text, is_found in {"/a1": True, "/BY": True, "/C1": False, "/c1": True, "logout": True, "/": False}.items():
        assert any(test(text) for test in tests) == is_found


def test_expressions_that_do_not_fit_together_are_matched_apart() -> None:
    large = "(?:" + "|".join(f"{number}x[ab]" for number in range(1_500)) + ")"
    assert size_of(large) > 2_000
    tests = any_of([large, large.replace("x", "y"), large.replace("x", "z")])
    assert len(tests) == 3
    assert any(test("/999yb") for test in tests)
    assert not any(test("/999wb") for test in tests)


def test_the_wrong_one_of_many_is_named() -> None:
    with pytest.raises(ValueError, match="uses look-ahead"):
        any_of([r"/a\d", "(?!x)y", "/c[0-9]"])
