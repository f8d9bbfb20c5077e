"""Every row of the tables that turn the end of a transfer into an outcome."""

from __future__ import annotations

import errno

import pycurl
import pytest

from teia.fetch.outcome import (
    CODES,
    E_HTTP2_STREAM,
    E_TOO_LARGE,
    E_WEIRD_SERVER_REPLY,
    STOPS,
    StopReason,
    TransferEnd,
    classify,
)

WRITE_ERROR, ABORTED = 23, 42

BY_CODE = [
    (1, "bad_answer"),
    (3, "system"),
    (6, "system"),
    (7, "connect"),
    (E_WEIRD_SERVER_REPLY, "bad_answer"),
    (16, "bad_answer"),
    (18, "bad_answer"),
    (WRITE_ERROR, "system"),
    (27, "system"),
    (28, "timeout"),
    (35, "tls"),
    (ABORTED, "system"),
    (49, "system"),
    (52, "bad_answer"),
    (55, "connect"),
    (56, "bad_answer"),
    (59, "tls"),
    (60, "tls"),
    (61, "bad_answer"),
    (63, "too_large"),
    (77, "system"),
    (83, "tls"),
    (92, "bad_answer"),
    (91, "tls"),
    (E_TOO_LARGE, "bad_answer"),
    (999, "system"),
]

BY_STOP = [
    (StopReason.ADDRESS, "blocked_address", ""),
    (StopReason.NO_SOCKET, "system", ""),
    (StopReason.UNPINNED, "system", ""),
    (StopReason.STALE_PEER, "system", ""),
    (StopReason.HUNG_UP, "system", ""),
    (StopReason.REPEAT, "connect", ""),
    (StopReason.NOT_OURS, "system", ""),
    (StopReason.HEADER_LINE, "bad_answer", ""),
    (StopReason.HEADER_COUNT, "bad_answer", ""),
    (StopReason.HEADER_BYTES, "bad_answer", ""),
    (StopReason.INTERIM, "bad_answer", ""),
    (StopReason.UPGRADE, "bad_answer", ""),
    (StopReason.STATUS_LINE, "bad_answer", ""),
    (StopReason.FRAMING, "bad_answer", ""),
    (StopReason.TYPE, "forbidden_type", "unspecified"),
    (StopReason.BODY, "too_large", "length"),
    (StopReason.MEMORY, "system", "unspecified"),
    (StopReason.CLOSED, "system", "unspecified"),
]


@pytest.mark.parametrize(("code", "outcome"), BY_CODE)
def test_code_without_an_answer(code: int, outcome: str) -> None:
    verdict = classify(TransferEnd(code=code, message="said libcurl"))
    assert (verdict.outcome, verdict.truncated, verdict.detail) == (outcome, "", "said libcurl")


@pytest.mark.parametrize(("stop", "outcome", "truncated"), BY_STOP)
def test_stop(stop: StopReason, outcome: str, truncated: str) -> None:
    verdict = classify(TransferEnd(code=WRITE_ERROR, message="said libcurl", stop=stop))
    assert (verdict.outcome, verdict.truncated, verdict.detail) == (outcome, truncated, stop.value)


def test_every_row_of_the_tables_is_here() -> None:
    assert {stop for stop, _, _ in BY_STOP} == set(StopReason) == set(STOPS)
    assert set(CODES) <= {code for code, _ in BY_CODE}


@pytest.mark.parametrize(
    ("code", "outcome", "truncated"),
    [
        (pycurl.E_PARTIAL_FILE, "bad_answer", "disconnect"),
        (pycurl.E_RECV_ERROR, "bad_answer", "disconnect"),
        (E_HTTP2_STREAM, "bad_answer", "disconnect"),
        (pycurl.E_OPERATION_TIMEDOUT, "timeout", "time"),
        (pycurl.E_FILESIZE_EXCEEDED, "too_large", "length"),
    ],
)
def test_trouble_in_the_body_spoils_a_page_but_not_a_redirect(code: int, outcome: str, truncated: str) -> None:
    page = classify(TransferEnd(code=code, status=200, anything_received=True))
    assert (page.outcome, page.truncated) == (outcome, truncated)
    for status in (301, 404, 503):
        other = classify(TransferEnd(code=code, status=status, anything_received=True))
        assert (other.outcome, other.truncated) == (str(status), truncated)


def test_trouble_with_framing_spoils_every_answer() -> None:
    assert classify(TransferEnd(code=E_WEIRD_SERVER_REPLY, status=404, anything_received=True)).outcome == "bad_answer"


@pytest.mark.parametrize("code", [pycurl.E_RECV_ERROR, pycurl.E_SSL_CONNECT_ERROR])
def test_cut_before_the_first_byte_is_a_connection_failure(code: int) -> None:
    assert classify(TransferEnd(code=code, os_errno=errno.ECONNRESET)).outcome == "connect"
    assert classify(TransferEnd(code=code, os_errno=errno.ECONNRESET, anything_received=True)).outcome != "connect"
    assert classify(TransferEnd(code=code, os_errno=0)).outcome != "connect"


@pytest.mark.parametrize("status", [200, 204, 301, 404, 410, 429, 503, 999])
def test_whole_answer_is_its_status(status: int) -> None:
    assert classify(TransferEnd(status=status)).outcome == str(status)


def test_answers_to_questions_that_were_not_asked() -> None:
    assert classify(TransferEnd(status=304)).outcome == "bad_answer"
    assert classify(TransferEnd(status=304, conditional=True)).outcome == "304"
    part = classify(TransferEnd(status=206))
    assert (part.outcome, part.truncated) == ("bad_answer", "unspecified")
    assert classify(TransferEnd(status=0)).outcome == "bad_answer"
