"""The work of a parse child on one answer: parse it, choose the links worth following, make the archive's records.

It runs in a killable process, so nothing here is bounded by more than the child's own limits. Every decision that
depends on the body is made here: the crawler gets an outcome, links that are in scope and no traps, and compressed
records.

The WebSub hub and topic of a feed are discovered here too: from its `Link` headers, or else from the feed itself.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from teia.crawler.child.index_entry import entry_of
from teia.crawler.child.messages import (
    FocusJudgement,
    FoundLink,
    LinkFields,
    ParsedBody,
    ReadResult,
    ReadSettings,
    ReadTask,
    RenderGain,
    ReportedChanges,
    ScriptSigns,
    decode_settings,
    decode_task,
    encode,
    in_columns,
)
from teia.crawler.child.seen_answer import LinkScope, RepeatedBody, find_repeated, has_same_links, link_scope
from teia.crawler.links import (
    MAX_OUTLINKS,
    RULE,
    SITEMAP_DEPTH,
    FrontierUrl,
    LinkCheck,
    evaluate_link,
    evaluate_requisite,
    outlink_lines,
)
from teia.frontier.cell.schema import AS_SITEMAP
from teia.frontier.queue.order import NO_KIND, TOP_SCORE, Hint
from teia.frontier.rules.scope import Scope, compile_scope
from teia.index.entry import encode_entry
from teia.parse.decode import decode
from teia.parse.document import ParseOptions
from teia.parse.headers import Headers, parse_head
from teia.parse.html.script_signs import LITTLE_CHARS, is_nearly_empty, script_hash
from teia.parse.parse import ParseResult, parse_document
from teia.parse.processors import Processors, with_user_processors
from teia.parse.recent import RecentDocuments
from teia.parse.text.fingerprint import KnownText
from teia.parse.text.normal import normal_octets
from teia.records import NOT_MODIFIED, Fetched, Link, LinkKind, Outcome, Page
from teia.signals.trust import SignalKind
from teia.store.warc import Members, RevisitOf, conversion_member, digest_of, page_members
from teia.urls import host_of, resolve, site_of

if TYPE_CHECKING:
    from teia.crawler.child.focus import CompiledFocus

REDIRECTS = frozenset({301, 302, 303, 307, 308})

MAX_READINGS = 16
MAX_CACHED_LINKS = 4_096
"""Number of link decisions a child caches, per `ReadSettings`: menus are on every page of a site. 2 MB when full."""

MAX_REPORTED = 50_000
"""Maximum number of entries of one sitemap or feed whose dates are used."""

NO_RECORDS = Members(b"", (), ())
"""Empty records, for a collection that keeps no answers."""

_recent = RecentDocuments()
"""Pages that this child has read lately."""

_ANCHOR = LinkKind.ANCHOR
MAX_ADDED = 256
MIN_WORDS = 20
"""Number of hashes of words and links that a rendered document has added, for the comparison with other pages."""

_RENDERED_TYPE = "text/html; charset=utf-8"
_RENDERED_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {_RENDERED_TYPE}\r\n\r\n".encode()
_RENDERED_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_PUNCTUATION = ".,;:!?()[]{}\"'«»“”‘’…-–—/|"


@dataclass(frozen=True, slots=True)
class CompiledReadSettings:
    """A `ReadSettings` made ready for use."""

    read_settings: ReadSettings
    scope: Scope
    options: ParseOptions
    processors: Processors
    check_link: LinkCheck
    check_requisite: LinkCheck
    focus: CompiledFocus | None


@lru_cache(maxsize=MAX_READINGS)
def _compiled(settings: bytes) -> CompiledReadSettings:
    read_settings = decode_settings(settings)
    rules, limits, parse = read_settings.scope, read_settings.limits, read_settings.parse
    scope = compile_scope(rules.include, rules.exclude, types=rules.types, queries=rules.queries)
    requisites = read_settings.archive.requisites
    has_headings = parse.text or read_settings.index
    options = ParseOptions(limits, requisites, read_settings.agent, rules.url_rules, parse.text, has_headings)
    # One cache for each `ReadSettings`: other rules may treat the same URL differently.
    check_link = lru_cache(maxsize=MAX_CACHED_LINKS)(partial(evaluate_link, scope=scope, limits=limits))
    check_requisite = partial(evaluate_requisite, scope=scope, limits=limits)
    processors = with_user_processors(parse.processors)
    return CompiledReadSettings(
        read_settings, scope, options, processors, check_link, check_requisite, _compile_focus(read_settings)
    )


def _compile_focus(read_settings: ReadSettings) -> CompiledFocus | None:
    """Return the page judge of a focused crawl; other crawls do not load the code that judges text."""
    if read_settings.focus is None:
        return None
    from teia.crawler.child.focus import compile_focus

    return compile_focus(read_settings.focus)


def prepare() -> None:
    """Load the tables that normalise text before children are forked: once, not in each child."""
    normal_octets("")


def read(payload: bytes) -> bytes:
    """Read one `ReadTask`, return one `ReadResult`; both as bytes, because this is a child's whole conversation."""
    task = decode_task(payload)
    compiled = _compiled(task.settings)
    if task.purpose == "page":
        return encode(_read_page(task, compiled))
    if task.purpose == "entry":
        return encode(_read_entry(task, compiled))
    # robots.txt, requests of rendered pages and pages that are only stored: no links and no text are extracted.
    head = parse_head(task.head)
    decoded = decode(head.headers, task.body, compiled.read_settings.limits)
    payload = decoded.payload if task.purpose in {"robots", "render"} else b""
    redirect_to = _redirect(task, head.headers)
    members = NO_RECORDS
    if compiled.read_settings.archive.answers:
        members = page_members(_fetched(task), decoded.dechunked, {}, None)
    return encode(
        ReadResult(
            outcome=task.outcome,
            redirect_to=redirect_to,
            etag=head.headers.first("etag"),
            last_modified=head.headers.first("last-modified"),
            truncated=task.truncated,
            payload_bytes=len(decoded.payload),
            payload=payload,
            members=members.data,
            lengths=members.lengths,
            kinds=members.kinds,
            payload_digest=members.payload_digest,
        )
    )


