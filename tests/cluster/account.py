"""What became of a crawl by many nodes, by what NATS stored and the requests that the lab received: nobody's own claim.

The records of a cell's log, with the server's times, say which node owned the cell when (*epochs*), and which requests
were committed in each. What a node requested of a cell's hosts in its epoch and did not commit was *in flight* when the
epoch ended. Nodes are told apart in the lab's log by the addresses that they send from.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from teia.cluster.cells.log import LogRecord, stream_name
from teia.cluster.cells.publish import decompress_changes
from teia.cluster.nats.wire import Wire
from teia.frontier.cell.journal import STATEMENTS
from teia.lab.server.requestlog import RequestLogEntry
from teia.store.fetchlog import FetchRow
from teia.urls import cell_of, site_of, slot_of, split

from .conftest import Nats
from .nodes import Cluster

_OPEN = re.compile(r"^(\S+ \S+) cells=(\S+) open$", re.MULTILINE)
_record = msgspec.msgpack.Decoder(LogRecord).decode
_changes = msgspec.msgpack.Decoder().decode
_row = msgspec.msgpack.Decoder(FetchRow).decode


@dataclass
class CellEpoch:
    """A cell and a node that owned it: from when to when, what it committed, what it requested."""

    cell: int
    node: str
    began_s: float
    ended_s: float | None = None
    """When the next one began."""
    released_s: float | None = None
    """When its node gave the cell up."""
    rows: list[FetchRow] = field(default_factory=list)
    """The requests that it committed."""
    formats: set[int] = field(default_factory=set)
    """The formats of its records' changes."""
    requested: Counter[str] = field(default_factory=Counter)
    last_requested_s: dict[str, float] = field(default_factory=dict)

    @property
    def is_released(self) -> bool:
        return self.released_s is not None

    @property
    def committed(self) -> Counter[str]:
        return Counter(_target(row.url) for row in self.rows)

    @property
    def in_flight(self) -> Counter[str]:
        return self.requested - self.committed

    def dropped(self, within_s: float) -> list[str]:
        """What was under way for less than this when the cell was given up, and dropped nevertheless."""
        until_s = self.released_s if self.released_s is not None else float("inf")
        return [page for page in self.in_flight if until_s - self.last_requested_s[page] < within_s]


def read_epochs_now(nats: Nats, collection: str = "main") -> dict[int, list[CellEpoch]]:
    """`read_epochs`, now."""
    found: dict[int, list[CellEpoch]] = {}

    async def read() -> None:
        found.update(await read_epochs(await nats.wire(), collection))

    nats.run(read())
    return found


async def read_epochs(wire: Wire, collection: str) -> dict[int, list[CellEpoch]]:
    """By cell, in order, from the records that NATS has; all of them, none was purged."""
    from nats.js import api

    config = api.ConsumerConfig(filter_subjects=[f"{collection}.{kind}.*" for kind in ("log", "part")])
    messages = await wire.js.subscribe("", stream=stream_name(collection), ordered_consumer=True, config=config)
    epochs: dict[int, list[CellEpoch]] = defaultdict(list)
    parts: dict[int, list[bytes]] = defaultdict(list)
    while True:
        message = await messages.next_msg(timeout=10)
        _, kind, number = message.subject.split(".")
        cell = int(number)
        if kind == "part":
            parts[cell].append(message.data)
        else:
            _note(epochs[cell], cell, _record(message.data), parts.pop(cell, []), message.metadata.timestamp)
        if not message.metadata.num_pending:
            await messages.unsubscribe()
            return epochs


def _note(epochs: list[CellEpoch], cell: int, record: LogRecord, parts: list[bytes], at: datetime) -> None:
    if record.kind == "epoch":
        if epochs:
            epochs[-1].ended_s = at.timestamp()
        epochs.append(CellEpoch(cell, record.node, at.timestamp()))
    elif record.kind == "release" and epochs:  # the first one of a cell that was split off another ends none
        epochs[-1].released_s = at.timestamp()
    elif record.kind == "commit":
        body = b"".join([*parts[len(parts) - record.parts :], record.body]) if record.parts else record.body
        changes = _changes(decompress_changes(body))
        epochs[-1].formats.add(changes[0])
        epochs[-1].rows += _requests_in(changes)


def _requests_in(changes: list[Any]) -> list[FetchRow]:
    """The requests that a commit tells of, in either format of changes."""
    if changes[0] == STATEMENTS:
        _, _, statements, done = changes
        rows = [row for number, rows in done if statements[number].startswith("INSERT INTO log ") for row in rows]
        return [_row(blob) for (blob,) in rows]
    return [_row(blob) for table, kind, _, rows in changes[1] if (table, kind) == ("log", "put") for _, blob in rows]


def _target(url: str) -> str:
    """A URL as the lab writes it down."""
    parts = split(url)
    return f"{parts.host}{parts.target}"


def note_requests(
    epochs: Mapping[int, Sequence[CellEpoch]],
    entries: Iterable[RequestLogEntry],
    names: Mapping[str, str],
    starts: Sequence[int],
) -> None:
    """Note in each epoch what its node requested; `names` are those of nodes by their addresses."""
    for entry in entries:
        cell, node = cell_of(slot_of(site_of(entry.host)), tuple(starts)), names[entry.peer]
        theirs = [each for each in epochs[cell] if each.node == node and each.began_s <= entry.start_s]
        page = f"{entry.host}{entry.path}"
        theirs[-1].requested[page] += 1
        theirs[-1].last_requested_s[page] = max(theirs[-1].last_requested_s.get(page, 0.0), entry.start_s)


def lost_epochs(epochs: Mapping[int, Sequence[CellEpoch]]) -> list[CellEpoch]:
    """Those that ended because another took the cell, without a word."""
    return [epoch for each in epochs.values() for epoch in each[:-1] if not epoch.is_released]


def committed_rows(
    epochs: Mapping[int, Sequence[CellEpoch]], pages: Collection[str]
) -> list[tuple[str, int, FetchRow]]:
    """What was committed of some pages: by whom, in which cell."""
    every = [epoch for each in epochs.values() for epoch in each]
    return [(epoch.node, epoch.cell, row) for epoch in every for row in epoch.rows if _target(row.url) in pages]


def opened_at(nodes: Cluster) -> dict[int, list[float]]:
    """By cell: when it was opened for crawling, by whom soever."""
    opened: dict[int, list[float]] = defaultdict(list)
    for file in nodes.folder.glob("*.err"):
        for time, cells in _OPEN.findall(nodes.log_text(file.stem)):
            at_s = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
            for cell in cells.split(","):
                opened[int(cell)].append(at_s)
    return {cell: sorted(times) for cell, times in opened.items()}


def takeovers_s(
    epochs: Mapping[int, Sequence[CellEpoch]], opened: Mapping[int, Sequence[float]], node: str, died_s: float
) -> dict[int, float]:
    """By cell that a node owned when it died: how long it took until another had opened it."""
    took = {}
    for cell, each in epochs.items():
        last = [epoch for epoch in each if epoch.began_s <= died_s][-1:]
        if last and last[0].node == node and not last[0].is_released and last[0].ended_s is not None:
            after = [at_s for at_s in opened.get(cell, []) if at_s >= last[0].ended_s - 0.002]  # log lines have 1 ms
            took[cell] = after[0] - died_s if after else float("inf")
    return took
