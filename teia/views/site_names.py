"""Names of one site, as a reader of a collection finds them (A7)."""

from __future__ import annotations

from teia.frontier.cell.alias_evidence import alias_row, stands_for
from teia.frontier.cell.url_tails import tail_of
from teia.urls import split
from teia.views.lookup import Lookup

MAX_CHAIN = 16


def main_url(lookup: Lookup, url: str) -> str | None:
    """Return the main URL of an alias' URL; None if its host is not an alias."""
    found = None
    for _ in range(MAX_CHAIN):
        host = split(url).host
        pair = alias_row(lookup.cells[lookup.cell_number(host)], host)
        if pair is None:
            break
        found = url = stands_for(pair, pair.other, tail_of(url, host))
    return found


def why_alias(lookup: Lookup, url: str) -> str | None:
    """Explain that the host of a URL is another name of a site; None if it is not."""
    there = main_url(lookup, url)
    return None if there is None else f"its host is an alias of {split(there).host}: see {there}"