def _read_page(task: ReadTask, compiled: CompiledReadSettings) -> ReadResult:
    """Read a page; one whose body and links the archive already holds is not parsed, unless these settings need it."""
    if task.rendered is not None:
        return _read_rendered(task, compiled)
    if task.seen is None:
        return _parse_page(task, compiled)
    body = task.body
    if b"chunked" in task.head.lower():
        body = decode(parse_head(task.head).headers, body, compiled.read_settings.limits).dechunked
    digest = digest_of(body)
    repeated = find_repeated(task.seen, digest)
    if repeated is not None and has_same_links(task, repeated) and _says_all(task, compiled, repeated):
        return _result_of_repeated(task, compiled, body, repeated)
    return _parse_page(task, compiled, digest, repeated)


def _read_rendered(task: ReadTask, compiled: CompiledReadSettings) -> ReadResult:
    """Read a page in the form that its scripts gave it, unless that has nothing that the page as received has not.

    The records are those of the answer, and the document as a conversion of it. Validators belong to the answer: a page
    that is read in this form has none, because its data may change while its answer does not.
    """
    rendered, parsed = task.rendered, _parsed(task, compiled)
    assert rendered is not None
    document = parse_document(task.url, _RENDERED_HEAD, rendered.document, compiled.options, compiled.processors)
    page = _rendered_page(task, compiled, parsed.page, document.page)
    gain = _gain(parsed.page, page)
    if _has_lost_its_text(parsed.page, page):
        return _result(task, compiled, parsed)
    if not gain.added:
        return replace(_result(task, compiled, parsed), gain=gain)
    shown = ParseResult(page, parsed.head, parsed.decoded, parsed.entries, document.failed, document.outline)
    # Stored whole, even if the archive has the body: the conversion is found behind its answer.
    result = _result(replace(task, earlier_digest=""), compiled, shown)
    if compiled.read_settings.archive.answers and "response" in result.kinds:
        member = conversion_member(task.url, rendered.time_s, _RENDERED_TYPE, rendered.document, result.record_id)
        result = replace(
            result,
            members=result.members + member,
            lengths=(*result.lengths, len(member)),
            kinds=(*result.kinds, "conversion"),
        )
    return replace(result, gain=gain, is_rendered=True, etag="", last_modified="", parsed=b"")


