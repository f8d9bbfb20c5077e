"""Audits carried out, and what the last one of each kind found: `audits/KIND.json` of a collection (UX 2.13).

An audit reads only, so it can be made beside a crawl and of a folder that nobody may write in; then what it found is
told and not kept.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum

from teia.clock import Clock
from teia.crawl.audit import PolitenessAudit
from teia.crawl.collections import saved
from teia.crawl.reading import audit_archives, audit_of
from teia.crawl.reindexing import audit_index
from teia.durable import write_atomically
from teia.errors import TeiaError
from teia.store.audit import Audit
from teia.store.root import CollectionFolder, Root

DETAILS_KEPT = 20
VERSION = 1


class Kind(StrEnum):
    """What can be audited."""

    ARCHIVE = "archive"
    POLITENESS = "politeness"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit found: so much was `checked`, so many rules were broken, and the first of those in words."""

    kind: str
    began_s: float
    ended_s: float
    checked: int
    violations: int
    details: tuple[str, ...]


def audit(root: Root, name: str, kind: Kind, clock: Clock) -> PolitenessAudit | Audit:
    """Make an audit, and keep what it found where that can be written."""
    began_s = clock.now_s()
    found: PolitenessAudit | Audit
    if kind is Kind.POLITENESS:
        found = audit_of(root, name, saved(root, name).config.courtesy)
    else:
        found = (audit_archives if kind is Kind.ARCHIVE else audit_index)(root, name)
    kept = Audited(kind, began_s, clock.now_s(), found.checked, found.violations, found.details[:DETAILS_KEPT])
    with suppress(TeiaError, OSError):
        _keep(root.collection(name), kept)
    return found


def _keep(folder: CollectionFolder, audited: Audited) -> None:
    folder.audits.mkdir(exist_ok=True)
    text = json.dumps({"version": VERSION, **asdict(audited)}, indent=1)
    write_atomically(folder.audits / f"{audited.kind}.json", text.encode())


def last_audit(folder: CollectionFolder, kind: Kind) -> Audited | None:
    """The last audit of a kind; None if there was none, or what it found cannot be read."""
    try:
        found = json.loads((folder.audits / f"{kind}.json").read_bytes())
        if found.pop("version") != VERSION:
            return None
        return Audited(**{**found, "details": tuple(map(str, found["details"]))})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
