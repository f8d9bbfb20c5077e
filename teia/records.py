"""Records that cross a boundary between stages: frozen, named after the messages of A1 that they replace.

    Frontier --Queued--> Downloader --Fetched--> (parse child) --Page--> commit --mail--> Take of another cell

The agents of the collaborative crawler exchange URLMessage, AnalyzeMessage, LinkMessage, ContentMessage,
MetadataMessage, BulkMessage, PutMessage, KeyMessage, JoinMessage, RedirectMessage, IdleMessage, OverflowMessage and
StateMessage. Here the first three of a downloaded page (Link, Content, Metadata) are produced together by one parse of
it and travel as the fields of one `Page`. The others are rows and records of the modules that do their jobs: URL is
`QueuedUrl` and Put `Found` (frontier/cell/rows.py), Bulk goes by mail (frontier/cell/mail.py), Join is cluster/members,
Analyze and Redirect are cluster/placing/site_analyzer.py, Idle, Overflow and State cluster/placing/balance.py.

Times are Unix seconds on the crawl's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple

NOT_MODIFIED = 304


class AgentRole(StrEnum):
    """Roles of a crawl: the agents of A1, as `teia trace` names them."""

    FRONTIER = "Frontier"
    DOWNLOADER = "Downloader"
    LINK_EXTRACTOR = "LinkExtractor"
    CONTENT_EXTRACTOR = "ContentExtractor"
    METADATA_EXTRACTOR = "MetadataExtractor"
    URL_SCHEDULER = "URLScheduler"
    BULK = "Bulk"
    TAKE = "Take"
    ANALYZER = "Analyzer"
    JOIN = "Join"
    DISTRIBUTOR = "Distributor"
    SYNCHRONIZER = "Synchronizer"
    STABILIZER = "Stabilizer"
    WANDERER = "Wanderer"


class AgentMessage(StrEnum):
    """Messages between these roles, as the paper names them; `teia trace` shows the one that a step sends."""

    URL = "URL"
    ANALYZE = "Analyze"
    LINK = "Link"
    CONTENT = "Content"
    METADATA = "Metadata"
    BULK = "Bulk"
    PUT = "Put"
    KEY = "Key"
    JOIN = "Join"
    REDIRECT = "Redirect"
    IDLE = "Idle"
    OVERFLOW = "Overflow"
    STATE = "State"


class Outcome(StrEnum):
    """Outcome of one request, beside the HTTP status: `outcome` is a member or the status as text ("200").

    The number is Tarântula's code for it (T8), shown beside our name in reports; None where T8 has none.
    """

    ROBOTS = "robots"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    OUT_OF_SCOPE = "out_of_scope"
    FORBIDDEN_TYPE = "forbidden_type"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    BAD_ANSWER = "bad_answer"
    BLOCKED_ADDRESS = "blocked_address"
    REDIRECT_LOOP = "redirect_loop"
    TRAP = "trap"
    BUDGET = "budget"
    ALIAS = "alias"
    SOFT_404 = "soft_404"
    PARSE_FAILED = "parse_failed"
    NOT_RENDERED = "not_rendered"
    GONE = "gone"
    DROPPED = "dropped"
    SYSTEM = "system"

    @property
    def tarantula_code(self) -> int | None:
        return _TARANTULA_CODES.get(self)


# T8 has one code for several of our outcomes, so a code cannot be converted back.
_TARANTULA_CODES = {
    Outcome.BAD_ANSWER: -1,
    Outcome.FORBIDDEN_TYPE: -3,
    Outcome.TOO_LARGE: -4,
    Outcome.ROBOTS: -7,
    Outcome.ROBOTS_UNREACHABLE: -7,
    Outcome.TIMEOUT: -10,
    Outcome.DNS: -11,
    Outcome.CONNECT: -11,
    Outcome.TLS: -11,
    Outcome.SYSTEM: -11,
}


class LinkKind(Enum):
    """Place of a link in its document; decides whether it is followed, fetched as a requisite or only counted."""

    ANCHOR = "a"
    FRAME = "frame"
    CANONICAL = "canonical"
    REFRESH = "refresh"
    HEADER = "header"
    SITEMAP = "sitemap"
    FEED = "feed"
    REDIRECT = "redirect"
    IMAGE = "img"
    STYLE = "css"
    SCRIPT = "script"
    MEDIA = "media"

    @property
    def is_requisite(self) -> bool:
        """True if it is part of showing the page (T12) rather than a way to another one."""
        return self._value_ in _REQUISITES  # a member's own hash takes longer, and a page has a hundred links


_REQUISITES = frozenset(kind.value for kind in (LinkKind.IMAGE, LinkKind.STYLE, LinkKind.SCRIPT, LinkKind.MEDIA))


class Link(NamedTuple):
    """One reference from a page to another URL (LinkMessage); a tuple, for a page has a hundred of them."""

    url: str
    kind: LinkKind = LinkKind.ANCHOR
    text: str = ""
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """Result of one request. Head and body are as received: still compressed, chunks already undone or not.

    `unanswered`: it went out on a kept connection that the server closed instead of answering, and the server may have
    seen it; or it was not sent, because the host might belong to another machine. That proves nothing about the URL.
    """

    url: str
    outcome: str
    status: int
    started_s: float
    ended_s: float
    address: str = ""
    request_head: bytes = b""
    head: bytes = b""
    body: bytes = b""
    truncated: str = ""
    detail: str = ""
    unanswered: bool = False

    @property
    def bytes_received(self) -> int:
        return len(self.head) + len(self.body)


@dataclass(frozen=True, slots=True)
class PageContent:
    """Content of a page: its links, its text and its metadata (A1's three extractors)."""

    title: str = ""
    text: str = ""
    headings: tuple[str, ...] = ()
    language: str = ""
    description: str = ""
    canonical: str = ""
    author: str = ""
    published: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(PageContent):
    """Result of parsing one answer."""

    url: str
    media_type: str = ""
    charset: str = ""
    noindex: bool = False
    nofollow: bool = False
    digest: str = ""
    text_digest: str = ""
    simhash: int = 0
    truncated: str = ""
    images: int = 0
    mail_links: int = 0
    anchor_count: int = 0
    has_scripts: bool = True


class Command(StrEnum):
    """Command to a running crawl."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RUN = "run"  # begin a run now; for the coordinator of schedules


class Operator(StrEnum):
    """Operator of an edit on its value."""

    SET = "="
    ADD = "+="
    REMOVE = "-="


class Edit(NamedTuple):
    """One change of one setting of a collection; `value` is a value of JSON and TOML."""

    key: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class RemovedPages:
    """Result of a removal: URLs, records and their bytes. `pages_again` shared a removed body and are queued again.

    In a cluster the nodes do all of it, and `nodes` has the state of each; the numbers are sums.
    """

    urls: int = 0
    records: int = 0
    bytes: int = 0
    pages_again: int = 0
    subscriptions: int = 0
    notices: int = 0
    left_records: int = 0
    left_pages: int = 0
    left_indexed: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
