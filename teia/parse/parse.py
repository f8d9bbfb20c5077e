"""The entry point: an answer as received goes in, a `Page` comes out.

    head, body -> decode (chunks, compression) -> media type -> processors -> fingerprints -> Page

`parse_document` never raises, for any bytes: an unreadable answer is a page without text, with the reason. Other
failures (a crash inside a library, time or memory without end) are handled by the pool of child processes, pool.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from teia.lib.simhash import outline
from teia.parse import mime
from teia.parse.decode import Decoded, decode
from teia.parse.document import Document, Findings, ListedUrl, ParseOptions
from teia.parse.files import feed, sitemap
from teia.parse.headers import ResponseHead, parse_head
from teia.parse.html import directives
from teia.parse.html.links import LinkCollector, add_header_links
from teia.parse.processors import BUILT_IN, Processors
from teia.parse.recent import RecentDocuments
from teia.parse.text.fingerprint import KnownText, fingerprints
from teia.parse.text.language import language_of
from teia.records import Link, LinkKind, Page, PageContent

MAX_METADATA_CHARS = 4_096
_DEFAULT_OPTIONS = ParseOptions()
_NOTHING = Findings()
_CONTENT = tuple(each.name for each in fields(PageContent))
_FIRST_OF = ("title", "text", "language", "description", "canonical", "author", "published")
"""Fields of findings of which the first that is not empty counts."""

_RELEVANT_HEADERS = frozenset({"link", "refresh", "location", "x-robots-tag", directives.TDM})
"""Headers with information about a page beside its body; most answers have none."""


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A page, and the data that its archiving and scheduling need.

    `decoded.dechunked` is the body for the archive. `entries` are those of a sitemap or feed, with times. `failed`
    names the processors that raised, with the kind of error. `outline` is that of the text (lib/simhash.py).
    """

    page: Page
    head: ResponseHead
    decoded: Decoded
    entries: tuple[ListedUrl, ...] = ()
    failed: tuple[str, ...] = ()
    outline: int = 0


def parse_document(
    url: str,
    head: bytes,
    body: bytes,
    options: ParseOptions = _DEFAULT_OPTIONS,
    processors: Processors = BUILT_IN,
    *,
    is_sitemap: bool = False,
    body_sha256: str = "",
    known_text: KnownText | None = None,
    recent: RecentDocuments | None = None,
) -> ParseResult:
    """Read one answer. `is_sitemap`: it was announced as a sitemap, so it is read as one unless it is a web page.

    `body_sha256` is that of the body without chunks, in hex, and `known_text` is of the same body at another URL, if
    the caller knows them already. `recent` are documents that may have the same body.
    """
    parsed_head = parse_head(head)
    limits = options.limits
    if is_sitemap:
        limits = replace(limits, decoded_bytes=max(limits.decoded_bytes, sitemap.MAX_BYTES))
    # 1. Chunks and compression. 2. The media type chooses the processors. 3. Findings are merged into one page.
    decoded = decode(parsed_head.headers, body, limits)
    document = Document(url, parsed_head, decoded.payload, options)
    known_digest = body_sha256 if decoded.payload is decoded.dechunked else ""
    earlier = recent.find(known_digest) if recent is not None and known_digest else None
    if earlier is not None:
        document.share(earlier)
    # Many servers answer a missing sitemap with a page and 200.
    is_sitemap = is_sitemap and not _is_web_page(decoded.payload)
    chosen = (("sitemap", sitemap.read_sitemap),) if is_sitemap else processors.for_type(document.media_type)
    findings: list[Findings] = [_head_findings(parsed_head, document)]
    failed: list[str] = []
    for name, processor in chosen if decoded.payload else ():
        try:
            found = processor(document)
        except Exception as error:  # noqa: BLE001  # the failure of one processor, users' included, costs only itself
            failed.append(f"{name}: {type(error).__name__}")
        else:
            findings.append(found if isinstance(found, Findings) else Findings(metadata=_as_metadata(found)))
    merged = _merge(findings)
    text_outline = outline(merged.text)
    if known_text is not None and not 0 != known_text.outline == text_outline:
        known_text = None  # other headers or settings made another text of the body
    page = _page(document, decoded, merged, failed, known_digest, known_text)
    if recent is not None:
        recent.add(page.digest, document)
    return ParseResult(page, parsed_head, decoded, merged.entries, tuple(failed), text_outline)


