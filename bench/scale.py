"""Machines for a web of up to 10^10 pages, and the part of teia that fails first: a simulation from measured costs.

    python -m bench.scale [--pages 1e6,1e8,1e10] [--visit-days 30] [--delay 5] [--write FILE.json]

Costs of a page are read from `bench/results`; `Costs` has those that are in documents alone. For each size the
simulation draws the hosts (one for 100 pages, sizes by Zipf's law with theta 1), places them in 1,024 slots and on
nodes as a cluster does, plans the visits of all hosts under politeness (`teia.refresh`), draws the arrival of visits in
the cells, and adds up what every part needs. `machines` is the number that a part needs if it has the machines for
itself; `use` is the share of its limit that a part which machines do not help has used up. `fails_at` is the number of
pages at which that share reaches 1, with all else growing along. A simulation takes a tenth of a second.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from teia.refresh.formulas import steady_staleness
from teia.refresh.intensities import intensity_at, plan_intensities
from teia.refresh.model import DAY_S, Floats, RefreshWorld

RESULTS = Path(__file__).parent / "results"
PAGES_PER_HOST = 100
SLOTS = 1024
MOST_CELLS = 900
DRAWN_HOSTS = 1 << 20
"""Number of the largest hosts that are placed one by one; the others are so many that slots get equal parts of them."""

CLASSES, SAMPLE = 160, 64
"""Number of classes of hosts of about one size, and of pages that stand for those of a host."""

SLOWEST, FASTEST = 0.001 / DAY_S, 1.0 / DAY_S
"""Change rates of pages: once in a thousand days to once a day, all orders of magnitude alike (assumed)."""

COMMIT_S = 0.2
SEARCH_S = 0.5
"""Time in which the slowest kind of query is to be answered."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node, as it is bought today (assumed)."""

    cores: int = 16
    memory_bytes: float = 128e9
    disk_bytes: float = 40e12
    network_bytes_per_s: float = 1e9 / 8


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of one page, and limits, as measured; the comments name the source."""

    cpu_s: float  # bench/results/crawl.json, default product
    disk_bytes: float  # the same; archive, index, frontier and links
    archive_bytes: float  # the same without the index: what comes from the network, compressed
    urls: float  # bench/results/pagerank.json: known URLs of a page
    rank_bytes: float  # the same: memory of PageRank
    rank_cpu_s: float
    search_cpu_s: float  # bench/results/search.json: slope of the slowest kind of query over the sizes measured
    plan_cpu_s: float  # bench/results/plan.json
    messages: float  # bench/results/exchange.md, polite crawl: through NATS
    host_bytes: float = 1670.0  # tracemalloc, 100,000 hosts in a `HostSchedule`, one URL waiting at each
    batches_per_s: float = 738.0  # three NATS servers on two cores
    largest_cell_urls: float = 2.5e6  # docs/measured.md: bench/frontier.py, 10M URLs in four cells


def read_costs() -> Costs:
    crawl, rank, plan = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("crawl", "pagerank", "plan"))
    of = {row["setting"]: row for row in crawl["rows"] if row["name"] == "teia"}
    searches = json.loads((RESULTS / "search.json").read_text())
    sizes = sorted(map(int, searches))
    slowest = [
        max(row["cpu_p95_ms"] for row in searches[str(size)]["rows"] if row["kind"] == "any word") for size in sizes
    ]
    exchange = next(line for line in (RESULTS / "exchange.md").read_text().splitlines() if line.startswith("| polite"))
    return Costs(
        cpu_s=of["default product"]["cpu_ms_per_page"] / 1e3,
        disk_bytes=of["default product"]["disk_bytes_per_page"],
        archive_bytes=of["links + archive"]["disk_bytes_per_page"],
        urls=rank["cold"]["nodes"] / rank["appended"]["pages"],
        rank_bytes=rank["peak_rss_mb"] * 1e6 / rank["appended"]["pages"],
        rank_cpu_s=rank["cold"]["cpu_s"] / rank["appended"]["pages"],
        search_cpu_s=float(np.polyfit(sizes, np.array(slowest) / 1e3, 1)[0]),
        plan_cpu_s=plan["rows"][-1]["cpu_us_a_page"] / 1e6,
        messages=float(exchange.split("|")[4]),
    )


@dataclass(frozen=True, slots=True)
class Hosts:
    """Classes of hosts: the number of pages of a host of each class, and the number of such hosts."""

    pages: Floats
    count: Floats

    @classmethod
    def by_zipf(cls, pages: float) -> Hosts:
        """Return classes of ranks that grow by a constant factor; each class has the pages that its ranks have."""
        hosts = max(1.0, pages / PAGES_PER_HOST)
        cuts = np.unique(np.round(np.geomspace(1.0, hosts + 1.0, CLASSES + 1)))
        share = _harmonic(cuts[1:] - 1.0) - _harmonic(cuts[:-1] - 1.0)
        count = np.diff(cuts)
        return cls(pages * share / _harmonic(np.array([hosts]))[0] / count, count)


def _harmonic(n: Floats) -> Floats:
    """Return the sum of 1/k for k up to n."""
    k = np.maximum(n, 1.0)
    return np.where(n > 0, np.log(k) + 0.5772156649 + 1 / (2 * k) - 1 / (12 * k**2) + 1 / (120 * k**4), 0.0)


def place(hosts: Hosts, visits_per_s: float, delay_s: float, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the pages and the visits per second of each slot: hosts go to slots by chance.

    The visits of a host are in proportion to its pages, but no more than its delay allows. Other hosts get the visits
    that the largest cannot take, as in a plan, so that their sum is `visits_per_s`.
    """
    pages = float(hosts.pages @ hosts.count)
    sizes = hosts.pages[0] / np.arange(1, min(DRAWN_HOSTS, int(hosts.count.sum())) + 1)
    slot = chance.integers(0, SLOTS, len(sizes))
    small = max(0.0, pages - float(sizes.sum())) / SLOTS
    # The visits left for each page of the others, if 0, 1, 2, ... of the largest hosts have all they allow.
    at_delay = np.arange(len(sizes))
    left = (visits_per_s - at_delay / delay_s) / (pages - (np.cumsum(sizes) - sizes))
    per_page = float(left[np.argmax(sizes * left <= 1.0 / delay_s)])
    visits = np.bincount(slot, np.minimum(sizes * per_page, 1.0 / delay_s), minlength=SLOTS) + small * per_page
    return np.bincount(slot, sizes, minlength=SLOTS) + small, visits


