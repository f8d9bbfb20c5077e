"""How far a voice is believed, by what visits found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import teia
from teia.signals.trust import MAX_TESTS, MIN_WEIGHT, SignalKind, SignalSource, is_future, is_news

NOW_S = 1_700_000_123.0
DAY_S = 86_400.0


def after_visits(visits: int, *, honest: bool, changes_anyway: float, seed: int = 1) -> SignalSource:
    """A voice after visits that it asked for; of its pages so many change between two visits anyway."""
    chance, voice = random.Random(seed), SignalSource()
    for _ in range(visits):
        changed = honest or chance.random() < changes_anyway
        voice.note_visit(changed=changed, unchanged_probability=1.0 - changes_anyway)
        if changed:
            voice.note_change(announced=True)
    return voice


def test_no_source_is_trusted_before_a_visit_proved_it() -> None:
    assert SignalSource().weight == pytest.approx(0.5)
    assert SignalSource().sure_weight == 0.0
    assert SignalSource().sure_recall == 0.0
    assert not SignalSource().is_distrusted
    assert SignalSource().is_plausible
    assert SignalSource().likely_recall == pytest.approx(0.5)


@pytest.mark.parametrize("changes_anyway", [0.05, 0.3, 0.6])
def test_an_honest_source_is_trusted_soon(changes_anyway: float) -> None:
    voice = after_visits(60, honest=True, changes_anyway=changes_anyway)
    assert voice.is_plausible
    assert voice.sure_weight > 0.8
    assert voice.sure_recall > 0.8


@pytest.mark.parametrize("changes_anyway", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_source_that_calls_everything_new_loses_trust_however_often_it_happens_to_be_right(
    changes_anyway: float, seed: int
) -> None:
    """Its precision is the rate at which pages change anyway; its word is worth nothing."""
    voice = after_visits(300, honest=False, changes_anyway=changes_anyway, seed=seed)
    assert voice.precision.mean == pytest.approx(changes_anyway, abs=0.12)
    assert voice.sure_weight < 0.1
    assert voice.sure_recall * voice.sure_weight < 0.1
    assert not voice.is_plausible
    assert voice.likely_recall == 0.0


def test_who_is_silent_about_changes_has_no_recall() -> None:
    voice = after_visits(20, honest=True, changes_anyway=0.1)
    for _ in range(200):
        voice.note_change(announced=False)
    assert voice.sure_recall < 0.15


def test_a_liar_that_becomes_honest_is_trusted_again() -> None:
    voice = after_visits(MAX_TESTS, honest=False, changes_anyway=0.2)
    assert voice.weight < MIN_WEIGHT + 0.1
    for _ in range(3 * MAX_TESTS):
        voice.note_visit(changed=True, unchanged_probability=0.8)
        voice.note_change(announced=True)
    assert voice.sure_weight > 0.8


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.booleans()), max_size=60),
    st.tuples(*[st.integers(0, 10**6)] * 3),
)
def test_whatever_happens_trust_is_a_share_and_survives_the_disk(
    visits: list[tuple[bool, float, bool]], ignored: tuple[int, int, int]
) -> None:
    voice = SignalSource(future=ignored[0], broken=ignored[1], foreign=ignored[2])
    for changed, unchanged, announced in visits:
        voice.note_visit(changed=changed, unchanged_probability=unchanged)
        voice.note_change(announced=announced)
    for share in (voice.weight, voice.precision.mean, voice.recall.mean, voice.sure_weight, voice.sure_recall):
        assert 0.0 <= share <= 1.0
    kept = SignalSource.decode(voice.encode())
    assert kept.weight == pytest.approx(voice.weight, abs=1e-5)
    assert (kept.future, kept.broken, kept.foreign) == ignored


def test_what_is_no_trust_is_refused() -> None:
    assert SignalSource.decode(b"") == SignalSource()
    with pytest.raises(ValueError, match="not the trust"):
        SignalSource.decode(b"\x07" * 33)


def test_only_dates_after_the_visit_are_news() -> None:
    visited_s = NOW_S
    assert is_news(visited_s + 1, 0.0, visited_s)
    assert not is_news(visited_s - 1, 0.0, visited_s)
    assert not is_news(visited_s + 1, visited_s + 1, visited_s - 60)  # it was heard before


def test_a_date_without_a_time_of_day_is_news_once() -> None:
    day_s = NOW_S // DAY_S * DAY_S
    assert is_news(day_s, day_s - DAY_S, day_s + 3_600)
    assert not is_news(day_s, day_s, day_s + 3_600)
    assert not is_news(day_s, 0.0, day_s + DAY_S + 1)


def test_a_date_that_has_not_come_is_not_believed() -> None:
    assert is_future(NOW_S + 3_600, NOW_S)
    assert not is_future(NOW_S + 60, NOW_S)  # clocks differ


def test_kinds_have_the_words_that_people_see() -> None:
    assert [kind.word for kind in SignalKind] == ["sitemap", "feed", "indexnow", "websub", "source"]
    for template in ("host.html", "page.html"):
        shown = (Path(teia.__file__).parent / "web" / "templates" / template).read_text("utf-8")
        assert all(f'"{kind.word}": ' in shown for kind in SignalKind), "a page with such a signal can be shown"
