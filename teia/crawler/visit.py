"""One visit from its start to its commit.

An `ActiveVisit` is made when a URL is taken from its host's buffer. It travels through fetch and parse to the group
commit and gathers the results of each stage. It is the only mutable object that crosses stages; after the commit it is
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.crawler.child.messages import ReadResult
from teia.frontier.cell.rows import NOT_ARCHIVED, CaptureLocation, QueuedUrl
from teia.frontier.queue.retry import RetryVerdict
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched
from teia.store.seen_bodies import SeenBody

RENDER = "render"
"""Purpose of a request that a page makes while it is rendered, and its kind in the fetch log."""


@dataclass(slots=True, eq=False)
class ActiveVisit:
    """A URL under way. `started` is in ticks; the times that are stored are `parsed_s` and those in `fetched`.

    Once a child has read the answer, `fetched` keeps its metadata and drops its bytes. `is_final_robots`: this answer
    is the origin's robots.txt, not a redirect on the way to it. `is_first`: the commit found no earlier answer of
    the page; None if the page is not kept. `changed`: it found another page than at the visit before; None if there was
    nothing to compare. `from_cache`: the answer came from the operator's cache proxy (C7), without a request to its
    server.

    `checksum` is that of the body, None if it was not looked for; `seen` is the committed record that probably has the
    same body, `original` a visit that has it and is committed no later than this one (content_seen.py). `capture` is
    the location of the visit's own record, set by its commit. `static` is the result of reading a page as received,
    while it waits to be rendered; `learnt` are records of kinds of pages, for the commit (rendering/kinds.py).
    """

    queue: HostQueue
    item: QueuedUrl
    address: str = ""
    started: float = 0.0
    delay_before_s: float | None = None
    waited_s: float | None = None
    delay_s: float = 0.0
    bytes_received: int = 0
    outcome: str = ""
    detail: str = ""
    fetched: Fetched | None = None
    parsed_s: float | None = None
    result: ReadResult | None = None
    verdict: RetryVerdict | None = None
    is_final_robots: bool = False
    is_first: bool | None = False
    changed: bool | None = None
    from_cache: bool = False
    checksum: int | None = None
    seen: SeenBody | None = None
    original: ActiveVisit | None = None
    capture: CaptureLocation = NOT_ARCHIVED
    static: ReadResult | None = None
    learnt: list[tuple[int, bytes]] | None = None

    @property
    def was_requested(self) -> bool:
        """True if a request was sent to the page's server, which counts for its delay, its budget and its account."""
        # The cache is the operator's own: it costs the page's server nothing.
        return self.fetched is not None and not self.from_cache

    @property
    def archive_bytes(self) -> int:
        """Size of its records in the archive; 0 if it was not read."""
        return 0 if self.result is None else len(self.result.members)

    @property
    def body_at(self) -> CaptureLocation:
        """Location of the record with the body, if the archive's record of this visit refers to another URL."""
        if self.result is None or not self.result.same_as:
            return NOT_ARCHIVED
        if self.seen is not None:
            return CaptureLocation(*self.seen[:3])
        return NOT_ARCHIVED if self.original is None else self.original.capture

    def drop_bytes(self) -> None:
        """Drop head and body; up to two thousand visits wait for their commit at a time."""
        each = self.fetched
        assert each is not None
        # Not `replace`, which takes four times as long.
        self.fetched = Fetched(
            each.url,
            each.outcome,
            each.status,
            each.started_s,
            each.ended_s,
            each.address,
            truncated=each.truncated,
            detail=each.detail,
            unanswered=each.unanswered,
        )
