"""Progress of a crawl: the keys of `teia crawl --json` and `teia status --json`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from teia.collections.index_state import IndexState, compare_running_index
from teia.crawler.running_collection import Crawl
from teia.store.root import CollectionFolder


@dataclass(frozen=True, slots=True)
class Summary:
    """One crawl's account.

    `pages` are answers with a stored body, `indexed` those that searches can find now. `index_behind` are pages that
    belong into the index and are not there yet, `index_unreadable` those whose captures could not be read for it;
    `index_writing` says whether a process writes the index. `seconds` ends when everything is committed and handed to
    the indexer; indexing the rest took `index_seconds` more. `freshness` is for crawls that keep their pages fresh: the
    estimate from the known change rates, its error, and the best possible value.
    """

    collection: str
    state: str
    seconds: float
    requests: int
    pages: int
    pages_per_s: float
    bytes: int
    hosts: int
    urls_known: int
    urls_queued: int
    outcomes: dict[str, int]
    links: int
    archive_records: int
    indexed: int
    politeness_violations: int
    paused_why: str = ""
    failed_seeds: tuple[str, ...] = ()
    index_seconds: float = 0.0
    freshness: dict[str, float] | None = None
    index_behind: int = 0
    index_unreadable: int = 0
    index_writing: bool = False


def empty_summary(collection: str) -> Summary:
    """Return the account of a collection that was never crawled."""
    return Summary(collection, "waiting", 0.0, 0, 0, 0.0, 0, 0, 0, 0, {}, 0, 0, 0, 0)


def summarize(crawl: Crawl, seconds: float, politeness_violations: int = 0) -> Summary:
    """Add up what one crawl has committed since its start."""
    counts, cells = crawl.counts, crawl.committer.cells
    # A cell's folder lies two levels below that of its collection.
    folder = CollectionFolder(crawl.name, next(iter(cells)).folder.path.parent.parent)
    state = compare_running_index(folder, ((each.folder, each.frontier) for each in cells))
    return Summary(
        collection=crawl.name,
        state=str(crawl.state),
        seconds=round(seconds, 3),
        requests=counts.requests,
        pages=counts.pages,
        pages_per_s=round(counts.pages / seconds, 2) if seconds > 0 else 0.0,
        bytes=counts.bytes_received,
        hosts=len(crawl.queues),
        urls_known=sum(cell.frontier.known for cell in cells),
        urls_queued=sum(cell.frontier.queued for cell in cells),
        outcomes=dict(counts.outcomes.most_common()),
        links=counts.links,
        archive_records=counts.archive_records,
        indexed=state.indexed,
        politeness_violations=politeness_violations,
        paused_why=crawl.paused_why,
        failed_seeds=tuple(f"{url}: {why}" for url, why in counts.failed_seeds.items()),
        freshness=crawl.committer.refresh.account() if crawl.committer.refresh is not None else None,
        **(index_counts(state) if crawl.config.index.enabled else {}),
    )


def with_index(summary: Summary, state: IndexState, index_seconds: float = 0.0) -> Summary:
    """Return a summary with the current state of the index, which was still being written after the crawl ended."""
    return replace(summary, indexed=state.indexed, index_seconds=index_seconds, **index_counts(state))


def index_counts(state: IndexState) -> dict[str, Any]:
    """Return the index backlog as summary keys; callers skip this for a collection without an index."""
    return {
        "index_behind": state.lag,
        "index_unreadable": state.unreadable,
        "index_writing": state.is_being_written,
    }
