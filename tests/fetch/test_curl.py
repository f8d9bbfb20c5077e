"""libcurl as we use it: where it connects, what it sends, and that it does nothing by itself."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import socket
import ssl
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pycurl
import pytest
import uvloop

from teia import urls
from teia.clock import WallClock
from teia.errors import ConfigError
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import Destinations
from teia.fetch.fetcher import PostBody
from teia.fetch.guard import AddressGuard
from teia.fetch.outcome import StopReason
from teia.fetch.wire import Pin
from teia.lab.hostile.server import (
    INSIDE,
    WEB,
    Behaviour,
    HostileServer,
    Seen,
    page,
    repeats,
    sends,
    sends_then_resets,
)
from teia.records import Fetched, Outcome
from tests.fetch.conftest import IMPATIENT, LIMITS, Fetching, get
from tests.fetch.receiver import ADDRESS, Receiver
from tests.fetch.resolvers import StaticResolver
from tests.waiting import until_async

HELLO: dict[str, Behaviour] = {"/": sends(page(b"hello"), keep=True)}


# ---- what goes out ---------------------------------------------------------------------------------------------------


def test_request_head_is_known_byte_for_byte() -> None:
    with HostileServer(HELLO) as server:
        fetched = get(server.url("/"), etag='"é"', last_modified="Thu, 01 Jan 2026 00:00:00 GMT", accept="text/html")
        fetched += get(server.url("/"), options={"keep_alive": 0})
        assert [seen.head for seen in server.log] == [each.request_head for each in fetched]
    assert b"Connection: close" in fetched[1].request_head


def test_what_is_posted_arrives_and_the_next_request_of_the_handle_is_a_get_again() -> None:
    async def run(url: str) -> list[Fetched]:
        long = PostBody(b"x" * 100_000, "application/json", (("X-Id", "7"),))
        async with Fetching() as fetching:
            return [await fetching.get(url, ADDRESS, post=long), await fetching.get(url, ADDRESS)]

    with Receiver() as receiver:
        fetched = uvloop.run(run(receiver.url))
    posted, got = receiver.received
    assert [each.outcome for each in fetched] == ["204", "204"]
    assert (posted.method, posted.body, posted.headers["x-id"]) == ("POST", b"x" * 100_000, "7")
    assert posted.headers["expect"] is None
    assert (got.method, got.body, got.headers["content-length"]) == ("GET", b"", None)
    assert [each.head for each in receiver.received] == [each.request_head for each in fetched]


@pytest.mark.parametrize(
    "path", ["/%c3%a9?q=%c3", "/a//b", "/?", "/;x=1/..a", "/'(x)!*|^", "/a%2Fb%00", "/" + "x" * 4000]
)
def test_target_on_the_wire_is_the_target_that_was_checked(path: str) -> None:
    with HostileServer({}) as server:
        get(server.url(path))
        assert server.targets() == [path]


@pytest.mark.parametrize("etag", ['"x"\r\nX-Evil: 1', '"\0"', "x" * 5000, '"€"'])
def test_validator_that_is_no_header_value_is_not_sent(etag: str) -> None:
    with HostileServer(HELLO) as server:
        assert get(server.url("/"), etag=etag)[0].outcome == "200"
        assert server.log[0].header("If-None-Match") is None
        assert server.log[0].header("X-Evil") is None


@pytest.mark.parametrize("kept", [False, True])
def test_a_request_that_may_not_be_sent_any_more_is_not_sent_on_a_new_or_a_kept_connection(kept: bool) -> None:
    """A node that was stopped between its decision and the request sent it when it went on: another had the host."""

    async def run(url: str) -> list[Fetched]:
        async with Fetching() as fetching:
            before = [await fetching.get(url)] if kept else []
            return [*before, await fetching.get(url, may_send=lambda: False)]

    with HostileServer(HELLO) as server:
        *_, refused = uvloop.run(run(server.url("/")))
        assert (refused.outcome, refused.detail) == (Outcome.SYSTEM, StopReason.NOT_OURS.value)
        assert len(server.log) == kept


def test_conditional_request_may_be_answered_with_304() -> None:
    with HostileServer({"/": sends(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n')}) as server:
        (fetched,) = get(server.url("/"), etag='"x"')
        assert server.log[0].header("If-None-Match") == '"x"'
    assert (fetched.outcome, fetched.status) == ("304", 304)


def test_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostileServer(HELLO, [INSIDE]) as proxy, HostileServer(HELLO) as server:
        for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{INSIDE}:{proxy.port}/")
        assert get(server.url("/"))[0].outcome == "200"
        assert (proxy.connections, server.connections) == (0, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    with HostileServer(HELLO, [INSIDE]) as canary:
        answer = page(b"", b"Location: http://%b:%d/" % (INSIDE.encode(), canary.port), status=b"%d Moved" % status)
        with HostileServer({"/": sends(answer)}) as server:
            (fetched,) = get(server.url("/"))
            assert (fetched.outcome, len(server.log), canary.connections) == (str(status), 1, 0)


def test_cookies_are_not_kept() -> None:
    with HostileServer({"/": sends(page(b"x", b"Set-Cookie: a=b"), keep=True)}) as server:
        get(server.url("/"), server.url("/"))
        assert [seen.header("Cookie") for seen in server.log] == [None, None]


# ---- where it goes ---------------------------------------------------------------------------------------------------

SPELLINGS = [
    "127.66.0.1",
    "127.66.1",
    "0x7f.66.0.1",
    "0177.0102.0.1",
    "2134966273",
    "0x7f420001",
    "127.66.0.1.",
    "%31%32%37.66.0.1",
    "public@127.66.0.1",
    "１２７.66.0.1",
    "127。66。0。1",
    "[::ffff:127.66.0.1]",
    "[::FFFF:7F42:1]",
    "[::127.66.0.1]",
    "[64:ff9b::127.66.0.1]",
    "localhost",
    "x.LOCALHOST.",
    "points-inside.test",
    "mixed.test",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_reaches_the_inside(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    names = {"points-inside.test": [INSIDE], "mixed.test": [WEB[0], INSIDE]}
    with HostileServer(HELLO, [INSIDE]) as canary:
        url = urls.canonicalize(f"http://{spelling}:{canary.port}/")
        assert url is not None
        parts = urls.split(url)
        guard = AddressGuard(["127.77.0.0/16"])
        destination = Destinations(StaticResolver(names), guard).find_cached(parts.host, parts.port)
        assert destination is not None
        assert (destination.outcome, destination.address) == (Outcome.BLOCKED_ADDRESS, "")
        # And if a caller forgot to ask: the fetcher does not.
        address = parts.host.strip("[]") if urls.is_address(parts.host) else INSIDE
        if not address.startswith("127."):  # should the guard fail, no packet leaves the loopback all the same
            monkeypatch.setattr("teia.fetch.curl.socket", _no_sockets(opened))
        assert get(url, address=address)[0].outcome == "blocked_address"
        assert (canary.connections, opened) == (0, [])


def _no_sockets(opened: list[object]) -> object:
    """A stand-in for the socket module that records what was asked for and has none left."""

    def refuse(*wanted: object) -> None:
        opened.append(wanted)
        raise OSError(errno.EMFILE, "Too many open files")

    return SimpleNamespace(socket=refuse)


class ChangingGuard(AddressGuard):
    """Lets an address pass once and never again: what a connection sees of a rebinding between two checks."""

    def __init__(self) -> None:
        super().__init__(["127.0.0.0/8"])
        self.asked: list[str] = []

    def check(self, address: str, port: int, *, is_cache: bool = False) -> str | None:
        self.asked.append(address)
        return None if len(self.asked) == 1 else "refused"


def test_guard_checks_again_when_the_socket_is_opened() -> None:
    guard = ChangingGuard()
    with HostileServer(HELLO, [INSIDE]) as canary:
        (fetched,) = get(canary.url("/"), address=INSIDE, options={"guard": guard})
        assert (fetched.outcome, canary.connections, guard.asked) == ("blocked_address", 0, [INSIDE, INSIDE])


@pytest.mark.parametrize("pins", [[], ["+localhost:1:127.77.0.1"], ["+localhost.:80:127.77.0.1"]])
def test_name_without_a_pin_is_not_looked_up(pins: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost or mistyped pin must fail, not ask the system's resolver (which knows `localhost`)."""
    monkeypatch.setattr("teia.fetch.wire.Pin.replacing", lambda *_: pins)
    with HostileServer(HELLO, ["127.0.0.1"]) as server:
        (fetched,) = get(server.url("/", "localhost"))
        assert (fetched.outcome, fetched.detail) == ("system", StopReason.UNPINNED.value)
        assert server.connections == 0


