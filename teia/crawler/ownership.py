"""The hosts that a crawl may request, and what follows from sharing a collection with other machines.

A crawl asks its `Ownership` before each request and each commit. One machine owns all hosts (`OneMachine`). A node of a
cluster owns the hosts of its cells for as long as its session lasts (cluster/crawl/ownership.py). All methods are
called on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.signals.announce import Announcement, AnnouncementInbox
from teia.signals.indexnow import IndexNowKey


class KeptElsewhere(NamedTuple):
    """The number of pages that other nodes keep fresh, and the importance of the least important of them.

    `goes_first`: where a page of this node is as unimportant, the other node is the one that drops its page.
    """

    pages: int = 0
    least: float = inf
    goes_first: bool = False

    def goes_after(self, least: float) -> bool:
        """Tell whether this node's least important page goes before those of other nodes, which have reported any."""
        return least < self.least < inf or (least == self.least < inf and not self.goes_first)


class VisitObserver(Protocol):
    """A part that counts visits from their start until they are committed or given up."""

    def note_start(self, visit: ActiveVisit) -> None:
        """Note a visit that starts; one that is settled without a request has no address."""

    def note_answer(self, visit: ActiveVisit, address: DelayTarget) -> None:
        """Note the answer of a server; the delay of its address has begun."""

    def note_end(self, visit: ActiveVisit) -> None:
        """Note that a visit was committed, or given up and left to a later run or another owner."""


class Ownership(Protocol):
    """The answers that differ between one machine and a node of a cluster."""

    @property
    def observers(self) -> Sequence[VisitObserver]:
        """Parts that are told of every visit; on one machine none, so that a visit costs no call."""

    @property
    def decides_end(self) -> bool:
        """True if the crawl ends by itself, at its limits or with nothing left to do; a node may still get links."""

    @property
    def waits_for_every_commit(self) -> bool:
        """True if a stop waits for a commit without limit. A node does: NATS may be unreachable for a while."""

    @property
    def gets_forwarded_signals(self) -> bool:
        """True if other machines forward the signals for this one, so that it may crawl without a socket of its own."""

    @property
    def cells_move(self) -> bool:
        """True if another machine may take over a cell, with its archive if `cluster.ship_archive` is set."""

    @property
    def forgets_hosts(self) -> bool:
        """True if hosts without work leave memory; a site that moves must take along the delays of all its hosts."""

    def owns(self, host: str) -> bool:
        """Tell whether this machine requests a host."""

    def may_start(self, queue: HostQueue, item: QueuedUrl) -> bool:
        """Tell whether a visit may begin now; if not, the host is tried again after the next commit."""

    def may_send(self, queue: HostQueue) -> Callable[[], bool] | None:
        """Return a function to call right before a request to a host is sent; None if nothing can change until then."""

    def begin_request(self, queue: HostQueue, schedule: HostSchedule, now: float) -> bool:
        """Take the lease of a host's address for one request; if it is refused, the host or its address is delayed."""

    def add_host(self, queue: HostQueue, schedule: HostSchedule) -> None:
        """Prepare a host that has its first URL in this run, before any request."""

    def wants_commit(self, now: float) -> bool | None:
        """Tell whether to commit now or to gather more; None to leave that to `commit.every_s` and `every_pages`."""

    def tick(self, now: float) -> bool:
        """Do periodic work; return whether hosts that may not start are to be tried again."""

    def before_results(self, schedule: HostSchedule) -> None:
        """Apply delays that a commit brought, before its hosts are woken."""

    def after_results(self) -> None:
        """Forget hosts and visits that a commit gave away, after its results are applied."""


class OneMachine:
    """Ownership of everything: no other machine crawls this collection."""

    observers: Sequence[VisitObserver] = ()
    decides_end = True
    waits_for_every_commit = False
    gets_forwarded_signals = False
    cells_move = False
    forgets_hosts = True

    def owns(self, host: str) -> bool:  # noqa: ARG002
        return True

    def may_start(self, queue: HostQueue, item: QueuedUrl) -> bool:  # noqa: ARG002
        return True

    def may_send(self, queue: HostQueue) -> None: ...

    def begin_request(self, queue: HostQueue, schedule: HostSchedule, now: float) -> bool:  # noqa: ARG002
        return True

    def add_host(self, queue: HostQueue, schedule: HostSchedule) -> None: ...

    def wants_commit(self, now: float) -> bool | None:  # noqa: ARG002
        return None

    def tick(self, now: float) -> bool:  # noqa: ARG002
        return False

    def before_results(self, schedule: HostSchedule) -> None: ...

    def after_results(self) -> None: ...


# ---- signals for pages of other machines -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostOwners:
    """Owners of the hosts that signals name; one machine owns all. Called by the commit thread.

    `forward` posts the announcements among those of a kind that belong to other machines, and returns them.
    `forward_keys` posts IndexNow keys that others must check, and returns the URLs that wait for each.
    """

    cell_number: Callable[[str], int]
    is_here: Callable[[str], bool] = lambda _: True
    forward: Callable[[AnnouncementInbox, str, Sequence[Announcement], float], list[Announcement]] = lambda *_: []
    forward_keys: Callable[[AnnouncementInbox, str, Iterable[IndexNowKey], float], dict[IndexNowKey, list[str]]] = (
        lambda *_: {}
    )