def _rendered_page(task: ReadTask, compiled: CompiledReadSettings, received: Page, shown: Page) -> Page:
    """Return a page as its scripts show it; statements of its headers hold, and so do its addresses."""
    assert task.rendered is not None
    led_to = (resolve(url, task.url, compiled.read_settings.scope.url_rules) for url in task.rendered.leads_to)
    links = dict.fromkeys((*shown.links, *(Link(url, LinkKind.REFRESH) for url in led_to if url)))
    return dataclasses.replace(
        shown,
        links=tuple(links),
        media_type=received.media_type,
        canonical=shown.canonical or received.canonical,
        noindex=received.noindex or shown.noindex,
        nofollow=received.nofollow or shown.nofollow,
        truncated=received.truncated or shown.truncated,
        metadata=received.metadata | shown.metadata | {"rendered": "yes"},
    )


def _gain(received: Page, shown: Page) -> RenderGain:
    """Compare a page as received with the one that its scripts made: distinct words, and addresses of links."""
    words = _words(shown.text) - _words(received.text)
    known = {link.url for link in received.links}
    links = {link.url for link in shown.links if link.kind in {_ANCHOR, LinkKind.REFRESH}} - known
    added = sorted(zlib.crc32(each.encode("utf-8", "replace")) for each in (*words, *links))
    return RenderGain(len(words), len(links), added[:MAX_ADDED])


def _has_lost_its_text(received: Page, shown: Page) -> bool:
    """Tell whether scripts have replaced the text of a page by less, such as a message that they failed."""
    before, after = _words(received.text), _words(shown.text)
    lost = len(before - after)
    return len(before) >= MIN_WORDS and lost > len(before) / 2 and lost > len(after - before)


def _words(text: str) -> set[str]:
    """Return the distinct words of a text, without those that hold digits: clocks and counters are no gain."""
    return {word for each in text.lower().split() if (word := each.strip(_PUNCTUATION)).isalpha()}


def _signs(task: ReadTask, compiled: CompiledReadSettings, parsed: ParseResult, outcome: str) -> ScriptSigns | None:
    """Return the signs of a web page that may be rendered; None for all others."""
    page, wanted = parsed.page, compiled.read_settings.render
    is_page = 200 <= task.status < 300 and outcome == task.outcome and page.media_type in _RENDERED_TYPES
    if not is_page or task.rendered is not None or task.truncated or not parsed.decoded.payload:
        return None
    scripts = script_hash(parsed.decoded.payload) if page.has_scripts else 0
    if not scripts and wanted == "auto":
        return None
    chars = len(page.text)
    return ScriptSigns(scripts, is_nearly_empty(parsed.decoded.payload, chars), min(chars, LITTLE_CHARS))


def _parse_page(
    task: ReadTask, compiled: CompiledReadSettings, digest: str = "", repeated: RepeatedBody | None = None
) -> ReadResult:
    """Parse a page. `digest` is that of its body without chunks, if it is known already."""
    return _result(task, compiled, _parsed(task, compiled, digest, repeated), digest, repeated)


