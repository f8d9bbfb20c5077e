"""The lab's sockets, as a client that writes its own bytes sees them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from teia.clock import WallClock
from teia.errors import LabError
from teia.lab.server.listen import open_listeners, reserve_port
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.lab.server.wire import MOST_HEAD_BYTES
from teia.lab.world.exchange import ServerFault, WorldAnswer, WorldRequest
from tests.waiting import until_async

T = TypeVar("T")
TEXT = b"Content-Type: text/plain\r\n"
LARGE = bytes(range(256)) * 40_000  # about 10 MB: more than the kernel takes at once
ADDRESS = "127.77.3.1"


@dataclass(frozen=True)
class Place:
    address: str


class Pages:
    """A web whose answers are given by hand, one for each path; each says which host was asked."""

    def __init__(self, answers: dict[str, WorldAnswer] | None = None) -> None:
        self.names = {"one.test": Place(ADDRESS), "two.test": Place(ADDRESS), "three.test": Place("127.77.3.2")}
        self.unreachable = {"dead.test": Place("127.77.3.3")}
        self.answers = answers or {}
        self.asked: list[WorldRequest] = []

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        self.asked.append(request)
        body = f"{request.host}{request.target}".encode()
        return self.answers.get(request.target) or WorldAnswer(200, TEXT, body)


class Client:
    """A connection on which the test writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def get(self, path: str, host: str = "one.test", more: str = "") -> None:
        self.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())

    async def head(self) -> tuple[int, dict[str, str]]:
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = text.removesuffix("\r\n\r\n").split("\r\n")
        return int(lines[0].split(" ")[1]), {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await self.reader.read()


Visit = Callable[[LabServer, Client], Awaitable[T]]


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(work, 60))


async def visit(lab: LabServer, what: Visit[T], address: str = ADDRESS) -> T:
    reader, writer = await asyncio.open_connection(address, lab.port)
    try:
        return await what(lab, Client(reader, writer))
    finally:
        writer.transport.abort()


def serving(pages: Pages, what: Visit[T], **options: Any) -> T:
    async def work() -> T:
        async with LabServer(pages, WallClock(), **options) as lab:
            return await visit(lab, what)

    return run(work())


def logged(tmp_path: Path, pages: Pages, what: Visit[object]) -> list[RequestLogEntry]:
    serving(pages, what, log=tmp_path / "log.jsonl")
    return read_log(tmp_path / "log.jsonl")


def test_answers_with_length_date_and_server() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/a?b=1")
        status, headers, body = await client.answer()
        assert (status, body) == (200, b"one.test/a?b=1")
        assert headers["content-type"] == "text/plain"
        assert headers["server"] == "teia-lab"
        assert headers["date"].endswith(" GMT")
        assert "connection" not in headers

    serving(Pages(), work)


def test_connection_is_kept_for_many_requests() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        for number in range(100):
            client.get(f"/{number}")
            assert (await client.answer())[2] == f"one.test/{number}".encode()
        assert lab.answered_requests == 100

    serving(Pages(), work)


def test_pipelined_requests_are_answered_in_order_even_when_the_first_is_slow() -> None:
    pages = Pages({"/slow": WorldAnswer(200, TEXT, b"slow", delay_s=0.2), "/large": WorldAnswer(200, TEXT, LARGE)})

    async def work(lab: LabServer, client: Client) -> None:
        for path in ("/slow", "/large", "/last"):
            client.get(path)
        assert [(await client.answer())[2] for _ in range(3)] == [b"slow", LARGE, b"one.test/last"]

    serving(pages, work)


def test_thousands_of_pipelined_requests_wait_without_being_lost() -> None:
    pages = Pages({"/0": WorldAnswer(200, TEXT, b"one.test/0", delay_s=0.3)})

    async def work(lab: LabServer, client: Client) -> None:
        for number in range(5000):  # some 200 kB: reading pauses until the slow one is answered
            client.get(f"/{number}")
        for number in range(5000):
            assert (await client.answer())[2] == f"one.test/{number}".encode()

    serving(pages, work)


def test_request_may_arrive_byte_by_byte() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        for byte in b"\r\nGET /slowly HTTP/1.1\r\nHost: one.test\r\n\r\n":
            client.send(bytes([byte]))
            await asyncio.sleep(0)  # one packet for each byte
        assert (await client.answer())[2] == b"one.test/slowly"

    serving(Pages(), work)


def test_head_gives_the_length_without_the_body() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.send(b"HEAD /page HTTP/1.1\r\nHost: one.test\r\n\r\n")
        status, headers = await client.head()
        assert (status, headers["content-length"]) == (200, str(len("one.test/page")))
        client.get("/next")
        assert (await client.answer())[2] == b"one.test/next"

    serving(Pages(), work)


