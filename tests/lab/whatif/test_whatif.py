"""What if: paces from what hosts granted, worlds from what is known, and an answer that says what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from teia.clock import WallClock
from teia.config.sections import Config, CourtesySettings, RefreshSettings
from teia.crawler.keep_fresh.estimate import Unproven
from teia.crawler.keep_fresh.host_plan import HostPriors, PageColumns
from teia.errors import LabError, UsageError
from teia.lab.simulate.bounds import steady_optimum
from teia.lab.simulate.run import SimulationSettings, simulate
from teia.lab.whatif import answer
from teia.lab.whatif.answer import WhatIfRequest, what_if
from teia.lab.whatif.backtest import NOTHING, Backtest, backtest
from teia.lab.whatif.finish import first_visits
from teia.lab.whatif.judging import Judge, draw_worlds, estimate_mean
from teia.lab.whatif.live import LivePolicy, make_world, slots_within_budget
from teia.lab.whatif.pace import HostBehaviour, Machine, Paces, Terms, compute_paces, mean_delays, read_behaviour
from teia.lab.whatif.past import HostPages, HostPast, Past, read_past
from teia.refresh.history import DAY_S, History, VisitResult, decode_columns
from teia.refresh.model import Crawlers
from teia.refresh.policies import POLICIES, find_policy
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Gamma, estimate
from teia.refresh.scenario import draw_world
from teia.store.fetchlog import FetchRow, LogPart
from teia.store.root import open_root
from teia.store.sql import FetchLog
from teia.views.reports.source import LateLog, Source, open_source
from tests.crawler.fresh_crawls import EPOCH_S, ManualClock, fresh_web, quiet_world

SLOT_S = 3_600.0
WEB = {"pages": 36, "hosts": 3, "seed": 3, "sites__theta": 0.3, "changes__fastest": 3.0, "text__paragraphs": 2}


# ---- how far apart visits are ---------------------------------------------------------------------------------------


def host(name: str, **values: Any) -> HostPast:
    known = {"address": "", "pages": 10, "waiting": 0, "crawl_delay_s": 0.0, "is_parked": False} | values
    return HostPast(name, None, 1, **known)  # type: ignore[arg-type]  # no cell is asked here


def pace_of(
    *hosts: HostPast, config: Config | None = None, delay_s: float = 10.0, nodes: int = 1, **behaviour: Any
) -> Paces:
    each = {"took_s": 0.0, "late_s": 0.0, "failed": 0.0, "pace_error": 0.0} | behaviour
    columns = {name: np.full(len(hosts), value) for name, value in each.items()}
    rest_s = np.array([max(delay_s, one.crawl_delay_s) for one in hosts])
    known = HostBehaviour(**columns, machine=Machine(1.0, False))
    return compute_paces(
        Past(hosts, (), 0.0), known, rest_s, config or quick(), Terms(delay_s, "edf", None, nodes), 14 * DAY_S
    )


def quick(**courtesy: Any) -> Config:
    """Settings under which nothing but delays holds visits up."""
    polite = CourtesySettings(**({"robots": False} | courtesy))
    return Config(courtesy=polite, refresh=RefreshSettings(least_s=0.001, share=0.5))


def test_a_host_has_a_delay_an_answer_time_and_waits_for_the_crawler() -> None:
    pace = pace_of(host("a.test"), took_s=2.0, late_s=0.5)
    assert pace.slot_s == pytest.approx([12.5])


def test_a_crawl_delay_wins_over_a_shorter_delay_and_is_counted() -> None:
    """C2: it is never shortened."""
    pace = pace_of(host("a.test", crawl_delay_s=60.0), host("b.test"), host("c.test", pages=0, crawl_delay_s=60.0))
    assert pace.slot_s[:2] == pytest.approx([60.0, 10.0])
    assert pace.crawl_delays == 1


def test_hosts_at_one_address_share_its_delay() -> None:
    hosts = [host(f"{name}.test", address="10.0.0.1") for name in "abc"]
    pace = pace_of(*hosts, host("d.test", address="10.0.0.2"))
    assert pace.slot_s == pytest.approx([30.0, 30.0, 30.0, 10.0])


def test_where_many_sites_share_an_address_its_delay_is_divided() -> None:
    hosts = [host(f"site{number}.test", address="10.0.0.1") for number in range(16)]
    pace = pace_of(*hosts, config=quick(shared_sites=8))
    assert pace.slot_s == pytest.approx([16 * 10.0 * 8 / 16] * 16)


def test_visits_that_fail_and_robots_txt_leave_fewer_for_pages() -> None:
    pace = pace_of(host("a.test"), config=quick(robots=True, robots_max_age_s=100.0), failed=0.5)
    assert pace.slot_s == pytest.approx([1.0 / ((0.1 - 0.01) * 0.5)])
    assert pace.others_per_day == pytest.approx([864.0])


def test_new_urls_take_their_share_while_they_last() -> None:
    days = 14 * DAY_S
    few, many = pace_of(host("a.test", waiting=1_000)), pace_of(host("a.test", waiting=10_000_000))
    assert few.slot_s == pytest.approx([1.0 / (0.1 - 1_000 / days)])
    assert many.slot_s == pytest.approx([20.0])
    alone = pace_of(host("a.test", pages=0, waiting=10_000_000))
    assert alone.others_per_day == pytest.approx([0.99 * 8_640.0]), "nothing is reserved for pages that it has not"


def test_urls_that_wait_take_turns_with_known_pages_that_are_due() -> None:
    hosts = (host("a.test", waiting=600), host("b.test"), host("c.test", waiting=9, is_parked=True))
    delay_s, kept = np.full(3, 10.0), RefreshSettings(keep=True, share=0.75)
    alone = first_visits(Past(hosts, (), 0.0), delay_s, RefreshSettings(keep=False))
    assert alone == {0: (6_000.0, 0)}, "none waits at the second, and the third is left alone"
    many = Past(hosts, (part_of([seen(9, 9)] * 5_000),), 30 * DAY_S)
    assert first_visits(many, delay_s, kept)[0] == pytest.approx((24_000.0, 1_800), rel=0.01), "all are overdue"
    just = Past(hosts, (part_of([seen(9, 9)] * 5_000),), 9 * DAY_S)
    just.parts[0].columns.requested_s[:] = 9 * DAY_S
    assert first_visits(just, delay_s, kept)[0] == (6_000.0, 0), "none is due for half a day"
    more = Past((host("a.test", waiting=60_000),), many.parts, many.now_s)
    assert 600_000.0 < first_visits(more, delay_s[:1], kept)[0].seconds < 2_400_000.0, "more than are made one by one"


def test_more_nodes_visit_more_servers_at_a_time_and_shorten_no_delay() -> None:
    """T4: with 2 servers at a time, 8 hosts wait four times as long; with 4 nodes none waits for another."""
    hosts = [host(f"{name}.test") for name in "abcdefgh"]
    config = quick(max_hosts=2)
    assert pace_of(*hosts, config=config).slot_s == pytest.approx([40.0] * 8)
    assert pace_of(*hosts, config=config, nodes=4).slot_s == pytest.approx([10.0] * 8)
    assert pace_of(*hosts, config=config, nodes=64).slot_s == pytest.approx([10.0] * 8)


def test_no_page_is_visited_more_often_than_may_be_and_a_parked_host_not_at_all() -> None:
    config = replace(quick(), refresh=RefreshSettings(least_s=3_600.0))
    pace = pace_of(host("a.test", pages=6), host("b.test", is_parked=True), config=config)
    assert pace.slot_s == pytest.approx([600.0, LONGEST_S])


# ---- what the log says ----------------------------------------------------------------------------------------------


@contextmanager
def logged(tmp_path: Path, *rows: FetchRow) -> Iterator[Source]:
    with FetchLog([LogPart(tmp_path, 1, rows)]) as log:
        yield Source(
            LateLog(lambda: log), (), quick(response_factor=2.0), tmp_path, "main", tmp_path / "control.sqlite"
        )


def row(name: str, started: float, took_s: float, rest_s: float, **values: Any) -> FetchRow:
    known = {"status": 200, "visit": 2, "rested_s": rest_s} | values
    return FetchRow(started, started + took_s, f"http://{name}/", name, name, "200", rest_s=rest_s, **known)


def test_delays_follow_a_changed_setting_except_those_the_host_requested(tmp_path: Path) -> None:
    """Response times and Retry-After stay what they were; the delay is another."""
    rows = [
        row("a.test", 0.0, 1.0, 10.0), row("a.test", 20.0, 1.0, 10.0), row("a.test", 40.0, 1.0, 10.0),
        row("slow.test", 0.0, 20.0, 10.0), row("slow.test", 60.0, 20.0, 40.0),
        row("full.test", 0.0, 0.0, 10.0, status=503), row("full.test", 900.0, 0.0, 600.0),
    ]  # fmt: skip
    past = Past((host("a.test"), host("slow.test"), host("full.test"), host("b.test", crawl_delay_s=7.0)), (), 0.0)
    with logged(tmp_path, *rows) as source:
        assert mean_delays(source, past, 10.0) == pytest.approx([10.0, 40.0, 600.0, 10.0])
        assert mean_delays(source, past, 1.0) == pytest.approx([2.0, 40.0, 600.0, 7.0])
        assert mean_delays(source, past, 100.0) == pytest.approx([100.0, 100.0, 600.0, 100.0])


def test_delays_are_those_of_the_log_and_idle_hosts_are_not_late(tmp_path: Path) -> None:
    rows = [
        row("a.test", 0.0, 1.0, 10.0, rested_s=10.5), row("a.test", 20.0, 3.0, 10.0, rested_s=11.5),
        row("a.test", 900.0, 2.0, 10.0, rested_s=800.0, status=500),
        row("b.test", 0.0, 4.0, 10.0, rested_s=500.0),
    ]  # fmt: skip
    past = Past((host("a.test"), host("b.test"), host("never.test")), (), 0.0)
    with logged(tmp_path, *rows) as source:
        found = read_behaviour(source, past)
    assert found.took_s == pytest.approx([2.0, 4.0, 3.0])
    assert found.late_s == pytest.approx([1.0, 1.0, 1.0])
    assert found.failed == pytest.approx([1 / 3, 0.0, 0.0])
    assert found.pace_error == pytest.approx([1.5 / 13] * 3), "spaces of 11.5 and 14.5 s; others are like them"


@pytest.mark.parametrize(("rested_s", "was_the_limit"), [(10.1, False), (60.0, True)])
def test_a_machine_was_the_limit_where_hosts_waited_for_it(
    tmp_path: Path, rested_s: float, was_the_limit: bool
) -> None:
    rows = [row(f"h{number}.test", number, 0.1, 10.0, rested_s=rested_s) for number in range(300)]
    with logged(tmp_path, *rows) as source:
        machine = read_behaviour(source, Past((host("h1.test"),), (), 0.0)).machine
    assert machine == Machine(0.5, was_the_limit)


# ---- worlds, and visits judged in them ------------------------------------------------------------------------------


def part_of(histories: list[History], prior: tuple[float, float] = (0.5, 5 * DAY_S)) -> HostPages:
    pages, columns = len(histories), decode_columns([each.encode() for each in histories])
    before = Gamma(np.full(pages, prior[0]), np.full(pages, prior[1]))
    ones = np.ones(pages)
    whole = np.arange(pages)
    is_gone = np.zeros(pages, dtype=np.bool_)
    held = PageColumns(whole, whole, whole, ["x"] * pages, ones, columns, ones, ones, whole, is_gone)
    return HostPages(0, held, before, estimate(columns, before), False)


def seen(visits: int, changed: int) -> History:
    history = History.start(0.0)
    for number in range(visits):
        history.observe(
            VisitResult.CHANGED if number < changed else VisitResult.SAME_BYTES, (number + 1) * DAY_S, None, 1e12
        )
    return history


def test_drawn_rates_are_what_is_known_of_them() -> None:
    part = part_of([seen(0, 0), seen(20, 0), seen(20, 10), seen(200, 20)])
    rates = draw_worlds([part], replace(NOTHING, error=0.0), 20_000, np.random.default_rng(1))
    assert np.median(rates[:, 2]) == pytest.approx(part.posterior.quantile(0.5)[2], rel=0.05)
    assert rates[:, 1:].mean(axis=0) == pytest.approx(part.posterior.mean[1:], rel=0.1)
    spread = rates.std(axis=0) / rates.mean(axis=0)
    assert spread[0] > 1.0 > spread[2] > spread[3]


def test_a_prior_is_named_as_one() -> None:
    share = part_of([seen(0, 0), seen(20, 0), seen(20, 10)]).prior_share
    assert share[0] == 1.0
    assert share[1] == pytest.approx(5 / 25)
    assert share[2] < 0.1


def test_304s_that_nothing_has_proved_are_false_in_a_part_of_the_worlds() -> None:
    """Those of a host are false together, in all its parts."""
    part = part_of([seen(200, 20)] * 20)
    often = Gamma(10 * part.posterior.changes, part.posterior.time_s)
    doubted = replace(part, unproven=Unproven(0.3, 0.0, part.columns, often, HostPriors((0.5, 5 * DAY_S), {})))
    rates = draw_worlds([doubted, doubted, part], replace(NOTHING, error=0.0), 2_000, np.random.default_rng(1))
    are_false = rates.reshape(2_000, 3, 20).mean(axis=2) > 4 * part.posterior.mean[0]
    assert are_false[:, 0].mean() == pytest.approx(0.3, abs=0.04)
    assert (are_false[:, 0] == are_false[:, 1]).all()
    assert not are_false[:, 2].any()


def test_doubts_in_304s_are_read_from_a_collection(tmp_path: Path) -> None:
    """Before a change was seen, a server that answers 304 to everything looks like one whose pages do not change."""
    unchanged = WEB | {"pages": 6, "hosts": 2, "changes__fastest": 0.01}
    world = quiet_world(**unchanged, validators__honest=0.0, validators__frozen=1.0)
    with fresh_web(world, tmp_path) as web:
        web.run(10 * SLOT_S / DAY_S, SLOT_S)
        now_s = web.clock.at_s
    with open_source(open_root(tmp_path / "data"), "main") as doubted:
        parts = read_past(doubted, now_s).parts
    assert all(part.unproven is not None and 0 < part.unproven.probability < 1 for part in parts)


def test_all_rates_of_a_world_are_off_together_as_far_as_the_test_says() -> None:
    part, tested = part_of([seen(20, 10)] * 500), Backtest(100, 40, 50.0, 0.5, 0.2)
    rates = draw_worlds([part], tested, 400, np.random.default_rng(1))
    means = rates.mean(axis=1) / part.posterior.mean[0]
    assert np.median(means) == pytest.approx(0.5, rel=0.1)
    assert np.log(means).std() == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("policy", ["edf", "psp", "index"])
def test_a_judge_agrees_with_the_simulator_that_knows_the_rates(policy: str) -> None:
    """Both are exact: one sums over gaps piece by piece, the other from visit to visit."""
    chance = np.random.default_rng(5)
    world = draw_world(chance, pages=200, servers=4, horizon_s=DAY_S, politeness_s=600.0, rate_unit_s=3_600.0)
    world = world.with_ages(chance.exponential(DAY_S, 200))
    judge = Judge(world, np.array([world.rate, 2 * world.rate]), 0.0, 3 * DAY_S)
    outcome = simulate(world, find_policy(policy), SimulationSettings(3 * DAY_S), WallClock(), on_visits=judge.add)
    values, variance = judge.finish()
    assert values[0] == pytest.approx(1.0 - outcome.staleness, abs=1e-9)
    assert values[1] < values[0]
    assert judge.visits.sum() == outcome.visits
    assert 0 < variance < 0.01


def test_chance_is_as_wide_as_drawn_changes_show() -> None:
    world = draw_world(np.random.default_rng(5), pages=60, servers=2, horizon_s=DAY_S, politeness_s=900.0)
    world = replace(world, rate=world.rate * 20)
    judge = Judge(world, world.rate[None, :], 0.0, 5 * DAY_S)
    simulate(world, find_policy("edf"), SimulationSettings(5 * DAY_S), WallClock(), on_visits=judge.add)
    _, variance = judge.finish()
    drawn = [
        simulate(world, find_policy("edf"), SimulationSettings(5 * DAY_S, sampled=True, seed=seed), WallClock()).sampled
        for seed in range(60)
    ]
    assert np.sqrt(variance) == pytest.approx(np.std(np.array(drawn, dtype=np.float64)), rel=0.3)


def test_an_interval_holds_the_worlds_and_stays_between_0_and_1() -> None:
    values = np.random.default_rng(1).normal(0.5, 0.1, 10_000)
    found = estimate_mean(values)
    assert np.mean((values > found.low) & (values < found.high)) == pytest.approx(0.9, abs=0.01)
    assert estimate_mean(np.array([0.99, 1.0, 0.9])).high == 1.0


def test_a_budget_is_kept_and_spent_where_it_is_worth_most() -> None:
    world = draw_world(np.random.default_rng(5), pages=300, servers=6, horizon_s=DAY_S, politeness_s=60.0)
    slots = slots_within_budget(world, 600.0, 0.05)
    assert float((DAY_S / slots).sum()) == pytest.approx(600.0, rel=1e-3)
    assert (slots >= world.politeness_s).all()
    assert (slots_within_budget(world, 1e9, 0.05) == world.politeness_s).all()


# ---- a collection's own history -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A collection that was kept fresh for five days, and when that was."""
    folder = tmp_path_factory.mktemp("kept")
    flags = {"courtesy__delay_s": SLOT_S, "courtesy__robots_max_age_s": 1e8}
    with fresh_web(quiet_world(**WEB), folder, **flags) as web:
        web.run(5, SLOT_S)
        return folder / "data", web.clock.at_s


