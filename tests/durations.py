"""The files of tests that take longest, so that they are begun first.

Files are given to workers one by one; a long one that begins last is waited for by all. `scripts/test
--write-durations` measures anew and writes durations.txt: seconds and path, for files that take some seconds.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("durations.txt")
LEAST_S = 5.0


@cache
def known() -> dict[str, float]:
    """Give the seconds of the files that take long, by their path from the root."""
    rows = (line.split(maxsplit=1) for line in FILE.read_text("utf-8").splitlines())
    return {path: float(seconds) for seconds, path in rows}


def written(seconds: Counter[str]) -> str:
    return "".join(f"{took:.0f} {path}\n" for path, took in seconds.most_common() if took >= LEAST_S)


class Measure:
    """Plugin that writes down how long each file took."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.location[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        FILE.write_text(written(self._seconds), "utf-8")