def _result(
    task: ReadTask,
    compiled: CompiledReadSettings,
    parsed: ParseResult,
    digest: str = "",
    repeated: RepeatedBody | None = None,
) -> ReadResult:
    """Return the result for a page that was parsed."""
    page, headers = parsed.page, parsed.head.headers
    redirect_to = _redirect(task, headers)
    outcome = _outcome(task, compiled, parsed, redirect_to)
    signs = None if compiled.read_settings.render == "never" else _signs(task, compiled, parsed, outcome)
    chosen = _chosen_links(task, compiled, page, outcome, redirect_to)
    judged = None if compiled.focus is None else _judged(task, compiled.focus, page, chosen, redirect_to)
    members = NO_RECORDS
    if compiled.read_settings.archive.answers:
        members = _records(task, compiled, parsed, judged, redirect_to, digest, repeated)
    # A refused page has another outcome than its answer: it is archived but not indexed.
    entry = _entry(task, compiled, page) if compiled.read_settings.index and outcome == task.outcome else b""
    reported = _reported_changes(task, compiled, parsed) if compiled.read_settings.signals and parsed.entries else None
    can_be_repeated = repeated is None and "response" in members.kinds
    body = _parsed_body(task, compiled, parsed, outcome, signs) if can_be_repeated else b""
    return ReadResult(
        str(outcome),
        page.media_type,
        page.language,
        page.title,
        page.canonical,
        redirect_to,
        headers.first("etag"),
        headers.first("last-modified"),
        page.noindex,
        page.truncated or task.truncated,
        bytes.fromhex(page.digest),
        bytes.fromhex(page.text_digest),
        page.simhash,
        len(parsed.decoded.payload),
        in_columns(chosen.links),
        chosen.seen,
        chosen.out_of_scope,
        chosen.unindexable,
        b"",
        members.data,
        members.lengths,
        members.kinds,
        members.payload_digest,
        judged,
        parsed.outline,
        chosen.traps,
        entry,
        _sketch_of(page) if task.is_revisit or compiled.read_settings.sketches else b"",
        reported,
        page.images,
        page.mail_links,
        body,
        repeated.reference.url if repeated and "revisit" in members.kinds else "",
        members.record_id if body or task.rendered is not None else "",
        signs,
    )


def _records(
    task: ReadTask,
    compiled: CompiledReadSettings,
    parsed: ParseResult,
    judged: FocusJudgement | None,
    redirect_to: str,
    digest: str,
    repeated: RepeatedBody | None,
) -> Members:
    """Return the archive's records of a page that was parsed."""
    page, decoded = parsed.page, parsed.decoded
    metadata = _metadata(task, page, redirect_to)
    if judged is not None and judged.kind != NO_KIND:
        metadata["relevance"] = f"{judged.relevance / TOP_SCORE:.2f}"
    if compiled.read_settings.parse.processors:
        metadata = {**page.metadata, **metadata}  # includes the results of the user's own processors (A15)
    # Then the page's digest is the payload's too.
    if not digest and decoded.payload is decoded.dechunked and task.rendered is None:
        digest = f"sha256:{page.digest}"
    return page_members(_fetched(task), decoded.dechunked, metadata, _earlier(task, repeated), digest)


def _earlier(task: ReadTask, repeated: RepeatedBody | None) -> RevisitOf | None:
    """Return the record that a revisit record of the answer refers to: of another URL, or of the page itself."""
    if repeated is not None:
        return repeated.reference
    return RevisitOf(task.earlier_url or task.url, task.earlier_s, task.earlier_digest) if task.earlier_digest else None


def _parsed(
    task: ReadTask, compiled: CompiledReadSettings, digest: str = "", repeated: RepeatedBody | None = None
) -> ParseResult:
    """Parse an answer, with what is known about its body."""
    known = None
    if repeated is not None:
        of_body = repeated.parsed
        text_digest = of_body.text_digest.hex()
        known = KnownText(repeated.reference.url, of_body.language, text_digest, of_body.simhash, of_body.outline)
    return parse_document(
        task.url,
        task.head,
        task.body,
        compiled.options,
        compiled.processors,
        is_sitemap=task.as_sitemap,
        body_sha256=digest.removeprefix("sha256:"),
        known_text=known,
        recent=_recent if compiled.read_settings.archive.content_seen else None,
    )


