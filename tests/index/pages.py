"""Pages for tests, made from a few words; what is not said is plain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from teia.index.cell import CellIndex
from teia.index.entry import Anchor, IndexEntry
from teia.lib.simhash import simhash
from teia.urls import host_of, key_of

VISITED_S = 1_700_000_000


def page(
    url: str,
    text: str,
    title: str = "",
    *,
    headings: tuple[str, ...] = (),
    description: str = "",
    language: str = "",
    media_type: str = "text/html",
    date_s: int = 0,
    links: Iterable[str] = (),
) -> IndexEntry:
    fingerprint = simhash(text)
    return IndexEntry(
        url=url,
        key=key_of(url),
        host=host_of(url),
        digest=sha256(text.encode()).digest()[:8],
        title=title,
        headings=headings,
        text=text,
        description=description,
        language=language,
        media_type=media_type,
        date_s=date_s,
        visited_s=VISITED_S,
        text_digest=int.from_bytes(sha256(text.encode()).digest()[:8], "little", signed=True),
        simhash=fingerprint - (1 << 64) if fingerprint >= 1 << 63 else fingerprint,
        links=tuple(Anchor(key_of(target), host_of(target), "") for target in links),
    )


def indexed(folder: Path, pages: Iterable[IndexEntry], anchors: Mapping[str, list[str]] | None = None) -> Path:
    """Put pages into the index in a folder, with the words on links to them by URL."""
    index = CellIndex(folder)
    for number, entry in enumerate(pages, start=index.position + 1):
        index.put(entry, (anchors or {}).get(entry.url, ()))
        index.commit(number) if number % 100 == 0 else None
    index.commit(index.position + 1)
    index.close()
    return folder
