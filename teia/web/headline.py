"""What stands in the head of every page of an operator: how much runs, and how much needs a person.

It is worked out beside the requests from what is known already: the accounts of crawls that run, and hosts that were
counted for another page. A page never waits for it but the first of a server, and that one only a moment.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass

from teia.crawl.control import Control
from teia.errors import TeiaError
from teia.web.pages.monitor import needs_now, table_of
from teia.web.rendering import link
from teia.web.site import Site

FRESH_S, PATIENCE_S = 2.0, 0.05
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
    found = site.kept.peek(("headline",), lambda: _made(site), FRESH_S, PATIENCE_S)
    return None if found is None else found.value


def _made(site: Site) -> Headline:
    running, places = 0, []
    for name in site.names():
        with closing(Control(site.root.path / "control.sqlite")) as control:
            run = control.run(name)
        account = AT_REST if run is None else {**AT_REST, **run.account}
        running += account["state"] == "running"
        with suppress(TeiaError, OSError):  # a collection whose settings make no sense has a page that says so
            if site.kept.last(("hosts", name)) is None:
                table_of(site, name, 0.0)
            places += [name] * len(needs_now(site, name, account))
    to = link(f"/c/{places[0]}") + "#needs" if len(set(places)) == 1 else "/c"
    return Headline(running, len(places), to)
