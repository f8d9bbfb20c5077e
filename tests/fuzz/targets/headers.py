"""Heads, framing and codings of answers: read in any pieces with the same result, within the limits."""

from __future__ import annotations

import gzip
from dataclasses import replace

from teia.config.sections import LimitSettings
from teia.fetch.answer import Answer, BodyMemory
from teia.parse.decode import dechunk, decode
from teia.parse.headers import parse_head
from teia.parse.mime import content_type, effective_type, parse_media_type
from teia.store.warc import final_head
from tests.fuzz.pieces import Pieces

LIMITS = replace(LimitSettings(), decoded_bytes=1 << 18, body_bytes=1 << 16)
SEEDS = (
    b'\x03HTTP/1.1 200 OK\r\nContent-Type: text/html; charset="utf-8"; a=b\r\nContent-Length: 5\r\n\r\nhello',
    b"\x01HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 No\r\nX: a\r\n b\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r",
    b"\x07http/1.1 200\nContent-Encoding: gzip\n\n" + gzip.compress(b"hello", mtime=0),
    b"\x02HTTP/2 200\r\nContent-Encoding: br\r\n\r\n\x0b\x02\x80hello\x03",
    b"\x02HTTP/2 200\r\nContent-Encoding: zstd, deflate\r\n\r\n(\xb5/\xfd\x20\x05)\x00\x00hello",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    step = 1 + pieces.number()
    raw = pieces.rest()
    head = parse_head(raw)
    assert 0 <= head.status <= 999
    media_type = content_type(head.headers.all("content-type"))
    if media_type is not None:
        assert parse_media_type(str(media_type)) == media_type, "a media type reads otherwise when written"
    blank = raw.find(b"\r\n\r\n")
    body = raw[blank + 4 :] if blank >= 0 else raw
    effective_type(media_type, body)
    decoded = decode(head.headers, body, LIMITS)
    assert len(decoded.payload) <= LIMITS.decoded_bytes
    assert len(decoded.dechunked) <= len(body)
    chunked = b"".join(
        b"%x\r\n%s\r\n" % (len(body[at : at + step]), body[at : at + step]) for at in range(0, len(body), step)
    )
    assert dechunk(chunked + b"0\r\n\r\n", 8192) == (body, "", "")
    stored = final_head(raw[: blank + 4] if blank >= 0 else raw)
    if stored is not None:
        assert stored.block.endswith(b"\r\n\r\n")
        assert stored.block.count(b"\r\n\r\n") == 1, "a head that ends twice"
        assert final_head(stored.block).block == stored.block  # type: ignore[union-attr]
    _received(raw, step)


def _received(raw: bytes, step: int) -> None:
    """Give the lines of a head and a body in pieces to an answer, as libcurl does."""
    memory = BodyMemory(1 << 20)
    whole, parts = Answer(LIMITS, memory), Answer(LIMITS, memory)
    lines = raw.splitlines(keepends=True)
    blank = next((at for at, line in enumerate(lines) if not line.strip(b"\r\n")), len(lines))
    body = b"".join(lines[blank + 1 :])
    for line in lines[: blank + 1]:
        assert whole.on_header(line) == parts.on_header(line)
        if whole.stop is not None:
            break
    else:
        if whole.status:
            ended = whole.on_body(body)
            for at in range(0, len(body), step):
                if parts.on_body(body[at : at + step]) is not None:
                    break
            assert whole.body() == parts.body()
            assert (ended is None) == (parts.stop is None)
            assert len(whole.body()) <= LIMITS.body_bytes
            assert whole.head().count(b"\n") == whole.head().count(b"\r\n")
    whole.begin(10, ())
    parts.begin(10, ())
    assert memory.now_bytes == 0, "memory is counted that nobody holds"
