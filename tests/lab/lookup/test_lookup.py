"""Overlays find what they look for, at the price that theory names (A2)."""

from __future__ import annotations

from itertools import pairwise
from math import log, log2
from pathlib import Path

import numpy as np
import pytest

from teia.cluster.circle.circle import Circle
from teia.lab.lookup.can import SIDE, Can
from teia.lab.lookup.overlay import KEY_BITS, Overlay, random_key
from teia.lab.lookup.pastry import ID_BITS, LEAVES_A_SIDE, Pastry, digit, id_distance, shared_digits
from teia.lab.lookup.rings import chord_ring, finger_ring, one_hop_ring
from teia.lab.reproduce.lookup_cost import KINDS, Cost, lookup_cost, measure_cost
from teia.lab.reproduce.registry import ExperimentInput, Table, compute_digest

LOOK_UPS = 400


def rng(*keys: int) -> np.random.Generator:
    return np.random.default_rng((7, *keys))


def cost(name: str, nodes: int) -> Cost:
    kind = next(kind for kind in KINDS if kind.name == name)
    return measure_cost(kind.make(nodes, 7, rng(1)), nodes, LOOK_UPS, rng(2))


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_look_up_ends_at_the_owner_and_those_of_the_owner_at_once(kind: object, count: int) -> None:
    made: Overlay = kind.make(count, 3, rng(3))  # type: ignore[attr-defined]
    keys = rng(4)
    for _ in range(50):
        key = random_key(keys)
        owner = made.owner(key)
        assert made.hops(owner, key) == 0
        for start in range(count):
            assert made.hops(start, key) <= count
            assert (made.hops(start, key) == 0) == (start == owner)


def test_chord_takes_half_the_logarithm_and_a_hop_to_the_owner() -> None:
    for nodes in (100, 1_000):
        found = cost("Chord", nodes)
        assert log2(nodes) / 2 <= found.hops <= log2(nodes) / 2 + 1.2
        assert found.known_nodes == pytest.approx(log2(nodes), abs=1.5)
        assert found.most_hops <= 2 * log2(nodes)


@pytest.mark.parametrize(("name", "dimensions"), [("CAN, 2 dimensions", 2), ("CAN, 4 dimensions", 4)])
def test_can_takes_the_root_of_the_nodes(name: str, dimensions: int) -> None:
    for nodes in (100, 1_000):
        found = cost(name, nodes)
        assert found.hops == pytest.approx(dimensions / 4 * nodes ** (1 / dimensions), rel=0.3)
        assert 2 * dimensions * 0.8 <= found.known_nodes <= 2 * dimensions * 2


def test_equal_zones_of_can_take_what_theory_says() -> None:
    can = Can(1, 2, rng(5))
    while len(can._boxes) < 1_024:
        for zone in range(len(can._boxes)):
            can._split(zone)
    found = measure_cost(can, 1_024, 1_000, rng(6))
    assert found.hops == pytest.approx(2 / 4 * 1_024 ** (1 / 2), rel=0.05)
    assert (found.known_nodes, found.largest) == (4, 1)


def test_pastry_takes_a_hop_a_digit() -> None:
    for nodes in (100, 1_000):
        found = cost("Pastry", nodes)
        assert found.hops == pytest.approx(log(nodes, 16), abs=0.6)
        assert found.most_hops <= log(nodes, 16) + 2
        assert found.known_nodes <= 15 * log(nodes, 16) + 2 * LEAVES_A_SIDE + 8


def test_ours_takes_one_hop_and_knows_everybody() -> None:
    found = cost("ours", 200)
    assert found.most_hops == 1
    assert found.hops == pytest.approx(1, abs=0.02)
    assert found.known_nodes == 199


def test_64_points_make_shares_even_and_have_many_give_to_a_newcomer() -> None:
    one, many = cost("Chord", 300), cost("ours", 300)
    assert many.largest < 1.6 < 3 < one.largest
    assert many.taken == pytest.approx(1, abs=0.1)
    assert many.taken_most < 1.6 < one.taken_most
    assert (one.givers, many.givers > 40) == (1, True)


@pytest.mark.parametrize("make", [chord_ring, one_hop_ring, finger_ring])
def test_what_a_newcomer_takes_is_what_would_be_its_own(make: object) -> None:
    ring = make(20, 5)  # type: ignore[operator]
    taken = ring.join_share(rng(8))
    name = f"newcomer {rng(8).bytes(8).hex()}"
    after = Circle({**ring.circle.nodes, name: 1.0}, ring.circle.points_per_capacity)
    assert taken.share == pytest.approx(after.shares()[name])


def test_zones_of_can_are_the_whole_torus_and_neighbours_know_each_other() -> None:
    can = Can(60, 3, rng(9))
    assert sum(can._share(zone) for zone in range(60)) == pytest.approx(1)
    for zone in range(60):
        size = np.prod([(high - low) / SIDE for low, high in can._boxes[zone]])
        assert size == pytest.approx(can._share(zone))
        assert can._neighbours[zone] == {
            other for other in range(60) if other != zone and can._are_neighbours(zone, other)
        }


def test_a_key_has_coordinates_for_five_dimensions() -> None:
    with pytest.raises(ValueError, match="1 to 5"):
        Can(2, 6, rng(1))


def test_a_table_of_pastry_has_nodes_that_agree_in_one_digit_more() -> None:
    pastry = Pastry(300, rng(10))
    for (row, each), other in pastry.table(17).items():
        assert shared_digits(pastry.ids[other], pastry.ids[17]) == row
        assert digit(pastry.ids[other], row) == each
    assert all(one < other for one, other in pairwise(pastry.ids))
    key = random_key(rng(11))
    nearest = min(range(300), key=lambda node: id_distance(pastry.ids[node], key >> KEY_BITS - ID_BITS))
    assert pastry.owner(key) == nearest


@pytest.mark.heavy
def test_a2_repeats_and_shows_theory_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.lab.reproduce.lookup_cost.QUICK_SIZES", (10, 60))
    monkeypatch.setattr("teia.lab.reproduce.lookup_cost.QUICK_LOOK_UPS", 30)
    monkeypatch.setattr("teia.lab.reproduce.lookup_cost.QUICK_CHURN_S", 10)
    one, two, other = (tuple(lookup_cost.body(ExperimentInput(seed, True, Path(), print))) for seed in (1, 1, 2))
    assert compute_digest(one) == compute_digest(two) != compute_digest(other)
    assert [each.name for each in one] == [
        "hops", "known", "moved", "spread", "churn", "times", "hops", "known",
    ]  # fmt: skip
    assert isinstance(one[0], Table)
    theory = {row.labels: row.other for row in one[0].rows}
    assert theory["Chord", "60"] == pytest.approx(log2(60) / 2)
    assert theory["CAN, 2 dimensions", "60"] == pytest.approx(60**0.5 / 2)