def test_reset_takes_the_hooks_away() -> None:
    """Why handles are never `reset()`: if libcurl ever keeps the veto, this test says so."""
    asked: list[int] = []

    def veto(*_: object) -> int:
        asked.append(1)
        return 1

    curl = pycurl.Curl()
    curl.setopt(pycurl.RESOLVER_START_FUNCTION, veto)
    curl.setopt(pycurl.OPENSOCKETFUNCTION, lambda *_: pycurl.SOCKET_BAD)
    curl.setopt(pycurl.URL, "http://127.66.0.1:1/")
    with pytest.raises(pycurl.error):
        curl.perform()
    assert asked == [1]
    curl.reset()
    curl.setopt(pycurl.OPENSOCKETFUNCTION, lambda *_: pycurl.SOCKET_BAD)
    curl.setopt(pycurl.URL, "http://127.66.0.1:1/")
    with pytest.raises(pycurl.error):
        curl.perform()
    assert asked == [1]
    curl.close()


def test_pins_of_names_that_begin_with_a_dash() -> None:
    with HostileServer(HELLO) as server:
        hosts = ["a.test", "-a.test", "a.test", "--a.test", "-a.test", "a.test"]
        fetched = get(*(server.url("/", host) for host in hosts))
        assert [each.outcome for each in fetched] == ["200"] * len(hosts)
        assert [seen.header("Host") for seen in server.log] == [f"{host}:{server.port}" for host in hosts]


