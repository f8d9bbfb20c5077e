"""Signed files are compared again within the time of the setting, a bounded number of bytes a day."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.durable import file_lock
from teia.store.fixity import DAY_S, check_file, due_files, main, read_fixity, run_due, summarize
from teia.store.manifest import begin_erasure

from .signed_archives import NOW_S, SignedArchive, change_byte, signed_archive

DAYS = 10.0


@pytest.fixture
def made(tmp_path: Path) -> SignedArchive:
    return signed_archive(tmp_path, pages=60)


def at(days: float) -> VirtualClock:
    return VirtualClock(NOW_S + days * DAY_S)


def test_nothing_is_due_before_its_time_or_if_it_is_switched_off(made: SignedArchive) -> None:
    assert due_files(made.collection, DAYS, NOW_S + 9.9 * DAY_S) == []
    assert due_files(made.collection, 0.0, NOW_S + 1_000 * DAY_S) == []
    assert run_due(made.collection, DAYS, at(9.9)) == 0
    assert read_fixity(made.collection).files == {}


def test_a_day_compares_a_bounded_part_and_half_of_the_time_all_of_it(made: SignedArchive) -> None:
    total = sum(path.stat().st_size for path in made.files)
    largest = max(path.stat().st_size for path in made.files)
    seen: set[str] = set()
    for day in range(6):
        known = set(read_fixity(made.collection).files)
        run_due(made.collection, DAYS, at(DAYS + day))
        assert run_due(made.collection, DAYS, at(DAYS + day + 0.5)) == 0, "once a day"
        new = set(read_fixity(made.collection).files) - known
        sizes = {made.name(number): path.stat().st_size for number, path in enumerate(made.files)}
        assert sum(sizes[file] for file in new) <= 2 * total / DAYS + largest
        seen |= new
    assert len(seen) == len(made.files)
    state = summarize(made.collection)
    assert (state.files, state.bytes, state.violations) == (len(made.files), total, 0)


def test_a_file_that_was_changed_is_reported_until_it_is_right_again(made: SignedArchive) -> None:
    change_byte(made.files[0], 700)
    run_due(made.collection, DAYS, at(DAYS))
    state = summarize(made.collection)
    assert state.violations == 1
    assert state.details[0].startswith(made.name(0))
    change_byte(made.files[0], 700)
    for day in range(1, 7):
        run_due(made.collection, DAYS, at(2 * DAYS + day))
    assert summarize(made.collection).violations == 0


def test_a_removal_under_way_is_no_damage(made: SignedArchive) -> None:
    begin_erasure(made.collection, made.files[0], "retention", NOW_S)
    change_byte(made.files[0], 700)
    assert check_file(made.collection, made.name(0)) == ""


def test_two_runs_at_a_time_are_one(made: SignedArchive) -> None:
    (made.collection / "audits").mkdir()
    with file_lock(made.collection / "audits") as is_ours:
        assert is_ours
        assert run_due(made.collection, DAYS, at(DAYS)) == 0
    assert run_due(made.collection, DAYS, at(DAYS)) > 0


def test_a_damaged_file_of_results_is_as_good_as_none(made: SignedArchive) -> None:
    run_due(made.collection, DAYS, at(DAYS))
    for text in ("{", "[]", '{"version": 2}', '{"version": 1, "run_s": "x", "files": {}}'):
        (made.collection / "audits" / "fixity.json").write_text(text)
        assert read_fixity(made.collection).files == {}


def test_the_process_compares_what_is_due_by_the_clock_of_the_machine(made: SignedArchive) -> None:
    # The archive was signed in 2023.
    assert main([str(made.collection), str(DAYS)]) == 0
    assert read_fixity(made.collection).files
