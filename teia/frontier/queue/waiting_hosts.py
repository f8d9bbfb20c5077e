"""Hosts that wait on disk, because as many as the settings allow are in memory (limits.hosts_in_memory).

A host in memory takes 1.7 kB, and a crawl may know millions. On disk it has its rows; here it has nine octets. Hosts of
one slot wait in one line and come into memory together, because their rows lie together: commits change fewer pages of
the database. Lines are served in the order in which their first hosts came. A host that comes while its line is served
begins a new one, behind all others (docs/decisions/0077-hosts-wait-on-disk.md).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from teia.records import Outcome


class HostNumber(NamedTuple):
    """A host's cell, the slot of its site, and its number in the cell."""

    cell: int
    slot: int
    host_id: int


class StoredHost(NamedTuple):
    """A host read from disk: its name, its last address and its requests so far."""

    cell: int
    host_id: int
    host: str
    address: str
    requests: int


class HostSet:
    """Numbers of hosts by cell, in a bit each: there may be millions, and their numbers are consecutive."""

    def __init__(self) -> None:
        self._bits: dict[int, bytearray] = {}

    def add(self, cell: int, host_id: int) -> bool:
        """Add a host; return whether it is new."""
        bits, (octet, bit) = self._bits.setdefault(cell, bytearray()), divmod(host_id, 8)
        if octet >= len(bits):
            bits.extend(bytes(octet + 1 - len(bits)))
        is_new = not bits[octet] >> bit & 1
        bits[octet] |= 1 << bit
        return is_new

    def has(self, cell: int, host_id: int) -> bool:
        bits, (octet, bit) = self._bits.get(cell, b""), divmod(host_id, 8)
        return octet < len(bits) and bool(bits[octet] >> bit & 1)

    def remove(self, cell: int, host_id: int) -> None:
        """Remove a host that is there."""
        self._bits[cell][host_id // 8] ^= 1 << host_id % 8


class WaitingHosts:
    """Hosts that wait, each once, in lines by cell and slot."""

    def __init__(self) -> None:
        self._known = HostSet()
        self._lines: dict[int, dict[int, array[int]]] = {}
        self._served: dict[int, tuple[int, array[int]]] = {}
        """By cell the slot whose line is served, and the hosts that are left of it, the next one last."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, number: HostNumber) -> None:
        """Let a host wait, unless it does already."""
        if self._known.add(number.cell, number.host_id):
            lines = self._lines.setdefault(number.cell, {})
            lines.setdefault(number.slot, array("Q")).append(number.host_id)
            self._size += 1

    def take(self, limit: int) -> list[HostNumber]:
        """Remove up to `limit` hosts and return them: of all cells in turn, and of each cell those that come first."""
        taken: list[HostNumber] = []
        cells = list(self._lines)
        for position, cell in enumerate(cells):
            share = ceil((limit - len(taken)) / (len(cells) - position))
            while share > 0 and (number := self._take_next(cell)) is not None:
                taken.append(number)
                share -= 1
        # The cell that came first comes last next time: where the limit is small, it took the largest share.
        for cell in cells[:1]:
            self._lines[cell] = self._lines.pop(cell)
        return taken

    def _take_next(self, cell: int) -> HostNumber | None:
        slot, hosts = self._served.get(cell, (0, None))
        if not hosts:
            lines = self._lines[cell]
            slot = next(iter(lines), -1)
            if slot < 0:
                return None
            hosts = lines.pop(slot)[::-1]
            self._served[cell] = (slot, hosts)
        number = HostNumber(cell, slot, hosts.pop())
        self._known.remove(cell, number.host_id)
        self._size -= 1
        return number


@dataclass(slots=True)
class HostsOnDisk:
    """Hosts of a crawl that are not in memory, and what is known of them there.

    `met` are all hosts that had work in this run. `parked` come back with other settings. `failing` have failures in a
    row, the last kind of these, and the time until which they are held. For those of `checked` a check of identity had
    begun (crawler/sites/identity.py); they get no other one. At `next_look` hosts in memory may be looked through for
    some to leave.
    """

    met: HostSet = field(default_factory=HostSet)
    waiting: WaitingHosts = field(default_factory=WaitingHosts)
    parked: dict[tuple[int, int], HostNumber] = field(default_factory=dict)
    failing: dict[tuple[int, int], tuple[int, Outcome, float]] = field(default_factory=dict)
    checked: HostSet = field(default_factory=HostSet)
    next_look: float = 0.0
