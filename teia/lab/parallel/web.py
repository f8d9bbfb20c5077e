"""The links of a world, as numbers: a page is its index in a list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.lab.world import truth
from teia.lab.world.world import World


@dataclass(frozen=True, slots=True)
class WebGraph:
    """All pages of a world; `links[p]` are the pages that p links to, each once, without nofollow links."""

    urls: tuple[str, ...]
    hosts: tuple[str, ...]
    topics: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]
    homes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.urls)

    def in_links(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the number of pages that link to each page."""
        count = np.zeros(len(self), dtype=np.int64)
        for targets in self.links:
            count[list(targets)] += 1
        return count


def read_graph(world: World) -> WebGraph:
    """Read the links of a world from its truth, at its beginning. Links that lead out of it are left out."""
    lines = list(truth.all_lines(world, world.epoch_s))
    number = {line.url: at for at, line in enumerate(lines)}
    links = []
    for at, line in enumerate(lines):
        targets = (number.get(url) for url in line.links if url not in line.nofollow)
        links.append(tuple(target for target in targets if target is not None and target != at))
    # Main names only: a world with aliases has lines of other names, and is not supported here.
    topics = {host.name: host.topic for host in world.hosts}
    return WebGraph(
        tuple(line.url for line in lines),
        tuple(line.host for line in lines),
        tuple(topics[line.host] for line in lines),
        tuple(links),
        tuple(number[world.roots[host.name].decode()] for host in world.hosts),
    )
