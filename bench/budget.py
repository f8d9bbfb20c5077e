"""One budget for many hosts, carried out by the live crawler: the freshness reached, and the joint optimum.

    python -m bench.budget [--hosts 30] [--pages 900] [--days 20] [--from-day 12] [--budget 900] [--seed 1]
                           [--policy edf] [--rates known,learnt] [--every 4] [--write FILE.md]

The web has hosts of very different sizes (Zipf) with pages that change at very different rates, and hosts that allow a
request every 4 minutes, 24 minutes or 4 hours. All hosts together have `--budget` requests a day. Frontier, commit,
plans and budget are the real ones; the web is in memory and the clock is turned by hand, so a seed gives the same
numbers on any machine. The crawl begins with nothing. It is judged from `--from-day` on:

  optimum     the best that any division of the budget can keep, with the true rates, under the hosts' delays
  by rates    what the visits of the optimum for the estimated rates would keep, by the true rates: the rest is what
              learning costs
  not found   the freshness that the optimum has of pages, in the time before their first visit
  expected    what the visits that were made keep, by the true rates, without the luck of single changes
  true        the share of time for which captures equalled their pages

The crawl is run twice: with rates that it learns from its visits, and with rates that it is told (`known`), with no
floor and nothing explored. The difference of the second to the optimum is the loss of the live plan. A crawler that
learns the rates is compared with an oracle that must learn them too: it knows the true distribution of the rates on
each host, has made the visits of the optimum for some days, and computes each page's rate from them by Bayes' rule.
What the best visits for its rates keep is as much as `by rates` can be.

With `--every N`, a second table has the share of the optimum in every N days since the crawl began.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from teia.crawler.keep_fresh import host_plan, keep_fresh
from teia.crawler.keep_fresh.host_plan import PageColumns
from teia.frontier.cell.revisits import CapturedPage
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.refresh.formulas import steady_staleness
from teia.refresh.history import Histories
from teia.refresh.intensities import plan_intensities
from teia.refresh.model import Crawlers, RefreshWorld
from teia.refresh.rates import Floats, Gamma, estimate
from teia.refresh.trust import Trust
from teia.urls import key_of
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, FreshWeb, fresh_web, quiet_world

DELAYS = (1, 6, 60)
"""Delays of hosts, in steps of the clock."""

ORACLE_DAYS = (4, 8, 16, 32, 64, 128)
"""Days of visits from which the oracle learns rates."""

RATES, DRAWS = 200, 8
"""Points of the oracle's grid of rates, and results of its visits that are drawn."""

SURE = 1e6
"""Number of changes that a rate which is told counts for."""


