"""What stands in the head of every page of an operator: how much runs, and how much needs a person.

It is worked out beside the requests: from the accounts of crawls that run, and from hosts as they were last counted.
They are counted anew one collection after the other, all together for a small part of a processor (kept.py). A page
never waits for it but the first of a server, and that one only a moment; and it is never why a page cannot be shown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from teia.crawl.control import Control
from teia.errors import TeiaError
from teia.web.pages.monitor import needs_now, table_of
from teia.web.rendering import link
from teia.web.site import Site

logger = logging.getLogger(__name__)

FRESH_S, PATIENCE_S = 2.0, 0.05
COUNTED = ("headline hosts",)
COUNT_S = 60.0
"""A collection whose hosts take longer to count has its number with a later headline."""

KEPT_OF_EACH = 3
"""Answers about one collection that are kept beside each other: its hosts, its space, its weights."""

AT_REST = {"state": "", "paused_why": ""}
"""The account of a collection that is not crawled now, as far as it matters here."""


@dataclass(frozen=True, slots=True)
class Headline:
    """How many collections run, how many things need a person, and where those are said."""

    running: int
    needs: int
    to: str


def headline_of(site: Site) -> Headline | None:
    """The headline of a moment ago; None while there is none."""
    try:
        found = site.kept.peek(("headline",), lambda: _made(site), FRESH_S, PATIENCE_S)
    except Exception as error:  # noqa: BLE001  # the page is worth more than its head
        logger.warning("no headline: %s: %s", type(error).__name__, error)
        return None
    return None if found is None else found.value


def _made(site: Site) -> Headline:
    names = site.names()
    site.kept.make_room(KEPT_OF_EACH * len(names))
    running, places, is_disk_said = 0, [], False
    for name in names:
        with closing(Control(site.root.path / "control.sqlite")) as control:
            run = control.run(name)
        account = AT_REST if run is None else {**AT_REST, **run.account}
        running += account["state"] == "running"
        with suppress(TeiaError, OSError):  # a collection whose settings make no sense has a page that says so
            for need in needs_now(site, name, account):
                if need.kind != "disk" or not is_disk_said:  # there is one disk
                    places.append(name)
                is_disk_said |= need.kind == "disk"
    if names:
        site.kept.peek(COUNTED, lambda: _count_next(site, names), FRESH_S, 0.0)
    to = link(f"/c/{places[0]}") + "#needs" if len(set(places)) == 1 else "/c"
    return Headline(running, len(places), to)


def _count_next(site: Site, names: Sequence[str]) -> str:
    """Count the hosts of one collection, the next after the one before; return its name."""
    before = site.kept.last(COUNTED)
    name = next((each for each in names if before is not None and each > before.value), names[0])
    try:
        table_of(site, name, COUNT_S)
    except Exception as error:  # noqa: BLE001  # it must not keep the others from their turn
        logger.warning("hosts of %s not counted: %s: %s", name, type(error).__name__, error)
    return name
