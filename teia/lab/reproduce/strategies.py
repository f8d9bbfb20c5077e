"""A12: the paper's study. Isolated, hash, geographic and response-time crawlers on three nodes in three regions.

Three parts. The first is computed, under the paper's conditions (strategy_model.py): forty minutes, 60 s between
requests, sites mostly hosted in one country, response times of table 2. It varies those conditions, to find which of
them makes the paper's order of strategies.

The others are made by real nodes: thirty rounds of each strategy, in random order within a round. Those of one part
have the paper's conditions, with all times divided by forty; those of the other last half a minute, on a lab web where
near servers are fast (`rounds.WORLD`). Single numbers are not comparable with the paper's. The comparison is of which
strategy is better at which measure, and with which confidence. Finished rounds are kept beside the report, so after any
interruption the same command continues with the next. Ctrl-C ends it with a report of the finished rounds, which says
how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

import numpy as np

from teia.errors import LabError
from teia.lab.measure.comparing import describe, mann_whitney, t_test
from teia.lab.reproduce.crawled import settings_lines, world_lines
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.reproduce.rounds import (
    AS_IN_PAPER,
    FASTER,
    FULL,
    ISOLATED,
    NEAR,
    PAPERS,
    QUICK,
    STRATEGIES,
    FinishedRounds,
    RoundResult,
    StudySize,
    round_world,
    run_round,
    study_id,
)
from teia.lab.reproduce.strategy_model import StudyConditions, model_rounds

# Attempts at a round before its failure ends the study.
TRIES = 3

MEASURES: dict[str, Callable[[RoundResult], float]] = {
    "pages": lambda each: each.pages,
    "domains": lambda each: each.domains,
    "kilobytes": lambda each: each.kilobytes,
    "kilobytes a page": lambda each: each.mean_kilobytes,
    "capture time, s": lambda each: each.capture_s,
}
STATISTICS = ("mean", "median", "deviation", "Shapiro-Wilk W", "Shapiro-Wilk p")

DESCRIBED: dict[str, tuple[tuple[float, ...], ...]] = {
    "pages": (
        (81.33, 73.50, 36.09, 0.94, 0.11),
        (91.13, 87.00, 42.88, 0.928, 0.0507),
        (71.20, 54.50, 39.55, 0.930, 0.057),
        (121.83, 112.50, 43.96, 0.96, 0.40),
    ),
    "domains": (
        (8.33, 2, 13.08, 0.67, 0.00),
        (10.36, 4, 15.97, 0.68, 0.00),
        (2.9, 2, 4.92, 0.55, 0.00),
        (15.53, 10, 13.84, 0.88, 0.003),
    ),
    "kilobytes": (
        (2319.32, 1920.13, 225.32, 0.91, 0.01),
        (2769.68, 2185.29, 318.67, 0.86, 0.001),
        (1201.24, 1221.65, 100.10, 0.97, 0.64),
        (3187.38, 2817.93, 238.56, 0.89, 0.006),
    ),
    "kilobytes a page": (
        (27.96, 26.87, 5.19, 0.97, 0.73),
        (29.83, 28.81, 9.43, 0.95, 0.27),
        (17.72, 16.58, 6.18, 0.90, 0.01),
        (26.35, 26.38, 5.19, 0.94, 0.13),
    ),
    "capture time, s": (
        (1.95, 1.41, 1.27, 0.790, 0.000),
        (2.50, 1.72, 2.02, 0.715, 0.000),
        (1.90, 1.83, 1.07, 0.799, 0.000),
        (1.49, 1.20, 1.03, 0.814, 0.000),
    ),
}
"""Table 2: mean, median, standard deviation, W and p of each strategy, in the order of `STRATEGIES`."""

T_TESTS: dict[str, tuple[float, ...]] = {
    "pages": (0.319, 0.362, 0.00025, 0.073, 0.0085, 0.00002),
    "domains": (0.591, 0.037, 0.042, 0.017, 0.185, 0.00002),
    "kilobytes": (0.255, 0.000, 0.01, 0.000, 0.304, 0.000),
    "kilobytes a page": (0.346, 0.000, 0.234, 0.000, 0.082, 0.000),
    "capture time, s": (0.896, 0.440, 0.067, 0.077, 0.008, 0.068),
}
"""p-values of tables 3 to 7, pair by pair in the order of `PAIRS`."""

MANN_WHITNEY: dict[str, tuple[float, ...]] = {
    "domains": (0.742, 0.129, 0.007, 0.240, 0.025, 0.00002),
    "kilobytes": (0.442, 0.000, 0.003, 0.000, 0.032, 0.000),
    "kilobytes a page": (0.442, 0.000, 0.220, 0.000, 0.124, 0.000),
    "capture time, s": (0.132, 0.745, 0.088, 0.240, 0.003, 0.033),
}
"""p-values of tables 8 to 11; there is none for pages."""

PAIRS = tuple(combinations(STRATEGIES, 2))
PAPERS_ORDER = ("rtt", "hash", ISOLATED, "geo")
"""Strategies by pages, domains and kilobytes in table 2, the most first."""

EVENLY = (1 / 3, 1 / 3, 1 / 3)
THE_PAPERS = "the paper's"
CONDITIONS = {
    THE_PAPERS: StudyConditions(),
    "sites in all three countries": StudyConditions(hosted=EVENLY),
    "near is fast": StudyConditions(near=0.1),
    "both, as for the real nodes": StudyConditions(hosted=EVENLY, near=0.1),
    "geo refuses other countries": StudyConditions(geo_drops=True),
}
MODEL_ROUNDS, QUICK_MODEL_ROUNDS = 30, 3
Rounds = Mapping[str, Sequence[RoundResult]]


def _input_lines(run: ExperimentInput) -> Iterator[str]:
    """Yield the settings of the nodes, and the worlds of all rounds."""
    for size in _sizes(run):
        yield f"{size.seconds:g}"
        yield from settings_lines(size.crawl)
        for number in range(size.rounds):
            yield from world_lines(round_world(run.seed, number, size))


def _sizes(run: ExperimentInput) -> tuple[StudySize, ...]:
    """Return the studies of real nodes; the quick run has none with the paper's conditions."""
    return (QUICK,) if run.quick else (PAPERS, FULL)


