"""ARC files, the format before WARC, read as captures: each record becomes a WARC record of ours.

    http://example.com/a 192.0.2.1 20040102030405 text/html 1234      URL, address, time, type, length of the block
    HTTP/1.0 200 OK                                                   the block: the answer as it came

A file is read from its beginning to its end, whether each record is a gzip member, all of them are one, or none is
compressed. ARC has no marks between records, so damage ends the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from isal import igzip_lib

from teia.clock import iso_utc
from teia.durable import disk_errors
from teia.store.reader import MAX_RECORD_BYTES, ArchiveRecord, Damage, open_inflated, split_head
from teia.store.warc import digest_of, header_url, header_value, record_header

MAX_LINE_BYTES = 1 << 14
_PIECE = 1 << 20
_LINE = re.compile(
    rb"(?P<url>[a-z][a-z0-9+.-]*:\S.*?) (?P<address>\S+) (?P<date>\d{14})\d* (?P<type>\S+)(?: .*)?"
    rb" (?P<length>\d{1,12})",
    re.IGNORECASE,
)


def is_arc(path: Path) -> bool:
    """Tell whether a file begins like an ARC file."""
    try:
        with disk_errors(path, "read"), open_inflated(path) as stream:
            return stream.read(9) == b"filedesc:"
    except (EOFError, igzip_lib.IsalError):  # type: ignore[misc]  # a class; its stub says an instance
        return False


def arc_records(path: Path, on_damage: Callable[[Damage], None]) -> Iterator[tuple[int, ArchiveRecord, bytes]]:
    """Yield number, record and WARC header of each answer; the description of the file itself is left out."""
    number = 0
    try:
        with disk_errors(path, "read"), open_inflated(path) as stream:
            while line := _header_line(stream):
                match = _LINE.fullmatch(line)
                if match is None:
                    on_damage(Damage(path, number, f"record {number}: not an ARC record"))
                    return
                block = _block(stream, int(match["length"]))
                if block is None:
                    on_damage(Damage(path, number, f"record {number}: more than {MAX_RECORD_BYTES} bytes"))
                elif len(block) < int(match["length"]):
                    on_damage(Damage(path, number, f"record {number}: the file ends within a record"))
                elif not match["url"].lower().startswith(b"filedesc:"):
                    try:
                        yield number, *_record(path, match, block)
                    except ValueError:
                        on_damage(Damage(path, number, f"record {number}: its date is not a time"))
                number += 1
    except (EOFError, igzip_lib.IsalError) as error:  # type: ignore[misc]  # as above
        on_damage(Damage(path, number, f"record {number}: cannot be decompressed: {error}"))


def _header_line(stream: IO[bytes]) -> bytes:
    """Return the next line that is not empty, without its end; empty at the end of the file."""
    while line := stream.readline(MAX_LINE_BYTES):
        if stripped := line.strip(b"\r\n"):
            return stripped
    return b""


def _block(stream: IO[bytes], length: int) -> bytes | None:
    """Read a block; None, after passing over it, if it is too large."""
    if length <= MAX_RECORD_BYTES:
        return stream.read(length)
    while length > 0 and (piece := stream.read(min(length, _PIECE))):
        length -= len(piece)
    return None


def _record(path: Path, match: re.Match[bytes], block: bytes) -> tuple[ArchiveRecord, bytes]:
    url = header_url(match["url"].decode("utf-8", "replace"))
    time_s = datetime.strptime(match["date"].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    address = header_value(match["address"].decode("latin-1"))
    headers = {"warc-ip-address": address} if address not in {"-", "0.0.0.0"} else {}  # noqa: S104  # "no address"
    kind, media_type = "resource", header_value(match["type"].decode("latin-1"))
    if block.startswith(b"HTTP/"):
        kind, media_type = "response", "application/http; msgtype=response"
        headers["warc-payload-digest"] = digest_of(split_head(block)[1])
    extra = "".join(f"{_NAMES[name]}: {value}\r\n" for name, value in headers.items())
    block_digest = f"sha256:{hashlib.sha256(block).hexdigest()}"
    record_id, header = record_header(kind, url, iso_utc(time_s), media_type, extra, block_digest, len(block))
    headers |= {"warc-record-id": record_id, "warc-block-digest": block_digest, "content-type": media_type}
    record = ArchiveRecord(path.name, 0, len(block), kind, url, time_s, headers, block)
    return record, header.encode()


_NAMES = {"warc-ip-address": "WARC-IP-Address", "warc-payload-digest": "WARC-Payload-Digest"}
