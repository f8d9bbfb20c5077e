"""The ten figures of reliability, with their targets: printed as one table after `scripts/test --full`.

A test reports what it has measured with `record_property("figure 3", "132,240 combinations: 0 forbidden connections")`.
A leading number is added up over the tests that say the same of a figure. Figures without a report were not measured in
the run, and the table says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

TARGETS = {
    1: "1,000 kills: 0 URLs lost, repeated <= in flight, every WARC valid, back in <= 5 s at 1 M URLs",
    2: "500 power losses, ENOSPC at 2,000 writes: 0 acknowledged records lost, 0 manual repair",
    3: "0 forbidden connections in >= 20,000 combinations of entry point, spelling, hop, rebinding",
    4: "hostile set: crawler <= 512 MiB, 0 deaths outside parse children, >= 90% of the rate with 20% hostile hosts",
    5: "100,000 fetches, 3 nodes, 20 kills: 0 disallowed, 0 early, 0 before Retry-After",
    6: ">= 99% of 1,000 real pages, <= 10% of requests in traps, frontier flat",
    7: "0 scripts run for >= 300 payloads, 100% of routes in the matrix, 0 changes by GET or cross-site",
    8: "100,000 fuzzed queries: 0 answers 5xx, slowest <= 1 s",
    9: "200 schedules of faults on 3-5 nodes: 0 double commits, 0 lost URLs, take-over <= 2 leases",
    10: "10^6 records under faults: 100% readable with matching digests, index rebuilt identical",
}
_NUMBER = re.compile(r"([\d,]+) (.*)")


def table(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield the lines of the table: each figure with its target, and what this run has measured."""
    measured: dict[int, dict[str, int | None]] = defaultdict(dict)
    failed: set[int] = set()
    for report in reports:
        for name, value in report.user_properties:
            if name.startswith("figure "):
                number, match = int(name.removeprefix("figure ")), _NUMBER.fullmatch(str(value))
                what, count = (match[2], int(match[1].replace(",", ""))) if match else (str(value), None)
                before = measured[number].get(what)
                measured[number][what] = None if count is None else count + (before or 0)
                failed |= {number} if report.failed else set()
    for number, target in TARGETS.items():
        yield f"{number:>2}  target    {target}"
        found = [what if count is None else f"{count:,} {what}" for what, count in measured[number].items()]
        for line in found or ["not measured in this run"]:
            yield f"    {'FAILED  ' if number in failed else 'measured' if found else '        '}  {line}"