@dataclass(frozen=True, slots=True)
class BudgetWeb:
    """Size of a web, its budget of requests a day, and the days of the crawl."""

    hosts: int = 30
    pages: int = 900
    days: float = 20.0
    from_day: float = 12.0
    budget: int = 900
    seed: int = 1
    policy: str = "edf"
    every: float = 0.0
    step_s: float = 240.0

    def world(self) -> World:
        return quiet_world(
            hosts=self.hosts,
            pages=self.pages,
            seed=self.seed,
            sites__theta=1.0,
            changes__slowest=0.02,
            changes__fastest=1.0,
            changes__host_spread=8.0,
            changes__pareto=0.0,
            changes__regular=0.0,
            changes__cosmetic=0.0,
            validators__honest=1.0,
            text__paragraphs=2,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TruePages:
    """The pages of a world: URLs, the number of each one's host, true rates per second, and the hosts' delays."""

    urls: list[str]
    host: np.ndarray[Any, np.dtype[np.int64]]
    rate: Floats
    delays_s: dict[str, float]

    @classmethod
    def of(cls, world: World, step_s: float) -> TruePages:
        urls, hosts, rates = [], [], []
        names = [host.name for host in world.hosts]
        for number, host in enumerate(world.hosts):
            space = world.spaces[host.index]
            for slot in (each for each in range(host.size) if space.kind(each) is UrlKind.PAGE):
                urls.append((world.roots[host.name] + space.path(slot)).decode())
                hosts.append(number)
                rates.append(world.changes.change_process(host.content, slot).rate_per_day / DAY_S)
        delays_s = {name: step_s * DELAYS[number % len(DELAYS)] for number, name in enumerate(names)}
        return cls(urls, np.array(hosts), np.array(rates), delays_s)

    def best(self, rate: Floats, per_s: float) -> Floats:
        """Return the visits per second of the joint optimum for some rates, in the order of the pages."""
        world = RefreshWorld.build(
            self.host,
            rate,
            horizon_s=DAY_S,
            politeness_s=np.array(list(self.delays_s.values())),
            crawlers=Crawlers(1, per_s),
        )
        # The world is sorted by host, as the pages are.
        return plan_intensities(world).visits_per_s

    def kept(self, visits_per_s: Floats) -> float:
        """Return the freshness that even visits keep, by the true rates."""
        return 1.0 - float(np.mean(steady_staleness(self.rate, visits_per_s)))


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """Result of one crawl; freshness as shares, `a_day` is the requests a day."""

    rates: str
    optimum: float
    by_rates: float
    not_found: float
    expected: float
    true: float
    a_day: float
    curve: tuple[tuple[float, float], ...] = ()
    """The end of each part of the crawl, in days, and its expected freshness."""

    def within_from(self, share: float) -> float | None:
        """Return the end of the first part from which on the crawl keeps this share of the optimum to its end."""
        parts = list(self.curve)
        while parts and parts[-1][1] >= share * self.optimum:
            parts.pop()
        return self.curve[len(parts)][0] if len(parts) < len(self.curve) else None


@contextmanager
def known_rates(pages: TruePages) -> Iterator[None]:
    """Tell the planner the true rates, in place of those it estimates."""
    rates = {key_of(url): float(rate) for url, rate in zip(pages.urls, pages.rate, strict=True)}
    keys: dict[int, tuple[Histories, list[int]]] = {}
    to_columns = host_plan.to_columns

    def with_keys(rows: Sequence[CapturedPage], weigh: host_plan.Weigh) -> PageColumns:
        columns = to_columns(rows, weigh)
        keys[id(columns.histories)] = (columns.histories, columns.key.tolist())
        return columns

    def told(histories: Histories, prior: Gamma, trusted: object = None) -> Gamma:  # noqa: ARG001  # as `estimate`
        # Histories of other columns are those of pages whose 304s are doubted; their rates serve reports alone.
        if id(histories) not in keys:
            return estimate(histories, prior)
        rate = np.array([rates.get(key, 1e-9) for key in keys[id(histories)][1]])
        return Gamma(np.full(len(rate), SURE), SURE / rate)

    with (
        patch.object(keep_fresh, "to_columns", with_keys),
        patch.object(keep_fresh, "estimate", told),
        patch.object(host_plan, "estimate", told),
    ):
        yield


def run(size: BudgetWeb, folder: Path, *, known: bool, **settings: Any) -> BudgetResult:
    """Crawl the web within the budget, and judge it."""
    world = size.world()
    pages = TruePages.of(world, size.step_s)
    flags: dict[str, Any] = {"refresh__budget": size.budget, "refresh__policy": size.policy, "refresh__signals": False}
    flags["courtesy__host_delays"] = [f"{host}={delay_s:g}" for host, delay_s in pages.delays_s.items()]
    if known:
        flags |= {"refresh__floor": 0.0, "refresh__explore": 0.0}
    with fresh_web(world, folder, **flags | settings) as web:
        if known:
            with known_rates(pages):
                web.run_paced(size.days, pages.delays_s, size.step_s)
        else:
            web.run_paced(size.days, pages.delays_s, size.step_s)
        return judge(web, pages, size, "known" if known else "learnt")


def judge(web: FreshWeb, pages: TruePages, size: BudgetWeb, rates: str) -> BudgetResult:
    begin_s, end_s = EPOCH_S + size.from_day * DAY_S, web.clock.at_s
    visits = web.visits()
    made = sum(time_s >= begin_s for time_s, _ in web.taken) / (end_s - begin_s)
    found = pages.rate if rates == "known" else estimated_rates(web, pages)
    best = pages.best(pages.rate, size.budget / DAY_S)
    first_s = np.array([min(visits.get(url, [end_s])) for url in pages.urls])
    unseen = np.clip((first_s - begin_s) / (end_s - begin_s), 0.0, 1.0)

    def kept(from_s: float, to_s: float) -> float:
        each = zip(pages.urls, pages.rate.tolist(), strict=True)
        return float(np.mean([fresh_share(visits.get(url, []), rate, from_s, to_s) for url, rate in each]))

    ends = np.arange(1, int(size.days // size.every) + 1) * size.every if size.every else np.zeros(0)
    curve = [(end, kept(EPOCH_S + (end - size.every) * DAY_S, EPOCH_S + end * DAY_S)) for end in ends.tolist()]
    return BudgetResult(
        rates,
        pages.kept(best),
        pages.kept(pages.best(found, size.budget / DAY_S)),
        float(np.mean(unseen * (1.0 - steady_staleness(pages.rate, best)))),
        kept(begin_s, end_s),
        web.freshness(size.from_day),
        made * DAY_S,
        tuple(curve),
    )


def ask_oracle(size: BudgetWeb) -> dict[int, float]:
    """Return the freshness that the best visits keep for the rates that the oracle has learnt, by days of visits."""
    world = size.world()
    pages, chance = TruePages.of(world, size.step_s), np.random.default_rng(size.seed)
    pace = np.array([world.changes.host_pace(host.content) for host in world.hosts])[pages.host]
    grid = np.linspace(world.spec.changes.slowest, world.spec.changes.fastest, RATES) * pace[:, None] / DAY_S
    found = {}
    for days in ORACLE_DAYS:
        # A page that is not worth a visit is visited once.
        visits = np.maximum(np.rint(pages.best(pages.rate, size.budget / DAY_S) * days * DAY_S), 1)
        gap_s, kept = days * DAY_S / visits, []
        for _ in range(DRAWS):
            changed = chance.binomial(visits.astype(np.int64), -np.expm1(-pages.rate * gap_s))
            expected = grid * gap_s[:, None]
            logs = changed[:, None] * np.log(-np.expm1(-expected)) - (visits - changed)[:, None] * expected
            share = np.exp(logs - logs.max(axis=1, keepdims=True))
            rate = (share * grid).sum(axis=1) / share.sum(axis=1)
            kept.append(pages.kept(pages.best(rate, size.budget / DAY_S)))
        found[days] = float(np.mean(kept))
    return found


def fresh_share(visits_s: Sequence[float], rate: float, begin_s: float, end_s: float) -> float:
    """Return the expected share of a time in which a capture is fresh, given the times of the visits."""
    fresh_s = 0.0
    for from_s, to_s in pairwise([*visits_s, max([end_s, *visits_s[-1:]])]):
        after_s = max(from_s, begin_s)
        before_s = min(to_s, end_s)
        if before_s > after_s:
            fresh_s += (exp(-rate * (after_s - from_s)) - exp(-rate * (before_s - from_s))) / rate
    return fresh_s / (end_s - begin_s)


def estimated_rates(web: FreshWeb, pages: TruePages) -> Floats:
    """Return the rates that the crawl believes in at its end."""
    from teia.crawler.keep_fresh.estimate import common_of_cells
    from teia.frontier.cell import histories, revisits
    from teia.urls import site_of, slot_of

    found: dict[int, float] = {}
    for cell in web.crawl.committer.cells:
        hosts = revisits.hosts_with_pages(cell.frontier)
        common = common_of_cells([cell.frontier], web.clock.at_s)
        for host_id, host, *_ in hosts:
            rows = revisits.captured_pages(cell.frontier, slot_of(site_of(host)), host_id, -(1 << 63), 10_000)
            columns = host_plan.to_columns(rows, host_plan.equal_weights)
            trust = Trust.decode(histories.host_trust(cell.frontier, slot_of(site_of(host)), host_id)[0])
            trusted = np.full(len(rows), trust.dates.is_trusted)
            _, rates, _ = host_plan.learn_priors(columns, common.of_all, trusted)
            found |= dict(zip(columns.key.tolist(), rates.mean.tolist(), strict=True))
    # A page that was never found is visited by no plan: as if it changed too fast.
    return np.array([found.get(key_of(url), np.inf) for url in pages.urls])


def table(found: Sequence[BudgetResult], size: BudgetWeb) -> str:
    lines = [
        f"{size.pages} pages on {size.hosts} hosts, {size.budget} requests a day for all, policy {size.policy},"
        f" days {size.from_day:g} to {size.days:g}, seed {size.seed}.",
        "",
        "| rates | optimum | by rates | not found | expected | of optimum | true | requests a day |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        shares = [f"{share:.4f}" for share in (each.optimum, each.by_rates, each.not_found, each.expected)]
        part = f"{each.expected / each.optimum:.2%}"
        lines.append(f"| {each.rates} | {' | '.join(shares)} | {part} | {each.true:.4f} | {each.a_day:.0f} |")
    return "\n".join(lines)


def table_of_curve(found: Sequence[BudgetResult]) -> str:
    """Return the share of the optimum by days since the crawl began, and from when on it is within 1%."""
    days = [f"to {end:g}" for end, _ in found[0].curve]
    lines = [("days", *days), ("---",) * (len(days) + 1)]
    lines += [(each.rates, *(f"{kept / each.optimum:.2%}" for _, kept in each.curve)) for each in found]
    begins = [(each.rates, each.within_from(0.99)) for each in found]
    notes = [f"{rates}: 99% from the days to {end:g} on" for rates, end in begins if end is not None]
    notes += [f"{rates}: not 99% at the end" for rates, end in begins if end is None]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", "; ".join(notes) + "."])


def table_of_oracle(found: dict[int, float], optimum: float) -> str:
    days, shares = zip(*((str(each), f"{kept / optimum:.2%}") for each, kept in found.items()), strict=True)
    lines = (("days of visits", *days), ("---",) * (len(days) + 1), ("oracle, of optimum", *shares))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("hosts", "pages", "days", "from_day", "budget", "seed", "policy", "every"):
        default = getattr(BudgetWeb(), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--rates", default="known,learnt")
    parser.add_argument("--write", type=Path)
    wanted = vars(parser.parse_args())
    write, rates = wanted.pop("write"), wanted.pop("rates").split(",")
    size = BudgetWeb(**wanted)
    found = []
    for each in rates:
        with tempfile.TemporaryDirectory() as name:
            found.append(run(size, Path(name), known=each == "known"))
    text = table(found, size)
    if size.every:
        text += "\n\n" + table_of_curve(found)
    if "learnt" in rates:
        text += "\n\n" + table_of_oracle(ask_oracle(size), found[0].optimum)
    print(text)
    if write is not None:
        write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
