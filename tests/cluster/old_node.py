"""`teia node` of an earlier version: it reads, writes and announces no newer format of changes than OLD_FORMAT.

Its signals travel with its log: it neither sends nor receives them directly.
"""

from __future__ import annotations

import os

from teia.cli.start import run
from teia.cluster.crawl.signals import SignalExchange
from teia.frontier.cell import journal


async def nothing(*_: object) -> None: ...


if __name__ == "__main__":
    journal.NEWEST_FORMAT = int(os.environ["OLD_FORMAT"])
    SignalExchange.send = SignalExchange.receive = nothing  # type: ignore[assignment,method-assign]
    run()
