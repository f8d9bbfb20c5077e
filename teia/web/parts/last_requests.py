"""Last request of a collection to each host, by its log."""

from __future__ import annotations

from teia.views.reports.source import open_source
from teia.web.server.installation import Installation

FRESH_S = 20.0
MAX_HOSTS_READ = 1_000_000
LAST_REQUESTS = "SELECT host, epoch(max(started)) FROM fetches GROUP BY host"


def last_requests(installation: Installation, collection: str) -> dict[str, float]:
    """Return the time of a collection's last request to each host, by its log; nothing until that is read."""

    def make() -> dict[str, float]:
        with open_source(installation.root, collection) as source:
            return dict(source.log.query(LAST_REQUESTS, MAX_HOSTS_READ).rows)

    patience_s = installation.patience_s(collection)
    found = installation.cache.get_or_none(("last requests", collection), make, FRESH_S, patience_s)
    return {} if found is None else found.value
