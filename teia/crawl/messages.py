"""What the crawler sends a parse child and what comes back, as bytes.

msgpack through msgspec: the child has just read a hostile page, so what it sends is checked against these types before
anything looks at it. A page's links come back merged, in scope and ready for the frontier; the records for the archive
come back compressed. So the crawler itself never looks into a body.
"""

from __future__ import annotations

import msgspec


class Task(msgspec.Struct, array_like=True, frozen=True):
    """One answer to read. `settings` is a `Reading` in bytes: the same for a whole crawl, so it is compiled once."""

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
    body: bytes
    truncated: str
    detail: str
    depth: int
    hops: int
    earlier_digest: str = ""
    earlier_s: float = 0.0


class Reading(msgspec.Struct, array_like=True, frozen=True):
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
    limits: dict[str, int | float]
    text: bool = True
    archive: bool = True
    processors: tuple[str, ...] = ()


class FoundLink(msgspec.Struct, array_like=True, frozen=True):
    """One URL a page names: its host, its key, the rest of it, how often it is linked, and how (`BY_…` bits)."""

    host: str
    key: int
    tail: str
    count: int
    text: str
    by: int


class Result(msgspec.Struct, array_like=True, frozen=True):
    """What a child found. `digest` and `text_digest` are sha256; `members` are the archive's records, in a row."""

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


encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_reading = msgspec.msgpack.Decoder(Reading).decode
decode_result = msgspec.msgpack.Decoder(Result).decode
