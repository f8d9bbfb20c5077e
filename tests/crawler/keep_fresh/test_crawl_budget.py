"""One budget for all hosts: divided by a price, and shared with new URLs and with other nodes (P4, P9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from teia.collections.settings import apply_edits, parse_edit
from teia.config.sections import RefreshSettings
from teia.crawler.compiled_settings import compile_settings
from teia.crawler.keep_fresh.crawl_budget import (
    BURST_S,
    LEAST_SHARE,
    CrawlBudget,
    Elsewhere,
    HostDemand,
    HostTerms,
    PacedHost,
    measure_demand,
    value_of_new,
)
from teia.crawler.keep_fresh.host_plan import HostPriors, to_columns
from teia.crawler.keep_fresh.keep_fresh import Refresh
from teia.frontier.cell.revisits import CapturedPage
from teia.frontier.cell.schema import LANE_REFRESH, STATE_DONE
from teia.frontier.queue.ledger import CourtesyInForce
from teia.frontier.queue.politeness import DelayTarget, Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.refresh.demand import POINTS, DemandCurve, demand_by_price
from teia.refresh.rates import repeat_prior
from teia.store.root import open_root
from teia.urls import split
from teia.views.reports.freshness import freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, FreshWeb, fresh_web, quiet_world

STEP_S = 300.0


def demand(pages: int, per_day: float, delay_s: float = 60.0, **more: float) -> HostDemand:
    """A host whose pages all change equally often."""
    column = np.minimum(demand_by_price("periodic", np.ones(pages), np.full(pages, per_day / DAY_S)), 1 / delay_s)
    return HostDemand(DemandCurve.of(column), 1 / delay_s, pages, **more)  # type: ignore[arg-type]


def some_budget(budget: int, demands: Sequence[HostDemand], **more: object) -> tuple[CrawlBudget, list[PacedHost]]:
    settings = RefreshSettings(budget=budget, **{"floor": 0.0, **more})  # type: ignore[arg-type]
    made = CrawlBudget(settings, 0.0)
    hosts = [PacedHost(number / len(demands)) for number in range(len(demands))]
    for host, each in zip(hosts, demands, strict=True):
        made.set_demand(host, each, has_new=False)
    return made, hosts


def spend(budget: CrawlBudget, hosts: Sequence[PacedHost], days: float, from_s: float = 0.0) -> Counter[int]:
    """The requests of each host, which takes what it is allowed every few minutes."""
    taken = Counter[int]()
    for now_s in np.arange(from_s, from_s + days * DAY_S, STEP_S).tolist():
        for number, host in enumerate(hosts):
            allowed, _ = budget.allow(host, 10, now_s)
            budget.take(host, allowed, now_s)
            taken[number] += allowed
    return taken


def test_the_budget_is_used_and_goes_where_it_gains_most() -> None:
    """Pages that change 50 times a day are given up; ten times as many pages get more visits, not ten times as many."""
    budget, hosts = some_budget(200, [demand(10, 1.0), demand(100, 1.0), demand(10, 50.0), demand(10, 0.02)])
    taken = spend(budget, hosts, 10)
    assert sum(taken.values()) == pytest.approx(2_000, rel=0.01)
    assert taken[2] == 0
    assert taken[1] == pytest.approx(10 * taken[0], rel=0.05)
    assert 0 < taken[3] < 0.5 * taken[0]


def test_no_host_has_more_than_politeness_allows_and_the_others_get_the_rest() -> None:
    budget, hosts = some_budget(100, [demand(20, 1.0, 7_200.0), demand(20, 1.0)])
    taken = spend(budget, hosts, 10)
    assert taken[0] == pytest.approx(120, abs=3)
    assert sum(taken.values()) == pytest.approx(1_000, rel=0.01)


def test_what_a_host_leaves_is_spent_by_the_others() -> None:
    """A host is down: its part of the budget lowers the price for all others."""
    budget, hosts = some_budget(100, [demand(20, 1.0), demand(20, 1.0)])
    taken = spend(budget, hosts[1:], 10)
    assert taken[0] == pytest.approx(1_000, rel=0.02)


def test_a_budget_that_was_spent_too_early_is_saved_again() -> None:
    budget, (host,) = some_budget(1_440, [demand(50, 1.0, 1.0)])
    budget.allow(host, 1, 0.0)
    budget.take(host, 200, 0.0)
    allowed, again_s = budget.allow(host, 1, 60.0)
    assert (allowed, again_s) == (0, pytest.approx(200 * 60.0 - BURST_S))
    assert sum(spend(budget, [host], 4, 60.0).values()) == pytest.approx(4 * 1_440 - 200, rel=0.02)


def test_a_floor_is_for_all_pages_of_all_hosts() -> None:
    """Pages that are given up at the price are visited all the same, now and then."""
    budget, hosts = some_budget(80, [demand(10, 50.0), demand(30, 1.0)], floor=0.1)
    taken = spend(budget, hosts, 20)
    assert taken[0] == pytest.approx(20 * 80 * 0.1 * 10 / 40, rel=0.05)
    assert sum(taken.values()) == pytest.approx(1_600, rel=0.01)


def test_bytes_go_where_they_gain_most() -> None:
    """Pages of 100 kB cost ten times as much as pages of 10 kB: they are visited less, and the sum is the budget."""
    large, small = demand(20, 1.0), demand(20, 1.0)
    columns = [demand_by_price("periodic", np.full(20, 1.0 / cost), np.full(20, 1.0 / DAY_S)) for cost in (1e5, 1e4)]
    priced = [
        HostDemand(DemandCurve.of(np.minimum(column, each.most)), each.most, 20, cost=cost)
        for column, each, cost in zip(columns, (large, small), (1e5, 1e4), strict=True)
    ]
    budget, hosts = some_budget(2_000_000, priced, budget_unit="bytes")
    taken = spend(budget, hosts, 10)
    assert 1e5 * taken[0] + 1e4 * taken[1] == pytest.approx(20_000_000, rel=0.03)
    assert 0 < taken[0] < 0.5 * taken[1]
    before = budget.account()["spent"]
    budget.correct(hosts[1], 25_000)
    assert budget.account()["spent"] == pytest.approx(before + 15_000)


def test_bytes_of_a_host_without_a_plan_are_counted() -> None:
    """Its requests counted as one byte each, so that a budget of 20 pages a day did not limit it."""
    budget, (host,) = some_budget(2_000_000, [demand(20, 1.0)], budget_unit="bytes")
    budget.set_demand(host, None, has_new=False)
    taken = 0
    for now_s in np.arange(0.0, 5 * DAY_S, STEP_S).tolist():
        allowed, _ = budget.allow(host, 10, now_s)
        budget.take(host, allowed, now_s)
        # A plan that is made while the request is under way changes nothing in what was counted for it.
        budget.set_demand(host, demand(20, 1.0, cost=1e5), has_new=False)
        for _ in range(allowed):
            budget.correct(host, 100_000)
        budget.set_demand(host, None, has_new=False)
        taken += allowed
    assert taken == pytest.approx(100, rel=0.03)
    assert budget.account()["spent"] == pytest.approx(taken * 1e5)


def test_only_pages_count_for_a_budget_of_bytes() -> None:
    """A robots.txt was not taken from the budget, so the difference to a page is not given back."""
    budget, (host,) = some_budget(2_000_000, [replace(demand(20, 1.0), cost=50_000.0)], budget_unit="bytes")
    refresh = SimpleNamespace(
        budget=budget,
        _host=lambda *_: SimpleNamespace(paced_host=host),
        _pace=lambda *_: None,
        _scheduled=[],
        stored_pages=0,
    )
    budget.take(host, 1, 0.0)
    for purpose, spent in (("robots", 0.0), ("page", 120 - 50_000.0)):
        visit = SimpleNamespace(
            queue=SimpleNamespace(host_id=1, host="a.test"), item=SimpleNamespace(purpose=purpose, visits=1),
            was_requested=True, bytes_received=120, verdict=None,
        )  # fmt: skip
        before = budget.account()["spent"]
        Refresh.count_visits(refresh, None, [visit])  # type: ignore[arg-type]
        assert budget.account()["spent"] - before == spent


# ---- new URLs -------------------------------------------------------------------------------------------------------


def test_new_urls_and_known_pages_share_by_value() -> None:
    """A new URL is worth a page of infinite age: more than known pages that change fast, less than slow ones."""
    made = {}
    for value_days in (1e-4, 0.5, 1e4):
        budget, (host, other) = some_budget(
            400, [demand(50, 0.3, 300.0, new_value=value_days * DAY_S), demand(50, 0.3)]
        )
        budget.set_demand(host, host.demand, has_new=True)
        budget.solve(0.0)
        made[value_days] = budget.terms.allot(host.demand, has_new=True)  # type: ignore[arg-type]
        assert budget.terms.allot(other.demand, has_new=False).requests_per_s * DAY_S < 400  # type: ignore[arg-type]
    # At half a day, a visit of a known page is worth it every two days: for 24 of the 288 requests that it allows.
    assert [each.share for each in made.values()] == pytest.approx([1 - LEAST_SHARE, 24 / 288, LEAST_SHARE], abs=0.01)
    assert [each.requests_per_s * DAY_S for each in made.values()] == pytest.approx([200, 288, 288], rel=0.01)


def test_a_new_url_is_worth_the_mean_lifetime_of_its_capture() -> None:
    """Rates that differ much: a few slow pages keep their captures for long, which the mean rate does not tell.

    By the mean rate, both hosts had the value of 30 days, and slow pages of slow hosts were found late.
    """
    alike, mixed = repeat_prior(5.0, 150 * DAY_S, 1), repeat_prior(0.5, 15 * DAY_S, 1)
    assert value_of_new(alike) / DAY_S == pytest.approx(150 / (5 - 1), rel=0.02)
    assert value_of_new(mixed) > 3 * value_of_new(alike)
    columns = to_columns([CapturedPage(1, "/1", 2, 1, "text/html", 200, STATE_DONE, LANE_REFRESH, 0, 0, 0.0, 0.0, b"")],
                         lambda rows: np.full(len(rows), 2.0))  # fmt: skip
    terms = HostTerms(60.0, page_yield=0.5)
    found = measure_demand(columns, alike.mean, HostPriors((0.5, 15 * DAY_S), {}), terms, RefreshSettings(), 0.0)
    assert found.new_value == pytest.approx(0.5 * 2.0 * value_of_new(mixed))


def test_a_fixed_share_of_the_budget_is_for_new_urls() -> None:
    budget, hosts = some_budget(400, [demand(50, 0.3), demand(50, 0.3)], discovery="share", share=0.75)
    budget.set_demand(hosts[0], hosts[0].demand, has_new=True)
    budget.solve(0.0)
    with_new = budget.terms.allot(hosts[0].demand, has_new=True)  # type: ignore[arg-type]
    assert with_new.requests_per_s * (1 - with_new.share) * DAY_S == pytest.approx(100, rel=0.01)
    assert sum(spend(budget, hosts, 5).values()) == pytest.approx(2_000, rel=0.01)


def only_new(delay_s: float = 600.0) -> HostDemand:
    return HostDemand(DemandCurve.of(np.zeros(POINTS)), 1 / delay_s, 0, DAY_S)


def give_new(budget: CrawlBudget, hosts: Sequence[PacedHost]) -> None:
    for host in hosts:
        budget.set_demand(host, host.demand, has_new=True)


def test_new_urls_have_what_known_pages_leave_of_a_fixed_share() -> None:
    """Nothing else can be visited while no page is known; half of the budget was lost then."""
    budget, hosts = some_budget(400, [only_new()] * 8, policy="uniform")
    give_new(budget, hosts)
    assert sum(spend(budget, hosts, 5).values()) == pytest.approx(2_000, rel=0.02)


def test_a_timetable_does_not_keep_new_urls_from_a_host_for_ever() -> None:
    """Visits of a timetable come before their slots; that of a host which the price gives up is infinite."""
    budget, (host,) = some_budget(400, [only_new()], policy="psp")
    assert budget.allow(host, 1, 0.0)[0] == 0
    budget.take(host, 1, 0.0)
    give_new(budget, [host])
    assert spend(budget, [host], 1, 1.1 * DAY_S).total() > 100


# ---- many nodes -----------------------------------------------------------------------------------------------------


def spend_together(nodes: Sequence[tuple[CrawlBudget, list[PacedHost]]], days: int) -> list[Counter[int]]:
    """The requests of each node's hosts; nodes report to each other every half hour."""
    reports: list[list[float]] = [[] for _ in nodes]
    for number, (budget, _) in enumerate(nodes):
        budget.elsewhere = lambda own=number: Elsewhere.sum_up(reports[:own] + reports[own + 1 :])  # type: ignore[misc]
    taken = [Counter[int]() for _ in nodes]
    for minute in range(0, days * 1_440, 30):
        for number, (budget, hosts) in enumerate(nodes):
            taken[number] += spend(budget, hosts, 1 / 48, minute * 60.0)
            reports[number] = budget.report()
    assert max(map(len, reports)) < 80
    return taken


