"""Whose turn it is. Times are ticks of no clock at all: each test says what time it is."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import CourtesySettings
from teia.frontier.queue.order import TOP_SCORE, backlinks, klwf, lwf
from teia.frontier.queue.schedule import HostQueue, HostSchedule, HostState
from tests.frontier.queues import add, answer, make_schedule, queued, start_all, start_next, started_hosts

# ---- KLWF -----------------------------------------------------------------------------------------------------------


def test_url_that_waited_longest_goes_first() -> None:
    schedule = make_schedule()
    for host, since_s in (("b", 20.0), ("c", 30.0), ("a", 10.0)):
        add(schedule, host, since_s)
    assert started_hosts(schedule, 100) == ["a", "b", "c"]


def test_only_hosts_whose_server_is_free_count() -> None:
    schedule = make_schedule(delay_s=5)
    oldest = add(schedule, "old", 1, 2)
    assert start_next(schedule, 100) is oldest
    add(schedule, "new", 50)
    assert started_hosts(schedule, 100) == ["new"], "the older URL waits for its server"
    answer(schedule, oldest, 101)
    assert started_hosts(schedule, 105.9) == []
    assert started_hosts(schedule, 106) == ["old"]


def test_older_url_overtakes_at_once_when_its_delay_ends() -> None:
    schedule = make_schedule(delay_s=5)
    old = add(schedule, "old", 1, 2)
    start_next(schedule, 100)
    answer(schedule, old, 100)
    for number in range(3):
        add(schedule, f"new{number}", 50 + number)
    assert start_next(schedule, 104) is not old
    assert start_next(schedule, 105) is old


def test_equal_waits_are_served_in_the_order_they_came() -> None:
    schedule = make_schedule()
    for host in "cab":
        add(schedule, host, 7)
    assert started_hosts(schedule, 100) == ["c", "a", "b"]


def test_oldest_url_of_an_address_goes_first_where_the_order_is_by_age() -> None:
    schedule = make_schedule(delay_s=5)
    first = add(schedule, "first", 50, address="1.1.1.1", order=klwf)
    assert start_next(schedule, 100) is first
    for host, since_s in (("new", 60), ("day-old", 1), ("newer", 70)):
        add(schedule, host, since_s, address="1.1.1.1", order=klwf)
    started = []
    for now in (100, 105, 110):
        answer(schedule, first, now)
        (first,) = start_all(schedule, now + 5)
        started.append(first.host)
    assert started == ["day-old", "new", "newer"]


def test_strict_order_lets_no_url_overtake_one_whose_server_is_delayed() -> None:
    schedule = make_schedule(delay_s=5)
    old = add(schedule, "old", 1, 2, order=lwf)
    young = add(schedule, "young", 50, 51, order=lwf)
    other = add(schedule, "other", 99, collection=1)
    assert start_all(schedule, 100) == [old, other], "the next URL of the old host is older"
    answer(schedule, old, 101)
    assert start_all(schedule, 105) == []
    assert start_all(schedule, 106) == [old, young]
    answer(schedule, young, 106)
    assert start_all(schedule, 111) == [young]


def test_strict_order_looks_at_one_host_while_all_wait_for_an_older_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks many times a second, and a hundred thousand hosts may wait for one that is delayed."""
    schedule = make_schedule(delay_s=5)
    old = add(schedule, "old", 1, 2, order=lwf)
    for number in range(20):
        add(schedule, f"young{number}", 50 + number, order=lwf)
    assert start_all(schedule, 100) == [old]
    looked_at = []
    is_overtaking = HostSchedule._is_overtaking

    def note(schedule: HostSchedule, queue: HostQueue) -> bool:
        looked_at.append(queue.host)
        return is_overtaking(schedule, queue)

    monkeypatch.setattr(HostSchedule, "_is_overtaking", note)
    assert schedule.next_host(101) is None
    assert looked_at == ["young0"]
    answer(schedule, old, 101)
    assert len(start_all(schedule, 106)) == 21


