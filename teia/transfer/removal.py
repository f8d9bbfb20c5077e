"""Removal of pages or sites on demand, with proof: `teia remove`.

A URL, or all URLs of a domain, is excluded from the collection and leaves the archive, the histories, the search index
and the subscriptions. The result states what was found and, by reading everything again, that nothing is left. Every
step may be repeated, so a command that was killed is simply run again; what it had begun to erase is also finished by
the next crawl (crawler/open_cell.py).

A capture of another page may have its body in a removed record. It goes as well, and that page is queued again.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field

from teia.clock import Clock, iso_utc
from teia.collections.settings import change, is_clustered, saved
from teia.crawler.open_cell import finish_erasures, plan_erasures
from teia.durable import disk_errors
from teia.errors import UsageError
from teia.frontier.cell import in_link_counts, mail
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.rules.scope import compile_scope
from teia.frontier.tables.captures import forget_lost, forget_page
from teia.frontier.tables.pages import all_urls
from teia.indexer.process import CollectionFollower
from teia.records import Edit, Operator
from teia.signals.subscriptions import SCHEMA, Subscriptions
from teia.sqlite import open_database
from teia.store.archive import archive_files
from teia.store.reader import ArchiveRecord, file_records, ignore_damage
from teia.store.root import CellFolder, Root
from teia.store.seen_bodies import SeenBodies
from teia.transfer.audits import AuditKind, audit
from teia.urls import canonicalize, host_to_cell

LOG_FILE = "removals.jsonl"
EXCLUDE = "scope.exclude"

Matches = Callable[[str], bool]


@dataclass(slots=True)
class RemovalResult:
    """Result of a removal: what was found, and what is left of it (`left_…`), which must be 0 afterwards.

    `pages_again` are other pages that shared a removed body and are fetched again.
    """

    collection: str
    targets: list[str]
    reason: str
    time: str
    urls: int = 0
    records: int = 0
    bytes: int = 0
    pages_again: int = 0
    subscriptions: int = 0
    notices: int = 0
    left_records: int = 0
    left_pages: int = 0
    index_violations: int = 0
    is_dry_run: bool = True
    rules: list[str] = field(default_factory=list)

    @property
    def is_proven(self) -> bool:
        return not self.left_records and not self.left_pages and not self.index_violations


def rule_of(word: str) -> str:
    """Return the scope rule of a target: a URL alone, all URLs that begin so (`URL*`), or a domain."""
    word = word.strip()
    if not word.lower().startswith(("http://", "https://")):
        if "/" in word or not word:
            raise UsageError(f"{word!r} is neither a URL with http:// or https:// nor the name of a domain")
        return f"domain:{word}"
    url = canonicalize(word.removesuffix("*"))
    if url is None:
        raise UsageError(f"{word!r} is not an http or https URL")
    return f"prefix:{url}" if word.endswith("*") else f"regex:^{re.escape(url)}$"


def remove(root: Root, name: str, targets: Sequence[str], reason: str, clock: Clock, *, dry_run: bool) -> RemovalResult:
    """Remove pages or sites from a collection; the caller has locked the root unless it is a dry run."""
    folder = root.collection(name)
    if is_clustered(folder):
        raise UsageError(f"{name}: pages of a cluster cannot be removed yet; block them with `teia block`")
    rules = [rule_of(word) for word in targets]
    matches = compile_scope([], rules).excludes
    result = RemovalResult(name, list(targets), reason, iso_utc(clock.now_s()), is_dry_run=dry_run, rules=rules)
    found = _survey(folder.cells(), matches)
    result.records = sum(len(offsets) for files in found.values() for offsets in files.values())
    if dry_run:
        result.urls = _count_urls(folder.cells(), matches)
        return result
    known = set(saved(root, name).config.scope.exclude)
    edits = [Edit(EXCLUDE, Operator.ADD, rule) for rule in rules if rule not in known]
    if edits:
        change(root, name, edits, clock)
    places = {(file, offset) for files in found.values() for file, offsets in files.items() for offset in offsets}
    _forget(root, name, matches, found, clock, result)
    # The results of parsing are beside the archive, for other pages with the same body.
    with closing(SeenBodies(folder.seen)) as bodies:
        bodies.forget(places)
    for each in folder.cells():
        result.bytes += finish_erasures(each, clock).bytes
    _forget_subscriptions(root, name, matches, result)
    if saved(root, name).config.index.enabled:
        asyncio.run(_update_index(root, name, clock))
        result.index_violations = audit(root, name, AuditKind.INDEX, clock).violations
    left = _survey(folder.cells(), matches)
    result.left_records = sum(len(offsets) for files in left.values() for offsets in files.values())
    result.left_pages = _count_pages(folder.cells(), matches)
    with disk_errors(folder.path, "written"), (folder.path / LOG_FILE).open("a", encoding="utf-8") as log:
        log.write(json.dumps(asdict(result)) + "\n")
    return result


# ---- what is there --------------------------------------------------------------------------------------------------


def _survey(cells: Sequence[CellFolder], matches: Matches) -> dict[int, dict[str, set[int]]]:
    """Return the offsets of the records about matching URLs, by cell and file; every record is read."""
    found: dict[int, dict[str, set[int]]] = {}
    for folder in cells:
        for path in archive_files(folder.archive):
            offsets = {record.offset for record in file_records(path, ignore_damage) if _is_about(record, matches)}
            if offsets:
                found.setdefault(folder.number, {})[path.name] = offsets
    return found


def _is_about(record: ArchiveRecord, matches: Matches) -> bool:
    """Tell whether a record is of a matching URL, or refers to the body of one."""
    urls = (record.url, record.headers.get("warc-refers-to-target-uri", ""))
    return any(url and (canonical := canonicalize(url)) is not None and matches(canonical) for url in urls)


def _count_urls(cells: Sequence[CellFolder], matches: Matches) -> int:
    return sum(1 for _, each in _known(cells) if matches(each))


def _count_pages(cells: Sequence[CellFolder], matches: Matches) -> int:
    return sum(1 for has_capture, each in _known(cells) if has_capture and matches(each))


def _known(cells: Sequence[CellFolder]) -> Iterator[tuple[bool, str]]:
    """Yield every known URL, and whether its page still has content."""
    for folder in cells:
        frontier = FrontierCell(folder.frontier, read_only=True)
        try:
            for each in all_urls(frontier):
                yield each.page is not None and bool(each.page.file or each.page.digest or each.page.title), each.url
        finally:
            frontier.close()


# ---- frontier, subscriptions, index ---------------------------------------------------------------------------------


def _forget(
    root: Root,
    name: str,
    matches: Matches,
    found: dict[int, dict[str, set[int]]],
    clock: Clock,
    result: RemovalResult,
) -> None:
    """Forget matching pages in every cell, and what other pages have in their records."""
    places = {(file, offset) for files in found.values() for file, offsets in files.items() for offset in offsets}
    cell_number = host_to_cell(root.collection(name).starts())

    def is_lost(file: str, offset: int, _length: int) -> bool:
        return (file, offset) in places

    with ExitStack() as stack:
        for folder in root.collection(name).cells():
            frontier = FrontierCell(folder.frontier)
            stack.callback(frontier.close)
            urls = [each.row_key for each in all_urls(frontier) if matches(each.url)]
            with frontier.transaction():
                gone: dict[int, list[FoundUrl]] = {}
                for row_key in urls:
                    for host, key in forget_page(frontier, row_key):
                        gone.setdefault(cell_number(host), []).append(in_link_counts.removed_link(host, key))
                frontier.add_links(gone.pop(folder.number, []), clock.now_s())
                for to_cell, links in gone.items():
                    mail.post(frontier, to_cell, links)
                result.pages_again += forget_lost(frontier, is_lost, clock.now_s())[0]
                own = found.get(folder.number, {})
                plan_erasures(frontier, ((file, each) for file in own for each in own[file]), "removal")
            result.urls += len(urls)


def _forget_subscriptions(root: Root, name: str, matches: Matches, result: RemovalResult) -> None:
    """End subscriptions to matching pages, and delete notices that name one."""
    folder = root.collection(name)
    if not folder.subscriptions.exists():
        return
    with closing(Subscriptions(open_database(folder.subscriptions, SCHEMA))) as store:
        result.subscriptions, result.notices = store.forget_pages(matches)


async def _update_index(root: Root, name: str, clock: Clock) -> None:
    following = CollectionFollower(root, name, clock)
    try:
        await following.finish()
    finally:
        await following.close()
