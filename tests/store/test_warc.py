from __future__ import annotations

import io
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastwarc.stream_io import BrotliWriter
from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # it ships no types

from teia.clock import iso_utc
from teia.records import Fetched
from teia.store.warc import (
    GZIP_HEADER,
    IDENTICAL,
    NOT_MODIFIED,
    Members,
    RevisitOf,
    _repaired_head,
    _repaired_request,
    _request_head,
    digest_of,
    final_head,
    header_url,
    page_members,
    warcinfo_member,
)

from .answers import PAGE, REQUEST, START_S, fetched, gzipped

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def by_warcio(data: bytes) -> list[tuple[Any, bytes]]:
    """Every record as warcio reads it, with its payload decoded, digests checked."""
    records = ArchiveIterator(io.BytesIO(data), check_digests="raise")
    return [(record, record.content_stream().read()) for record in records]


def by_fastwarc(data: bytes) -> list[tuple[Any, bytes]]:
    found = []
    for record in FastIterator(io.BytesIO(data), parse_http=False):
        assert record.verify_block_digest()
        record.parse_http(auto_decode="all")
        found.append((record, record.reader.read()))
        record.freeze()
    return found


def check(folder: Path, data: bytes) -> None:
    """`warcio check`, as anyone would run it."""
    path = folder / "x.warc.gz"
    path.write_bytes(data)
    run = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", path], capture_output=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout.decode()


def headers(record: Any) -> dict[str, str]:
    return dict(record.rec_headers.headers)


def response_of(members: Members) -> tuple[Any, bytes]:
    return next(each for each in by_warcio(members.data) if each[0].rec_type in {"response", "revisit"})


# ---- other people's readers -----------------------------------------------------------------------------------------

