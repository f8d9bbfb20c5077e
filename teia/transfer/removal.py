"""Removal of pages or sites on demand, with proof: `teia remove`.

A URL, or all URLs of a domain, is excluded from the collection and leaves the archive, the histories, the search index
and the subscriptions. The result states what was found and, by reading everything again, that nothing is left. Every
step may be repeated, so a command that was killed is simply run again; what it had begun to erase is also finished by
the next crawl (crawler/open_cell.py). While the collection is crawled, the crawler does it (crawler/upkeep/removal.py).
In a cluster all nodes do it, and prove it (cluster/cells/removal.py).

A capture of another page may have its body in a removed record. It goes as well, and that page is queued again.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from teia.clock import Clock, iso_utc
from teia.collections.control_file import Inbox, RemovePages
from teia.collections.index_state import is_being_written
from teia.collections.settings import change, is_clustered, no_node_error, saved
from teia.config.sections import Config
from teia.crawler.upkeep.removal import (
    Matches,
    count_pages,
    count_records,
    count_urls,
    forget_subscriptions,
    matcher,
    remove_from_closed,
)
from teia.durable import disk_errors
from teia.errors import ClusterError, StoreError, UsageError
from teia.indexer.process import CollectionFollower, indexing_lock
from teia.indexer.rebuild import indexed_pages
from teia.lib.message import decoded
from teia.records import Edit, Operator, RemovedPages
from teia.store.root import Root
from teia.transfer.audits import AuditKind, audit
from teia.urls import canonicalize

LOG_FILE = "removals.jsonl"
EXCLUDE = "scope.exclude"
POLL_S = 0.1
ANSWER_TIMEOUT_S = 3_600.0
"""Longest wait for a crawl: its requests under way end first, and it reads its whole archive."""

INDEX_TIMEOUT_S = 120.0
"""Longest wait for the indexer of a crawl."""


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
    nodes: dict[str, str] = field(default_factory=dict)
    """Nodes of a cluster: `done`, `pending` (they are down) or `left` (something could not be removed)."""

    @property
    def is_proven(self) -> bool:
        is_left = self.left_records or self.left_pages or self.index_violations
        return not is_left and all(state == "done" for state in self.nodes.values())


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
    """Remove pages or sites from a collection, which may be crawled meanwhile."""
    folder = root.collection(name)
    rules = [rule_of(word) for word in targets]
    matches = matcher(rules)
    result = RemovalResult(name, list(targets), reason, iso_utc(clock.now_s()), is_dry_run=dry_run, rules=rules)
    if dry_run:
        result.records = count_records(folder.cells(), matches)
        result.urls = count_urls(folder.cells(), matches)
        return result
    config, is_in_cluster = saved(root, name).config, is_clustered(folder)
    if is_in_cluster:
        _check_cluster(root, name, config)
    known = set(config.scope.exclude)
    edits = [Edit(EXCLUDE, Operator.ADD, rule) for rule in rules if rule not in known]
    if edits:
        change(root, name, edits, clock)
    if is_in_cluster:
        _remove_in_cluster(root, name, RemovePages(tuple(rules), secrets.token_hex(8), not edits), result, clock)
    else:
        _remove_here(root, name, matches, result, clock)
    with disk_errors(folder.path, "written"), (folder.path / LOG_FILE).open("a", encoding="utf-8") as log:
        log.write(json.dumps(asdict(result)) + "\n")
    return result


# ---- in a cluster ----------------------------------------------------------------------------------------------------


def _check_cluster(root: Root, name: str, config: Config) -> None:
    """Refuse a removal that no node here would carry out, before the pages are excluded."""
    with Inbox(root.control) as inbox:
        if root.lock_holder() is None or inbox.running_crawl(name) is None:
            raise no_node_error(root.collection(name))
    if not config.cluster.snapshots:
        raise UsageError(
            f"removing pages needs snapshots, and {name!r} has none (cluster.snapshots): without them the logs of its"
            " cells keep every row; block the pages with `teia block`"
        )


def _remove_in_cluster(root: Root, name: str, wanted: RemovePages, result: RemovalResult, clock: Clock) -> None:
    """Have all nodes of a cluster remove pages (cluster/cells/removal.py); they also read everything again."""
    removed = _request(root, name, wanted, clock)
    if removed is None:
        raise ClusterError(
            f"the node on {root.path} has ended; the nodes carry the removal out all the same. Run the command again,"
            " here or on the folder of another node, for the result"
        )
    _note(result, removed)
    result.subscriptions, result.notices = removed.subscriptions, removed.notices
    result.left_records, result.left_pages = removed.left_records, removed.left_pages
    result.index_violations, result.nodes = removed.left_indexed, removed.nodes


# ---- archive, subscriptions, index -----------------------------------------------------------------------------------


def _remove_here(root: Root, name: str, matches: Matches, result: RemovalResult, clock: Clock) -> None:
    folder = root.collection(name)
    _note(result, _remove(root, name, result.rules, clock))
    result.subscriptions, result.notices = forget_subscriptions(folder, matches)
    result.index_violations = _update_index(root, name, matches, clock)
    result.left_records = count_records(folder.cells(), matches)
    result.left_pages = count_pages(folder.cells(), matches)


def _note(result: RemovalResult, removed: RemovedPages) -> None:
    result.urls, result.records, result.bytes = removed.urls, removed.records, removed.bytes
    result.pages_again = removed.pages_again


def _remove(root: Root, name: str, rules: Sequence[str], clock: Clock) -> RemovedPages:
    """Remove pages from tables and archive, or have the process do so that holds the folder."""
    while True:
        try:
            with root.locked():
                return remove_from_closed(root.collection(name), rules, clock)
        except StoreError:
            if root.lock_holder() is None:
                raise
        removed = _request(root, name, RemovePages(tuple(rules)), clock)
        if removed is not None:
            return removed


def _request(root: Root, name: str, wanted: RemovePages, clock: Clock) -> RemovedPages | None:
    """Request a removal of the crawler that runs; return None if it ends before it has answered."""
    until = clock.ticks_s() + ANSWER_TIMEOUT_S
    with Inbox(root.control) as inbox:
        number = inbox.send(name, wanted, clock.now_s())
        while (request := inbox.get(number)) is not None and request.done_s is None:
            if root.lock_holder() is None:
                return None
            if clock.ticks_s() > until:
                raise StoreError(
                    f"process {root.lock_holder()}, which uses {root.path}, has not removed the pages in time; check"
                    " whether it is stopped, and run the command again"
                )
            time.sleep(POLL_S)
    answer = None if request is None else request.answer
    if answer is not None and answer.error:
        raise StoreError(decoded(answer.error))
    return None if answer is None else answer.removed


def _update_index(root: Root, name: str, matches: Matches, clock: Clock) -> int:
    """Have the pages leave the index; return how many are left in it, or all violations if no crawl runs."""
    if not saved(root, name).config.index.enabled:
        return 0
    until = clock.ticks_s() + INDEX_TIMEOUT_S
    while is_being_written(root.collection(name)) and clock.ticks_s() < until:
        # The indexer of the crawl is at work; it commits every few seconds.
        if not indexed_pages(root, name, matches):
            return 0
        time.sleep(POLL_S)
    if is_being_written(root.collection(name)):
        return indexed_pages(root, name, matches)
    with indexing_lock(root, name):
        asyncio.run(_finish_index(root, name, clock))
    if root.lock_holder() is not None:  # a crawl has new pages, which an audit would miss
        return indexed_pages(root, name, matches)
    return audit(root, name, AuditKind.INDEX, clock).violations


async def _finish_index(root: Root, name: str, clock: Clock) -> None:
    following = CollectionFollower(root, name, clock)
    try:
        await following.finish()
    finally:
        await following.close()
