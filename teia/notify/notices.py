"""Search for notices: changes of one collection that its subscribers watch, found in committed data and stored.

    a page     it was visited again and had changed meaningfully, as F3 judged with the learnt mask of parts that
               come and go. The notice has the difference from the version before
    a search   new or changed pages were indexed that the search finds. Each is looked at once, by its change number
               in the frontier, as far as the index has come

Only committed data is read, by connections of its own, during a crawl or after it. The notices found and the position
reached are one transaction of the collection's `subscriptions.sqlite`, so this process may die at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from teia.clock import Clock, iso_utc
from teia.crawler.lookup import Lookup, UrlEntry
from teia.errors import IndexFailure, ParseError, StoreError
from teia.frontier.tables.page_changes import ChangedPage, changed_pages
from teia.index.position import read_position
from teia.notify.subscriptions import origin_fields
from teia.records import Outcome
from teia.signals.subscriptions import PAGE, Subscription, Subscriptions
from teia.signals.webhook import message
from teia.sqlite import data_version, sqlite_errors, transaction
from teia.store.root import Root
from teia.views.capture_reader import CaptureReader
from teia.views.captures import read_capture
from teia.views.compare_captures import DiffPart, compare

if TYPE_CHECKING:
    from teia.indexer.open_search import CollectionSearch
    from teia.search.show.results import Hit

PAGE_CHANGED, SEARCH_RESULTS = "page.changed", "search.results"
CHANGES_AT_ONCE = 50
"""Pages that are compared with a search at a time: also the most results of one message."""

SEARCH_S = 1.0
"""Time after which a look ends, between two subscriptions.

Nothing is sent during a look, so it must be short. The limit also bounds the notices that wait.
"""

VISITS_AT_ONCE = 20
MAX_DIFFERENCE_CHARS, MAX_RESULT_CHARS = 8_000, 1_000
"""Most characters of both versions, of a watched page and of a result; the page's own view shows more."""

_GONE = frozenset({"404", "410", str(Outcome.SOFT_404)})


@dataclass(frozen=True, slots=True)
class PageDifference:
    """The difference of a page: words removed and added, and in which parts; `not_shown` parts had no room."""

    before: str
    removed: int
    added: int
    parts: tuple[DiffPart, ...]
    not_shown: int


