"""Import of foreign WARC files: their records go into the archive, their pages are known and done.

Captures are imported in batches in which no URL occurs twice. The parse children read a batch all at once, and it is
committed in the order of its file, so a page's history grows in the order in which it was written.

Memory is bounded for any file: by a batch, which ends with the capture that makes it large, and the capture that
follows it (warc_captures.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from isal import igzip_lib

from teia.crawler.child import answer_reader
from teia.crawler.child.messages import ReadResult, encode_parts, result_of
from teia.crawler.commit import CommitGroup
from teia.crawler.links import field_of
from teia.crawler.lookup import SAME_TIME_S
from teia.crawler.verdicts import task_for
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.retry import verdict
from teia.frontier.tables.pages import find_page, find_url, visits_of
from teia.parse.children.child import LostAnswer
from teia.parse.children.pool import ChildLimits, ChildPool
from teia.records import NOT_MODIFIED, Fetched, Outcome
from teia.store.audit import matches
from teia.store.reader import Damage, Member, ignore_damage, record_of
from teia.store.warc import COMPRESSION_LEVEL, metadata_member
from teia.transfer.import_data import (
    IMPORTED,
    MAX_HOST_RULES,
    RECORDS_ONLY,
    ImportedVisit,
    ImportResult,
    Target,
    host_of,
    read_mark,
)
from teia.transfer.warc_captures import PageAnswer, WarcCapture, check_readable, content_id, page_answer, read_captures
from teia.urls import canonicalize, key_of, split

BATCH_CAPTURES = 128
BATCH_BYTES = 8 << 20
DAY_S = 86_400.0
"""Grace for captures that a clock ahead of ours dated."""


async def import_warc(target: Target, files: Sequence[Path], done: ImportResult) -> None:
    """Import files, those with the oldest first record first, so that histories grow forwards."""
    for path in files:
        check_readable(path)
    limits = target.config.limits
    children = target.config.parse.children or max(1, (os.cpu_count() or 2) - 1)
    pool = ChildPool(answer_reader, children, ChildLimits.from_settings(limits), target.clock)
    await pool.start()
    try:
        for path in sorted(files, key=_first_time_s):
            await _WarcImport(target, pool, path, done).run()
            done.files += 1
    finally:
        await pool.close()


def hosts_of_archives(files: Sequence[Path]) -> set[str]:
    """Return the hosts whose pages the files hold; reads all files, until there are too many hosts for rules."""
    for path in files:
        check_readable(path)
    hosts: set[str] = set()
    for path in files:
        for capture in read_captures(path, ignore_damage):
            host = host_of(canonicalize(capture.url)) if capture.answer is not None else ""
            hosts.update({host} if host else ())
            if len(hosts) > MAX_HOST_RULES:
                return hosts
    return hosts


def _first_time_s(path: Path) -> float:
    first = next(read_captures(path, ignore_damage), None)
    return first.records[0].time_s if first is not None else 0.0


@dataclass(slots=True)
class _Known:
    """Frontier data of a URL: failed tries, its last visit, and whether it was visited at a certain time."""

    failures: int = 0
    last_visit_s: float | None = None
    has_visit: bool = False


@dataclass(slots=True)
class _WarcImport:
    """The import of one file."""

    target: Target
    pool: ChildPool
    path: Path
    done: ImportResult
    source: str = ""
    marks: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        self.source = content_id(self.path)
        self.marks = {cell.number: read_mark(cell, self.source) for cell in self.target.cells}
        for batch in _batches(self._skip_imported(read_captures(self.path, self._damage))):
            # `gather` keeps the order of the file, although the children answer in any order.
            visits = await asyncio.gather(*(self._visit(capture) for capture in batch))
            group = CommitGroup([visit for visit in visits if visit is not None])
            self.done.records += sum(len(visit.result.lengths) for visit in visits if visit and visit.result)
            self.done.pages += sum(visit.item.purpose == IMPORTED for visit in visits if visit)
            committed = await asyncio.to_thread(self.target.committer.commit, group)
            self.done.urls_new += committed.new_urls

    def _damage(self, damage: Damage) -> None:
        self.done.damaged += 1
        self.done.add_detail(f"{damage.path}: {damage.why}")

    def _skip_imported(self, found: Iterable[WarcCapture]) -> Iterator[WarcCapture]:
        """Skip captures that an earlier, interrupted run has committed."""
        for capture in found:
            cell = self.target.cell_for(host_of(canonicalize(capture.url)))
            # The captures of a cell are committed in the order of the file, so its mark covers all earlier ones.
            if capture.offset <= self.marks[cell.number]:
                self.done.skipped += 1
            else:
                yield capture

    # -- one capture ---------------------------------------------------------------------------------------

    async def _visit(self, capture: WarcCapture) -> ImportedVisit | None:
        """Read a capture and turn it into a visit; None if the collection has it."""
        config = self.target.config
        self._check_digests(capture)
        page = page_answer(capture, config.scope.url_rules, config.limits)
        if page is None:
            return self._records_only(capture)
        known = self._known(page.fetched)
        # The same capture: fetched here, or imported from another file.
        if known.has_visit:
            self.done.skipped += 1
            return None
        is_future = page.fetched.started_s > self.target.clock.now_s() + DAY_S
        is_older = known.last_visit_s is not None and page.fetched.started_s < known.last_visit_s
        # A history grows forwards only, not beyond today, and a revisit says nothing without the capture it repeats.
        if is_future or is_older or (page.is_revisit and known.last_visit_s is None):
            why = "older than the known capture" if is_older else "refers to a missing capture"
            why = "dated in the future" if is_future else why
            self.done.add_detail(f"{capture.url}: {why}; its records are stored, but the page is not counted")
            return self._records_only(capture)
        if page.is_revisit:
            # It only shows that the page had not changed, like a 304.
            unchanged = replace(page, fetched=replace(page.fetched, status=NOT_MODIFIED))
            return self._make_visit(capture, unchanged, known, ReadResult(), page.fetched.outcome)
        result = await self._read(page)
        return self._make_visit(capture, page, known, result, result.outcome)

    def _check_digests(self, capture: WarcCapture) -> None:
        """Count records that do not match their digests; they are stored as they came, and audits will name them."""
        for record in capture.records:
            if not matches(record.headers.get("warc-block-digest"), record.block):
                self.done.mismatched += 1
                self.done.add_detail(f"{self.path}: offset {record.offset}: the block digest does not match")

    def _known(self, fetched: Fetched) -> _Known:
        host, key = split(fetched.url).host, key_of(fetched.url)
        frontier = self.target.cell_for(host).frontier
        row_key = frontier.find_row_key(host, key)
        if row_key is None:
            return _Known()
        url, page = find_url(frontier, row_key), find_page(frontier, row_key)
        # Between these times: a page may have a long history.
        is_seen = bool(visits_of(frontier, row_key, fetched.started_s - SAME_TIME_S, fetched.started_s + SAME_TIME_S))
        return _Known(url.failures if url else 0, page.last_visit_s if page else None, is_seen)

    async def _read(self, page: PageAnswer) -> ReadResult:
        """Have a child read a page; one that no child survives is stored unread."""
        item = self.target.item_for(page.fetched.url, page.depth)
        answer = await self._submit("page", item, page.fetched)
        if isinstance(answer, ReadResult):
            return answer
        stored = await self._submit("store", item, page.fetched)
        return msgspec.structs.replace(
            stored if isinstance(stored, ReadResult) else ReadResult(), outcome=str(Outcome.PARSE_FAILED)
        )

    async def _submit(self, purpose: str, item: QueuedUrl, fetched: Fetched) -> ReadResult | LostAnswer:
        future: asyncio.Future[bytes | LostAnswer] = asyncio.get_running_loop().create_future()
        task = task_for(self.target.read_settings, purpose, item, fetched)
        self.pool.submit(*encode_parts(task), done=future.set_result)
        return result_of(await future)

    # -- visits --------------------------------------------------------------------------------------------

    def _make_visit(
        self, capture: WarcCapture, page: PageAnswer, known: _Known, result: ReadResult, outcome: str
    ) -> ImportedVisit:
        url = page.fetched.url
        item = self.target.item_for(url, page.depth, failures=known.failures)
        # A capture of teia's brings its own metadata; a second record would repeat its links.
        metadata = b"" if page.is_revisit or _has_own_metadata(page) else _metadata_of(result)
        return ImportedVisit(
            self.target.queue_for(split(url).host),
            item,
            outcome=outcome,
            fetched=page.fetched,
            result=_with_records(result, capture, metadata),
            verdict=verdict(outcome, known.failures, self.target.config.courtesy.retry_wait_s),
            source=self.source,
            offset=capture.offset,
        )

    def _records_only(self, capture: WarcCapture) -> ImportedVisit:
        """Return a visit that only stores records: robots.txt, other protocols, captures older than the known one."""
        host = host_of(canonicalize(capture.url))
        return ImportedVisit(
            self.target.queue_for(host),
            self.target.item_for(capture.url, 0, RECORDS_ONLY),
            result=_with_records(ReadResult(), capture, b""),
            source=self.source,
            offset=capture.offset,
        )


def _batches(found: Iterable[WarcCapture]) -> Iterator[list[WarcCapture]]:
    """Group captures up to a number and a size, with no URL twice."""
    batch: list[WarcCapture] = []
    urls: set[str] = set()
    size = 0
    for capture in found:
        url = canonicalize(capture.url) or capture.url
        if url in urls:
            yield batch
            batch, urls, size = [], set(), 0
        batch.append(capture)
        urls.add(url)
        size += capture.size_bytes
        if len(batch) >= BATCH_CAPTURES or size >= BATCH_BYTES:
            # Freed while the caller works on the batch: a capture may be as large as MAX_CAPTURE_BYTES.
            del capture
            yield batch
            batch, urls, size = [], set(), 0
    if batch:
        yield batch


def _has_own_metadata(page: PageAnswer) -> bool:
    """Tell whether the capture has a metadata record of teia's, with the links in it."""
    return page.metadata is not None and field_of(page.metadata.block, "hopsFromSeed").isdigit()


