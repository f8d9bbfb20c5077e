from __future__ import annotations

import gzip
import random
import resource
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from teia.config.sections import LimitSettings
from teia.parse.decode import Decoded, dechunk, decode
from teia.parse.headers import Headers

LIMITS = LimitSettings()
PAGE = random.Random(1).randbytes(30_000) + b"<p>text</p>" * 3_000


def decoded(body: bytes, *, coding: str = "", chunked: bool = False, limits: LimitSettings = LIMITS) -> Decoded:
    fields = [("content-encoding", coding)] if coding else []
    return decode(Headers([*fields, *([("transfer-encoding", "chunked")] if chunked else [])]), body, limits)


def chunks(body: bytes, size: int = 1_000) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%X\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


# ---- chunks


def test_chunks_are_undone_and_the_archive_gets_the_coded_body() -> None:
    coded = gzip.compress(PAGE)
    result = decoded(chunks(coded), coding="gzip", chunked=True)
    assert result == Decoded(coded, PAGE)


def test_chunk_extensions_and_trailers_are_dropped() -> None:
    body = b'3;name="value"\r\nabc\r\n2 \r\nde\r\n0;last\r\nX-Trailer: yes\r\n\r\n'
    assert dechunk(body, 8192) == (b"abcde", "", "")


def test_bare_line_feeds_end_chunk_lines_too() -> None:
    assert dechunk(b"3\nabc\n0\n\n", 8192) == (b"abc", "", "")


@pytest.mark.parametrize("cut", [1, 3, 5, 8, 9, 10])
def test_a_cut_chunk_is_truncated(cut: int) -> None:
    whole = b"4\r\nabcd\r\n0\r\n\r\n"
    body, truncated, error = dechunk(whole[:cut], 8192)
    assert b"abcd".startswith(body)
    assert (truncated, error) == ("chunk", "")


@pytest.mark.parametrize("size", [b"+3", b"-3", b"0x3", b"1_0", b"3 3", b"", "٣".encode(), b"fffffffffffffffff"])
def test_sizes_that_python_would_take_but_http_does_not_are_bad(size: bytes) -> None:
    body = b"1\r\na\r\n" + size + b"\r\nabc\r\n0\r\n\r\n"
    assert dechunk(body, 8192) == (b"a", "", "invalid chunk")


def test_a_body_that_is_not_chunked_at_all_is_kept() -> None:
    assert dechunk(b"<html>hello", 8192) == (b"<html>hello", "", "invalid chunk")


def test_a_chunk_line_longer_than_the_limit_is_bad() -> None:
    assert dechunk(b"3;" + b"x" * 9_000 + b"\r\nabc\r\n0\r\n\r\n", 8192)[2] == "invalid chunk"


