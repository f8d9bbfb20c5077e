"""The ten figures of reliability, with their targets: printed as one table after `scripts/test --full`.

A test reports what it has measured with `record_property("figure 3", "132,240 combinations: 0 forbidden connections")`.
A leading number is added up over the tests that say the same of a figure on the same day.

All of them take hours, so they are seldom measured in one run. Each run with `--figures` saves what it has measured
in bench/results/figures.json, with its day, in the place of what the same test said before. The table shows all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

TARGETS = {
    1: "1,000 kills: 0 URLs lost, repeated <= in flight, every WARC valid, back in <= 5 s at 1 M URLs",
    2: "500 power losses, ENOSPC at 2,000 writes: 0 acknowledged records lost, 0 manual repair",
    3: "0 forbidden connections in >= 20,000 combinations of entry point, spelling, hop, rebinding",
    4: "hostile set: crawler <= 512 MiB, 0 deaths outside parse children, >= 90% of the rate with 20% hostile hosts",
    5: "100,000 fetches, 3 nodes, 20 kills: 0 disallowed, 0 early, 0 before Retry-After",
    6: ">= 99% of 1,000 real pages, <= 10% of requests in traps, frontier flat",
    7: "0 scripts run for >= 300 payloads, 100% of routes in the matrix, 0 changes by GET or cross-site",
    8: "100,000 fuzzed queries at 1 M pages: 0 answers 5xx, slowest <= 1 s, p99 of others <= 2 times",
    9: "200 schedules of faults on 3-5 nodes: 0 double commits, 0 lost URLs, take-over <= 2 leases",
    10: "10^6 records under faults: 100% readable with matching digests, index rebuilt identical",
}
SAVED = Path(__file__).resolve().parents[1] / "bench" / "results" / "figures.json"
_NUMBER = re.compile(r"([\d,]+) (.*)")

Measured = dict[str, dict[str, dict[str, Any]]]
"""For each figure and test: what it `said`, in lines, on which `day`, and whether it has `passed`."""


def load() -> Measured:
    """Return what earlier runs have measured."""
    saved: Measured = json.loads(SAVED.read_text("utf-8")) if SAVED.exists() else {}
    return saved


def save(measured: Measured) -> None:
    text = json.dumps(measured, indent=1, ensure_ascii=False, sort_keys=True)
    SAVED.write_text(text + "\n", "utf-8")


def with_reports(earlier: Measured, reports: Iterable[pytest.TestReport], day: str) -> Measured:
    """Return what is known with the reports of a run; a test that failed before it could say anything has failed."""
    measured = {figure: dict(tests) for figure, tests in earlier.items()}
    for report in reports:
        said: dict[str, list[str]] = {figure: [] for figure, tests in earlier.items() if report.nodeid in tests}
        for name, value in report.user_properties:
            if name.startswith("figure "):
                said.setdefault(name, []).append(str(value))
        for figure, lines in said.items():
            before = measured.setdefault(figure, {}).pop(report.nodeid, {"said": []})
            if lines or report.failed:
                found = {"said": lines or before["said"], "day": day, "passed": report.passed}
                measured[figure][report.nodeid] = found
    return measured


def table(measured: Measured) -> Iterator[str]:
    """Yield the lines of the table: each figure with its target, and what was measured on which day."""
    for number, target in TARGETS.items():
        yield f"{number:>2}  target    {target}"
        lines = list(_lines(measured.get(f"figure {number}", {}).values()))
        yield from lines or ["    not measured"]


def _lines(tests: Iterable[dict[str, Any]]) -> Iterator[str]:
    counts: dict[tuple[str, bool, str], int | None] = {}
    for test in tests:
        for said in test["said"]:
            match = _NUMBER.fullmatch(said)
            what, count = (match[2], int(match[1].replace(",", ""))) if match else (said, None)
            key = test["day"], test["passed"], what
            counts[key] = None if count is None else count + (counts.get(key) or 0)
    for (day, passed, what), count in sorted(counts.items(), key=lambda item: item[0]):
        yield f"    {'measured' if passed else 'FAILED  '}  {day}  {what if count is None else f'{count:,} {what}'}"