# ---- orders that compare the URLs of all hosts -----------------------------------------------------------------------


def test_most_linked_url_of_all_hosts_goes_first() -> None:
    schedule = make_schedule(max_hosts=1)
    for host, since_s, in_links in (("few", 1, 2), ("many", 30, 9), ("some", 2, 5)):
        add(schedule, host, since_s, order=backlinks, in_links=in_links)
    started = []
    for now in (100, 105, 110):
        (queue,) = start_all(schedule, now)
        started.append(queue.host)
        answer(schedule, queue, now)
    assert started == ["many", "some", "few"]


def test_host_whose_url_gained_links_while_it_waited_moves_ahead() -> None:
    schedule = make_schedule(max_hosts=1)
    first, second, third = (add(schedule, host, 1, order=backlinks, in_links=3) for host in "abc")
    assert start_all(schedule, 100) == [first]
    third.buffer[0] = replace(third.buffer[0], rank=backlinks.rank(1, 8, 7, TOP_SCORE))
    schedule.head_changed(third)
    answer(schedule, first, 100)
    assert start_all(schedule, 105) == [third]
    answer(schedule, third, 105)
    assert start_all(schedule, 110) == [second]
    answer(schedule, second, 110)
    assert start_all(schedule, 115) == []


def test_between_collections_the_waiting_time_decides() -> None:
    schedule = make_schedule(max_hosts=1)
    add(schedule, "linked", 20, order=backlinks, in_links=9, collection=0)
    add(schedule, "older", 10, collection=1)
    assert started_hosts(schedule, 100) == ["older"]


# ---- in line once ---------------------------------------------------------------------------------------------------


def test_host_woken_twice_is_in_line_once() -> None:
    schedule = make_schedule(delay_s=0)
    queue = add(schedule, "a", 1, 2)
    schedule.wake(queue)
    assert start_next(schedule, 0) is queue
    assert queue.state is HostState.FETCHING
    schedule.wake(queue)
    assert start_next(schedule, 0) is None, "one request at a time"
    answer(schedule, queue, 1)
    schedule.wake(queue)
    assert start_next(schedule, 1) is queue
    assert start_next(schedule, 1) is None


def test_host_without_urls_is_idle_until_it_is_woken() -> None:
    schedule = make_schedule(delay_s=0)
    queue = add(schedule, "a", 1)
    start_next(schedule, 0)
    answer(schedule, queue, 1)
    assert queue.state is HostState.IDLE
    queue.buffer.append(queued("a", 2))
    assert start_next(schedule, 2) is None
    schedule.wake(queue)
    assert start_next(schedule, 2) is queue


def test_host_emptied_while_in_line_lets_the_others_pass() -> None:
    schedule = make_schedule()
    empty = add(schedule, "a", 1, address="1.1.1.1")
    add(schedule, "b", 2, address="1.1.1.1")
    empty.buffer.clear()
    assert started_hosts(schedule, 100) == ["b"]
    assert empty.state is HostState.IDLE


def test_prerequisite_goes_before_the_buffer() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    errand = queued("a", 1)
    queue.prerequisites.append(errand)
    assert schedule.next_host(0) is queue
    assert queue.pop() is errand


# ---- two collections, one server ------------------------------------------------------------------------------------


def test_two_collections_never_request_one_server_at_once() -> None:
    schedule = make_schedule(delay_s=5)
    first = add(schedule, "a", 1, 2, collection=0)
    second = add(schedule, "a", 3, 4, collection=1)
    assert start_next(schedule, 100) is first
    assert start_next(schedule, 100) is None
    answer(schedule, first, 101)
    assert start_next(schedule, 105) is None, "the server rests for both"
    assert start_next(schedule, 106) is second