@pytest.fixture
def source(kept: tuple[Path, float]) -> Iterator[Source]:
    with open_source(open_root(kept[0]), "main") as found:
        yield found


def predict(source: Source, **values: Any) -> Any:
    return what_if(source, WhatIfRequest(**({"days": 5.0} | values)), ManualClock(EPOCH_S + 5 * DAY_S))


def test_both_sides_are_shown_with_interval_bound_load_and_pass(source: Source) -> None:
    answer = predict(source, delay_s=SLOT_S / 2)
    before, after = answer.as_is, answer.what_if
    assert answer.pages == 36
    assert before.visits_per_day == pytest.approx(72, abs=1)
    assert after.visits_per_day == pytest.approx(144, abs=1)
    for side in (before, after):
        assert side.fresh.low < side.fresh.mean < side.fresh.high
        assert side.fresh.mean < side.bound + 0.005
    assert answer.gain.mean == pytest.approx(after.fresh.mean - before.fresh.mean)
    assert answer.gain.low > 0
    assert after.full_pass_s == pytest.approx(before.full_pass_s / 2, rel=0.01)
    assert after.requests.low < after.requests.mean == after.requests_per_day < after.requests.high
    assert after.finish_s is None, "no URL waits"
    assert {load.host for load in before.hosts} == {load.host for load in after.hosts}


