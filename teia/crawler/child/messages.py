"""Messages between the crawler and its parse children, as bytes.

The format is msgpack through msgspec. The child has just read a hostile page, so its message is checked against these
types before it is used. A page's links come back merged, in scope and ready for the frontier, in columns: a page has a
hundred of them, and most are known already. The records for the archive come back compressed. So the crawler itself
never looks into a body.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence

import msgspec

from teia.config.sections import ArchiveSettings, LimitSettings, ParseSettings, ScopeSettings
from teia.crawler._links import columns
from teia.frontier.queue.order import TOP_SCORE
from teia.lib.undecodable import UNDECODABLE
from teia.parse.children.child import LostAnswer


class ReadTask(msgspec.Struct, array_like=True, gc=False):
    """One answer to read. `settings` is a `ReadSettings` in bytes: the same for a whole crawl, so it is compiled once.

    `score` and `off_topic` are the URL's hint (order.py); they matter where pages are judged by a `Focus`. `body`
    stands last, for `encode_parts`. `earlier_…` is the page's earlier capture, which may be a record of another URL
    (`earlier_url`); `seen` is a record of another URL that probably has the same body.
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
    earlier_url: str = ""
    seen: SeenRecord | None = None
    rendered: RenderedDocument | None = None
    body: bytes = b""


