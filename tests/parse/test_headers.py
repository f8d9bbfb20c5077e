from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from teia.parse.headers import Headers, parse_head


def test_status_and_fields_are_read() -> None:
    head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-A:  b \r\n\r\n")
    assert head.status == 200
    assert head.headers.fields == (("content-type", "text/html"), ("x-a", "b"))


def test_the_last_block_counts_so_that_early_hints_do_not() -> None:
    head = parse_head(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\nA: b\r\n\r\n")
    assert head.status == 404
    assert head.headers.first("link") == ""


def test_bare_line_feeds_folded_lines_and_lines_without_colon_are_forgiven() -> None:
    head = parse_head(b"http/1.0 302 Moved\nLocation: /a\n  b\nnonsense\nX: y")
    assert head.status == 302
    assert head.headers.fields == (("location", "/a b"), ("x", "y"))


def test_a_head_without_status_line_still_has_fields() -> None:
    assert parse_head(b"A: 1\r\n").headers.first("a") == "1"
    assert parse_head(b"A: 1\r\n").status == 0


def test_lists_are_joined_over_repeated_fields() -> None:
    headers = Headers([("content-encoding", "GZIP, "), ("content-encoding", "identity")])
    assert headers.tokens("content-encoding") == ["gzip", "identity"]
    assert headers.all("content-encoding") == ["GZIP, ", "identity"]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_head(head: bytes) -> None:
    assert 0 <= parse_head(head).status <= 999
