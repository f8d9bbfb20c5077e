"""The content-seen test: recognise a body that another URL brought before, ahead of parsing it (A9, C6).

Before an answer goes to a parse child, its body is looked up by checksum in `seen.sqlite`. A child that gets the
location of a record compares the bytes. If they are equal, the answer is stored as a revisit record that refers to the
other URL, and it is parsed again only if its links may differ (child/seen_answer.py). While the first answer with
a body waits for its commit, others with the same checksum wait for it: only committed records are referred to. Names
that may be one site do not wait for each other; both store the body.

On one machine the test covers all cells of a collection. A node of a cluster compares a page with pages of the same
cell alone, because a cell that moves to another node takes its archive along and must be whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from teia.crawler.child.messages import SeenRecord
from teia.crawler.visit import ActiveVisit
from teia.errors import StoreError
from teia.frontier.cell.schema import AS_SITEMAP
from teia.parse.decode import dechunk
from teia.records import Fetched
from teia.store.root import CollectionFolder
from teia.store.seen_bodies import SeenBodies, SeenBody, checksum_of
from teia.urls import site_of

MAX_WAITING_BYTES = 8 << 20
"""Bodies that wait for the commit of another one; beyond that, answers are stored without the test."""

MAX_CHUNKS = 64
"""A body in more chunks is not tested: undoing the chunks would delay the loop."""

MAX_CHUNK_LINE = 1_024
_log = logging.getLogger(__name__)


class ContentSeen:
    """The content-seen test of one crawl. Only `add` runs in the commit thread."""

    def __init__(self, folder: CollectionFolder, *, within_cells: bool) -> None:
        self._bodies: SeenBodies | None = SeenBodies(folder.seen)
        self._within_cells = within_cells
        # Any cell's folder leads to the files of all cells (archive.archive_path).
        self._archive = str(Path(folder.path) / "cells" / "00" / "archive")
        self._under_way: dict[int, tuple[ActiveVisit, list[ActiveVisit]]] = {}
        self.waiting = 0
        """Number of visits that wait for the commit of another one."""
        self._waiting_bytes = 0
        self._released: list[ActiveVisit] = []

    def begin(self, visit: ActiveVisit, *, may_wait: bool) -> bool:
        """Look a body up; return False if the visit must wait for the commit of another one, which it does once."""
        fetched = visit.fetched
        assert fetched is not None
        body = _plain_body(fetched) if self._bodies is not None and _is_tested(visit, fetched) else b""
        if not body:
            return True
        # A visit waits once: the answer that it waited for may be refused, and each of a thousand others as well.
        may_wait = may_wait and visit.checksum is None
        checksum = visit.checksum = checksum_of(body, visit.queue.cell + 1 if self._within_cells else 0)
        first = self._under_way.get(checksum)
        has_room = may_wait and self._waiting_bytes + len(body) <= MAX_WAITING_BYTES
        if first is not None and has_room and not _may_be_names_of_one_site(first[0], visit):
            first[1].append(visit)
            self.waiting += 1
            self._waiting_bytes += len(fetched.body)
            return False
        visit.seen = self._find(checksum)
        if first is None and visit.seen is None:
            self._under_way[checksum] = visit, []
        return True

    def record_of(self, visit: ActiveVisit) -> SeenRecord | None:
        """Return the record that a parse child compares with the answer of a visit."""
        seen = visit.seen
        return None if seen is None else SeenRecord(self._archive, seen.file, seen.offset, seen.parsed)

    def end(self, visit: ActiveVisit) -> None:
        """Release the visits that waited for one that is committed, or was given up."""
        first = None if visit.checksum is None else self._under_way.get(visit.checksum)
        if first is not None and first[0] is visit and visit.checksum is not None:
            del self._under_way[visit.checksum]
            self._released += first[1]

    def release_all(self) -> None:
        """Release all visits, because the crawl ends."""
        for first, _ in list(self._under_way.values()):
            self.end(first)

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