def test_nodes_share_what_the_budget_has_for_new_urls() -> None:
    """By a policy without prices: every node spent that share as if it were alone."""
    nodes = [some_budget(400, [only_new()] * hosts, policy="uniform") for hosts in (6, 2)]
    for budget, hosts in nodes:
        give_new(budget, hosts)
    first, second = (each.total() for each in spend_together(nodes, 5))
    assert first + second == pytest.approx(2_000, rel=0.03)
    assert first == pytest.approx(3 * second, rel=0.1)


def test_a_node_that_has_only_new_urls_gets_their_share() -> None:
    """The node's part followed from known pages alone: one without any had none for ever."""
    known = some_budget(400, [demand(50, 0.3)], policy="uniform")
    new = some_budget(400, [only_new()] * 4, policy="uniform")
    give_new(*new)
    assert [each.total() for each in spend_together([known, new], 10)] == pytest.approx([2_000, 2_000], rel=0.05)


def test_a_report_of_an_earlier_version_says_nothing_of_new_urls() -> None:
    budget, hosts = some_budget(400, [only_new()], policy="uniform")
    give_new(budget, hosts)
    report = budget.report()
    assert Elsewhere.sum_up([report]).new_most == pytest.approx(1 / 600.0, rel=1e-5)
    assert Elsewhere.sum_up([report[:-1]]).new_most == 0.0
    by_value, _ = some_budget(400, [demand(50, 0.3)])
    assert Elsewhere.sum_up([by_value.report()]).new_most == 0.0


