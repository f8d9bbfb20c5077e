"""From the body on the wire to the payload: removal of chunks, then of compression.

The archive keeps the body without its chunks but still compressed (`dechunked`): every WARC reader agrees on that
form. All work is bounded by bytes *produced*, because one MiB of gzip may hold a GiB of zeros. A body that ends
early is kept and marked, never silently taken for the whole (libcurl reports a cut gzip as a success).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass

import brotli
import zstandard
from isal import isal_zlib

from teia.config.sections import LimitSettings
from teia.parse.headers import Headers

MAX_CODINGS = 2
STEP_BYTES = 64 * 1024
"""Input given to the decompressor at once; it copies the unused rest, so all at once would be quadratic."""

PIECE_BYTES = 1024 * 1024
RATIO_FREE_BYTES = 1024 * 1024
"""Payload size up to which the compression ratio is not limited."""

GZIP_MAGIC = b"\x1f\x8b"
_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # isal's stub calls the class an instance
_GZIP = 31
_ZLIB = 15
_RAW_DEFLATE = -15
_ZSTD_STEP_BYTES = 64
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MAX_ZSTD_WINDOW = 8 * 2**20  # RFC 9659
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*+(?:;[^\n]*+)?\r?\n")
_CUT_CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{0,16}[ \t]*+(?:;[^\n]*+)?\r?\Z")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body in its two later forms.

    `truncated` is the reason why the payload is incomplete: `chunk` or `coding` (the data ended early), `length` or
    `ratio` (teia stopped). `error` describes a fault of the framing or the coding; the payload is then the part
    before the fault, and empty where the coding is unknown.
    """

    dechunked: bytes
    payload: bytes
    truncated: str = ""
    error: str = ""


def decode(headers: Headers, body: bytes, limits: LimitSettings) -> Decoded:
    """Undo chunks and compression as the headers announce them."""
    truncated = error = ""
    dechunked = body
    if "chunked" in headers.tokens("transfer-encoding"):
        dechunked, truncated, error = dechunk(body, limits.header_line_bytes)
    payload = dechunked
    codings = [coding for coding in headers.tokens("content-encoding") if coding != "identity"]
    if len(codings) > MAX_CODINGS:
        return Decoded(dechunked, b"", truncated, error or f"{len(codings)} nested content encodings")
    # Codings are listed in the order in which they were applied (RFC 9110, 8.4).
    for coding in reversed(codings):
        payload, cut, wrong = _undo(coding, payload, limits)
        truncated, error = truncated or cut, error or wrong
    if len(payload) > limits.decoded_bytes:
        payload, truncated = payload[: limits.decoded_bytes], truncated or "length"
    return Decoded(dechunked, payload, truncated, error)


def dechunk(body: bytes, max_line_bytes: int, max_chunks: int = sys.maxsize) -> tuple[bytes, str, str]:
    """Return the joined chunks, the reason if incomplete (`chunk`), and the error. Extensions and trailers are dropped.

    A body announced as chunked that does not begin with a chunk is kept as it came. A caller whose time is limited
    sets `max_chunks`: a hostile server may send each byte as a chunk.
    """
    pieces: list[bytes] = []
    position = 0
    while True:
        if len(pieces) > max_chunks:
            return b"".join(pieces), "chunk", "too many chunks"
        line = _CHUNK_LINE.match(body, position, position + max_line_bytes)
        if line is None:
            rest = body[position : position + max_line_bytes]
            if len(rest) < max_line_bytes and _CUT_CHUNK_LINE.match(rest):
                return b"".join(pieces), "chunk", ""
            return (b"".join(pieces) if position else body), "", "invalid chunk"
        size, start = int(line.group(1), 16), line.end()
        if size == 0:
            return b"".join(pieces), "", ""
        pieces.append(body[start : start + size])
        if start + size > len(body):
            return b"".join(pieces), "chunk", ""
        position = start + size
        position += 2 if body.startswith(b"\r\n", position) else 1 if body.startswith(b"\n", position) else 0


