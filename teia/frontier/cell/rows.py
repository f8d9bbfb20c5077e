"""Rows of a cell as values: links on their way in, queued URLs, ends of visits, answers to probes.

A host has one row, so only the tails of its URLs are stored (`tail_of`, `url_from`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from teia.frontier.cell.schema import BY_LINK
from teia.frontier.queue.order import Hint


def tail_of(url: str, host: str) -> str:
    """Return the stored part of a canonical URL: all but scheme and host, with `s` in front for https."""
    # 8 and 7 are the lengths of `https://` and `http://`.
    if url.startswith("https://"):
        return "s" + url[8 + len(host) :]
    return url[7 + len(host) :]


def url_from(host: str, tail: str) -> str:
    return f"https://{host}{tail[1:]}" if tail.startswith("s") else f"http://{host}{tail}"


@dataclass(slots=True)
class FoundUrl:
    """A URL on its way into the cell: one or more links to it, merged. `hint` is for orders that need one.

    `in_links` is the number of pages that newly link to it. A `FoundUrl` without a tail only takes links back.

    `via` is the pattern (watch.py) of the linking page, if that is of the same host; negative if several pages of
    that pattern link to it, 0 if pages of different ones do.
    """

    host: str
    key: int
    tail: str
    depth: int
    in_links: int = 1
    hops: int = 0
    by: int = BY_LINK
    hint: Hint | None = None
    via: int = 0


def merge_via(via: int, also: int) -> int:
    """Return the `via` of a URL that two pages link to."""
    return -abs(via) if abs(via) == abs(also) else 0


@dataclass(frozen=True, slots=True)
class QueuedUrl:
    """One URL in a host's buffer. `lane` and `rank` are its place in the queue on disk; `since_s` is its arrival time.

    `digest`, `captured_s`, `file` and `offset` are those of the record that holds its body, if it was visited before;
    `captured_url` is the URL of that record, if it is not the page's own. `simhash` is that of its last text, signed.
    `is_rendered`: its last capture was read as its scripts showed it; looked up only where pages are rendered.
    """

    url: str
    key: int
    lane: int
    rank: int
    depth: int
    since_s: float
    visits: int = 0
    failures: int = 0
    hops: int = 0
    found_by: int = 0
    pattern: int = 0
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    captured_s: float = 0.0
    file: str = ""
    offset: int = 0
    simhash: int = 0
    purpose: str = "page"
    origin: str = ""
    hint: Hint | None = None
    captured_url: str = ""
    is_rendered: bool = False


class CaptureLocation(NamedTuple):
    """Location of a capture in the cell's archive; a tuple, as it is stored in the tables."""

    file: str = ""
    offset: int = 0
    length: int = 0


NOT_ARCHIVED = CaptureLocation()


class PageRow(NamedTuple):
    """Result of a visit, as the `pages` and `visits` tables store it."""

    status: int
    digest: bytes = b""
    text_digest: bytes = b""
    simhash: int = 0
    media_type: str = ""
    language: str = ""
    title: str = ""
    etag: str = ""
    last_modified: str = ""
    redirect_to: str = ""
    canonical: str = ""
    noindex: bool = False
    payload_digest: str = ""


@dataclass(frozen=True, slots=True)
class SettledVisit:
    """The end of one visit: the URL's next state (see retry.verdict) and the result.

    `repeats`: the archive holds a revisit record of it, which has no body; the capture stays where it was. `body_at` is
    the record with the body, if it is of another URL.
    `visit_result` and `changed` are for visits that were compared with the one before; otherwise the digests decide,
    unless it `is_comparable` no more: it was read in another form than the one before.
    """

    host_id: int
    queued: QueuedUrl
    outcome: str
    state: int
    time_s: float
    again_s: float = 0.0
    page: PageRow | None = None
    archived: CaptureLocation = NOT_ARCHIVED
    repeats: bool = False
    body_at: CaptureLocation = NOT_ARCHIVED
    visit_result: int | None = None
    changed: bool | None = None
    is_comparable: bool = True


@dataclass(frozen=True, slots=True)
class AnswerImpression:
    """The parts of an answer that are compared: `text` is the digest of its text, or of its bytes without text."""

    outcome: str
    redirect_to: str
    text: bytes
    simhash: int


@dataclass(slots=True)
class IdentityCheck:
    """A page of a host and the answers to two User-Agents: ours, the other one, and ours again if those differ."""

    url: str
    ours: AnswerImpression
    other: AnswerImpression | None = None
    again: AnswerImpression | None = None
    is_pending: bool = False

    @property
    def was_begun(self) -> bool:
        """True if a request for it was queued, or has been answered."""
        return self.is_pending or self.other is not None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe.

    `text` is the digest of the page's text, or of its bytes where it has none; empty where the host correctly
    answers 404. `title` is without the probe's own address.
    """

    url: str
    time_s: float
    outcome: str
    text: bytes = b""
    simhash: int = 0
    title: str = ""

    @property
    def is_soft(self) -> bool:
        """True if the host serves a page for every URL."""
        return bool(self.text)