def test_nodes_that_exchange_what_they_would_spend_find_the_same_price() -> None:
    """P9: not the plans are exchanged. Together they spend the budget, and divide it as one machine would."""
    each = [demand(10, 1.0), demand(100, 0.5), demand(30, 4.0, 3_600.0), demand(10, 0.02)]
    alone, hosts = some_budget(200, each)
    nodes = [some_budget(200, each[:1]), some_budget(200, each[1:])]
    taken = spend_together(nodes, 10)
    wanted = spend(alone, hosts, 10)
    assert sum(map(Counter.total, taken)) == pytest.approx(2_000, rel=0.02)
    assert taken[0][0] == pytest.approx(wanted[0], rel=0.05)
    assert [taken[1][number] for number in range(3)] == pytest.approx(
        [wanted[number] for number in (1, 2, 3)], rel=0.05
    )
    # Cut off from the other, a node continues with its last price and its part.
    before = nodes[0][0].account()["price_hours"]
    more = spend(nodes[0][0], nodes[0][1], 5, 10 * DAY_S)
    assert more[0] == pytest.approx(wanted[0] / 2, rel=0.1)
    assert nodes[0][0].account()["price_hours"] == pytest.approx(before, rel=0.2)


def test_a_node_that_has_reported_nothing_is_taken_to_be_like_this_one() -> None:
    budget, hosts = some_budget(200, [demand(50, 1.0)])
    budget.elsewhere = lambda: Elsewhere.sum_up([[]])
    assert sum(spend(budget, hosts, 10).values()) == pytest.approx(1_000, rel=0.02)