def fullest_node(slots: Floats, nodes: int) -> float:
    """Return the pages of the fullest node relative to the mean: slots go to the node with fewest, largest first."""
    node = np.zeros(nodes)
    for each in np.sort(slots)[::-1]:
        node[node.argmin()] += each
    return float(node.max() / node.mean())


def plan(hosts: Hosts, visits_per_s: float, delay_s: float) -> dict[str, float]:
    """Return freshness and visits of the best plan under politeness, and without it.

    A host of many pages is planned by a sample of them, with its delay stretched as much as the sample is smaller.
    """
    rates = SLOWEST * (FASTEST / SLOWEST) ** ((np.arange(SAMPLE) + 0.5) / SAMPLE)
    each = hosts.pages / SAMPLE
    world = RefreshWorld.build(
        np.repeat(np.arange(len(each)), SAMPLE),
        np.tile(rates, len(each)),
        horizon_s=DAY_S,
        politeness_s=delay_s * each,
    )
    own = plan_intensities(world, visits_per_s=1e12)
    stands_for = np.repeat(each * hosts.count, SAMPLE)
    pages = float(stands_for.sum())

    def at(price: float, polite: bool) -> Floats:
        visits = intensity_at("periodic", price, world.weight, world.rate)
        return np.minimum(visits, own.visits_per_s) if polite else visits

    found = {}
    for polite in (True, False):
        low, high = math.log(1e-30), math.log(1e30)
        for _ in range(200):
            middle = (low + high) / 2
            over = float(stands_for @ at(math.exp(middle), polite)) > visits_per_s
            low, high = (middle, high) if over else (low, middle)
        visits = at(math.exp(high), polite)
        name = "polite" if polite else "without_delays"
        found[f"freshness_{name}"] = 1.0 - float(stands_for @ steady_staleness(world.rate, visits)) / pages
        found[f"visits_per_s_{name}"] = float(stands_for @ visits)
    # Pages of hosts that cannot be visited once in the time in which the crawlers could visit every page.
    period_s = pages / visits_per_s
    out_of_reach = np.maximum(hosts.pages - period_s / delay_s, 0.0) @ hosts.count
    return found | {"share_out_of_reach": float(out_of_reach) / pages}