def test_two_collections_take_turns_however_old_their_urls_are() -> None:
    schedule = make_schedule(delay_s=5)
    add(schedule, "a", *range(10), collection=0)
    add(schedule, "a", *range(1_000, 1_010), collection=1)
    turns = []
    for now in range(2_000, 2_200, 10):
        queue = start_next(schedule, now)
        assert queue is not None
        turns.append(queue.collection)
        answer(schedule, queue, now + 1)
    assert turns == [0, 1] * 10


def test_names_on_one_address_take_turns() -> None:
    schedule = make_schedule(delay_s=5)
    for number in range(4):
        add(schedule, f"h{number}", *range(number * 10, number * 10 + 3), address="1.1.1.1")
    turns = []
    for now in range(100, 220, 10):
        queue = start_next(schedule, now)
        assert queue is not None
        assert start_next(schedule, now) is None, "the address is busy"
        turns.append(queue.host)
        answer(schedule, queue, now + 1)
    assert turns == ["h0", "h1", "h2", "h3"] * 3


def test_new_names_on_an_address_do_not_starve_those_that_wait() -> None:
    """A wildcard domain brings a new name with every page; each must queue up behind the others."""
    schedule = make_schedule(delay_s=5)
    old = add(schedule, "old", 1, 2, address="1.1.1.1")
    served = []
    for now in range(100, 200, 10):
        add(schedule, f"new{now}", 0, address="1.1.1.1")
        queue = start_next(schedule, now)
        assert queue is not None
        served.append(queue)
        answer(schedule, queue, now + 1)
    assert served.count(old) == 2


def test_host_whose_robots_txt_was_fetched_is_the_first_in_line_for_its_address() -> None:
    """Behind thousands of others its connection was closed meanwhile, and each host was connected to twice."""
    schedule = make_schedule(delay_s=5)
    begun = add(schedule, "begun", 5, 6, 7, address="1.1.1.1")
    others = [add(schedule, f"h{number}", number, address="1.1.1.1") for number in range(3)]
    assert schedule.next_host(100) is begun
    begun.pop()
    schedule.begin_request(begun, is_followed=True)
    answer(schedule, begun, 101)
    assert started_hosts(schedule, 105.9) == [], "its delays are those of before"
    served = []
    for now in range(106, 206, 20):
        queue = start_next(schedule, now)
        assert queue is not None
        answer(schedule, queue, now + 1)
        served.append(queue)
    assert served == [begun, *others, begun], "once, and then it takes its turn"


def test_name_whose_address_is_just_known_does_not_overtake_its_line() -> None:
    schedule = make_schedule(delay_s=5)
    first = add(schedule, "first", 1, address="1.1.1.1")
    start_next(schedule, 100)
    add(schedule, "second", 2, address="1.1.1.1")
    answer(schedule, first, 101)
    newcomer = HostQueue("new", 1, 0, 0, schedule.politeness.server("new"))
    newcomer.buffer.append(queued("new", 0))
    schedule.wake(newcomer)
    assert schedule.next_host(106) is newcomer
    newcomer.address = "1.1.1.1"
    assert not schedule.is_free(newcomer, 106)
    schedule.put_back(newcomer)
    assert started_hosts(schedule, 106) == ["second"]


# ---- busy places ----------------------------------------------------------------------------------------------------


def test_blocked_hosts_wake_when_their_address_becomes_free() -> None:
    schedule = make_schedule(delay_s=0)
    first = add(schedule, "a", 1, address="1.1.1.1")
    second = add(schedule, "b", 2, address="1.1.1.1")
    assert start_next(schedule, 0) is first
    assert start_next(schedule, 0) is None
    assert schedule.next_event() == float("inf"), "only the end of the request can help"
    answer(schedule, first, 1)
    assert start_next(schedule, 1) is second


def test_delay_lengthened_after_the_call_is_kept() -> None:
    schedule = make_schedule(delay_s=5)
    queue = add(schedule, "a", 1, 2)
    start_next(schedule, 0)
    answer(schedule, queue, 1)
    schedule.politeness.apply_crawl_delay(queue.server, 60)
    assert start_next(schedule, 6) is None
    assert schedule.next_event() == 61
    assert start_next(schedule, 61) is queue


