"""teia: crawl a part of the web politely, archive it, keep it fresh, search it.

Floors, from the ground up; a module imports from its own floor or from a lower one (docs/architecture.md):

    lib/                structures that know nothing of the web
    urls, records, clock, errors, durable, sqlite, version     used by all others
    config/             settings
    frontier/           known URLs: which one is fetched next, and when
    fetch/              one request, one outcome
    parse/              links, text and fingerprints of an answer
    store/              WARC, CDXJ and Parquet files
    graph/              links between pages, PageRank
    index/, search/     the full-text index; queries, ranking, snippets
    refresh/            change rates and revisit policies
    signals/            change signals from other parties
    crawler/            the crawl of one machine
    collections/        settings and schedules of crawls, and changes to them
    indexer/            keeps the index up to date with the crawl
    views/              read-only views for all interfaces
    transfer/           import, export, audits
    notify/             subscriptions
    api                 the Python interface
    cluster/            many machines
    lab/                a synthetic web and the papers' experiments
    web/                the web interface and the HTTP API
    cli/                the command line

For other programs (docs/embedding.md): `crawl`, `crawl_async`, `open`, `rebuild_index`, `search`, `Collection`,
`Summary`, `TeiaError`. They are imported when they are first used, so that `import teia` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from teia.version import __version__

if TYPE_CHECKING:
    from teia.api import Collection, crawl, crawl_async, rebuild_index
    from teia.api import open_collection as open  # noqa: A004  # `teia.open`, as other packages have it
    from teia.collections.account import Summary
    from teia.errors import TeiaError
    from teia.indexer.open_search import search_collection as search

__all__ = [
    "Collection",
    "Summary",
    "TeiaError",
    "__version__",
    "crawl",
    "crawl_async",
    "open",
    "rebuild_index",
    "search",
]

_HOMES = {
    "Collection": ("teia.api", "Collection"),
    "crawl": ("teia.api", "crawl"),
    "crawl_async": ("teia.api", "crawl_async"),
    "open": ("teia.api", "open_collection"),
    "rebuild_index": ("teia.api", "rebuild_index"),
    "Summary": ("teia.collections.account", "Summary"),
    "TeiaError": ("teia.errors", "TeiaError"),
    "search_collection": ("teia.indexer.open_search", "search_collection"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; `search` is a package that can be called, too."""
    if name == "search":
        return import_module("teia.search")
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'teia' has no attribute {name!r}")
