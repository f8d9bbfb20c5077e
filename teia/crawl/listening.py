"""What sites say of their own pages, heard in the group commit: kept, and tested by visits (docs/signals.md).

    hear      a sitemap or feed was read: its dates are kept, and changes that visits had found before it told of them
              are judged
    Heard     a page is visited again: was what is said of it true? And what does it say of when the page changed?

Nobody is believed who speaks of another site, nor a date that has not come yet; both are counted. Of a voice that is
hardly heard only one page in TESTED is listened to: enough to notice that it has mended its ways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import exp, log
from typing import NamedTuple

from teia.crawl.messages import Told
from teia.crawl.visits import Visit
from teia.errors import CorruptFile
from teia.frontier import sayings
from teia.frontier.cell import FrontierCell
from teia.frontier.sayings import Place, Said, Speaker
from teia.records import NOT_MODIFIED
from teia.refresh.history import History
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S
from teia.signals.trust import Voice, is_future, is_news
from teia.urls import site_of, slot_of

TESTED = 16


class News(NamedTuple):
    """Pages of a host of which something new is said."""

    host_id: int
    host: str
    keys: list[int]


class Voices:
    """How far the hosts of one cell are believed: read when first asked for, written once, in one transaction."""

    def __init__(self, frontier: FrontierCell) -> None:
        self._frontier = frontier
        self._known: dict[tuple[int, int], dict[int, Voice]] = {}
        self._touched: set[tuple[int, int, int]] = set()

    def of(self, slot: int, host_id: int) -> dict[int, Voice]:
        """The voices of a host, by kind."""
        known = self._known.get((slot, host_id))
        if known is None:
            known = self._known[slot, host_id] = voices_of(self._frontier, slot, host_id)
        return known

    def learn(self, slot: int, host_id: int, kind: int) -> Voice:
        """A voice about which something is learnt."""
        self._touched.add((slot, host_id, kind))
        return self.of(slot, host_id).setdefault(kind, Voice())

    def keep(self) -> None:
        """Write what was learnt."""
        for slot, host_id, kind in sorted(self._touched):
            record = self._known[slot, host_id][kind].encode()
            sayings.keep_voices(self._frontier.db, slot, host_id, [(kind, record)])
        self._touched.clear()


def voices_of(frontier: FrontierCell, slot: int, host_id: int) -> dict[int, Voice]:
    """How far a host is believed, by kind."""
    try:
        return {kind: Voice.decode(record) for kind, record in sayings.voices_of(frontier.db, slot, host_id).items()}
    except ValueError as error:
        raise CorruptFile(frontier.path, str(error)) from error


# ---- a sitemap or feed was read -------------------------------------------------------------------------------------


def hear(frontier: FrontierCell, visit: Visit, now_s: float) -> list[News]:
    """Keep what a visit's answer says of its site's pages; inside the transaction that settles it.

    It was said when the answer was given, which for one from a cache is long before now.
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
    voices = Voices(frontier)
    before = sayings.speaker(frontier.db, slot, key)
    before_s = before.seen_s if before is not None else 0.0
    if told.broken or told.foreign:
        voice = voices.learn(slot, visit.queue.host_id, told.kind)
        voice.broken += told.broken
        voice.foreign += told.foreign
    news = [
        News(host_id, host, keys)
        for host_id, host, dates in _believable(frontier, slot, told, voices, now_s)
        if (keys := sayings.take(frontier.db, slot, host_id, told.kind, key, dates, before_s))
    ]
    if told.dates:
        look = Speaker(key, visit.queue.host_id, told.kind, max(fetched.started_s, before_s), len(told.dates))
        sayings.note_look(frontier.db, slot, look)
    _judge_open(frontier, slot, key, voices)
    voices.keep()
    return news


def _says_the_same(frontier: FrontierCell, slot: int, key: int, read_s: float) -> None:
    """A sitemap or feed is what it was, so it says nothing new."""
    known = sayings.speaker(frontier.db, slot, key)
    if known is not None:
        sayings.note_look(frontier.db, slot, known._replace(seen_s=max(read_s, known.seen_s)))
        voices = Voices(frontier)
        _judge_open(frontier, slot, key, voices)
        voices.keep()


def _believable(
    frontier: FrontierCell, slot: int, told: Told, voices: Voices, now_s: float
) -> list[tuple[int, str, Mapping[int, float]]]:
    """What is said, by host, without dates that have not come yet; of a known liar only a part."""
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
            past = {key: said_s for key, said_s in past.items() if key % TESTED == 0}
        found.append((row[0], host, past))
    return found


def _judge_open(frontier: FrontierCell, slot: int, speaker: int, voices: Voices) -> None:
    """Changes that visits had found before they were told of: are they told of now?"""
    for host_id, said in sayings.take_open(frontier.db, slot, speaker):
        is_told = is_news(said.said_s, said.heard_s, said.open_s or 0.0)
        voices.learn(slot, host_id, said.kind).note_change(announced=is_told)


# ---- a page is visited again ----------------------------------------------------------------------------------------


class Heard:
    """What is said of a page that is visited again, and whether it was true."""

    def __init__(self, frontier: FrontierCell, place: Place) -> None:
        self._frontier, self._place = frontier, place
        self._said = sayings.of_page(frontier.db, place)
        self._voices = Voices(frontier)

    def quiet_until_s(self, visited_s: float) -> float:
        """Until when the page was as it was at its last visit, by a voice that is trusted; 0 if none is."""
        voices = self._voices.of(*self._place[:2]) if self._said else {}
        news = (said for said in self._said if is_news(said.said_s, said.heard_s, visited_s))
        return max((said.since_s for said in news if voices.get(said.kind, Voice()).is_trusted), default=0.0)

    def learn(self, history: History, now_s: float, *, changed: bool) -> None:
        """Test what was said by what the visit found; `history` is that of the visits before. In its transaction."""
        for said in self._said:
            sayings.answer(self._frontier.db, self._place, said, self._judged(said, history, now_s, changed=changed))
        self._voices.keep()

    def _judged(self, said: Said, history: History, now_s: float, *, changed: bool) -> float | None:
        """Learn from one; returns since when there is a change of which it is not known yet whether it was told."""
        slot, host_id, _ = self._place
        if is_news(said.said_s, said.heard_s, history.visited_s):
            voice = self._voices.learn(slot, host_id, said.kind)
            voice.note_visit(changed=changed, unchanged_probability=unchanged_probability(history, now_s))
            if changed:
                voice.note_change(announced=True)
            return None
        if not changed:
            return said.open_s
        if said.speaker:
            return history.visited_s if said.open_s is None else said.open_s
        self._voices.learn(slot, host_id, said.kind).note_change(announced=False)
        return None


def unchanged_probability(history: History, now_s: float) -> float:
    """How probably a page is as it was at its last visit, by its own visits alone.

    Cho's estimator for visits at the mean interval, with half a change more than was seen.
    """
    interval_s = max(0.0, now_s - history.visited_s)
    elapsed_s = history.quiet_s + sum(gap_s * weight for gap_s, weight in history.gaps)
    if history.visits < 1.0 or elapsed_s <= 0.0:
        return exp(-interval_s * FIRST_CHANGES / FIRST_TIME_S)
    quiet_visits = max(0.0, history.visits - history.changes)
    per_visit = -log((quiet_visits + 0.5) / (history.visits + 1.0))
    return exp(-interval_s * per_visit * history.visits / elapsed_s)