def test_delay_of_another_address_is_not_waited_for() -> None:
    schedule = make_schedule(delay_s=5)
    first = add(schedule, "a", 1, address="1.1.1.1")
    start_next(schedule, 0)
    answer(schedule, first, 1)
    add(schedule, "b", 2, address="2.2.2.2")
    assert started_hosts(schedule, 1) == ["b"]


def test_hold_keeps_a_host_back_and_no_other() -> None:
    schedule = make_schedule()
    queue = HostQueue("a", 1, 0, 0, schedule.politeness.server("a"), address="1.1.1.1", hold_until=50)
    queue.buffer.append(queued("a", 1))
    schedule.wake(queue)
    add(schedule, "b", 2)
    assert started_hosts(schedule, 49) == ["b"]
    assert schedule.next_event() == 50
    assert started_hosts(schedule, 50) == ["a"]


def test_hold_set_while_in_line_is_kept() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    queue.hold_until = 50
    assert start_next(schedule, 10) is None
    assert start_next(schedule, 50) is queue


# ---- given back -----------------------------------------------------------------------------------------------------


def test_withdrawn_hosts_leave_all_lines_and_the_others_take_their_turns() -> None:
    schedule = make_schedule(delay_s=5)
    first = add(schedule, "a", 1, address="1.1.1.1")
    assert start_next(schedule, 100) is first
    here = [add(schedule, host, 10 + number, address="1.1.1.1") for number, host in enumerate("bcd")]
    answer(schedule, first, 101)
    gone = schedule.withdraw([here[0], here[2]])
    assert {queue.host for queue in gone} == {"b", "d"}
    assert all(queue.state is HostState.IDLE for queue in gone)
    assert started_hosts(schedule, 106) == ["c"]
    schedule.wake(here[0])
    answer(schedule, here[1], 107)
    assert started_hosts(schedule, 112) == ["b"]


def test_the_only_host_of_a_line_is_withdrawn_and_its_timer_ends_in_nothing() -> None:
    schedule = make_schedule(delay_s=5)
    queue = add(schedule, "a", 1, 2, address="1.1.1.1")
    assert start_next(schedule, 100) is queue
    answer(schedule, queue, 101)
    assert schedule.withdraw([queue]) == [queue]
    assert started_hosts(schedule, 200) == []
    schedule.wake(queue)
    assert started_hosts(schedule, 200) == ["a"]


def test_a_host_held_until_a_time_is_withdrawn() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1, 2)
    assert start_next(schedule, 100) is queue
    queue.hold_until = 900.0
    answer(schedule, queue, 101)
    assert queue.state is HostState.WAITING
    assert schedule.withdraw([queue]) == [queue]
    assert started_hosts(schedule, 1_000) == []


def test_hosts_on_their_way_to_a_request_are_not_withdrawn() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    assert schedule.next_host(100) is queue
    assert schedule.withdraw([queue]) == []
    assert queue.state is HostState.WAITING


def test_host_given_back_is_in_line_again() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    assert schedule.next_host(0) is queue
    assert schedule.next_host(0) is None, "it is out of line while the caller has it"
    schedule.put_back(queue)
    assert schedule.next_host(0) is queue


def test_host_given_back_without_urls_is_idle() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    schedule.next_host(0)
    queue.pop()
    schedule.put_back(queue)
    assert queue.state is HostState.IDLE


def test_held_host_waits_for_wake_although_it_has_urls() -> None:
    schedule = make_schedule()
    queue = add(schedule, "a", 1)
    schedule.next_host(0)
    schedule.put_back(queue, held=True)
    assert schedule.next_host(1_000) is None
    schedule.wake(queue)
    assert schedule.next_host(1_000) is queue


