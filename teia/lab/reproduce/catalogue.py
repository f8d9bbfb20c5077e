"""The list of all experiments, in the mission's order."""

from __future__ import annotations

from collections.abc import Sequence

from teia.errors import UsageError
from teia.lab.reproduce.cache_parasite import cache_parasite
from teia.lab.reproduce.change_mix import change_mix
from teia.lab.reproduce.collectors import collectors
from teia.lab.reproduce.lookup_cost import lookup_cost
from teia.lab.reproduce.parallel_crawlers import parallel_crawlers
from teia.lab.reproduce.periodic import periodic
from teia.lab.reproduce.polite_scheduling import polite_scheduling
from teia.lab.reproduce.queue_length import queue_length
from teia.lab.reproduce.registry import IDS, Experiment
from teia.lab.reproduce.search_times import search_times
from teia.lab.reproduce.sessions import sessions
from teia.lab.reproduce.statuses import statuses
from teia.lab.reproduce.strategies import strategies
from teia.lab.reproduce.types import types_space_times

EXPERIMENTS: dict[str, Experiment] = {
    each.id: each
    for each in (
        polite_scheduling,
        change_mix,
        lookup_cost,
        queue_length,
        strategies,
        parallel_crawlers,
        sessions,
        cache_parasite,
        collectors,
        statuses,
        periodic,
        types_space_times,
        search_times,
    )
}


ALL = "ALL"


def choose(ids: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these ids, each once, in the order given; `ALL` stands for all of them."""
    wanted = list(dict.fromkeys(each.upper() for each in ids))
    if ALL in wanted:
        return list(EXPERIMENTS.values())
    for each in wanted:
        if each not in EXPERIMENTS:
            raise UsageError(_refusal(each))
    return [EXPERIMENTS[each] for each in wanted]


def _refusal(unknown: str) -> str:
    what = "has no experiment yet" if unknown in IDS else "is not an ID of docs/seeds.md"
    without = " ".join(each for each in IDS if each not in EXPERIMENTS)
    return f"{unknown} {what}; known: {' '.join(EXPERIMENTS)}; without an experiment so far: {without}"