@experiment(
    "A12",
    title="Isolated, hash, geographic and response-time crawlers",
    paper="the collaborative peer-to-peer crawler (COPPE/UFRJ), chapter 6, tables 2 to 11 and figures 29 to 32",
    input_lines=_input_lines,
)
def strategies(run: ExperimentInput) -> Results:
    """Run the missing rounds and compare the strategies as the paper does."""
    studies = {size: FinishedRounds(run.out, study_id(size, run.seed)) for size in _sizes(run)}
    try:
        for size, saved in studies.items():
            run_missing_rounds(run, saved, size)
    except KeyboardInterrupt:
        run.progress("A12: interrupted; run the same command to continue with the missing rounds")
    found = {size: complete_rounds(saved.all(), size.strategies) for size, saved in studies.items()}
    if not any(map(_count, found.values())):
        raise LabError("no round was completed with all strategies; run the same command to continue")
    made = {name: model_rounds(each, STRATEGIES, QUICK_MODEL_ROUNDS if run.quick else MODEL_ROUNDS, run.seed)
            for name, each in CONDITIONS.items()}  # fmt: skip
    yield model_table(made[THE_PAPERS])
    yield from test_tables("model-", ", under the paper's conditions", made[THE_PAPERS], varies=False)
    yield order_table(made)
    for size, rounds in found.items():
        yield from real_tables(rounds, size)


def real_tables(found: Rounds, size: StudySize) -> Iterator[Table | Figure]:
    """Yield what the rounds of real nodes have shown; of a study without a round, that there is none."""
    is_papers = size.conditions == AS_IN_PAPER
    prefix, of = (
        ("papers-", " of the real nodes under the paper's conditions") if is_papers else ("", " of the real nodes")
    )
    yield statistics_table(found, size)
    # One round cannot be tested for a difference.
    if _count(found) > 1:
        yield from test_tables(prefix, of, found, varies=True)
    if _count(found):
        yield repeated_table(found, prefix, of)
    # The paper's figures 29 to 32, in this order.
    for number, name in enumerate(("pages", "domains", "kilobytes", "capture time, s") if _count(found) else (), 29):
        yield cumulative_figure(number, name, found, prefix, of)


def run_missing_rounds(run: ExperimentInput, saved: FinishedRounds, size: StudySize) -> None:
    """Run the missing rounds one by one, with the strategies of each in random order."""
    finished = {(each.number, each.strategy) for each in saved.all()}
    for number in range(size.rounds):
        # In random order, so that a machine that becomes slower or faster favours no strategy.
        for strategy in run.random(12, number).permutation(np.array(size.strategies)).tolist():
            if (number, strategy) not in finished:
                run.progress(f"A12: {size.conditions}: round {number + 1} of {size.rounds}, {strategy}")
                saved.save(_run_with_retries(run, strategy, number, size))


