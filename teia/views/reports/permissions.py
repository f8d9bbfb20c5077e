"""What pages ask of crawlers and readers: directives in meta tags and headers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from teia.crawler.links import field_of
from teia.errors import StoreError
from teia.frontier.tables.pages import PageEntry, all_pages
from teia.lib.message import Message
from teia.store.reader import ArchiveReader
from teia.views.reports.source import Source, share_of

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """One directive: the pages that have it, their share, their hosts, and the first URLs."""

    directive: str
    pages: int
    share: float
    hosts: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Permissions:
    """Pages with a capture, and the directives of their last captures."""

    pages: int
    rows: tuple[PermissionRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "noindex keeps a page out of the search, and nofollow its links out of the crawl, where courtesy.robots"
            " obeys them. Captures of pages with noarchive are shown after signing in (public.noarchive). nosnippet,"
            " noai, noimageai and tdm-reservation (text and data mining) are recorded."
        ),
    )


def permissions(source: Source, top: int = 20) -> Permissions:
    """Count the directives of all pages; reads the metadata record of each."""
    pages, counts = 0, Counter[str]()
    hosts: dict[str, set[str]] = {}
    examples: dict[str, list[str]] = {}
    for cell in source.cells:
        reader = ArchiveReader(cell.folder.archive)
        for each in all_pages(cell.frontier):
            if each.page is None or not each.page.file:
                continue
            pages += 1
            for directive in _directives(reader, each.page):
                counts[directive] += 1
                hosts.setdefault(directive, set()).add(each.host)
                if len(examples.setdefault(directive, [])) < EXAMPLES:
                    examples[directive].append(each.url)
    rows = [
        PermissionRow(name, number, share_of(number, pages), len(hosts[name]), tuple(sorted(examples[name])))
        for name, number in counts.most_common(top)
    ]
    return Permissions(pages, tuple(rows))


def _directives(reader: ArchiveReader, page: PageEntry) -> set[str]:
    found = {"noindex"} if page.noindex else set()
    try:
        record = reader.read(page.file, page.offset + page.length)
    except StoreError:
        return found
    if record.kind != "metadata":
        return found
    return found | {*field_of(record.block, "robots").split(), *field_of(record.block, "reserved").split()}
