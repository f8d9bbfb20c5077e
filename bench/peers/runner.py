"""Rounds of all contenders on one site, and the resulting table.

In a round every contender crawls the whole site once, in an order that shifts by one from round to round. A row is the
median of a contender's rounds; a ratio is the median of the ratios within each round, so that a slow phase of the
machine slows both sides of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers.contenders import ARCHIVE, LINKS, PRODUCT, Contender, ours, peer
from bench.peers.loopback import confine
from bench.peers.measure import measure, size_of
from bench.peers.site import APACHE, PYTHON, Site, serving
from teia.errors import LabError

TREES = {"python": PYTHON, "apache": APACHE}
LIMIT_S = 900.0
SHOWN_DIFFERENCES = 10
LEAST_SHARE = 0.99
"""Share of the site's pages that a contender must have fetched to be compared."""


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl of the site by one contender."""

    title: str
    pages: frozenset[str]
    pages_per_s: float
    cpu_ms_per_page: float
    peak_rss_mb: float
    disk_bytes_per_page: float
    seconds: float
    index_s: float = 0.0
    is_indexed: bool = False
    fetched_s: float = 0.0
    """Time from the first request until the last page was requested for the first time, by the server's log."""

    @property
    def searchable_pages_per_s(self) -> float | None:
        """Pages over the time from the start until the last can be found; None if the contender makes no index."""
        return len(self.pages) / (self.seconds + self.index_s) if self.is_indexed else None


@dataclass(frozen=True, slots=True)
class Row:
    """Reported figures of a contender: medians over the rounds."""

    name: str
    setting: str
    pages: int
    pages_per_s: float
    searchable_pages_per_s: float | None
    cpu_ms_per_page: float
    peak_rss_mb: float
    disk_bytes_per_page: float
    seconds: float
    index_s: float


def compare(peers: Sequence[str], rounds: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Run all contenders `rounds` times; return the result that `teia bench crawl --json` prints."""
    contenders = [*ours(), *map(peer, peers)]
    only_loopback = confine()
    runs: list[dict[str, Run]] = []
    with tempfile.TemporaryDirectory(prefix="teia-bench-") as folder, serving(Path(folder) / "site", TREES) as site:
        for number in range(rounds):
            shift = number % len(contenders)
            runs.append({})
            for contender in contenders[shift:] + contenders[:shift]:
                run = run_once(contender, site)
                runs[-1][contender.title] = run
                _check_complete(run, runs[0])
                progress(f"round {number + 1}: {run.title}: {len(run.pages):,} pages in {run.seconds:.1f} s")
    return {
        "rows": [asdict(_row(contender, runs)) for contender in contenders],
        "ratios": ratios(PRODUCT, contenders, runs),
        "ratios_of": {setting: ratios(setting, contenders, runs) for setting in (LINKS, ARCHIVE, PRODUCT)},
        "searchable_ratios": searchable_ratios(contenders, runs),
        "differences": differences({title: run.pages for title, run in runs[0].items()}),
        "rounds": [{title: round(run.pages_per_s, 1) for title, run in each.items()} for each in runs],
        "cores": os.cpu_count(),
        "only_loopback": only_loopback,
    }


def run_once(contender: Contender, site: Site) -> Run:
    """Let one contender crawl the site into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="teia-bench-") as folder:
        since = site.mark()
        command = contender.command_for(site.url, Path(folder))
        # teia's package is found from anywhere; the others run in an empty folder.
        cost = measure(command, contender.environ, Path(folder), LIMIT_S, contender.exits)
        hits = site.hits(since)
        first_s = {hit.path: hit.time_s for hit in reversed(hits) if hit.is_page}
        pages = frozenset(first_s)
        stored = size_of(Path(folder))
    fetched = max(1, len(pages))
    is_indexed = contender.setting == PRODUCT
    index_s = _index_seconds(cost.output_tail) if is_indexed else 0.0
    return Run(
        contender.title,
        pages,
        len(pages) / (cost.seconds - index_s),
        1000 * cost.cpu_s / fetched,
        cost.peak_rss_bytes / 2**20,
        stored / fetched,
        cost.seconds - index_s,
        index_s,
        is_indexed,
        max(first_s.values(), default=0.0) - hits[0].time_s if hits else 0.0,
    )


def _index_seconds(output_tail: str) -> float:
    """Return the time that teia waited for its indexer after everything was fetched, committed and handed over.

    No peer has an index, so the rate is that of the crawl; it includes what the indexer took while both ran.
    """
    summary = next((line for line in reversed(output_tail.splitlines()) if line.startswith("{")), "{}")
    return float(json.loads(summary).get("index_seconds", 0.0))


def _check_complete(run: Run, first_round: Mapping[str, Run]) -> None:
    """Refuse a contender that did not crawl the site: a rate over a few pages would say nothing."""
    most = max(len(other.pages) for other in first_round.values())
    if len(run.pages) < LEAST_SHARE * most:
        raise LabError(f"{run.title} fetched {len(run.pages)} of {most} pages: it cannot be compared; see bench/peers")


def _row(contender: Contender, runs: Iterable[Mapping[str, Run]]) -> Row:
    of_it = [each[contender.title] for each in runs]
    searchable = [rate for run in of_it if (rate := run.searchable_pages_per_s) is not None]
    return Row(
        contender.name,
        contender.setting,
        round(median(len(run.pages) for run in of_it)),
        round(median(run.pages_per_s for run in of_it), 1),
        round(median(searchable), 1) if searchable else None,
        round(median(run.cpu_ms_per_page for run in of_it), 3),
        round(median(run.peak_rss_mb for run in of_it), 1),
        round(median(run.disk_bytes_per_page for run in of_it)),
        round(median(run.seconds for run in of_it), 2),
        round(median(run.index_s for run in of_it), 2),
    )


def ratios(setting: str, contenders: Iterable[Contender], runs: Sequence[Mapping[str, Run]]) -> dict[str, float]:
    """Return the speed of one of teia's settings as a multiple of each peer's."""
    mine = next(contender.title for contender in ours() if contender.setting == setting)
    return {
        each.name: round(median(run[mine].pages_per_s / run[each.title].pages_per_s for run in runs), 2)
        for each in contenders
        if each.name != "teia"
    }


def searchable_ratios(contenders: Iterable[Contender], runs: Sequence[Mapping[str, Run]]) -> dict[str, float]:
    """Return the rate at which teia makes pages searchable, as a multiple of the rate at which each peer crawls."""
    mine = next(contender.title for contender in ours() if contender.setting == PRODUCT)
    return {
        each.name: round(
            median((run[mine].searchable_pages_per_s or 0.0) / run[each.title].pages_per_s for run in runs), 2
        )
        for each in contenders
        if each.name != "teia"
    }


def differences(pages_of: Mapping[str, frozenset[str]]) -> dict[str, dict[str, list[str]]]:
    """Return the pages that not all contenders fetched, by contender; empty when all fetched the same.

    All are compared with the default product. Long lists are cut, with a last line that counts the rest.
    """
    mine = next(pages for title, pages in pages_of.items() if title.endswith(f"({PRODUCT})"))
    found = {}
    for title, pages in pages_of.items():
        if pages != mine:
            found[title] = {"only_they": _some(pages - mine), "only_we": _some(mine - pages)}
    return found


def _some(paths: frozenset[str]) -> list[str]:
    shown = sorted(paths)[:SHOWN_DIFFERENCES]
    return shown + ([f"and {len(paths) - len(shown)} more"] if len(paths) > len(shown) else [])