def _run_with_retries(run: ExperimentInput, strategy: str, number: int, size: StudySize) -> RoundResult:
    """Run a round; if it fails because of a node, report that and run it again."""
    for _ in range(TRIES - 1):
        try:
            return run_round(strategy, number, size, run.seed)
        except LabError as error:
            run.progress(f"A12: repeated, because {error}")
    return run_round(strategy, number, size, run.seed)


def complete_rounds(rounds: Sequence[RoundResult], wanted: Sequence[str] = STRATEGIES) -> dict[str, list[RoundResult]]:
    """Return, by strategy, the rounds that were finished with all strategies that are wanted."""
    by_strategy = {name: {each.number: each for each in rounds if each.strategy == name} for name in wanted}
    # Samples of equal size from the same worlds, or the tests would compare different rounds.
    common = sorted(set.intersection(*(set(each) for each in by_strategy.values())))
    return {name: [each[number] for number in common] for name, each in by_strategy.items()}


def _count(found: Rounds) -> int:
    """Return the number of rounds, which all strategies have in common."""
    return min(map(len, found.values()))


def _samples(found: Rounds, measure: str) -> dict[str, list[float]]:
    return {name: [MEASURES[measure](each) for each in rounds] for name, rounds in found.items()}


def model_table(found: Rounds) -> Table:
    """Show the paper's measures under its conditions beside its own."""
    rows = [
        ResultRow((measure, strategy), float(np.mean(_samples(found, measure)[strategy])), published[0])
        for measure in MEASURES
        for strategy, published in zip(STRATEGIES, DESCRIBED[measure], strict=True)
    ]
    note = (
        f"Computed: {_count(found)} rounds of 40 minutes, three crawlers with one download at a time, 60 s between"
        " requests to a server, the paper's five seeds. Response times are drawn from table 2; in the own region"
        f" {NEAR:.2f} times as long, as the medians of GEO and Isolado are; 85% of the sites are in the United States."
        f" {_verdict(found)} Our crawlers do ten times"
        " as much: the paper's used 2 to 3% of their time for transfers, and it does not say for what the rest was"
        " needed. Sizes of pages are the same for all strategies, because none chooses by size; the paper's GEO"
        " fetched 17.7 kB a page where the others fetched 26 to 30, from a median of two domains: it crawled other"
        " sites, not the same sites differently. Capture times of geo are longer here, because a server of the own"
        " country is always slower by the same factor."
    )
    title = "Under the paper's conditions, means (table 2)"
    return Table("model", title, ("measure", "strategy"), tuple(rows), note=note)


def _order(found: Rounds, measure: str) -> tuple[str, ...]:
    """Return the strategies by the mean of a measure, the most first."""
    means = {strategy: float(np.mean(values)) for strategy, values in _samples(found, measure).items()}
    return tuple(sorted(STRATEGIES, key=lambda strategy: -means[strategy]))


def _verdict(found: Rounds) -> str:
    """Compare the order of the strategies with the paper's, by the three measures in which it is the same there."""
    if not _count(found):
        return "There is no round yet."
    orders = {measure: _order(found, measure) for measure in ("pages", "domains", "kilobytes")}
    alike = [measure for measure, order in orders.items() if order == PAPERS_ORDER]
    others = [f"by {measure} it is {', '.join(order)}" for measure, order in orders.items() if measure not in alike]
    said = (
        f"The order of the strategies by {', '.join(alike)} is the paper's" if alike else "The order is not the paper's"
    )
    return "; ".join([said, *others]) + "."


def order_table(made: Mapping[str, Rounds]) -> Table:
    """Show the place of each strategy by pages, under each of the conditions."""
    rows = []
    for name, found in made.items():
        order = _order(found, "pages")
        rows += [
            ResultRow((name, strategy), 1.0 + order.index(strategy), 1.0 + PAPERS_ORDER.index(strategy))
            for strategy in STRATEGIES
        ]
    note = (
        "1 is the most pages. If near servers answer fast, as in the world of the real nodes below, geo is first: it"
        " knows at once what rtt has to measure. If they do not, geo has no advantage and is third. Where also most"
        " sites are in one country, whose crawler then has nearly all the work, it is last, as in the paper."
    )
    title = "Place of each strategy by pages, and what decides it"
    return Table("order", title, ("conditions", "strategy"), tuple(rows), note=note)


