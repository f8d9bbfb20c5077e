"""The real fetcher: libcurl, with pinned addresses and checks at each step.

Three hooks guarantee that the address which was checked is the address that receives the request:

    RESOLVER_START_FUNCTION  refuses every look-up, so a missing pin fails instead of using the system's resolver
    OPENSOCKETFUNCTION       lets the guard check the very address that libcurl is about to connect to
    PREREQFUNCTION           compares the peer before each request, also on a kept connection, which ignores pins

A kept connection to an address that is no longer the host's, or that the server has closed, is dropped there and the
transfer begins again on a fresh one; nothing was sent yet. The same hook is called a second time when libcurl wants to
repeat a request whose kept connection died, and refuses: the server may have seen the first one, and its politeness
delay comes before any other. Connections of servers that close them like that are not kept for a while.

Handles are made by one function and never `reset()`, which would take the hooks away.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import certifi
import pycurl

from teia import urls
from teia.clock import Clock
from teia.config.sections import LimitSettings
from teia.errors import ConfigError, WrongValue
from teia.fetch.answer import Answer, BodyMemory
from teia.fetch.driver import Curl, CurlDriver
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.fetch.keep_alive import IdleSockets, KeepAliveBudget, Local
from teia.fetch.outcome import StopReason, TransferEnd, classify
from teia.fetch.wire import Pin, RequestHeaders, pin_for, recipient_of, request_head, request_headers
from teia.records import Fetched, Outcome

IDLE_S = 60.0
"""A connection unused for longer is not used again."""

HELD_BYTES = 256 * 2**20
"""Body bytes of all transfers under way together."""

_SLOWEST_BYTES_PER_S = 1024
_RECEIVE_BYTES = 64 * 1024
_MAX_DETAIL_CHARS = 200

MAX_PINS = 4_096
"""Names in libcurl's cache. Every transfer walks them: 2 us for so many, 80 for fifty thousand."""

Done = Callable[[Fetched], None]

_NOT_SENT = frozenset({StopReason.STALE_PEER, StopReason.HUNG_UP})
"""Ends of transfers whose request was not sent, so that it may go out on a fresh connection at once."""


_UNANSWERED = frozenset({StopReason.REPEAT, StopReason.NOT_OURS})
"""Ends of transfers that say nothing of the URL or its host: the request was sent in vain, or not at all."""

_SILENT = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_GOT_NOTHING, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR})
"""Ends of transfers to servers that refuse HTTP/1.1: by a TLS alert, or by closing the connection."""


