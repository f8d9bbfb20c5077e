"""Whose is which page: the ways to split a web among processes that A's paper (section 2.5) names, and T4's.

`site` is what our cluster does, by its own functions. `url` takes no notice of sites, so most links lead to somebody
else. `hierarchy` is by top-level domain in the literature; all names of a lab end in .test, so here it is by topic,
which is what half of all links to other hosts stay within. `name-length` is Tarântula's: the length of the name mod N.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from teia.cluster.chord import Circle
from teia.cluster.chord_placing import keepers, place_of
from teia.lab.parallel.web import Web
from teia.urls import SLOTS, cell_starts, key_of

Split = Callable[[Web, int], list[int]]
"""The process that each page belongs to, among so many."""


def by_url(web: Web, processes: int) -> list[int]:
    return [key_of(url) % processes for url in web.urls]


def by_site(web: Web, processes: int) -> list[int]:
    """Host -> site -> slot -> cell -> node, as teia/cluster/chord_placing.py has it, with one slot a cell."""
    names = [f"process-{number}" for number in range(processes)]
    kept = keepers(Circle(dict.fromkeys(names, 1.0)), cell_starts(SLOTS))
    numbers = {name: number for number, name in enumerate(names)}
    owner = cache(lambda host: numbers[kept[place_of(host, SLOTS).cell]])
    return [owner(host) for host in web.hosts]


def by_hierarchy(web: Web, processes: int) -> list[int]:
    """Topics in turns; more processes than topics share one topic's hosts."""
    topics = sorted(set(web.topics))
    hosts: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for host, topic in zip(web.hosts, web.topics, strict=True):
        hosts[topic].setdefault(host, len(hosts[topic]))
    groups = [range(at, processes, len(topics)) or (at % processes,) for at in range(len(topics))]
    found = dict(zip(topics, groups, strict=True))
    return [
        found[topic][hosts[topic][host] % len(found[topic])] for host, topic in zip(web.hosts, web.topics, strict=True)
    ]


def by_name_length(web: Web, processes: int) -> list[int]:
    return [len(host) % processes for host in web.hosts]


SPLITS: dict[str, Split] = {
    "site": by_site,
    "url": by_url,
    "hierarchy": by_hierarchy,
    "name-length": by_name_length,
}
