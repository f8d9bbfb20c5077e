"""When a pattern of URLs is a trap, and when it only looks like one (T9)."""

from __future__ import annotations

from itertools import count

import pytest

from teia.frontier.traps.detector import (
    AT_FIRST,
    FIRST_CREDIT,
    FOLLOWED,
    FOLLOWED_ALONE,
    MAX_CONVICTIONS,
    MAX_CREDIT,
    OF_DOUBTFUL,
    SPELLING,
    TRIAL,
    PageImpression,
    Pattern,
    PatternState,
    WatchReason,
)

NEW = count(1)


def new() -> PageImpression:
    """A page that says something new."""
    return PageImpression(outline=next(NEW))


SEEN = PageImpression(cost=1.0, outline=7)
TWIN = PageImpression(cost=2.0, is_twin=True, outline=8)


def after(
    pattern: Pattern,
    *pages: PageImpression,
    own: int = 0,
    leads: int = 0,
    others: int = 0,
    linked_twice: int = 0,
    parent: Pattern | None = None,
    is_alone: bool = False,
) -> Pattern:
    """A commit for each page, each with so many links."""
    for page in pages:
        pattern.count_page(page)
        pattern.now.own += own
        pattern.now.leads += leads
        pattern.now.others += others
        pattern.now.linked_twice += linked_twice
        pattern.evaluate(parent, is_alone=is_alone)
    return pattern


def a(text: str) -> Pattern:
    return Pattern(1, text)


# ---- alike ----------------------------------------------------------------------------------------------------------


def test_pages_that_say_the_same_wait_behind_all_others() -> None:
    pattern = after(a("/cal/0/0"), *[SEEN] * 3, own=1)
    assert (pattern.state, pattern.reason) == (PatternState.WAITING, WatchReason.ALIKE)


def test_they_are_parked_if_they_still_beget_their_own_when_nothing_else_is_left() -> None:
    pattern = after(a("/cal/0/0"), *[SEEN] * 5, own=1)
    assert pattern.state is PatternState.PARKED


def test_finite_archive_of_alike_pages_is_let_go() -> None:
    pattern = after(a("/app/0"), *[SEEN] * 3)
    after(pattern, *[SEEN] * FOLLOWED)
    assert pattern.state is PatternState.OPEN, "its lists named all of it, so it begets nothing"


def test_one_page_with_many_links_makes_no_trap_of_pages() -> None:
    """Apache's manual in a language that is not translated: pages that are known, and each folder's first names all."""
    pattern = after(a("/manual/w/w.html"), *[SEEN] * 3, own=1)
    after(pattern, SEEN, own=100)
    after(pattern, *[SEEN] * (FOLLOWED - 1), leads=20)
    assert pattern.state is PatternState.OPEN


def test_endless_pages_that_say_the_same_are_parked_too() -> None:
    pattern = after(a("/more/w"), *[SEEN] * 3, own=1)
    after(pattern, *[SEEN] * FOLLOWED, own=1)
    assert pattern.state is PatternState.PARKED


def test_pages_that_differ_in_numbers_alone_are_alike() -> None:
    pattern = after(a("/cal/0/0"), *[PageImpression(outline=5)] * 6, own=1)
    assert pattern.state is PatternState.PARKED


def test_pages_that_say_something_new_are_never_in_doubt() -> None:
    pattern = after(a("/article/0"), *[new() for _ in range(500)], own=1)
    assert pattern.state is PatternState.OPEN
    assert pattern.credit == MAX_CREDIT


def test_end_of_an_honest_list_costs_its_credit_and_no_more() -> None:
    pattern = after(a("/list?page"), *[new() for _ in range(100)], own=1, others=20)
    behind = pattern.all.read
    while pattern.state is not PatternState.PARKED:
        after(pattern, SEEN, own=1)
    assert pattern.all.read - behind <= MAX_CREDIT + 2


def test_lists_that_read_alike_but_lead_to_new_pages_are_excused() -> None:
    pattern = after(a("/list?page"), *[PageImpression(outline=5)] * 200, own=1, others=10)
    assert pattern.state is PatternState.OPEN


def test_dead_links_put_a_pattern_behind_and_do_not_park_it() -> None:
    pattern = after(a("/old/w"), *[PageImpression(is_dead=True)] * 3)
    assert pattern.state is PatternState.WAITING
    after(pattern, *[PageImpression(is_dead=True)] * FOLLOWED)
    assert pattern.state is PatternState.OPEN


def test_child_of_a_trap_is_one_if_it_has_nothing_to_say() -> None:
    parent = after(a("/cal/0/0"), *[SEEN] * 5, own=1)
    child = after(a("/cal/0/0/0"), *[SEEN] * 5, parent=parent)
    assert child.state is PatternState.PARKED


# ---- lists and calendars --------------------------------------------------------------------------------------------


def test_endless_list_of_new_words_that_leads_nowhere_is_parked() -> None:
    pattern = after(a("/list?page"), *[new() for _ in range(12)], own=1)
    assert (pattern.state, pattern.reason) == (PatternState.WAITING, WatchReason.BARREN)
    after(pattern, *[new() for _ in range(FOLLOWED)], own=1)
    assert pattern.state is PatternState.PARKED


def test_list_that_has_an_end_is_read_to_it() -> None:
    pattern = after(a("/list?page"), *[new() for _ in range(12)], own=1)
    after(pattern, *[new() for _ in range(4)], own=1)
    after(pattern, new(), own=0, leads=1)
    assert pattern.state is PatternState.WAITING, "it leads on, to a page that is known and was not read"
    after(pattern, new(), own=0)
    assert pattern.state is PatternState.OPEN