def _metadata_of(result: ReadResult) -> bytes:
    """Return the block of the metadata record that a child made, the last of its records."""
    if not result.kinds or result.kinds[-1] != "metadata":
        return b""
    member = result.members[-result.lengths[-1] :]
    data = igzip_lib.decompress(member, flag=igzip_lib.DECOMP_GZIP)
    return record_of(Path("a record of ours"), Member(0, len(member), data)).block


def _with_records(result: ReadResult, capture: WarcCapture, metadata: bytes) -> ReadResult:
    """Return the result with the capture's own records in place of the child's, and our metadata about it."""
    members: list[tuple[str, bytes]] = []
    answer = capture.answer
    for record, head in capture.ordered:
        raw = b"".join((head, record.block, b"\r\n\r\n"))
        members.append((record.kind, igzip_lib.compress(raw, COMPRESSION_LEVEL, igzip_lib.COMP_GZIP)))
        del raw
        if record is answer and metadata:
            answer_id = record.headers.get("warc-record-id", "")
            members.append(("metadata", metadata_member(record.url, record.time_s, metadata, answer_id)))
    return msgspec.structs.replace(
        result,
        members=b"".join(member for _, member in members),
        lengths=tuple(len(member) for _, member in members),
        kinds=tuple(kind for kind, _ in members),
    )
