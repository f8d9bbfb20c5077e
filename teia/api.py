"""teia as a part of another program (T10): crawl from Python, and read the collections.

    import teia

    summary = teia.crawl(["https://example.org/"], data="archive", max_pages=100)
    with teia.open("archive") as collection:
        for page in collection.pages():
            print(page["url"], page["digest"])

`crawl` runs in the calling thread, on an event loop of its own; a program that has a loop awaits `crawl_async`. Both
take the root's lock, obey `teia pause` and `teia stop`, and continue where an earlier crawl stopped, like the command.
Neither touches signals or standard output.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import uvloop

from teia.clock import WallClock
from teia.collections.account import Summary, summarize
from teia.collections.poll_requests import drop_stale_requests, serve_requests
from teia.collections.settings import choose, configure, saved
from teia.config.sections import FLAGS, Config
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup
from teia.crawler.loop import Crawler
from teia.crawler.start import open_crawler
from teia.errors import UsageError
from teia.indexer.open_search import CollectionSearch
from teia.indexer.rebuild import rebuild_index as build_index
from teia.lib.closing import Closing
from teia.search.serve.searcher import SearchOptions
from teia.search.show.results import Results
from teia.store.audit import Audit
from teia.store.fetchlog import Rows
from teia.store.reader import StoredAnswer
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, audit_fetch_log, idle_account, known_urls
from teia.views.links import edges
from teia.views.page import PageView, find_entry, page_view

Progress = Callable[[Summary], object]
PROGRESS_S = 0.5


# ---- crawling -------------------------------------------------------------------------------------------------------


def crawl(
    seeds: Sequence[str] | str = (),
    *,
    data: Path | str,
    name: str | None = None,
    config: Path | str | None = None,
    on_progress: Progress | None = None,
    **settings: object,
) -> Summary:
    """Crawl one collection until it ends, in this thread; return its account.

    Settings are named as the flags of `teia crawl` (`max_pages=100`, `delay=2.0`, `scope=["domain:example.org"]`) or by
    section (`limits={"body_bytes": 1_000_000}`); the environment is ignored. `on_progress` is called every `PROGRESS_S`
    seconds with the account so far; an exception from it ends the crawl cleanly and is raised here.
    """
    if _has_loop():
        raise UsageError("an event loop is running in this thread; use `await teia.crawl_async(…)` instead")
    return uvloop.run(crawl_async(seeds, data=data, name=name, config=config, on_progress=on_progress, **settings))


async def crawl_async(
    seeds: Sequence[str] | str = (),
    *,
    data: Path | str,
    name: str | None = None,
    config: Path | str | None = None,
    on_progress: Progress | None = None,
    **settings: object,
) -> Summary:
    """Like `crawl`, for a program with an event loop; if cancelled, it commits the pages already read."""
    root = open_root(Path(data), create=True)
    with root.locked():
        clock = WallClock()
        drop_stale_requests(root, clock)
        flags = flags_of(seeds, settings)
        wanted = configure(root, name, None if config is None else Path(config), {}, flags).config
        began = clock.ticks_s()
        async with open_crawler(root, [wanted], clock, seed=int(clock.now_s())) as crawler:
            tasks = [asyncio.create_task(serve_requests(crawler, root, clock))]
            if on_progress is not None:
                tasks.append(asyncio.create_task(_report_progress(crawler, clock, on_progress)))
            await _run(crawler, tasks)
            summary = summarize(crawler.crawls[0], clock.ticks_s() - began)
        audit = await asyncio.to_thread(audit_fetch_log, root, wanted.collection.name, wanted.courtesy)
    return replace(summary, politeness_violations=audit.violations)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def flags_of(seeds: Sequence[str] | str, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of `crawl` under their dotted keys; `configure` checks the values."""
    flags: dict[str, Any] = {"collection.seeds": [seeds] if isinstance(seeds, str) else list(seeds) or None}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flags.update({f"{key}.{name}": _as_list(each) for name, each in value.items()})
        elif key in FLAGS:
            flags[FLAGS[key]] = _as_list(value)
        else:
            raise UsageError(
                f"crawl() has no setting {key!r}; available: {', '.join(FLAGS)}, and sections such as limits={{…}}"
            )
    return flags


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


