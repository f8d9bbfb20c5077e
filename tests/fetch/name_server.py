"""A name server on loopback that answers from a table and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

ADDRESS = "127.77.255.53"

Record = tuple[str, int, str]
"""Kind, TTL and value, e.g. ("A", 60, "127.77.0.1"); a CNAME is followed within the table."""


class NameServer(asyncio.DatagramProtocol):
    """`table` maps a name to its records; a name in `codes` gets that rcode, one in `silent` no answer at all."""

    def __init__(
        self,
        table: Mapping[str, Sequence[Record]],
        codes: Mapping[str, dns.rcode.Rcode] | None = None,
        silent: Sequence[str] = (),
    ) -> None:
        self.table = dict(table)
        self.codes = dict(codes or {})
        self.silent = set(silent)
        self.queries: list[tuple[str, str]] = []
        self.waiting = 0
        self.most_waiting = 0
        self.gate: asyncio.Event | None = None
        self.port = 0
        self._times = 0
        self._enough = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, (ADDRESS, 0))
        self.port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    async def wait_for_queries(self, times: int) -> None:
        self._times = times
        if len(self.queries) < times:
            await self._enough.wait()

    @property
    def server(self) -> str:
        return f"{ADDRESS}:{self.port}"

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        query = dns.message.from_wire(data)
        name = query.question[0].name.to_text(omit_final_dot=True)
        kind = query.question[0].rdtype.name
        self.queries.append((name, kind))
        if len(self.queries) >= self._times:
            self._enough.set()
        if name in self.silent:
            return
        if self.gate is None:
            self._transport.sendto(self._answer(query, name, kind), addr)
            return
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        self._hold = asyncio.ensure_future(self._later(self.gate, self._answer(query, name, kind), addr))

    async def _later(self, gate: asyncio.Event, answer: bytes, addr: tuple[str | int, int]) -> None:
        await gate.wait()
        self.waiting -= 1
        self._transport.sendto(answer, addr)

    def _answer(self, query: dns.message.Message, name: str, kind: str) -> bytes:
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if name in self.codes:
            response.set_rcode(self.codes[name])
        elif name not in self.table:
            response.set_rcode(dns.rcode.NXDOMAIN)
        else:
            response.answer = list(self._records(name, kind))
        return response.to_wire()

    def _records(self, name: str, kind: str) -> list[dns.rrset.RRset]:
        found: list[dns.rrset.RRset] = []
        for record_kind, ttl, value in self.table.get(name, ()):
            if record_kind in {kind, "CNAME"}:
                found.append(dns.rrset.from_text(f"{name}.", ttl, "IN", record_kind, value))
            if record_kind == "CNAME":
                found += self._records(value.rstrip("."), kind)
        return found
