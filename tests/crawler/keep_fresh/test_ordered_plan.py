"""Policies that a live crawler carries out in memory, host by host (P9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import PageColumns, intervals, to_columns, visit_price
from teia.crawler.keep_fresh.ordered_plan import PolicyQueue
from teia.frontier.cell.revisits import CapturedPage
from teia.refresh.policies import POLICIES
from teia.refresh.rates import Floats, Gamma
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, fresh_web, quiet_world
from tests.crawler.keep_fresh.test_host_plan import NOW_S, held, seen

SLOT_S = 1_800.0
PAGES = 20
RATE = np.geomspace(0.1, 40.0, PAGES) / DAY_S
ALIKE_ON_ONE_HOST = [("mp2", "m-wolf"), ("uniform", "round-robin"), ("cho", "edf")]
"""Policies that differ by the visits of different hosts: a host that is planned alone has them all."""


def weigh(pages: Sequence[CapturedPage]) -> Floats:
    return 1.0 + np.array([page.key * 7 % 5 for page in pages])


def some_pages() -> PageColumns:
    columns = to_columns([held(key, seen(key % 4, 5)) for key in range(PAGES)], weigh)
    columns.fresh_s[:] = columns.requested_s[:] = NOW_S - 600.0 * np.arange(PAGES)
    columns.changes[:] = np.arange(PAGES) % 4
    return columns


def taken(name: str, **more: object) -> list[tuple[float, int]]:
    """The visits of a day and a half, a slot apart; plans follow each other as in a crawl."""
    columns, visits = some_pages(), [(-np.inf, 0)]
    settings = RefreshSettings(policy=name, least_s=60.0, **more)  # type: ignore[arg-type]
    queue = PolicyQueue(columns, RATE, SLOT_S, settings, NOW_S)
    for now_s in np.arange(NOW_S, NOW_S + 1.5 * DAY_S, 300.0).tolist():
        if now_s < visits[-1][0] + SLOT_S:
            continue
        if now_s >= queue.ends_s:
            queue = PolicyQueue(columns, RATE, SLOT_S, settings, now_s)
        keys, _ = queue.take(1, (), now_s, early=True)
        for key in keys:
            queue.note_visit(key, float(columns.weight[key]), float(RATE[key]), now_s, now_s)
            columns.fresh_s[key] = columns.requested_s[key] = now_s
            visits.append((now_s, key))
    return visits


def test_every_policy_is_itself_on_one_host() -> None:
    """P9: every pair differs, but for those that are the same for one host by what they are."""
    made = {name: taken(name) for name in POLICIES}
    assert [pair for pair in combinations(POLICIES, 2) if made[pair[0]] == made[pair[1]]] == ALIKE_ON_ONE_HOST
    assert min(map(len, made.values())) >= PAGES


def test_edf_as_it_is_kept_on_disk_visits_the_pages_that_cho_gives_up() -> None:
    """P9: on one host both have the same best intervals; the live edf keeps a share for every page."""
    columns, settings = some_pages(), RefreshSettings(explore=0.0)
    found = Gamma(RATE * DAY_S, np.full(PAGES, DAY_S))
    price = visit_price(columns, found, SLOT_S, settings)
    often = 1.0 / intervals(columns, found, found, [price] * PAGES, settings)
    visited = {key for _, key in taken("cho")}
    given_up = [key for key in range(PAGES) if key not in visited]
    assert given_up
    assert often[given_up].min() * DAY_S > 0.9 * 0.05 * 48 / PAGES


def test_ebr_takes_hits_as_clicks_and_guesses_them_from_other_weights() -> None:
    assert taken("ebr", weights="hits") == taken("edf") != taken("ebr")


@pytest.mark.heavy
@pytest.mark.parametrize("policy", ["psp", "sampling"])
def test_a_timetable_is_carried_out_to_its_end(policy: str, tmp_path: Path) -> None:
    """A plan made anew after every visit began with the same page every time, and visited no other."""
    world = quiet_world(pages=12, hosts=1, seed=3, changes__fastest=3.0)
    with fresh_web(world, tmp_path, refresh__policy=policy, refresh__replan_s=900.0) as web:
        web.run(2.5, 2 * 3_600.0)
        later = {url for time_s, url in web.taken if time_s > EPOCH_S + 1.25 * DAY_S}
        assert len(later) >= 5


def test_a_plan_that_lacks_many_pages_of_its_host_is_made_anew() -> None:
    queue = PolicyQueue(some_pages(), RATE, SLOT_S, RefreshSettings(policy="psp"), NOW_S)
    assert queue.is_fixed
    for key in range(PAGES, PAGES + 2):
        queue.note_visit(key, 1.0, 1e-5, NOW_S, NOW_S)
    assert not queue.lacks_pages
    queue.note_visit(PAGES + 2, 1.0, 1e-5, NOW_S, NOW_S)
    assert queue.lacks_pages
