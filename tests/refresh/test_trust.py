"""Whether a host's validators are believed."""

from __future__ import annotations

import pytest

from teia.refresh.trust import MAX_COMPARED, MIN_COMPARED, Trust, Validator

MONDAY, TUESDAY = "Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT"


def after(agreed: int, false_changes: int = 0, missed_changes: int = 0) -> Validator:
    validator = Validator()
    for number in range(agreed):
        validator.note(content_changed=number % 2 == 0, moved=number % 2 == 0)
    for _ in range(false_changes):
        validator.note(content_changed=False, moved=True)
    for _ in range(missed_changes):
        validator.note(content_changed=True, moved=False)
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
    trust.note(content_changed=False, modified=(MONDAY, TUESDAY), etag=('"a"', '"a"'))
    assert (trust.dates.false_changes, trust.tags.false_changes, trust.tags.compared) == (1, 0, 1)


def test_a_tag_that_only_became_weak_has_not_moved() -> None:
    trust = Trust()
    trust.note(content_changed=False, etag=('"a"', 'W/"a"'))
    assert trust.tags.false_changes == 0


def test_an_answer_without_a_validator_is_not_compared() -> None:
    trust = Trust()
    trust.note(content_changed=True, modified=("", TUESDAY), etag=('"a"', ""))
    assert (trust.dates.compared, trust.tags.compared) == (0, 0)


def test_a_host_can_win_back_trust_and_lose_it() -> None:
    validator = after(agreed=0, false_changes=300)
    for _ in range(10 * MAX_COMPARED):
        validator.note(content_changed=True, moved=True)
    assert validator.is_trusted
    assert validator.compared <= MAX_COMPARED
    for _ in range(30):
        validator.note(content_changed=True, moved=False)
    assert not validator.is_trusted


def test_trust_is_kept_in_twelve_octets() -> None:
    trust = Trust(after(30, 1), after(20, 0, 2))
    record = trust.encode()
    assert len(record) == 12
    assert Trust.decode(record) == trust
    assert Trust.decode(b"") == Trust()
