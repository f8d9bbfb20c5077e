"""Answers that servers should not give, through a real connection: what each becomes, and that it was asked once."""

from __future__ import annotations

import gzip
import random
import resource
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.fetch import answer as answer_module
from teia.fetch.answer import SMALL_BYTES, Answer, BodyMemory
from teia.fetch.outcome import StopReason
from teia.lab.hostile.answers import CHUNKED, FRAMING, HEADER_BOMBS, MALFORMED, OK
from teia.lab.hostile.server import HostileServer, page, repeats, sends, sends_then_resets
from tests.fetch.conftest import IMPATIENT, LIMITS, get


@pytest.mark.parametrize("name", MALFORMED | FRAMING)
def test_odd_answer_has_one_class_and_is_requested_once(name: str) -> None:
    answer, outcome = (MALFORMED | FRAMING)[name]
    with HostileServer({f"/{name}": sends(answer)}) as server:
        (fetched,) = get(server.url(f"/{name}"))
        assert (fetched.outcome, len(server.log)) == (outcome, 1), fetched
        assert fetched.detail if outcome == "bad_answer" else not fetched.head.startswith(b"http/")


@pytest.mark.parametrize("path", HEADER_BOMBS)
def test_header_bomb_ends_early_and_costs_no_memory(path: str) -> None:
    with HostileServer(HEADER_BOMBS) as server:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        (fetched,) = get(server.url(path))
        assert (fetched.outcome, fetched.head, fetched.body) == ("bad_answer", b"", b"")
        assert len(server.log) == 1
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 16 * 1024


def test_hundred_headers_are_fine() -> None:
    with HostileServer({"/": sends(OK + b"X: y\r\n" * 99 + b"Content-Length: 2\r\n\r\nok")}) as server:
        assert get(server.url("/"))[0].outcome == "200"


# ---- bodies ----------------------------------------------------------------------------------------------------------


def test_body_stays_as_it_was_sent() -> None:
    compressed = gzip.compress(b"x" * 1000)
    wire = b"%x\r\n%b\r\n0\r\nTrailer: t\r\n\r\n" % (len(compressed), compressed)
    answer = OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + wire
    with HostileServer({"/": sends(answer, keep=True)}) as server:
        first, second = get(server.url("/"), server.url("/"))
    assert first.body == second.body == wire
    assert [seen.connection for seen in server.log] == [1, 1]  # the end was found, so the connection was kept


def test_compressed_bomb_is_not_expanded() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with HostileServer({"/": sends(page(bomb, b"Content-Encoding: gzip"))}) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.body) == ("200", bomb)


def test_chunk_extensions_are_counted() -> None:
    with HostileServer({"/": repeats(CHUNKED + b"1;", b"a" * 65_536)}) as server:
        (fetched,) = get(server.url("/"))
    assert fetched.outcome in {"too_large", "bad_answer"}
    assert len(fetched.body) <= LIMITS.body_bytes


@pytest.mark.parametrize("head", [CHUNKED, OK + b"\r\n", OK + b"Content-Length: 10000000\r\n\r\n"])
def test_endless_body_is_cut_at_the_limit_and_kept(head: bytes) -> None:
    piece = b"1000\r\n" + b"a" * 0x1000 + b"\r\n" if head == CHUNKED else b"a" * 65_536
    with HostileServer({"/": repeats(head, piece)}) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.status, fetched.truncated) == ("too_large", 200, "length")
    assert len(fetched.body) == LIMITS.body_bytes


def test_body_of_exactly_the_limit_is_whole() -> None:
    with HostileServer({"/": sends(page(b"a" * LIMITS.body_bytes))}) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.truncated, len(fetched.body)) == ("200", "", LIMITS.body_bytes)


def test_endless_body_of_an_error_page_does_not_hide_its_status() -> None:
    with HostileServer({"/": repeats(b"HTTP/1.1 503 Busy\r\n\r\n", b"a" * 65_536)}) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.truncated) == ("503", "length")


@pytest.mark.parametrize("behaviour", [sends, sends_then_resets])
def test_body_cut_short_is_kept_and_marked(behaviour: object) -> None:
    assert callable(behaviour)
    with HostileServer({"/": behaviour(OK + b"Content-Length: 10\r\n\r\nok")}) as server:
        (fetched,) = get(server.url("/"))
    assert (fetched.outcome, fetched.status, fetched.truncated) == ("bad_answer", 200, "disconnect")
    assert fetched.body in {b"ok", b""}  # a reset may throw away what had arrived
    assert fetched.head.startswith(OK)


