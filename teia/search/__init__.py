"""Search: text in; results, notes and warnings out (docs/search.md). Start reading in serve/searcher.py.

query/  From typed text to a syntax tree.
rank/   From a query to an order of pages.
show/   The contents of a result.
serve/  Search requests to shards here and on other machines.

`teia.search("words", data="archive")` searches a collection. A package and a function cannot share a name
otherwise, so the package is callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teia.search.show.results import Results


class CallablePackage(ModuleType):
    """This package, which can be called like a function."""

    def __call__(self, *words: Any, **how: Any) -> Results:
        # Looked up at the call: a stage may not import the Python interface, which stands on a higher floor.
        found: Results = sys.modules[__name__.partition(".")[0]].search_collection(*words, **how)
        return found


sys.modules[__name__].__class__ = CallablePackage
