"""Outcome of a transfer from the way it ended: two tables and one rule.

A transfer ends because libcurl says so (a code) or because we stopped it (a `StopReason`). Both tables are data, one
test per row. The rule: an answer other than 2xx is settled by its head, so a later failure of its body only marks it
truncated; a page (2xx) must arrive whole, or it is `too_large`, `timeout` or `bad_answer`, with the received part kept.

`truncated` holds the words of WARC-Truncated: length, time, disconnect, unspecified.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum

import pycurl

from teia.records import Outcome

E_WEIRD_SERVER_REPLY = 8
E_HTTP2_STREAM = 92
E_TOO_LARGE = 100
"""Three of libcurl's codes that pycurl has no name for."""


class StopReason(Enum):
    """Reason why we ended a transfer ourselves; the value is shown to users."""

    ADDRESS = "address blocked by the address guard"
    NO_SOCKET = "no more sockets available on this machine"
    UNPINNED = "no address was pinned for the name"
    STALE_PEER = "idle connection leads to another address"
    HUNG_UP = "idle connection was closed before the request"
    REPEAT = "idle connection was closed before the response"
    NOT_OURS = "the host may belong to another machine by now"
    HEADER_LINE = "header line too long"
    HEADER_COUNT = "too many header lines"
    HEADER_BYTES = "headers too large"
    INTERIM = "too many interim responses"
    UPGRADE = "101 without a request for an upgrade"
    STATUS_LINE = "invalid status line"
    FRAMING = "ambiguous framing"
    TYPE = "media type not wanted"
    BODY = "body too large"
    MEMORY = "too many bytes in flight"
    CLOSED = "fetcher closed"


@dataclass(frozen=True, slots=True)
class FetchVerdict:
    """An outcome (a member's name or an HTTP status as text), why the body is not whole, and a message."""

    outcome: str
    truncated: str = ""
    detail: str = ""


STOPS: dict[StopReason, FetchVerdict] = {
    StopReason.ADDRESS: FetchVerdict(Outcome.BLOCKED_ADDRESS),
    StopReason.NO_SOCKET: FetchVerdict(Outcome.SYSTEM),
    StopReason.UNPINNED: FetchVerdict(Outcome.SYSTEM),
    StopReason.STALE_PEER: FetchVerdict(Outcome.SYSTEM),
    StopReason.HUNG_UP: FetchVerdict(Outcome.SYSTEM),
    StopReason.REPEAT: FetchVerdict(Outcome.CONNECT),
    StopReason.NOT_OURS: FetchVerdict(Outcome.SYSTEM),
    StopReason.HEADER_LINE: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.HEADER_COUNT: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.HEADER_BYTES: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.INTERIM: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.UPGRADE: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.STATUS_LINE: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.FRAMING: FetchVerdict(Outcome.BAD_ANSWER),
    StopReason.TYPE: FetchVerdict(Outcome.FORBIDDEN_TYPE, "unspecified"),
    StopReason.BODY: FetchVerdict(Outcome.TOO_LARGE, "length"),
    StopReason.MEMORY: FetchVerdict(Outcome.SYSTEM, "unspecified"),
    StopReason.CLOSED: FetchVerdict(Outcome.SYSTEM, "unspecified"),
}

CODES: dict[int, Outcome] = {
    pycurl.E_UNSUPPORTED_PROTOCOL: Outcome.BAD_ANSWER,  # also HTTP/0.9
    pycurl.E_COULDNT_CONNECT: Outcome.CONNECT,
    E_WEIRD_SERVER_REPLY: Outcome.BAD_ANSWER,
    pycurl.E_HTTP2: Outcome.BAD_ANSWER,
    E_HTTP2_STREAM: Outcome.BAD_ANSWER,
    pycurl.E_PARTIAL_FILE: Outcome.BAD_ANSWER,
    pycurl.E_OPERATION_TIMEDOUT: Outcome.TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: Outcome.TLS,
    pycurl.E_GOT_NOTHING: Outcome.BAD_ANSWER,
    pycurl.E_SEND_ERROR: Outcome.CONNECT,
    pycurl.E_RECV_ERROR: Outcome.BAD_ANSWER,
    pycurl.E_SSL_CIPHER: Outcome.TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: Outcome.TLS,
    pycurl.E_BAD_CONTENT_ENCODING: Outcome.BAD_ANSWER,
    pycurl.E_FILESIZE_EXCEEDED: Outcome.TOO_LARGE,
    pycurl.E_SSL_ISSUER_ERROR: Outcome.TLS,
    pycurl.E_SSL_INVALIDCERTSTATUS: Outcome.TLS,
    E_TOO_LARGE: Outcome.BAD_ANSWER,  # of the head; bodies are ours to count
}
"""Outcomes of libcurl's errors. Every code that is not here is a failure of our own: `system`."""

BEFORE_ANSWER: frozenset[int] = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_RECV_ERROR})
"""With a network error underneath and not a byte of an answer, these are a connection that was cut: `connect`."""

_CUT = frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EHOSTUNREACH, errno.ENETUNREACH})
_TRUNCATED_BY = {pycurl.E_OPERATION_TIMEDOUT: "time", pycurl.E_FILESIZE_EXCEEDED: "length"}
_BODY_TROUBLE = frozenset(
    {
        pycurl.E_PARTIAL_FILE,
        pycurl.E_OPERATION_TIMEDOUT,
        pycurl.E_RECV_ERROR,
        pycurl.E_FILESIZE_EXCEEDED,
        E_HTTP2_STREAM,
    }
)


@dataclass(frozen=True, slots=True)
class TransferEnd:
    """State of a transfer at its end. `status` is 0 until a whole final head has arrived and was accepted."""

    code: int = 0
    message: str = ""
    os_errno: int = 0
    stop: StopReason | None = None
    status: int = 0
    anything_received: bool = False
    conditional: bool = False


def classify(end: TransferEnd) -> FetchVerdict:
    """Return the verdict on a request."""
    if end.code == 0:
        return _whole_answer(end)
    verdict = STOPS[end.stop] if end.stop else _by_code(end)
    body_trouble = end.stop is StopReason.BODY if end.stop else end.code in _BODY_TROUBLE
    # The body of a redirect or an error is not needed: its status stands, though the body was cut.
    settled_by_head = end.status >= 300 and body_trouble
    outcome = str(end.status) if settled_by_head else verdict.outcome
    return FetchVerdict(outcome, verdict.truncated, end.stop.value if end.stop else end.message)


def _whole_answer(end: TransferEnd) -> FetchVerdict:
    # teia sends no Range header, so a 206 is an incomplete page and must not replace a whole one.
    if end.status == 206:
        return FetchVerdict(Outcome.BAD_ANSWER, "unspecified", "partial content, without a range request")
    if end.status == 304 and not end.conditional:
        return FetchVerdict(Outcome.BAD_ANSWER, detail="not modified, without a conditional request")
    if end.status == 0:
        return FetchVerdict(Outcome.BAD_ANSWER, detail="no final response")
    return FetchVerdict(str(end.status))


def _by_code(end: TransferEnd) -> FetchVerdict:
    if end.code in BEFORE_ANSWER and not end.anything_received and end.os_errno in _CUT:
        return FetchVerdict(Outcome.CONNECT)
    truncated = _TRUNCATED_BY.get(end.code, "disconnect") if end.status else ""
    return FetchVerdict(CODES.get(end.code, Outcome.SYSTEM), truncated)
