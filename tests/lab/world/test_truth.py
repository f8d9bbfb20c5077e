"""What the world says of itself is what it serves."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from teia.clock import from_iso
from teia.lab.world import truth
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.url_kinds import WITH_BODY, UrlKind
from teia.lab.world.urlspace import UrlSpace
from teia.urls import canonicalize
from tests.lab.worlds import DAY_S, EPOCH_S, fetch, links_in, make_world, slots_of_kind, url_of, varied_world

HORIZON_S = EPOCH_S + 90 * DAY_S
SESSION = re.compile(rb"(?:[?&;]|&amp;)(?:jsessionid|PHPSESSID)=[0-9A-F]{32}")


def _texts() -> list[tuple[UrlSpace, int]]:
    return [page for kind in sorted(WITH_BODY) for page in slots_of_kind(varied_world(), kind)]


TEXTS = _texts()


def _body(url: str, now_s: float) -> bytes:
    return SESSION.sub(b"", fetch(varied_world(), url, now_s).body)


def _own_part(body: bytes) -> bytes:
    """A body without what a cosmetic change may touch."""
    if body.startswith(b"%PDF"):
        return re.sub(rb"revision \d+", b"", body).partition(b"xref")[0]
    return re.split(rb"<aside>|</TABLE>\n<HR>", body)[0]


@settings(max_examples=150)
@given(page=st.sampled_from(TEXTS), part=st.floats(0.01, 0.99))
def test_bodies_change_at_the_versions_and_only_there(page: tuple[UrlSpace, int], part: float) -> None:
    world = varied_world()
    url = url_of(world, *page)
    line = truth.find_line(world, url, HORIZON_S)
    assert line is not None
    edges = [EPOCH_S, *(from_iso(time) for time in line.versions[1:]), HORIZON_S]
    before = None
    for version, (start_s, end_s) in enumerate(pairwise(edges)):
        if end_s - start_s < 0.01:
            before = None
            continue
        body = _body(url, start_s + 0.001)
        assert _body(url, start_s + part * (end_s - start_s - 0.002) + 0.001) == body
        assert _body(url, end_s - 0.001) == body
        if before is not None:
            assert body != before
            is_meaningful = line.versions[version] in line.meaningful
            assert (_own_part(body) != _own_part(before)) == is_meaningful
        before = body


@settings(max_examples=300)
@given(page=st.sampled_from(TEXTS), days=st.floats(0, 90))
def test_links_are_those_an_html_parser_finds(page: tuple[UrlSpace, int], days: float) -> None:
    world = varied_world()
    space, slot = page
    url = url_of(world, space, slot)
    answer = fetch(world, url, EPOCH_S + days * DAY_S)
    line = truth.find_line(world, url, HORIZON_S)
    assert line is not None
    if space.kind(slot) is UrlKind.PDF:
        assert line.links == []
    else:
        assert sorted(links_in(url, answer, space.host.charset)) == sorted(line.links)
    assert set(line.nofollow) <= set(line.links)


def test_links_that_come_and_go_are_listed_for_every_version() -> None:
    """At any instant a page has the links of its last meaningful version, and in time it has had others."""
    world = make_world(pages=200, hosts=4, seed=9, links__changing=0.5, changes__fastest=3.0, urls__sessions=0.0)
    still = make_world(pages=200, hosts=4, seed=9, changes__fastest=3.0, urls__sessions=0.0)
    moved = 0
    for space, slot in slots_of_kind(world, UrlKind.PAGE)[:60]:
        url = url_of(world, space, slot)
        for days in (0.0, 1.3, 4.1):
            now_s = EPOCH_S + days * DAY_S
            line = truth.find_line(world, url, now_s)
            assert line is not None
            assert sorted(links_in(url, fetch(world, url, now_s), space.host.charset)) == sorted(line.links)
            assert [time for time, _ in line.links_since] == line.meaningful
            assert line.links_since[-1][1] == [link for link in line.links if link not in line.nofollow]
            moved += line.links_since[0][1] != line.links_since[-1][1]
        first = truth.find_line(still, url, EPOCH_S + 4.1 * DAY_S)
        assert first is not None
        assert first.links_since == []
    assert moved > 40


def test_links_of_redirects_choices_and_calendars_are_listed_too() -> None:
    world = varied_world()
    for kind in (UrlKind.FOUND, UrlKind.MOVED, UrlKind.CHOICES):
        for space, slot in slots_of_kind(world, kind)[:50]:
            url = url_of(world, space, slot)
            line = truth.find_line(world, url, EPOCH_S)
            assert line is not None
            assert links_in(url, fetch(world, url), "utf-8") == line.links
            assert line.versions == []
    host = next(host for host in world.hosts if host.calendar)
    folder = world.spaces[host.index].lexicon.phrases["agenda"].decode()
    url = f"{world.roots[host.name].decode()}{folder}/2031/12"
    line = truth.find_line(world, url, EPOCH_S)
    assert line is not None
    assert line.kind == "calendar"
    assert sorted(links_in(url, fetch(world, url), host.charset)) == sorted(line.links)


def test_redirects_lead_where_the_truth_says() -> None:
    world = varied_world()
    for space, slot in slots_of_kind(world, UrlKind.FOUND):
        url = url_of(world, space, slot)
        line = truth.find_line(world, url, EPOCH_S)
        location = re.search(rb"Location: (\S+)\r\n", fetch(world, url).headers)
        assert line is not None
        assert location is not None
        written = location.group(1).decode()
        root = world.roots[space.host.name].decode()
        assert line.location == (root + written[1:] if written.startswith("/") else written)
        assert canonicalize(str(line.location)) == line.location


def test_every_url_is_listed_once_in_its_canonical_spelling() -> None:
    world = varied_world()
    lines = list(truth.all_lines(world, EPOCH_S))
    urls = [line.url for line in lines]
    assert len(set(urls)) == len(urls)
    assert all(canonicalize(url) == url for url in urls)
    hosts = {host.name for host in world.hosts}
    assert sum(line.host in hosts for line in lines) == world.spec.pages
    copies = [line for line in lines if line.same_as is not None and line.versions]
    assert copies
    for line in copies[:100]:
        assert fetch(world, line.url).body == fetch(world, str(line.same_as)).body


def test_line_and_pages_agree_and_are_json() -> None:
    world = varied_world()
    for number, line in enumerate(truth.all_lines(world, HORIZON_S)):
        if number % 97 == 0:
            assert truth.find_line(world, line.url, HORIZON_S) == line
            assert {"url", "host", "versions", "links", "robots_allowed"} <= json.loads(
                json.dumps(line.as_json())
            ).keys()


def test_exactly_the_excluded_section_is_not_allowed() -> None:
    world = varied_world()
    refused = [line for line in truth.all_lines(world, EPOCH_S) if not line.robots_allowed]
    assert refused
    assert {line.kind for line in refused} == {"excluded"}
    assert len({line.same_as or line.url for line in refused}) == len(
        {(space.host.content, slot) for space, slot in slots_of_kind(world, UrlKind.EXCLUDED)}
    )


def test_there_is_no_truth_about_what_is_not_there() -> None:
    world = varied_world()
    assert truth.find_line(world, "http://nobody.test:8800/", EPOCH_S) is None
    assert truth.find_line(world, world.seeds()[0] + "nothing", EPOCH_S) is None
    assert truth.find_line(world, "ftp://x", EPOCH_S) is None
    assert truth.find_line(world, world.seeds()[0].replace(":8800", ":1"), EPOCH_S) is None
    assert world.answer(WorldRequest(world.hosts[0].name, "/nothing"), EPOCH_S).status == 404
