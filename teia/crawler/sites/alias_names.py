"""Aliases of hosts while a collection is crawled, on the event loop (A7).

The commit thread decides (aliases.py); its decisions arrive with a commit. From then on the URLs of an alias are
settled without a request, except those that are being checked again, and the alias shares the delay of its main name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from teia.crawler.sites.aliases import AliasBook
from teia.frontier.cell.rows import Queued, tail_of
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostQueue


class Names:
    """Aliases known to the event loop; with no `book` there are none."""

    def __init__(self, book: AliasBook | None) -> None:
        self._book = book
        self._checks = set(book.checks() if book is not None else ())
        self._moving: dict[HostQueue, None] = {}

    def main_of(self, host: str) -> str:
        """Return the main name of an alias; empty for a host that is none."""
        return "" if self._book is None else self._book.main_of(host)

    def is_elsewhere(self, queue: HostQueue, item: Queued) -> bool:
        """Tell whether a URL stands for one of its host's main name."""
        if not queue.alias_of or self._book is None or item.purpose != "page" or item.key in self._checks:
            return False
        return self._book.elsewhere(queue.host, tail_of(item.url, queue.host)) is not None

    def take(
        self,
        names: Iterable[tuple[str, str]],
        checks: Iterable[int],
        queues: Mapping[str, HostQueue],
        politeness: Politeness,
    ) -> None:
        """Apply the decisions of a commit: (alias, main name), empty for a revoked alias, and keys to be checked."""
        self._checks.update(checks)
        for name, main in names:
            queue = queues.get(name)
            if queue is not None:
                queue.alias_of = main
                self._moving[queue] = None
        for queue in [queue for queue in self._moving if not queue.server.busy]:
            # A request under way ends at the server where it began; only then may the host share another name's delay.
            del self._moving[queue]
            queue.server = politeness.server(queue.alias_of or queue.host)