# ---- live -----------------------------------------------------------------------------------------------------------


WEB = {"pages": 40, "hosts": 2, "seed": 3, "sites__theta": 1.0, "changes__fastest": 3.0, "text__paragraphs": 2}
DAYS = 3.0


@contextmanager
def budgeted_web(policy: str, folder: Path, budget: int = 60) -> Iterator[tuple[FreshWeb, Counter[str]]]:
    """A crawl, and the visits of its second half. The larger host allows 24 requests a day, the smaller one 72."""
    world = quiet_world(**WEB)
    names = [host.name for host in sorted(world.hosts, key=lambda host: -host.size)]
    delays_s = dict(zip(names, (3_600.0, 1_200.0), strict=True))
    settings = {"refresh__budget": budget, "refresh__policy": policy, "courtesy__delay_s": 1_200.0}
    with fresh_web(world, folder / policy, **settings) as web:
        web.run_paced(DAYS, delays_s, 1_200.0)
        times: dict[str, list[float]] = {name: [] for name in names}
        for time_s, url in web.taken:
            times[split(url).host].append(time_s)
        since_s = EPOCH_S + DAYS / 2 * DAY_S
        late = {
            which: sum(time_s > since_s for time_s in times[name]) for which, name in zip(WHICH, names, strict=True)
        }
        yield web, Counter(late)


