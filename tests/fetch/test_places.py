from __future__ import annotations

from teia.fetch.places import Places


def test_round_robin_keeps_a_fixed_set() -> None:
    places = Places(2, idle_s=60)
    rounds = [[places.admit(host, now_s) for host in "abcd"] for now_s in range(5)]
    assert rounds == [[True, True, False, False]] * 5


def test_place_is_free_again_when_its_server_rests_long() -> None:
    places = Places(1, idle_s=60)
    assert places.admit("a", 0)
    assert not places.admit("b", 60)
    assert places.admit("b", 61)
    assert not places.admit("a", 62)
    assert len(places) == 1


def test_no_budget_keeps_nothing() -> None:
    assert not Places(0, idle_s=60).admit("a", 0)
