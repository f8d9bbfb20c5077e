from __future__ import annotations

import socket

import pytest

from teia.fetch import keep_alive as module
from teia.fetch.keep_alive import NO_KEEP_ALIVE_S, IdleSockets, KeepAliveBudget


def test_round_robin_keeps_a_fixed_set() -> None:
    budget = KeepAliveBudget(2, idle_s=60)
    rounds = [[budget.admit(host, now_s) for host in "abcd"] for now_s in range(5)]
    assert rounds == [[True, True, False, False]] * 5


def test_room_is_free_again_when_its_server_was_idle_for_long() -> None:
    budget = KeepAliveBudget(1, idle_s=60)
    assert budget.admit("a", 0)
    assert not budget.admit("b", 60)
    assert budget.admit("b", 61)
    assert not budget.admit("a", 62)
    assert len(budget) == 1


def test_no_budget_keeps_nothing() -> None:
    assert not KeepAliveBudget(0, idle_s=60).admit("a", 0)
    assert not KeepAliveBudget(0, idle_s=60).admit("a", 0, is_followed=True)


def test_request_that_another_follows_keeps_its_connection_without_a_place() -> None:
    budget = KeepAliveBudget(1, idle_s=60)
    assert budget.admit("a", 0)
    assert budget.admit("b", 1, is_followed=True)
    assert not budget.admit("b", 2)
    assert len(budget) == 1
    budget.refuse_keep_alive("c", 3)
    assert not budget.admit("c", 4, is_followed=True)


def test_server_that_closes_without_a_word_loses_its_place_for_a_while() -> None:
    budget = KeepAliveBudget(1, idle_s=60)
    assert budget.admit("a", 0)
    budget.refuse_keep_alive("a", 1)
    assert budget.admit("b", 2)  # the place is another's
    assert not budget.admit("a", NO_KEEP_ALIVE_S)
    assert budget.admit("a", NO_KEEP_ALIVE_S + 100)
    assert KeepAliveBudget(1, idle_s=60).admit("a", 0)


def test_servers_that_close_without_a_word_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REFUSED", 2)
    budget = KeepAliveBudget(9, idle_s=60)
    for origin in "abc":
        budget.refuse_keep_alive(origin, 0)
    assert [budget.admit(origin, 1) for origin in "abc"] == [True, False, False]


@pytest.mark.parametrize("resets", [False, True])
def test_kept_socket_that_the_other_end_closed_is_noticed(resets: bool) -> None:
    kept = IdleSockets()
    with socket.create_server(("127.77.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, local = listener.accept()
        kept.note(local, ours.fileno())
        assert not kept.is_closed(local)
        if resets:
            ours.sendall(b"not read, so that closing resets")
        theirs.close()
        assert kept.is_closed(local)
        assert not kept.is_closed(("127.77.0.1", 1))


def test_descriptor_that_comes_again_replaces_its_note() -> None:
    kept = IdleSockets()
    for port in range(1000):
        kept.note(("127.77.0.1", port), 7 + port % 2)
    assert len(kept) == 2
