"""`teia crawl` that also counts the processor time it spends for the live monitor (bench.web, monitor).

    python -m bench.counted_crawl COUNTS crawl SEED --data DIR …

Only the monitor needs the account that is written every second (poll_requests.py) and the notes about every request
(crawler/live_activity.py). The clock of its thread times each of them, so other work is not included. The timing
itself is included, so the count is slightly too high. COUNTS holds the seconds so far, rewritten with every account.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from teia.cli.start import run
from teia.collections import coordinator, poll_requests
from teia.crawler.live_activity import LiveRequests


class Count:
    """Processor seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            began = time.thread_time_ns()
            try:
                return function(*args, **named)
            finally:
                self.seconds += (time.thread_time_ns() - began) / 1e9

        return call


def count_into(path: Path) -> None:
    """Count from now on, into a file that is replaced atomically."""
    count = Count()
    write_account = count.timed(poll_requests.write_account)

    def count_and_write(*args: Any) -> None:
        write_account(*args)
        part = path.with_suffix(".part")
        part.write_text(f"{count.seconds:.6f}", "ascii")
        part.replace(path)

    poll_requests.write_account = coordinator.write_account = count_and_write
    for function in (LiveRequests.note_start, LiveRequests.note_end, LiveRequests.conclude):
        setattr(LiveRequests, function.__name__, count.timed(function))


if __name__ == "__main__":
    count_into(Path(sys.argv[1]))
    sys.argv = ["teia", *sys.argv[2:]]
    run()