async def _run(crawler: Crawler, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Run a crawler with tasks beside it; the end of any task ends the crawl, and pages already read are committed."""
    crawling = asyncio.create_task(crawler.run())
    try:
        await asyncio.wait([crawling, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        crawler.stop_now()
        for task in tasks:
            if not task.done():
                task.cancel()
        await asyncio.wait([crawling, *tasks])
    for task in (crawling, *tasks):
        if not task.cancelled():
            task.result()


async def _report_progress(crawler: Crawler, clock: WallClock, on_progress: Progress) -> None:
    began = clock.ticks_s()
    while True:
        on_progress(summarize(crawler.crawls[0], clock.ticks_s() - began))
        await clock.sleep(PROGRESS_S)


def rebuild_index(data: Path | str, name: str | None = None) -> int:
    """Build the index of a collection from its archive, with PageRank; return the number of pages in it."""
    root = open_root(Path(data))
    return asyncio.run(build_index(root, choose(root, name), WallClock()))


def _warn_of_old_name(old: str, new: str) -> None:
    """Warn of a name that is going to be removed (docs/embedding.md#what-stays)."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


# ---- reading --------------------------------------------------------------------------------------------------------


class PageListing(TypedDict):
    """A URL with a capture, as `Collection.pages` yields it. `digest` is of the decoded body, in hex."""

    url: str
    status: int
    title: str
    lang: str
    type: str
    digest: str
    visits: int
    changes: int
    last_visit_s: float


class CaptureListing(TypedDict):
    """A capture, as `Collection.captures` yields it: `Collection.capture(url, time_s)` reads it.

    `changed` is None for the first visit. `file`, `offset` and `length` lead to its record in the archive.
    """

    url: str
    time_s: float
    outcome: str
    digest: str
    changed: bool | None
    file: str
    offset: int
    length: int


def open_collection(data: Path | str, name: str | None = None) -> Collection:
    """Open a collection of a data folder for reading (`teia.open`); it may be left out if there is only one."""
    return Collection(data, name)


class Collection(Closing):
    """A collection opened for reading, also while it is being crawled; nothing is written, and no lock is taken."""

    def __init__(self, data: Path | str, name: str | None = None) -> None:
        self._root = open_root(Path(data))
        self.name = choose(self._root, name)
        self._lookup = Lookup(self._root, self.name)
        self._clock = WallClock()
        self._search: CollectionSearch | None = None

    @property
    def settings(self) -> Config:
        """Settings of the collection."""
        return saved(self._root, self.name).config

    def urls(self) -> Iterator[dict[str, Any]]:
        """Yield every known URL, with the keys of `teia export urls`."""
        return known_urls(self._root, self.name)

    def pages(self) -> Iterator[PageListing]:
        """Yield every URL with a capture."""
        for url, _, page in self._lookup.pages():
            yield {
                "url": url,
                "status": page.status,
                "title": page.title,
                "lang": page.language,
                "type": page.media_type,
                "digest": page.digest.hex(),
                "visits": page.visits,
                "changes": page.changes,
                "last_visit_s": page.last_visit_s,
            }

    def captures(self, url: str | None = None) -> Iterator[CaptureListing]:
        """Yield the captures of a page, or of all pages, each page's oldest first."""
        urls = (
            (page for page, _, _ in self._lookup.pages())
            if url is None
            else (find_entry(self._lookup, url, self.settings).url,)
        )
        for each in urls:
            entry = self._lookup.find(each)
            for visit in self._lookup.visits(entry) if entry is not None else ():
                if visit.file:
                    yield {
                        "url": each,
                        "time_s": visit.time_s,
                        "outcome": visit.outcome,
                        "digest": visit.digest.hex(),
                        "changed": visit.changed,
                        "file": visit.file,
                        "offset": visit.offset,
                        "length": visit.length,
                    }

    def page(self, url: str) -> PageView:
        """Return everything about one page; if it is unknown, the StoreError names similar pages."""
        return page_view(self._lookup, url, self.settings, self._clock)

    def capture(self, url: str, time_s: float | None = None) -> StoredAnswer:
        """Return a capture, the last one or that of a visit: head and body as received, decompressed."""
        return self._lookup.capture(url, time_s)

    def copy(self, url: str, time_s: float | None = None) -> StoredAnswer:
        """Return `capture(url, time_s)`; this is the old name."""
        _warn_of_old_name("Collection.copy", "Collection.capture")
        return self.capture(url, time_s)

    def links(self) -> Iterator[tuple[str, str]]:
        """Yield the link graph, as (source, target)."""
        return edges(self._lookup)

    def search(self, text: str, n: int = 10, offset: int = 0, **how: Any) -> Results:
        """Search the pages, as `teia search` does; every query text is valid.

        `how` are fields of `teia.search.serve.searcher.SearchOptions`: `explain=True`, `facets=True`.
        """
        return self._open_search().search(text, n, offset, SearchOptions(**how))

    def similar(self, url: str, n: int = 10) -> Results:
        """Return pages about the same subject as a page."""
        return self._open_search().similar(url, n)

    def _open_search(self) -> CollectionSearch:
        if self._search is None:
            self._search = CollectionSearch(self._root, [self.name], self._clock)
        return self._search

    def sql(self, query: str) -> Rows:
        """Run a query on the fetch log; see docs/formats.md for its columns."""
        with fetch_log(self._root, self.name) as log:
            return log.query(query)

    def account(self) -> dict[str, Any]:
        """Return the counts of the collection, under the keys of a crawl's summary."""
        return idle_account(self._root, self.name)

    def audit_politeness(self) -> Audit:
        return audit_fetch_log(self._root, self.name, self.settings.courtesy)

    def audit_archive(self) -> Audit:
        return audit_archives(self._root, self.name)

    def close(self) -> None:
        if self._search is not None:
            self._search.close()
        self._lookup.close()
