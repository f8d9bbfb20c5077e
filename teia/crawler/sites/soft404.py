"""Pages that say "not found" with a status of 200: recognised by requesting a page that cannot exist.

A host of which enough URLs are known, which shows the same page three times in a row, or one of whose known pages shows
another text at a later visit, is sent one *probe*: a polite request like any other, after robots.txt and with its
delay. If the answer is a page, every page that equals it but for its own address is a soft 404: stored, never indexed,
its links not followed. Earlier pages are checked when the probe's answer arrives. The home page never is a soft 404: it
is the one page that must exist.

Equal means: equal text; or a simhash at most `NEAR_BITS` away with an equal title. A simhash is made without the page's
address (fingerprint.py), so a server that echoes the path is recognised too. Titles keep pages apart that have hundreds
of words of menu and ten of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teia.crawler.child.messages import ReadResult
from teia.crawler.sites.aliases import plain_title
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import ProbeResult, QueuedUrl, url_from
from teia.frontier.cell.soft404 import load_probe, mark_soft404s, probe_path, save_probe, suspect_pages
from teia.frontier.queue.retry import RETRY_RULES
from teia.frontier.queue.schedule import HostQueue
from teia.lib.message import Message
from teia.lib.simhash import distance
from teia.records import Outcome
from teia.urls import key_of, split

if TYPE_CHECKING:
    from teia.crawler.lookup import UrlEntry

PROBE = "probe"
"""The purpose of such a request, and its kind in the fetch log."""

NOT_BEFORE = 8
"""Number of requests before a host is probed for its size: by then it is known whether it is an alias."""

REPEATS = 2
"""Number of consecutive pages equal to the one before that make even a small host suspicious."""

NEAR_BITS = 3
OTHER_BITS = 8
"""Distance of a page to its last text from which it may have been replaced, with its menus left as they were.

Unrelated texts differ in 32 bits of 64; edits of a sentence in a page differ in few.
"""
MAX_AGE_S = 30 * 86_400.0
"""Time for which the answer to a probe is used."""


_64_BITS = (1 << 64) - 1

# ---- the probe ------------------------------------------------------------------------------------------------------


def needs_probe(queue: HostQueue, item: QueuedUrl, after_pages: int) -> bool:
    """Tell whether it is time to request a page that cannot exist of a host that was not probed yet.

    `after_pages` of 0 means never. An alias is not probed, nor is a host that is failing.
    """
    if queue.is_probed or not after_pages or item.purpose != "page" or queue.alias_of or queue.failures:
        return False
    if queue.repeats >= REPEATS:
        return True
    return queue.requests >= min(NOT_BEFORE, after_pages) and queue.requests + len(queue.buffer) >= after_pages


def queue_probe(queue: HostQueue, item: QueuedUrl) -> None:
    """Put a probe before a URL of the host, with the same port and scheme."""
    parts = split(item.url)
    url = f"{parts.scheme}://{parts.authority}{probe_path(parts.host)}"
    queue.prerequisites.append(QueuedUrl(url, key_of(url), -1, 0, item.depth, item.since_s, purpose=PROBE))
    queue.is_probed = True


def probe_result(visit: ActiveVisit, now_s: float) -> ProbeResult:
    """Return the host's answer for pages that do not exist, from a probe."""
    url, result, fetched = visit.item.url, visit.result, visit.fetched
    if result is None or fetched is None or not 200 <= fetched.status < 300:
        return ProbeResult(url, now_s, visit.outcome)
    text = result.text_digest or result.digest
    return ProbeResult(url, now_s, visit.outcome, text, result.simhash, plain_title(result.title, url))


def apply_stored_probe(queue: HostQueue, found: ProbeResult, now_s: float) -> None:
    """Apply the probe of an earlier run; a host that did not answer then, or long ago, is probed again."""
    if not queue.is_probed:
        has_answered = found.outcome.isdigit() and found.outcome not in RETRY_RULES
        queue.is_probed = has_answered and now_s - found.time_s < MAX_AGE_S
        queue.soft404_probe = found if found.is_soft else None


# ---- pages that look like the answer --------------------------------------------------------------------------------


def note_answer(visit: ActiveVisit, now_s: float) -> None:
    """Classify an answer that was read: a probe's, a soft 404, or a repetition of the one before."""
    queue, result, fetched = visit.queue, visit.result, visit.fetched
    if visit.item.purpose == PROBE:
        found = probe_result(visit, now_s)
        queue.soft404_probe = found if found.is_soft else None
        return
    if result is None or fetched is None or not 200 <= fetched.status < 300 or not visit.outcome.isdigit():
        return
    known = queue.soft404_probe
    if known is not None:
        if _is_same(known, visit.item.url, result.text_digest or result.digest, result.simhash, result.title):
            visit.outcome = Outcome.SOFT_404
    elif not queue.is_probed:
        queue.repeats = queue.repeats + 1 if _repeats(queue, result) else 0
        # A page that was taken down, perhaps: then its URL shows what the host shows for any URL.
        if _is_replaced(visit.item, result):
            queue.repeats = REPEATS
        queue.last_simhash = result.simhash


def _repeats(queue: HostQueue, result: ReadResult) -> bool:
    return result.simhash != 0 and distance(queue.last_simhash, result.simhash) <= NEAR_BITS


def _is_replaced(item: QueuedUrl, result: ReadResult) -> bool:
    before = item.simhash & _64_BITS
    return before != 0 and result.simhash != 0 and distance(before, result.simhash) >= OTHER_BITS


def store_probe(frontier: FrontierCell, queue: HostQueue, found: ProbeResult) -> list[int]:
    """Store a probe's answer and mark earlier soft 404s; inside a transaction. Return the keys of those pages."""
    save_probe(frontier, queue.host_id, queue.host, found)
    if not found.is_soft:
        return []
    like_it = [
        each.key
        for each in suspect_pages(frontier, queue.host_id, queue.host)
        if _is_same(found, url_from(queue.host, each.tail), each.text, each.simhash, each.title)
    ]
    mark_soft404s(frontier, queue.host_id, queue.host, like_it)
    return like_it


def soft_404_note(frontier: FrontierCell, entry: UrlEntry) -> str:
    """Describe why a URL is a soft 404; empty for every other URL."""
    if entry.outcome != Outcome.SOFT_404:
        return ""
    found = load_probe(frontier, entry.host_id, entry.host)
    return Message(
        "a soft 404: it resembles the response of its host for a nonexistent page{like}, so it is not indexed",
        like=f" ({found.url})" if found is not None else "",
    )


def _is_same(found: ProbeResult, url: str, text: bytes, simhash: int, title: str) -> bool:
    if not found.is_soft or split(url).target == "/":
        return False
    if text == found.text:
        return True
    bits = distance(simhash, found.simhash)
    if not simhash or not found.simhash or bits > NEAR_BITS:
        return False
    own = plain_title(title, url)
    # Without titles only equal simhashes count.
    return own == found.title and (bool(own) or bits == 0)
