"""Assignment of pages to processes: the splits that A's paper (section 2.3.1) names, and T4's.

`site` is the cluster's split, by its own functions. `url` ignores sites, so most links lead to other processes.
`hierarchy` is by top-level domain in the literature. All names of a lab end in .test, so here it is by topic: half of
all links to other hosts stay within a topic. `name-length` is Tarântula's: the length of the name mod N.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import cell_of_host, cell_owners
from teia.lab.parallel.web import WebGraph
from teia.urls import SLOTS, cell_starts, key_of

Split = Callable[[WebGraph, int], list[int]]
"""Function that assigns each page to one of the given number of processes."""


def by_url(web: WebGraph, processes: int) -> list[int]:
    return [key_of(url) % processes for url in web.urls]


def by_site(web: WebGraph, processes: int) -> list[int]:
    """Assign host -> site -> slot -> cell -> node as teia/cluster/circle/host_cell.py does, with one slot per cell."""
    names = [f"process-{number}" for number in range(processes)]
    kept = cell_owners(Circle(dict.fromkeys(names, 1.0)), cell_starts(SLOTS))
    numbers = {name: number for number, name in enumerate(names)}
    owner = cache(lambda host: numbers[kept[cell_of_host(host, SLOTS).cell]])
    return [owner(host) for host in web.hosts]


def by_hierarchy(web: WebGraph, processes: int) -> list[int]:
    """Assign topics in turns; where there are more processes than topics, several share one topic's hosts."""
    topics = sorted(set(web.topics))
    hosts: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for host, topic in zip(web.hosts, web.topics, strict=True):
        hosts[topic].setdefault(host, len(hosts[topic]))
    # Topic t gets processes t, t + topics, and so on. With fewer processes than topics some ranges are empty,
    # and their topics share the processes of others.
    groups = [range(at, processes, len(topics)) or (at % processes,) for at in range(len(topics))]
    found = dict(zip(topics, groups, strict=True))
    return [
        found[topic][hosts[topic][host] % len(found[topic])] for host, topic in zip(web.hosts, web.topics, strict=True)
    ]


def by_name_length(web: WebGraph, processes: int) -> list[int]:
    # Processes whose remainder no name's length has get no page (T4's weakness, shown in A16).
    return [len(host) % processes for host in web.hosts]


SPLITS: dict[str, Split] = {
    "site": by_site,
    "url": by_url,
    "hierarchy": by_hierarchy,
    "name-length": by_name_length,
}
