"""Statements of sites on their own pages: stored in the group commit, and tested by visits (docs/signals.md).

  hear      a sitemap or feed was read: store its dates, and judge changes that visits had found before they
            were reported
  Heard     a page is revisited: test the statements on it, and use them to date its change

Statements on other sites are ignored, and so are dates in the future; both are counted. Of a source that is hardly
trusted only one page in TESTED is used: enough to notice that it has become reliable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import exp, log
from typing import NamedTuple

from teia.crawler.child.messages import ReportedChanges
from teia.crawler.visit import ActiveVisit
from teia.errors import CorruptFile
from teia.frontier.cell import site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.site_statements import RowKey, SiteStatement, StatementSource
from teia.records import NOT_MODIFIED
from teia.refresh.history import History
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S
from teia.signals.trust import SignalSource, is_future, is_news
from teia.urls import site_of, slot_of

TESTED = 16


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

    def of(self, slot: int, host_id: int) -> dict[int, SignalSource]:
        """Return the trust in a host's statements, by kind."""
        known = self._known.get((slot, host_id))
        if known is None:
            known = self._known[slot, host_id] = voices_of(self._frontier, slot, host_id)
        return known

    def learn(self, slot: int, host_id: int, kind: int) -> SignalSource:
        """Return the trust in a host's statements of a kind, to be updated and written by `keep`."""
        self._touched.add((slot, host_id, kind))
        return self.of(slot, host_id).setdefault(kind, SignalSource())

    def keep(self) -> None:
        """Write the updated trust."""
        for slot, host_id, kind in sorted(self._touched):
            record = self._known[slot, host_id][kind].encode()
            site_statements.store_trust(self._frontier.db, slot, host_id, [(kind, record)])
        self._touched.clear()


def voices_of(frontier: FrontierCell, slot: int, host_id: int) -> dict[int, SignalSource]:
    """Return the trust in a host's statements, by kind."""
    try:
        return {
            kind: SignalSource.decode(record)
            for kind, record in site_statements.trust_of(frontier.db, slot, host_id).items()
        }
    except ValueError as error:
        raise CorruptFile(frontier.path, str(error)) from error


# ---- a sitemap or feed was read -------------------------------------------------------------------------------------


def hear(frontier: FrontierCell, visit: ActiveVisit, now_s: float) -> list[HostStatements]:
    """Store the statements of a visit's answer on its site's pages; inside the transaction that settles it.

    The time of a statement is that of the answer, which for one from a cache is long before now.
    """
    result, fetched = visit.result, visit.fetched
    if result is None or fetched is None:
        return []
    slot, key = slot_of(site_of(visit.queue.host)), visit.item.key
    if result.told is None:
        if fetched.status == NOT_MODIFIED:
            _says_the_same(frontier, slot, key, fetched.started_s)
        return []
    told = result.told
    voices = SignalSources(frontier)
    before = site_statements.find_source(frontier.db, slot, key)
    before_s = before.seen_s if before is not None else 0.0
    if told.broken or told.foreign:
        voice = voices.learn(slot, visit.queue.host_id, told.kind)
        voice.broken += told.broken
        voice.foreign += told.foreign
    news = [
        HostStatements(host_id, host, keys)
        for host_id, host, dates in _believable(frontier, slot, told, voices, now_s)
        if (keys := site_statements.store_statements(frontier.db, slot, host_id, told.kind, key, dates, before_s))
    ]
    if told.dates:
        look = StatementSource(key, visit.queue.host_id, told.kind, max(fetched.started_s, before_s), len(told.dates))
        site_statements.note_source_read(frontier.db, slot, look)
    _judge_open(frontier, slot, key, voices)
    voices.keep()
    return news


def _says_the_same(frontier: FrontierCell, slot: int, key: int, read_s: float) -> None:
    """Note a sitemap or feed that has not changed, so it has no new statements."""
    known = site_statements.find_source(frontier.db, slot, key)
    if known is not None:
        site_statements.note_source_read(frontier.db, slot, known._replace(seen_s=max(read_s, known.seen_s)))
        voices = SignalSources(frontier)
        _judge_open(frontier, slot, key, voices)
        voices.keep()


