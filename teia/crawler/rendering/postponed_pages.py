"""Pages that went on as received, because a trial of their kind would have held up the crawl.

If a trial shows later that their kind is to be rendered, they are requested once more. Where a kind had no trial
meanwhile, one of its pages is requested to be the trial: the one with the least text, to which scripts bring most. Only
pages that are committed are requested: the end of a visit would undo the request. At a stop the pages are stored with
what is known of their host, and the next run continues with them.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from teia.crawler.rendering.kinds import RenderKind, RenderVerdict
from teia.crawler.visit import ActiveVisit
from teia.urls import host_of, key_of

MAX_URLS = 100_000
"""Number of pages that are remembered; further ones are rendered at their next visit."""

AT_ONCE = 100
"""Pages requested again with one commit: those that a stop finds requested are few."""

MAX_ASKED = 4
"""Pages of a kind that are requested as trials; a kind of which none could be tried is given up for this run."""

Scripts = tuple[str, int]
"""A host, and the hash of the scripts that its pages share."""

Page = tuple[int, str]
"""The length of a page's text as received, and its URL."""


class StoredPages(msgspec.Struct, array_like=True, tag="postponed"):
    """Postponed pages of a kind, as they are stored at a stop."""

    pattern: str
    scripts: int
    pages: list[Page]
    is_empty: bool = False


@dataclass(slots=True)
class _KindPages:
    """Postponed pages of a kind, and how many were requested as trials."""

    kind: RenderKind
    pages: list[Page] = field(default_factory=list)
    asked: int = 0


class PostponedPages:
    """Postponed pages of one crawl. `request` has a page fetched again, `update` brings a kind's verdict up to date."""

    def __init__(self, request: Callable[[str], None], update: Callable[[str, RenderKind, int], None]) -> None:
        self._request, self._update = request, update
        self._uncommitted: dict[ActiveVisit, tuple[RenderKind, int]] = {}
        self._kinds: defaultdict[Scripts, dict[int, _KindPages]] = defaultdict(dict)
        self._sizes: defaultdict[Scripts, int] = defaultdict(int)
        self._scripts_of: Counter[str] = Counter()
        """Number of sets of scripts in `_kinds`, by host."""
        self._count = 0
        self._due: deque[tuple[RenderKind, Page]] = deque()
        """Pages of kinds that are rendered, which are to be requested."""

    def __len__(self) -> int:
        return self._count + len(self._uncommitted) + len(self._due)

    @property
    def has_work(self) -> bool:
        """True if pages wait for a trial, or to be requested."""
        return bool(self._count or self._due)

    def add(self, visit: ActiveVisit, kind: RenderKind, chars: int) -> None:
        """Remember a page that continues as received."""
        if len(self) < MAX_URLS:
            self._uncommitted[visit] = kind, chars

    def note_committed(self, visits: Iterable[ActiveVisit]) -> None:
        """Take the committed pages; those whose kind was judged meanwhile are settled at once."""
        judged: set[Scripts] = set()
        for visit in visits if self._uncommitted else ():
            kind, chars = self._uncommitted.pop(visit, (None, 0))
            if kind is not None:
                same = (visit.queue.host, kind.scripts)
                self._put(same, kind, [(chars, visit.item.url)])
                if not kind.is_undecided:
                    judged.add(same)
        for same in judged:
            self.settle(same)

    def _put(self, same: Scripts, kind: RenderKind, pages: list[Page]) -> None:
        self._scripts_of[same[0]] += same not in self._kinds
        self._kinds[same].setdefault(id(kind), _KindPages(kind)).pages.extend(pages)
        self._count_in(same, len(pages))

    def _count_in(self, same: Scripts, number: int) -> None:
        self._sizes[same] += number
        self._count += number

    def settle(self, same: Scripts) -> None:
        """Let pages whose kind is rendered be requested, and forget those of kinds that are not."""
        for number, each in list(self._kinds.get(same, {}).items()):
            self._update(same[0], each.kind, min(each.pages, default=(0, ""))[0])
            if each.kind.verdict is RenderVerdict.RENDERED:
                self._due.extend((each.kind, page) for page in each.pages)
            if not each.kind.is_undecided:
                self._drop(same, number)

    def _drop(self, same: Scripts, number: int) -> None:
        self._count_in(same, -len(self._kinds[same].pop(number).pages))
        if not self._kinds[same]:
            del self._kinds[same], self._sizes[same]
            self._scripts_of[same[0]] -= 1
            if not self._scripts_of[same[0]]:
                del self._scripts_of[same[0]]

    def request_due(self) -> None:
        """Request some of the pages that turned out to need their scripts."""
        for _ in range(min(AT_ONCE, len(self._due))):
            self._request(self._due.popleft()[1][1])

    def ask(self, same: Scripts) -> str | None:
        """Request the page with the least text of all kinds that wait for a trial; None if there is none.

        Kinds that wait for none are settled or given up: each call leaves fewer pages, or none was left before.
        """
        self.settle(same)  # by the pages that wait: another page of a kind may have changed its verdict
        for number, each in list(self._kinds.get(same, {}).items()):
            if each.asked >= MAX_ASKED or not each.pages:
                self._drop(same, number)
        if same not in self._kinds:
            return None
        chosen = min(self._kinds[same].values(), key=lambda each: min(each.pages))
        page = min(chosen.pages)
        chosen.pages.remove(page)
        chosen.asked += 1
        self._count_in(same, -1)
        self._request(page[1])
        return page[1]

    def waiting(self, at_least: int = 0) -> list[Scripts]:
        """Return the scripts for whose verdict so many pages wait, or more."""
        return [same for same, size in self._sizes.items() if size >= at_least]

    def has_pages_of(self, host: str) -> bool:
        """Tell whether pages of a host wait for a verdict."""
        return host in self._scripts_of

    def take_all(self) -> Iterator[tuple[str, tuple[int, bytes]]]:
        """Forget all pages, because the crawl ends; yield a page to be requested and a record of all of its kind.

        The page brings its host back in the next run, and with it the record.
        """
        for visit, (kind, chars) in self._uncommitted.items():
            self._put((visit.queue.host, kind.scripts), kind, [(chars, visit.item.url)])
        for kind, page in self._due:
            self._put((host_of(page[1]), kind.scripts), kind, [page])
        for kinds in self._kinds.values():
            for each in kinds.values():
                if each.pages:
                    yield min(each.pages)[1], stored_pages(each.kind, each.pages)
        self._uncommitted.clear()
        self._kinds.clear()
        self._sizes.clear()
        self._scripts_of.clear()
        self._due.clear()
        self._count = 0

    def load(self, host: str, kind: RenderKind, pages: list[Page]) -> bool:
        """Continue with the pages that an earlier run has postponed; return False if there is no room for them."""
        has_room = len(self) < MAX_URLS
        if has_room:
            self._put((host, kind.scripts), kind, pages)
            self.settle((host, kind.scripts))
        return has_room


_decode = msgspec.msgpack.Decoder(StoredPages).decode
_encode = msgspec.msgpack.Encoder().encode


def stored_pages(kind: RenderKind, pages: list[Page]) -> tuple[int, bytes]:
    """Return the postponed pages of a kind as they are stored, with the number of their record."""
    number = key_of(f"postponed {kind.pattern} {kind.scripts}{' empty' if kind.is_empty else ''}")
    return number, _encode(StoredPages(kind.pattern, kind.scripts, pages, kind.is_empty))


def decode_pages(record: bytes) -> StoredPages | None:
    """Return stored pages; None if a record is something else."""
    try:
        return _decode(record)
    except msgspec.MsgspecError:
        return None
