"""What a crawl has done so far: the keys of `teia crawl --json` and `teia status --json`."""

from __future__ import annotations

from dataclasses import dataclass

from teia.crawl.crawl import Crawl


@dataclass(frozen=True, slots=True)
class Summary:
    """One crawl's account.

    `pages` are answers with a stored body, `indexed` those that the index holds now. `seconds` ends when everything is
    committed and handed to the indexer; that took `index_seconds` more to index the rest. `freshness` is of crawls that
    keep their pages fresh: how fresh they are by the rates known, with its error, and could be at best.
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


def nothing_yet(collection: str) -> Summary:
    """The account of a collection that was never crawled."""
    return Summary(collection, "waiting", 0.0, 0, 0, 0.0, 0, 0, 0, 0, {}, 0, 0, 0, 0)


def summarize(crawl: Crawl, seconds: float, politeness_violations: int = 0) -> Summary:
    """Add up what one crawl has committed since it began."""
    counts, cells = crawl.counts, crawl.committer.cells
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
        indexed=0,
        politeness_violations=politeness_violations,
        paused_why=crawl.paused_why,
        failed_seeds=tuple(f"{url}: {why}" for url, why in counts.failed_seeds.items()),
        freshness=crawl.committer.refresh.account() if crawl.committer.refresh is not None else None,
    )
