"""Statements of sites on their own pages: stored in the group commit, and tested by visits (docs/signals.md).

  note_reported_changes  a sitemap or feed was read: store its dates, and settle changes that visits had found
                         before they were reported
  StatementTest          a page is revisited: test the statements on it, and use them to date its change

Statements on other sites are ignored, and so are dates in the future; both are counted. Of a source that is hardly
trusted only one page in TESTED is used: enough to notice that it has become reliable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp, log
from typing import NamedTuple

from teia.crawler.child.messages import ReportedChanges
from teia.crawler.visit import ActiveVisit
from teia.errors import CorruptFile
from teia.frontier.cell import histories, site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.site_statements import SiteStatement, StatementSource
from teia.records import NOT_MODIFIED
from teia.refresh.history import History
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S
from teia.signals.trust import SignalSource, is_future, is_news
from teia.urls import site_of, slot_of

TESTED = 16
PEERS, PEER_VISITS = 16, 8.0
"""Other pages of a host that are looked at for one with few visits; theirs count as PEER_VISITS of it at most."""


class HostStatements(NamedTuple):
    """Pages of a host with new statements on them."""

    host_id: int
    host: str
    keys: list[int]


class SignalSources:
    """Trust in the hosts of one cell: read on demand, written once, in one transaction."""

    def __init__(self, frontier: FrontierCell) -> None:
        self._frontier = frontier
        self._known: dict[tuple[int, int], dict[int, SignalSource]] = {}
        self._touched: set[tuple[int, int, int]] = set()

    def trust_of(self, slot: int, host_id: int) -> dict[int, SignalSource]:
        """Return the trust in a host's statements, by kind."""
        known = self._known.get((slot, host_id))
        if known is None:
            known = self._known[slot, host_id] = source_trust(self._frontier, slot, host_id)
        return known

    def learn(self, slot: int, host_id: int, kind: int) -> SignalSource:
        """Return the trust in a host's statements of a kind, to be updated and written by `store`."""
        self._touched.add((slot, host_id, kind))
        return self.trust_of(slot, host_id).setdefault(kind, SignalSource())

    def store(self) -> None:
        """Write the updated trust."""
        for slot, host_id, kind in sorted(self._touched):
            record = self._known[slot, host_id][kind].encode()
            site_statements.store_trust(self._frontier, slot, host_id, [(kind, record)])
        self._touched.clear()


def source_trust(frontier: FrontierCell, slot: int, host_id: int) -> dict[int, SignalSource]:
    """Return the trust in a host's statements, by kind."""
    try:
        return {
            kind: SignalSource.decode(record)
            for kind, record in site_statements.trust_of(frontier, slot, host_id).items()
        }
    except ValueError as error:
        raise CorruptFile(frontier.path, str(error)) from error


# ---- a sitemap or feed was read -------------------------------------------------------------------------------------


def note_reported_changes(frontier: FrontierCell, visit: ActiveVisit, now_s: float) -> list[HostStatements]:
    """Store the statements of a visit's answer on its site's pages; inside the transaction that settles it.

    The time of a statement is that of the answer, which for one from a cache is long before now.
    """
    result, fetched = visit.result, visit.fetched
    if result is None or fetched is None:
        return []
    slot, key = slot_of(site_of(visit.queue.host)), visit.item.key
    if result.reported is None:
        if fetched.status == NOT_MODIFIED:
            _note_unchanged(frontier, slot, key, fetched.started_s)
        return []
    reported = result.reported
    trusts = SignalSources(frontier)
    before = site_statements.find_source(frontier, slot, key)
    before_s = before.seen_s if before is not None else 0.0
    if reported.broken or reported.foreign:
        trust = trusts.learn(slot, visit.queue.host_id, reported.kind)
        trust.broken += reported.broken
        trust.foreign += reported.foreign
    news = [
        HostStatements(host_id, host, keys)
        for host_id, host, dates in _credible_dates(frontier, slot, reported, trusts, now_s)
        if (keys := site_statements.store_statements(frontier, slot, host_id, reported.kind, key, dates, before_s))
    ]
    # A sitemap without dates is noted too: it is no page.
    source = StatementSource(
        key, visit.queue.host_id, reported.kind, max(fetched.started_s, before_s), len(reported.dates)
    )
    site_statements.note_source_read(frontier, slot, source)
    _settle_open(frontier, slot, key, trusts)
    trusts.store()
    return news


def _note_unchanged(frontier: FrontierCell, slot: int, key: int, read_s: float) -> None:
    """Note a sitemap or feed that has not changed, so it has no new statements."""
    known = site_statements.find_source(frontier, slot, key)
    if known is not None:
        site_statements.note_source_read(frontier, slot, known._replace(seen_s=max(read_s, known.seen_s)))
        trusts = SignalSources(frontier)
        _settle_open(frontier, slot, key, trusts)
        trusts.store()