class NoticeFinder:
    """Finder of notices for the subscriptions of one collection; used by one thread at a time."""

    def __init__(self, root: Root, name: str, store: Subscriptions, reader: CaptureReader, clock: Clock) -> None:
        self._root, self._name, self._store, self._capture_reader, self._clock = root, name, store, reader, clock
        self._path = root.collection(name).subscriptions
        self._lookup: Lookup | None = None
        self._search: CollectionSearch | None = None
        self._seen: object = None
        self._is_whole, self._until, self._first = True, 0.0, 0
        self.is_cut = False
        """True if the last look had no time for everything."""

    def close(self) -> None:
        if self._lookup is not None:
            self._lookup.close()
        if self._search is not None:
            self._search.close()
        self._lookup = self._search = None

    def find_notices(self) -> int:
        """Look at data committed since the last look, for about a second; return the number of notices made.

        What is left after that, of a large import for example, is for the next look, which begins with another
        subscription. A collection that was never crawled has no notices. Its cells may be replaced after a while: then
        they are opened again.
        """
        try:
            with sqlite_errors(self._path):
                return self._find_all()
        except StoreError:
            self.close()
            raise

    def _find_all(self) -> int:
        self.is_cut = False
        wanted = self._store.all()
        lookup = self._opened() if wanted else None
        if lookup is None:
            return 0
        # Nothing was committed or indexed since a look that found nothing: skip all queries.
        versions = (data_version(self._store.db), *(cell.data_version() for cell in lookup.cells))
        state = (versions, self._indexed(lookup))
        if state == self._seen:
            return 0
        made, self._is_whole, self._until = 0, True, self._clock.ticks_s() + SEARCH_S
        # `_first` moves only after a look was cut, so that the next one begins where this one ended.
        first = self._first % len(wanted)
        for number, each in enumerate(wanted[first:] + wanted[:first], first):
            made += self._check_page(lookup, each) if each.kind == PAGE else self._check_search(lookup, each)
            if self._is_late:
                self.is_cut, self._first = True, number + 1
                break
        # Where a notice was made or time ran out there may be more: the next look must not be skipped.
        self._seen = state if self._is_whole and not self.is_cut and not made else None
        return made

    @property
    def _is_late(self) -> bool:
        return self._clock.ticks_s() >= self._until

    def _opened(self) -> Lookup | None:
        folders = self._root.collection(self._name).cells()
        if self._lookup is not None and self._lookup.folders != folders:
            self.close()
        if self._lookup is None:
            if not folders or not all(folder.frontier.exists() for folder in folders):
                return None
            self._lookup = Lookup(self._root, self._name)
        return self._lookup

    @staticmethod
    def _indexed(lookup: Lookup) -> tuple[int, ...]:
        """Return the position of each cell's index."""
        return tuple(read_position(folder.index) or 0 for folder in lookup.folders)

    # -- pages ---------------------------------------------------------------------------------------------

    def _check_page(self, lookup: Lookup, watched: Subscription) -> int:
        entry = lookup.find(watched.what)
        if entry is None:
            return 0
        found = [visit for visit in lookup.visits(entry, watched.seen_s) if visit.changed][:VISITS_AT_ONCE]
        for visit in found:
            item = self._item(lookup, entry, visit.time_s, visit.outcome)
            # Made from the data alone: a change that is found twice has the same identity.
            identity = _identity(watched.id, entry.url, repr(visit.time_s))
            with transaction(self._store.db):
                # The user removed the subscription while this look ran.
                if self._store.get(watched.id) is None:
                    return 0
                self._add_notice(watched, identity, PAGE_CHANGED, [item])
                self._store.record_visit(watched.id, visit.time_s)
        return len(found)

    def _item(self, lookup: Lookup, entry: UrlEntry, time_s: float, outcome: str) -> dict[str, Any]:
        is_gone = outcome in _GONE
        difference = None if is_gone else self._difference(lookup, entry, time_s, MAX_DIFFERENCE_CHARS)
        return {
            "url": entry.url,
            "title": entry.page.title if entry.page is not None else "",
            "what": "gone" if is_gone else "changed",
            "seen": iso_utc(time_s),
            "outcome": outcome,
            "difference": None if difference is None else asdict(difference),
        }

    def _difference(self, lookup: Lookup, entry: UrlEntry, time_s: float, chars: int) -> PageDifference | None:
        """Compare the version of a visit with the one before it; None if there are not two captures to compare."""
        visits = [visit for visit in lookup.visits(entry) if visit.file and visit.time_s <= time_s]
        if not visits or visits[-1].time_s != time_s:
            return None
        after = visits[-1]
        # Visits with the same bytes are no version of their own; the last other one is compared.
        before = next((each for each in reversed(visits) if each.digest != after.digest), None)
        if before is None:
            return None
        try:
            found = compare(
                self._capture_reader, read_capture(lookup, entry, before), read_capture(lookup, entry, after)
            )
        except (StoreError, ParseError):  # a capture that is missing or unreadable: the page changed all the same
            return None
        parts, left_out = _bounded(found.parts, chars)
        return PageDifference(iso_utc(before.time_s), found.removed, found.added, parts, found.not_shown + left_out)

    # -- searches ------------------------------------------------------------------------------------------

    def _check_search(self, lookup: Lookup, watched: Subscription) -> int:
        if self._search is None:
            from teia.indexer.open_search import CollectionSearch  # slow import, needed for watched searches only

            try:
                self._search = CollectionSearch(self._root, [self._name], self._clock)
            except IndexFailure:  # nothing is indexed yet
                return 0
        made, positions = 0, self._store.positions(watched.id)
        for number, upto in enumerate(self._indexed(lookup)):
            at = positions.get(number, 0)
            while at < upto:
                changed = changed_pages(lookup.cells[number], at, CHANGES_AT_ONCE, upto)
                hits = self._search.search_among(watched.what, [each.key for each in changed]) if changed else []
                if hits is None:  # not all pages could be searched in time; the next look tries again
                    self._is_whole = False
                    return made
                # A batch ends at its last change. An empty one means that nothing is left before `upto`.
                to = changed[-1].change if changed else upto
                made += self._add_result_notice(lookup, watched, (number, at, to), changed, hits)
                at = to
                if self._is_late:
                    return made
        return made

    def _add_result_notice(
        self,
        lookup: Lookup,
        watched: Subscription,
        span: tuple[int, int, int],
        changed: Sequence[ChangedPage],
        hits: Sequence[Hit],
    ) -> int:
        """Store a notice of results among changed pages, each version once, and record the position reached."""
        cell, at, to = span
        notified = self._store.notified_versions(watched.id, [hit.key for hit in hits])
        pages = {each.key: each for each in changed}
        new = [
            (hit, page)
            for hit in hits
            if _is_new_version(page := pages[hit.key], notified.get(hit.key), watched.made_s)
        ]
        items = [self._result(lookup, hit, page) for hit, page in new]
        with transaction(self._store.db):
            if self._store.get(watched.id) is None:  # removed while this look ran
                return 0
            if items:
                identity = _identity(watched.id, str(cell), str(at), str(to))
                self._add_notice(watched, identity, SEARCH_RESULTS, items)
                self._store.record_notified(watched.id, {page.key: page.changed_s for _, page in new})
            self._store.set_positions(watched.id, {cell: to})
        return bool(items)

    def _result(self, lookup: Lookup, hit: Hit, page: ChangedPage) -> dict[str, Any]:
        # A new page has no earlier version to compare with.
        entry = lookup.find(page.url) if page.changes else None
        difference = self._difference(lookup, entry, page.changed_s, MAX_RESULT_CHARS) if entry is not None else None
        return {
            "url": hit.url,
            "title": hit.title.plain(),
            "what": "changed" if page.changes else "new",
            "seen": iso_utc(page.changed_s),
            "snippet": hit.snippet.plain(),
            "difference": None if difference is None else asdict(difference),
        }

    def _add_notice(self, watched: Subscription, identity: str, kind: str, items: Sequence[dict[str, Any]]) -> None:
        now_s = self._clock.now_s()
        body = message(kind, iso_utc(now_s), {**origin_fields(self._name, watched), "items": list(items)})
        self._store.queue_notice(watched, identity, now_s, body)


def _is_new_version(page: ChangedPage, notified_s: float | None, since_s: float) -> bool:
    """Tell whether this version is new to a subscriber who was notified of the version of `notified_s`, or of none.

    A change number is also given for other bytes whose text is the same.
    """
    if notified_s is None:
        return page.visits == 1 or page.changed_s > since_s
    return page.changed_s > notified_s


def _bounded(parts: Sequence[DiffPart], room: int) -> tuple[tuple[DiffPart, ...], int]:
    """Return as many parts as a message has room for, and the number of differences left out."""
    shown = list[DiffPart]()
    for part in parts:
        room -= len(part.before) + len(part.after)
        if room < 0:
            break
        shown.append(part)
    return tuple(shown), sum(part.kind == "changed" for part in parts[len(shown) :])


def _identity(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