def test_the_end_of_a_crawl_is_predicted_while_urls_wait(tmp_path: Path) -> None:
    """A quarter of the pages is visited; with half the delay the URLs that wait are visited in about half the time."""
    with fresh_web(quiet_world(**WEB), tmp_path, courtesy__delay_s=SLOT_S) as web:
        web.run(3 * SLOT_S / DAY_S, SLOT_S)
        now_s = web.clock.at_s
    with open_source(open_root(tmp_path / "data"), "main") as begun:
        answer = what_if(begun, WhatIfRequest(delay_s=SLOT_S / 2, days=5.0), ManualClock(now_s))
    assert answer.what_if is not None
    before, after = answer.as_is.finish_s, answer.what_if.finish_s
    assert before is not None
    assert after is not None
    assert 0.4 * before.mean < after.mean < 0.7 * before.mean
    assert after.low < after.mean < after.high
    assert answer.visited_again == 0
    assert answer.prior_share == pytest.approx(1.0), "its freshness is a guess, and it says so"


def test_hosts_that_were_never_requested_count_for_the_end_of_a_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = quiet_world(**WEB)
    roots = [root.decode() for root in world.roots.values()]
    seeds = [*roots, *(f"{roots[1]}x{number}" for number in range(50))]
    with fresh_web(world, tmp_path, courtesy__delay_s=SLOT_S, collection__seeds=seeds) as web:
        all_queues = web._queues
        monkeypatch.setattr(web, "_queues", lambda slot_s: all_queues(slot_s)[:1])
        web.run(3 * SLOT_S / DAY_S, SLOT_S)
        now_s = web.clock.at_s
    with open_source(open_root(tmp_path / "data"), "main") as begun:
        answer = what_if(begun, WhatIfRequest(days=5.0), ManualClock(now_s))
    assert answer.as_is.finish_s is not None
    assert 51 * SLOT_S <= answer.as_is.finish_s.mean < 2.1 * 51 * SLOT_S, "the second host alone needs 51 requests"
    assert answer.hosts == 1, "of the others nothing is captured"


