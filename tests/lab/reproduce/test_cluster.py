"""The studies of many machines, in small: A12, A16 and C8."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import numpy as np
import pytest

from teia.clock import VirtualClock
from teia.errors import LabError
from teia.lab.measure.comparing import describe, mann_whitney, t_test
from teia.lab.reproduce import collectors, parallel_crawlers, rounds, strategies
from teia.lab.reproduce.collectors import (
    CollectorsResult,
    NodesResult,
    fit_line,
    measure_nodes,
    measure_session,
    node_table,
)
from teia.lab.reproduce.parallel_crawlers import Study, world_spec
from teia.lab.reproduce.registry import ExperimentInput, Figure, Table, compute_digest
from teia.lab.reproduce.rounds import (
    STRATEGIES,
    FinishedRounds,
    RoundResult,
    StudySize,
    compute_measures,
    study_id,
)
from teia.lab.reproduce.runner import reproduce, summary
from teia.lab.reproduce.strategies import DESCRIBED, MANN_WHITNEY, PAIRS, T_TESTS, complete_rounds
from teia.lab.reproduce.strategy_model import StudyConditions, StudyRound, draw_web, model_rounds
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from tests.conftest import missing


def rows_of(found: list[Table | Figure], name: str) -> dict[tuple[str, ...], tuple[float, float | None]]:
    table = next(each for each in found if each.name == name and isinstance(each, Table))
    return {row.labels: (row.ours, row.other) for row in table.rows}


# -- A12 ---------------------------------------------------------------------------------------------------------------


def made(strategy: str, number: int, study: str = "s", pages: int = 100) -> RoundResult:
    return RoundResult(strategy, number, pages, 10 + number, 2_000.0, 20.0, 1.5, 3, study)


def shorten_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute one round under the paper's conditions, where a test is about the rounds of real nodes, which are two."""
    monkeypatch.setattr(strategies, "QUICK", replace(rounds.QUICK, rounds=2, strategies=STRATEGIES))
    monkeypatch.setattr(strategies, "QUICK_MODEL_ROUNDS", 1)
    monkeypatch.setattr(strategies, "CONDITIONS", {strategies.THE_PAPERS: StudyConditions()})


def test_published_statistics_are_those_of_the_paper() -> None:
    assert DESCRIBED["pages"][3] == (121.83, 112.50, 43.96, 0.96, 0.40)
    assert DESCRIBED["capture time, s"][1][0] == 2.50
    assert PAIRS[2] == ("isolated", "rtt")
    assert (T_TESTS["pages"][2], T_TESTS["capture time, s"][4]) == (0.00025, 0.008)
    assert MANN_WHITNEY["domains"] == (0.742, 0.129, 0.007, 0.240, 0.025, 0.00002)
    assert "pages" not in MANN_WHITNEY


def test_a_page_that_came_twice_counts_once_and_what_came_late_not_at_all() -> None:
    fetches = [
        ("http://a.test/", "a.test", 100.0, 101.0, 4_000.0),
        ("http://a.test/", "a.test", 100.5, 102.5, 4_000.0),
        ("http://b.test/", "b.test", 101.0, 104.0, 2_000.0),
        ("http://c.test/", "c.test", 109.0, 111.0, 9_000.0),
    ]
    assert compute_measures(fetches, 10.0) == {
        "pages": 2,
        "domains": 2,
        "kilobytes": 6.0,
        "mean_kilobytes": 3.0,
        "capture_s": 2.0,
        "repeated": 1,
    }
    assert compute_measures([], 10.0)["pages"] == 0


def test_finished_rounds_are_kept_and_those_of_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    kept = FinishedRounds(tmp_path, "s")
    for each in (made("rtt", 1), made("rtt", 0), made("geo", 0, "other")):
        kept.save(each)
    (tmp_path / "A12-rounds-s" / "007-geo.json").write_text('{"strategy": "geo"')
    assert FinishedRounds(tmp_path, "s").all() == [made("rtt", 0), made("rtt", 1)]
    assert study_id(rounds.FULL, 1) != study_id(rounds.QUICK, 1) != study_id(rounds.QUICK, 2)


def mean_pages(conditions: StudyConditions, rounds_made: int) -> dict[str, float]:
    found = model_rounds(conditions, STRATEGIES, rounds_made, seed=1)
    return {name: sum(each.pages for each in those) / rounds_made for name, those in found.items()}


def test_the_order_of_the_paper_needs_its_conditions() -> None:
    """A12: rtt, hash, isolated, geo; where near is fast and sites are in all countries, geo is the first."""
    pages = mean_pages(strategies.CONDITIONS[strategies.THE_PAPERS], 4)
    assert sorted(pages, key=lambda name: -pages[name]) == list(strategies.PAPERS_ORDER)
    other = mean_pages(strategies.CONDITIONS["both, as for the real nodes"], 2)
    assert max(other, key=lambda name: other[name]) == "geo"


