"""Small decisions between the stages: retry times, tasks of parse children, verdicts on URLs."""

from __future__ import annotations

import random
import re

from teia.config.sections import Config
from teia.crawler.child.messages import ReadTask, RenderedDocument, SeenRecord
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import AS_SITEMAP, STATE_DONE, STATE_FAILED, STATE_QUEUED
from teia.frontier.queue.order import NO_HINT
from teia.frontier.queue.retry import RETRY_RULES, RetryVerdict, verdict
from teia.records import Fetched, Outcome

MAX_RETRY_AFTER_S = 86_400.0
PATIENT_TRIES = 30
LONGEST_WAIT_S = 3_600.0
"""Retries of a known page that fails, in collections with revisits: for about a day."""

_RETRY_AFTER = re.compile(rb"^retry-after:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


def retry_after_s(fetched: Fetched, now_s: float) -> float:
    """Return the wait that the Retry-After of a 429 or 503 requests, in seconds or as a date; 0 without one."""
    if fetched.status not in {429, 503}:
        return 0.0
    match = _RETRY_AFTER.search(fetched.head)
    if match is None:
        return 0.0
    value = match.group(1).decode("latin-1").strip()
    # `isdigit` alone is true of digits of other scripts.
    if value.isascii() and value.isdigit():
        return min(float(value), MAX_RETRY_AFTER_S)
    from email.utils import parsedate_to_datetime  # rare, and a start would wait for its import

    try:
        wait_s = parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, OverflowError, TypeError):
        return 0.0
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def task_for(
    read_settings: bytes,
    purpose: str,
    item: QueuedUrl,
    fetched: Fetched,
    seen: SeenRecord | None = None,
    rendered: RenderedDocument | None = None,
) -> ReadTask:
    """Return a child's task: `page` (read and store), `robots` and `render` (return the body and store), or `store`."""
    hint = item.hint or NO_HINT
    return ReadTask(
        read_settings,
        purpose,
        fetched.url,
        fetched.outcome,
        fetched.status,
        fetched.started_s,
        fetched.ended_s,
        fetched.address,
        fetched.request_head,
        fetched.head,
        fetched.truncated,
        fetched.detail,
        item.depth,
        item.hops,
        item.digest,
        item.captured_s,
        score=hint.score,
        off_topic=hint.off_topic,
        as_sitemap=bool(item.found_by & AS_SITEMAP),
        is_revisit=item.visits > 0,
        earlier_url=item.captured_url,
        seen=seen,
        rendered=rendered,
        body=fetched.body,
    )


def needs_resend(visit: ActiveVisit) -> bool:
    """Tell whether a request is sent once more after its server's delay, because a reused connection closed.

    The server may have received the first request, so it counts for delay, budget and log; it is no failure of the
    host.
    """
    return visit.fetched is not None and visit.fetched.unanswered and not visit.item.failures


def verdict_of(visit: ActiveVisit, config: Config, rng: random.Random) -> RetryVerdict:
    """Return the URL's next state; waits are up to a tenth longer at random, so that retries spread out."""
    if needs_resend(visit):
        return RetryVerdict(STATE_QUEUED, visit.delay_s)
    # The page is there, only too large to be taken again: its last capture stays, also in search.
    if visit.outcome == Outcome.TOO_LARGE and visit.item.digest:
        return RetryVerdict(STATE_DONE)
    decided = verdict(visit.outcome, visit.item.failures, config.courtesy.retry_wait_s)
    # A page with a capture is not given up for a bad day of its server, if it is visited regularly.
    is_revisited = visit.item.visits and (config.refresh.keep or bool(config.schedule.start))
    if is_revisited and visit.outcome in RETRY_RULES and decided.state == STATE_FAILED:
        decided = _retry_patiently(visit.item.failures, config.courtesy.retry_wait_s)
    if decided.state != STATE_QUEUED:
        return decided
    # Never before the server's own delay is over.
    return RetryVerdict(STATE_QUEUED, max(decided.wait_s, visit.delay_s) * (1 + rng.random() / 10))


def _retry_patiently(failures: int, retry_wait_s: float) -> RetryVerdict:
    """Return a verdict that keeps a page with a capture, and its index entry, through a server's bad day."""
    if failures + 1 >= PATIENT_TRIES:
        return RetryVerdict(STATE_FAILED)
    return RetryVerdict(STATE_QUEUED, min(retry_wait_s * 2.0**failures, LONGEST_WAIT_S))
