"""An alias rests with its main name, whatever it was doing when that became known (A7)."""

from __future__ import annotations

from teia.crawler.sites.aliases import AliasNames
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from tests.frontier.queues import add, answer, make_schedule, start_next


def rename(names: AliasNames, alias: HostQueue, main: str, schedule: HostSchedule) -> None:
    names.apply([(alias.host, main)], [], {alias.host: alias}, schedule.politeness)


def test_a_queued_host_shares_the_delay_of_its_main_name_from_then_on() -> None:
    schedule, names = make_schedule(delay_s=5), AliasNames(None)
    main, alias = add(schedule, "main", 1, 2), add(schedule, "alias", 3, 4)
    assert start_next(schedule, 100) is main
    answer(schedule, main, 101)
    rename(names, alias, "main", schedule)
    assert alias.server is main.server
    taken = schedule.next_host(102)
    assert taken is alias, "it was in line under its own name"
    assert not schedule.is_free(alias, 102), "but its main name rests"
    schedule.put_back(alias)
    assert schedule.next_host(105.9) is None
    assert [start_next(schedule, 106), start_next(schedule, 106)] == [main, None]


def test_a_request_under_way_ends_where_it_began() -> None:
    schedule, names = make_schedule(delay_s=5), AliasNames(None)
    main, alias = add(schedule, "main", 1), add(schedule, "alias", 2, 3)
    before = alias.server
    assert [start_next(schedule, 100), start_next(schedule, 100)] == [main, alias]
    rename(names, alias, "main", schedule)
    assert (alias.alias_of, alias.server) == ("main", before)
    answer(schedule, alias, 101)
    assert (before.busy, main.server.busy) == (0, 1)
    names.apply([], [], {}, schedule.politeness)
    assert alias.server is main.server


def test_a_name_that_is_itself_again_has_its_own_delay() -> None:
    schedule, names = make_schedule(), AliasNames(None)
    alias = add(schedule, "alias", 2)
    for to in ("main", ""):
        rename(names, alias, to, schedule)
    assert (alias.alias_of, alias.server.name) == ("", "alias")


def test_names_that_nobody_visits_need_nothing() -> None:
    schedule, names = make_schedule(), AliasNames(None)
    names.apply([("unknown", "main")], [1], {}, schedule.politeness)
    assert names.main_name("unknown") == ""
