"""Header of every operator's page: the number of running collections and of open alerts.

It is computed in the background, from the status of running crawls and the cached host tables. Those are recomputed one
collection after another, all together with a small part of a processor (cache.py). Only the first page of a server
waits for the header, for a moment, and a failure of it never prevents a page.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from teia.collections.control_file import CrawlReports
from teia.errors import TeiaError
from teia.web.parts.collection_state import open_alerts, table_of
from teia.web.server.installation import Installation
from teia.web.server.templates import link

logger = logging.getLogger(__name__)

FRESH_S, PATIENCE_S = 2.0, 0.05
LAST_COUNTED = ("headline hosts",)
COUNT_S = 60.0
"""A collection whose hosts take longer to count is included in a later headline."""

CACHED_PER_COLLECTION = 3
"""Cached answers about one collection: its hosts, its space, its weights."""

IDLE = {"state": "", "paused_why": ""}
"""Status of a collection that is not being crawled, as far as it matters here."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Number of running collections and of open alerts, and the address that shows the alerts."""

    running: int
    alerts: int
    to: str


def headline_of(installation: Installation) -> Headline | None:
    """Return the headline of a moment ago; None if there is none yet."""
    try:
        found = installation.cache.get_or_none(
            ("headline",), lambda: _compute_headline(installation), FRESH_S, PATIENCE_S
        )
    except Exception as error:  # noqa: BLE001  # the page matters more than its header
        logger.warning("no headline: %s: %s", type(error).__name__, error)
        return None
    return None if found is None else found.value


def _compute_headline(installation: Installation) -> Headline:
    names = installation.names()
    installation.cache.set_extra_capacity(CACHED_PER_COLLECTION * len(names))
    running, with_alerts, has_disk_alert = 0, [], False
    for name in names:
        with CrawlReports(installation.root.control) as reports:
            run = reports.running_crawl(name)
        account = IDLE if run is None else {**IDLE, **run.account}
        running += account["state"] == "running"
        with suppress(TeiaError, OSError):  # the page of a collection with invalid settings shows that
            for alert in open_alerts(installation, name, account):
                if alert.kind != "disk" or not has_disk_alert:  # all collections share one disk: one alert
                    with_alerts.append(name)
                has_disk_alert |= alert.kind == "disk"
    if names:
        installation.cache.get_or_none(LAST_COUNTED, lambda: _count_next(installation, names), FRESH_S, 0.0)
    to = link(f"/c/{with_alerts[0]}") + "#needs" if len(set(with_alerts)) == 1 else "/c"
    return Headline(running, len(with_alerts), to)


def _count_next(installation: Installation, names: Sequence[str]) -> str:
    """Count the hosts of the collection after the last counted one; return its name."""
    before = installation.cache.last(LAST_COUNTED)
    # The names are sorted; after the last one it begins again.
    name = next((each for each in names if before is not None and each > before.value), names[0])
    try:
        table_of(installation, name, COUNT_S)
    except Exception as error:  # noqa: BLE001  # one failure must not block the other collections
        logger.warning("hosts of %s not counted: %s: %s", name, type(error).__name__, error)
    return name
