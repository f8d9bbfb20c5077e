"""Other spellings of one URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.frontier.traps.spellings import plain_of

TOKEN = "8f3a9c0d1e2f3a4b5c6d7e8f"


@pytest.mark.parametrize(
    ("tail", "plain", "differs_in"),
    [
        ("/News/Item.HTML", "/news/item.html", "letter case"),
        ("/news/index.html", "/news/", "index file"),
        ("/NEWS/Default.aspx", "/news/", "index file, letter case"),
        ("/p?b=1&a=2", "/p?a=2&b=1", "order of parameters"),
        ("/p?a=2&b=1&a=2", "/p?a=2&b=1", "order of parameters"),
        (f"/p?token={TOKEN}&id=4", "/p?id=4", "session"),
        (f"/p?token={TOKEN}", "/p", "session"),
        (f"/{TOKEN}/p/1", "/p/1", "session"),
        (":8800/A", ":8800/a", "letter case"),
    ],
)
def test_plainest_spelling_is_found_and_the_difference_named(tail: str, plain: str, differs_in: str) -> None:
    spelling = plain_of(tail)
    assert spelling is not None
    assert (spelling.plain, spelling.differs_in) == (plain, differs_in)


def test_segment_before_a_token_may_belong_to_it() -> None:
    spelling = plain_of(f"/s/{TOKEN}/news/1.html")
    assert spelling is not None
    assert (spelling.plain, spelling.bare) == ("/s/news/1.html", "/news/1.html")


@pytest.mark.parametrize(
    "tail", ["/", "/news/item-12.html", "/a%C3%A7/b", "/p?a=1&b=2", "/p?id=4", f"/doc/{TOKEN}", "/reindex.html", "/a?b"]
)
def test_plain_tails_are_left_alone(tail: str) -> None:
    assert plain_of(tail) is None


@given(st.lists(st.sampled_from(["A", "b", "/", "?", "&", "=1", "index.html", TOKEN, "%C3"]), max_size=12).map("".join))
def test_plainest_spelling_has_no_plainer_one(text: str) -> None:
    spelling = plain_of(f"/{text}")
    assert spelling is None or plain_of(spelling.plain) is None