def _credible_dates(
    frontier: FrontierCell, slot: int, reported: ReportedChanges, trusts: SignalSources, now_s: float
) -> list[tuple[int, str, Mapping[int, float]]]:
    """Return the statements by host, without dates in the future; only a part of those of an untrusted host."""
    by_host: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for host, key, reported_s in reported.dates:
        by_host[host][key] = max(reported_s, by_host[host].get(key, reported_s))
    found: list[tuple[int, str, Mapping[int, float]]] = []
    for host, dates in by_host.items():
        host_id = frontier.find_host(host)
        if host_id is None:
            continue
        past = {key: reported_s for key, reported_s in dates.items() if not is_future(reported_s, now_s)}
        if len(past) < len(dates):
            trusts.learn(slot, host_id, reported.kind).future += len(dates) - len(past)
        trust = trusts.trust_of(slot, host_id).get(reported.kind)
        if trust is not None and trust.is_distrusted:
            # Keys are hashes: a fair sample, and the same at each look.
            past = {key: reported_s for key, reported_s in past.items() if key % TESTED == 0}
        found.append((host_id, host, past))
    return found


def _settle_open(frontier: FrontierCell, slot: int, source: int, trusts: SignalSources) -> None:
    """Settle changes that visits had found before they were reported: tell whether they are reported now."""
    for host_id, statement in site_statements.pop_open(frontier, slot, source):
        is_reported = is_news(statement.reported_s, statement.checked_s, statement.open_s or 0.0)
        trusts.learn(slot, host_id, statement.kind).note_change(announced=is_reported)


# ---- a page is visited again ----------------------------------------------------------------------------------------


class StatementTest:
    """Statements on a page that is revisited, and their test."""

    def __init__(self, frontier: FrontierCell, row_key: RowKey) -> None:
        self._frontier, self._row_key = frontier, row_key
        self._statements = site_statements.statements_of_page(frontier, row_key)
        self._trusts = SignalSources(frontier)

    def quiet_until_s(self, visited_s: float) -> float:
        """Return until when the page was unchanged since its last visit, by a plausible source; 0 if there is none.

        The claim is why the page is visited now. If it were not used before its source is trusted, the pages that
        changed would be visited and counted, and the others would not.
        """
        trusts = self._trusts.trust_of(*self._row_key[:2]) if self._statements else {}
        news = (
            statement for statement in self._statements if is_news(statement.reported_s, statement.checked_s, visited_s)
        )
        return max(
            (statement.since_s for statement in news if trusts.get(statement.kind, SignalSource()).is_plausible),
            default=0.0,
        )

    def learn(self, history: History, now_s: float, *, changed: bool) -> None:
        """Test the statements by the visit; `history` is that of the visits before. Inside its transaction."""
        for statement in self._statements:
            site_statements.mark_checked(
                self._frontier, self._row_key, statement, self._test(statement, history, now_s, changed=changed)
            )
        self._trusts.store()

    def _peers(self) -> list[History]:
        """Return the histories of other pages of the host."""
        sources = {each.key for each in site_statements.sources_of(self._frontier, *self._row_key[:2])}
        others = histories.first_records(self._frontier, self._row_key, PEERS)
        try:
            return [History.decode(record) for key, record in others if key not in sources]
        except ValueError as error:
            raise CorruptFile(self._frontier.path, str(error)) from error

    def _test(self, statement: SiteStatement, history: History, now_s: float, *, changed: bool) -> float | None:
        """Test one statement; return the time since which a change is open: it may still be reported."""
        slot, host_id, _ = self._row_key
        if is_news(statement.reported_s, statement.checked_s, history.visited_s):
            trust = self._trusts.learn(slot, host_id, statement.kind)
            peers = self._peers() if history.visits < PEER_VISITS else []
            unchanged = unchanged_probability(history, peers, now_s - history.visited_s)
            trust.note_visit(changed=changed, unchanged_probability=unchanged)
            if changed:
                trust.note_change(announced=True)
            return None
        if not changed:
            return statement.open_s
        # A sitemap or feed may still report the change at its next look; a ping would have come by now.
        if statement.source:
            return history.visited_s if statement.open_s is None else statement.open_s
        self._trusts.learn(slot, host_id, statement.kind).note_change(announced=False)
        return None


def unchanged_probability(history: History, peers: Sequence[History], interval_s: float) -> float:
    """Return the probability that a page does not change in so many seconds, by its visits and those of some others.

    Cho's estimator for visits at the mean interval, with half a change more than was seen. The dates of the source that
    is tested are not used here. Without other pages, every change of one that is seldom visited would be to the credit
    of the report, however often pages of the host change.
    """
    share = PEER_VISITS / max(PEER_VISITS, sum(each.visits for each in peers))
    known = [(history, 1.0), *((each, share) for each in peers)]
    visits = sum(share * each.visits for each, share in known)
    quiet_visits = sum(share * max(0.0, each.visits - each.changes) for each, share in known)
    elapsed_s = sum(share * (each.quiet_s + sum(gap_s * one for gap_s, one in each.gaps)) for each, share in known)
    if visits <= 0.0 or elapsed_s <= 0.0:
        return exp(-max(0.0, interval_s) * FIRST_CHANGES / FIRST_TIME_S)
    per_visit = -log((quiet_visits + 0.5) / (visits + 1.0))
    return exp(-max(0.0, interval_s) * per_visit * visits / elapsed_s)