def _believable(
    frontier: FrontierCell, slot: int, told: ReportedChanges, voices: SignalSources, now_s: float
) -> list[tuple[int, str, Mapping[int, float]]]:
    """Return the statements by host, without dates in the future; only a part of those of an untrusted host."""
    by_host: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for host, key, said_s in told.dates:
        by_host[host][key] = max(said_s, by_host[host].get(key, said_s))
    found: list[tuple[int, str, Mapping[int, float]]] = []
    for host, dates in by_host.items():
        row = frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
        if row is None:
            continue
        past = {key: said_s for key, said_s in dates.items() if not is_future(said_s, now_s)}
        if len(past) < len(dates):
            voices.learn(slot, row[0], told.kind).future += len(dates) - len(past)
        voice = voices.of(slot, row[0]).get(told.kind)
        if voice is not None and voice.is_hardly_heard:
            # Keys are hashes: a fair sample, and the same at each look.
            past = {key: said_s for key, said_s in past.items() if key % TESTED == 0}
        found.append((row[0], host, past))
    return found


def _judge_open(frontier: FrontierCell, slot: int, speaker: int, voices: SignalSources) -> None:
    """Judge changes that visits had found before they were reported: tell whether they are reported now."""
    for host_id, said in site_statements.pop_open(frontier.db, slot, speaker):
        is_told = is_news(said.reported_s, said.checked_s, said.open_s or 0.0)
        voices.learn(slot, host_id, said.kind).note_change(announced=is_told)


# ---- a page is visited again ----------------------------------------------------------------------------------------


class StatementTest:
    """Statements on a page that is revisited, and their test."""

    def __init__(self, frontier: FrontierCell, place: RowKey) -> None:
        self._frontier, self._place = frontier, place
        self._said = site_statements.statements_of_page(frontier.db, place)
        self._voices = SignalSources(frontier)

    def quiet_until_s(self, visited_s: float) -> float:
        """Return until when the page was unchanged since its last visit, by a trusted source; 0 if there is none."""
        voices = self._voices.of(*self._place[:2]) if self._said else {}
        news = (said for said in self._said if is_news(said.reported_s, said.checked_s, visited_s))
        return max((said.since_s for said in news if voices.get(said.kind, SignalSource()).is_trusted), default=0.0)

    def learn(self, history: History, now_s: float, *, changed: bool) -> None:
        """Test the statements by the visit; `history` is that of the visits before. Inside its transaction."""
        for said in self._said:
            site_statements.mark_checked(
                self._frontier.db, self._place, said, self._judged(said, history, now_s, changed=changed)
            )
        self._voices.keep()

    def _judged(self, said: SiteStatement, history: History, now_s: float, *, changed: bool) -> float | None:
        """Test one statement; return the time since which a change is open: it may still be reported."""
        slot, host_id, _ = self._place
        if is_news(said.reported_s, said.checked_s, history.visited_s):
            voice = self._voices.learn(slot, host_id, said.kind)
            voice.note_visit(changed=changed, unchanged_probability=unchanged_probability(history, now_s))
            if changed:
                voice.note_change(announced=True)
            return None
        if not changed:
            return said.open_s
        # A sitemap or feed may still report the change at its next look; a ping would have come by now.
        if said.source:
            return history.visited_s if said.open_s is None else said.open_s
        self._voices.learn(slot, host_id, said.kind).note_change(announced=False)
        return None


def unchanged_probability(history: History, now_s: float) -> float:
    """Return the probability that a page has not changed since its last visit, by its own visits alone.

    Cho's estimator for visits at the mean interval, with half a change more than was seen.
    """
    interval_s = max(0.0, now_s - history.visited_s)
    elapsed_s = history.quiet_s + sum(gap_s * weight for gap_s, weight in history.gaps)
    if history.visits < 1.0 or elapsed_s <= 0.0:
        return exp(-interval_s * FIRST_CHANGES / FIRST_TIME_S)
    quiet_visits = max(0.0, history.visits - history.changes)
    per_visit = -log((quiet_visits + 0.5) / (history.visits + 1.0))
    return exp(-interval_s * per_visit * history.visits / elapsed_s)
