"""What the crawler sends a parse child and what comes back, as bytes.

msgpack through msgspec: the child has just read a hostile page, so what it sends is checked against these types before
anything looks at it. A page's links come back merged, in scope and ready for the frontier; the records for the archive
come back compressed. So the crawler itself never looks into a body.
"""

from __future__ import annotations

import struct

import msgspec

from teia.frontier.order import TOP_SCORE


class Task(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One answer to read. `settings` is a `Reading` in bytes: the same for a whole crawl, so it is compiled once.

    `score` and `off_topic` are the URL's hint (frontier/order.py); they matter where pages are judged by a `Focus`.
    `body` stands last, for `in_parts`.
    """

    settings: bytes
    purpose: str
    url: str
    outcome: str
    status: int
    started_s: float
    ended_s: float
    address: str
    request_head: bytes
    head: bytes
    truncated: str
    detail: str
    depth: int
    hops: int
    earlier_digest: str = ""
    earlier_s: float = 0.0
    score: int = TOP_SCORE
    off_topic: int = 0
    as_sitemap: bool = False
    is_revisit: bool = False
    body: bytes = b""


class Reading(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How pages are read: the parts of the configuration a child needs."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    types: tuple[str, ...]
    queries: bool
    max_depth: int
    url_rules: tuple[str, ...]
    requisites: bool
    obey_robots: bool
    agent: str
    limits: dict[str, int | float | tuple[str, ...]]
    text: bool = True
    archive: bool = True
    processors: tuple[str, ...] = ()
    focus: Focus | None = None
    index: bool = False
    signals: bool = False


class Focus(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a focused crawl looks for: a `TopicModel` (lib/topic.py) in plain parts, and how to go by it."""

    classes: tuple[str, ...]
    rest: tuple[int, ...]
    weights: dict[str, tuple[int, ...]]
    hard: bool
    tunnel: int
    threshold: int


class FoundLink(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One URL a page names: its host, its key, the rest of it, how often it is linked, and how (`BY_…` bits)."""

    host: str
    key: int
    tail: str
    count: int
    text: str
    by: int


class Told(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a sitemap or feed says of its site's pages: (host, key, when it changed). `kind` is of signals/trust.py.

    `broken` dates cannot be read; `foreign` pages are of other sites, of which it has nothing to say. A feed may name
    its `hub`, and as its `topic` what it calls itself.
    """

    kind: int
    dates: list[tuple[str, int, float]]
    broken: int
    foreign: int
    hub: str = ""
    topic: str = ""


class Judged(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a focused crawl thinks of a page: relevance and kind, and of its links, in their order, the scores.

    `off_topic` is how many irrelevant pages in a row lead to the links; `depends`: with fewer, something else could
    become of them. A page that is only on the way to another (a redirect) has no `kind`.
    """

    relevance: int
    kind: int
    off_topic: int
    depends: bool
    scores: list[int]


class Result(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a child found. `digest` and `text_digest` are sha256; `members` are the archive's records, in a row.

    `outline` is of the text without its digits (lib/outline.py); `traps` counts links by the rule that refused them.
    `entry` is what the index is to know of the page (index/entry.py). `sketch` is of the text, where the page was
    visited before (refresh/mask.py). `told` is what a sitemap or feed says, where somebody listens.
    """

    outcome: str
    media_type: str
    language: str
    title: str
    canonical: str
    redirect_to: str
    etag: str
    last_modified: str
    noindex: bool
    truncated: str
    digest: bytes
    text_digest: bytes
    simhash: int
    payload_bytes: int
    links: list[FoundLink]
    links_seen: int
    links_out_of_scope: int
    links_unindexable: int
    payload: bytes
    members: bytes
    lengths: tuple[int, ...]
    kinds: tuple[str, ...]
    payload_digest: str
    judged: Judged | None = None
    outline: int = 0
    traps: dict[str, int] = {}
    entry: bytes = b""
    sketch: bytes = b""
    told: Told | None = None


encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_reading = msgspec.msgpack.Decoder(Reading).decode
decode_result = msgspec.msgpack.Decoder(Result).decode

_NO_BYTES = encode(b"")
_BYTES = struct.Struct(">BI")
_BIN_32 = 0xC6


def in_parts(task: Task) -> tuple[bytes, bytes]:
    """`encode(task)` in two parts, of which the second is the body itself.

    Encoding the body with the rest would copy it into fresh memory: a fiftieth of all the work of a crawl.
    """
    message = encode(msgspec.structs.replace(task, body=b""))
    return message.removesuffix(_NO_BYTES) + _BYTES.pack(_BIN_32, len(task.body)), task.body


def with_focus(reading: bytes, focus: Focus | None) -> bytes:
    """A `Reading` with what a focused crawl looks for."""
    return reading if focus is None else encode(msgspec.structs.replace(decode_reading(reading), focus=focus))