def test_others_on_the_address_continue_while_the_caller_holds_one_host() -> None:
    """A name being resolved may take seconds; its neighbours must not wait for that."""
    schedule = make_schedule()
    slow = add(schedule, "slow", 1, address="1.1.1.1")
    add(schedule, "quick", 2, address="1.1.1.1")
    assert schedule.next_host(0) is slow
    assert started_hosts(schedule, 0) == ["quick"]
    schedule.put_back(slow)
    assert started_hosts(schedule, 0) == []


# ---- per_host -------------------------------------------------------------------------------------------------------


def test_own_host_has_per_host_requests_at_once() -> None:
    schedule = make_schedule(delay_s=0, per_host=3)
    queue = add(schedule, "a", *range(10))
    assert started_hosts(schedule, 0) == ["a", "a", "a"]
    assert queue.server.busy == 3
    answer(schedule, queue, 1)
    assert started_hosts(schedule, 1) == ["a"]


def test_own_host_with_new_urls_need_not_wait_for_an_answer() -> None:
    schedule = make_schedule(delay_s=0, per_host=3)
    queue = add(schedule, "a", 1)
    assert started_hosts(schedule, 0) == ["a"]
    queue.buffer.append(queued("a", 2))
    schedule.wake(queue)
    assert started_hosts(schedule, 0) == ["a"]


def test_all_requests_of_an_own_host_can_end_in_any_order() -> None:
    schedule = make_schedule(delay_s=0, per_host=2)
    queue = add(schedule, "a", 1, 2)
    started_hosts(schedule, 0)
    answer(schedule, queue, 1)
    answer(schedule, queue, 2)
    assert (queue.server.busy, queue.state) == (0, HostState.IDLE)


# ---- max_hosts (T4) -------------------------------------------------------------------------------------------------


def test_no_more_servers_than_max_hosts_are_engaged() -> None:
    schedule = make_schedule(delay_s=5, max_hosts=2)
    queues = [add(schedule, host, since_s) for since_s, host in enumerate("abcd")]
    assert started_hosts(schedule, 0) == ["a", "b"]
    assert schedule.engaged == 2
    answer(schedule, queues[0], 1)
    assert started_hosts(schedule, 5.9) == [], "a host that rests after a fetch is engaged"
    assert schedule.next_event() == 6
    assert started_hosts(schedule, 6) == ["c"]


def test_engaged_host_goes_on_when_there_is_no_room_for_others() -> None:
    """With room for one, the host that is being visited must not be held up by those who wait outside."""
    schedule = make_schedule(delay_s=0, per_host=3, max_hosts=1)
    add(schedule, "mine", 5, 6, 7)
    assert start_next(schedule, 0) is not None
    add(schedule, "older", 1)
    assert started_hosts(schedule, 0) == ["mine", "mine"]


def test_longest_waiting_of_those_outside_comes_in_first() -> None:
    schedule = make_schedule(delay_s=5, max_hosts=1)
    first = add(schedule, "first", 0)
    assert started_hosts(schedule, 10) == ["first"]
    for host, since_s in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        add(schedule, host, since_s)
    assert started_hosts(schedule, 10) == []
    answer(schedule, first, 10)
    assert started_hosts(schedule, 15) == ["a"]


def test_bookkeeping_of_engaged_hosts_does_not_grow() -> None:
    """One host asked without rest left an entry behind for every request."""
    schedule = make_schedule(delay_s=0)
    queue = add(schedule, "a", *range(1_000))
    for now in range(1_000):
        assert start_next(schedule, now) is queue
        answer(schedule, queue, now)
    assert len(schedule._engaged_ends) <= 2


# ---- cost -----------------------------------------------------------------------------------------------------------


def entries(schedule: HostSchedule) -> int:
    heaps = [*schedule._ready.values(), *schedule._over_limit.values()]
    return len(schedule._timers) + sum(map(len, heaps))


def test_hosts_waiting_for_one_address_cost_nothing_while_they_wait() -> None:
    """Each end of a request once woke all of 10,000 names, to find the address busy again."""
    schedule = make_schedule(delay_s=1)
    for number in range(2_000):
        add(schedule, f"h{number}", 1, address="1.1.1.1")
    first = start_next(schedule, 0)
    assert first is not None
    assert start_next(schedule, 0) is None
    assert entries(schedule) == 0
    answer(schedule, first, 1)
    assert entries(schedule) == 1


