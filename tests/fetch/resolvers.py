"""A resolver without a name server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from teia.fetch.destination import Failure, Resolution, resolve_here


class StaticResolver:
    """A table of names; every other name does not exist."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self._table = dict(table)

    def find_cached(self, name: str) -> Resolution | None:
        here = resolve_here(name)
        if here is not None:
            return here
        addresses = self._table.get(name)
        if not addresses:
            return Resolution((), math.inf, Failure.NO_SUCH_NAME)
        return Resolution(tuple(addresses), math.inf)

    async def resolve(self, name: str) -> Resolution:
        resolution = self.find_cached(name)
        assert resolution is not None
        return resolution

    async def close(self) -> None:
        return
