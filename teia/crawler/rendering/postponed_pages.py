"""Pages that went on as received while a trial of their kind, or of their scripts, was under way.

A fast crawl would stand still if all its pages waited for trials that most often bring nothing. So few pages wait for a
trial, and others continue. If the trial shows that their kind is to be rendered, they are requested once more. Only
pages that are committed are requested: the end of a visit would undo the request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from teia.crawler.rendering.kinds import RenderKind, RenderVerdict
from teia.crawler.visit import ActiveVisit

MAX_URLS = 100_000
"""Number of pages that are remembered; further ones are rendered at their next visit."""

Scripts = tuple[str, int]
"""A host, and the hash of the scripts that its pages share."""


class PostponedPages:
    """Postponed pages of one crawl. `request` has a page fetched again, `update` brings a kind's verdict up to date."""

    def __init__(self, request: Callable[[str], None], update: Callable[[str, RenderKind], None]) -> None:
        self._request, self._update = request, update
        self._uncommitted: dict[ActiveVisit, RenderKind] = {}
        self._urls: defaultdict[Scripts, dict[int, tuple[RenderKind, list[str]]]] = defaultdict(dict)
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._uncommitted)

    def add(self, visit: ActiveVisit, kind: RenderKind) -> None:
        """Remember a page that continues as received."""
        if len(self) < MAX_URLS:
            self._uncommitted[visit] = kind

    def note_committed(self, visits: Iterable[ActiveVisit], under_way: Callable[[Scripts], bool]) -> None:
        """Take the committed pages; those whose trials have ended meanwhile are settled at once."""
        if not self._uncommitted:
            return
        ended: set[Scripts] = set()
        for visit in visits:
            kind = self._uncommitted.pop(visit, None)
            if kind is None:
                continue
            same = (visit.queue.host, kind.scripts)
            self._urls[same].setdefault(id(kind), (kind, []))[1].append(visit.item.url)
            self._count += 1
            if not under_way(same):
                ended.add(same)
        for same in ended:
            self.settle(same)

    def settle(self, same: Scripts) -> None:
        """Request pages whose kind is rendered, and one of each kind without a trial; forget those not rendered."""
        for number, (kind, urls) in list(self._urls.get(same, {}).items()):
            self._update(same[0], kind)
            if kind.is_undecided:
                chosen = urls[:1]
                del urls[:1]
            else:
                chosen = urls if kind.verdict is RenderVerdict.RENDERED else []
                self._count -= len(urls) - len(chosen)
                del self._urls[same][number]
            self._count -= len(chosen)
            for url in chosen:
                self._request(url)
        if not self._urls.get(same):
            self._urls.pop(same, None)

    def forget(self, host: str) -> None:
        """Drop the pages of a host that has left memory."""
        for same in [each for each in self._urls if each[0] == host]:
            self._count -= sum(len(urls) for _, urls in self._urls.pop(same).values())

    def clear(self) -> None:
        """Drop all, because the crawl ends."""
        self._uncommitted.clear()
        self._urls.clear()
        self._count = 0
