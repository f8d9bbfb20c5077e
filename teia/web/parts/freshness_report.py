"""Report on the freshness of a collection, computed once for all pages that show it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from teia.durable import write_atomically
from teia.errors import TeiaError
from teia.lib.message import decoded, encoded
from teia.lib.undecodable import UNDECODABLE
from teia.views.reports.source import open_source
from teia.web.server.installation import Installation

FRESH_S = 30.0
HOSTS = 1_000


def freshness_report(installation: Installation, collection: str) -> Any:
    """Return the freshness report of a collection, from the cache."""
    installation.check(collection)
    key = ("freshness", collection)

    def make() -> Any:
        from teia.views.reports.freshness import freshness as report  # imported here because it loads the planners

        now_s = installation.clock.now_s()
        with open_source(installation.root, collection) as source:
            found = report(source, HOSTS, installation.clock)
        # On a read-only folder the report is computed anew after a restart.
        with suppress(TeiaError):
            write_atomically(
                _report_path(installation, collection), msgspec.json.encode((now_s, found), enc_hook=encoded)
            )
        return found

    if installation.cache.last(key) is None:
        _load_stored(installation, collection)
    return installation.cache.get(key, make, FRESH_S, installation.patience_s(collection))


def _report_path(installation: Installation, collection: str) -> Path:
    """Return the path of the last report; it takes long to compute, so a restarted server reads it from disk."""
    return installation.root.collection(collection).path / "freshness.json"


def _load_stored(installation: Installation, collection: str) -> None:
    from teia.views.reports.freshness import FreshnessReport

    with suppress(OSError, *UNDECODABLE):
        text = _report_path(installation, collection).read_bytes()
        time_s, found = msgspec.json.decode(text, type=tuple[float, FreshnessReport])
        found = replace(found, notes=tuple(map(decoded, found.notes)))
        installation.cache.store(("freshness", collection), found, time_s)
