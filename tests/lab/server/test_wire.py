"""HTTP as bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teia.lab.server.wire import BadRequest, DateLine, parse_head, render
from teia.lab.world.exchange import WorldAnswer


def test_head_is_taken_apart() -> None:
    head = parse_head(b"GET /a?b#c HTTP/1.1\r\nHost: X.Test:8800\r\nAccept:  a \r\naccept: b\r\nEmpty:")
    assert (head.method, head.target, head.host) == ("GET", "/a?b#c", "x.test")
    assert head.headers == {"host": "X.Test:8800", "accept": "a, b", "empty": ""}
    assert (head.keep_alive, head.is_http10, head.body_bytes) == (True, False, 0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("a.test", "a.test"), ("a.test:80", "a.test"), ("A.TEST.", "a.test."), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")],
)
def test_host_loses_its_port_and_its_capitals(written: str, meant: str) -> None:
    assert parse_head(f"GET / HTTP/1.1\r\nHost: {written}".encode()).host == meant


@given(st.binary(max_size=300))
@example(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \xb2")
@example(b"GET http:// HTTP/1.1\r\nHost: a")
def test_any_bytes_are_a_head_or_a_bad_request(data: bytes) -> None:
    for head in (data, b"GET / HTTP/1.1\r\nHost: a\r\n" + data):
        with suppress(BadRequest):
            assert parse_head(head).host == parse_head(head).host.lower()


def test_date_is_that_of_http() -> None:
    date = DateLine()
    assert date.at(784_111_777.9) == date.at(784_111_777.0) == b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    assert date.at(784_111_778.0) != date.at(784_111_777.0)


def test_server_is_named_once() -> None:
    head = parse_head(b"GET / HTTP/1.1\r\nHost: a")
    own, _ = render(WorldAnswer(200, b"Server: nginx\r\n"), head, b"")
    ours, _ = render(WorldAnswer(200, b""), head, b"")
    assert (own.count(b"Server: "), ours.count(b"Server: ")) == (1, 1)


def test_status_without_a_phrase_is_sent_all_the_same() -> None:
    start, _ = render(WorldAnswer(799, b""), parse_head(b"GET / HTTP/1.1\r\nHost: a"), b"")
    assert start.startswith(b"HTTP/1.1 799 Unknown\r\n")
