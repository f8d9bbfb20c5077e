"""Servers that answer differently by the identity of the client (T9): one page, requested under two User-Agents.

1. The first web page of a host, or a refusal in its place, is remembered with the answer to our own User-Agent.
2. It is requested again as `Mozilla/5.0 (compatible; teia/…; +contact)`. Many programs on servers look no further than
   the first word. The crawler still says who it is, and obeys the rules of robots.txt for its own name.
3. If the answers differ, it is requested a third time, under our own User-Agent. The server answers by identity only
   if both answers to our own name agree; otherwise the page changes by itself.

These are polite requests like any other, at most two a host in a run, and none unless `sites.identity_after_pages` is
set. Their answers are compared and dropped: they are not archived, not indexed and their links not followed. The
result is in the fetch log, as the detail of the last of them (kind `probe`).
"""

from __future__ import annotations

import re

from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import AnswerImpression, IdentityCheck, QueuedUrl
from teia.frontier.queue.schedule import HostQueue
from teia.lib.simhash import distance
from teia.urls import key_of

AS_OTHER = "identity"
AS_OURSELVES = "identity again"
"""Purposes of the two requests: under the other User-Agent, and once more under our own."""

IDENTITY_REQUESTS = frozenset({AS_OTHER, AS_OURSELVES})
SAME, DIFFERENT, UNSTABLE, OPEN = "same", "different", "unstable", "open"
NEAR_BITS = 3
REFUSALS = frozenset({401, 403, 406})
"""Statuses that a server may have for some clients only."""

_DETAIL = re.compile(r"identity: (\w+); ours (\S+), other (\S+)")


def remember_page(visit: ActiveVisit) -> None:
    """Remember the first page of a host that can be compared."""
    result, fetched = visit.result, visit.fetched
    if result is None or fetched is None or visit.item.purpose != "page" or visit.queue.identity is not None:
        return
    is_page = 200 <= fetched.status < 300 and result.media_type == "text/html" and bool(result.payload_bytes)
    is_redirect = fetched.status in {301, 302, 303, 307, 308}
    if is_page or is_redirect or fetched.status in REFUSALS:
        visit.queue.identity = IdentityCheck(visit.item.url, _impression(visit))


def queue_identity_request(queue: HostQueue, item: QueuedUrl, after_pages: int) -> bool:
    """Queue the next request of a check, before or after a URL of the host; return False if none is to be sent now."""
    check = queue.identity
    if check is None or check.is_pending or queue.alias_of or queue.failures:
        return False
    if item.purpose != "page" and item.purpose not in IDENTITY_REQUESTS:
        return False
    if not after_pages or queue.requests < after_pages or verdict_of(check) != OPEN:
        return False
    check.is_pending = True
    purpose = AS_OTHER if check.other is None else AS_OURSELVES
    # Not the key of the page: this answer must not become a capture of it.
    key = key_of(f"{check.url} {purpose}")
    queue.prerequisites.append(QueuedUrl(check.url, key, -1, 0, item.depth, item.since_s, purpose=purpose))
    return True


def note_identity_answer(visit: ActiveVisit) -> None:
    """Add the answer to its check, and leave of it what the fetch log needs."""
    check, result = visit.queue.identity, visit.result
    assert result is not None
    if check is not None:
        if visit.item.purpose == AS_OTHER:
            check.other = _impression(visit)
        else:
            check.again = _impression(visit)
        check.is_pending = False
        assert check.other is not None
        visit.detail = f"identity: {verdict_of(check)}; ours {check.ours.outcome}, other {check.other.outcome}"
    # By default the result of reading nothing: no records, no links, no entry for the index.
    kept = ("outcome", "media_type", "language", "digest", "text_digest", "payload_bytes", "redirect_to", "truncated")
    visit.result = type(result)(**{name: getattr(result, name) for name in kept})


def verdict_of(check: IdentityCheck) -> str:
    """Return what the answers so far show; OPEN if another one is needed."""
    if check.other is None:
        return OPEN
    if _agree(check.ours, check.other):
        return SAME
    if check.again is None:
        return OPEN
    return DIFFERENT if _agree(check.ours, check.again) else UNSTABLE


def ended_check() -> IdentityCheck:
    """Return the check of a host that left memory after one had begun, so that the host is not checked again."""
    nothing = AnswerImpression("", "", b"", 0)
    return IdentityCheck("", nothing, nothing)


def parse_detail(detail: str) -> tuple[str, str, str] | None:
    """Return verdict, our outcome and the other one from a detail of the fetch log; None if it has none."""
    found = _DETAIL.fullmatch(detail)
    return None if found is None or found[1] == OPEN else (found[1], found[2], found[3])


def _impression(visit: ActiveVisit) -> AnswerImpression:
    result = visit.result
    assert result is not None
    # Not the visit's outcome: it may be `soft_404`, which is our word for it and not the server's.
    return AnswerImpression(result.outcome, result.redirect_to, result.text_digest or result.digest, result.simhash)


def _agree(one: AnswerImpression, other: AnswerImpression) -> bool:
    if (one.outcome, one.redirect_to) != (other.outcome, other.redirect_to):
        return False
    if one.text == other.text or not one.outcome.startswith("2"):
        return True
    return bool(one.simhash and other.simhash) and distance(one.simhash, other.simhash) <= NEAR_BITS
