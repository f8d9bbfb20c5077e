"""Whether a host's validators are believed."""

from __future__ import annotations

import struct

import pytest

from teia.refresh.trust import MAX_COMPARED, MIN_COMPARED, Trust, Validator

MONDAY, TUESDAY = "Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT"


def changed(is_changed: bool) -> dict[str, bool]:
    return {"bytes_changed": is_changed, "page_changed": is_changed}


def after(agreed: int, false_changes: int = 0, missed_changes: int = 0) -> Validator:
    validator = Validator()
    for number in range(agreed):
        validator.note(**changed(number % 2 == 0), moved=number % 2 == 0)
    for _ in range(false_changes):
        validator.note(**changed(False), moved=True)
    for _ in range(missed_changes):
        validator.note(**changed(True), moved=False)
    return validator


@pytest.mark.parametrize(
    ("agreed", "false_changes", "missed_changes", "trusted"),
    [
        (MIN_COMPARED - 1, 0, 0, False),
        (MIN_COMPARED, 0, 0, True),
        (19, 1, 0, True),
        (18, 2, 0, False),
        (18, 0, 2, False),
        (95, 3, 2, True),
        (94, 3, 3, False),
    ],
)
def test_twenty_comparisons_of_which_95_in_100_agree_make_trust(
    agreed: int, false_changes: int, missed_changes: int, trusted: bool
) -> None:
    assert after(agreed, false_changes, missed_changes).is_trusted is trusted


def test_a_body_that_is_the_same_under_a_new_validator_is_a_strike() -> None:
    trust = Trust()
    trust.note(**changed(False), modified=(MONDAY, TUESDAY), etag=('"a"', '"a"'))
    assert (trust.dates.false_changes, trust.tags.false_changes, trust.tags.compared) == (1, 0, 1)


def test_a_tag_that_only_became_weak_has_not_moved() -> None:
    trust = Trust()
    trust.note(**changed(False), etag=('"a"', 'W/"a"'))
    assert trust.tags.false_changes == 0


def test_an_answer_without_a_validator_is_not_compared() -> None:
    trust = Trust()
    trust.note(**changed(True), modified=("", TUESDAY), etag=('"a"', ""))
    assert (trust.dates.compared, trust.tags.compared) == (0, 0)


def test_a_host_can_win_back_trust_and_lose_it() -> None:
    validator = after(agreed=0, false_changes=300)
    for _ in range(10 * MAX_COMPARED):
        validator.note(**changed(True), moved=True)
    assert validator.is_trusted
    assert validator.compared <= MAX_COMPARED
    for _ in range(30):
        validator.note(**changed(True), moved=False)
    assert not validator.is_trusted


@pytest.mark.parametrize(
    ("agreed", "missed_changes", "hides"), [(0, 1, False), (0, 2, True), (37, 2, True), (39, 2, False), (5, 3, True)]
)
def test_two_hidden_changes_and_five_in_a_hundred_end_the_trust_in_304s(
    agreed: int, missed_changes: int, hides: bool
) -> None:
    assert Trust(tags=after(agreed, missed_changes=missed_changes)).hides_changes is hides


def test_bytes_that_change_without_meaning_hide_nothing() -> None:
    trust = Trust()
    assert not trust.note(bytes_changed=True, page_changed=False, etag=('"a"', '"a"'))
    assert trust.tags.missed_changes == 0
    assert trust.note(bytes_changed=True, page_changed=True, etag=('"a"', '"a"'))
    assert not trust.note(bytes_changed=True, page_changed=True, etag=('"a"', '"b"'))


def test_audits_are_a_quarter_of_the_visits_at_first_and_one_in_25_later() -> None:
    new, known = Trust(), Trust(tags=after(MIN_COMPARED))
    visits = [(key, number) for key in range(500) for number in range(10)]
    assert sum(new.is_audit(*visit) for visit in visits) / len(visits) == pytest.approx(1 / 4, abs=0.02)
    assert sum(known.is_audit(*visit) for visit in visits) / len(visits) == pytest.approx(1 / 25, abs=0.01)


def test_a_constant_date_beside_a_true_etag_hides_nothing() -> None:
    """If-None-Match goes before If-Modified-Since, so such a host's 304s are right."""
    trust = Trust()
    for number in range(30):
        etag = (f'"{number}"', f'"{number + 1}"')
        assert not trust.note(bytes_changed=True, page_changed=True, modified=(MONDAY, MONDAY), etag=etag)
    assert not trust.hides_changes
    assert Trust(dates=trust.dates).hides_changes, "without an ETag, it would"


def test_the_date_of_a_page_that_did_not_change_proves_nothing() -> None:
    trust = Trust()
    for _ in range(MIN_COMPARED):
        trust.note(**changed(False), modified=(MONDAY, MONDAY))
    assert not trust.dates.is_trusted
    for _ in range(MIN_COMPARED):
        trust.note(**changed(True), modified=(MONDAY, TUESDAY))
    assert trust.dates.is_trusted


def test_changes_of_bytes_that_an_older_version_counted_accuse_nobody() -> None:
    """Its records lack the mark, and counted a clock that ticks under a constant ETag."""
    old = struct.pack("<6H", 100, 1, 60, 100, 2, 60)
    assert Trust.decode(old) == Trust(Validator(100, 1), Validator(100, 2))


def test_trust_is_kept_in_twelve_octets() -> None:
    trust = Trust(after(30, 1), after(20, 0, 2))
    record = trust.encode()
    assert len(record) == 12
    assert Trust.decode(record) == trust
    assert Trust.decode(b"") == Trust()