def _undo(coding: str, data: bytes, limits: LimitSettings) -> tuple[bytes, str, str]:
    if not data:
        return data, "", ""
    if coding in {"gzip", "x-gzip"}:
        if not GZIP_MAGIC.startswith(data[:2]):
            return data, "", "not gzip, although declared"
        return gunzip(data, limits.decoded_bytes, limits.decoded_ratio)
    if coding == "deflate":
        # `deflate` is zlib by the standard and raw deflate from some servers; a zlib header is divisible by 31.
        wrapped = len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
        pieces = _inflate(data, _ZLIB if wrapped else _RAW_DEFLATE)
    elif coding in _UNREQUESTED:
        pieces = _UNREQUESTED[coding](data)
    else:
        return b"", "", f"unknown content encoding {coding[:40]!r}"
    return _collect(pieces, limits.decoded_bytes, limits.decoded_ratio)


def gunzip(data: bytes, max_bytes: int, max_ratio: int) -> tuple[bytes, str, str]:
    """Undo gzip that is the document itself (`sitemap.xml.gz`) rather than a coding of the answer."""
    return _collect(_inflate(data, _GZIP), max_bytes, max_ratio)


Pieces = Generator[tuple[bytes, int], None, str]
"""Pieces of a payload, each with the number of coded bytes read so far; returns the reason if the data ended early."""


def _collect(pieces: Pieces, max_bytes: int, max_ratio: int) -> tuple[bytes, str, str]:
    """Join a payload; return it, the reason if incomplete, and the error."""
    payload: list[bytes] = []
    produced = 0
    while True:
        try:
            piece, consumed = next(pieces)
        except StopIteration as end:
            return b"".join(payload), end.value, ""
        except (_IsalError, ValueError, brotli.error, zstandard.ZstdError):
            return b"".join(payload), "", "invalid compressed data"
        payload.append(piece)
        produced += len(piece)
        if produced > max_bytes:
            return b"".join(payload)[:max_bytes], "length", ""
        # Checked piece by piece: a bomb ends after one piece too many, not after all of it.
        if produced > RATIO_FREE_BYTES and produced > max_ratio * consumed:
            return b"".join(payload), "ratio", ""


def _inflate(data: bytes, wbits: int) -> Pieces:
    """Decompress gzip, zlib or raw deflate.

    Several gzip members in a row are one payload (RFC 1952); anything else after the end is ignored, as browsers
    do.
    """
    position = 0
    while True:
        member = isal_zlib.decompressobj(wbits)
        pending, full = b"", False
        while not member.eof:
            if not pending and not full:
                pending = data[position : position + STEP_BYTES]
                position += len(pending)
                if not pending:
                    return "coding"
            piece: bytes = member.decompress(pending, PIECE_BYTES)
            pending, full = member.unconsumed_tail, len(piece) == PIECE_BYTES
            yield piece, position - len(pending)
        # The next gzip member begins where this one ended.
        position -= len(member.unused_data)
        if wbits != _GZIP or not data.startswith(GZIP_MAGIC, position):
            return ""


def _decode_brotli(data: bytes) -> Pieces:
    decoder = brotli.Decompressor()
    position = 0
    while not decoder.is_finished():
        step = data[position : position + STEP_BYTES] if decoder.can_accept_more_data() else b""
        position += len(step)
        piece: bytes = decoder.process(step, output_buffer_limit=PIECE_BYTES)
        if not step and not piece:
            return "coding"
        yield piece, position
    return ""


def _decode_zstd(data: bytes) -> Pieces:
    """Decompress all frames. Their output cannot be limited, so each step is small: 4 bytes may stand for 128 KiB."""
    position = 0
    while True:
        decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).decompressobj()
        while not decoder.eof:
            step = data[position : position + _ZSTD_STEP_BYTES]
            if not step:
                return "coding"
            position += len(step)
            yield decoder.decompress(step), position
        position -= len(decoder.unused_data)
        if not data.startswith(_ZSTD_MAGIC, position):
            return ""


_UNREQUESTED: dict[str, Callable[[bytes], Pieces]] = {"br": _decode_brotli, "zstd": _decode_zstd}
"""Codings that some servers send although requests name gzip alone (decision 6)."""