def test_pin_that_a_running_transfer_relies_on_is_not_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen in a crawl: "no address was pinned", because another handle's next request had removed the name's pin."""
    taken_away: list[str] = []
    replacing = Pin.replacing

    def recording(pin: Pin, last: Pin | None) -> list[str]:
        taken_away.extend([last.key] if last is not None and last.key != pin.key else [])
        return replacing(pin, last)

    async def run(server: HostileServer) -> list[Fetched]:
        async with Fetching() as fetching:
            first = await fetching.get_all([server.url("/", "x.test"), server.url("/", "w.test")])
            both = await fetching.get_all([server.url("/", "x.test"), server.url("/", "y.test")])
            return first + both

    monkeypatch.setattr(Pin, "replacing", recording)
    with HostileServer(HELLO) as server:
        assert [each.outcome for each in uvloop.run(run(server))] == ["200"] * 4
        assert taken_away == []


def test_pins_do_not_pile_up_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.fetch.curl.MAX_PINS", 3)
    taken_away: list[str] = []
    replacing = Pin.replacing

    def recording(pin: Pin, last: Pin | None) -> list[str]:
        taken_away.extend([last.key.partition(":")[0]] if last is not None else [])
        return replacing(pin, last)

    monkeypatch.setattr(Pin, "replacing", recording)
    with HostileServer(HELLO) as server:
        hosts = [f"n{number}.test" for number in (1, 2, 3, 1, 4, 5, 1)]
        assert [each.outcome for each in get(*(server.url("/", host) for host in hosts))] == ["200"] * len(hosts)
    assert taken_away == ["n2.test", "n3.test"]


def test_literals_are_pinned_too() -> None:
    with HostileServer(HELLO) as server:
        assert get(server.url("/", WEB[0]))[0].outcome == "200"


def test_trailing_dot_name_is_another_name_and_still_reached() -> None:
    with HostileServer(HELLO) as server:
        fetched = get(server.url("/", "a.test"), server.url("/", "a.test."))
        assert [each.outcome for each in fetched] == ["200", "200"]


def test_new_address_is_used_at_once_though_the_old_connection_lives() -> None:
    async def run(server: HostileServer) -> list[Fetched]:
        async with Fetching() as fetching:
            url = server.url("/")
            return [await fetching.get(url, address) for address in (WEB[0], WEB[0], WEB[1], WEB[1], WEB[0])]

    with HostileServer(HELLO) as server:
        fetched = uvloop.run(run(server))
        assert [each.outcome for each in fetched] == ["200"] * 5
        assert [seen.address for seen in server.log] == [WEB[0], WEB[0], WEB[1], WEB[1], WEB[0]]


def test_override_with_a_port_keeps_host_and_url() -> None:
    with HostileServer(HELLO) as server:
        several = ["http://a.test/", "http://a.test:9999/", "http://b.test/", "http://a.test/"]
        fetched = get(*several, connect_port=server.port)
        fetched += get(server.url("/"))
        assert [each.outcome for each in fetched] == ["200"] * 5
        hosts = [seen.header("Host") for seen in server.log]
        assert hosts == ["a.test", "a.test:9999", "b.test", "a.test", f"a.test:{server.port}"]


def test_handle_goes_from_an_override_to_a_plain_name() -> None:
    async def run(server: HostileServer) -> list[Fetched]:
        async with Fetching() as fetching:
            first = await fetching.get("http://a.test/", connect_port=server.port)
            return [first, await fetching.get(server.url("/", "b.test")), await fetching.get(server.url("/", "a.test"))]

    with HostileServer(HELLO) as server:
        assert [each.outcome for each in uvloop.run(run(server))] == ["200"] * 3


def test_handle_goes_from_an_override_to_the_own_server_of_the_same_name() -> None:
    """The handle kept the override, and the guard refused the address: collections may have different overrides."""

    async def run(server: HostileServer, other: HostileServer) -> list[Fetched]:
        async with Fetching() as fetching:
            url = server.url("/", "a.test")
            return [await fetching.get(url, connect_port=other.port), await fetching.get(url)]

    with HostileServer(HELLO) as server, HostileServer(HELLO) as other:
        assert [each.outcome for each in uvloop.run(run(server, other))] == ["200"] * 2
        assert len(server.log) == len(other.log) == 1


def test_ipv6_is_reached_or_cannot_be_connected_to() -> None:
    guard = {"guard": AddressGuard(["::1/128"])}
    try:
        server, outcome = HostileServer(HELLO, ["::1"]), "200"
    except OSError:  # no IPv6 on this machine
        server, outcome = HostileServer(HELLO), "connect"
    with server:
        fetched = get(server.url("/", "[::1]"), server.url("/", "six.test"), address="::1", options=guard)
        fetched += get("http://six.test/", address="::1", connect_port=server.port, options=guard)
        assert [each.outcome for each in fetched] == [outcome] * 3


# ---- kept connections ------------------------------------------------------------------------------------------------


async def _hung_up(server: HostileServer, times: int) -> None:
    """Wait until the server has closed so many connections; on the loopback that has reached us then."""
    await until_async(lambda: server.hung_up >= times, "the server hangs up")


@pytest.mark.parametrize("hangs_up", [sends(page()), sends_then_resets(page())], ids=["closes", "resets"])
def test_connection_that_the_server_closed_without_notice_is_not_used_again(hangs_up: Behaviour) -> None:
    """Seen: half of all requests failed. libcurl looks at a kept connection only when it rested for a second."""

    async def run(server: HostileServer) -> list[str]:
        outcomes = []
        async with Fetching() as fetching:
            for turn in range(1, 7):
                outcomes.append((await fetching.get(server.url("/"))).outcome)
                await _hung_up(server, turn)
        return outcomes

    with HostileServer({"/": hangs_up}) as server:
        assert uvloop.run(run(server)) == ["200"] * 6
        assert [seen.connection for seen in server.log] == [1, 2, 3, 4, 5, 6]
        assert server.connections == 6


def test_connection_that_is_kept_over_a_short_delay_is_used_again() -> None:
    async def run(url: str) -> None:
        async with Fetching() as fetching:
            for _ in range(4):
                assert (await fetching.get(url)).outcome == "200"
                await asyncio.sleep(0.05)  # a short delay, as between two requests to a host

    with HostileServer(HELLO) as server:
        uvloop.run(run(server.url("/")))
        assert [seen.connection for seen in server.log] == [1, 1, 1, 1]


def _hangs_up_on_the_second_request(resets: bool) -> Behaviour:
    """Answer the first request of each connection and hang up when the second arrives."""
    known: set[int] = set()

    def behave(connection: socket.socket, seen: Seen) -> bool:
        if seen.connection not in known:
            known.add(seen.connection)
            connection.sendall(page())
            return True
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return behave


@pytest.mark.parametrize("resets", [False, True])
def test_request_that_its_server_may_have_seen_is_not_repeated_and_its_connections_are_no_longer_kept(
    resets: bool,
) -> None:
    with HostileServer({"/": _hangs_up_on_the_second_request(resets)}) as server:
        fetched = get(*[server.url("/")] * 5)
        assert [each.outcome for each in fetched] == ["200", "connect", "200", "200", "200"]
        assert [each.unanswered for each in fetched] == [False, True, False, False, False]
        first, second, *others = [seen.connection for seen in server.log]
        assert (first, second, len(set(others))) == (1, 1, 3)
        assert [seen.header("Connection") for seen in server.log] == [None, None, "close", "close", "close"]


def test_connection_cut_at_its_first_request_says_nothing_of_kept_ones() -> None:
    with HostileServer({"/": sends_then_resets(b"")}) as server:
        (fetched,) = get(server.url("/"))
        assert (fetched.outcome, fetched.unanswered) == ("connect", False)


def test_answers_are_not_mixed_up_on_a_kept_connection() -> None:
    two = page(b"first") + page(b"second")
    with HostileServer({"/two": sends(two, True), "/": sends(page(b"mine"), True)}) as server:
        fetched = get(server.url("/two"), server.url("/"))
        assert [each.body for each in fetched] == [b"first", b"mine"]
        assert [seen.connection for seen in server.log] == [1, 2]


def test_servers_beyond_the_budget_close_and_the_others_stay() -> None:
    with HostileServer(HELLO) as server:
        hosts = ["a.test", "b.test", "c.test"] * 3
        get(*(server.url("/", host) for host in hosts), options={"keep_alive": 2})
        connections: dict[str, set[int]] = {host: set() for host in hosts}
        for host, seen in zip(hosts, server.log, strict=True):
            connections[host].add(seen.connection)
        assert {host: len(numbers) for host, numbers in connections.items()} == {"a.test": 1, "b.test": 1, "c.test": 3}


def test_page_uses_the_connection_of_its_robots_txt_even_if_its_server_has_no_place() -> None:
    """In a crawl of very many small hosts each was connected to twice."""

    async def run(server: HostileServer) -> None:
        async with Fetching(keep_alive=1) as fetching:
            await fetching.get(server.url("/", "first.test"))
            for host in ("a.test", "b.test"):
                await fetching.get(server.url("/robots.txt", host), is_followed=True)
                await fetching.get(server.url("/", host))

    with HostileServer(HELLO) as server:
        uvloop.run(run(server))
        assert [seen.connection for seen in server.log] == [1, 2, 2, 3, 3]


# ---- failures --------------------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    with HostileServer(HELLO) as server:
        url = server.url("/")
    (fetched,) = get(url)
    assert (fetched.outcome, fetched.status, fetched.head) == ("connect", 0, b"")
    assert fetched.ended_s >= fetched.started_s > 0


def test_reset_before_any_byte_is_a_connection_failure() -> None:
    with HostileServer({"/": sends_then_resets(b"")}) as server:
        assert get(server.url("/"))[0].outcome == "connect"
        assert len(server.log) == 1


@pytest.mark.heavy
def test_silence_after_accept_times_out() -> None:
    silent = socket.create_server((WEB[0], 0))
    try:
        (fetched,) = get(f"http://a.test:{silent.getsockname()[1]}/", options={"limits": IMPATIENT})
    finally:
        silent.close()
    assert fetched.outcome == "timeout"


@pytest.mark.parametrize("url", ["ftp://a.test/", "http://a.test:80", "http://é.test/\ud800", "nonsense"])
def test_url_that_is_not_canonical_is_refused_without_a_socket(url: str) -> None:
    async def run() -> list[Fetched]:
        async with Fetching() as fetching:
            return await fetching.get_all([url], connect_port=80)

    (fetched,) = uvloop.run(run())
    assert fetched.outcome == "system"


def test_thousand_transfers_at_once_each_end_once_with_their_own_body() -> None:
    def echo(connection: socket.socket, seen: Seen) -> bool:
        connection.sendall(page(seen.target.encode()))
        return True

    async def run(server: HostileServer) -> list[Fetched]:
        async with Fetching(keep_alive=50) as fetching:
            several = [server.url(f"/?{n}", f"h{n % 100}.test") for n in range(1000)]
            fetched = [each for at in range(0, 1000, 100) for each in await fetching.get_all(several[at : at + 100])]
            assert fetching.fetcher.in_flight == fetching.fetcher.held_bytes == 0
            return fetched

    with HostileServer({"/": echo}) as server:
        fetched = uvloop.run(run(server))
        assert [each.body for each in fetched] == [f"/?{n}".encode() for n in range(1000)]
        assert len(server.log) == 1000


def test_close_ends_what_is_running_exactly_once() -> None:
    async def run(server: HostileServer) -> list[Fetched]:
        ended: list[Fetched] = []
        fetching, url = Fetching(), server.url("/")
        waiting = [asyncio.ensure_future(fetching.get(url)) for _ in range(3)]
        for each in waiting:
            each.add_done_callback(lambda done: ended.append(done.result()))
        await until_async(lambda: len(server.log) == 3, "all are under way")
        await fetching.fetcher.close()
        await fetching.fetcher.close()
        await asyncio.wait(waiting)
        ended.append(await fetching.get(url))
        return ended

    with HostileServer({"/": repeats(b"HTTP/1.1 200 OK\r\n\r\n", b"a", every_s=0.05, limit_bytes=60)}) as server:
        ended = uvloop.run(run(server))
    assert [(each.outcome, each.detail) for each in ended] == [("system", "fetcher closed")] * 4


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_sockets_and_handles_do_not_grow() -> None:
    async def run(server: HostileServer) -> tuple[int, int]:
        async with Fetching(keep_alive=4) as fetching:
            counts = []
            for _ in range(2):
                for n in range(60):
                    await fetching.get(server.url(("/", "/short", "/reset")[n % 3], f"h{n}.test"))
                counts.append(_open_descriptors())
            return counts[0], counts[1]

    odd = {"/short": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), "/reset": sends_then_resets(b"")}
    with HostileServer(HELLO | odd) as server:
        first, second = uvloop.run(run(server))
    assert second <= first + 5


def test_no_more_sockets_is_our_trouble_not_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("teia.fetch.curl.socket", _no_sockets(opened))
    with HostileServer(HELLO) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.detail, len(opened)) == ("system", StopReason.NO_SOCKET.value, 1)


@pytest.mark.parametrize("user_agent", ["teia\r\nX-Evil: 1", "teia (é)", "a\0b"])
def test_user_agent_must_be_a_header_value(user_agent: str) -> None:
    async def run() -> None:
        CurlFetcher(AddressGuard(), LIMITS, WallClock(), user_agent)

    with pytest.raises(ConfigError, match="User-Agent"):
        uvloop.run(run())


def test_an_address_that_is_not_ours_cannot_be_bound() -> None:
    """A12: nodes of the lab are told apart by the address they send from."""

    async def run() -> None:
        CurlFetcher(AddressGuard(), LIMITS, WallClock(), "teia-test", bind="203.0.113.9")

    with pytest.raises(ConfigError, match=r"fetch\.bind = '203\.0\.113\.9': must be an address of this machine"):
        uvloop.run(run())


# ---- TLS -------------------------------------------------------------------------------------------------------------


def _tls_server(certificate: Path) -> HostileServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return HostileServer(HELLO, tls=context)


def test_certificates_are_checked(certificate: Path) -> None:
    trusting = {"ca_file": str(certificate / "cert.pem")}
    with _tls_server(certificate) as server:
        (unknown_issuer,) = get(server.url("/"))
        wrong_name, right_name, again = get(
            server.url("/", "b.test"), server.url("/"), server.url("/"), options=trusting
        )
        assert [each.outcome for each in (unknown_issuer, wrong_name, right_name, again)] == [
            "tls",
            "tls",
            "200",
            "200",
        ]
        assert len(server.log) == 2
        assert server.log[0].connection == server.log[1].connection


def test_plain_server_where_tls_was_expected() -> None:
    listener = socket.create_server((WEB[0], 0))

    def speak_plainly() -> None:
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(65_536)
        connection.close()

    speaker = threading.Thread(target=speak_plainly)
    speaker.start()
    (fetched,) = get(f"https://a.test:{listener.getsockname()[1]}/")
    speaker.join()
    listener.close()
    assert fetched.outcome == "tls"


@pytest.mark.heavy
def test_stalled_handshake_times_out() -> None:
    silent = socket.create_server((WEB[0], 0))
    try:
        (fetched,) = get(f"https://a.test:{silent.getsockname()[1]}/", options={"limits": IMPATIENT})
    finally:
        silent.close()
    assert (fetched.outcome, fetched.ended_s - fetched.started_s < IMPATIENT.connect_s + 3) == ("timeout", True)


def test_every_silent_server_is_given_up_after_slow_s() -> None:
    """With several transfers waiting, libcurl's LOW_SPEED_TIME ended one and left the others to the whole limit."""
    silent = socket.create_server((WEB[0], 0))
    several = [f"http://s{number}.test:{silent.getsockname()[1]}/" for number in range(5)]

    async def run() -> list[Fetched]:
        async with Fetching(limits=dataclasses.replace(LIMITS, slow_s=1.0, fetch_s=10.0)) as fetching:
            return await fetching.get_all(several)

    try:
        fetched = uvloop.run(run())
    finally:
        silent.close()
    assert [each.outcome for each in fetched] == ["timeout"] * 5
    assert all(1.0 <= each.ended_s - each.started_s < 4.0 for each in fetched)
