"""teia: crawl a part of the web politely, archive it, keep it fresh, search it.

The life of a URL, folder by folder: it comes from `seeds` or from a link, waits in the `frontier` until its server may
be asked, is brought by `fetch`, read by `parse`, kept by `store`, found by `search`, and becomes due again when
`refresh` thinks it has changed. `crawl` wires these on one machine, `cluster` on many; `lab` is a web to try it on.

For other programs (docs/embedding.md): `crawl`, `crawl_async`, `search`, `Collection`, `Summary`, `TeiaError`. They are
imported when they are first used, so that `import teia` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teia.crawl.embedding import Collection, crawl, crawl_async
    from teia.crawl.searching import search_collection as search
    from teia.crawl.summary import Summary
    from teia.errors import TeiaError

__version__ = "0.1.0"
__all__ = ["Collection", "Summary", "TeiaError", "__version__", "crawl", "crawl_async", "search"]

_HOMES = {
    "Collection": "teia.crawl.embedding",
    "crawl_async": "teia.crawl.embedding",
    "Summary": "teia.crawl.summary",
    "TeiaError": "teia.errors",
    "search_collection": "teia.crawl.searching",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for; `crawl` and `search` are packages that can be called."""
    if name in {"crawl", "search"}:
        return import_module(f"teia.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'teia' has no attribute {name!r}")