class CurlTransfer:
    """A libcurl handle with its hooks, and the request it carries now."""

    def __init__(self, guard: AddressGuard, answer: Answer, idle_sockets: IdleSockets, bind: str = "") -> None:
        self._bind = bind
        self._guard = guard
        self._idle_sockets = idle_sockets
        self._checked = 0
        self._opened: socket.socket | None = None
        self.local: Local = ("", 0)
        self.answer = answer
        self.curl: Curl = pycurl.Curl()
        self.request = FetchRequest("", "", 0)
        self.done: Done
        self.head = b""
        self.started_s = 0.0
        # Bytes received at the last check of the speed, and the time of that check.
        self.mark_bytes = 0
        self.mark_s = 0.0
        # Current options of the handle, so that only changes are passed to libcurl.
        self.pin: Pin | None = None
        self.connect_to = ""
        self.headers: RequestHeaders | None = None
        self.keeps = True
        self.offers_http2 = False
        self.is_fresh = False
        self.is_post = False

    def begin(self) -> None:
        self._checked = 0
        self.mark_bytes = 0
        self.answer.begin(self.request.max_body_bytes, self.request.types)

    def is_slow(self, now_s: float, patience_s: float) -> bool:
        """Tell whether less than 1 KiB/s arrived for `patience_s`, counted from when the request was sent."""
        received = self.answer.received_bytes
        if not self._checked or received - self.mark_bytes >= _SLOWEST_BYTES_PER_S * patience_s:
            self.mark_bytes, self.mark_s = received, now_s
        return now_s - self.mark_s >= patience_s

    def end(self) -> None:
        self.answer.begin(0, ())
        self._drop_opened()

    def _drop_opened(self) -> None:
        """Close our side of the socket made last: pycurl gives libcurl a duplicate of it."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def on_resolver_start(self, *_: object) -> int:
        self.answer.stop = StopReason.UNPINNED
        return 1

    def on_open_socket(self, _purpose: int, wanted: tuple[int, int, int, tuple[Any, ...]]) -> socket.socket | int:
        family, kind, protocol, (address, port, *_) = wanted
        # The address that libcurl is about to connect to, after pins and CONNECT_TO.
        guard = self.request.guard or self._guard
        refusal = guard.check(address, port, is_cache=self.request.cache_only)
        if refusal is not None or address != self.request.address or port != self.request.connect_port:
            self.answer.stop = StopReason.ADDRESS
            return int(pycurl.SOCKET_BAD)
        self._drop_opened()
        try:
            self._opened = socket.socket(family, kind, protocol)
            if self._bind and family == (socket.AF_INET6 if ":" in self._bind else socket.AF_INET):
                self._opened.bind((self._bind, 0))
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:  # a machine without IPv6 just cannot connect there
                self.answer.stop = StopReason.NO_SOCKET
            return int(pycurl.SOCKET_BAD)
        return self._opened

    def on_request(self, address: str, local: str, port: int, local_port: int) -> int:
        self._checked += 1
        self.local = (local, local_port)
        # A socket opened for this transfer is new; without one, libcurl took a kept connection.
        is_new = self._opened is not None
        self._drop_opened()
        # A second call: libcurl wants to repeat a request that the server may have seen (module docstring).
        if self._checked > 1:
            self.answer.stop = StopReason.REPEAT
        elif address != self.request.address or port != self.request.connect_port:
            self.answer.stop = StopReason.STALE_PEER
        elif not is_new and self._idle_sockets.is_closed(self.local):
            self.answer.stop = StopReason.HUNG_UP
        elif self.request.may_send is not None and not self.request.may_send():
            self.answer.stop = StopReason.NOT_OURS
        else:
            return int(pycurl.PREREQFUNC_OK)
        return int(pycurl.PREREQFUNC_ABORT)


class CurlFetcher:
    """Brings URLs through one CurlMulti on the running loop; see `Fetcher` for the contract.

    `concurrency` is the most that the caller will have in flight. `keep_alive` servers may hold an idle connection;
    of those that need TLS half as many, because each such connection costs 140 kB and a plain one 2.
    """

    def __init__(
        self,
        guard: AddressGuard,
        limits: LimitSettings,
        clock: Clock,
        user_agent: str,
        *,
        keep_alive: int = 1_000,
        concurrency: int = 2_000,
        held_bytes: int = HELD_BYTES,
        ca_file: str | None = None,
        bind: str = "",
        http2: str = "needed",
    ) -> None:
        if not (user_agent.isascii() and user_agent.isprintable()):
            raise ConfigError(f"courtesy.contact: {user_agent!r} cannot be a User-Agent; use plain ASCII on one line")
        self._guard = guard
        self._limits = limits
        self._clock = clock
        self._user_agent = user_agent
        self._ca_file = ca_file or certifi.where()
        self._bind = _own_address(bind)
        self._http2 = http2
        self._refuses_http1: OrderedDict[str, None] = OrderedDict()
        self._body_memory = BodyMemory(held_bytes)
        self._keep_alive = {
            "http": KeepAliveBudget(keep_alive, IDLE_S),
            "https": KeepAliveBudget(keep_alive // 2, IDLE_S),
        }
        self._idle_sockets = IdleSockets()
        self._loop = asyncio.get_running_loop()
        self._driver = CurlDriver(self._on_finished, keep_alive + keep_alive // 2 + concurrency)
        self._idle: list[CurlTransfer] = []
        self._running: dict[Curl, CurlTransfer] = {}
        self._pins: OrderedDict[str, int] = OrderedDict()
        self._in_flight = 0
        self._closed = False
        self._speed_timer = self._loop.call_later(self._speed_check_s(), self._end_slow_transfers)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def held_bytes(self) -> int:
        """Body bytes received by transfers that are still under way."""
        return self._body_memory.now_bytes

    def start(self, request: FetchRequest, done: Done) -> None:
        self._in_flight += 1
        peer = (request.address, request.connect_port)
        guard = request.guard or self._guard
        refusal = "fetcher closed" if self._closed else guard.check(*peer, is_cache=request.cache_only)
        if refusal is not None:
            outcome = Outcome.SYSTEM if self._closed else Outcome.BLOCKED_ADDRESS
            self._fail(request, done, outcome, refusal)
            return
        # Handles are reused: a new one costs the hooks and some twenty options.
        transfer = self._idle.pop() if self._idle else self._make()
        transfer.request, transfer.done = request, done
        transfer.started_s = self._clock.now_s()
        transfer.mark_s = self._clock.ticks_s()
        transfer.begin()
        try:
            self._prepare(transfer, request)
            self._driver.add(transfer.curl)
        except (pycurl.error, ValueError, LookupError) as error:
            # A URL that is not canonical; the handle may be half set, so it is not used again.
            transfer.curl.close()
            self._fail(request, done, Outcome.SYSTEM, f"request refused: {error}")
            return
        self._running[transfer.curl] = transfer
        assert transfer.pin is not None
        # Count the transfers that rely on the pin: `_pin_to_evict` removes only pins with none.
        self._pins[transfer.pin.key] = self._pins.get(transfer.pin.key, 0) + 1
        self._pins.move_to_end(transfer.pin.key)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._speed_timer.cancel()
        for curl, transfer in list(self._running.items()):
            self._driver.remove(curl)
            transfer.answer.stop = StopReason.CLOSED
            self._on_finished(curl, pycurl.E_ABORTED_BY_CALLBACK, "")
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._driver.close()
        await asyncio.sleep(0)  # transfers ended above are delivered in this turn of the loop

    # ---- speed ------------------------------------------------------------------------------------------------------

    def _speed_check_s(self) -> float:
        return min(1.0, self._limits.slow_s / 4)

    def _end_slow_transfers(self) -> None:
        """End transfers that drip.

        Done here because libcurl's own LOW_SPEED_TIME fires for only one of several that wait (libcurl 8.23 driven by
        socket_action; tests/fetch/test_curl.py::test_every_silent_server_is_given_up_after_slow_s).
        """
        now_s, patience_s = self._clock.ticks_s(), self._limits.slow_s
        for curl, transfer in list(self._running.items()):
            if transfer.is_slow(now_s, patience_s):
                self._driver.remove(curl)
                why = f"less than {_SLOWEST_BYTES_PER_S} bytes/s for {patience_s:g} s"
                self._on_finished(curl, pycurl.E_OPERATION_TIMEDOUT, why)
        self._speed_timer = self._loop.call_later(self._speed_check_s(), self._end_slow_transfers)

    # ---- the way out -------------------------------------------------------------------------------------------------

    def _make(self) -> CurlTransfer:
        """Return a new handle with everything that never changes; the only place where handles come from."""
        transfer = CurlTransfer(self._guard, Answer(self._limits, self._body_memory), self._idle_sockets, self._bind)
        limits, answer, setopt = self._limits, transfer.answer, transfer.curl.setopt
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        # HTTP/0.9 has no head: any service that answers with bytes would count as a page.
        setopt(pycurl.HTTP09_ALLOWED, 0)
        # The URL is canonical; libcurl must not remove dot segments again.
        setopt(pycurl.PATH_AS_IS, 1)
        setopt(pycurl.FOLLOWLOCATION, 0)
        # An empty proxy overrides http_proxy and https_proxy of the environment.
        setopt(pycurl.PROXY, "")
        setopt(pycurl.NOSIGNAL, 1)
        # Raw bytes: a decompression bomb stays small here, and the archive gets what the server sent.
        setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
        setopt(pycurl.HTTP_CONTENT_DECODING, 0)
        setopt(pycurl.BUFFERSIZE, _RECEIVE_BYTES)
        setopt(pycurl.CAINFO, self._ca_file)
        setopt(pycurl.SSL_VERIFYPEER, 1)
        setopt(pycurl.SSL_VERIFYHOST, 2)
        # Pins never expire by themselves; `_pin_to_evict` removes them.
        setopt(pycurl.DNS_CACHE_TIMEOUT, -1)
        setopt(pycurl.MAXAGE_CONN, int(IDLE_S))
        setopt(pycurl.CONNECTTIMEOUT_MS, int(limits.connect_s * 1000))
        setopt(pycurl.TIMEOUT_MS, int(limits.fetch_s * 1000))
        setopt(pycurl.RESOLVER_START_FUNCTION, transfer.on_resolver_start)
        setopt(pycurl.OPENSOCKETFUNCTION, transfer.on_open_socket)
        setopt(pycurl.PREREQFUNCTION, transfer.on_request)
        setopt(pycurl.HEADERFUNCTION, answer.on_header)
        setopt(pycurl.WRITEFUNCTION, answer.on_body)
        return transfer

    def _prepare(self, transfer: CurlTransfer, request: FetchRequest) -> None:
        """Set the libcurl options that differ from the handle's last request."""
        recipient, parts, setopt = recipient_of(request), urls.split(request.url), transfer.curl.setopt
        if request.cache_only:
            parts = parts._replace(target=request.url)
        keeps = self._keep_alive[recipient.scheme].admit(
            recipient.authority, self._clock.ticks_s(), is_followed=request.is_followed
        )
        headers = request_headers(request, self._user_agent, keeps)
        pin, connect_to = pin_for(recipient, request)
        setopt(pycurl.URL, f"http://{recipient.authority}/" if request.cache_only else request.url)
        setopt(pycurl.REQUEST_TARGET, parts.target)  # libcurl would change the case of percent escapes
        setopt(pycurl.RESOLVE, pin.replacing(self._pin_to_evict(pin)))
        if connect_to != transfer.connect_to:
            setopt(pycurl.CONNECT_TO, [connect_to] if connect_to else None)  # an empty list changes nothing
        if headers is not transfer.headers:
            setopt(pycurl.HTTPHEADER, headers.lines)
        if keeps != transfer.keeps:
            setopt(pycurl.FORBID_REUSE, 0 if keeps else 1)
        offers_http2 = self._offers_http2(recipient)
        if offers_http2 != transfer.offers_http2:
            version = pycurl.CURL_HTTP_VERSION_2TLS if offers_http2 else pycurl.CURL_HTTP_VERSION_1_1
            setopt(pycurl.HTTP_VERSION, version)
            transfer.offers_http2 = offers_http2
        if transfer.is_fresh:
            setopt(pycurl.FRESH_CONNECT, 0)
        if request.post is not None:
            setopt(pycurl.POSTFIELDS, request.post.body)
        elif transfer.is_post:
            setopt(pycurl.HTTPGET, 1)
        transfer.pin, transfer.connect_to, transfer.headers = pin, connect_to, headers
        transfer.keeps, transfer.is_fresh, transfer.is_post = keeps, False, request.post is not None
        transfer.head = request_head(parts, headers, b"POST" if transfer.is_post else b"GET")

    def _offers_http2(self, recipient: urls.Parts) -> bool:
        """Tell whether a server may choose HTTP/2; a server that does not know it chooses HTTP/1.1."""
        if recipient.scheme != "https" or self._http2 == "never":
            return False
        return self._http2 == "offered" or recipient.authority in self._refuses_http1

    def _note_silence(self, transfer: CurlTransfer) -> None:
        """Offer HTTP/2 from now on to a TLS server that ended an exchange without a byte: it may speak nothing else.

        The next request to it is a retry of the crawler's, after its delay.
        """
        recipient = recipient_of(transfer.request)
        if transfer.offers_http2:
            self._refuses_http1.pop(recipient.authority, None)  # HTTP/2 was not what it lacked
        elif recipient.scheme == "https":
            self._refuses_http1[recipient.authority] = None
            if len(self._refuses_http1) > MAX_PINS:
                self._refuses_http1.popitem(last=False)

    def _pin_to_evict(self, pin: Pin) -> Pin | None:
        """Return the least recently used pin, once there are too many; never one that a transfer relies on.

        The cache is shared by all handles, and a kept connection that turns out dead sends libcurl back to it in the
        middle of a transfer. So a pin is not taken away when its transfer ends, only when thousands came after it.
        """
        if pin.key in self._pins or len(self._pins) < MAX_PINS:
            return None
        oldest = next((key for key, in_use in self._pins.items() if not in_use), None)
        if oldest is None:
            return None
        del self._pins[oldest]
        return Pin(oldest, "")

    # ---- the way back ------------------------------------------------------------------------------------------------

    def _on_finished(self, curl: Curl, code: int, message: str, descriptor: int = -1) -> None:
        transfer = self._running[curl]
        answer, request = transfer.answer, transfer.request
        if descriptor >= 0:
            self._idle_sockets.note(transfer.local, descriptor)
        # This server closes kept connections without notice: it keeps none for NO_KEEP_ALIVE_S.
        if answer.stop is StopReason.HUNG_UP or answer.stop is StopReason.REPEAT:
            recipient = recipient_of(request)
            self._keep_alive[recipient.scheme].refuse_keep_alive(recipient.authority, self._clock.ticks_s())
        if code in _SILENT and not answer.anything_received:
            self._note_silence(transfer)
        # Nothing was sent, so one more try breaks no politeness delay; `is_fresh` limits it to one.
        if answer.stop in _NOT_SENT and not transfer.is_fresh:
            self._restart(transfer)
            return
        verdict = classify(
            TransferEnd(
                code=code,
                message=message,
                os_errno=curl.getinfo(pycurl.OS_ERRNO) if code else 0,
                stop=answer.stop,
                status=answer.status,
                anything_received=answer.anything_received,
                conditional=request.is_conditional,
            )
        )
        fetched = Fetched(
            url=request.url,
            outcome=str(verdict.outcome),
            status=answer.status,
            started_s=transfer.started_s,
            ended_s=self._clock.now_s(),
            address=request.address,
            request_head=transfer.head,
            head=answer.head(),
            body=answer.body(),
            truncated=verdict.truncated,
            detail=_printable(verdict.detail) if verdict.detail else "",
            unanswered=answer.stop in _UNANSWERED,
        )
        del self._running[curl]
        self._release(transfer.pin)
        transfer.end()
        self._idle.append(transfer)
        # The contract of `Fetcher.start`: `done` gets a turn of the loop of its own, for it may start a transfer.
        self._loop.call_soon(self._deliver, transfer.done, fetched)

    def _release(self, pin: Pin | None) -> None:
        assert pin is not None
        self._pins[pin.key] -= 1

    def _restart(self, transfer: CurlTransfer) -> None:
        transfer.is_fresh = True
        transfer.curl.setopt(pycurl.FRESH_CONNECT, 1)
        transfer.begin()
        self._driver.add(transfer.curl)

    def _fail(self, request: FetchRequest, done: Done, outcome: Outcome, detail: str) -> None:
        """Answer a request for which no socket was opened."""
        now_s = self._clock.now_s()
        fetched = Fetched(request.url, str(outcome), 0, now_s, now_s, request.address, detail=_printable(detail))
        self._loop.call_soon(self._deliver, done, fetched)

    def _deliver(self, done: Done, fetched: Fetched) -> None:
        self._in_flight -= 1
        done(fetched)


def _own_address(bind: str) -> str:
    """Return an address that requests can be sent from; ConfigError if it is none of this machine's."""
    if bind:
        try:
            with socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET, socket.SOCK_STREAM) as trial:
                trial.bind((bind, 0))
        except OSError as error:
            raise WrongValue("fetch.bind", bind, f"must be an address of this machine ({error})") from error
    return bind


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:_MAX_DETAIL_CHARS])
