from __future__ import annotations

from teia.crawler.rendering.kinds import (
    AGAIN_S,
    BARREN,
    CLEAR,
    FIRST_SKIP,
    MAX_KINDS,
    RETRY_S,
    HostKinds,
    RenderKind,
    RenderVerdict,
    encode_kind,
)

MANY = list(range(100, 100 + CLEAR))


def kind() -> RenderKind:
    return RenderKind("/p/w0", 7, is_empty=False)


def test_a_trial_that_brings_much_decides_at_once() -> None:
    each = kind()
    assert each.is_wanted(0.0)
    each.note_gain(CLEAR, 0, MANY, 1.0)
    assert each.verdict is RenderVerdict.RENDERED
    assert each.is_wanted(2.0)


def test_a_trial_that_brings_nothing_or_fails_decides_against_rendering() -> None:
    each, other = kind(), kind()
    each.note_gain(0, 0, [], 1.0)
    other.note_failure(1.0)
    assert each.verdict is other.verdict is RenderVerdict.STATIC
    assert not each.is_wanted(2.0)


def test_one_line_that_is_the_same_on_each_page_is_no_gain_and_one_of_each_page_is() -> None:
    same, own = kind(), kind()
    for each in (same, own):
        each.note_gain(3, 0, [1, 2, 3], 1.0)
        assert each.verdict is RenderVerdict.UNSURE
    same.note_gain(3, 0, [1, 2, 3], 2.0)
    own.note_gain(3, 0, [1, 2, 4], 2.0)
    assert same.verdict is RenderVerdict.STATIC
    assert own.verdict is RenderVerdict.RENDERED


def test_a_kind_whose_pages_bring_nothing_new_any_more_is_not_rendered_any_more() -> None:
    each = kind()
    each.note_gain(CLEAR, 0, MANY, 1.0)
    for _ in range(BARREN - 1):
        each.note_gain(CLEAR, 0, MANY, 2.0)
    each.note_gain(1, 0, [5], 3.0)
    assert each.verdict is RenderVerdict.RENDERED  # one of them had something of its own
    for _ in range(BARREN):
        each.note_gain(0, 0, [], 4.0)
    assert each.verdict is RenderVerdict.STATIC


def test_a_kind_is_tried_again_after_some_pages_twice_as_many_each_time_and_after_a_week() -> None:
    each = kind()
    each.note_gain(0, 0, [], 1.0)
    later_s = 1.0 + AGAIN_S
    assert [each.is_wanted(later_s) for _ in range(FIRST_SKIP + 2)] == [*[False] * FIRST_SKIP, True, False]
    each.note_gain(0, 0, [], 1.0)
    assert [each.is_wanted(later_s) for _ in range(2 * FIRST_SKIP + 1)].index(True) == 2 * FIRST_SKIP
    each.note_gain(0, 0, [], 5.0)
    assert each.is_wanted(6.0 + RETRY_S)


def test_a_fast_crawl_does_not_try_a_kind_again_within_minutes() -> None:
    each = kind()
    each.note_gain(0, 0, [], 1.0)
    assert not any(each.is_wanted(AGAIN_S) for _ in range(3 * FIRST_SKIP))
    assert each.is_wanted(1.0 + AGAIN_S)


def test_scripts_that_brought_nothing_in_two_patterns_are_not_tried_in_a_third_unless_pages_are_empty() -> None:
    host = HostKinds()
    for pattern in ("/a/w", "/b/w"):
        found = host.find(pattern, 7, is_empty=False)
        assert found is not None
        assert found.verdict is RenderVerdict.UNKNOWN
        found.note_gain(0, 0, [], 1.0)
    third, other, empty = (
        host.find("/c/w", scripts, is_empty=is_empty) for scripts, is_empty in ((7, False), (8, False), (7, True))
    )
    assert third is not None
    assert other is not None
    assert empty is not None
    assert third.verdict is RenderVerdict.STATIC
    assert other.verdict is empty.verdict is RenderVerdict.UNKNOWN


def test_kinds_of_a_host_are_limited_but_for_pages_that_are_empty() -> None:
    host = HostKinds()
    for number in range(MAX_KINDS):
        host.find("/w", number + 1, is_empty=False)
    assert host.find("/w", MAX_KINDS + 1, is_empty=False) is None
    assert host.find("/w", MAX_KINDS + 1, is_empty=True) is not None


def test_a_host_with_ever_new_scripts_has_one_kind_for_the_rest_of_its_empty_pages() -> None:
    host = HostKinds()
    known = [host.find("/w", number + 1, is_empty=True) for number in range(2 * MAX_KINDS)]
    rest = [host.find(f"/w{number}", 5_000 + number, is_empty=True) for number in range(10)]
    assert len(host) == 2 * MAX_KINDS + 1
    assert rest[0] is not None
    assert all(each is rest[0] for each in rest)
    assert host.find("/w", 1, is_empty=True) is known[0]


def test_kinds_are_stored_and_read_again_and_unreadable_ones_are_learnt_again() -> None:
    each = kind()
    each.note_gain(CLEAR, 2, MANY, 1.0)
    host = HostKinds()
    host.load([encode_kind(each), b"\xc1 of another version"])
    assert len(host) == 1
    assert host.find("/p/w0", 7, is_empty=False) == each