def test_combinations_of_parameters_are_not_followed_far() -> None:
    pattern = after(a("/shop?*"), *[new() for _ in range(8)], own=10, linked_twice=3)
    assert pattern.state is PatternState.PARKED


# ---- mazes ----------------------------------------------------------------------------------------------------------


def test_maze_is_parked_whatever_it_says() -> None:
    pattern = after(a("/maze/w"), *[new() for _ in range(TRIAL)], own=8)
    assert (pattern.state, pattern.reason) == (PatternState.WAITING, WatchReason.BREEDING)
    assert pattern.is_urgent
    after(pattern, *[new() for _ in range(FOLLOWED)], own=8)
    assert pattern.state is PatternState.PARKED


def test_tree_is_no_maze_because_it_has_leaves() -> None:
    pattern = after(a("/site/0"), *[new() for _ in range(TRIAL)], own=8)
    after(pattern, new(), own=8)
    after(pattern, new(), own=0)
    assert pattern.state is PatternState.OPEN


def test_depth_at_which_links_end_is_no_leaf() -> None:
    pattern = after(a("/maze/w"), *[new() for _ in range(TRIAL)], own=8)
    after(pattern, PageImpression(outline=next(NEW), is_deepest=True), own=0)
    assert pattern.state is PatternState.WAITING


def test_pages_whose_ways_meet_are_no_maze() -> None:
    pattern = after(a("/wiki/w"), *[new() for _ in range(TRIAL * 4)], own=8, linked_twice=1)
    assert pattern.state is PatternState.OPEN
    doubted = after(a("/wiki/w"), *[new() for _ in range(TRIAL)], own=8)
    after(doubted, *[new() for _ in range(3)], own=8, linked_twice=1)
    assert doubted.state is PatternState.OPEN


def test_only_pages_of_a_host_get_more_time_to_show_that_they_are_some() -> None:
    pattern = after(a("/site/0"), *[new() for _ in range(TRIAL)], own=8, is_alone=True)
    after(pattern, *[new() for _ in range(FOLLOWED_ALONE - 1)], own=8, is_alone=True)
    assert pattern.state is PatternState.WAITING
    after(pattern, new(), own=8, is_alone=True)
    assert pattern.state is PatternState.PARKED


# ---- other spellings ------------------------------------------------------------------------------------------------


def test_other_spellings_that_show_the_same_are_left_out() -> None:
    pattern = a(SPELLING + "letter case")
    pattern.defer(WatchReason.SPELLING)
    assert after(pattern, *[TWIN] * 3).state is PatternState.PARKED


def test_other_spellings_that_show_something_else_are_fetched() -> None:
    pattern = a(SPELLING + "letter case")
    pattern.defer(WatchReason.SPELLING)
    assert after(pattern, *[new() for _ in range(3)]).state is PatternState.OPEN


def test_parameters_that_change_nothing_are_left_out() -> None:
    assert after(a("*?ref"), *[TWIN] * 5).state is PatternState.PARKED


def test_pages_in_sessions_that_the_site_shows_anyway_are_left_out() -> None:
    assert after(a("/s/*/w0.html"), *[PageImpression(cost=2.0)] * 5).state is PatternState.PARKED


def test_variant_that_came_before_its_page_is_to_blame() -> None:
    pattern = after(a("*?ref"), *[new() for _ in range(6)])
    for _ in range(2):
        pattern.count_duplicate()
    pattern.evaluate(None)
    assert pattern.state is PatternState.WAITING


# ---- coming back ----------------------------------------------------------------------------------------------------


def test_parked_pattern_that_has_become_useful_is_open_again() -> None:
    pattern = after(a("/cal/0/0"), *[SEEN] * 5, own=1)
    assert pattern.state is PatternState.PARKED
    after(pattern, new(), new(), others=1)
    assert (pattern.state, pattern.acquittals) == (PatternState.OPEN, 1)


def test_each_time_fewer_pages_are_tried_and_then_none() -> None:
    pattern = after(a("/cal/0/0"), *[SEEN] * 5, own=1)
    read = pattern.all.read
    while not pattern.is_hopeless:
        after(pattern, SEEN, own=1)
    assert pattern.convictions == MAX_CONVICTIONS
    assert pattern.all.read - read == MAX_CONVICTIONS - 1


def test_acquitted_pattern_is_not_doubted_again_so_soon() -> None:
    pattern = after(a("/app/0"), *[SEEN] * (3 + FOLLOWED))
    assert pattern.credit == FIRST_CREDIT * 2
    after(pattern, *[SEEN] * 5)
    assert pattern.state is PatternState.OPEN


# ---- how many may go ------------------------------------------------------------------------------------------------


def test_few_go_until_something_is_known_and_then_all_may() -> None:
    pattern = a("/article/0")
    assert pattern.allowance() == AT_FIRST
    assert after(pattern, new()).allowance() <= TRIAL
    assert after(pattern, *[new() for _ in range(TRIAL)]).allowance() == float("inf")


def test_pattern_in_doubt_never_gets_more_under_way_than_can_decide() -> None:
    maze = after(a("/maze/w"), *[new() for _ in range(TRIAL)], own=8)
    assert maze.allowance() == 1
    calendar = after(a("/cal/0/0"), *[SEEN] * 3, own=1)
    assert calendar.allowance() == 2


def test_requests_that_are_not_answered_do_not_hold_up_the_others() -> None:
    pattern = a("/article/0")
    pattern.unanswered = 2
    assert pattern.allowance() == 3 * AT_FIRST


@pytest.mark.parametrize("text", ["/shop?*", "/page/*/token", SPELLING + "slash"])
def test_fewer_go_at_first_of_what_is_a_trap_more_often(text: str) -> None:
    assert a(text).allowance() == OF_DOUBTFUL < AT_FIRST
