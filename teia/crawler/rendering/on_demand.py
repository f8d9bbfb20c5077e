"""Rendering that is loaded with the first page that may need it: most crawls never do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from teia.crawler.child.messages import ReadResult
from teia.crawler.running_collection import PageRendering
from teia.crawler.visit import ActiveVisit


class RenderingOnDemand:
    """Stands for the rendering of a crawl until it is needed; `make` puts the real one in its place."""

    def __init__(self, make: Callable[[], PageRendering]) -> None:
        self._make = make
        self._learnt: dict[str, list[bytes]] = {}

    held, wants_idle_time = 0, False

    def take(self, visit: ActiveVisit, result: ReadResult) -> bool:
        made = self._make()
        for host, records in self._learnt.items():
            made.load(host, records)
        return made.take(visit, result)

    def load(self, host: str, records: list[bytes]) -> None:
        self._learnt[host] = records

    def forget(self, host: str) -> None:
        self._learnt.pop(host, None)

    def is_full(self, host: str) -> bool:  # noqa: ARG002
        return False

    def note_read(self, visit: ActiveVisit, result: ReadResult | None) -> None: ...

    def note_committed(self, visits: Sequence[ActiveVisit]) -> None: ...

    def use_idle_time(self) -> None: ...

    def postpone_held(self) -> None: ...

    def note_request(self, visit: ActiveVisit) -> None: ...

    def is_awaited(self, url: str) -> bool:  # noqa: ARG002
        return False

    def refuse_host(self, host: str) -> None: ...

    def apply_settings(self) -> None: ...

    def abandon(self) -> list[ActiveVisit]:
        return []
