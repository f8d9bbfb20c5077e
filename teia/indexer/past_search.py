"""A collection searched as it was at a moment in the past: every page with the capture that was current then.

The index has the present versions of pages. Those that were captured before the moment were current then. Of the pages
that changed since, or are gone, the captures of that time are read from the archive again and indexed in a temporary
folder; the two are searched as two shards. Parse children read the captures, because a page may be hostile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tantivy import Occur
from tantivy import Query as IndexQuery

from teia.clock import Clock, from_iso
from teia.collections.settings import saved
from teia.crawler.compiled_settings import encode_read_settings
from teia.crawler.lookup import Lookup
from teia.errors import UsageError
from teia.frontier.tables.page_changes import pages_changed_after
from teia.frontier.tables.pages import VisitEntry
from teia.index.cell import CellIndex
from teia.index.entry import PackedEntry
from teia.index.reader import IndexReader, keys_at
from teia.index.repeated import Lines
from teia.index.union import UnionReader
from teia.indexer.open_search import CollectionRanks, FrontierFacts, check_index, open_reader
from teia.indexer.reread import Rereader, RereadRequest
from teia.lib.closing import Closing
from teia.lib.message import Message
from teia.lib.scratch import ScratchFolder
from teia.search.rank.formula import Ranking
from teia.search.rank.tantivy_query import captured_until
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Facts, Results
from teia.store.root import Root

MAX_REREAD = 5_000
"""Most captures that are read again for one search; with more pages changed since, some are left out and counted."""

DEADLINE_S = 30.0
GONE = frozenset({"404", "410", "gone"})
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_moment(text: str) -> float:
    """Return the moment that a user means: a time in ISO 8601, or the end of a day in UTC."""
    try:
        if _DAY.fullmatch(text):
            day = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return (day + timedelta(days=1)).timestamp() - 1
        return from_iso(text)
    except (ValueError, OverflowError):
        raise UsageError(
            Message(
                "{text!r} is no date; write a day such as 2026-03-31, or a time such as 2026-03-31T12:00:00Z",
                text=text[:100],
            )
        ) from None


class PastSearch(Closing):
    """One collection as it was at a moment; for one search or a few."""

    def __init__(self, root: Root, name: str, moment_s: float, clock: Clock) -> None:
        folder = root.collection(name)
        check_index(root, folder)
        self._left_out = 0
        self._moment_s = moment_s
        with ExitStack() as stack:
            self._lookup = stack.enter_context(closing(Lookup(root, name)))
            reader = stack.enter_context(closing(open_reader([folder])))
            past = stack.enter_context(ScratchFolder("teia-past-")).path
            shards: list[LocalShard] = [LocalShard(name, reader, captured_until_s=int(moment_s))]
            if self._index_past(root, name, reader, past / "index", clock):
                past_reader = stack.enter_context(closing(UnionReader({"past": past / "index"})))
                shards.append(LocalShard(f"{name}, changed since", past_reader))
            facts = stack.enter_context(closing(_PastFacts(FrontierFacts([self._lookup], clock))))
            ranking = Ranking(priors=CollectionRanks([folder.ranks]))
            self._searcher = stack.enter_context(
                Searcher(shards, clock, ranking=ranking, facts=facts, deadline_s=DEADLINE_S)
            )
            self._stack = stack.pop_all()

    def search(self, text: str, n: int = 10, offset: int = 0, options: SearchOptions | None = None) -> Results:
        """Answer a query; a note names the number of pages that were left out."""
        results = self._searcher.search(text, n, offset, options)
        if not self._left_out:
            return results
        note = Message("{pages:,} pages changed since then and are left out; choose a later date", pages=self._left_out)
        return replace(results, notes=(*results.notes, note), is_partial=True)

    def close(self) -> None:
        self._stack.close()

    def _index_past(self, root: Root, name: str, reader: IndexReader, folder: Path, clock: Clock) -> int:
        """Index the captures that were current then and are not now; return their number."""
        wanted = list(self._captures_of_then())
        unchanged = _keys_before(reader, [each.key for each in wanted], int(self._moment_s))
        # The bytes of a page can change without its text; then the index still has the version of that time.
        wanted = [each for each in wanted if each.key not in unchanged]
        self._left_out = max(0, len(wanted) - MAX_REREAD)
        if not wanted:
            return 0
        config = saved(root, name).config
        rereader = Rereader(encode_read_settings(config), config, clock)
        entries = asyncio.run(_read(rereader, self._lookup, wanted[:MAX_REREAD]))
        folder.mkdir(parents=True)
        with closing(CellIndex(folder)) as index:
            for page in entries.values():
                index.put(page.entry)
            index.commit(len(entries))
        return len(entries)

    def _captures_of_then(self) -> Iterator[RereadRequest]:
        for cell in self._lookup.cells:
            for url, key in pages_changed_after(cell, self._moment_s):
                entry = self._lookup.find(url)
                visit = None if entry is None else current_at(self._lookup.visits(entry), self._moment_s)
                if visit is not None:
                    yield RereadRequest(url, key, visit)


def current_at(visits: Iterable[VisitEntry], moment_s: float) -> VisitEntry | None:
    """Return the visit whose capture was current at a moment; None if the page was unknown then, or gone."""
    current: VisitEntry | None = None
    for visit in visits:
        if visit.time_s > moment_s:
            break
        if visit.file and visit.outcome.startswith("2"):
            current = visit
        elif visit.outcome in GONE or (
            visit.outcome.startswith("2") and (not current or visit.digest != current.digest)
        ):
            current = None  # gone, or its capture was removed by the rules of retention
    return current


async def _read(rereader: Rereader, lookup: Lookup, wanted: Sequence[RereadRequest]) -> dict[int, PackedEntry]:
    try:
        return await rereader.entries(lookup, wanted)
    finally:
        await rereader.close()


def _keys_before(reader: IndexReader, keys: Sequence[int], moment_s: int) -> set[int]:
    """Return those of these pages whose indexed version was captured up to a moment."""
    if not keys:
        return set()
    searcher = reader.searcher()
    some = IndexQuery.term_set_query(reader.schema, "key", list(keys))
    query = IndexQuery.boolean_query([(Occur.Must, some), (Occur.Must, captured_until(reader.schema, moment_s))])
    found = searcher.search(query, limit=len(keys), count=False).hits
    return set(keys_at(searcher, [address for _, address in found]))


class _PastFacts(Closing):
    """Facts of that time: present visits and links say nothing about it, the lines that sites repeat are used."""

    def __init__(self, present: FrontierFacts) -> None:
        self._present = present

    def facts(self, _: Mapping[int, str], /) -> Mapping[int, Facts]:
        return {}

    def repeated_lines(self, hosts: Iterable[str], /) -> Mapping[str, Lines]:
        return self._present.repeated_lines(hosts)

    def close(self) -> None:
        self._present.close()