@pytest.mark.parametrize("request_head", ["GET /x HTTP/1.0\r\n", "GET /x HTTP/1.1\r\nConnection: close\r\n"])
def test_connection_is_closed_after_the_answer_where_the_client_wants_it(request_head: str) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.send(f"{request_head}Host: one.test\r\n\r\n".encode())
        _, headers, body = await client.answer()
        assert (headers["connection"], body) == ("close", b"one.test/x")
        assert await client.rest() == b""

    serving(Pages(), work)


def test_http_1_0_client_may_ask_to_be_kept() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        for _ in range(2):
            client.send(b"GET /x HTTP/1.0\r\nHost: one.test\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.answer())[1]["connection"] == "keep-alive"

    serving(Pages(), work)


def test_client_that_ends_its_side_still_gets_its_answers() -> None:
    async def work(lab: LabServer, client: Client) -> bytes:
        client.get("/slow")
        client.get("/other")
        client.writer.write_eof()
        return await client.rest()

    received = serving(Pages({"/slow": WorldAnswer(200, TEXT, b"slow", delay_s=0.1)}), work)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.endswith(b"one.test/other")


def test_chunked_answer_has_no_length_and_all_its_bytes() -> None:
    body = b"x" * 10_000

    async def work(lab: LabServer, client: Client) -> None:
        client.get("/chunked", more="Connection: close\r\n")
        _, headers = await client.head()
        assert headers["transfer-encoding"] == "chunked"
        assert "content-length" not in headers
        received = b""
        while size := int(await client.reader.readline(), 16):
            received += await client.reader.readexactly(size)
            assert await client.reader.readexactly(2) == b"\r\n"
        assert received == body
        assert await client.rest() == b"\r\n"

    serving(Pages({"/chunked": WorldAnswer(200, TEXT, body, chunked=True)}), work)


def test_not_modified_has_no_body_and_keeps_the_connection() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/same")
        assert (await client.head())[0] == 304
        client.get("/next")
        assert (await client.answer())[2] == b"one.test/next"

    serving(Pages({"/same": WorldAnswer(304, b"ETag: x\r\n", b"ignored")}), work)


def test_body_of_a_request_is_skipped() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.send(b"POST /form HTTP/1.1\r\nHost: one.test\r\nContent-Length: 10\r\n\r\n01234")
        client.send(b"56789")
        client.get("/next")
        assert [(await client.answer())[2] for _ in range(2)] == [b"one.test/form", b"one.test/next"]

    serving(Pages(), work)


def test_names_of_one_address_are_distinguished_by_the_host_header() -> None:
    pages = Pages()

    async def work(lab: LabServer, client: Client) -> None:
        for written, meant in (("one.test", "one.test"), (f"TWO.test:{lab.port}", "two.test"), ("no.test", "no.test")):
            client.get("/", host=written)
            assert (await client.answer())[2] == f"{meant}/".encode()
        client.send(b"GET http://two.test:80/x HTTP/1.1\r\nHost: one.test\r\n\r\n")
        assert (await client.answer())[2] == b"two.test/x"

    serving(pages, work)
    assert pages.asked[0].client.startswith("127.")


def test_each_address_has_its_listener() -> None:
    async def ask(lab: LabServer, client: Client) -> bytes:
        client.get("/", host="three.test")
        return (await client.answer())[2]

    async def work() -> None:
        async with LabServer(Pages(), WallClock()) as lab:
            assert lab.addresses == [ADDRESS, "127.77.3.2"]
            assert await visit(lab, ask, "127.77.3.2") == b"three.test/"
            with pytest.raises(ConnectionRefusedError):
                await visit(lab, ask, "127.77.3.3")

    run(work())


BAD = {
    b"nonsense\r\n\r\n": 400,
    b"GET /\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"GET / SMTP\r\nHost: a\r\n\r\n": 400,
    b"GET x HTTP/1.1\r\nHost: a\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n": 413,
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MOST_HEAD_BYTES + b"\r\n\r\n": 431,
    b"x" * 200_000: 431,
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 501,
    b"GET / HTTP/2.0\r\nHost: a\r\n\r\n": 505,
}


@pytest.mark.parametrize("sent", BAD, ids=lambda sent: repr(sent[:40]))
def test_bad_request_is_answered_logged_and_closed(sent: bytes, tmp_path: Path) -> None:
    pages = Pages()

    async def work(lab: LabServer, client: Client) -> None:
        client.send(sent)
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (BAD[sent], "close")
        assert await client.rest() == b""

    assert [entry.status for entry in logged(tmp_path, pages, work)] == [BAD[sent]]
    assert pages.asked == []


def test_reset_is_a_reset_before_any_byte(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/gone")
        with pytest.raises(ConnectionResetError):
            await client.rest()

    assert [
        e.status for e in logged(tmp_path, Pages({"/gone": WorldAnswer(200, TEXT, fault=ServerFault.RESET)}), work)
    ] == [0]


def test_silence_lasts_for_the_delay_and_then_the_connection_ends(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/silent")
        assert await client.rest() == b""

    pages = Pages({"/silent": WorldAnswer(200, TEXT, b"never sent", delay_s=0.3, fault=ServerFault.SILENT)})
    (entry,) = logged(tmp_path, pages, work)
    assert entry.status == 0
    assert entry.end_s - entry.start_s >= 0.29


def test_a_dripping_answer_comes_whole_and_takes_its_time(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/drip")
        assert (await client.answer())[2] == b"x" * 3_000
        client.get("/after")
        assert (await client.answer())[0] == 200

    drip, _ = logged(tmp_path, Pages({"/drip": WorldAnswer(200, TEXT, b"x" * 3_000, drip_s=0.3)}), work)
    assert drip.status == 200
    assert drip.end_s - drip.start_s >= 0.28


def test_a_client_that_leaves_while_an_answer_waits_ends_its_request_there(tmp_path: Path) -> None:
    pages = Pages({"/slow": WorldAnswer(200, TEXT, b"slow", delay_s=0.5)})

    async def work() -> None:
        async def leave(lab: LabServer, client: Client) -> None:
            client.get("/slow")
            await until_async(lambda: bool(pages.asked))
            client.writer.close()
            await client.writer.wait_closed()

        async with LabServer(pages, WallClock(), log=tmp_path / "log") as lab:
            await visit(lab, leave)
            await until_async(lambda: lab.answered_requests == 1)

    run(work())
    (entry,) = read_log(tmp_path / "log")
    assert entry.end_s - entry.start_s < 0.45


def test_silence_ends_when_the_client_goes(tmp_path: Path) -> None:
    pages = Pages({"/silent": WorldAnswer(200, TEXT, delay_s=3600, fault=ServerFault.SILENT)})

    async def work() -> None:
        async def leave(lab: LabServer, client: Client) -> None:
            client.get("/silent")
            await until_async(lambda: bool(pages.asked))
            client.writer.close()
            await client.writer.wait_closed()

        async with LabServer(pages, WallClock(), log=tmp_path / "log") as lab:
            await visit(lab, leave)
            await until_async(lambda: lab.answered_requests == 1)

    run(work())
    (entry,) = read_log(tmp_path / "log")
    assert entry.end_s - entry.start_s < 60


def test_garbage_goes_out_as_it_is(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/garbage")
        assert await client.rest() == b"\x00\xffnot http"

    pages = Pages({"/garbage": WorldAnswer(200, TEXT, b"\x00\xffnot http", fault=ServerFault.GARBAGE)})
    assert [entry.status for entry in logged(tmp_path, pages, work)] == [0]


@pytest.mark.parametrize("size_bytes", [0, 1, 1000])
def test_short_answer_has_fewer_bytes_than_it_says(size_bytes: int, tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/short")
        status, headers = await client.head()
        assert status == 200
        assert len(await client.rest()) < int(headers["content-length"])

    pages = Pages({"/short": WorldAnswer(200, TEXT, b"x" * size_bytes, fault=ServerFault.SHORT)})
    assert [entry.status for entry in logged(tmp_path, pages, work)] == [200]


def test_slow_answer_does_not_hold_up_other_connections() -> None:
    pages = Pages({"/slow": WorldAnswer(200, TEXT, b"slow", delay_s=30)})

    async def work(lab: LabServer, client: Client) -> None:
        async def ask(lab: LabServer, other: Client) -> bytes:
            other.get("/quick")
            return (await other.answer())[2]

        client.get("/slow")
        assert await visit(lab, ask) == b"one.test/quick"

    serving(pages, work)


def test_log_is_complete_and_its_times_are_in_order(tmp_path: Path) -> None:
    clock = WallClock()
    before_s = clock.now_s()

    async def work(lab: LabServer, client: Client) -> None:
        for number in range(50):
            client.get(f"/{number}", more="User-Agent: probe\r\n")
            await client.answer()
        client.get("/slow", host="two.test")
        await client.answer()

    entries = logged(tmp_path, Pages({"/slow": WorldAnswer(404, TEXT, delay_s=0.2)}), work)
    assert [entry.path for entry in entries] == [*(f"/{number}" for number in range(50)), "/slow"]
    assert {entry.headers.get("user-agent") for entry in entries[:-1]} == {"probe"}
    assert (entries[-1].host, entries[-1].status, entries[-1].address) == ("two.test", 404, ADDRESS)
    assert entries[-1].end_s - entries[-1].start_s >= 0.19
    times = [before_s, *(time for entry in entries for time in (entry.start_s, entry.end_s)), clock.now_s()]
    assert times == sorted(times)


def test_end_of_an_answer_is_when_the_last_byte_left_us(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/large")
        _, headers = await client.head()
        await asyncio.sleep(0.3)  # the kernel's buffers are full all this time
        assert len(await client.reader.readexactly(len(LARGE))) == int(headers["content-length"])

    (entry,) = logged(tmp_path, Pages({"/large": WorldAnswer(200, TEXT, LARGE)}), work)
    assert entry.end_s - entry.start_s >= 0.29


def test_a_client_that_leaves_a_large_answer_ends_it_when_it_goes_and_not_when_the_lab_notices(tmp_path: Path) -> None:
    """On a busy machine its next request looked early: 1.7 ms, once in 112,000 requests."""
    left_s: list[float] = []

    def read_some(port: int) -> socket.socket:
        client = socket.create_connection((ADDRESS, port))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: one.test\r\n\r\n")
        assert len(client.recv(1 << 20, socket.MSG_WAITALL)) == 1 << 20
        return client

    async def work() -> None:
        async with LabServer(
            Pages({"/large": WorldAnswer(200, TEXT, LARGE)}), WallClock(), log=tmp_path / "log"
        ) as lab:
            client = await asyncio.to_thread(read_some, lab.port)
            client.close()
            left_s.append(WallClock().now_s())
            time.sleep(0.2)  # noqa: ASYNC251  # nothing here runs: other processes have the machine
            await until_async(lambda: lab.answered_requests == 1)

    run(work())
    (entry,) = read_log(tmp_path / "log")
    assert entry.end_s <= left_s[0]


def test_answer_that_nobody_reads_is_logged_when_the_lab_ends(tmp_path: Path) -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/large")
        await client.head()

    (entry,) = logged(tmp_path, Pages({"/large": WorldAnswer(200, TEXT, LARGE)}), work)
    assert (entry.path, entry.status) == ("/large", 200)


@pytest.mark.heavy
def test_idle_connection_is_cut_and_a_waiting_one_is_not() -> None:
    pages = Pages({"/slow": WorldAnswer(200, TEXT, b"slow", delay_s=1.5)})

    async def work(lab: LabServer, client: Client) -> None:
        async def idle(lab: LabServer, other: Client) -> bytes:
            return await other.rest()

        client.get("/slow")
        assert await visit(lab, idle) == b""
        assert (await client.answer())[2] == b"slow"

    serving(pages, work, idle_s=0.3)


def test_more_connections_than_allowed_are_turned_away() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        async def turned_away(lab: LabServer, other: Client) -> bytes:
            return await other.rest()

        client.get("/")
        await client.answer()
        assert await visit(lab, turned_away) == b""
        client.get("/")
        assert (await client.answer())[0] == 200

    serving(Pages(), work, most_connections=1)


def test_port_in_use_names_the_address_and_the_way_out() -> None:
    async def work(port: int) -> None:
        async with LabServer(Pages(), WallClock(), port=port):
            pass

    with reserve_port() as port:
        (taken,) = open_listeners(["127.77.3.2"], port)
        with taken, pytest.raises(LabError, match=rf"127\.77\.3\.2:{port} is in use; .*--port"):
            run(work(port))


def test_reserved_port_is_free_on_every_address_and_kept_from_others() -> None:
    with reserve_port() as port:
        for one in open_listeners(["127.77.3.1", "127.77.3.2", "127.0.0.1"], port):
            one.close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.77.3.1", port))


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "192.168.1.1", "::1", "localhost", ""])
def test_addresses_outside_loopback_are_refused(address: str) -> None:
    pages = Pages()
    pages.names["far.test"] = Place(address)
    with pytest.raises(LabError, match=r"127\.0\.0\.0/8 only"):
        LabServer(pages, WallClock())
    with pytest.raises(LabError, match=r"127\.0\.0\.0/8 only"):
        open_listeners([address], 0)


def test_failed_log_ends_the_lab() -> None:
    async def work(lab: LabServer, client: Client) -> None:
        client.get("/")
        await client.answer()
        await lab.watch()

    with pytest.raises(LabError, match="No space left"):
        serving(Pages(), work, log=Path("/dev/full"))
