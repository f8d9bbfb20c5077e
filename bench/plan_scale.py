"""Cost of a plan for a whole web: rates and counts of 10^9 and 10^10 pages, on a GPU.

    python -m bench.plan_scale --device cuda --pages 1e9 [--servers 2e6] [--theta 1] [--octets 8] [--rounds 3]
                               [--unit hour] [--visits-per-page 8.64] [--write FILE.json]
    python -m bench.plan_scale --device cuda --check 1e6

It needs no more than numpy and torch, and no compiled part of teia. Worlds are of P6's kind: pages over servers by
Zipf's law with `theta`, rates between 0.01 and 1 per unit, weights by Zipf's law in random order, P = 15 s, T = 24 h.
They are drawn on the device. `octets` is the size of a number in the columns of rates and weights, and of the rates of
the result: 10^10 pages fit into 139 GiB with 4; all arithmetic has 8.

`rates_s` and `counts_s` are the wall time from columns in the device's memory to results there and their sums by
server, with a synchronisation before and after, the best of all rounds. In the first round torch compiles its kernels
(`*_first_round_s`). `*_passes` are readings of all pages. `over_budget` and `over_cap` compare sums of the result with
the limits. `--check` plans one world on the device and with numpy, by `counts` and `intensities` and by the module of
large plans, and compares the numbers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from teia.refresh.arrays import Arrays, NumpyArrays, open_arrays
from teia.refresh.counts import plan_counts
from teia.refresh.intensities import plan_intensities
from teia.refresh.large_scale import LargePages, plan_large_counts, plan_large_rates, taken
from teia.refresh.model import RefreshWorld
from teia.refresh.scenario import FASTEST, SLOWEST, draw_world, server_sizes

UNIT_S = {"day": 86_400.0, "hour": 3600.0}
HORIZON_S, POLITENESS_S = 86_400.0, 15.0


def draw(arrays: Arrays, pages: int, servers: int, theta: float, unit: str, octets: int, seed: int) -> LargePages:
    """Draw a world on the device, part by part."""
    xp = arrays.xp
    dtype = xp.float32 if octets == 4 else xp.float64
    starts = np.zeros(servers + 1, dtype=np.int64)
    np.cumsum(server_sizes(pages, servers, theta), out=starts[1:])
    rate, weight = arrays.full(pages, 0.0, dtype), arrays.full(pages, 0.0, dtype)
    uniform = _uniform(arrays, seed)
    for begin in range(0, pages, arrays.pages_at_once):
        part = slice(begin, min(begin + arrays.pages_at_once, pages))
        size = part.stop - part.start
        rate[part] = (SLOWEST + (FASTEST - SLOWEST) * uniform(size)) / UNIT_S[unit]
        # 1/rank, with ranks drawn one by one instead of by a permutation.
        weight[part] = 1.0 / (1.0 + xp.floor(uniform(size) * pages))
    return LargePages(arrays, arrays.array(starts), rate, weight, HORIZON_S)


def _uniform(arrays: Arrays, seed: int) -> Callable[[int], Any]:
    if arrays.xp is np:
        return np.random.default_rng(seed).random
    device = arrays.full(1, 0, arrays.xp.int64).device
    chance = arrays.xp.Generator(device).manual_seed(seed)
    return lambda size: arrays.xp.rand(size, dtype=arrays.xp.float64, device=device, generator=chance)


class Timer:
    """Wall time of work on a device, which goes on after a call has returned."""

    def __init__(self, arrays: Arrays) -> None:
        is_cuda = arrays.xp is not np and arrays.xp.cuda.is_available()
        self._wait: Callable[[], object] = arrays.xp.cuda.synchronize if is_cuda else lambda: None

    def __call__(self, work: Callable[[], Any]) -> tuple[float, Any]:
        self._wait()
        began = time.perf_counter()
        result = work()
        self._wait()
        return time.perf_counter() - began, result


def measure(
    device: str,
    pages: int,
    servers: int,
    *,
    theta: float,
    unit: str,
    octets: int,
    visits: float,
    rounds: int,
    seed: int,
) -> dict[str, Any]:
    arrays: Arrays = open_arrays(device)  # type: ignore[arg-type]
    xp, timed = arrays.xp, Timer(arrays)
    drawn_s, world = timed(lambda: draw(arrays, pages, servers, theta, unit, octets, seed))
    budget, cap = int(visits * pages), int(HORIZON_S / POLITENESS_S)
    limits = arrays.full(servers, 1.0 / POLITENESS_S, xp.float64)
    caps = arrays.full(servers, cap, xp.int64)
    found: dict[str, Any] = {}

    def rates() -> None:
        plan = plan_large_rates(world, limits, budget / HORIZON_S)
        out = arrays.full(pages, 0.0, world.rate.dtype)
        plan.write(out)
        found["rates"] = _sums(world, out)

    def counts() -> None:
        found["counts"] = _sums(world, plan_large_counts(world, caps, budget))

    row: dict[str, Any] = {"pages": pages, "servers": servers, "octets": octets, "budget": budget}
    for name, work in (("rates", rates), ("counts", counts)):
        spent = []
        for _ in range(rounds):
            world.passes = 0.0
            spent.append(timed(work)[0])
        row |= {
            f"{name}_s": round(min(spent), 3),
            f"{name}_first_round_s": round(spent[0], 3),
            f"{name}_passes": round(world.passes, 1),
        }
    per_s, visited = found["rates"] * HORIZON_S, found["counts"]
    whole = {"rates": float(per_s.sum()), "counts": float(visited.sum())}
    return row | {
        "visits": whole,
        "over_budget": {name: whole[name] / budget - 1.0 for name in whole},
        "over_cap": {"rates": float(per_s.max()) / cap - 1.0, "counts": float(visited.max()) / cap - 1.0},
        "servers_at_cap": int((visited == cap).sum()),
        "drawn_s": round(drawn_s, 2),
        **_about(arrays),
    }


def _sums(world: LargePages, column: Any) -> Any:
    """Return the sums of each server. Pages that no visit helps have 0."""
    return world.sums(taken, columns=(column,))


def check(device: str, pages: int, *, theta: float, unit: str, visits: float, seed: int) -> dict[str, Any]:
    """Compare plans of one world, by numpy's modules and on the device."""
    world = draw_world(
        np.random.default_rng(seed),
        pages=pages,
        servers=max(1, pages // 500),
        theta=theta,
        weights="zipf:1",
        rate_unit_s=UNIT_S[unit],
        horizon_s=HORIZON_S,
        politeness_s=POLITENESS_S,
        budget=int(visits * pages),
    )
    arrays: Arrays = open_arrays(device)  # type: ignore[arg-type]
    if not isinstance(arrays, NumpyArrays):
        arrays.fuse_from = 0  # type: ignore[attr-defined]  # the kernels of large plans are compiled
    limit = int(visits * pages) / HORIZON_S
    rates, price, counts = _plan_large(arrays, world, limit)
    result: dict[str, Any] = {"check": pages, **_about(arrays)}
    found = plan_intensities(world, visits_per_s=limit)
    for name, (other_rates, other_price, other_counts) in {
        "modules of the processor": (found.visits_per_s, found.price, plan_counts(world)),
        "the same module on numpy": _plan_large(NumpyArrays(), world, limit),
    }.items():
        difference, visited = np.abs(rates - other_rates), other_rates > 0
        relative = difference[visited] / other_rates[visited]
        result[name] = {
            "rates_over_mean": float(difference.max() / other_rates.mean()),
            "rates_relative": float(relative.max()),
            "rates_that_differ_by_more_than_1e_9": int((relative > 1e-9).sum()),
            "rates_that_are_zero_only_once": int(((rates > 0) != visited).sum()),
            "prices_relative": float(np.nanmax(np.abs(price / other_price - 1.0))),
            "counts_that_differ": int((counts != other_counts).sum()),
        }
    return result


def _plan_large(arrays: Arrays, world: RefreshWorld, limit: float) -> tuple[Any, Any, Any]:
    columns = map(arrays.array, (world.starts, world.rate, world.weight))
    large = LargePages(arrays, *columns, world.horizon_s, arrays.array(world.page))
    found = plan_large_rates(large, arrays.array(1.0 / world.politeness_s), limit)
    rates = arrays.full(len(world), 0.0, arrays.xp.float64)
    found.write(rates)
    counts = plan_large_counts(large, world.caps("floor"), world.budget)
    return arrays.to_numpy(rates), arrays.to_numpy(found.price), arrays.to_numpy(counts)


def _about(arrays: Arrays) -> dict[str, Any]:
    about: dict[str, Any] = {"is_fused": arrays.is_fused, "numpy": np.__version__}
    if arrays.xp is not np:
        about["torch"] = arrays.xp.__version__
        if arrays.xp.cuda.is_available():
            about["device"] = arrays.xp.cuda.get_device_name()
            about["peak_gib"] = round(arrays.xp.cuda.max_memory_allocated() / 2**30, 1)
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pages", type=float, default=1e6)
    parser.add_argument("--servers", type=float, default=None, help="2 million by default, or a server for 500 pages")
    parser.add_argument("--theta", type=float, default=1.0)
    parser.add_argument("--unit", choices=sorted(UNIT_S), default="hour")
    parser.add_argument("--octets", type=int, choices=(4, 8), default=8)
    parser.add_argument("--visits-per-page", type=float, default=8.64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", type=float, default=None, help="compare plans of so many pages instead")
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()
    kind: dict[str, Any] = {"theta": options.theta, "unit": options.unit, "seed": options.seed}
    kind["visits"] = options.visits_per_page
    if options.check is not None:
        result = check(options.device, int(options.check), **kind)
    else:
        pages = int(options.pages)
        servers = int(options.servers or min(2_000_000, max(1, pages // 500)))
        result = measure(options.device, pages, servers, octets=options.octets, rounds=options.rounds, **kind)
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
