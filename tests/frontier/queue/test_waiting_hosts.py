"""Hosts that wait on disk: each once, in turns of cells and slots."""

from __future__ import annotations

from teia.frontier.queue.waiting_hosts import HostNumber, WaitingHosts


def numbers(*host_ids: int, cell: int = 0, slot: int = 0) -> list[HostNumber]:
    return [HostNumber(cell, slot, host_id) for host_id in host_ids]


def test_hosts_wait_once_and_come_from_all_cells_in_turn() -> None:
    waiting = WaitingHosts()
    for number in numbers(4, 9, 4, 5_000) + numbers(7, cell=3):
        waiting.add(number)
    assert len(waiting) == 4
    assert sorted(waiting.take(2)) == numbers(4) + numbers(7, cell=3)
    assert waiting.take(10) == numbers(9, 5_000)
    assert not waiting
    assert waiting.take(10) == []
    waiting.add(*numbers(4))
    assert waiting.take(1) == numbers(4), "it may wait again"


def test_hosts_of_a_slot_come_together_and_those_that_come_meanwhile_wait_for_other_slots() -> None:
    waiting = WaitingHosts()
    for host_id in range(6):
        waiting.add(HostNumber(0, host_id % 2, host_id))
    assert waiting.take(1) == numbers(0, slot=0)
    for number in numbers(0, 6, slot=0):
        waiting.add(number)
    assert waiting.take(20) == numbers(2, 4) + numbers(1, 3, 5, slot=1) + numbers(0, 6)


def test_a_host_that_gives_its_place_up_waits_for_all_others() -> None:
    waiting, order = WaitingHosts(), []
    for host_id in range(100):
        waiting.add(HostNumber(0, host_id % 7, host_id))
    for _ in range(300):
        (number,) = waiting.take(1)
        waiting.add(number)
        order.append(number.host_id)
    for start in range(0, 300, 100):
        assert sorted(order[start : start + 100]) == list(range(100))
