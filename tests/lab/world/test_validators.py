"""ETag and Last-Modified: true, eager, frozen or missing, and 304 accordingly."""

from __future__ import annotations

import re
from email.utils import formatdate

import pytest

from teia.clock import from_iso
from teia.lab.world import truth
from teia.lab.world.exchange import WorldAnswer
from teia.lab.world.validators import http_date
from teia.lab.world.world import World
from tests.lab.worlds import DAY_S, EPOCH_S, fetch, make_world, url_of

END_S = EPOCH_S + 200 * DAY_S


def _world(**shares: float) -> World:
    plain = {f"validators__{name}": shares.get(name, 0.0) for name in ("honest", "eager", "frozen")}
    return make_world(pages=900, hosts=12, urls__sessions=0.0, sites__gzip=0.5, **plain)


def _told(answer: WorldAnswer) -> dict[str, str]:
    """The validators of an answer, as the headers of the next request."""
    headers = {}
    for ours, theirs in (("ETag", "if_none_match"), ("Last-Modified", "if_modified_since")):
        found = re.search(rf"^{ours}: (.*)\r$", answer.headers.decode(), re.MULTILINE)
        if found:
            headers[theirs] = found.group(1)
    return headers


def _pages(world: World) -> list[tuple[str, list[float]]]:
    """One page of each host and the instants of its changes after the epoch."""
    found = []
    for space in world.spaces:
        url = url_of(world, space, 0)
        line = truth.find_line(world, url, END_S)
        assert line is not None
        found.append((url, [from_iso(time) for time in line.versions[1:]]))
    return found


def test_honest_validators_give_304_exactly_while_nothing_has_changed() -> None:
    world = _world(honest=1.0)
    for url, changes in _pages(world):
        first = fetch(world, url, EPOCH_S + 1.0)
        told = _told(first)
        assert told
        same = fetch(world, url, changes[0] - 0.001, **told)
        assert (same.status, same.body) == (304, b"")
        assert _told(same) == told
        changed = fetch(world, url, changes[0] + 2.0, **told)
        assert changed.status == 200
        assert changed.body != first.body


def test_all_forms_of_honest_validators_occur() -> None:
    world = _world(honest=1.0)
    assert {host.validator_form for host in world.hosts} == {"etag", "date", "both"}
    for host in world.hosts:
        told = _told(fetch(world, world.roots[host.name].decode(), EPOCH_S + 1.0))
        expected = {"both": {"if_none_match", "if_modified_since"}, "etag": {"if_none_match"}}
        assert set(told) == expected.get(host.validator_form, {"if_modified_since"})


def test_an_honest_date_waits_until_its_second_is_over() -> None:
    world = _world(honest=1.0)
    for url, changes in _pages(world):
        told = _told(fetch(world, url, changes[0] + 0.000_01))
        assert "if_modified_since" not in told
    for url, changes in _pages(world):
        date = _told(fetch(world, url, changes[0] + 1.5)).get("if_modified_since")
        assert date in {None, formatdate(int(changes[0]), usegmt=True)}


def test_eager_validators_call_everything_new() -> None:
    world = _world(eager=1.0)
    for url, changes in _pages(world):
        first = fetch(world, url, EPOCH_S + 1.0)
        again = fetch(world, url, changes[0] - 1.0, **_told(first))
        assert again.status == 200
        assert again.body == first.body


def test_frozen_validators_deny_every_change() -> None:
    world = _world(frozen=1.0)
    for url, changes in _pages(world):
        first = fetch(world, url, EPOCH_S + 1.0)
        again = fetch(world, url, changes[-1] + 1.0, **_told(first))
        assert again.status == 304
        assert fetch(world, url, changes[-1] + 1.0).body != first.body


def test_hosts_without_validators_never_answer_304() -> None:
    world = _world()
    for url, _ in _pages(world):
        answer = fetch(world, url, EPOCH_S)
        assert not _told(answer)
        dated = formatdate(END_S, usegmt=True)
        assert fetch(world, url, EPOCH_S, if_none_match="*", if_modified_since=dated).status == 200


@pytest.mark.parametrize("header", ['"other"', "", "nonsense", ","])
def test_tags_that_are_not_ours_do_not_match(header: str) -> None:
    world = _world(honest=1.0)
    late = formatdate(END_S, usegmt=True)
    for url, _ in _pages(world):
        # A tag that does not match decides, whatever the date says (RFC 9110, 13.2.2).
        assert fetch(world, url, EPOCH_S, if_none_match=header, if_modified_since=late).status == 200


def test_a_weak_or_listed_tag_matches() -> None:
    world = _world(honest=1.0)
    url, _ = next(page for page in _pages(world) if "if_none_match" in _told(fetch(world, page[0])))
    tag = _told(fetch(world, url))["if_none_match"].removeprefix("W/")
    for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        assert fetch(world, url, if_none_match=header).status == 304


@pytest.mark.parametrize("seconds", [0, 1, 86_399, 951_782_400, 1_700_000_000, -5])
def test_dates_are_as_the_standard_library_writes_them(seconds: int) -> None:
    assert http_date(seconds).decode() == formatdate(seconds, usegmt=True)
