"""WARC files: any bytes are read, damage is reported and passed over, and answers that were written are read back."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

from teia.errors import StoreError
from teia.store.cdxj import index_lines
from teia.store.reader import Damage, answer_of, file_records, is_one_member, record_of, walk_decompressed
from teia.store.warc import page_members
from tests.fuzz.pieces import Pieces, folder, text_of
from tests.store.answers import fetched, page

MAX_BYTES = 1 << 20
SEEDS = (
    b"\x00" + page(1, b"<p>one").data,
    b"\x01http://a.test/x y\xffHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX:\n y\r\n\xffbody\r\n\r\nWARC/1.1\r\n",
    b"\x02WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.test/>\r\nWARC-Date: 2024-01-02T03:04:05Z\r\n"
    b"Content-Length: 45\r\n\r\nHTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\r\n\r\n",
    b"\x03WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: http://a.test/\r\nWARC-Date: 2024-01-02T03:04:05.5Z\r\n"
    b"WARC-Refers-To-Target-URI: http://a.test/1\r\nWARC-Refers-To-Date: 2023-01-02T03:04:05Z\r\nContent-Length: 19\r\n"
    b"\r\nHTTP/1.1 304 No\r\n\r\n\r\n\r\n",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    how = pieces.number() % 4
    if how == 1:
        _written(pieces.text(), pieces.field(), pieces.rest())
        return
    content = pieces.rest()
    path = folder() / ("x.warc" if how == 2 else "x.warc.gz")
    if how == 3:  # each part a member of its own
        content = b"".join(zlib.compress(part, 1, 31) for part in content.split(b"\xff"))
    path.write_bytes(content)
    _read(path)


def _read(path: Path) -> None:
    damages: list[Damage] = []
    end = 0
    for record in file_records(path, damages.append, max_record_bytes=MAX_BYTES):
        assert record.offset >= end, "records overlap"
        end = record.offset + record.length
        assert len(record.block) <= MAX_BYTES
        if record.kind in {"response", "revisit"}:
            for is_decoded in (True, False):
                try:
                    assert len(answer_of(record, is_decoded, MAX_BYTES).payload) <= MAX_BYTES
                except StoreError:
                    continue
    lines = list(index_lines(path))
    assert lines == sorted(lines)
    for line in lines:
        assert line.count(b"\n") == 1
        json.loads(line.split(b" ", 2)[2])
    if is_one_member(path):
        for member in walk_decompressed(path, MAX_BYTES):
            try:
                record_of(path, member)
            except StoreError:
                continue


def _written(url: str, head: bytes, body: bytes) -> None:
    """Archive an answer as the crawler does; the file must have the records that were written, and no others."""
    answer = replace(fetched(head), url=f"http://a.test/{url}", request_head=head[:200], detail=url)
    members = page_members(answer, body, {"note": url, "other": text_of(body)})
    path = folder() / "x.warc.gz"
    path.write_bytes(members.data)
    records = list(file_records(path))
    assert tuple(record.kind for record in records) == members.kinds, "a record was injected"
    assert tuple(record.length for record in records) == members.lengths
    for record in records:
        assert not re.search(r"[\r\n\0]", "".join(record.headers.values()))
        if record.kind == "response":
            assert record.block.endswith(body)
            answer_of(record)