ANSWERS: dict[str, tuple[bytes, bytes, bytes]] = {
    # name: head as received, body without its chunks, payload a reader should get
    "plain": (PLAIN + b"Content-Length: %d\r\n\r\n" % len(PAGE), PAGE, PAGE),
    "chunked": (PLAIN + b"Transfer-Encoding: chunked\r\n\r\n", PAGE, PAGE),
    "gzip": (PLAIN + b"Content-Encoding: gzip\r\n\r\n", gzipped(PAGE), PAGE),
    "gzip and chunked": (PLAIN + b"transfer-encoding : Chunked\r\nContent-Encoding: gzip\r\n\r\n", gzipped(PAGE), PAGE),
    "trailers announced": (PLAIN + b"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n", PAGE, PAGE),
    "trailers after the head": (PLAIN + b"Transfer-Encoding: chunked\r\n\r\nX-Sum: 1\r\n\r\n", PAGE, PAGE),
    "interim responses": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + PLAIN + b"\r\n",
        PAGE,
        PAGE,
    ),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Type: text/html\nServer: x\n\n", PAGE, PAGE),
    "bare LF chunked": (b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", PAGE, PAGE),
    "lower-case http": (b"http/1.1 200 OK\r\nA: b\r\n\r\n", PAGE, PAGE),
    "no reason": (b"HTTP/1.1 200\r\nA: b\r\n\r\n", PAGE, PAGE),
    "HTTP/2": (b"HTTP/2 200\r\na: b\r\n\r\n", PAGE, PAGE),
    "folded header": (b"HTTP/1.1 200 OK\r\nX-Long: one\r\n  two\r\n\r\n", PAGE, PAGE),
    "no headers": (b"HTTP/1.0 200 OK\r\n\r\n", PAGE, PAGE),
    "header without a colon": (b"HTTP/1.1 200 OK\r\nnonsense\r\nA: b\r\n\r\n", PAGE, PAGE),
    "empty body": (PLAIN + b"Content-Length: 0\r\n\r\n", b"", b""),
    "longer than its length": (PLAIN + b"Content-Length: 5\r\n\r\n", PAGE, PAGE),
    "short of its length": (PLAIN + b"Content-Length: 999999\r\n\r\n", PAGE, PAGE),
    "binary": (b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", bytes(range(256)) * 40, bytes(range(256)) * 40),
    "body like a record": (
        PLAIN + b"\r\n",
        b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n",
        b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n",
    ),
    "404": (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n", b"<p>no", b"<p>no"),
    "999": (b"HTTP/1.1 999 No\r\nContent-Type: text/html\r\n\r\n", b"<p>no", b"<p>no"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_other_readers_find_head_and_payload(name: str) -> None:
    head, body, payload = ANSWERS[name]
    members = page_members(fetched(head), body, {"outcome": "200"})
    for read in (by_warcio, by_fastwarc):
        records = read(members.data)
        assert len(records) == len(members.kinds) == 3
        assert records[1][1] == payload
    warcio_record = by_warcio(members.data)[1][0]
    fast_record = by_fastwarc(members.data)[1][0]
    assert (
        int(warcio_record.http_headers.get_statuscode()) == fast_record.http_headers.status_code == fetched(head).status
    )
    assert members.payload_digest == digest_of(body)


def test_warcio_check_finds_nothing_wrong(tmp_path: Path) -> None:
    answers = [page_members(fetched(head), body, {"name": name}).data for name, (head, body, _) in ANSWERS.items()]
    check(tmp_path, warcinfo_member("x.warc.gz", START_S, {"software": "teia"}) + b"".join(answers))


def test_brotli_is_kept_as_received() -> None:
    squeezed = io.BytesIO()
    with BrotliWriter(squeezed) as brotli:
        brotli.write(PAGE)
    body = squeezed.getvalue()
    members = page_members(fetched(PLAIN + b"Content-Encoding: br\r\n\r\n"), body, {})
    assert by_fastwarc(members.data)[1][1] == PAGE
    raw = next(
        each for each in FastIterator(io.BytesIO(members.data), parse_http=False) if "response" in str(each.record_type)
    )
    raw.parse_http(auto_decode="none")
    assert raw.reader.read() == body


def test_transfer_encoding_is_renamed_and_nothing_else() -> None:
    head = final_head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Transfer-Encoding: a\r\nContent-Encoding: gzip\r\n\r\n"
    )
    assert head is not None
    assert head.block.splitlines() == [
        b"HTTP/1.1 200 OK",
        b"X-Crawler-Transfer-Encoding: chunked",
        b"X-Transfer-Encoding: a",
        b"Content-Encoding: gzip",
        b"",
    ]


def test_interim_answers_are_counted_in_the_metadata() -> None:
    members = page_members(fetched(ANSWERS["interim responses"][0]), PAGE, {})
    assert members.kinds == ("request", "response", "metadata")
    assert by_warcio(members.data)[2][1] == b"interim-answers: 2\r\n"


@pytest.mark.parametrize(
    "head", [b"", b"garbage\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1 103 Hints\r\n\r\n"]
)
def test_without_a_readable_head_there_is_no_response_record(head: bytes) -> None:
    members = page_members(replace(fetched(), head=head, status=0), b"", {"outcome": "bad_answer"})
    assert members.kinds == ("request", "metadata")
    assert not {"response", "revisit"} & set(members.kinds)
    assert len(by_warcio(members.data)) == 2


def test_nothing_to_say_makes_no_metadata_record() -> None:
    assert page_members(fetched(), PAGE, {}).kinds == ("request", "response")
    assert page_members(replace(fetched(), request_head=b""), PAGE, {}).kinds == ("response",)


# ---- one member per record ------------------------------------------------------------------------------------------


def test_every_record_is_a_gzip_member_of_the_stated_length() -> None:
    members = page_members(fetched(), PAGE, {"a": "b"})
    offset = 0
    for length, kind in zip(members.lengths, members.kinds, strict=True):
        member = members.data[offset : offset + length]
        unzip = zlib.decompressobj(31)
        text = unzip.decompress(member)
        assert member.startswith(GZIP_HEADER)
        assert unzip.eof
        assert not unzip.unused_data
        assert f"WARC-Type: {kind}\r\n".encode() in text
        offset += length
    assert offset == len(members.data)


def test_equal_answers_give_equal_bytes() -> None:
    assert page_members(fetched(), PAGE, {"a": "b"}) == page_members(fetched(), PAGE, {"a": "b"})


def test_records_of_different_urls_times_and_bodies_have_different_ids() -> None:
    others = [
        (fetched(), PAGE),
        (fetched(), PAGE + b"."),
        (fetched(url="http://a.test/b"), PAGE),
        (replace(fetched(), started_s=START_S + 1e-6), PAGE),
    ]
    assert len({page_members(answer, body, {}).record_id for answer, body in others}) == 4


def test_headers_say_what_the_standard_asks() -> None:
    members = page_members(replace(fetched(), truncated="length"), PAGE, {"a": "b"})
    request, response, metadata = (headers(record) for record, _ in by_warcio(members.data))
    assert response["WARC-Date"] == iso_utc(START_S) == "2023-11-14T22:13:20.250000Z"
    assert response["WARC-Record-ID"] == members.record_id
    assert response["WARC-Target-URI"] == "http://a.test/a"
    assert response["WARC-IP-Address"] == "127.77.0.1"
    assert response["WARC-Payload-Digest"] == members.payload_digest
    assert response["WARC-Truncated"] == "length"
    assert request["WARC-Concurrent-To"] == metadata["WARC-Concurrent-To"] == members.record_id
    assert metadata["Content-Type"] == "application/warc-fields"


def test_an_unknown_reason_for_truncation_is_unspecified() -> None:
    record, _ = response_of(page_members(replace(fetched(), truncated="bomb\r\nX: y"), PAGE, {}))
    assert headers(record)["WARC-Truncated"] == "unspecified"


def test_credentials_are_not_archived() -> None:
    request = REQUEST[:-2] + b"Authorization: Basic c2VjcmV0\r\ncookie: session=secret\r\nAccept: */*\r\n\r\n"
    members = page_members(replace(fetched(), request_head=request), PAGE, {})
    record, _ = by_warcio(members.data)[0]
    assert (
        record.http_headers.get_header("Authorization") == record.http_headers.get_header("Cookie") == "(not archived)"
    )
    assert record.http_headers.get_header("Accept") == "*/*"


# ---- revisits -------------------------------------------------------------------------------------------------------


def test_a_body_we_have_becomes_a_revisit() -> None:
    first = page_members(fetched(), PAGE, {})
    earlier = RevisitOf("http://b.test/x", START_S - 9, first.payload_digest, first.record_id)
    members = page_members(fetched(), PAGE, {}, earlier)
    record, payload = response_of(members)
    assert (record.rec_type, payload) == ("revisit", b"")
    assert members.kinds == ("request", "revisit")
    assert members.payload_digest == first.payload_digest
    assert headers(record)["WARC-Profile"] == IDENTICAL
    assert headers(record)["WARC-Refers-To"] == first.record_id
    assert headers(record)["WARC-Refers-To-Target-URI"] == "http://b.test/x"
    assert headers(record)["WARC-Refers-To-Date"] == iso_utc(START_S - 9)
    assert record.http_headers.get_statuscode() == "200"
    assert len(by_fastwarc(members.data)) == 2


def test_not_modified_becomes_a_revisit() -> None:
    earlier = RevisitOf("http://a.test/a", START_S - 9, digest_of(PAGE))
    members = page_members(fetched(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'), b"", {}, earlier)
    record, _ = response_of(members)
    assert headers(record)["WARC-Profile"] == NOT_MODIFIED
    assert headers(record)["WARC-Payload-Digest"] == digest_of(PAGE)
    assert record.http_headers.get_statuscode() == "304"


@pytest.mark.parametrize(
    ("answer", "body", "digest"),
    [
        (fetched(), PAGE + b".", digest_of(PAGE)),
        (replace(fetched(), truncated="time"), PAGE, digest_of(PAGE)),
        (fetched(), b"", digest_of(b"")),
    ],
    ids=["other body", "truncated", "empty"],
)
def test_what_is_not_the_same_payload_is_stored_whole(answer: Fetched, body: bytes, digest: str) -> None:
    members = page_members(answer, body, {}, RevisitOf("http://a.test/a", START_S - 9, digest))
    assert members.kinds == ("request", "response")
    assert response_of(members)[1] == body


# ---- injection (entry 35) -------------------------------------------------------------------------------------------

INJECTIONS = [
    "http://a.test/\r\nWARC-Type: warcinfo\r\n\r\nx",
    "http://a.test/\nWARC-Type: warcinfo",
    "http://a.test/\0\x7f\x1b[31m",
    "http://a.test/\u2028\x85é\udc80",
    "http:\r\n\r\nWARC/1.1\r\n",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_nothing_from_outside_ends_a_header_line(text: str) -> None:
    octets = text.encode("utf-8", "surrogatepass")
    head = b"HTTP/1.1 200 " + octets.replace(b"\n\n", b"\n") + b"\r\nServer: x\r\r\n\r\n"
    answer = Fetched(text, "200", 200, START_S, START_S, text, REQUEST, head, b"", "", text)
    members = page_members(
        answer, PAGE, {"title": text, text: "name", "Via": text}, RevisitOf(text, START_S, text, text)
    )
    records = by_warcio(members.data)
    assert len(records) == len(by_fastwarc(members.data)) == len(members.kinds)
    for record, _ in records:
        for name, value in record.rec_headers.headers:
            assert not set(name + value) & set("\r\n\0")
        assert [name for name, _ in record.rec_headers.headers].count("WARC-Type") == 1


@pytest.mark.parametrize("text", INJECTIONS)
def test_revisit_and_warcinfo_headers_hold_one_line_each(text: str) -> None:
    answer = fetched(b"HTTP/1.1 304 Not Modified\r\n\r\n", url=text)
    members = page_members(answer, b"", {}, RevisitOf(text, START_S, text, text))
    info = warcinfo_member(text, START_S, {"isPartOf": text, text: text})
    for data, count in ((members.data, 2), (info, 1)):
        records = by_warcio(data)
        assert len(records) == count
        assert all(not set(value) & set("\r\n\0") for record, _ in records for _, value in record.rec_headers.headers)


HEAD_PIECES = [
    "HTTP/1.1 200 OK", "HTTP/1.1 200", "http/1.0  404 Not Found ", "HTTP/1.1 100 Continue", "GET / HTTP/1.1", "\r\n",
    "\r\n", "\r\n\r\n", "\n", "\r", "\0", " ", "\t", "\v", ":", "A: b", "Host: a.test", "Transfer-Encoding: chunked",
    "transfer-encoding :x", "Cookie: s", "cookie", "Authorization:x", "X-Cookie: y", "no colon", "Ä: é",
]  # fmt: skip


@given(st.lists(st.sampled_from(HEAD_PIECES), max_size=9).map("".join))
def test_heads_that_need_no_mending_are_seen_to_be_so(text: str) -> None:
    raw = text.encode("latin-1")
    for head in (raw, raw + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + raw + b"\r\n\r\n"):
        assert final_head(head) == _repaired_head(head)
        assert _request_head(head) == _repaired_request(head)


def test_carriage_returns_and_nuls_within_a_header_become_blanks() -> None:
    head = final_head(b"HTTP/1.1 200 O\rK\r\nLocation: http://a.test/\r\0Set-Cookie: a\r\n\r\n")
    assert head is not None
    assert head.block == b"HTTP/1.1 200 O K\r\nLocation: http://a.test/  Set-Cookie: a\r\n\r\n"


def test_canonical_urls_are_written_as_they_are() -> None:
    url = "http://a.test/%C3%A9?q=a%20b&c=[1]'\"~"
    assert header_url(url) == url


@given(head=st.binary(max_size=200), body=st.binary(max_size=100), url=st.text(max_size=40), value=st.text(max_size=40))
def test_whatever_comes_the_records_can_be_counted(head: bytes, body: bytes, url: str, value: str) -> None:
    answer = Fetched(url, "200", 200, START_S, START_S, "127.0.0.1", REQUEST, b"HTTP/1.1 200 " + head, body)
    members = page_members(answer, body, {"value": value})
    assert len(list(FastIterator(io.BytesIO(members.data), parse_http=False))) == len(members.kinds)
