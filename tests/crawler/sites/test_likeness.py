"""What pages say of two names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from teia.crawler.sites.aliases import (
    MAX_COMPARED,
    MAX_DIFFERENT,
    PageLikeness,
    add_evidence,
    choose_main,
    compare_pages,
    home_of,
    is_enough,
    is_hopeless,
    is_redirect,
    samples_of,
)
from teia.frontier.cell.alias_evidence import AliasPair, ComparedVisit, HostActivity

DAY_S = 86_400.0
PAGE = ComparedVisit("http://a.test/1", 200, b"text", 0b1111, "A title", "", "", "text/html", 0.0)
FAR = (1 << 40) - 1


def at(host: str, path: str = "/1", **changed: object) -> ComparedVisit:
    return replace(PAGE, url=f"http://{host}{path}", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (at("b.test"), PageLikeness.AGREES),
        (at("b.test", time_s=90 * DAY_S), PageLikeness.AGREES),
        (at("b.test", text=b"own name in it"), PageLikeness.AGREES),
        (at("b.test", text=b"x", title="Another"), PageLikeness.NOTHING),
        (at("b.test", text=b"x", simhash=0b0111), PageLikeness.NOTHING),
        (at("b.test", text=b"x", simhash=FAR), PageLikeness.DISAGREES),
        (at("b.test", text=b"x", simhash=FAR, time_s=2 * DAY_S), PageLikeness.NOTHING),
        (at("b.test", status=404), PageLikeness.DISAGREES),
        (at("b.test", status=503), PageLikeness.NOTHING),
        (at("b.test", status=0), PageLikeness.NOTHING),
        (at("b.test", media_type="text/css"), PageLikeness.NOTHING),
        (at("b.test", media_type="image/png", text=b"x", simhash=FAR), PageLikeness.NOTHING),
    ],
)
def test_what_one_page_says(other: ComparedVisit, expected: PageLikeness) -> None:
    assert compare_pages(PAGE, other) is expected
    assert compare_pages(other, PAGE) is expected


def test_two_pages_that_are_not_there_say_nothing() -> None:
    assert compare_pages(at("a.test", status=404), at("b.test", status=404)) is PageLikeness.NOTHING


def test_a_title_may_name_its_own_host() -> None:
    one, other = at("aaaa.test", text=b"1", title="Aaaa.test: news"), at("b.test", text=b"2", title="b.test: news")
    assert compare_pages(one, other) is PageLikeness.AGREES


def pair_with_evidence(*contents: int, different: int = 0) -> AliasPair:
    pair = AliasPair("a.test", "b.test", 0.0)
    for number, content in enumerate(contents):
        add_evidence(
            pair, f"/{number}", at("a.test", f"/{number}", simhash=content), at("b.test", f"/{number}", simhash=content)
        )
    for number in range(different):
        add_evidence(pair, f"/d{number}", at("a.test", f"/d{number}"), at("b.test", f"/d{number}", status=404))
    return pair


def test_the_same_page_everywhere_counts_once() -> None:
    assert is_enough(pair_with_evidence(1, 2, 3).evidence, 3)
    assert not is_enough(pair_with_evidence(1, 1, 1, 1, 2).evidence, 3)


def test_every_page_that_disagrees_asks_for_as_many_again() -> None:
    assert not is_enough(pair_with_evidence(1, 2, 3, different=1).evidence, 3)
    assert is_enough(pair_with_evidence(1, 2, 3, 4, 5, 6, different=1).evidence, 3)


def test_home_pages_that_disagree_weigh_twice() -> None:
    pair = pair_with_evidence(1, 2, 3, 4, 5, 6)
    add_evidence(pair, "/", at("a.test", "/"), at("b.test", "/", text=b"x", simhash=FAR))
    assert not is_enough(pair.evidence, 3)
    assert is_enough(pair.evidence, 2)
    add_evidence(pair, "/d", at("a.test", "/d"), at("b.test", "/d", status=404))
    assert is_hopeless(pair.evidence)


def test_a_page_is_counted_as_evidence_once() -> None:
    pair = pair_with_evidence(1)
    assert not add_evidence(pair, "/0", at("a.test", "/0"), at("b.test", "/0", status=404))
    assert pair.evidence.different == []


def test_some_disagreement_or_no_end_is_hopeless() -> None:
    assert not is_hopeless(pair_with_evidence(1, different=MAX_DIFFERENT - 1).evidence)
    assert is_hopeless(pair_with_evidence(different=MAX_DIFFERENT).evidence)
    assert is_hopeless(pair_with_evidence(*[1] * MAX_COMPARED).evidence)


def moved(path: str, origin: str = "https://b.test", to: str | None = None) -> ComparedVisit:
    return at("a.test", path, status=301, text=b"", simhash=0, redirect_to=f"{origin}{to or path}")


def test_redirects_to_the_same_path_are_noticed_with_their_target() -> None:
    pair = AliasPair("a.test", "b.test", 0.0)
    for path in ("/1", "/2", "/3"):
        assert add_evidence(pair, path, moved(path), at("b.test", path))
    assert is_redirect(pair.evidence, 3)
    assert (pair.evidence.redirecting, pair.evidence.origin) == ("a.test", "https://b.test")


def test_redirects_to_other_paths_ways_or_origins_are_no_alias() -> None:
    pair = AliasPair("a.test", "b.test", 0.0)
    add_evidence(pair, "/1", moved("/1", to="/"), at("b.test", "/1"))
    assert pair.evidence.redirects == []
    add_evidence(pair, "/2", moved("/2"), at("b.test", "/2"))
    add_evidence(pair, "/3", moved("/3", origin="http://b.test:81"), at("b.test", "/3"))
    back = replace(moved("/4"), url="http://b.test/4", redirect_to="http://a.test/4")
    add_evidence(pair, "/4", at("a.test", "/4"), back)
    assert len(pair.evidence.redirects) == 1
    assert not is_redirect(pair.evidence, 1)


def test_the_home_page_is_kept_first_for_another_look() -> None:
    pair = pair_with_evidence(1, 2, 3, 4, 5, 6)
    add_evidence(pair, "/", at("a.test", "/"), at("b.test", "/"))
    assert pair.evidence.tails[:2] == ["/", "/0"]
    assert len(pair.evidence.tails) <= 5
    assert [home_of(tail) for tail in ("/a/b", "s/a?b", ":81/x", "s:81/")] == ["/", "s/", ":81/", "s:81/"]


def test_samples_are_found_by_path_content_and_place() -> None:
    here = samples_of(at("a.test"), "a.test", "127.0.0.1")
    there = samples_of(at("b.test"), "b.test", "127.0.0.1")
    assert [place for place, _ in here] == ["a.test", "127.0.0.1"]
    assert here[1] == there[1]
    assert here[0] != there[0]
    assert not set(here) & set(samples_of(at("a.test", "/2"), "a.test", "127.0.0.1"))
    assert not set(here) & set(samples_of(at("a.test", simhash=5), "a.test", "127.0.0.1"))


@pytest.mark.parametrize(
    ("named", "host", "other", "main"),
    [
        (-1, HostActivity(90, "", 0), HostActivity(4, "", 9), "www.x.test"),  # of which we have much more
        (-1, HostActivity(9, "", 9), HostActivity(4, "", 0), "x.test"),  # which its pages call canonical
        (0, HostActivity(9, "", 5), HostActivity(4, "", 2), "www.x.test"),  # which is linked to more
        (0, HostActivity(4, "", 2), HostActivity(4, "", 2), "x.test"),  # which is shorter
    ],
)
def test_which_name_is_the_main_one(named: int, host: HostActivity, other: HostActivity, main: str) -> None:
    pair = AliasPair("www.x.test", "x.test", 0.0)
    pair.evidence.named = named
    assert choose_main(pair, host, other)[0] == main


def test_canonical_links_name_the_main_one() -> None:
    pair = AliasPair("a.test", "b.test", 0.0)
    for number in range(3):
        path = f"/{number}"
        canonical = f"https://b.test{path}"
        add_evidence(pair, path, at("a.test", path, canonical=canonical), at("b.test", path, canonical=canonical))
    assert pair.evidence.named == -3