def test_a_collection_whose_every_request_failed_is_reported_while_urls_wait(tmp_path: Path) -> None:
    world = quiet_world(**WEB)
    seeds = [url for seed in world.seeds() for url in (seed, f"{seed}a", f"{seed}b")]
    with fresh_web(world, tmp_path, collection__seeds=seeds) as web:
        web.down = {each.name for each in world.hosts}
        web.run(SLOT_S / DAY_S, SLOT_S)
    with (
        open_source(open_root(tmp_path / "data"), "main") as empty,
        pytest.raises(LabError, match="no page was visited twice yet"),
    ):
        predict(empty)


def test_errors_of_rates_that_differ_do_not_cancel_in_the_gain() -> None:
    """5% of all rates move both sides, as far as their slopes differ; 15% for e times as many visits move one."""
    world = SimpleNamespace(world=SimpleNamespace(weight=np.ones(10)))

    def side(slope: float, visits: float) -> Any:
        known = {"values": np.zeros(8), "variance": 0.0, "future": world}
        return SimpleNamespace(slope=slope, visits=np.full(10, visits), **known)

    gain = answer._gain(side(-0.3, 9.0), side(-0.1, 10 * np.e - 1.0))
    assert gain.high == pytest.approx(1.645 * np.hypot(0.05 * 0.2, 0.15 * 0.1))


