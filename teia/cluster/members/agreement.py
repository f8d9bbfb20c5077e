"""The agreement of all nodes on a collection: its settings, its number of cells, its identity.

It is one key in the bucket `collections`, written by the first node that knows the collection. Another key has the pace
of sessions, because a node with a shorter pace than another would take its cells too early. Later requests of users
(settings.py) are written there too, each as a new edition, on condition that the last one was seen. The identity is
drawn once, and a data folder stores it. A folder from another cluster, or from before its NATS was set up again, is
refused and not mixed with this one.
"""

from __future__ import annotations

import contextlib
import secrets
import tomllib
from collections.abc import Callable

import msgspec

from teia.clock import Clock
from teia.cluster.members.session import Pace
from teia.cluster.members.shared_files import named_files, share_files, with_copies
from teia.cluster.nats.wire import NoAnswer, Wire, open_bucket
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.config.tree import flatten, read_tree
from teia.errors import ClusterError
from teia.frontier.cell.bulk import BulkSelection
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import Root
from teia.urls import cell_starts

FIRST_VERSION, WITH_SPLITS, WITH_FILES, VERSION = 1, 2, 3, 4
"""Versions of the agreement. The second has split cells, which a teia of the first would take for whole.

The third has files, without which a teia of the second would not understand the settings. The fourth has removals,
which a teia of the third would not carry out, and drop with its next change.
"""

HASH = "hash"
BUCKET = "collections"
TRIES, TRY_AGAIN_S = 50, 0.1
PACE = "_pace"
"""Key of the pace; no collection can have this name."""


class Split(msgspec.Struct, frozen=True, array_like=True):
    """A cell that was split off another: that cell, and the first slot. Its number is the next one (split.py)."""

    cell: int
    slot: int


class ClusterRun(msgspec.Struct, frozen=True, array_like=True):
    """A run of a schedule (cluster/crawl/runs.py): scheduled start, begin, end and reason of the end."""

    due_s: float
    began_s: float
    ended_s: float | None = None
    why: str = ""


class AgreedAction(msgspec.Struct, frozen=True, array_like=True):
    """A bulk action on the URLs of all cells (cluster/crawl/url_requests.py); `urls` is its result, once it is done."""

    mark: str
    selection: BulkSelection
    urls: int | None = None


class NodeRemoval(msgspec.Struct, frozen=True, array_like=True):
    """One node's part in a removal: what it removed, and what is left of it. `is_checked`: all was read again."""

    urls: int = 0
    records: int = 0
    bytes: int = 0
    pages_again: int = 0
    subscriptions: int = 0
    notices: int = 0
    left_records: int = 0
    left_pages: int = 0
    left_indexed: int = 0
    is_checked: bool = False

    @property
    def is_clean(self) -> bool:
        return self.is_checked and not self.left_records and not self.left_pages and not self.left_indexed


class AgreedRemoval(msgspec.Struct, frozen=True):
    """Pages that all nodes remove (cluster/cells/removal.py); it is never forgotten: a node may come back late."""

    mark: str
    rules: tuple[str, ...]
    requested_s: float
    cells: frozenset[int] = frozenset()
    """Cells whose tables, snapshots and logs are without the pages."""
    reports: dict[str, NodeRemoval] = {}
    """By node, once it has removed the pages from its disk."""


class Agreement(msgspec.Struct, frozen=True):
    """A collection as its cluster knows it; `settings` are its teia.toml."""

    identity: str
    settings: str
    replicas: int
    version: int = FIRST_VERSION
    strategy: str = HASH
    """Strategy for sites (site_strategies.py); two nodes with different ones would send sites to and fro."""

    edition: int = 0
    """Grows with every change."""
    paused: bool = False
    stops: int = 0
    """Number of stop commands to all nodes; a node that came later ignores the earlier ones."""

    began_s: float = 0.0
    """Calendar time at which the first node began."""
    ended: str = ""
    """The limit that caused the last stop command; empty if a user gave it."""
    runs: list[ClusterRun] = []
    """The last runs of its schedule, where it has one."""
    splits: list[Split] = []
    splitting: int | None = None
    """The cell that is to be split (cluster/cells/split.py)."""
    unsplit: dict[str, str] = {}
    """By cell: the reason why it was not split."""
    files: dict[str, str] = {}
    """The files that the settings name, as DIGEST/FILE (shared_files.py)."""
    actions: list[AgreedAction] = []
    """Bulk actions, in the order in which nodes run them; those that are done stay for a while."""
    removals: list[AgreedRemoval] = []
    """Removals of pages, in the order in which nodes carry them out."""

    @property
    def starts(self) -> tuple[int, ...]:
        """The first slot of each cell, by number."""
        # Split-off cells are numbered after the others, in the order of their splits.
        return (*cell_starts(self.config.collection.cells), *(split.slot for split in self.splits))

    @property
    def config(self) -> Config:
        return read_tree(Config, flatten(tomllib.loads(self.settings)))


async def agree_on_pace(wire: Wire, clock: Clock, session_s: float, replicas: int) -> Pace:
    """Return the pace of this cluster's sessions; `session_s` is its T if this is the first node."""
    value = await _first_value(wire, clock, PACE, msgspec.json.encode(Pace.for_silence(session_s)), replicas)
    try:
        return msgspec.json.decode(value, type=Pace)
    except UNDECODABLE as error:
        raise ClusterError(f"the session settings of this cluster cannot be read: {error}") from error