def test_what_a_report_says_of_the_order_is_what_it_found() -> None:
    """Three rounds of seed 1 have the paper's order by pages and kilobytes, and not by domains."""
    found = model_rounds(strategies.CONDITIONS[strategies.THE_PAPERS], STRATEGIES, 3, seed=1)
    note = strategies.model_table(found).note
    assert "by pages, kilobytes is the paper's; by domains it is rtt, hash, geo, isolated." in note


def test_the_model_repeats_is_polite_and_draws_the_papers_times() -> None:
    conditions = StudyConditions(near=1.0)
    webs = [draw_web(conditions, np.random.default_rng(7)) for _ in range(2)]
    assert np.median(webs[0].response_s) == pytest.approx(1.41, rel=0.1)
    assert np.mean(webs[0].response_s) == pytest.approx(1.95, rel=0.1)
    one, again = (StudyRound(web, "hash", conditions).run() for web in webs)
    assert one.fetches == again.fetches
    by_site = Counter(site for (site, _), _, _ in one.fetches)
    assert max(by_site.values()) <= 2_400 / 60 + 1, "a page a minute from each server"
    assert len({page for page, _, _ in one.fetches}) == len(one.fetches), "nodes that share the work repeat nothing"


def test_a_study_that_was_cut_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of 13 of 30 rounds called itself full."""
    shorten_model(monkeypatch)

    def run_round(strategy: str, number: int, size: StudySize, seed: int) -> RoundResult:
        if number == 1:
            raise KeyboardInterrupt
        return made(strategy, number, study_id(size, seed))

    monkeypatch.setattr(strategies, "run_round", run_round)
    report = reproduce(["A12"], seed=1, quick=True, out=tmp_path, clock=VirtualClock(), progress=print)
    text = report.report.read_text("utf-8")
    assert "cut short: A12 (1 of 2 rounds of the real nodes, near is fast)" in text
    assert summary(report)["experiments"][0]["cut"] == "1 of 2 rounds of the real nodes, near is fast"
    whole = {name: [made(name, number) for number in range(2)] for name in STRATEGIES}
    assert not strategies.statistics_table(whole, replace(rounds.QUICK, rounds=2, strategies=STRATEGIES)).cut


def test_a_second_call_makes_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_model(monkeypatch)
    asked: list[tuple[str, int]] = []

    def run_round(strategy: str, number: int, size: StudySize, seed: int) -> RoundResult:
        asked.append((strategy, number))
        if len(asked) == 3:
            raise KeyboardInterrupt
        pages = 100 + 50 * STRATEGIES.index(strategy) + number
        return replace(made(strategy, number, study_id(size, seed), pages), domains=len(asked))

    monkeypatch.setattr(strategies, "run_round", run_round)
    run = ExperimentInput(1, True, tmp_path, print)
    with pytest.raises(LabError, match="no round was completed"):
        list(strategies.strategies.body(run))
    found = list(strategies.strategies.body(run))
    assert len(asked) == 2 * len(STRATEGIES) + 1
    assert len(set(asked)) == 2 * len(STRATEGIES)
    described_rows = rows_of(found, "described")
    assert described_rows["pages", "rtt", "mean"] == (250.5, 121.83)
    assert ("pages", "rtt", "Shapiro-Wilk W") not in described_rows, "two rounds are too few for it"
    p_value, published = rows_of(found, "t-test")["pages", "isolated and rtt"]
    assert p_value < 0.01
    assert published == 0.00025
    figures = [each for each in found if isinstance(each, Figure)]
    assert [figure.name for figure in figures] == [f"figure-{number}" for number in (29, 30, 31, 32)]
    assert list(figures[0].series[3].y) == [250, 501], "pages add up round by round"
    assert list(figures[3].series[3].y) == [1.5, 1.5], "capture times are means"


def test_a_round_that_fails_is_repeated_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_model(monkeypatch)
    reports: list[str] = []
    failures = [LabError("a node died"), LabError("a node died")]

    def run_round(strategy: str, number: int, size: StudySize, seed: int) -> RoundResult:
        if failures:
            raise failures.pop()
        return made(strategy, number, study_id(size, seed))

    monkeypatch.setattr(strategies, "run_round", run_round)
    list(strategies.strategies.body(ExperimentInput(1, True, tmp_path, reports.append)))
    assert sum("repeated, because a node died" in each for each in reports) == 2


def test_only_rounds_of_all_strategies_are_compared() -> None:
    rounds_made = [made(name, number) for name in STRATEGIES for number in (0, 1)] + [made("rtt", 2)]
    found = complete_rounds(rounds_made)
    assert list(found) == list(STRATEGIES)
    assert all([each.number for each in those] == [0, 1] for those in found.values())


def test_a_statistic_that_is_not_there_is_left_out() -> None:
    assert describe([4.0, 4.0, 4.0]).p is None
    assert describe([1.0]).deviation is None
    assert t_test([1.0, 1.0], [1.0, 1.0]) is None
    assert t_test([1.0], [2.0, 3.0]) is None
    assert mann_whitney([1.0, 2.0, 3.0], [7.0, 8.0, 9.0]) == pytest.approx(0.1)
    # Of three numbers W is half the square of their range over their sum of squares about the mean.
    assert describe([0.0, 1.0, 3.0]).w == pytest.approx(3**2 / 2 / (14 / 3), abs=1e-4)


def test_the_world_of_a_round_has_three_regions() -> None:
    regions = WorldSpec.from_values({"seed": 1, **rounds.WORLD}).regions
    assert regions.names == rounds.REGIONS
    assert all(regions.latency_s[at][at] == min(regions.latency_s[at]) for at in range(3))


def test_the_world_under_the_papers_conditions_has_its_times_and_most_sites_in_one_country() -> None:
    values = rounds.round_world(1, 0, rounds.PAPERS)
    world = World(WorldSpec.from_values({**values, "text.paragraphs": 2, "regions.bytes_per_s": []}), epoch_s=0.0)
    assert sum(host.region == 0 for host in world.hosts) == pytest.approx(0.85 * len(world.hosts), rel=0.05)
    asked = [WorldRequest(host.name, "/robots.txt", client="127.82.0.1") for host in world.hosts if host.region != 1]
    times = [rounds.FASTER * world.answer(each, 0.0).delay_s for each in asked]
    assert median(times) == pytest.approx(1.41, rel=0.2)
    assert mean(times) == pytest.approx(1.95, rel=0.2)
    latency_s = values["regions.latency_s"]
    assert all(row[at] == max(row) for at, row in enumerate(latency_s)), "near is no faster"
    assert rounds.PAPERS.crawl["courtesy.delay_s"] * rounds.FASTER == 60
    assert rounds.PAPERS.seconds * rounds.FASTER == 2_400


def test_rounds_under_the_papers_conditions_have_tables_of_their_own() -> None:
    found = {name: [made(name, number, pages=10 * at + number) for number in range(2)]
             for at, name in enumerate(reversed(strategies.PAPERS_ORDER), 1)}  # fmt: skip
    tables = list(strategies.real_tables(found, rounds.PAPERS))
    assert [each.name for each in tables[:4]] == [
        "papers-described", "papers-t-test", "papers-mann-whitney", "papers-repeated"
    ]  # fmt: skip
    (described, *_) = tables
    assert isinstance(described, Table)
    assert described.cut == "2 of 30 rounds of the real nodes, as in the paper"
    assert "by pages is the paper's" in described.note
    empty = list(strategies.real_tables({name: [] for name in STRATEGIES}, rounds.PAPERS))
    assert [each.cut for each in empty if isinstance(each, Table)] == [
        "0 of 30 rounds of the real nodes, as in the paper"
    ]


@pytest.mark.slow
def test_three_nodes_in_three_regions_are_faster_near_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A12: by geography servers are captured in less time than by hash, and nothing is fetched twice."""
    missing_nats()
    size = replace(rounds.QUICK, seconds=8.0)
    hashed, geo = (rounds.run_round(strategy, 0, size, 1) for strategy in ("hash", "geo"))
    assert min(hashed.pages, geo.pages) > 20
    assert geo.capture_s < hashed.capture_s
    assert (hashed.repeated, geo.repeated) == (0, 0)


