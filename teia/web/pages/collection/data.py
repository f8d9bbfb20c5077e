"""Data page: the disk use of a collection, its audits, and its backup."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from teia.clock import iso_utc
from teia.collections.control_file import CrawlReports
from teia.collections.settings import is_clustered
from teia.errors import CorruptFile
from teia.lib.message import Message
from teia.store.root import CollectionFolder
from teia.transfer.audits import AuditKind, AuditResult, last_audit
from teia.transfer.disk_use import Backup, CollectionBytes, FreeSpace, backup_commands, free_space, measure_disk_use
from teia.web.access.roles import Role
from teia.web.background.audits import AuditUnderWay
from teia.web.server.auth import Visitor
from teia.web.server.installation import LITTLE_PATIENCE_S, Installation
from teia.web.server.json_routes import ActionResult, InstallationDep, PageRoutes, VisitorDep
from teia.web.server.templates import link

MEASURED_S = 30.0


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A kind of audit and its last result; all other fields are null if there was none.

    `failure` is the reason why an audit started here failed.
    """

    kind: str
    ended: str | None
    seconds: float | None
    checked: int | None
    violations: int | None
    details: list[str]
    failure: str


@dataclass(frozen=True, slots=True)
class DataView:
    """Data of one collection. `space` is null until it is measured; `going` is an audit under way.

    `running` are all collections being crawled now: they write to the folder that a backup copies. `backup` are
    commands; for viewers DIR stands for the folder.
    """

    space: CollectionBytes | None
    weighed: str | None
    room: FreeSpace
    audits: list[AuditRow]
    going: AuditUnderWay | None
    running: list[str]
    is_clustered: bool
    backup: Backup


@dataclass(frozen=True, slots=True)
class CollectionData:
    """One collection in the list of all."""

    name: str
    space: CollectionBytes | None
    audits: list[AuditRow]


@dataclass(frozen=True, slots=True)
class AllDataView:
    """All collections, and the disk they share."""

    room: FreeSpace
    collections: list[CollectionData]
    going: AuditUnderWay | None


class AuditForm(BaseModel):
    """Kind of audit to start."""

    kind: AuditKind


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/data", "data.html", Role.VIEWER)(data)
    pages.action("/c/{collection}/data/audit", Role.OPERATOR)(begin_audit)
    pages.page("/settings/data", "all_data.html", Role.VIEWER)(all_data)


def data(installation: InstallationDep, visitor: VisitorDep, collection: str) -> DataView:
    """Return the disk use of a collection, its last audits, and the commands for a backup."""
    folder = installation.root.collection(installation.check(collection))
    space, weighed = _disk_use(installation, collection, installation.patience_s(collection))
    with CrawlReports(installation.root.control) as reports:
        running = [name for name in installation.names() if reports.running_crawl(name) is not None]
    return DataView(
        space=space,
        weighed=weighed,
        room=_free_space(installation),
        audits=_audits(installation, collection),
        going=installation.auditor.running,
        running=running,
        is_clustered=_is_clustered(folder),
        backup=backup_commands(_folder(installation, visitor), collection, running),
    )


def _is_clustered(folder: CollectionFolder) -> bool:
    try:
        return is_clustered(folder)
    except CorruptFile:  # an audit reports this
        return False


def all_data(installation: InstallationDep) -> AllDataView:
    """Return the disk use of all collections, and their last audits."""
    # One patience for all collections together.
    until = installation.clock.ticks_s() + LITTLE_PATIENCE_S
    rows = []
    for name in installation.names():
        space, _ = _disk_use(installation, name, max(0.0, until - installation.clock.ticks_s()))
        rows.append(CollectionData(name, space, _audits(installation, name)))
    return AllDataView(_free_space(installation), rows, installation.auditor.running)


def _folder(installation: Installation, visitor: Visitor) -> str:
    """Return the path of the root; hide it from users who may only read."""
    return str(installation.root.path.absolute()) if visitor.may(Role.OPERATOR) else "DIR"


def _disk_use(
    installation: Installation, collection: str, patience_s: float
) -> tuple[CollectionBytes | None, str | None]:
    def make() -> CollectionBytes:
        return measure_disk_use(installation.root, collection)

    found = installation.cache.get_or_none(("space", collection), make, MEASURED_S, patience_s)
    return (None, None) if found is None else (found.value, iso_utc(found.time_s))


def _free_space(installation: Installation) -> FreeSpace:
    return installation.cache.get(("room",), lambda: free_space(installation.root), MEASURED_S).value


def _audits(installation: Installation, collection: str) -> list[AuditRow]:
    folder = installation.root.collection(collection)
    return [_row(kind, last_audit(folder, kind), installation.auditor.failure(collection, kind)) for kind in AuditKind]


def _row(kind: AuditKind, last: AuditResult | None, failure: str) -> AuditRow:
    if last is None:
        return AuditRow(kind.value, None, None, None, None, [], failure)
    seconds = round(max(0.0, last.ended_s - last.began_s), 3)
    found = (iso_utc(last.ended_s), seconds, last.checked, last.violations)
    return AuditRow(kind.value, *found, list(last.details), failure)


def begin_audit(installation: InstallationDep, visitor: VisitorDep, collection: str, form: AuditForm) -> ActionResult:
    """Start an audit of a collection: every record of its archive, every request, its index, or its links."""
    installation.check(collection)
    installation.auditor.start(collection, form.kind)
    installation.accounts.log_action(visitor.name, Message("audit"), collection=collection, kind=form.kind.value)
    return ActionResult(Message("the audit was started"), link(f"/c/{collection}/data"))
