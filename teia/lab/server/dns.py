"""The lab's name server: the world's names, over UDP, and nothing else.

A crawler resolves the made-up names here exactly as it resolves real ones elsewhere, which also tests its resolver.
There is no recursion, so no query ever leaves the machine. Packets that are not queries get no answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Protocol, cast

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

TTL_S = 300
NEGATIVE_TTL_S = 60
_ADDRESS_TYPES = frozenset({dns.rdatatype.A, dns.rdatatype.ANY})


class HasAddress(Protocol):
    """A server of the world, as far as its name server needs it."""

    @property
    def address(self) -> str: ...


Names = Mapping[str, HasAddress]
"""Lower-case names without a last dot; several may have one address."""


def answer_query(names: Names, packet: bytes) -> bytes | None:
    """Return the answer to one packet; None for packets that are not DNS or are themselves answers."""
    try:
        query = dns.message.from_wire(packet)
    except (dns.exception.DNSException, ValueError, NotImplementedError):
        return None
    if query.flags & dns.flags.QR:
        return None
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    if query.opcode() != dns.opcode.QUERY:
        response.set_rcode(dns.rcode.NOTIMP)
    elif len(query.question) != 1:
        response.set_rcode(dns.rcode.FORMERR)
    elif query.question[0].rdclass != dns.rdataclass.IN:
        response.set_rcode(dns.rcode.REFUSED)
    else:
        _fill_response(response, names, query.question[0])
    return response.to_wire()


def _fill_response(response: dns.message.Message, names: Names, question: dns.rrset.RRset) -> None:
    host = names.get(question.name.to_text(omit_final_dot=True).lower())
    if host is not None and question.rdtype in _ADDRESS_TYPES:
        response.answer.append(dns.rrset.from_text(question.name, TTL_S, "IN", "A", host.address))
        return
    if host is None:
        response.set_rcode(dns.rcode.NXDOMAIN)
    # Without an SOA a resolver may not cache a negative answer (RFC 2308).
    zone = dns.name.Name(question.name.labels[-2:])
    soa = f"ns.lab.test. lab.lab.test. 1 3600 600 86400 {NEGATIVE_TTL_S}"
    response.authority.append(dns.rrset.from_text(zone, NEGATIVE_TTL_S, "IN", "SOA", soa))


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names
        self._transport: asyncio.DatagramTransport
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        answer = answer_query(self._names, data)
        if answer is not None and self._writable:  # the client repeats a lost query, as everywhere in DNS
            self._transport.sendto(answer, addr)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True


async def serve_names(names: Names, udp: socket.socket) -> asyncio.DatagramTransport:
    """Answer on a bound UDP socket until the transport is closed."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(names), sock=udp)
    return transport
