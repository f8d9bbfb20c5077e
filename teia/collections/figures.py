"""Catalogue of the figures about a collection: one name, one meaning, one source.

All figures are keys of a crawl's account (account.py), which is made in one place: by the crawler while it runs
(`summarize`), from the folder otherwise (`idle_account`). The monitor, the list of collections, the API, `/metrics` and
`teia status` show an account, and take their labels and descriptions from here. `bench/figures.py` compares them all
during a crawl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from teia.lib.message import Message


@dataclass(frozen=True, slots=True)
class AccountFigure:
    """A figure: its key in an account (with dots for nested keys), its label, its meaning, and the period it covers.

    A figure of a `run` counts from the start of the running crawl; while none runs, it covers all runs. A figure of the
    `collection` does not depend on that. `metric` is its name in `/metrics`, if it is there.
    """

    name: str
    of: Literal["collection", "run", "now"]
    label: Message
    meaning: Message
    metric: str = ""

    def value(self, account: Mapping[str, Any]) -> Any:
        """Return the figure's value in an account; None if the account has none."""
        found: Any = account
        for key in self.name.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


_ALL = (
    AccountFigure(
        "urls_known",
        "collection",
        Message("known URLs"),
        Message("All URLs that the collection has found, fetched or not."),
        "teia_urls_known",
    ),
    AccountFigure(
        "urls_queued",
        "collection",
        Message("queued URLs"),
        Message("Known URLs that wait for their first fetch or for a retry. Planned revisits are not among them."),
        "teia_urls_queued",
    ),
    AccountFigure(
        "captures",
        "collection",
        Message("captures"),
        Message("Answers stored in the archive, in all runs. A page has one for each visit that brought an answer."),
        "teia_captures",
    ),
    AccountFigure(
        "indexed",
        "collection",
        Message("searchable pages"),
        Message("Pages that a search can find now. A page counts once, however often it was visited."),
        "teia_indexed",
    ),
    AccountFigure(
        "index_behind",
        "collection",
        Message("pages to be indexed"),
        Message("Fetched pages that belong into the index and are not there yet."),
        "teia_index_behind",
    ),
    AccountFigure(
        "requests",
        "run",
        Message("requests"),
        Message("Requests sent, including robots.txt and redirects."),
        "teia_requests_total",
    ),
    AccountFigure(
        "pages",
        "run",
        Message("pages fetched"),
        Message("Visits whose answer had a body, which was stored. Unchanged pages (304) are not among them."),
        "teia_pages_total",
    ),
    AccountFigure(
        "pages_per_s_now",
        "now",
        Message("pages a second"),
        Message("Pages fetched in a second, over the last 20 seconds."),
    ),
    AccountFigure(
        "pages_per_s",
        "run",
        Message("mean pages a second"),
        Message("Pages fetched, divided by the duration."),
    ),
    AccountFigure(
        "bytes",
        "run",
        Message("bytes received"),
        Message("Bytes of answers, including headers."),
        "teia_bytes_total",
    ),
    AccountFigure(
        "hosts",
        "run",
        Message("hosts"),
        Message("Hosts that had URLs to fetch; while no crawl runs, hosts that received a request."),
        "teia_hosts",
    ),
    AccountFigure(
        "links",
        "run",
        Message("links"),
        Message("Links found in fetched pages."),
        "teia_links_total",
    ),
    AccountFigure(
        "archive_records",
        "run",
        Message("archive records"),
        Message("WARC records written; a capture has several."),
        "teia_archive_records_total",
    ),
    AccountFigure(
        "live.early",
        "run",
        Message("politeness violations"),
        Message("Requests sent before the delay of their server had passed."),
        "teia_early_requests_total",
    ),
    AccountFigure(
        "freshness.fresh",
        "now",
        Message("fresh"),
        Message("Estimated share of captures that are what the sites show now, by weight."),
        "teia_freshness_fresh",
    ),
    AccountFigure(
        "freshness.best",
        "now",
        Message("fresh in the long run"),
        Message("Share that can be kept fresh in the long run with these delays and this budget."),
        "teia_freshness_best",
    ),
    AccountFigure(
        "freshness.possible",
        "now",
        Message("fresh at most"),
        Message("Upper bound of the share that any polite crawler could have now."),
        "teia_freshness_possible",
    ),
)
FIGURES: Mapping[str, AccountFigure] = {figure.name: figure for figure in _ALL}