def statistics_table(found: Rounds, size: StudySize) -> Table:
    rows = []
    for measure in MEASURES:
        for strategy, published in zip(STRATEGIES, DESCRIBED[measure], strict=True):
            if not found.get(strategy):
                continue
            sample = describe(_samples(found, measure)[strategy])
            ours = (sample.mean, sample.median, sample.deviation, sample.w, sample.p)
            rows += [
                ResultRow((measure, strategy, name), value, other)
                for name, value, other in zip(STATISTICS, ours, published, strict=True)
                if value is not None
            ]
    rounds = f"{_count(found)} rounds of {size.seconds:g} s for each strategy, all three nodes together"
    columns, cut = ("measure", "strategy", "statistic"), ""
    if _count(found) < size.rounds:
        cut = f"{_count(found)} of {size.rounds} rounds of the real nodes, {size.conditions}"
    if size.conditions == AS_IN_PAPER:
        note = (
            f"Ours: {rounds}; theirs: 30 of 40 minutes. All times are divided by {FASTER:g}: 60 s between requests are"
            f" {60 / FASTER:g} s. One download at a time, the response times of table 2, 85% of the sites in one"
            f" country, as computed above. Capture times are as measured. {_verdict(found)} A page that several nodes"
            " fetched counts once. All nodes ran on one machine, together with its other load."
        )
        title = "Real nodes under the paper's conditions: the rounds (table 2)"
        return Table("papers-described", title, columns, tuple(rows), note=note, varies=True, cut=cut)
    note = (
        f"Ours: {rounds}; theirs:"
        " 30 of 40 minutes. A page that several nodes fetched counts once. hash is the paper's DHT. In this world near"
        " servers are fast by construction, and there are as many in each region; the table of places shows what"
        " that decides. All nodes ran on one machine, together with its other load."
    )
    title = "Real nodes, near is fast: the rounds (table 2)"
    return Table("described", title, columns, tuple(rows), note=note, varies=True, cut=cut)


def test_tables(prefix: str, of: str, found: Rounds, *, varies: bool) -> Iterator[Table]:
    """Yield the paper's two tests of the rounds."""
    yield test_table(f"{prefix}t-test", f"t-tests{of} (tables 3 to 7)", found, t_test, T_TESTS, varies)
    name, title = f"{prefix}mann-whitney", f"Mann-Whitney{of} (tables 8 to 11)"
    yield test_table(name, title, found, mann_whitney, MANN_WHITNEY, varies)


def test_table(
    name: str,
    title: str,
    found: Rounds,
    test: Callable[[Sequence[float], Sequence[float]], float | None],
    published: Mapping[str, Sequence[float]],
    varies: bool,
) -> Table:
    rows = []
    for measure in MEASURES:
        samples = _samples(found, measure)
        others = published.get(measure, (None,) * len(PAIRS))
        for (one, another), other in zip(PAIRS, others, strict=True):
            value = test(samples[one], samples[another]) if {one, another} <= samples.keys() else None
            if value is not None:
                rows.append(ResultRow((measure, f"{one} and {another}"), value, other))
    # The smallest two-sided p of ranks: 2 of the C(2n, n) possible orders are the extreme ones.
    number = _count(found)
    note = (
        f"The probability that samples as different as these come from equally good strategies. With {number}"
        f" rounds of each, ranks cannot make it less than {min(1.0, 2 / comb(2 * number, number)):.2g}."
    )
    return Table(name, title, ("measure", "strategies"), tuple(rows), note=note, varies=varies)


def repeated_table(found: Rounds, prefix: str, of: str) -> Table:
    rows = [
        ResultRow((strategy,), 100 * sum(each.repeated for each in rounds) / max(1, sum(each.pages for each in rounds)))
        for strategy, rounds in found.items()
    ]
    note = "Isolated nodes start with the same seeds and do not know each other. The paper does not specify this."
    title = f"Pages fetched again{of}, in per cent of the pages"
    return Table(f"{prefix}repeated", title, ("strategy",), tuple(rows), note=note, varies=True)


def cumulative_figure(number: int, measure: str, found: Rounds, prefix: str, of: str) -> Figure:
    """Draw figures 29 to 32: sums over the rounds; for the capture time, means."""
    series = []
    for strategy, values in _samples(found, measure).items():
        x = np.arange(1, len(values) + 1)
        y = np.cumsum(values) / (x if measure.startswith("capture") else 1)
        series.append(PlotLine(strategy, x.tolist(), y.tolist()))
    title = f"{measure.capitalize()}{of}, round by round (figure {number})"
    return Figure(f"{prefix}figure-{number}", title, "round", measure, tuple(series), varies=True)
