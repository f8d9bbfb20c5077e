"""The content-seen test: recognise a body that another URL brought before, ahead of parsing it (A9, C6).

Before an answer goes to a parse child, its body is looked up by checksum: among the bodies that this run has stored,
then in `seen.sqlite`. A child that gets a record compares the digests of the bodies. If they are equal, the answer is
stored as a revisit record that refers to the other URL, and it is parsed again only if its links may differ
(child/seen_answer.py).

Only records that no crash can lose alone are referred to. So while the first answer with a body waits for its commit,
others with the same checksum wait for it, except in the same cell: they wait until a child has read it. A group of
visits is committed in order and each cell's part of it at once, so their records are committed with its record, or
after it. Names that may be one site do not wait for each other; both may store the body.

The test covers all cells of a collection on one machine, and on a node of a cluster all cells whose pages it has
fetched: a cell that moves to another node leaves its bodies here, and those of other cells that it refers to. With
`cluster.ship_archive` a cell takes its archive along, which must be whole, so a page is compared with pages of its cell
alone. A node refers to committed records alone, because the visits of a cell that has moved are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from teia.crawler.child.messages import SeenAnswer, SeenRecord
from teia.crawler.visit import ActiveVisit
from teia.errors import StoreError
from teia.frontier.cell.schema import AS_SITEMAP
from teia.parse.decode import dechunk
from teia.records import Fetched
from teia.store.root import CollectionFolder
from teia.store.seen_bodies import SeenBodies, SeenBody, checksum_of
from teia.urls import site_of

MAX_WAITING_BYTES = 8 << 20
"""Bodies that wait for another answer with the same body; beyond that, answers are stored without the test."""

MAX_RECENT_BYTES = 16 << 20
"""Memory for bodies of this run of which the crawler keeps all that a child compares; those before are on disk."""

RECENT_BYTES = 1_000
"""Memory that one of them takes beside the head, the URL and the result of parsing, which may be long."""

MAX_CHUNKS = 64
"""A body in more chunks is not tested: undoing the chunks would delay the loop."""

MAX_CHUNK_LINE = 1_024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class FirstAnswer:
    """The first answer with a body, until it is committed: its visit, its head, and the visits that wait for it."""

    visit: ActiveVisit
    head: bytes
    waiting: list[ActiveVisit] = field(default_factory=list)


class ContentSeen:
    """The content-seen test of one crawl. Only `add` runs in the commit thread."""

    def __init__(self, folder: CollectionFolder, *, cells_move: bool = False, archives_move: bool = False) -> None:
        self._bodies: SeenBodies | None = SeenBodies(folder.seen)
        self._cells_move, self._within_cells = cells_move, archives_move
        # Any cell's folder leads to the files of all cells (archive.archive_path).
        self._archive = str(Path(folder.path) / "cells" / "00" / "archive")
        self._under_way: dict[int, FirstAnswer] = {}
        self._recent: dict[int, tuple[SeenBody, SeenAnswer]] = {}
        """The last bodies that this run has stored, on one machine."""
        self._recent_bytes = 0
        self.waiting = 0
        """Number of visits that wait for another one with the same body."""
        self._waiting_bytes = 0
        self._released: list[ActiveVisit] = []

    def begin(self, visit: ActiveVisit, *, may_wait: bool) -> bool:
        """Look a body up; return False if the visit must wait for another one with the same body, which it does once.

        Waiting ends with `pop_released`, and the visit is begun again.
        """
        fetched = visit.fetched
        assert fetched is not None
        body = _plain_body(fetched) if self._bodies is not None and _is_tested(visit, fetched) else b""
        if not body:
            return True
        # A visit waits once: the answer that it waited for may be refused, and each of a thousand others as well.
        may_wait = may_wait and visit.checksum is None
        checksum = visit.checksum = checksum_of(body, visit.queue.cell + 1 if self._within_cells else 0)
        first = self._under_way.get(checksum)
        if first is None:
            recent = self._recent.get(checksum)
            visit.seen = self._find(checksum) if recent is None else recent[0]
            if visit.seen is None:
                self._under_way[checksum] = FirstAnswer(visit, fetched.head)
        elif self._is_committed_with(first, visit) and first.visit.result is not None:
            visit.original = first.visit if _parsed(first.visit) else None
        elif may_wait and self._has_room(body) and not _may_be_names_of_one_site(first.visit, visit):
            first.waiting.append(visit)
            self.waiting += 1
            self._waiting_bytes += len(fetched.body)
            return False
        else:
            visit.seen = self._find(checksum)
        return True

    def _has_room(self, body: bytes) -> bool:
        return self._waiting_bytes + len(body) <= MAX_WAITING_BYTES

    def _is_committed_with(self, first: FirstAnswer, visit: ActiveVisit) -> bool:
        """Tell whether no crash can leave a visit committed, and not an answer that was read before it."""
        return not self._cells_move and first.visit.queue.cell == visit.queue.cell

    def record_of(self, visit: ActiveVisit) -> SeenRecord | None:
        """Return the record that a parse child compares with the answer of a visit that has begun."""
        seen, checksum = visit.seen, visit.checksum
        if checksum is None or (seen is None and visit.original is None):
            return None
        if seen is None:
            first = self._under_way[checksum]
            return SeenRecord(_parsed(first.visit), answer=_answer(first))
        recent = self._recent.get(checksum)
        if recent is None or recent[0] is not seen:
            return SeenRecord(seen.parsed, self._archive, seen.file, seen.offset)
        return SeenRecord(seen.parsed, answer=recent[1])

    def note_read(self, visit: ActiveVisit) -> None:
        """Release the visits that waited for a child to read this one, which now waits for its commit."""
        first = self._first(visit)
        if first is not None and first.waiting:
            self._released += [each for each in first.waiting if self._is_committed_with(first, each)]
            first.waiting[:] = [each for each in first.waiting if not self._is_committed_with(first, each)]

    def end(self, visit: ActiveVisit) -> None:
        """Release the visits that waited for one that is committed, or was given up."""
        first = self._first(visit)
        if first is not None and visit.checksum is not None:
            del self._under_way[visit.checksum]
            self._released += first.waiting
            # The archive of a node's cell may move to another node, and the child must look whether it is still here.
            if visit.capture.file and _parsed(visit) and not self._cells_move:
                recent = SeenBody(*visit.capture, _parsed(visit)), _answer(first)
                self._recent[visit.checksum] = recent
                self._recent_bytes += _size(*recent)
                while self._recent_bytes > MAX_RECENT_BYTES:
                    self._recent_bytes -= _size(*self._recent.pop(next(iter(self._recent))))

    def _first(self, visit: ActiveVisit) -> FirstAnswer | None:
        """Return a visit as the first answer with its body; None if it is not the first."""
        first = None if visit.checksum is None else self._under_way.get(visit.checksum)
        return first if first is not None and first.visit is visit else None

    def forget_recent(self) -> None:
        """Forget the bodies in memory: their records may have been removed. A child reads those that are on disk."""
        self._recent.clear()
        self._recent_bytes = 0

    def release_all(self) -> None:
        """Release all visits, because the crawl ends."""
        for first in list(self._under_way.values()):
            self.end(first.visit)

    def pop_released(self) -> list[ActiveVisit]:
        """Return the released visits; each is to be begun again."""
        released, self._released = self._released, []
        self.waiting -= len(released)
        self._waiting_bytes -= sum(len(visit.fetched.body) for visit in released if visit.fetched is not None)
        return released

    def add(self, visits: Iterable[ActiveVisit]) -> None:
        """Note the bodies that committed visits have stored."""
        found = [
            (visit.checksum, SeenBody(*visit.capture, visit.result.parsed))
            for visit in visits
            if visit.checksum is not None and visit.result is not None and visit.result.parsed and visit.capture.file
        ]
        if found and self._bodies is not None:
            try:
                self._bodies.add(found)
            except StoreError as error:
                self._give_up(error)

    def _find(self, checksum: int) -> SeenBody | None:
        try:
            return None if self._bodies is None else self._bodies.find(checksum)
        except StoreError as error:
            self._give_up(error)
            return None

    def _give_up(self, error: StoreError) -> None:
        """Continue without the test: it saves space and time, and no page depends on it."""
        _log.warning("bodies that were stored before are not recognised until the next start: %s", error)
        self._bodies = None

    def close(self) -> None:
        if self._bodies is not None:
            self._bodies.close()


def _parsed(visit: ActiveVisit) -> bytes:
    """Return the result of parsing a body that others may refer to; empty if its answer was refused."""
    return b"" if visit.result is None else visit.result.parsed


def _answer(first: FirstAnswer) -> SeenAnswer:
    """Return what a child compares another answer with, of an answer that was read."""
    fetched, result = first.visit.fetched, first.visit.result
    assert fetched is not None
    assert result is not None
    return SeenAnswer(fetched.url, fetched.started_s, result.payload_digest, result.record_id, first.head)


def _size(body: SeenBody, answer: SeenAnswer) -> int:
    return RECENT_BYTES + len(body.parsed) + len(answer.url) + len(answer.head)


def _may_be_names_of_one_site(one: ActiveVisit, other: ActiveVisit) -> bool:
    """Tell whether two visits are of hosts that sites/aliases.py compares, which must not slow each other down."""
    a, b = one.queue.host, other.queue.host
    return a != b and (one.address == other.address or site_of(a) == site_of(b))


def _is_tested(visit: ActiveVisit, fetched: Fetched) -> bool:
    """Tell whether an answer may repeat that of another URL; a known page is compared with its own capture."""
    is_new_page = visit.item.purpose == "page" and not visit.item.visits and not visit.item.found_by & AS_SITEMAP
    return is_new_page and fetched.status == 200 and not fetched.truncated


def _plain_body(fetched: Fetched) -> bytes:
    """Return a body without its chunks; empty if it has too many."""
    if b"chunked" not in fetched.head.lower():
        return fetched.body
    body, _, error = dechunk(fetched.body, MAX_CHUNK_LINE, MAX_CHUNKS)
    return b"" if error else body