class RenderedDocument(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The document that a page's scripts made, in UTF-8; URLs the page requested, and those it would have led to."""

    document: bytes
    time_s: float
    requests: list[str] = []
    leads_to: list[str] = []


class ScriptSigns(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Signs that scripts make more of a page: a hash of its scripts, and how much text it has without them.

    `is_empty`: it is nearly empty. `chars` is the length of its text, `LITTLE_CHARS` at most.
    """

    scripts: int
    is_empty: bool
    chars: int = 0


class RenderGain(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Words and links that a rendered document has and the page as received has not; hashes of some of them."""

    words: int
    links: int
    added: list[int]


class SeenRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A response record of the collection, and the result of parsing it (`ParsedBody`).

    It is read in the archive, unless `answer` describes it.
    """

    parsed: bytes
    folder: str = ""
    file: str = ""
    offset: int = 0
    answer: SeenAnswer | None = None


class SeenAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The facts about a response record that another answer with the same body is compared with."""

    url: str
    time_s: float
    payload_digest: str
    record_id: str
    head: bytes


class ParsedBody(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result of parsing a body, as far as it holds for any answer with that body (content_seen.py).

    `scope` says for which other URLs its links are the same (`LinkScope`); `depth` is the depth of the page.
    """

    scope: int
    depth: int
    media_type: str
    language: str
    title: str
    canonical: str
    noindex: bool
    digest: bytes
    text_digest: bytes
    simhash: int
    outline: int
    payload_bytes: int
    signs: ScriptSigns | None = None


class ReadSettings(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The parts of the configuration that a child needs to read pages.

    `index` and `signals` tell whether index entries and the statements of sitemaps and feeds are wanted, `sketches`
    whether those of pages are that are visited for the first time. `render` is `auto` if the signs of pages that need
    a browser are wanted, `always` if those of all web pages are.
    """

    scope: ScopeSettings
    limits: LimitSettings
    parse: ParseSettings
    archive: ArchiveSettings
    agent: str
    obeys_robots: bool = True
    index: bool = False
    signals: bool = False
    sketches: bool = False
    focus: Focus | None = None
    render: str = "never"


class Focus(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The topic of a focused crawl: a `TopicModel` (lib/topic.py) in plain parts, and the settings that apply it."""

    classes: tuple[str, ...]
    rest: tuple[int, ...]
    weights: dict[str, tuple[int, ...]]
    hard: bool
    tunnel: int
    threshold: int


class FoundLink(msgspec.Struct, frozen=True, gc=False):
    """One URL that a page names: host, key, rest of the URL, number of links, and their kinds (`BY_…` bits)."""

    host: str
    key: int
    tail: str
    count: int
    text: str
    by: int


class HostLinks(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Consecutive `FoundLink`s of a page to one host, in columns.

    `keys` are little-endian i64. `by` has one octet of `BY_…` bits for each URL. `linked` has 1 for a URL that the page
    links to, which counts in the link graph, and 0 for one that it only lists or embeds.
    """

    host: str
    keys: bytes
    tails: list[str]
    by: bytes
    linked: bytes

    def __post_init__(self) -> None:
        if not len(self.keys) == 8 * len(self.tails) == 8 * len(self.by) == 8 * len(self.linked):
            raise ValueError("columns of different lengths")

    def rows(self) -> Iterator[tuple[int, str, int, int]]:
        """Yield (key, tail, by, linked) of each URL."""
        return zip(array("q", self.keys), self.tails, self.by, self.linked, strict=True)

    def found_links(self) -> Iterator[FoundLink]:
        """Yield the links one by one, without their texts."""
        return (FoundLink(self.host, key, tail, linked, "", by) for key, tail, by, linked in self.rows())


LinkFields = tuple[str, int, str, int, str, int]
"""The fields of a `FoundLink`. Most links are only these: one more object for every link of every page costs time."""


def in_columns(links: Sequence[LinkFields]) -> list[HostLinks]:
    """Return links as they are sent, in the same order."""
    return columns(links, HostLinks)


class ReportedChanges(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Statements of a sitemap or feed on its site's pages: (host, key, time of change).

    `kind` is of signals/trust.py. `broken` counts dates that cannot be read. `foreign` counts pages of other sites,
    whose dates are ignored. A feed may name its `hub`, and as its `topic` its own URL.
    """

    kind: int
    dates: list[tuple[str, int, float]]
    broken: int
    foreign: int
    hub: str = ""
    topic: str = ""


class FocusJudgement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Judgement of a focused crawl on a page: relevance and kind, and the scores of its links, in their order.

    `off_topic` is the number of consecutive irrelevant pages that lead to the links; `depends` is True if a smaller
    number could change the result for them. A page that only leads to another (a redirect) has no `kind`.
    """

    relevance: int
    kind: int
    off_topic: int
    depends: bool
    scores: list[int]


class ReadResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Result of a child. `digest` and `text_digest` are sha256; `members` are the archive's records, concatenated.

    `outline` is of the text without its digits (simhash.py); `traps` counts links by the rule that refused them.
    `entry` is the page's index entry (index/entry.py). `sketch` is of the text, if the page was visited before
    or is to be kept fresh (refresh/mask.py). `reported` holds the statements of a sitemap or feed, if the collection
    uses signals. `parsed` is a `ParsedBody` of a body that was stored, with `record_id`; `same_as` is the URL of the
    record that the archive's own record refers to, if that is of another URL. `signs` are those of a page that may be
    rendered; `gain` is of one that was, and `is_rendered` tells that all the rest is of the rendered document. By
    default it is the result of reading nothing.
    """

    outcome: str = ""
    media_type: str = ""
    language: str = ""
    title: str = ""
    canonical: str = ""
    redirect_to: str = ""
    etag: str = ""
    last_modified: str = ""
    noindex: bool = False
    truncated: str = ""
    digest: bytes = b""
    text_digest: bytes = b""
    simhash: int = 0
    payload_bytes: int = 0
    links: list[HostLinks] = []
    links_seen: int = 0
    links_out_of_scope: int = 0
    links_unindexable: int = 0
    payload: bytes = b""
    members: bytes = b""
    lengths: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    payload_digest: str = ""
    judged: FocusJudgement | None = None
    outline: int = 0
    traps: dict[str, int] = {}
    entry: bytes = b""
    sketch: bytes = b""
    reported: ReportedChanges | None = None
    images: int = 0
    mail_links: int = 0
    parsed: bytes = b""
    same_as: str = ""
    record_id: str = ""
    signs: ScriptSigns | None = None
    gain: RenderGain | None = None
    is_rendered: bool = False


encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(ReadTask).decode
decode_parsed = msgspec.msgpack.Decoder(ParsedBody).decode
decode_settings = msgspec.msgpack.Decoder(ReadSettings).decode
decode_result = msgspec.msgpack.Decoder(ReadResult).decode


def result_of(answer: bytes | LostAnswer) -> ReadResult | LostAnswer:
    """Return the result in a child's answer. One that cannot be read is lost: a page took the child over."""
    if isinstance(answer, LostAnswer):
        return answer
    try:
        return decode_result(answer)
    except UNDECODABLE as error:
        return LostAnswer(f"its answer cannot be read: {error}")


_NO_BYTES = encode(b"")
# Header of a msgpack byte string: its type (bin 32) and its length.
_BYTES = struct.Struct(">BI")
_BIN_32 = 0xC6


def encode_parts(task: ReadTask) -> tuple[bytes, bytes]:
    """Return `encode(task)` in two parts, of which the second is the body itself.

    Encoding the body with the rest would copy it into fresh memory: a fiftieth of all the work of a crawl.
    """
    body, task.body = task.body, b""
    try:
        message = encode(task)
    finally:
        task.body = body
    # The empty body at the end is replaced by the header of a byte string of the real length.
    return message.removesuffix(_NO_BYTES) + _BYTES.pack(_BIN_32, len(body)), body


def probe_task(read_settings: bytes) -> bytes:
    """Return a page that any working parse child can read; a child that crashes on it can read none."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    body = b"<!doctype html><title>probe</title><p>A page to see whether pages can be read."
    url, address = "http://probe.invalid/", "192.0.2.1"
    task = ReadTask(
        read_settings, "page", url, "200", 200, 0.0, 0.0, address, b"GET / HTTP/1.1\r\n\r\n", head, "", "", 0, 0
    )
    return b"".join(encode_parts(msgspec.structs.replace(task, body=body)))


def with_focus(read_settings: bytes, focus: Focus | None) -> bytes:
    """Return a `ReadSettings` with the topic of a focused crawl."""
    return (
        read_settings if focus is None else encode(msgspec.structs.replace(decode_settings(read_settings), focus=focus))
    )