def test_unwanted_type_ends_at_the_head() -> None:
    head = OK + b"Content-Type: image/png\r\n\r\n"
    html_page = page(b"x", b"Content-Type: Text/HTML;a=b")
    with HostileServer({"/": repeats(head, b"a" * 65_536), "/html": sends(html_page)}) as server:
        image, html = get(server.url("/"), server.url("/html"), types=("text/html", "application/*"))
    assert (image.outcome, image.status, image.body) == ("forbidden_type", 200, b"")
    assert html.outcome == "200"


def test_many_answers_together_are_bounded() -> None:
    with HostileServer({"/": sends(page(b"a" * 50_000))}) as server:
        (fetched,) = get(server.url("/"), options={"held_bytes": 10_000})
    assert (fetched.outcome, fetched.detail) == ("system", StopReason.MEMORY.value)


# ---- slowness --------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200", OK + b"X: ", OK + b"Content-Length: 5000\r\n\r\n"])
def test_drip_is_ended_by_a_limit(start: bytes) -> None:
    with HostileServer({"/": repeats(start, b"a", every_s=0.2, limit_bytes=100)}) as server:
        started_s = time.monotonic()
        (fetched,) = get(server.url("/"), options={"limits": IMPATIENT})
        assert time.monotonic() - started_s < 10
    # A drip of letters where a status line should be is found out before it is too slow.
    assert fetched.outcome == ("timeout" if start else "bad_answer")
    assert fetched.truncated == ("time" if fetched.status else "")


# ---- heads -----------------------------------------------------------------------------------------------------------


def test_head_is_exact_but_for_line_ends_and_version_case() -> None:
    tidy = b"HTTP/1.1 200 OK\r\nX-Odd:  a\x01 b \r\nContent-Length: 2\r\n\r\n"
    untidy = tidy.replace(b"\r\n", b"\n").replace(b"HTTP/", b"http/")
    with HostileServer({"/tidy": sends(tidy + b"ok", True), "/untidy": sends(untidy + b"ok", True)}) as server:
        assert [fetched.head for fetched in get(server.url("/tidy"), server.url("/untidy"))] == [tidy, tidy]


def test_interim_answers_are_dropped_from_the_head() -> None:
    with HostileServer({"/": sends(b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" + page(b"ok"))}) as server:
        (fetched,) = get(server.url("/"))
    assert fetched.head == OK + b"Content-Length: 2\r\n\r\n"


def test_bytes_held_return_to_zero() -> None:
    held = BodyMemory(10**6)
    answer = Answer(LIMITS, held)
    for line in (OK, b"\r\n"):
        answer.on_header(line)
    answer.on_body(b"x" * 1000)
    assert held.now_bytes == 1000
    answer.on_body(b"x" * LIMITS.body_bytes)
    assert held.now_bytes == LIMITS.body_bytes
    answer.begin(0, ())
    assert held.now_bytes == 0


@given(
    st.lists(st.sampled_from([1, 7, SMALL_BYTES - 1, SMALL_BYTES, 3 * SMALL_BYTES]), max_size=30), st.integers(1, 40)
)
def test_a_body_is_the_same_in_whichever_pieces_it_comes(sizes: list[int], most_kib: int) -> None:
    held, most = BodyMemory(10**9), most_kib * 1024
    answer = Answer(LIMITS, held)
    answer.begin(most, ())
    for line in (OK, b"\r\n"):
        answer.on_header(line)
    whole = random.Random(len(sizes)).randbytes(sum(sizes))
    at, refused = 0, False
    for size in sizes:
        refused = refused or answer.on_body(whole[at : at + size]) == 0
        at += size
        if refused:
            break
    assert answer.body() == whole[: min(at, most)]
    assert refused == (at > most)
    assert held.now_bytes == min(at, most) == answer.received_bytes - len(OK) - 2


def test_a_body_that_comes_octet_by_octet_takes_little_more_memory_than_it_has() -> None:
    answer = Answer(LIMITS, BodyMemory(10**9))
    tracemalloc.start()
    try:
        for _ in range(100_000):
            answer.on_body(b"x" * 1)
        taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, answer_module.__file__)])
    finally:
        tracemalloc.stop()
    kept = sum(trace.size for trace in taken.traces)  # of this module alone: servers of other tests may still run
    assert 100_000 <= kept < 250_000