def test_line_of_a_place_goes_away_with_its_hosts() -> None:
    schedule = make_schedule(delay_s=1)
    for number in range(50):
        add(schedule, f"h{number}", 1, address=f"1.1.1.{number % 5}")
    for now in range(0, 200, 2):
        for queue in start_all(schedule, now):
            answer(schedule, queue, now)
    assert not schedule._lines
    assert not schedule._called
    assert not schedule._with_timer
    assert entries(schedule) == 0


# ---- KLWF and cost, by definition ------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_free_server_with_the_oldest_url_is_always_next(seed: int) -> None:
    """KLWF against its definition, where no two hosts share an address."""
    chance = random.Random(seed)
    schedule = make_schedule(delay_s=3)
    times = chance.sample(range(1_000), 40)
    queues = [add(schedule, f"h{n}", *sorted(times[n * 5 : n * 5 + 5])) for n in range(8)]
    under_way: list[HostQueue] = []
    for now in range(60):
        for queue in [queue for queue in under_way if chance.random() < 0.5]:
            under_way.remove(queue)
            answer(schedule, queue, now)
        waiting = {q.host: q.buffer[0].since_s for q in queues if q.buffer and q.server.is_free(now, 1)}
        expected = sorted(waiting, key=waiting.__getitem__)
        chosen = start_all(schedule, now)
        assert [queue.host for queue in chosen] == expected
        under_way += chosen


@pytest.mark.slow
def test_a_hundred_thousand_waiting_hosts_are_served_in_microseconds() -> None:
    """Counted in heap entries touched, not in time: at most a handful for each request."""
    schedule = make_schedule(delay_s=1_000, max_hosts=10**6)
    for number in range(100_000):
        add(schedule, f"h{number}", number, address=f"10.0.{number // 250}.{number % 250}")
    pushes = next(schedule._order)
    served = [start_next(schedule, 0) for _ in range(1_000)]
    assert [queue.host for queue in served if queue] == [f"h{number}" for number in range(1_000)]
    first_look = next(schedule._order) - pushes
    assert first_look <= 2 * 100_000 + 5_000, "all that are free are looked at once"
    pushes = next(schedule._order)
    for _ in range(1_000):
        assert start_next(schedule, 0) is not None
    assert next(schedule._order) - pushes <= 5_000


# ---- another courtesy -----------------------------------------------------------------------------------------------


def test_more_servers_at_once_are_visited_as_soon_as_the_setting_changes() -> None:
    schedule = make_schedule(max_hosts=1)
    for host in "abc":
        add(schedule, host, 1)
    assert started_hosts(schedule, 10) == ["a"]
    schedule.apply_courtesy(CourtesySettings(delay_s=5, max_hosts=2))
    assert started_hosts(schedule, 10) == ["b"]


def test_more_requests_at_once_to_a_host_begin_when_it_next_answers() -> None:
    schedule = make_schedule(delay_s=0)
    queue = add(schedule, "a", 1, 2, 3, 4)
    assert started_hosts(schedule, 10) == ["a"]
    schedule.apply_courtesy(CourtesySettings(delay_s=0, response_factor=0, per_host=3))
    answer(schedule, queue, 11)
    assert started_hosts(schedule, 11) == ["a", "a", "a"]


def test_a_longer_delay_holds_for_a_host_that_is_in_line() -> None:
    schedule = make_schedule(delay_s=1)
    queue = add(schedule, "a", 1, 2)
    assert started_hosts(schedule, 10) == ["a"]
    answer(schedule, queue, 11)
    schedule.apply_courtesy(CourtesySettings(delay_s=30, response_factor=0))
    assert started_hosts(schedule, 40.9) == []
    assert started_hosts(schedule, 41) == ["a"]