# ---- compression


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
    ],
)
@pytest.mark.parametrize("size", [1, 65_536, 2**20, 2**20 + 1, 3_000_000])
def test_codings_are_undone(coding: str, compress: object, size: int) -> None:
    data = random.Random(size).randbytes(size // 2) + b"a" * (size - size // 2)
    assert callable(compress)
    assert decoded(compress(data), coding=coding).payload == data


def test_codings_may_be_chained_twice_but_not_thrice() -> None:
    twice = gzip.compress(zlib.compress(PAGE))
    assert decoded(twice, coding="deflate, gzip").payload == PAGE
    result = decoded(gzip.compress(twice), coding="deflate, gzip, gzip")
    assert (result.payload, result.error) == (b"", "3 nested content encodings")


def test_several_gzip_members_are_one_payload() -> None:
    assert decoded(gzip.compress(b"one ") + gzip.compress(b"two"), coding="gzip") == Decoded(
        gzip.compress(b"one ") + gzip.compress(b"two"), b"one two"
    )


def test_several_zstd_frames_are_one_payload() -> None:
    assert decoded(zstandard.compress(b"one ") + zstandard.compress(b"two"), coding="zstd").payload == b"one two"


def test_junk_after_gzip_is_ignored() -> None:
    assert decoded(gzip.compress(PAGE) + b"\0\0junk", coding="gzip").payload == PAGE


@pytest.mark.parametrize("missing", [1, 4, 8, 9, 5_000])
def test_truncated_gzip_is_never_taken_for_the_whole(missing: int) -> None:
    result = decoded(gzip.compress(PAGE)[:-missing], coding="gzip")
    assert result.truncated == "coding"
    assert PAGE.startswith(result.payload)


def test_broken_gzip_keeps_what_came_before() -> None:
    coded = bytearray(gzip.compress(PAGE))
    coded[20_000:20_010] = b"\xff" * 10
    result = decoded(bytes(coded), coding="gzip")
    assert result.error or result.truncated


def test_unknown_coding_is_an_error_without_payload() -> None:
    result = decoded(b"abc", coding="dcb")
    assert (result.dechunked, result.payload, result.error) == (b"abc", b"", "unknown content encoding 'dcb'")


def test_a_page_announced_as_gzip_that_is_not_is_read_as_it_is() -> None:
    result = decoded(b"<html>plain", coding="gzip")
    assert (result.payload, result.error) == (b"<html>plain", "not gzip, although declared")


# ---- bombs


def test_ten_megabytes_of_zeros_are_cut_by_the_ratio() -> None:
    result = decoded(gzip.compress(bytes(10_000_000)), coding="gzip")
    assert result.truncated == "ratio"
    assert 2**20 <= len(result.payload) <= 3 * 2**20


@pytest.mark.parametrize(("coding", "compress"), [("br", brotli.compress), ("zstd", zstandard.compress)])
def test_brotli_and_zstd_are_bounded_cut_and_judged_like_gzip(coding: str, compress: Callable[[bytes], bytes]) -> None:
    bomb = decoded(compress(bytes(200_000_000)), coding=coding)
    assert bomb.truncated == "ratio"
    assert len(bomb.payload) <= 6 * 2**20
    coded = compress(PAGE)
    cut = decoded(coded[: len(coded) // 2], coding=coding)
    assert (cut.truncated, PAGE.startswith(cut.payload)) == ("coding", True)
    assert decoded(b"<html>plain text, no coding", coding=coding).error == "invalid compressed data"
    small = LimitSettings(decoded_bytes=20_000)
    assert decoded(coded, coding=coding, limits=small).truncated == "length"


def test_a_bomb_in_a_bomb_is_cut_too() -> None:
    result = decoded(gzip.compress(gzip.compress(bytes(50_000_000))), coding="gzip, gzip")
    assert result.truncated == "ratio"
    assert len(result.payload) <= 3 * 2**20


def test_decoded_bytes_are_bounded_whatever_the_ratio() -> None:
    small = LimitSettings(decoded_bytes=100_000)
    result = decoded(gzip.compress(random.Random(2).randbytes(300_000)), coding="gzip", limits=small)
    assert (len(result.payload), result.truncated) == (100_000, "length")
    assert decoded(bytes(200_000), limits=small).truncated == "length"


def test_a_bomb_costs_no_memory() -> None:
    member = gzip.compress(bytes(2**24))
    body = member * (8 * 2**20 // len(member))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert decoded(body, coding="gzip").truncated in {"ratio", "length"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib <= 64 * 1024


@given(st.binary(max_size=500), st.sampled_from(["gzip", "deflate", "gzip, deflate", "br", "zstd"]), st.booleans())
def test_any_bytes_can_be_decoded(body: bytes, coding: str, chunked: bool) -> None:
    result = decoded(body, coding=coding, chunked=chunked)
    assert len(result.dechunked) <= len(body)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10))
def test_dechunk_undoes_chunks(pieces: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    assert dechunk(body, 8192) == (b"".join(pieces), "", "")
