"""One seed, one web: the same bytes at the same instant, whatever was asked before."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import zlib
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teia.lab.world.exchange import ServerFault, WorldAnswer, WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from tests.lab.worlds import DAY_S, EPOCH_S, VARIED, fetch, make_world, slots_of_kind, url_of, varied_world


def _questions(world: World, count: int) -> list[tuple[str, float]]:
    chance = random.Random(3)
    questions = []
    for _ in range(count):
        space = chance.choice(world.spaces)
        slot = chance.randrange(space.size)
        questions.append((url_of(world, space, slot), EPOCH_S + chance.uniform(0, 60) * DAY_S))
    for host in world.hosts:
        root = world.roots[host.name].decode()
        questions += [(root + name, EPOCH_S + DAY_S) for name in ("robots.txt", "sitemap.xml", "feed.xml")]
    return questions


def test_two_worlds_of_one_seed_are_equal_in_any_order_of_questions() -> None:
    first, second = (
        World(WorldSpec.from_values(VARIED), epoch_s=EPOCH_S),
        World(WorldSpec.from_values(VARIED), epoch_s=EPOCH_S),
    )
    questions = _questions(first, 1_500)
    answers = {question: fetch(first, *question) for question in questions}
    random.Random(4).shuffle(questions)
    for question in questions:
        assert fetch(second, *question) == answers[question]


def test_another_seed_is_another_web() -> None:
    one, other = make_world(seed=1), make_world(seed=2)
    assert not set(one.names) & set(other.names)


def test_changing_one_share_leaves_all_other_draws_alone() -> None:
    plain, compressed = make_world(sites__gzip=0.0), make_world(sites__gzip=1.0)
    assert [replace(host, gzip=True) for host in plain.hosts] == compressed.hosts


def test_bodies_depend_on_the_time_since_the_epoch_and_not_on_the_epoch() -> None:
    early, late = make_world(epoch_s=0.0, pages=500), make_world(epoch_s=EPOCH_S + 12_345.0, pages=500)
    for space in early.spaces:
        for slot in range(space.size):
            url = url_of(early, space, slot)
            later = fetch(late, url, late.epoch_s + 20 * DAY_S)
            assert fetch(early, url, 20 * DAY_S).body == later.body


def test_time_factor_makes_pages_change_as_much_faster() -> None:
    slow, fast = make_world(pages=300), make_world(pages=300, time_factor=1_000.0)
    for space in slow.spaces:
        for slot in range(space.size):
            url = url_of(slow, space, slot)
            assert fetch(slow, url, EPOCH_S + 30 * DAY_S).body == fetch(fast, url, EPOCH_S + 30 * DAY_S / 1_000).body


def test_links_carry_the_port_and_port_80_is_left_out() -> None:
    spec = WorldSpec.from_values({"pages": 200})
    assert World(spec, epoch_s=0, port=8123).seeds()[0].endswith(".test:8123/")
    assert World(spec, epoch_s=0, port=80).seeds()[0].endswith(".test/")


def test_an_alias_serves_the_same_bytes() -> None:
    world = varied_world()
    aliased = [host for host in world.hosts if host.aliases]
    assert aliased
    for host in aliased:
        for slot in range(host.size):
            path = world.spaces[host.index].path(slot).decode()
            one, other = (
                world.answer(WorldRequest(name, f"/{path}"), EPOCH_S) for name in (host.name, host.aliases[0])
            )
            assert one == other


def test_a_mirror_serves_the_pages_of_its_original_and_says_so() -> None:
    world = varied_world()
    mirrors = [host for host in world.hosts if host.is_mirror]
    assert mirrors
    for host in mirrors:
        original = world.hosts[host.content]
        assert host.domain != original.domain
        assert host.address != original.address
        for name, target in ((host.name, "/"), (original.name, "/")):
            body = world.answer(WorldRequest(name, target), EPOCH_S).body
            assert re.search(rb"canonical.*" + re.escape(world.roots[original.name]), body)
        one, other = (world.answer(WorldRequest(name, "/"), EPOCH_S).body for name in (host.name, original.name))
        assert one == other


def test_gzip_comes_only_when_requested_and_holds_the_same_page() -> None:
    world = make_world(
        pages=200, sites__gzip=1.0, validators__honest=1.0, validators__eager=0.0, validators__frozen=0.0
    )
    url = world.seeds()[0]
    plain, packed = fetch(world, url), fetch(world, url, accept_encoding="gzip, br")
    assert b"Content-Encoding" not in plain.headers
    assert b"Content-Encoding: gzip\r\n" in packed.headers
    assert zlib.decompress(packed.body, 31) == plain.body
    assert b"Vary: Accept-Encoding" in plain.headers


@pytest.mark.parametrize("told_by", ["header", "meta", "both"])
def test_latin_hosts_tell_their_charset_where_they_say_they_do(told_by: str) -> None:
    world = make_world(pages=6_000, hosts=60, sites__latin1=1.0, sites__portuguese=1.0)
    host = next(host for host in world.hosts if host.charset_declared_in == told_by)
    answer = world.answer(WorldRequest(host.name, "/"), EPOCH_S)
    assert (f"charset={host.charset}".encode() in answer.headers) == (told_by != "meta")
    assert (f"charset={host.charset}".encode() in answer.body.replace(b'"', b"")) == (told_by != "header")
    assert "ção" in answer.body.decode("cp1252") or "ã" in answer.body.decode("cp1252")


def test_session_ids_change_every_hour_and_lead_to_the_same_page() -> None:
    world = varied_world()
    for host in (host for host in world.hosts if host.session):
        one, same, other = (
            world.answer(WorldRequest(host.name, "/"), EPOCH_S + seconds).body for seconds in (10, 20, 4_000)
        )
        assert one == same
        found = re.search(rb"(?:jsessionid|PHPSESSID)=[0-9A-F]{32}", one)
        assert found is None or found.group() not in other
        space = world.spaces[host.index]
        slot = next(slot for slot in range(space.size) if space.kind(slot) is UrlKind.PAGE)
        path = space.path(slot).decode()
        marked = f"/{path}{'&' if '?' in path else '?'}PHPSESSID=0123456789ABCDEF0123456789ABCDEF"
        plain = world.answer(WorldRequest(host.name, f"/{path}"), EPOCH_S)
        assert world.answer(WorldRequest(host.name, marked), EPOCH_S) == plain


def test_a_wrong_slug_is_not_found() -> None:
    world = make_world(pages=500, urls__queries=0.0)
    space, slot = slots_of_kind(world, UrlKind.PAGE)[40]
    path = space.path(slot).decode()
    assert world.answer(WorldRequest(space.host.name, f"/{path}"), EPOCH_S).status == 200
    assert world.answer(WorldRequest(space.host.name, f"/x{path}"), EPOCH_S).status == 404


def test_unknown_names_and_methods_are_refused_politely() -> None:
    world = varied_world()
    assert world.answer(WorldRequest("nobody.test", "/"), EPOCH_S).status == 404
    assert world.answer(WorldRequest(world.hosts[0].name, "/", "POST"), EPOCH_S).status == 405
    assert world.answer(WorldRequest(world.hosts[0].name.upper() + ".", "/"), EPOCH_S).status == 200


@given(
    host=st.one_of(st.sampled_from(sorted(varied_world().names)), st.text()),
    target=st.one_of(
        st.text(),
        st.binary().map(lambda raw: "/" + raw.decode("latin-1")),
        st.from_regex(r"/[a-z]*/?[a-z?&;=-]*-?[0-9]{0,12}(\.html|\.pdf|\.png)?", fullmatch=True),
    ),
    method=st.sampled_from(["GET", "HEAD", "", "PUT"]),
    header=st.text(),
    now_s=st.floats(-1e9, 3e9),
)
@example("", "/sitemap-99999.xml", "GET", "", 0.0)
@example(varied_world().hosts[0].name, "/\udcff\u20ac-3.html", "GET", "W/", EPOCH_S)
def test_anything_at_all_gets_an_answer(host: str, target: str, method: str, header: str, now_s: float) -> None:
    names = ("if-none-match", "if-modified-since", "accept-encoding")
    request = WorldRequest(host, target, method, dict.fromkeys(names, header), client=header)
    answer = varied_world().answer(request, now_s)
    assert isinstance(answer, WorldAnswer)
    assert 200 <= answer.status < 600 or answer.fault is not ServerFault.NONE


def test_a_million_pages_need_seconds_and_little_memory() -> None:
    script = """
import re, time
from pathlib import Path
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.lab.world.exchange import WorldRequest
started = time.monotonic()
world = World(WorldSpec.load(None, pages=1_000_000, hosts=2_000), epoch_s=0.0)
seconds = time.monotonic() - started
for host in world.hosts:
    world.answer(WorldRequest(host.name, "/"), 86_400.0)
# Not ru_maxrss: it begins with what the process that started this one had.
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
print(seconds, peak_kb / 1024, sum(host.size for host in world.hosts))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True)
    seconds, megabytes, pages = map(float, done.stdout.split())
    assert pages == 1_000_000
    assert seconds < 20
    assert megabytes < 250
