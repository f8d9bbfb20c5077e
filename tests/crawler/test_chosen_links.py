"""The compiled loop over a page's links gives what the readable one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.crawler.child.messages import in_columns
from teia.crawler.links import RULE, FrontierUrl, LinkDecision, LinkRefusal, evaluate_links
from teia.frontier.cell.schema import AS_SITEMAP
from teia.lib.message import Message
from teia.records import Link, LinkKind
from tests.crawler import plain_links

DECISIONS: dict[str, LinkDecision] = {
    "http://a.test/": FrontierUrl("a.test", 1, "/"),
    "http://a.test/x": FrontierUrl("a.test", -(1 << 63), "/x"),
    "http://b.test/": FrontierUrl("b.test", (1 << 63) - 1, "/"),
    "http://a.test/file.zip": LinkRefusal.UNINDEXABLE,
    "http://elsewhere.test/": LinkRefusal.OUT_OF_SCOPE,
    "http://a.test/a/a/a/": Message("repeated {part}", part="a"),
    "http://a.test/calendar": "calendar",
}
LINKS = st.lists(
    st.builds(
        Link,
        st.sampled_from(sorted(DECISIONS)),
        st.sampled_from(LinkKind),
        st.sampled_from(["", "x", "y"]),
        st.booleans(),
    )
)


def check_requisite(url: str) -> LinkDecision:
    return LinkRefusal.OUT_OF_SCOPE if "b.test" in url else DECISIONS[url]


@given(LINKS, st.booleans(), st.booleans(), st.sampled_from([0, AS_SITEMAP]))
def test_links_are_merged_and_chosen_as_in_the_readable_form(
    links: list[Link], obeys: bool, too_deep: bool, also: int
) -> None:
    checks = DECISIONS.__getitem__, check_requisite
    expected = plain_links.evaluated(links, *checks, obeys=obeys, too_deep=too_deep)
    assert evaluate_links(links, *checks, obeys=obeys, too_deep=too_deep) == expected
    found = RULE.choose(links, *checks, obeys=obeys, too_deep=too_deep, also=also)
    assert found == plain_links.chosen(expected, also)
    assert all(type(rule) is str for rule in found[3]), "a message cannot be sent"
    assert in_columns(found[0]) == plain_links.columns(found[0])


def test_a_run_of_links_to_one_host_ends_where_another_host_comes_between() -> None:
    links = [("a.test", 1, "/1", 1, "", 1), ("b.test", 2, "/2", 0, "", 1), ("a.test", 3, "/3", 300, "", 255)]
    assert [(each.host, each.tails, each.linked) for each in in_columns(links)] == [
        ("a.test", ["/1"], b"\1"),
        ("b.test", ["/2"], b"\0"),
        ("a.test", ["/3"], b"\1"),
    ]


def test_what_is_no_link_is_refused() -> None:
    with pytest.raises(TypeError, match="named tuple"):
        evaluate_links(["http://a.test/"], str, str, obeys=True, too_deep=False)  # type: ignore[list-item]  # no link
    with pytest.raises(TypeError, match="named tuple"):
        RULE.choose([3], str, str, obeys=True, too_deep=False, also=0)  # type: ignore[list-item]  # no link