WHICH = ("larger", "smaller")


@pytest.mark.heavy
def test_the_live_crawl_keeps_the_budget_and_reports_its_division(tmp_path: Path) -> None:
    with budgeted_web("edf", tmp_path) as (web, visits):
        assert visits.total() == pytest.approx(60 * DAYS / 2, rel=0.05)
        account = web.refresh.account()
        assert account is not None
        assert account["budget"] == 60
        assert account["planned_a_day"] == pytest.approx(60, rel=0.1)
        with open_source(open_root(web.data), "main") as source:
            report = freshness(source, clock=web.clock)
    assert report.budget is not None
    assert report.budget.price_hours == pytest.approx(account["price_hours"], rel=0.5)
    planned = [row.planned_a_day or 0.0 for row in report.rows]
    assert sum(planned) == pytest.approx(60, rel=0.15)
    assert planned == pytest.approx([visits[which] / (DAYS / 2) for which in WHICH], rel=0.25)
    assert report.granted_a_day > 60


@pytest.mark.heavy
def test_policies_that_one_host_cannot_tell_apart_differ_with_a_budget(tmp_path: Path) -> None:
    """P5, P9: `m-wolf`, `cho` and `uniform` want visits that the larger host does not allow, and lose them."""
    made = {}
    for policy in ("mp2", "m-wolf", "uniform", "round-robin", "cho", "edf"):
        with budgeted_web(policy, tmp_path) as (_, visits):
            made[policy] = visits
    for polite, other in (("mp2", "m-wolf"), ("edf", "cho")):
        assert made[polite]["smaller"] > 1.2 * made[other]["smaller"], made
    assert made["round-robin"]["smaller"] > 1.5 * made["uniform"]["smaller"], made
    assert made["round-robin"]["larger"] < made["uniform"]["larger"], made


