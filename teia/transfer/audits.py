"""Audits, and the last result of each kind: `audits/KIND.json` of a collection.

An audit only reads, so it can run beside a crawl and on a read-only folder; there its result is reported and not
stored. The audit of links can also repair, and then no other process may write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from teia.clock import Clock
from teia.collections.settings import saved
from teia.durable import write_atomically
from teia.errors import StoreError, TeiaError
from teia.indexer.rebuild import audit_index
from teia.store.audit import Audit
from teia.store.root import CollectionFolder, Root
from teia.transfer.frontier_audit import audit_frontier, damage
from teia.transfer.links_audit import audit_links, repair_links
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives, audit_fetch_log

MAX_DETAILS = 20
VERSION = 1


class AuditKind(StrEnum):
    """Kind of audit."""

    ARCHIVE = "archive"
    POLITENESS = "politeness"
    INDEX = "index"
    LINKS = "links"
    FRONTIER = "frontier"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result of an audit: number `checked`, number of rules broken, and the first of those in words."""

    kind: str
    began_s: float
    ended_s: float
    checked: int
    violations: int
    details: tuple[str, ...]


def audit(
    root: Root, name: str, kind: AuditKind, clock: Clock, *, repair: bool = False, trusted: Sequence[bytes] = ()
) -> Audit:
    """Run an audit, and store its result where the folder is writable; `repair` in-links before it.

    `trusted` are public keys for the manifest, instead of those of the folder.
    """
    began_s, damaged = clock.now_s(), damage(root, name)
    try:
        found = _run(root, name, kind, clock, repair=repair, trusted=trusted)
    except StoreError as error:
        if not damaged:
            raise
        found = Audit(0, 0, (str(error),))
    # Every audit relies on the frontier, so each reports its damaged pages.
    if damaged:
        found = replace(found, violations=found.violations + len(damaged), details=(*damaged, *found.details))
    result = AuditResult(kind, began_s, clock.now_s(), found.checked, found.violations, found.details[:MAX_DETAILS])
    # A read-only folder: the caller gets the result all the same.
    with suppress(TeiaError, OSError):
        _store(root.collection(name), result)
    return found


def _run(root: Root, name: str, kind: AuditKind, clock: Clock, *, repair: bool, trusted: Sequence[bytes]) -> Audit:
    if kind is AuditKind.MANIFEST:
        return audit_manifest(root, name, clock, trusted)
    if kind is AuditKind.POLITENESS:
        return audit_fetch_log(root, name, saved(root, name).config.courtesy)
    if kind is AuditKind.LINKS:
        return repair_links(root, name, clock) if repair else audit_links(root, name)
    run = {AuditKind.ARCHIVE: audit_archives, AuditKind.FRONTIER: audit_frontier, AuditKind.INDEX: audit_index}
    return run[kind](root, name)


def _store(folder: CollectionFolder, result: AuditResult) -> None:
    folder.audits.mkdir(exist_ok=True)
    text = json.dumps({"version": VERSION, **asdict(result)}, indent=1)
    write_atomically(folder.audits / f"{result.kind}.json", text.encode())


def last_audit(folder: CollectionFolder, kind: AuditKind) -> AuditResult | None:
    """Return the last audit of a kind; None if there was none, or its result cannot be read."""
    try:
        found = json.loads((folder.audits / f"{kind}.json").read_bytes())
        if found.pop("version") != VERSION:
            return None
        return AuditResult(**{**found, "details": tuple(map(str, found["details"]))})
    # A result that was edited by hand, or is of another version, counts as none.
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
