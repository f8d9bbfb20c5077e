"""Phase 2 of PSP (P4): MERGE as printed, centred, and the ideal times of MP2 and M-Wolf."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.refresh import merge as merging
from teia.refresh.counts import plan_counts
from teia.refresh.merge import merge
from teia.refresh.model import RefreshWorld

from .worlds import ideal_times, small_worlds

DAY_S = 86_400.0


def literal_order(world: RefreshWorld, counts: np.ndarray, server: int) -> list[int]:
    """Visits by exact ideal time, then page id."""
    rows = range(int(world.starts[server]), int(world.starts[server + 1]))
    visits = [
        (Fraction(j, int(counts[row]) + 1), int(world.page[row]), row)
        for row in rows
        for j in range(1, int(counts[row]) + 1)
    ]
    return [row for _, _, row in sorted(visits)]


@settings(max_examples=150)
@given(small_worlds(ages=False, budget=False), st.data())
def test_order_is_by_ideal_time_then_page_id(world: RefreshWorld, data: st.DataObject) -> None:
    """P4: ties are broken by id, and equal fractions are ties whatever their terms."""
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(world), max_size=len(world))))
    table = merge(world, counts)
    for server in range(world.servers):
        visits = slice(table.starts[server], table.starts[server + 1])
        assert table.page[visits].tolist() == literal_order(world, counts, server)
        x_s = len(table.page[visits])
        expected = [i * world.horizon_s / (x_s + 1) for i in range(1, x_s + 1)]
        assert table.due_s[visits].tolist() == expected


def test_many_servers_sorted_together_or_alone_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(2)
    world = RefreshWorld.build(
        chance.integers(0, 40, 900), np.ones(900), servers=42, horizon_s=DAY_S, politeness_s=60.0
    )
    counts = chance.integers(0, 30, 900)
    together = merge(world, counts)
    monkeypatch.setattr(merging, "VISITS_AT_ONCE", 1)
    alone = merge(world, counts)
    assert together.page.tolist() == alone.page.tolist()
    assert together.due_s.tolist() == alone.due_s.tolist()
    assert all(
        together.page[a:b].tolist() == literal_order(world, counts, server)
        for server, (a, b) in enumerate(zip(together.starts[:-1], together.starts[1:], strict=True))
    )


def test_as_printed_a_full_server_is_not_polite_and_centred_it_is() -> None:
    """The trap of T/(x_s + 1): 5,760 visits at 14.997 s."""
    world = RefreshWorld.build(np.zeros(50), np.full(50, 1 / DAY_S), horizon_s=DAY_S, politeness_s=15.0)
    counts = plan_counts(world)
    assert counts.sum() == 5760
    assert np.diff(merge(world, counts, "printed").due_s).max() < 15.0
    centred = merge(world, counts, "centred").due_s
    assert np.diff(centred).min() == 15.0
    assert (centred[0], centred[-1]) == (7.5, DAY_S - 7.5)


@settings(max_examples=150)
@given(small_worlds())
def test_centred_plans_are_polite(world: RefreshWorld) -> None:
    table = merge(world, plan_counts(world), "centred")
    for server in range(world.servers):
        due = table.due_s[table.starts[server] : table.starts[server + 1]]
        assert (np.diff(due) >= world.politeness_s[server] * (1 - 1e-12)).all()
        assert ((due > 0) & (due < world.horizon_s)).all()


@settings(max_examples=100)
@given(small_worlds())
def test_ideal_times_are_each_pages_own(world: RefreshWorld) -> None:
    counts = plan_counts(world)
    table = merge(world, counts, "ideal")
    for row in range(len(world)):
        mine = table.due_s[table.page == row]
        assert mine == pytest.approx(ideal_times(world.horizon_s, world.age_s[row], counts[row]), abs=1e-9)
    for server in range(world.servers):
        assert (np.diff(table.due_s[table.starts[server] : table.starts[server + 1]]) >= -1e-9).all()


@pytest.mark.parametrize("spacing", ["printed", "centred"])
def test_a_visit_has_room_for_its_transfer(spacing: merging.Spacing) -> None:
    """P1: the visit after that of a large page is due when its transfer is over, and the last within the horizon."""
    world = RefreshWorld.build(
        [0, 0, 0, 1], 1.0, horizon_s=100.0, politeness_s=1.0, size_bytes=[20.0, 0.0, 0.0, 0.0], bytes_per_s=1.0
    )
    table = merge(world, np.array([2, 30, 30, 3]), spacing)
    part = slice(0, int(table.starts[1]))
    gaps = np.diff(np.append(table.due_s[part], 100.0))
    assert gaps[table.page[part] == 0].min() >= 19.8  # as printed, gaps are T/(x + 1), a little less than P
    assert table.due_s[table.starts[1] :].tolist() == merge(world, np.array([0, 0, 0, 3]), spacing).due_s.tolist()