def test_freshness_at_other_intervals_is_less_certain(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages need not change as Poisson processes, and the rates are those of the intervals until now."""
    found = predict(source, delay_s=2 * SLOT_S)
    monkeypatch.setattr(answer, "EXTRAPOLATION_ERROR", 0.0)
    known = predict(source, delay_s=2 * SLOT_S)
    assert found.as_is.fresh == known.as_is.fresh
    assert found.what_if.fresh.mean == known.what_if.fresh.mean
    assert found.what_if.fresh.low < known.what_if.fresh.low - 0.005


def test_the_same_seed_gives_the_same_answer(source: Source) -> None:
    one, same, other = (predict(source, policy="index", seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.what_if.fresh != other.what_if.fresh


def test_a_delay_too_long_for_a_week_names_hosts_and_pages(source: Source) -> None:
    side = predict(source, delay_s=2 * DAY_S).what_if
    assert side.late_pages == sum(max(0, load.pages - 3) for load in side.hosts) > 0
    assert side.late_urls[0].startswith("http://")
    assert side.hosts[0].week_delay_s == pytest.approx(7 * DAY_S / side.hosts[0].pages)


def test_a_budget_binds_and_says_so(source: Source) -> None:
    side = predict(source, budget=30).what_if
    assert side.limited_by == "budget"
    assert side.visits_per_day == pytest.approx(30, abs=2)


def test_the_budget_of_a_collection_is_among_its_current_settings(source: Source) -> None:
    limited = replace(source.config.refresh, budget=30)
    answer = predict(replace(source, config=replace(source.config, refresh=limited)), budget=40)
    assert answer.as_is.limited_by == "budget"
    assert answer.as_is.requests_per_day == pytest.approx(30, abs=2)
    assert answer.what_if.visits_per_day == pytest.approx(40, abs=2)
    in_bytes = replace(limited, budget=30_000, budget_unit="bytes")
    answer = predict(replace(source, config=replace(source.config, refresh=in_bytes)))
    assert answer.as_is.terms.budget is None
    assert any("the budget of 30,000 bytes per day is not included" in note for note in answer.notes)


def test_more_nodes_do_not_help_where_the_delays_of_hosts_decide(source: Source) -> None:
    answer = predict(source, nodes=8)
    assert answer.what_if.fresh == answer.as_is.fresh
    assert any("the delays of hosts do not" in note for note in answer.notes)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_requested_and_none_beats_the_bound(source: Source, policy: str) -> None:
    side = predict(source, policy=policy).what_if
    assert 0 < side.fresh.mean < side.bound + 0.005
    assert side.visits_per_day > 5


def test_a_policy_plans_by_what_is_known_not_by_what_is_drawn(source: Source) -> None:
    """The worlds differ; the plan does not, so the same visits are judged in all of them."""
    past = read_past(source, EPOCH_S + 5 * DAY_S)
    policy = LivePolicy("edf", past.parts, source.config.refresh)
    slots = np.full(len(past.parts), SLOT_S)

    world = make_world(past, slots, source.config.refresh, Crawlers())
    one, other = policy.plan(world), policy.plan(replace(world, rate=world.rate * 7))
    assert (one.interval_s == other.interval_s).all()  # type: ignore[union-attr]
    assert steady_optimum(world) < 1


def test_rates_are_tested_on_later_visits(source: Source) -> None:
    found = backtest(read_past(source, EPOCH_S + 5 * DAY_S))
    assert found.visits == pytest.approx((5 * 72 - 36) / 2, abs=8)
    assert 0.6 < found.changed / found.expected < 1.5
    assert 0.8 < found.factor < 1.2
    assert 0 < found.error < 0.05


def test_a_log_with_nothing_to_replay_is_reported(tmp_path: Path) -> None:
    """One page, visited once: nothing waits."""
    with fresh_web(quiet_world(**WEB | {"pages": 1, "hosts": 1}), tmp_path) as web:
        web.run(SLOT_S / DAY_S, SLOT_S)
    with (
        open_source(open_root(tmp_path / "data"), "main") as fresh,
        pytest.raises(LabError, match="no page was visited twice yet"),
    ):
        predict(fresh)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"delay_s": -1.0}, "--delay: -1 must be 0 s or more"),
        ({"delay_s": float("nan")}, "--delay: nan"),
        ({"budget": 0}, "--budget: 0 must be 1 or more visits per day"),
        ({"nodes": 0}, "--nodes: 0 must be 1 or more"),
        ({"days": 0.0}, "--days: 0 must be between"),
        ({"policy": "efd"}, "unknown policy 'efd'; did you mean edf?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as error:
        WhatIfRequest(**values)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
