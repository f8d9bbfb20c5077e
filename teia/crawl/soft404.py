"""Pages that say "not found" with a 200 in front: found by asking for what cannot exist.

A host of which enough URLs are known, or which shows the same page three times in a row, is sent one *probe*: a polite
request like any other, after robots.txt and with its rest. If the answer is a page, every page that is the same but
for its own address is a soft 404: stored, never indexed, its links not followed (RELIABILITY 27). What came before the
probe is judged when it comes back; the home page never is one, for it is the one page that must exist.

The same means: equal text; or a simhash at most `NEAR_BITS` away with an equal title. A simhash is made without the
page's address (parse/fingerprint.py), so a server that echoes the path is no better hidden. Titles keep pages apart
that have hundreds of words of menu and ten of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teia.crawl.messages import Result
from teia.crawl.titles import plain_title
from teia.crawl.visits import Visit
from teia.frontier.cell import FrontierCell
from teia.frontier.retry import RETRY_RULES
from teia.frontier.schedule import HostQueue, Queued
from teia.frontier.soft404 import NotFound, keep, kept, mark, probe_path, suspects
from teia.frontier.tails import url_from
from teia.lib.hamming import distance
from teia.records import Outcome
from teia.urls import key_of, split

if TYPE_CHECKING:
    from teia.crawl.lookup import UrlEntry

PROBE = "probe"
"""The purpose of such a request, and its kind in the fetch log."""

NOT_BEFORE = 8
"""Requests a host has had before it is probed for its size: by then it is known whether it is but an alias."""

REPEATS = 2
"""So many pages in a row that equal the one before make a host suspicious however small it is."""

NEAR_BITS = 3
MAX_AGE_S = 30 * 86_400.0
"""How long the answer to a probe is believed."""


# ---- the probe ------------------------------------------------------------------------------------------------------


def wants_probe(queue: HostQueue, item: Queued, after_pages: int) -> bool:
    """Whether it is time to ask for something that cannot exist; `after_pages` of 0 means never.

    Not of an alias, and not of a host that is failing: it has other troubles.
    """
    if queue.probed or not after_pages or item.purpose != "page" or queue.alias_of or queue.failures:
        return False
    if queue.repeats >= REPEATS:
        return True
    return queue.requests >= min(NOT_BEFORE, after_pages) and queue.requests + len(queue.buffer) >= after_pages


def send_probe(queue: HostQueue, item: Queued) -> None:
    """Put a probe before a URL of the host, at the same port and by the same scheme."""
    parts = split(item.url)
    url = f"{parts.scheme}://{parts.authority}{probe_path(parts.host)}"
    queue.errands.append(Queued(url, key_of(url), -1, 0, item.depth, item.since_s, purpose=PROBE))
    queue.probed = True


def answer_of(visit: Visit, now_s: float) -> NotFound:
    """What a probe's answer says of its host."""
    url, result, fetched = visit.item.url, visit.result, visit.fetched
    if result is None or fetched is None or not 200 <= fetched.status < 300:
        return NotFound(url, now_s, visit.outcome)
    text = result.text_digest or result.digest
    return NotFound(url, now_s, visit.outcome, text, result.simhash, plain_title(result.title, url))


def take_up(queue: HostQueue, found: NotFound, now_s: float) -> None:
    """Take what an earlier run learnt. A host that did not answer then, or long ago, is probed again."""
    if not queue.probed:
        has_answered = found.outcome.isdigit() and found.outcome not in RETRY_RULES
        queue.probed = has_answered and now_s - found.time_s < MAX_AGE_S
        queue.not_found = found if found.is_soft else None


# ---- what looks like its answer -------------------------------------------------------------------------------------


def note_answer(visit: Visit, now_s: float) -> None:
    """Judge an answer that was read: is it a probe's, is it a soft 404, is it the same as the one before it?"""
    queue, result, fetched = visit.queue, visit.result, visit.fetched
    if visit.item.purpose == PROBE:
        found = answer_of(visit, now_s)
        queue.not_found = found if found.is_soft else None
        return
    if result is None or fetched is None or not 200 <= fetched.status < 300 or not visit.outcome.isdigit():
        return
    known = queue.not_found
    if known is not None:
        if _is_same(known, visit.item.url, result.text_digest or result.digest, result.simhash, result.title):
            visit.outcome = Outcome.SOFT_404
    elif not queue.probed:
        queue.repeats = queue.repeats + 1 if _repeats(queue, result) else 0
        queue.last_simhash = result.simhash


def _repeats(queue: HostQueue, result: Result) -> bool:
    return result.simhash != 0 and distance(queue.last_simhash, result.simhash) <= NEAR_BITS


def keep_answer(frontier: FrontierCell, queue: HostQueue, found: NotFound) -> int:
    """Keep what a probe brought, and mark what came before it; inside a transaction. Returns how many were marked."""
    keep(frontier, queue.host_id, queue.host, found)
    if not found.is_soft:
        return 0
    like_it = [
        each.key
        for each in suspects(frontier, queue.host_id, queue.host)
        if _is_same(found, url_from(queue.host, each.tail), each.text, each.simhash, each.title)
    ]
    mark(frontier, queue.host_id, queue.host, like_it)
    return len(like_it)


def soft_404_note(frontier: FrontierCell, entry: UrlEntry) -> str:
    """Say of a soft 404 what it looks like; empty for every other URL."""
    if entry.outcome != Outcome.SOFT_404:
        return ""
    found = kept(frontier, entry.host_id, entry.host)
    like = f" ({found.url})" if found is not None else ""
    return f"a soft 404: it looks like what its host shows for a page that cannot exist{like}, so it is not indexed"


def remembered(frontier: FrontierCell, queue: HostQueue) -> NotFound | None:
    """What an earlier run learnt of a host."""
    return kept(frontier, queue.host_id, queue.host)


def _is_same(found: NotFound, url: str, text: bytes, simhash: int, title: str) -> bool:
    if not found.is_soft or split(url).target == "/":
        return False
    if text == found.text:
        return True
    bits = distance(simhash, found.simhash)
    if not simhash or not found.simhash or bits > NEAR_BITS:
        return False
    own = plain_title(title, url)
    return own == found.title and (bool(own) or bits == 0)
