"""Retry-After, as servers write it, and how long a page that fails is tried."""

from __future__ import annotations

import random

import pytest

from teia.config.sections import Config, RefreshSettings, ScheduleSettings
from teia.crawler.verdicts import LONGEST_WAIT_S, MAX_RETRY_AFTER_S, PATIENT_TRIES, retry_after_s, verdict_of
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import STATE_DONE, STATE_FAILED, STATE_QUEUED
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched

NOW_S = 1_700_000_000.0


def answer(status: int, *headers: str) -> Fetched:
    head = "\r\n".join([f"HTTP/1.1 {status} x", *headers, "", ""]).encode()
    return Fetched("http://a.test/", str(status), status, NOW_S, NOW_S, head=head)


@pytest.mark.parametrize(
    ("status", "header", "wait_s"),
    [
        (503, "Retry-After: 120", 120.0),
        (429, "retry-after:7", 7.0),
        (503, "Retry-After: Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        (503, "Retry-After: Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        (503, "Retry-After: 99999999999", MAX_RETRY_AFTER_S),
        (503, "Retry-After: -5", 0.0),
        (503, "Retry-After: ٣", 0.0),
        (503, "Retry-After: soon", 0.0),
        (503, "X-Retry-After: 5", 0.0),
        (200, "Retry-After: 120", 0.0),
    ],
)
def test_retry_after_is_read_or_passed_over(status: int, header: str, wait_s: float) -> None:
    assert retry_after_s(answer(status, header), NOW_S) == wait_s


def judged(outcome: str, failures: int, visits: int, *, keep: bool) -> tuple[int, float]:
    item = QueuedUrl("http://a.test/", 1, 1, 0, 0, 0.0, visits=visits, failures=failures)
    visit = ActiveVisit(HostQueue("a.test", 1, 0, 0, DelayTarget("a.test")), item, outcome=outcome)
    found = verdict_of(visit, Config(refresh=RefreshSettings(keep=keep)), random.Random(1))
    return found.state, found.wait_s


def test_a_known_page_that_is_kept_fresh_is_tried_for_a_day() -> None:
    """It leaves the index when it has failed, so a server's bad hour must not be enough."""
    waits_s = [judged("timeout", failures, 3, keep=True) for failures in range(PATIENT_TRIES - 1)]
    assert {state for state, _ in waits_s} == {STATE_QUEUED}
    assert 12 * 3_600 < sum(wait_s for _, wait_s in waits_s) < 48 * 3_600
    assert max(wait_s for _, wait_s in waits_s) <= 1.1 * LONGEST_WAIT_S
    assert judged("timeout", PATIENT_TRIES - 1, 3, keep=True)[0] == STATE_FAILED


def test_so_is_a_known_page_of_a_collection_with_a_schedule() -> None:
    """A server that is down during a run must not take its pages out of the index until the next one."""
    item = QueuedUrl("http://a.test/", 1, 1, 0, 0, 0.0, visits=3, failures=2)
    visit = ActiveVisit(HostQueue("a.test", 1, 0, 0, DelayTarget("a.test")), item, outcome="timeout")
    config = Config(schedule=ScheduleSettings(start="2026-11-21 02:00"))
    assert verdict_of(visit, config, random.Random(1)).state == STATE_QUEUED


def test_patience_is_for_known_pages_of_those_who_keep_them_fresh() -> None:
    assert judged("timeout", 2, 0, keep=True)[0] == STATE_FAILED
    assert judged("timeout", 2, 3, keep=False)[0] == STATE_FAILED
    assert judged("404", 0, 3, keep=True)[0] == STATE_DONE
    assert judged("too_large", 0, 3, keep=True)[0] == STATE_FAILED