async def agree(
    wire: Wire, clock: Clock, name: str, ours: Config | None, replicas: int, strategy: str = "",
    root: Root | None = None,
) -> Agreement:  # fmt: skip
    """Return the agreement on a collection; if this is the first node, create it with the settings `ours`.

    The first node shares the files that its settings name; `root` is its data folder.
    """
    value = None
    if ours is not None:
        identity, now_s = secrets.token_hex(16), clock.now_s()
        files = {}
        if root is not None and named_files(ours) and not await _is_known(wire, clock, name, replicas):
            files = await share_files(wire, clock, name, replicas, root, ours)
        first = Agreement(identity, to_toml(ours), replicas, strategy=strategy or HASH, began_s=now_s, files=files)
        value = msgspec.json.encode(msgspec.structs.replace(first, version=_version_of(first)))
    agreement = _read(name, await _first_value(wire, clock, name, value, replicas))
    if strategy and agreement.strategy != strategy:
        raise ClusterError(
            f"--strategy {strategy}: {name!r} uses {agreement.strategy}; all its nodes must use the same"
        )
    return agreement


async def _is_known(wire: Wire, clock: Clock, name: str, replicas: int) -> bool:
    """Tell whether there is an agreement on a collection."""
    from nats.js.errors import KeyNotFoundError

    try:
        await current_agreement(wire, clock, name, replicas)
    except KeyNotFoundError:
        return False
    return True


async def _first_value(wire: Wire, clock: Clock, key: str, ours: bytes | None, replicas: int) -> bytes:
    """Return the value that was first written under a key: by another node, or now by us."""
    from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    for _ in range(TRIES):
        with contextlib.suppress(KeyNotFoundError):
            entry = await wire.retry(lambda: bucket.get(key), clock)
            return entry.value or b""
        if ours is None:
            raise ClusterError(
                f"this cluster has no collection {key!r}; the first node needs its settings, see --config"
            )
        try:
            # Revision 0: only if the key does not exist.
            await wire.retry(lambda: bucket.update(key, ours, last=0), clock)
        except KeyWrongLastSequenceError:
            await clock.sleep(TRY_AGAIN_S)  # another node is about to write it, or an answer to us was lost
    raise ClusterError(f"NATS neither has {key!r} nor stores it; check its servers")


async def current_agreement(wire: Wire, clock: Clock, name: str, replicas: int) -> Agreement:
    """Return the agreement on a known collection; may be out of date."""
    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    entry = await wire.request(bucket.get(name))
    return _read(name, entry.value or b"")


async def amend_agreement(
    wire: Wire, clock: Clock, name: str, change: Callable[[Agreement], Agreement], replicas: int
) -> Agreement:
    """Change the agreement, also if others change it meanwhile; `change` may be called again, and may refuse."""
    from nats.js.errors import KeyWrongLastSequenceError

    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    for _ in range(TRIES):
        entry = await wire.request(bucket.get(name))
        before = _read(name, entry.value or b"")
        after = change(before)
        # The change was refused, or made by another node.
        if after == before:
            return before
        after = msgspec.structs.replace(after, edition=before.edition + 1, version=_version_of(after))
        try:
            # Conditional on the revision that was read: of two changes at once, one is made again.
            await wire.request(bucket.update(name, msgspec.json.encode(after), last=entry.revision))
        except KeyWrongLastSequenceError:
            await clock.sleep(TRY_AGAIN_S)
        else:
            return after
    raise NoAnswer(f"the agreement on {name!r} could not be changed: too many concurrent changes")


def _version_of(agreement: Agreement) -> int:
    """Return the version that a teia must know to understand an agreement; an older one must refuse it."""
    needed = [WITH_SPLITS] if agreement.splits else [FIRST_VERSION]
    needed += [WITH_FILES] if agreement.files else []
    needed += [VERSION] if agreement.removals else []
    return max(agreement.version, *needed)


async def nudge(wire: Wire, name: str) -> None:
    """Tell all nodes that the agreement changed; a node that misses the message looks for itself."""
    with contextlib.suppress(Exception):
        await wire.request(wire.client.publish(subject_of(name), b""))


def subject_of(name: str) -> str:
    """Return the subject on which nodes are nudged to read the agreement on a collection."""
    return f"teia.agreed.{name}"


def _read(name: str, value: bytes) -> Agreement:
    try:
        agreement = msgspec.json.decode(value, type=Agreement)
    except UNDECODABLE as error:
        raise ClusterError(f"the agreement on {name!r} cannot be read: {error}") from error
    if not FIRST_VERSION <= agreement.version <= VERSION:
        raise ClusterError(f"{name!r} was created by another version of teia; run the same version on all nodes")
    return agreement


def write_settings(root: Root, agreement: Agreement) -> Config:
    """Write the collection and its agreed settings into the data folder, for all its readers.

    The files that the settings name are there (`fetch_files`); the settings in the folder name these copies.
    """
    name = agreement.config.collection.name
    config = with_copies(agreement.config, agreement.files, root.collection(name))
    text = to_toml(config) if agreement.files else agreement.settings
    if name not in root.collections():
        root.create_collection(name, text, config.collection.cells)
    else:
        root.collection(name).write_config(text)
    return config
