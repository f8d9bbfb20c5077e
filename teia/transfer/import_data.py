"""`teia import`: other archives, lists and logs become part of a collection.

Imported data goes through the same group commit as fetched data, cell by cell: records are appended to the cell's
archive, then one transaction makes the pages known and done and moves the archive's position. The same transaction
stores a mark of how far each file has been imported into the cell. So an import that was killed is simply run again:
imported parts are skipped, the rest is imported, nothing twice.

Pages of foreign archives are hostile input like any page: parse children read them. Their records are stored as they
came, except for the compression; a metadata record of ours with the links that were found follows each answer. An
import makes no requests: it adds nothing to the fetch log and causes no politeness delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from teia.clock import Clock
from teia.collections.settings import saved
from teia.config.load import load, to_toml
from teia.config.sections import Config
from teia.crawler.commit import CommitResult, Committer, capture_location, is_stored_as_revisit, page_row
from teia.crawler.keep_fresh.observe import observe_visit
from teia.crawler.open_cell import Cell
from teia.crawler.start import open_crawls
from teia.crawler.upkeep.closed_files import sign_all
from teia.crawler.visit import ActiveVisit
from teia.errors import UsageError
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, SettledVisit, tail_of
from teia.frontier.cell.schema import LANE_NEW
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.store.archive import Stored
from teia.store.root import Root
from teia.urls import cell_of, key_of, site_of, slot_of, split

IMPORTED = "imported"
"""Purpose of an imported visit with a page, made by another crawler."""

RECORDS_ONLY = "kept"
"""Purpose of an imported visit without a page: its records are stored, and make no URL known."""

MAX_DETAILS = 20
MAX_HOST_RULES = 200
"""Most host rules of a new collection: every link is matched against every rule. With more, `--scope` is required."""


@dataclass(slots=True)
class ImportResult:
    """Result of an import.

    `skipped` was in the collection already; `damaged` and `refused` could not be read; `mismatched` records were stored
    though they do not have the digest they claim.
    """

    collection: str
    files: int = 0
    records: int = 0
    pages: int = 0
    urls_new: int = 0
    rows: int = 0
    skipped: int = 0
    damaged: int = 0
    mismatched: int = 0
    refused: int = 0
    details: list[str] = field(default_factory=list)

    def add_detail(self, line: str) -> None:
        if len(self.details) < MAX_DETAILS:
            self.details.append(line)


@dataclass(slots=True, eq=False)
class ImportedVisit(ActiveVisit):
    """A visit made by another crawler; `source` and `offset` are where it came from."""

    source: str = ""
    offset: int = 0
    found_by: int = 0


def record_imported(clock: Clock, cell: Cell, visit: ActiveVisit, places: tuple[Stored, ...] | None) -> bool:
    """Record an imported visit (`RecordVisit` of commit.py), and how far its file has been imported into the cell."""
    assert isinstance(visit, ImportedVisit)
    is_page = visit.item.purpose == IMPORTED
    if is_page:
        _settle(clock, cell, visit, places)
    # In the transaction of the visit: after a crash, mark and data agree.
    if visit.source:
        write_mark(cell, visit.source, visit.offset)
    return is_page


def _settle(clock: Clock, cell: Cell, visit: ImportedVisit, places: tuple[Stored, ...] | None) -> None:
    """Make a URL known, with the outcome of its visit."""
    host, item, now_s = visit.queue.host, visit.item, clock.now_s()
    found = FoundUrl(host, item.key, tail_of(item.url, host), item.depth, 0, by=visit.found_by)
    # The row of the URL must exist before `settle` changes it.
    cell.frontier.add_links([found], now_s)
    assert visit.verdict is not None
    time_s = visit.fetched.started_s if visit.fetched is not None else now_s
    host_id = cell.frontier.host_id(host, now_s)
    again_s = now_s + visit.verdict.wait_s
    archived = capture_location(visit, places)
    outcome, state, repeats = visit.outcome, visit.verdict.state, is_stored_as_revisit(visit)
    settled = SettledVisit(host_id, item, outcome, state, time_s, again_s, page_row(visit), archived, repeats)
    cell.frontier.settle(observe_visit(cell.frontier, settled, host, visit), host)


@dataclass(frozen=True, slots=True)
class Target:
    """A collection open for importing."""

    config: Config
    read_settings: bytes
    committer: Committer
    cells: Sequence[Cell]
    starts: tuple[int, ...]
    clock: Clock

    def cell_for(self, host: str) -> Cell:
        return self.cells[cell_of(slot_of(site_of(host)), self.starts)]

    def queue_for(self, host: str) -> HostQueue:
        # Host id 0 is a placeholder: `record_imported` looks up the real one.
        return HostQueue(host, 0, self.cell_for(host).number, 0, DelayTarget(host))

    def item_for(self, url: str, depth: int, purpose: str = IMPORTED, failures: int = 0) -> QueuedUrl:
        return QueuedUrl(url, key_of(url), LANE_NEW, 0, depth, 0.0, failures=failures, purpose=purpose)


def choose_collection(
    root: Root, name: str | None, file: Path | None, scope: Sequence[str], hosts: Callable[[], set[str]]
) -> str:
    """Return the collection to import into; a new one is created. Without a given scope it is `hosts`."""
    names = root.collections()
    config = load(file).config if file is not None else None
    if name is None and config is None and len(names) > 1:
        raise UsageError(f"{root.path} contains {', '.join(names)}; choose one with --name")
    wanted = name or (config.collection.name if config else names[0] if names else "main")
    if wanted in names:
        if file is not None or scope:
            raise UsageError(
                f"{wanted!r} already exists with its own settings in {root.collection(wanted).config}; edit that file"
            )
        return wanted
    flags: dict[str, Any] = {"collection.name": wanted, "scope.include": list(scope) or None}
    # No rule and no seed says what may be crawled, so the hosts of the files do.
    if not scope and not (config and (config.scope.include or config.collection.seeds)):
        flags["scope.include"] = _host_rules(hosts())
    new_config = load(file, {}, flags).config
    root.create_collection(wanted, to_toml(new_config), new_config.collection.cells)
    return wanted


def _host_rules(hosts: set[str]) -> list[str]:
    if not hosts:
        raise UsageError("the files contain no URLs; set the scope of the new collection with --scope")
    if len(hosts) > MAX_HOST_RULES:
        raise UsageError(
            f"the files contain more than {MAX_HOST_RULES} hosts; set the scope with --scope, such as --scope"
            " suffix:.br"
        )
    return sorted(f"host:{host}" for host in hosts)


@contextmanager
def open_target(root: Root, name: str, clock: Clock) -> Iterator[Target]:
    """Open a collection of a root, which the caller has locked. The ledger of politeness delays is not changed."""
    config = saved(root, name).config
    ledger = Ledger(root.path / "ledger.sqlite")
    try:
        with open_crawls(root, [config], ledger, clock) as (crawl,):
            cells = crawl.committer.cells
            starts = root.collection(name).starts()
            committer = Committer(cells, starts, ledger, clock, record_visit=partial(record_imported, clock))
            committer.deliver(CommitResult())
            yield Target(config, crawl.read_settings, committer, cells, starts, clock)
        sign_all(root.collection(name), clock)
    finally:
        # An import ends no crawl, so it must not mark the stop of the last one as clean.
        ledger.close(clean=False, now_s=clock.now_s())


# ---- how far a file is in -------------------------------------------------------------------------------------------


def read_mark(cell: Cell, source: str) -> int:
    """Return the offset up to which a file has been imported into a cell; -1 if nothing of it has."""
    offset = cell.frontier.meta(f"import:{source}")
    return -1 if offset is None else int(offset)


def write_mark(cell: Cell, source: str, offset: int) -> None:
    """Move the mark; inside a transaction of the cell."""
    cell.frontier.set_meta({f"import:{source}": offset})


def host_of(url: str | None) -> str:
    """Return the host of a canonical URL; empty for records about something else, which all go into one cell."""
    return split(url).host if url else ""