def test_without_a_budget_the_value_of_new_urls_can_divide_the_requests_of_a_host() -> None:
    """A new page is worth half a day here, so that known pages are worth a visit every two days."""
    budget = CrawlBudget(RefreshSettings(discovery="value"), 0.0)
    found = budget.terms.allot(demand(50, 0.3, 300.0, new_value=0.5 * DAY_S), has_new=True)
    assert (found.requests_per_s, found.share) == (1 / 300.0, pytest.approx(24 / 288, abs=0.01))
    fixed = CrawlBudget(RefreshSettings(), 0.0).terms
    assert not fixed.depend_on_demand
    assert fixed.allot(demand(50, 0.3, 300.0, new_value=DAY_S), has_new=True).share == 0.5


def test_without_a_budget_a_live_crawl_can_divide_by_value(tmp_path: Path) -> None:
    """All URLs of this web are pages: a new one is worth more than any known page, which get the least share."""
    with fresh_web(quiet_world(**WEB), tmp_path, refresh__discovery="value", refresh__replan_s=600.0) as web:
        web.run(0.25, 1_800.0)
        (host, *_) = [each for each in web.refresh._hosts.values() if each.has_new_urls]
        assert web.refresh._share(host) == LEAST_SHARE


def test_known_pages_of_a_host_without_a_plan_are_visited_within_the_budget(tmp_path: Path) -> None:
    """A host with few pages is planned after `replan_s`; until then its requests stopped with its last new URL."""
    world = quiet_world(pages=6, hosts=1, seed=3, text__paragraphs=2)
    with fresh_web(world, tmp_path, refresh__budget=96, refresh__replan_s=DAY_S) as web:
        web.run(0.4, 600.0)
        assert len(web.taken) == pytest.approx(0.4 * 96, rel=0.1)


def test_a_new_budget_holds_at_once(tmp_path: Path) -> None:
    """It held from the next start of the crawl. From none to 24 requests a day, to 96, and to none again."""
    world = quiet_world(pages=6, hosts=1, seed=3, text__paragraphs=2)
    with fresh_web(world, tmp_path, refresh__replan_s=3_600.0) as web:
        made = []
        for budget in (0, 24, 96, 0):
            if budget != web.crawl.config.refresh.budget:
                config = apply_edits(web.crawl.config, [parse_edit(f"budget={budget}")])
                courtesy, schedule = config.courtesy, HostSchedule(Politeness(config.courtesy), 10)
                web.crawl._check_later(HostQueue("a.test", 9, 0, 0, DelayTarget("a.test")), 1e9)
                web.crawl.reconfigure(
                    compile_settings(config, web.data), CourtesyInForce.from_settings(0.0, courtesy), schedule
                )
                web.crawl.wake_due(schedule, 0.0)
                assert not web.crawl._later, "a host that waits for its part of the old budget asks again"
            before = len(web.taken)
            web.run_paced(0.5, dict.fromkeys((host.name for host in world.hosts), 600.0), 600.0)
            made.append(len(web.taken) - before)
        assert made == [72, pytest.approx(12, abs=2), pytest.approx(48, abs=3), 72]


def test_advice_on_delays_is_not_about_the_budget(tmp_path: Path) -> None:
    """At one request a day 12 pages need 12 days, whatever the delay; at a delay of ten minutes, two hours."""
    world = quiet_world(pages=12, hosts=1, seed=3, text__paragraphs=2)
    with fresh_web(world, tmp_path, refresh__budget=96, refresh__replan_s=3_600.0) as web:
        web.run(0.25, 600.0)
        with open_source(open_root(web.data), "main") as source:
            config = replace(source.config, refresh=replace(source.config.refresh, budget=1))
            report = freshness(replace(source, config=config), clock=web.clock)
    assert report.rows[0].full_pass_s > 7 * DAY_S
    assert not [note for note in report.notes if "delay" in note]
