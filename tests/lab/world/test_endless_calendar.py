"""The trap: a calendar that goes on for as long as anyone follows."""

from __future__ import annotations

from tests.lab.worlds import fetch, links_in, make_world


def test_a_calendar_can_be_followed_forever() -> None:
    world = make_world(pages=300, hosts=3, urls__calendars=1.0)
    host = world.hosts[0]
    folder = world.spaces[0].lexicon.phrases["agenda"].decode()
    home = world.seeds()[0]
    url = f"{home}{folder}/2020/01"
    assert url in links_in(home, fetch(world, home), host.charset)
    for _ in range(300):
        answer = fetch(world, url)
        assert answer.status == 200
        url = max(link for link in links_in(url, answer, host.charset) if f"/{folder}/" in link)
    assert url == f"{home}{folder}/2320/01"


def test_the_calendar_has_a_beginning_and_no_thirteenth_month() -> None:
    world = make_world(pages=300, hosts=3, urls__calendars=1.0)
    folder = world.spaces[0].lexicon.phrases["agenda"].decode()
    home = world.seeds()[0]
    assert fetch(world, f"{home}{folder}/0000/01").status == 200
    assert fetch(world, f"{home}{folder}/2020/13").status == 404
    assert fetch(world, f"{home}{folder}/").status == 404


def test_worlds_have_no_calendar_by_default() -> None:
    world = make_world(pages=1_000)
    assert not any(host.calendar for host in world.hosts)
    assert fetch(world, world.seeds()[0] + "agenda/2020/01").status == 404
