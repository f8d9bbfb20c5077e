"""Cost of one answer of a synthetic world, without sockets; prints one JSON object.

    python bench/lab_world.py [--pages 1000000] [--hosts 2000] [--answers 20000]

Random URLs out of all pages, by size of host, three days after the epoch. `html` requests web pages only, `mix` any
random URL, `gzip` web pages of hosts that compress. The figure is the median over batches of 500.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import random
import resource
import statistics
import time

from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World

BATCH = 500
NOW_S = 3 * 86_400.0
LARGE_BYTES = 1_000_000  # the body of a "too large" answer would dominate the mean


def draw_requests(world: World, count: int, only_html: bool, headers: dict[str, str]) -> list[WorldRequest]:
    chance = random.Random(1)
    ends = list(itertools.accumulate(host.size for host in world.hosts))
    found: list[WorldRequest] = []
    while len(found) < count:
        number = chance.randrange(ends[-1])
        space = world.spaces[bisect.bisect_right(ends, number)]
        slot = number - (ends[space.host.index] - space.size)
        if (only_html and space.kind(slot) is not UrlKind.PAGE) or (headers and not space.host.gzip):
            continue
        found.append(WorldRequest(space.host.name, f"/{space.path(slot).decode()}", headers=headers))
    return found


def measure(world: World, requests: list[WorldRequest]) -> dict[str, float]:
    batches, size = [], 0
    for start in range(0, len(requests), BATCH):
        batch = requests[start : start + BATCH]
        began = time.perf_counter()
        for request in batch:
            length = len(world.answer(request, NOW_S).body)
            size += length if length < LARGE_BYTES else 0
        batches.append((time.perf_counter() - began) / len(batch) * 1e6)
    return {
        "us_per_answer": round(statistics.median(batches), 1),
        "us_best_batch": round(min(batches), 1),
        "mean_body_bytes": round(size / len(requests)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--answers", type=int, default=20_000)
    options = parser.parse_args()
    began = time.perf_counter()
    world = World(WorldSpec.load(None, pages=options.pages, hosts=options.hosts), epoch_s=0.0)
    build_s = time.perf_counter() - began
    for space in world.spaces:
        world.frame(space)
    rows = {
        "html": measure(world, draw_requests(world, options.answers, True, {})),
        "mix": measure(world, draw_requests(world, options.answers, False, {})),
        "gzip": measure(world, draw_requests(world, options.answers, True, {"accept-encoding": "gzip"})),
    }
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = {"pages": options.pages, "hosts": options.hosts}
    print(json.dumps({**size, "build_s": round(build_s, 2), "peak_rss_mb": round(peak_mb), **rows}))


if __name__ == "__main__":
    main()
