"""Rests that survive: a clean stop, a death, a calendar that jumps."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from teia.errors import CorruptFile, DiskFull, StoreError
from teia.frontier.queue.ledger import FORGOTTEN_AFTER_S, CourtesyInForce, DelayEntry, Ledger, read_courtesy_history

NOW_S = 1_700_000_000.0
HOUR_S = 3_600.0


def server(name: str, ready_in_s: float, delay_s: float = 5.0) -> DelayEntry:
    return DelayEntry("server", name, NOW_S + ready_in_s, delay_s)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def run(path: Path, *delays: DelayEntry, clean: bool = True, until_s: float = NOW_S) -> bool:
    """One crawler's life; returns whether it found the ledger closed."""
    ledger = Ledger(path)
    was_clean = ledger.open()
    ledger.write(delays)
    ledger.close(clean=clean, now_s=until_s)
    return was_clean


def reopened(path: Path, now_s: float = NOW_S) -> list[DelayEntry]:
    ledger = Ledger(path)
    delays = ledger.delays(now_s)
    ledger.close(clean=False, now_s=now_s)
    return sorted(delays, key=lambda entry: (entry.kind, entry.name))


# ---- marks ----------------------------------------------------------------------------------------------------------


def test_new_ledger_counts_as_clean(path: Path) -> None:
    assert run(path)


def test_clean_stop_is_remembered(path: Path) -> None:
    run(path, clean=True)
    assert run(path)


def test_death_is_remembered_until_a_clean_stop(path: Path) -> None:
    run(path, clean=False)
    assert not run(path, clean=False)
    assert not run(path, clean=True)
    assert run(path)


def test_process_that_never_closed_died(path: Path) -> None:
    dying = Ledger(path)
    dying.open()
    dying.write([server("a", 60)])
    ledger = Ledger(path)
    assert not ledger.open()
    assert ledger.all_entries() == [server("a", 60)]
    ledger.close(clean=False, now_s=NOW_S)
    dying.close(clean=False, now_s=NOW_S)


def test_marks_and_long_delays_are_synced_and_ordinary_delays_are_not(path: Path) -> None:
    """After a loss of power an old `closed` mark would let every server be asked at once."""
    ledger = Ledger(path)
    full, normal = (2,), (1,)
    synchronous = "PRAGMA synchronous"
    ledger.open()
    assert ledger._db.execute(synchronous).fetchone() == full
    ledger.write([server("a", 5, delay_s=5)])
    assert ledger._db.execute(synchronous).fetchone() == normal
    ledger.write([server("a", 5, delay_s=5), server("b", 3_600, delay_s=3_600)])
    assert ledger._db.execute(synchronous).fetchone() == full
    ledger.close(clean=True, now_s=NOW_S)


# ---- rests ----------------------------------------------------------------------------------------------------------


def test_delays_survive_a_clean_stop(path: Path) -> None:
    address = DelayEntry("address", "1.1.1.1", NOW_S + 5, 5.0)
    run(path, server("a", 60), address)
    assert reopened(path) == [address, server("a", 60)]


def test_delays_that_are_over_are_dropped_at_a_clean_stop_only(path: Path) -> None:
    run(path, server("over", -1), server("rests", 60), clean=False)
    ledger = Ledger(path)
    assert {entry.name for entry in ledger.all_entries()} == {"over", "rests"}, "after a death all must rest again"
    ledger.close(clean=True, now_s=NOW_S)
    ledger = Ledger(path)
    assert ledger.all_entries() == [server("rests", 60)]
    ledger.close(clean=True, now_s=NOW_S)


def test_later_delay_of_a_host_or_address_replaces_the_earlier_one(path: Path) -> None:
    run(path, server("a", 60), server("a", 90))
    run(path, server("a", 70))
    assert reopened(path) == [server("a", 70)]


def test_server_and_address_of_one_name_are_two_places(path: Path) -> None:
    run(path, DelayEntry("server", "1.1.1.1", NOW_S + 9, 9), DelayEntry("address", "1.1.1.1", NOW_S + 5, 5))
    assert [entry.kind for entry in reopened(path)] == ["address", "server"]


# ---- the calendar ---------------------------------------------------------------------------------------------------


