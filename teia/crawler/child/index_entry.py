"""The index entry of a page; made in the parse child, which has the text at hand."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from teia.index.entry import DIGEST_BYTES, MAX_TEXT_CHARS, Anchor, IndexEntry
from teia.parse.dates import parse_date
from teia.records import LinkKind, Page
from teia.urls import host_of, key_of

MAX_CACHED_LINKS = 8_192
EARLIEST_S = 631_152_000  # 1990: pages cannot be older than the web
DAY_S = 86_400
_ANCHOR = LinkKind.ANCHOR


def entry_of(page: Page, visited_s: float, *, obeys: bool) -> IndexEntry | None:
    """Return the index entry of a page; None if it has no text or forbids indexing."""
    if (obeys and page.noindex) or not (page.text or page.title):
        return None
    return IndexEntry(
        page.url,
        key_of(page.url),
        host_of(page.url),
        bytes.fromhex(page.digest)[:DIGEST_BYTES],
        _composed(page.title),
        tuple(map(_composed, page.headings)),
        _composed(page.text[:MAX_TEXT_CHARS]),
        _composed(page.description),
        page.language,
        page.media_type,
        _date_s(page, visited_s),
        int(visited_s),
        int.from_bytes(bytes.fromhex(page.text_digest)[:8], "little", signed=True),
        page.simhash - (1 << 64) if page.simhash >= 1 << 63 else page.simhash,
        _anchors(page, obeys=obeys),
        page.anchor_count,
    )


def _date_s(page: Page, visited_s: float) -> int:
    """Return the time when the page says it was last changed or published, if plausible; else 0."""
    for text in (page.metadata.get("modified", ""), page.published):
        moment_s = parse_date(text) if text else None
        # A day of grace for pages that are dated by a clock ahead of ours.
        if moment_s is not None and EARLIEST_S <= moment_s <= visited_s + DAY_S:
            return int(moment_s)
    return 0


def _anchors(page: Page, *, obeys: bool) -> tuple[Anchor, ...]:
    """Return the page's link targets, each once; without `nofollow` links where those are obeyed."""
    if obeys and page.nofollow:
        return ()
    found: dict[int, Anchor] = {}
    for url, kind, text, nofollow in page.links:
        if (nofollow and obeys) or (kind is not _ANCHOR and kind.is_requisite) or url == page.url:
            continue
        key, host = _key_and_host(url)
        known = found.get(key)
        # A link without a text, such as an image, gives way to one that has a text.
        if known is None or not known.text:
            found[key] = Anchor(key, host, text if text.isascii() else _composed(text))
    return tuple(found.values())


@lru_cache(maxsize=MAX_CACHED_LINKS)
def _key_and_host(url: str) -> tuple[int, str]:
    return key_of(url), host_of(url)


def _composed(text: str) -> str:
    """Compose letters and accents (NFC): the index would take a separate accent for the end of a word."""
    return text if text.isascii() or _is_latin(text) else unicodedata.normalize("NFC", text)


def _is_latin(text: str) -> bool:
    """Tell whether a text has only characters of Latin-1, all of them composed; seen in a tenth of the time of NFC."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