def _result_of_repeated(
    task: ReadTask, compiled: CompiledReadSettings, dechunked: bytes, repeated: RepeatedBody
) -> ReadResult:
    """Return the result for an answer whose links are those of the page with the same body.

    It is parsed for the index alone: the indexer would have to read it from the archive again, in a child of its own.
    """
    parsed, reference, headers = repeated.parsed, repeated.reference, parse_head(task.head).headers
    metadata = {
        "hopsFromSeed": str(task.depth),
        "fetchTimeMs": str(round((task.ended_s - task.started_s) * 1000)),
        "linksOf": reference.url,
    }
    members = page_members(_fetched(task), dechunked, metadata, reference, reference.payload_digest)
    entry = b""
    if compiled.read_settings.index:
        entry = _entry(task, compiled, _parsed(task, compiled, reference.payload_digest, repeated).page)
    return ReadResult(
        task.outcome,
        parsed.media_type,
        parsed.language,
        parsed.title,
        parsed.canonical,
        etag=headers.first("etag"),
        last_modified=headers.first("last-modified"),
        noindex=parsed.noindex,
        digest=parsed.digest,
        text_digest=parsed.text_digest,
        simhash=parsed.simhash,
        outline=parsed.outline,
        payload_bytes=parsed.payload_bytes,
        members=members.data,
        lengths=members.lengths,
        kinds=members.kinds,
        payload_digest=members.payload_digest,
        entry=entry,
        same_as=reference.url if "revisit" in members.kinds else "",
        signs=parsed.signs if compiled.read_settings.render != "never" else None,
    )


def _parsed_body(
    task: ReadTask, compiled: CompiledReadSettings, parsed: ParseResult, outcome: str, signs: ScriptSigns | None
) -> bytes:
    """Return what other answers with this body need not be parsed for; empty if they are not recognised."""
    settings, page = compiled.read_settings, parsed.page
    if not settings.archive.content_seen or task.status != 200 or outcome != task.outcome or task.truncated:
        return b""
    has_more = parsed.entries or parsed.failed or page.truncated or "reserved" in page.metadata
    is_plain = _is_plain(settings) and not has_more
    return encode(
        ParsedBody(
            link_scope(page) if is_plain else LinkScope.NOWHERE,
            task.depth,
            page.media_type,
            page.language,
            page.title,
            page.canonical,
            page.noindex,
            bytes.fromhex(page.digest),
            bytes.fromhex(page.text_digest),
            page.simhash,
            parsed.outline,
            len(parsed.decoded.payload),
            signs,
        )
    )


def _reported_changes(task: ReadTask, compiled: CompiledReadSettings, parsed: ParseResult) -> ReportedChanges | None:
    """Return the statements of a sitemap or feed on pages of its own site; other sites are only counted."""
    if not 200 <= task.status < 300:
        return None
    dates, foreign, site = [], 0, site_of(host_of(task.url))
    for each in parsed.entries[:MAX_REPORTED]:
        if site_of(host_of(each.url)) != site:
            foreign += 1
            continue
        decision = compiled.check_link(each.url) if each.modified_s is not None else None
        if isinstance(decision, FrontierUrl) and each.modified_s is not None:
            dates.append((decision.host, decision.key, each.modified_s))
    kind = SignalKind.FEED if "feed" in parsed.page.metadata else SignalKind.SITEMAP
    hub = hub_of(task.url, parsed.head.headers, parsed.page.metadata) if kind is SignalKind.FEED else ("", "")
    return ReportedChanges(int(kind), dates, sum(each.is_broken_date for each in parsed.entries), foreign, *hub)