def test_calendar_set_back_lengthens_a_delay_but_not_beyond_a_day(path: Path) -> None:
    run(path, server("a", 60))
    assert reopened(path, NOW_S - HOUR_S)[0].ready_at_s == NOW_S + 60
    year_ago_s = NOW_S - 365 * 86_400
    assert reopened(path, year_ago_s)[0].ready_at_s == year_ago_s + Ledger.MAX_DELAY_S


def test_calendar_set_forward_ends_delays_and_harms_nothing_else(path: Path) -> None:
    run(path, server("a", 60), server("b", 2 * HOUR_S))
    assert [entry.name for entry in reopened(path, NOW_S + HOUR_S)] == ["b"]


def test_wrong_times_of_a_set_back_calendar_are_replaced_by_the_next_request(path: Path) -> None:
    run(path, server("a", 60))
    run(path, server("a", 5 - HOUR_S), until_s=NOW_S - HOUR_S)
    assert reopened(path, NOW_S - HOUR_S) == [server("a", 5 - HOUR_S)]


@pytest.mark.parametrize("huge_s", [1e12, 1e300, float("inf")])
def test_huge_times_are_capped(path: Path, huge_s: float) -> None:
    run(path, server("a", huge_s, delay_s=huge_s), clean=False)
    ledger = Ledger(path)
    assert ledger.delays(NOW_S) == [server("a", Ledger.MAX_DELAY_S, Ledger.MAX_DELAY_S)]
    assert [entry.delay_s for entry in ledger.all_entries()] == [Ledger.MAX_DELAY_S]
    ledger.close(clean=False, now_s=NOW_S)


# ---- trouble --------------------------------------------------------------------------------------------------------


def test_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_bytes(b"not a database" * 1_000)
    with pytest.raises(CorruptFile, match=r"ledger\.sqlite"):
        Ledger(path)


def test_other_version_is_refused(path: Path) -> None:
    run(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StoreError, match="format 9"):
        Ledger(path)


def test_folder_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(StoreError, match=r"^/proc/ledger\.sqlite: ") as refusal:
        Ledger(Path("/proc/ledger.sqlite"))
    assert not isinstance(refusal.value, CorruptFile)


def test_full_disk_is_reported_and_the_ledger_continues_afterwards(path: Path) -> None:
    ledger = Ledger(path)
    ledger.write([server("kept", 60)])
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFull):
        ledger.write([server(f"{number}{'x' * 200}", 60) for number in range(500)])
    assert ledger.all_entries() == [server("kept", 60)]
    ledger._db.execute("PRAGMA max_page_count = 100000")
    ledger.write([server("more", 60)])
    assert len(ledger.all_entries()) == 2
    ledger.close(clean=True, now_s=NOW_S)


def test_delay_without_a_time_is_refused_whole(path: Path) -> None:
    ledger = Ledger(path)
    with pytest.raises(StoreError):
        ledger.write([server("a", 60), DelayEntry("server", "b", float("nan"), 5.0)])
    assert ledger.all_entries() == []
    ledger.close(clean=True, now_s=NOW_S)


# ---- what is not kept for ever --------------------------------------------------------------------------------------


def test_delays_that_ended_long_ago_are_forgotten(path: Path) -> None:
    ledger = Ledger(path)
    ledger.write([server("old", -FORGOTTEN_AFTER_S - 1), server("young", -1), server("resting", 100)])
    ledger.forget_expired(NOW_S)
    assert {entry.name for entry in ledger.all_entries()} == {"young", "resting"}
    ledger.close(clean=False, now_s=NOW_S)


def test_it_is_remembered_which_delay_was_in_force_since_when(path: Path) -> None:
    assert read_courtesy_history(path) == []
    first, same, other = (
        CourtesyInForce(NOW_S, 5.0, 1),
        CourtesyInForce(NOW_S + 10, 5.0, 1),
        CourtesyInForce(NOW_S + 20, 0.5, 2),
    )
    ledger = Ledger(path)
    for each in (first, same, other):
        ledger.note_courtesy(each)
    ledger.close(clean=False, now_s=NOW_S)
    assert read_courtesy_history(path) == [first, other]