def missing_nats() -> None:
    from teia.cluster.nats.servers import find_server
    from teia.errors import MissingComponent

    try:
        find_server()
    except MissingComponent as error:
        missing(str(error))


# -- A16 ---------------------------------------------------------------------------------------------------------------


def test_a16_repeats_and_firewall_loses_what_exchange_finds() -> None:
    found = [_modes(seed) for seed in (1, 1, 2)]
    assert compute_digest([found[0]]) == compute_digest([found[1]]) != compute_digest([found[2]])
    rows = {row.labels: row.ours for row in found[0].rows}
    assert rows["firewall", "url", "4", "coverage"] < 0.9
    longer = rows["cross-over", "site", "4", "coverage, longer"]
    assert longer == 1 > rows["firewall", "site", "4", "coverage"]
    assert rows["cross-over", "site", "4", "coverage"] < 1, "no stop rule decides it"
    assert rows["exchange", "url", "4", "coverage"] == 1
    assert rows["exchange", "url", "4", "overlap"] == 0 < rows["cross-over", "site", "4", "overlap"]
    assert rows["exchange", "site", "4", "URLs sent per page"] < rows["exchange", "url", "4", "URLs sent per page"]


def test_a16_with_a_firewall_coverage_falls_with_processes_and_rises_with_seeds() -> None:
    """Cho's figure; with most sites as seeds, the firewall mode looked as good as exchange."""
    found = {row.labels: row.ours for row in parallel_crawlers.seeds_table(_study(1)).rows}
    few = [found["8", number] for number in ("1", "2", "4", "8")]
    assert few == sorted(few, reverse=True)
    assert few[0] == 1 > few[3] + 0.1
    assert found["64", "8"] > few[3] + 0.1