def _read_entry(task: ReadTask, compiled: CompiledReadSettings) -> ReadResult:
    """Read a page out of the archive again, for the index alone."""
    page = _parsed(task, compiled).page
    if task.rendered is not None:
        document = task.rendered.document
        shown = parse_document(task.url, _RENDERED_HEAD, document, compiled.options, compiled.processors)
        page = _rendered_page(task, compiled, page, shown.page)
    return ReadResult(task.outcome, entry=_entry(task, compiled, page))


def _entry(task: ReadTask, compiled: CompiledReadSettings, page: Page) -> bytes:
    if not 200 <= task.status < 300:
        return b""
    entry = entry_of(page, task.started_s, obeys=compiled.read_settings.obeys_robots)
    return b"" if entry is None else encode_entry(entry)


# ---- decisions ------------------------------------------------------------------------------------------------------


def _outcome(task: ReadTask, compiled: CompiledReadSettings, parsed: ParseResult, redirect_to: str) -> str:
    if redirect_to and (redirect_to == task.url or task.hops >= compiled.read_settings.limits.redirects):
        return Outcome.REDIRECT_LOOP
    if not 200 <= task.status < 300:
        return task.outcome
    if task.outcome == Outcome.TOO_LARGE or task.truncated == "length":
        return Outcome.TOO_LARGE
    if parsed.decoded.payload and not compiled.scope.allows_type(parsed.page.media_type):
        return Outcome.FORBIDDEN_TYPE
    if not compiled.scope.allows_language(task.url, parsed.page.language):
        return Outcome.OUT_OF_SCOPE
    return task.outcome


def _says_all(task: ReadTask, compiled: CompiledReadSettings, repeated: RepeatedBody) -> bool:
    """Tell whether the stored result of a body is all that these settings want, and whether they keep such a page.

    It may be older than a focus or the user's processors. A language may be kept at some URLs only.
    """
    scope, parsed = compiled.scope, repeated.parsed
    is_kept = scope.allows_type(parsed.media_type) and scope.allows_language(task.url, parsed.language)
    return is_kept and _is_plain(compiled.read_settings)


def _is_plain(settings: ReadSettings) -> bool:
    """Tell whether pages are read for nothing that a `ParsedBody` does not store."""
    return not (settings.focus or settings.parse.processors)


def _redirect(task: ReadTask, headers: Headers) -> str:
    if task.status not in REDIRECTS:
        return ""
    return resolve(headers.first("location"), task.url) or ""


@dataclass(slots=True)
class SelectedLinks:
    """The links that go to the frontier, in the fields of a `FoundLink`, and counts of the others by reason."""

    links: list[LinkFields]
    seen: int = 0
    out_of_scope: int = 0
    unindexable: int = 0
    traps: dict[str, int] = field(default_factory=dict)


def _chosen_links(
    task: ReadTask, compiled: CompiledReadSettings, page: Page, outcome: str, redirect_to: str
) -> SelectedLinks:
    """Merge the page's links and keep those that may be followed."""
    if redirect_to:
        links: tuple[Link, ...] = (Link(redirect_to, LinkKind.REDIRECT),)
    else:
        links = page.links
    chosen = SelectedLinks([], len(links))
    obeys = compiled.read_settings.obeys_robots
    if outcome in {Outcome.REDIRECT_LOOP, Outcome.OUT_OF_SCOPE} or (obeys and page.nofollow):
        return chosen
    is_index = page.metadata.get("sitemap") == "index"
    # An index may not list indexes (sitemaps.org); a server that makes them up would lead on for ever.
    if is_index and task.as_sitemap and task.depth > SITEMAP_DEPTH:
        chosen.out_of_scope = len(links)
        return chosen
    # A redirect leads to the same page and is no deeper.
    too_deep = task.depth + (0 if redirect_to else 1) > compiled.read_settings.scope.max_depth
    are_sitemaps = AS_SITEMAP if is_index else 0
    chosen.links, chosen.unindexable, chosen.out_of_scope, chosen.traps = RULE.choose(
        links, compiled.check_link, compiled.check_requisite, obeys=obeys, too_deep=too_deep, also=are_sitemaps
    )
    return chosen