def batches_per_s(visits: Floats, cells: int, chance: np.random.Generator) -> float:
    """Draw the visits of cells in intervals of a group commit; count the intervals that have any."""
    by_cell = np.bincount(np.arange(SLOTS) % cells, visits, minlength=cells)
    drawn = chance.poisson(by_cell * COMMIT_S, size=(50, cells))
    return float((drawn > 0).sum(axis=1).mean() / COMMIT_S)


def simulate(
    pages: float, costs: Costs, machine: Machine, visit_days: float, delay_s: float, seed: int
) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    hosts, visits_per_s = Hosts.by_zipf(pages), pages / (visit_days * DAY_S)
    machines = {
        "processors": visits_per_s * costs.cpu_s / machine.cores,
        "network": visits_per_s * costs.archive_bytes / machine.network_bytes_per_s,
        "disk": pages * costs.disk_bytes / machine.disk_bytes,
        "memory for hosts": hosts.count.sum() * costs.host_bytes / machine.memory_bytes,
        "search": pages * costs.search_cpu_s / SEARCH_S / machine.cores,
    }
    nodes = max(1, math.ceil(max(machines["disk"], machines["processors"], machines["memory for hosts"])))
    slots, visits = place(hosts, visits_per_s, delay_s, chance)
    fullest_slot = float(slots.max() / slots.mean())
    cells = min(MOST_CELLS, max(4, nodes * 40))
    planned = plan(hosts, visits_per_s, delay_s)
    use = {
        "PageRank in one machine's memory": pages * costs.rank_bytes / machine.memory_bytes,
        "commits through one stream": batches_per_s(visits, cells, chance) / costs.batches_per_s,
        "fullest slot beside the largest cell measured": pages
        * costs.urls
        / SLOTS
        * fullest_slot
        / costs.largest_cell_urls,
        "the largest host on one node's disk": hosts.pages[0] * costs.disk_bytes / machine.disk_bytes,
        "nodes beside slots": nodes / SLOTS,
        "PageRank on one core, of the time between visits": pages * costs.rank_cpu_s / (visit_days * DAY_S),
        "a plan on one core, of a day": pages * costs.plan_cpu_s / DAY_S,
    }
    return {
        "pages": pages,
        "hosts": float(hosts.count.sum()),
        "largest_host": round(float(hosts.pages[0])),
        "pages_per_s": round(visits_per_s, 1),
        "machines": {name: round(each, 2) for name, each in machines.items()},
        "nodes": nodes,
        "fullest_slot_over_mean": round(fullest_slot, 1),
        "fullest_node_over_mean": round(fullest_node(slots, nodes), 2),
        "messages_per_s": round(visits_per_s * costs.messages, 1),
        "use": {name: float(f"{each:.3g}") for name, each in use.items()},
        **{name: round(each, 4) for name, each in planned.items()},
    }


def fails_at(run: Callable[[float], dict[str, Any]]) -> dict[str, float]:
    """Return the number of pages at which each limit is reached, from 10^5 to 10^13; the first to fail comes first."""
    sizes = np.geomspace(1e5, 1e13, 33)
    uses = [run(float(size))["use"] for size in sizes]
    found = {}
    for name in uses[0]:
        use = np.log([max(each[name], 1e-300) for each in uses])
        # Between two sizes the use is taken as a power of the pages.
        over = int(np.argmax(use > 0)) if (use > 0).any() else 0
        if over:
            share = -use[over - 1] / (use[over] - use[over - 1])
            found[name] = float(f"{np.exp(np.interp(share, [0, 1], np.log(sizes[over - 1 : over + 1]))):.1e}")
    return dict(sorted(found.items(), key=lambda each: each[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", default="1e6,1e8,1e9,1e10")
    parser.add_argument("--visit-days", type=float, default=30.0)
    parser.add_argument("--delay", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()
    costs, machine = read_costs(), Machine()

    def run(pages: float) -> dict[str, Any]:
        return simulate(pages, costs, machine, options.visit_days, options.delay, options.seed)

    result = {
        "command": f"python -m bench.scale --pages {options.pages} --visit-days {options.visit_days:g} "
        f"--delay {options.delay:g}",
        "costs": {name: float(f"{getattr(costs, name):.4g}") for name in Costs.__slots__},
        "machine": {name: getattr(machine, name) for name in Machine.__slots__},
        "rows": [run(float(each)) for each in options.pages.split(",")],
        "fails_at": fails_at(run),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
