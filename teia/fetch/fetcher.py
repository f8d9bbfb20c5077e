"""The seam between the crawler and the web: a request goes in, exactly one `Fetched` comes out.

Callback style, because the crawler starts thousands of transfers a second from one loop and a task for each would cost
more than the transfer's bookkeeping. `teia/fetch/curl.py` is the real one; the lab answers from a synthetic world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from teia.fetch.guard import AddressGuard
from teia.records import Fetched

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5"


@dataclass(frozen=True, slots=True)
class PostBody:
    """Body of a POST request, for webhooks and hubs. `headers` are names and values."""

    body: bytes
    media_type: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One GET with all decisions made: the URL and the address to connect to; with `post`, one POST.

    `url` is canonical. `address`, in its shortest spelling, was found and guarded by the caller (`destination.py`); the
    fetcher checks with the same `guard` again (its own, where none is given) and connects there or nowhere.
    `connect_port` differs from the URL's only where `--resolve` says so.

    With `types`, an answer of 2xx whose Content-Type matches none of them (`text/html`, `text/*`) ends at its head.
    `cache_only`: the address is that of the operator's cache proxy, which may only answer from its cache. `user_agent`:
    another User-Agent than the fetcher's. `is_followed`: another request to the same server comes next. `may_send` is
    called right before the request is sent: the process may have been stopped for a while since it was begun.
    """

    url: str
    address: str
    connect_port: int
    etag: str | None = None
    last_modified: str | None = None
    max_body_bytes: int = 10 * 2**20
    accept: str = ACCEPT
    types: tuple[str, ...] = ()
    cache_only: bool = False
    post: PostBody | None = None
    user_agent: str = ""
    guard: AddressGuard | None = None
    is_followed: bool = False
    may_send: Callable[[], bool] | None = None

    @property
    def is_conditional(self) -> bool:
        return self.etag is not None or self.last_modified is not None


class Fetcher(Protocol):
    """Interface of a fetcher of URLs. Redirects are answers like any other and are never followed."""

    @property
    def in_flight(self) -> int:
        """Requests started whose `done` has not been called; the caller must keep this bounded."""

    def start(self, request: FetchRequest, done: Callable[[Fetched], None]) -> None:
        """Begin; `done` is called exactly once, on the loop, never from inside this call."""

    async def close(self) -> None:
        """End running requests (their `done` is called, outcome `system`) and release every socket."""