def _sketch_of(page: Page) -> bytes:
    """Return the sketch that later shows which parts of a page change; pages that are visited once need none."""
    from teia.refresh.mask import make_sketch

    return make_sketch(page.text)


def _judged(
    task: ReadTask, focus: CompiledFocus, page: Page, chosen: SelectedLinks, redirect_to: str
) -> FocusJudgement | None:
    """Judge a page of a focused crawl; links it drops count as out of scope. None for a 304, which brings no text."""
    if task.status == NOT_MODIFIED:
        return None
    from teia.crawler.child.focus import judge

    links = [FoundLink(*each) for each in chosen.links]
    named = sum(link.count for link in links)
    judged = judge(focus, Hint(task.score, task.off_topic), page, links, is_redirect=bool(redirect_to))
    # Hard focus has removed some of the links.
    chosen.out_of_scope += named - sum(link.count for link in links)
    chosen.links = [astuple(link) for link in links]
    return judged


# ---- records and result ---------------------------------------------------------------------------------------------


def _fetched(task: ReadTask) -> Fetched:
    return Fetched(
        task.url,
        task.outcome,
        task.status,
        task.started_s,
        task.ended_s,
        task.address,
        task.request_head,
        task.head,
        b"",
        task.truncated,
        task.detail,
    )


def _metadata(task: ReadTask, page: Page, redirect_to: str) -> dict[str, str | tuple[str, ...]]:
    """Return the metadata record, with every link, so that the archive alone holds the link graph (F5)."""
    metadata: dict[str, str | tuple[str, ...]] = {
        "hopsFromSeed": str(task.depth),
        "fetchTimeMs": str(round((task.ended_s - task.started_s) * 1000)),
    }
    if page.language:
        metadata["language"] = page.language
    if page.nofollow:
        metadata["robots"] = "nofollow"
    if "rendered" in page.metadata and task.rendered is not None:
        metadata["rendered"] = page.metadata["rendered"]
        metadata["requested"] = tuple(task.rendered.requests)
    metadata |= {name: page.metadata[name] for name in ("reserved", "unread") if name in page.metadata}
    if redirect_to:
        metadata["outlink"] = outlink_lines([Link(redirect_to, LinkKind.REDIRECT)])
    elif page.links:
        metadata["outlink"] = outlink_lines(page.links[:MAX_OUTLINKS])
    return metadata


# ---- the hub of a feed -----------------------------------------------------------------------------------------------


_LINK = re.compile(r"<([^<>]{1,4096})>((?:\s*;\s*[\w*!#$&+.^`|~-]+\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]+))*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)


def hub_of(url: str, headers: Headers, named: Mapping[str, str]) -> tuple[str, str]:
    """Return (hub, topic) of a feed; both empty if it has no hub. A topic on another site is ignored."""
    # Headers come last and win over the feed's own links.
    found = {**{word: named[word] for word in ("hub", "self") if word in named}, **_in_headers(headers)}
    hub = resolve(found.get("hub", ""), url, ()) if found.get("hub") else None
    if hub is None:
        return "", ""
    topic = resolve(found.get("self", ""), url, ()) if found.get("self") else None
    is_own = topic is not None and site_of(host_of(topic)) == site_of(host_of(url))
    return hub, topic if is_own and topic is not None else url


def _in_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in headers.all("link"):
        for target, parameters in _LINK.findall(value):
            rel = _REL.search(parameters)
            for word in (rel[1] or rel[2] or "").lower().split() if rel is not None else ():
                if word in {"hub", "self"}:
                    found.setdefault(word, target)
    return found
