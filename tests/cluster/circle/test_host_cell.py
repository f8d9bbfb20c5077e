"""Where a host lives: the crawler's own way to the cell, then the circle."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.cluster.circle.circle import Circle, is_within
from teia.cluster.circle.host_cell import cell_of_host, cell_owners, cell_points, point_of_slot
from teia.urls import SLOTS, cell_of, cell_starts, site_of, slot_of

HOSTS = st.from_regex(r"[a-z]{1,8}\.[a-z]{1,8}\.(com\.br|org|test)", fullmatch=True)


@given(HOSTS, st.sampled_from([1, 2, 3, 4, 7, 64, 1_000, 1_024]))
def test_a_host_is_in_the_cell_that_the_crawler_puts_it_in(host: str, cells: int) -> None:
    host_cell = cell_of_host(host, cells)
    assert host_cell.cell == cell_of(slot_of(site_of(host)), cell_starts(cells))
    assert host_cell.first_slot <= host_cell.slot < host_cell.end_slot
    assert host_cell.slot == host_cell.key >> 150, "the slot is the beginning of the key"
    assert host_cell.point <= host_cell.key
    assert host_cell.key == host_cell.point or is_within(
        host_cell.key, host_cell.point, point_of_slot(host_cell.end_slot) - 1
    )


@given(HOSTS, st.sampled_from([1, 2, 4, 16, 512]))
def test_a_split_leaves_the_first_half_where_it_was(host: str, cells: int) -> None:
    whole, half = cell_of_host(host, cells), cell_of_host(host, 2 * cells)
    assert half.point in {whole.point, point_of_slot((whole.first_slot + whole.end_slot) // 2)}


def test_hosts_of_a_site_live_together_in_all_collections_of_as_many_cells() -> None:
    circle = Circle({"a": 1.0, "b": 1.0, "c": 2.0})
    one, other = cell_of_host("www.jornal.com.br", 64), cell_of_host("fotos.jornal.com.br", 64)
    assert one.point == other.point
    assert circle.owner(one.point) == cell_owners(circle, cell_starts(64))[one.cell]


def test_twice_the_capacity_keeps_about_twice_the_cells() -> None:
    """A14; averaged over clusters, because one has only so many cells."""
    kept: Counter[str] = Counter()
    for cluster in range(20):
        names = [f"n{cluster}-{n}" for n in range(3)]
        circle = Circle({names[0]: 2.0, names[1]: 1.0, names[2]: 1.0})
        for node in cell_owners(circle, cell_starts(SLOTS)):
            kept["big" if node == names[0] else "small"] += 1
    assert kept["big"] / (kept["small"] / 2) == pytest.approx(2.0, rel=0.1)


def test_a_death_moves_the_dead_nodes_cells_and_no_other() -> None:
    circle, starts = Circle(dict.fromkeys("abcde", 1.0)), cell_starts(256)
    before, after = cell_owners(circle, starts), cell_owners(circle, starts, live=set("abde"))
    assert {one for one, other in zip(before, after, strict=True) if one != other} == {"c"}
    assert after == cell_owners(Circle(dict.fromkeys("abde", 1.0)), starts)
    taken = Counter(other for one, other in zip(before, after, strict=True) if one == "c")
    assert set(taken) == set("abde"), "spread over all who live"


def test_without_a_living_node_nobody_keeps() -> None:
    with pytest.raises(ValueError, match="no node is running"):
        cell_owners(Circle({"a": 1.0}), cell_starts(4), live=())
    assert cell_points(cell_starts(2)) == [0, 1 << 159]
