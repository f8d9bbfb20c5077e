"""What visits saw, and what is kept of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.refresh import rates
from teia.refresh.history import (
    DAY_S,
    HALF_LIFE_S,
    MAX_GAPS,
    Histories,
    History,
    ObservedAnswer,
    VisitResult,
    compare,
    concatenate,
    decode_columns,
)

PAGE = ObservedAnswer(200, b"bytes", b"text", 7)
FOREVER = float("inf")


def never_asked() -> bool | None:
    raise AssertionError("there was no need to look closer")


@pytest.mark.parametrize(
    ("now", "sight"),
    [
        (ObservedAnswer(304, b"", b"", 0), VisitResult.NOT_MODIFIED),
        (PAGE, VisitResult.SAME_BYTES),
        (PAGE._replace(digest=b"others"), VisitResult.SAME_TEXT),
        (ObservedAnswer(404, b"sorry", b"sorry", 1), VisitResult.GONE),
        (ObservedAnswer(410, b"", b"", 0), VisitResult.GONE),
        (PAGE._replace(is_soft_404=True), VisitResult.GONE),
        (ObservedAnswer(301, b"", b"", 0, "https://example.org/there"), VisitResult.CHANGED),
        (PAGE._replace(digest=b"picture", text_digest=b""), VisitResult.CHANGED),
    ],
)
def test_most_visits_are_judged_by_their_fingerprints(now: ObservedAnswer, sight: VisitResult) -> None:
    assert compare(PAGE, now, never_asked) is sight


def test_texts_that_differ_are_looked_at_more_closely() -> None:
    other = ObservedAnswer(200, b"others", b"another text", 9)
    assert compare(PAGE, other, lambda: True) is VisitResult.COSMETIC
    assert compare(PAGE, other, lambda: False) is VisitResult.CHANGED
    assert compare(PAGE, other, lambda: None) is VisitResult.CHANGED
    assert compare(PAGE, other._replace(simhash=PAGE.simhash), lambda: None) is VisitResult.COSMETIC


def test_a_page_that_comes_back_has_changed_even_if_it_is_as_it_was() -> None:
    assert compare(PAGE._replace(status=404), PAGE, never_asked) is VisitResult.CHANGED


def test_another_target_of_a_redirect_is_a_change() -> None:
    there = ObservedAnswer(301, b"moved", b"moved", 3, "https://example.org/there")
    assert (
        compare(there, there._replace(redirect_to="https://example.org/elsewhere"), never_asked) is VisitResult.CHANGED
    )


def test_being_gone_is_a_change_once_and_so_is_the_return() -> None:
    history = History.start(0.0)
    sights = (VisitResult.GONE, VisitResult.GONE, VisitResult.SAME_BYTES, VisitResult.SAME_BYTES)
    found = [history.observe(sight, (day + 1) * DAY_S, half_life_s=FOREVER) for day, sight in enumerate(sights)]
    assert found == [True, False, True, False]
    assert (history.visits, history.changes, history.quiet_s) == (4, 2, 2 * DAY_S)


def test_intervals_are_kept_by_how_they_ended() -> None:
    history = History.start(100.0)
    history.observe(VisitResult.SAME_TEXT, 100.0 + DAY_S, half_life_s=FOREVER)
    history.observe(VisitResult.CHANGED, 100.0 + 3 * DAY_S, half_life_s=FOREVER)
    history.observe(VisitResult.COSMETIC, 100.0 + 4 * DAY_S, half_life_s=FOREVER)
    assert history.gaps == [(2 * DAY_S, 1.0)]
    assert (history.quiet_s, history.changed_s, history.visited_s) == (2 * DAY_S, 100.0 + 3 * DAY_S, 100.0 + 4 * DAY_S)


def test_a_clock_that_steps_back_teaches_nothing() -> None:
    history = History.start(100.0)
    assert history.observe(VisitResult.CHANGED, 50.0)
    assert (history.visits, history.visited_s) == (0, 100.0)


def test_after_a_half_life_an_observation_counts_half() -> None:
    history = History.start(0.0)
    history.observe(VisitResult.CHANGED, DAY_S)
    history.observe(VisitResult.SAME_TEXT, DAY_S + HALF_LIFE_S)
    assert (history.visits, history.changes) == (1.5, 0.5)
    assert history.gaps == [(DAY_S, 0.5)]


@pytest.mark.parametrize(
    ("modified_s", "age_s"),
    [
        (1.5 * DAY_S, 0.5 * DAY_S),
        (2 * DAY_S + 60, 0.0),
        (0.5 * DAY_S, None),
        (9 * DAY_S, None),
        (None, None),
    ],
)
def test_a_date_counts_where_it_can_be_true(modified_s: float | None, age_s: float | None) -> None:
    history = History.start(DAY_S)
    history.observe(VisitResult.CHANGED, 2 * DAY_S, modified_s, FOREVER)
    assert (history.dated, history.dated_s) == ((0, 0.0) if age_s is None else (1, age_s))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(VisitResult), st.floats(1.0, 400 * DAY_S), st.one_of(st.none(), st.floats(0.0, 900 * DAY_S))
        ),
        max_size=60,
    )
)
def test_a_history_is_small_and_can_be_read_again(visits: list[tuple[VisitResult, float, float | None]]) -> None:
    history, now_s = History.start(1.7e9), 1.7e9
    for sight, interval_s, ago_s in visits:
        now_s += interval_s
        history.observe(sight, now_s, None if ago_s is None else now_s - ago_s)
    record = history.encode()
    assert len(record) <= 304
    assert len(history.gaps) <= MAX_GAPS
    again = History.decode(record)
    assert again.encode() == record
    assert again.changes == pytest.approx(history.changes, rel=1e-5)
    assert sum(weight for _, weight in again.gaps) == pytest.approx(history.changes, rel=1e-4)


@pytest.mark.parametrize("record", [b"", b"\x07" * 60, History.start(0.0).encode()[:-1]])
def test_what_is_no_history_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="histor"):
        History.decode(record)
    with pytest.raises(ValueError, match="histor"):
        decode_columns([History.start(0.0).encode(), record])


def test_columns_hold_what_the_records_hold() -> None:
    histories = [History.start(float(day)) for day in range(3)]
    histories[1].observe(VisitResult.CHANGED, 9 * DAY_S)
    histories[1].observe(VisitResult.CHANGED, 10 * DAY_S, 9.5 * DAY_S)
    histories[2].observe(VisitResult.NOT_MODIFIED, 4 * DAY_S)
    columns = decode_columns([each.encode() for each in histories])
    assert len(columns) == 3
    assert columns.starts.tolist() == [0, 0, 2, 2]
    assert columns.page_of_gap.tolist() == [1, 1]
    assert columns.gap_s == pytest.approx([9 * DAY_S - 1, DAY_S])
    for number, history in enumerate(histories):
        for name in ("visited_s", "changed_s", "visits", "changes", "quiet_s", "dated", "dated_s"):
            assert getattr(columns, name)[number] == pytest.approx(getattr(history, name)), name


def test_no_histories_are_columns_too() -> None:
    assert len(decode_columns([])) == 0


def test_merged_gaps_give_the_rate_that_all_of_them_give() -> None:
    """A page that changes at nearly every visit: 300 gaps of many lengths, of which 32 are kept."""
    rng = np.random.default_rng(5)
    intervals = DAY_S * np.exp(rng.uniform(np.log(0.1), np.log(4.0), 400))
    history, now_s, gaps = History.start(0.0), 0.0, []
    for interval_s in intervals:
        now_s += interval_s
        changed = rng.random() < 1 - np.exp(-1.5 * interval_s / DAY_S)
        history.observe(VisitResult.CHANGED if changed else VisitResult.SAME_TEXT, now_s, half_life_s=FOREVER)
        gaps += [interval_s] if changed else []
    kept = decode_columns([history.encode()])
    one = np.array([float(len(gaps))])
    every = Histories(*[one] * 3, one, kept.quiet_s, 0 * one, 0 * one, np.array([0, len(gaps)]), np.array(gaps),
                      np.ones(len(gaps)))  # fmt: skip
    prior = rates.repeat_prior(1.0, DAY_S, 1)
    assert len(gaps) > 200
    assert rates.estimate(kept, prior).mean[0] == pytest.approx(rates.estimate(every, prior).mean[0], rel=0.005)


def test_columns_are_split_and_joined() -> None:
    records = []
    for changes in (0, 3, 1, 2):
        history = History.start(0.0)
        for visit in range(5):
            history.observe(VisitResult.CHANGED if visit < changes else VisitResult.SAME_BYTES, DAY_S * (visit + 1.5))
        records.append(history.encode())
    every = decode_columns(records)
    chosen = np.array([True, False, True, True])
    some, rest = every.select(chosen), every.select(~chosen)
    joined = concatenate([some, rest])
    expected = decode_columns([records[0], records[2], records[3], records[1]])
    for name in Histories.__slots__:
        assert np.array_equal(getattr(joined, name), getattr(expected, name)), name
    assert len(concatenate([])) == 0
