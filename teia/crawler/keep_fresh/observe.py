"""A revisited page: the visit compared with the one before, in the transaction that settles it (A13, F3).

Of a first visit only the sketch of its text comes here. A visit is an observation if its answer says something of the
page: a body, a redirect, a 304, or that the page does not exist. Errors of the server or the network, and answers that
could not be read, say nothing about change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from teia.crawler.signals_in.site_hints import StatementTest
from teia.crawler.visit import ActiveVisit
from teia.errors import CorruptFile
from teia.frontier.cell import histories
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.histories import KnownPage
from teia.frontier.cell.rows import PageRow, QueuedUrl, SettledVisit
from teia.frontier.cell.schema import STATE_DONE
from teia.parse.dates import parse_date
from teia.records import NOT_MODIFIED, Outcome
from teia.refresh.history import History, ObservedAnswer, VisitResult, compare
from teia.refresh.mask import HostMask, PageMask, check_cosmetic, record_unchanged
from teia.refresh.trust import Trust
from teia.urls import site_of, slot_of

MAX_REWRITTEN = 1_000
"""Number of pages whose histories are rewritten at once when their host is found to hide changes."""


def drop_conditions(frontier: FrontierCell, host: str, host_id: int, items: list[QueuedUrl]) -> list[QueuedUrl]:
    """Take the validators from audits, and from all pages of a host that hides changes (refresh/trust.py)."""
    with decode_errors(frontier):
        trust = Trust.decode(histories.host_trust(frontier, slot_of(site_of(host)), host_id)[0])
    return [
        replace(item, etag="", last_modified="")
        if trust.hides_changes or trust.is_audit(item.key, item.visits)
        else item
        for item in items
    ]


def observe_visit(frontier: FrontierCell, settled: SettledVisit, host: str, visit: ActiveVisit) -> SettledVisit:
    """Compare a visit with the one before, and learn from it; return it with the observation."""
    page = settled.page
    if page is None or not _is_observation(settled, page):
        return settled
    slot = slot_of(site_of(host))
    row_key = (slot, settled.host_id, settled.queued.key)
    known = histories.load_page(frontier, row_key)
    if known is None:
        return settled
    # The first revisit: the history begins with the capture that is there.
    is_new = not known.record
    with decode_errors(frontier):
        history = History.start(known.last_change_s) if is_new else History.decode(known.record)
        of_page, of_host = PageMask.decode(known.mask), _HostTrust(frontier, slot, settled.host_id)
    if is_new:
        history.is_gone = _previous_answer(known, is_gone=known.outcome == Outcome.SOFT_404).is_gone
    sketch = visit.result.sketch if visit.result is not None else b""

    # Called only if the texts differ, because masks take long to decode.
    def is_cosmetic() -> bool | None:
        return check_cosmetic(of_page, of_host.mask, settled.queued.key, sketch) if sketch else None

    before = _previous_answer(known, is_gone=history.is_gone)
    now = ObservedAnswer(page.status, *page[1:4], page.redirect_to, settled.outcome == Outcome.SOFT_404)
    visit_result = compare(before, now, is_cosmetic)
    if visit_result in {VisitResult.NOT_MODIFIED, VisitResult.SAME_BYTES, VisitResult.SAME_TEXT}:
        record_unchanged(of_page, sketch or of_page.sketch)
    modified_s = parse_date(page.last_modified) if visit_result is VisitResult.CHANGED else None
    is_hidden = _compare_validators(of_host.trust, known, page, page_changed=visit_result is VisitResult.CHANGED)
    if is_hidden or (of_host.trust.hides_changes and known.outcome == str(NOT_MODIFIED)):
        # The 304s since the last body may have hidden changes.
        history = _history_of_bodies(frontier, row_key)
    # `observe` changes the history, but sources are tested by the one before the visit.
    statements, before_visit = StatementTest(frontier, row_key), replace(history)
    quiet_until_s = statements.quiet_until_s(history.visited_s)
    changed = history.observe(visit_result, settled.time_s, modified_s, quiet_until_s=quiet_until_s)
    statements.learn(before_visit, settled.time_s, changed=changed)
    histories.store_page(frontier, row_key, history.encode(), of_page.encode())
    if of_host.is_found_out:
        # Others follow at their next visits.
        for key, mask in histories.pages_not_modified(frontier, *row_key[:2], MAX_REWRITTEN):
            other = (*row_key[:2], key)
            if other != row_key:
                histories.store_page(frontier, other, _history_of_bodies(frontier, other).encode(), mask)
    of_host.store()
    return replace(settled, visit_result=int(visit_result), changed=changed)


def store_sketch(frontier: FrontierCell, host: str, row_key: tuple[int, int], sketch: bytes) -> None:
    """Store the text of a first visit, with which the next one is compared part by part."""
    histories.store_page(frontier, (slot_of(site_of(host)), *row_key), b"", PageMask(sketch).encode())


@contextmanager
def decode_errors(frontier: FrontierCell) -> Iterator[None]:
    """Report the file of a record that cannot be decoded."""
    try:
        yield
    except (ValueError, struct.error) as error:
        raise CorruptFile(frontier.path, f"the visit history of a page cannot be read: {error}") from error


class _HostTrust:
    """Knowledge of a host's behaviour; the mask of its pages' parts is read on demand, because that takes longer."""

    def __init__(self, frontier: FrontierCell, slot: int, host_id: int) -> None:
        self._at = (frontier, slot, host_id)
        self._before = histories.host_trust(*self._at)
        self.trust = Trust.decode(self._before[0])

    @property
    def is_found_out(self) -> bool:
        """True if the visit showed that the host hides changes behind 304s, which was not known before it."""
        return self.trust.hides_changes and not Trust.decode(self._before[0]).hides_changes

    @cached_property
    def mask(self) -> HostMask:
        with decode_errors(self._at[0]):
            return HostMask.decode(self._before[1])

    def store(self) -> None:
        """Write the knowledge back, if it has changed."""
        # The mask was decoded only if a page needed it.
        mask = self.mask.encode() if "mask" in self.__dict__ else self._before[1]
        now = (self.trust.encode(), mask)
        if now != self._before:
            histories.store_host_trust(*self._at, *now)


def _is_observation(settled: SettledVisit, page: PageRow) -> bool:
    unread = {Outcome.PARSE_FAILED, Outcome.TOO_LARGE, Outcome.NOT_RENDERED}
    if settled.state != STATE_DONE or settled.outcome in unread:
        return False
    return 200 <= page.status < 500


def _previous_answer(known: KnownPage, *, is_gone: bool) -> ObservedAnswer:
    """Return the earlier state of the page for comparison; only the history remembers that it was a soft 404."""
    is_soft_404 = is_gone and known.status < 400
    return ObservedAnswer(known.status, known.digest, known.text_digest, known.simhash, known.redirect_to, is_soft_404)


def _compare_validators(trust: Trust, known: KnownPage, page: PageRow, *, page_changed: bool) -> bool:
    """Learn from two answers with bodies whether the host's validators change with its pages.

    A 304 has no body, so it shows nothing. Returns True if the validators hid a change.
    """
    if page.status == NOT_MODIFIED or known.status // 100 != 2 or page.status // 100 != 2:
        return False
    return trust.note(
        bytes_changed=known.digest != page.digest,
        page_changed=page_changed,
        modified=(known.last_modified, page.last_modified),
        etag=(known.etag, page.etag),
    )


def _history_of_bodies(frontier: FrontierCell, row_key: RowKey) -> History:
    """Return a page's history from its visits that brought a body, as if there had been no 304."""
    (first_s, _), *later = histories.visits_with_body(frontier, row_key)
    history = History.start(first_s)
    for time_s, comparison in later:
        history.observe(VisitResult(comparison), time_s)
    return history