def _study(seed: int) -> Study:
    run = ExperimentInput(seed, True, Path(), lambda _: None)
    world = parallel_crawlers.World(WorldSpec.from_values(world_spec(run, 400)), epoch_s=0.0)
    return Study(run, parallel_crawlers.read_graph(world))


def _modes(seed: int) -> Table:
    return parallel_crawlers.modes_table(_study(seed))


@pytest.mark.slow
def test_three_real_nodes_do_what_the_model_says_of_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A16, A3: everything is found, nothing fetched twice."""
    missing_nats()
    monkeypatch.setattr(parallel_crawlers, "QUICK_REAL_PAGES", 120)
    rows = rows_of([parallel_crawlers.nodes_table(ExperimentInput(1, True, Path(), print))], "nodes")
    assert rows[("coverage",)] == (1, 1)
    assert rows[("overlap",)] == (0, 0)
    assert rows[("messages to NATS per page",)][0] > 0


# -- C8 ----------------------------------------------------------------------------------------------------------------


def test_a_slot_waits_from_the_end_of_a_request_to_the_next_beginning() -> None:
    fetches = [(0.0, 2.0, 200), (0.0, 3.0, 200), (2.5, 4.5, 200), (3.1, 5.0, 404), (4.6, 9.0, 200)]
    session = measure_session(2, fetches)
    assert session.scheduler_s == pytest.approx((0.5 + 0.1 + 0.1) / 3)
    assert session.http_s == pytest.approx((2 + 3 + 2 + 1.9 + 4.4) / 5)
    assert session.per_minute == pytest.approx(60 * 3 / 4.6)


def test_a_straight_line_is_recognised() -> None:
    sessions = [CollectorsResult(number, 10.0 * number + 5, 3.4, 0.01, 9) for number in (5, 10, 25)]
    assert fit_line(sessions) == pytest.approx((10, 5, 1))


def test_nodes_are_compared_with_as_many_times_one_node() -> None:
    sessions = [NodesResult(nodes, rate, 45 * nodes) for nodes, rate in ((1, 90.0), (2, 170.0), (4, 350.0))]
    rows = {row.labels: (row.ours, row.other) for row in node_table(sessions).rows}
    assert rows == {("1", "5", "45"): (90, 90), ("2", "10", "90"): (170, 180), ("4", "20", "180"): (350, 360)}


def test_nodes_are_measured_when_all_of_them_work() -> None:
    """The first minute, in which one node alone had all servers, is left out, and so are failures."""
    early = [(float(second), second + 1.0, 200) for second in range(60)]
    late = [(100 + second / 4, 101 + second / 4, 404 if second % 4 == 0 else 200) for second in range(81)]
    assert measure_nodes(2, early + late, 16.0) == NodesResult(2, 60 * 48 / 16, 64)
    with pytest.raises(LabError, match="too little"):
        measure_nodes(20, early, 16.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_times_the_collectors_collect_five_times_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: the rate grows with the collectors, because they wait for servers and not for the scheduler."""
    missing_nats()
    faster = collectors.LATENCY_S / 0.5
    size = replace(collectors.FULL, collectors=(5, 25), nodes=(1, 2), seconds=5.0, faster=faster)
    monkeypatch.setattr(collectors, "QUICK", size)
    found = list(collectors.collectors.body(ExperimentInput(1, True, tmp_path, print)))
    rates = [rate for rate, _ in rows_of(found, "rates").values()]
    assert rates[1] / rates[0] == pytest.approx(5, rel=0.2)
    alone, two = (rate for rate, _ in rows_of(found, "nodes").values())
    assert two / alone == pytest.approx(2, rel=0.25), "two nodes of five collectors each, beside one"
    latencies = rows_of(found, "latencies")
    assert latencies["25", "scheduler, s"][1] == 0.02
    assert latencies["25", "scheduler, s"][0] < 0.1
