"""The fetch log replayed: early requests are found, and a changed delay raises no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import CourtesySettings
from teia.frontier.queue.ledger import MAX_HISTORY, CourtesyInForce
from teia.store.fetchlog import FetchRow, LogPart
from teia.store.pending import PendingLog
from teia.store.sql import FetchLog
from teia.transfer.politeness_audit import BEFORE_COMMIT_S, RepeatedTime, _queries, audit_politeness, set_backs

START_S = 1_700_000_000.0


def row(at_s: float, rest_s: float | None, host: str = "a.test", kind: str = "page") -> FetchRow:
    return FetchRow(
        started=START_S + at_s,
        ended=START_S + at_s + 0.1,
        url=f"http://{host}/{at_s}",
        host=host,
        site=host,
        outcome="200",
        kind=kind,
        address="127.77.0.1",
        rest_s=rest_s,
    )


def violations(
    folder: Path, rows: list[FetchRow], *history: CourtesyInForce, delay_s: float = 5.0, per_host: int = 1
) -> int:
    courtesy = CourtesySettings(delay_s=delay_s, per_host=per_host)
    parts = [LogPart(folder, 0, [row(-100, None, kind="robots"), *rows])]
    with FetchLog(parts) as log, PendingLog(parts) as pending:
        audit = audit_politeness(log, courtesy, history)
        assert audit_politeness(pending, courtesy, history) == audit, "SQLite does not say what DuckDB says"
    return audit.violations


def test_a_request_before_its_hosts_delay_was_over_is_found(tmp_path: Path) -> None:
    assert violations(tmp_path, [row(0, None), row(5.2, 5.0)]) == 0
    assert violations(tmp_path, [row(0, None), row(3.0, 5.0)]) == 2, "early for its host and for its address"


def test_another_name_of_the_address_owes_it_our_own_delay(tmp_path: Path) -> None:
    other = [row(0, None), row(-50, None, "b.test", "robots"), row(3.0, None, "b.test")]
    assert violations(tmp_path, other) == 1


def test_after_an_answer_of_a_host_that_agreed_to_less_that_is_owed(tmp_path: Path) -> None:
    agreed = CourtesyInForce(START_S - 1000, 5.0, 1, (("a.test", 1.0),))
    assert violations(tmp_path, [row(0, None), row(1.2, 1.0)], agreed) == 0
    assert violations(tmp_path, [row(0, None), row(0.8, 1.0)], agreed) == 2
    robots = row(-50, None, "b.test", "robots")
    assert violations(tmp_path, [robots, row(0, None, "b.test"), row(1.2, 1.0)], agreed) == 1, "b.test did not agree"
    ended = CourtesyInForce(START_S + 60, 5.0, 1)
    assert violations(tmp_path, [row(70, None), row(71.2, 1.0)], agreed, ended) == 1, "it holds no more"


def growing(entries: int) -> list[CourtesyInForce]:
    """One agreement more each second, as somebody sets them by hand; each time all of them are written down."""
    agreed = tuple((f"www.host{number}.test", 1.0) for number in range(entries))
    return [CourtesyInForce(START_S + number, 5.0, 1, (*agreed[:number], ("a.test", 1.0))) for number in range(entries)]


@pytest.mark.parametrize("is_by_delay", [False, True])
def test_a_courtesy_changed_five_hundred_times_can_be_audited(tmp_path: Path, is_by_delay: bool) -> None:
    """The history keeps so many changes; how long a question is does not follow them, in either engine."""
    history = growing(MAX_HISTORY + 1)
    if is_by_delay:
        history = [CourtesyInForce(START_S + number, 1.0 + number % 2, 1) for number in range(MAX_HISTORY + 1)]
    assert violations(tmp_path, [row(100, None), row(101.2, 1.0)], *history) == 0
    assert violations(tmp_path, [row(100, None), row(100.8, 1.0)], *history) == 2


@pytest.mark.heavy
def test_thousands_of_addresses_and_hosts_can_be_known(tmp_path: Path) -> None:
    rows = [
        row(number, None, f"h{number}.test")._replace(address=f"10.0.{number >> 8}.{number & 255}")
        for number in range(5_000)
    ]
    told = [row(-100, None, each.host, "robots") for each in rows]
    courtesy, shared = CourtesySettings(), {each.address: 99 for each in rows if each.address}
    for kind in (FetchLog, PendingLog):
        with kind([LogPart(tmp_path, 0, rows)]) as log, kind([LogPart(tmp_path, 0, told)]) as other:
            assert audit_politeness(log, courtesy, shared=shared).violations == len(rows), kind
            assert audit_politeness(log, courtesy, shared=shared, others=[other]).violations == 0, kind


def test_settings_that_never_changed_are_audited_without_a_table(tmp_path: Path) -> None:
    """The common case is no dearer for the rare one, however often the same is written down."""
    history = [CourtesyInForce(START_S + number, 5.0, 1) for number in range(3)]
    courtesy = CourtesySettings()
    plain, again = (_queries(courtesy, each, {}, frozenset()) for each in (history[:1], history))
    assert plain == again
    assert not any("times" in sql for _, sql in plain)
    assert max(len(sql) for _, sql in plain) < 1_900


def test_an_agreement_says_nothing_of_an_address_that_many_share(tmp_path: Path) -> None:
    """frontier/queue/shared_addresses.py: there it is never asked more often than every `shared_rest_s`."""
    agreed = CourtesyInForce(START_S - 1000, 5.0, 1, (("a.test", 0.1),))
    parts = [LogPart(tmp_path, 0, [row(-100, None, kind="robots"), row(0, None), row(0.5, 0.1)])]
    for nets, expected in (((), 0), (("127.77.0.0/16",), 1)):
        courtesy = CourtesySettings(delay_s=5.0, cdn_nets=nets, shared_rest_s=1.0)
        for kind in (FetchLog, PendingLog):
            with kind(parts) as log:
                assert audit_politeness(log, courtesy, [agreed]).violations == expected, (kind, nets)


@pytest.mark.parametrize(("second_at_s", "expected"), [(0.6, 0), (0.3, 2)])
def test_requests_of_a_time_with_a_shorter_delay_owe_that(tmp_path: Path, second_at_s: float, expected: int) -> None:
    """The delay was half a second until it was made five: what came before is judged by the half."""
    history = [CourtesyInForce(START_S - 1000, 0.5, 1), CourtesyInForce(START_S + 60, 5.0, 1)]
    rows = [row(0, None), row(second_at_s, 0.5), row(70, 5.0), row(75.2, 5.0)]
    assert violations(tmp_path, rows, *history) == expected


def test_after_the_delay_was_made_longer_the_longer_one_is_owed(tmp_path: Path) -> None:
    history = [CourtesyInForce(START_S - 1000, 0.5, 1), CourtesyInForce(START_S + 60, 5.0, 1)]
    assert violations(tmp_path, [row(70, None), row(71, 0.5)], *history) == 1


def test_across_a_change_the_shorter_of_the_two_is_owed(tmp_path: Path) -> None:
    history = [CourtesyInForce(START_S - 1000, 5.0, 1), CourtesyInForce(START_S + 2, 0.5, 1)]
    assert violations(tmp_path, [row(0, None), row(2.5, 0.5)], *history) == 0


def test_nothing_is_owed_while_several_at_once_were_allowed(tmp_path: Path) -> None:
    history = [CourtesyInForce(START_S - 1000, 5.0, 4), CourtesyInForce(START_S + 60, 5.0, 1)]
    assert violations(tmp_path, [row(0, 5.0), row(0.01, 5.0), row(0.02, 5.0)], *history) == 0
    assert violations(tmp_path, [row(70, 5.0), row(71, 5.0)], *history) == 2
    assert violations(tmp_path, [row(0, 5.0), row(0.01, 5.0)], per_host=4) == 0


SOME_ROWS = st.lists(
    st.builds(
        lambda at, took, host, address, rest, kind: FetchRow(
            started=START_S + at / 1000, ended=START_S + (at + took) / 1000, url=f"http://{host}/{at}", host=host,
            site=host[-6:], outcome="200", kind=kind, address=address, rest_s=rest),
        st.integers(0, 60_000), st.integers(0, 2_000), st.sampled_from(["a.test", "www.a.test", "b.test"]),
        st.sampled_from([None, "127.77.0.1", "127.77.0.2"]), st.sampled_from([None, 0.5, 5.0]),
        st.sampled_from(["page", "page", "robots"])),
    max_size=30,
)  # fmt: skip
SOME_HISTORY = st.lists(
    st.builds(CourtesyInForce, st.floats(START_S, START_S + 60), st.sampled_from([0.5, 5.0]),
              st.sampled_from([1, 1, 4]),
              st.sampled_from([(), (), (("a.test", 0.2),), (("a.test", 0.2), ("b.test", 9.0))])),
    max_size=3, unique_by=lambda each: each.since_s,
).map(lambda found: sorted(found, key=lambda each: each.since_s))  # fmt: skip


@pytest.mark.heavy
@settings(max_examples=60)
@given(rows=SOME_ROWS, history=SOME_HISTORY, shared=st.sampled_from([{}, {"127.77.0.1": 40}]))
def test_both_engines_give_the_same_audit(
    rows: list[FetchRow],
    history: list[CourtesyInForce],
    shared: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    parts = [LogPart(tmp_path_factory.getbasetemp(), 0, rows)]
    with FetchLog(parts) as log, PendingLog(parts) as pending:
        by_duckdb, by_sqlite = (audit_politeness(each, CourtesySettings(), history, shared) for each in (log, pending))
    assert (by_sqlite.checked, by_sqlite.violations) == (by_duckdb.checked, by_duckdb.violations)
    assert set(by_sqlite.details) == set(by_duckdb.details) or by_duckdb.violations > len(by_duckdb.details)


@pytest.mark.parametrize(("told_at_s", "expected"), [(-100, 0), (50, 1)])
def test_robots_txt_of_one_collection_serves_another(tmp_path: Path, told_at_s: float, expected: int) -> None:
    """Collections crawled side by side share what robots.txt said; each log has only its own requests."""
    with PendingLog([LogPart(tmp_path, 0, [row(0, None)])]) as log:
        with PendingLog([LogPart(tmp_path, 0, [row(told_at_s, None, kind="robots")])]) as other:
            assert audit_politeness(log, CourtesySettings(), others=[other]).violations == expected
        assert audit_politeness(log, CourtesySettings()).violations == 1


# ---- a calendar that was set back -----------------------------------------------------------------------------------


def set_back(at_s: float, rested_s: float | None, committed_s: float, kind: str = "page") -> FetchRow:
    """Return a request that was committed by a calendar; `rested_s` is what the monotonic clock measured."""
    return row(at_s, 5.0, kind=kind)._replace(rested_s=rested_s, committed=START_S + committed_s)


def audited(folder: Path, rows: list[FetchRow]) -> tuple[int, str]:
    courtesy = CourtesySettings(delay_s=5.0)
    parts = [LogPart(folder, 0, rows)]
    repeated = set_backs([each.committed for each in part.pending if each.committed] for part in parts)
    with FetchLog(parts) as log, PendingLog(parts) as pending:
        audit = audit_politeness(log, courtesy, repeated=repeated)
        assert audit_politeness(pending, courtesy, repeated=repeated) == audit
    return audit.violations, str(audit.details)


HOUR = [
    set_back(1000, None, 1000.2, "robots"),
    *(set_back(1005.2 * 1 + 5.2 * n, 5.1, 1005.4 + 5.2 * n) for n in range(20)),
]
"""A polite hour, more or less, before the calendar is set back by a minute; then another one, at the same times."""


def test_a_calendar_that_is_set_back_gives_no_false_alarm(tmp_path: Path) -> None:
    """The requests of both passes lie between each other, by their times."""
    again = [set_back(each.started - START_S - 57.3, 5.1, (each.committed or 0) - START_S - 57.3) for each in HOUR[1:]]
    assert audited(tmp_path, [*HOUR, *again[10:]]) == (0, audited(tmp_path, [*HOUR, *again[10:]])[1])
    assert "the clock was set back" in audited(tmp_path, [*HOUR, *again[10:]])[1]
    early = again[12]._replace(rested_s=2.0)
    assert audited(tmp_path, [*HOUR, *again[10:12], early, *again[13:]])[0] == 1, "as the monotonic clock measured it"


def test_a_robots_txt_of_before_the_set_back_counts(tmp_path: Path) -> None:
    rows = [set_back(1000, None, 1000.2, "robots"), set_back(900, 5.1, 900.3)]
    assert audited(tmp_path, rows)[0] == 0
    assert audited(tmp_path, [set_back(900, 5.1, 900.3)])[0] == 1


def test_a_calendar_that_goes_forward_or_is_put_right_by_a_moment_was_not_set_back() -> None:
    assert set_backs([[1.0, 2.0, 3.0, 2.9, 5_000.0]]) == []
    assert set_backs([[1_000.0, 900.0, 950.0], [1_010.0, 905.0]]) == [RepeatedTime(900.0 - BEFORE_COMMIT_S, 1_010.0)], (
        "one step, seen in two cells"
    )