def _is_web_page(payload: bytes) -> bool:
    return mime.looks_like_html(payload) and mime.xml_root(payload) not in {*sitemap.ROOTS, *feed.ROOTS}


def _head_findings(head: ResponseHead, document: Document) -> Findings:
    if _RELEVANT_HEADERS.isdisjoint(head.headers.names):
        return _NOTHING
    links = LinkCollector(document.url, document.options)
    canonical = add_header_links(head, links)
    robots = directives.from_headers(head.headers.all("x-robots-tag"), document.options.agent)
    robots |= directives.tdm_reserved(head.headers.first(directives.TDM))
    return Findings(
        canonical=canonical,
        links=links.links(),
        noindex=robots.noindex,
        nofollow=robots.nofollow,
        reserved=robots.reserved,
        truncated=("links",) if links.is_full else (),
    )


def _as_metadata(found: Mapping[str, str] | None) -> dict[str, str]:
    return {str(name)[:100]: str(value)[:MAX_METADATA_CHARS] for name, value in (found or {}).items()}


def _merge(findings: list[Findings]) -> Findings:
    """Merge findings, as the docstring of `Findings` describes."""
    findings = [each for each in findings if each is not _NOTHING]
    if len(findings) == 1:
        return findings[0]
    metadata: dict[str, str] = {}
    for each in findings:
        metadata.update(each.metadata)
    texts = {name: next(filter(None, (getattr(each, name) for each in findings)), "") for name in _FIRST_OF}
    return Findings(
        **texts,
        headings=next((each.headings for each in findings if each.headings), ()),
        metadata=metadata,
        links=_merge_links([each.links for each in findings if each.links]),
        entries=tuple(entry for each in findings for entry in each.entries),
        noindex=any(each.noindex for each in findings),
        nofollow=any(each.nofollow for each in findings),
        truncated=tuple(dict.fromkeys(name for each in findings for name in each.truncated)),
        images=sum(each.images for each in findings),
        mail_links=sum(each.mail_links for each in findings),
        anchor_count=sum(each.anchor_count for each in findings),
        has_scripts=any(each.has_scripts for each in findings),
        reserved=frozenset().union(*(each.reserved for each in findings)),
    )


def _merge_links(found: list[tuple[Link, ...]]) -> tuple[Link, ...]:
    """Join links; a link found twice (in a header and in the page, by two processors) is still one."""
    if len(found) < 2:
        return found[0] if found else ()
    once: dict[tuple[str, LinkKind], Link] = {}
    for links in found:
        for link in links:
            once.setdefault((link.url, link.kind), link)
    return tuple(once.values())


def _page(
    document: Document,
    decoded: Decoded,
    found: Findings,
    failed: Sequence[str],
    known_digest: str,
    known: KnownText | None,
) -> Page:
    prints = fingerprints(decoded.payload, found.text, document.url, known_digest, known)
    is_text = document.media_type.startswith("text/") or mime.is_xml(document.media_type)
    declared = found.language or document.head.headers.first("content-language")
    cut = (*((decoded.truncated,) if decoded.truncated else ()), *found.truncated)
    content = {name: getattr(found, name) for name in _CONTENT}
    # The declaration of the page itself is in the body; that of a header may be of this answer alone.
    if known is not None and found.language:
        content["language"] = known.language
    else:
        content["language"] = language_of(found.text, declared)
    notes = {
        "coding": decoded.error,
        "failed-processors": "; ".join(failed),
        "reserved": " ".join(sorted(found.reserved)),
    }
    content["metadata"] = found.metadata | {name: text for name, text in notes.items() if text}
    return Page(
        **content,
        url=document.url,
        media_type=document.media_type,
        charset=document.charset if is_text and document.payload else "",
        noindex=found.noindex,
        nofollow=found.nofollow,
        digest=prints.digest,
        text_digest=prints.text_digest,
        simhash=prints.simhash,
        truncated=" ".join(dict.fromkeys(cut)),
        images=found.images,
        mail_links=found.mail_links,
        anchor_count=found.anchor_count,
        has_scripts=found.has_scripts,
    )
