"""Requests to a world and its answers: the interface between the synthetic web and its server.

`lab.server` puts these on sockets; a test, or a crawl on the virtual clock, calls `World.answer` with them directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import msgspec

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ServerFault(Enum):
    """Faults of a server instead of a proper answer."""

    NONE = "none"
    RESET = "reset"  # the connection is cut before any byte (T8's -11)
    SILENT = "silent"  # nothing is sent until the client gives up or `delay_s` has passed (T8's -10)
    GARBAGE = "garbage"  # `body` is sent as it is, without a status line (T8's -1)
    SHORT = "short"  # fewer bytes than Content-Length says, then closed


class WorldRequest(msgspec.Struct, frozen=True, gc=False):
    """One HTTP request to the world. Header names are lower-case; `host` has no port.

    A struct, like an answer: one of each is made per page served, and a frozen dataclass takes ten times as long.
    """

    host: str
    target: str
    method: str = "GET"
    headers: Mapping[str, str] = NO_HEADERS
    client: str = ""


class WorldAnswer(msgspec.Struct, frozen=True, gc=False):
    """One HTTP answer. `headers` are ready lines, each ending in CR LF, without Content-Length and Connection.

    It begins after `delay_s`. With `drip_s` it is sent in small pieces over that time.
    """

    status: int
    headers: bytes
    body: bytes = b""
    delay_s: float = 0.0
    fault: ServerFault = ServerFault.NONE
    chunked: bool = False
    drip_s: float = 0.0
