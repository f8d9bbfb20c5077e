"""Shapes of URLs that have no end, and ordinary URLs that look a little like them (T9, A8)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.config.sections import LimitSettings
from teia.frontier.traps.url_shapes import TRAP_RULES, trap_of
from teia.urls import canonicalize
from tests.timing import within

LIMITS = LimitSettings()

TRAPS = {
    "http://example.org/a/a/a/": "a path segment three times in a row",
    "http://example.org/a/a/a": "a path segment three times in a row",
    "https://example.org/x/img/img/img/logo.png": "a path segment three times in a row",
    "http://example.org/a/a/a?x=1": "a path segment three times in a row",
    "http://e/ab/ab/ab": "a path segment three times in a row",
    "http://example.org/a/b/a/b/a/b/": "a pair of path segments three times in a row",
    "http://example.org/docs/en/fr/en/fr/en/fr/index.html": "a pair of path segments three times in a row",
    "http://example.org/a/b/c/a/b/c/a/b/c/": "path segments that go round three times",
    "http://example.org/x/a/b/c/d/e/a/b/c/d/e/a/b/c/d/e?q=1": "path segments that go round three times",
    "http://example.org/?" + "&".join(["a=1"] * 9): "the same parameter more than eight times in a row",
    "http://example.org/s?q=x&"
    + "&".join(f"f={n}" for n in range(9)): "the same parameter more than eight times in a row",
    "http://example.org/" + "x" * 2_048: "longer than 2048 characters",
    "http://example.org" + "".join(f"/{n}" for n in range(21)): "more than 20 path segments",
    "http://example.org/" + "/" * 21: "more than 20 path segments",
}

ORDINARY = [
    "http://example.org/",
    "https://s/",
    "http://example.org/2026/11/15/noticias-do-dia/",
    "http://example.org/2011/11/11/11-11-11.html",
    "http://example.org/a/a/",
    "http://example.org/a/a",
    "http://example.org/new-york/new-york/hotels",
    "http://example.org/a/a/ab",
    "http://example.org/ab/a/a/b",
    "https://docs.example.org/en/latest/api/python/reference/modules/core/types/strings/index.html",
    "https://docs.python.org/3/library/asyncio-task.html?highlight=task",
    "http://example.org/a/b/a/b/",
    "http://example.org/a/b/a/b/c",
    "http://example.org/a/b/c/a/b/c/",
    "http://example.org/src/main/java/org/example/main/Main.java",
    "http://example.org/wiki/C/C++/C",
    "http://example.org/1/1/2/3/5/8/13/21/34",
    "http://example.org/tiles/0/0/0.png",
    "http://example.org/search?q=teia&page=2",
    "http://example.org/search?page=1&page=2",
    "http://example.org/shop?color=red&color=blue&color=green&size=m",
    "http://example.org/form?" + "&".join(["tag=x"] * 8),
    "http://example.org/compare?ids=1,2,3,4,5,6,7,8,9,10,11,12",
    "http://example.org/?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1",
    "https://example.org:8443/login?next=/a/b/c",
    "http://example.org/calendar/2026-11",
    "http://example.org/forum/viewtopic.php?f=3&t=1234&start=20",
    "http://www.example.com.br/economia/economia-verde/",
    "http://example.org/~maria/public/public/",
    "http://example.org/pt/pt-br/pt/",
    "http://example.org/v1/v1.1/v1.1.1/",
    "http://example.org/" + "x" * 2_000,
    "http://example.org" + "".join(f"/{n}" for n in range(20)),
    "http://example.org" + "".join(f"/{n}" for n in range(20)) + "/",
    "http://127.0.0.1:8080/page/1",
    "http://[2001:db8::1]/page/1",
]


@pytest.mark.parametrize(("url", "why"), TRAPS.items())
def test_trap_is_seen_and_named(url: str, why: str) -> None:
    assert trap_of(url, LIMITS) == why


@pytest.mark.parametrize("url", ORDINARY)
def test_ordinary_url_is_no_trap(url: str) -> None:
    assert canonicalize(url) == url, "only canonical URLs are judged"
    assert trap_of(url, LIMITS) is None


def test_growing_paths_end_soon() -> None:
    """A page that links to `a/b/` relative to itself is followed a few times, not for ever."""
    for step in ("a/", "a/b/", "a/b/c/"):
        depth = next(n for n in range(1, 100) if trap_of("http://example.org/" + step * n, LIMITS))
        assert depth <= 7


def test_limits_come_from_the_settings() -> None:
    limits = LimitSettings(url_chars=64, url_segments=2)
    assert trap_of("http://example.org/" + "x" * 64, limits) == "longer than 64 characters"
    assert trap_of("http://example.org/1/2/3", limits) == "more than 2 path segments"
    assert trap_of("http://example.org/1/2/", limits) is None


def test_hostile_urls_are_judged_quickly() -> None:
    chance = random.Random(1)
    shapes = [
        "/" + "a" * 1_000 + "/" + "a" * 1_000,
        "/" + "a/" * 9 + "b" * 1_900,
        "/?" + "a=&" * 670,
        "/?" + "&" * 2_000,
    ]
    shapes += ["/" + "".join(chance.choice("/a?=&") for _ in range(2_000)) for _ in range(50)]
    shapes += ["/?" + "&".join(f"{'n' * 40}=1" for _ in range(8)) + "&" + "x" * 1_500]
    within(1, lambda: [trap_of("http://example.org" + shape, LIMITS) for shape in shapes])


@given(
    st.lists(st.sampled_from(["/", "/a", "/a/b", "/a/b/", "?", "&p=1", "&", "xyz"]), max_size=12).map("".join),
    st.integers(1, 6),
    st.integers(15, 60),
)
def test_no_trap_passes_for_being_short(target: str, segments: int, chars: int) -> None:
    limits = LimitSettings(url_segments=segments, url_chars=chars)
    url = f"http://a.test/{target}"
    path = f"/{target}".partition("?")[0]
    is_long = len(url) > chars or path.count("/") - path.endswith("/") > segments
    repeats = any(rule.expression.search(f"/{target}") for rule in TRAP_RULES)
    assert (trap_of(url, limits) is not None) == (is_long or repeats)
