"""The lab's name server."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import suppress
from dataclasses import dataclass

import dns.asyncquery
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest

from teia.errors import LabError
from teia.fetch.dns import LOOKUPS_AT_ONCE
from teia.lab.server.dns import TTL_S, answer_query, serve_names
from teia.lab.server.listen import open_datagram_socket
from teia.lab.server.serve import split_address


@dataclass(frozen=True)
class Place:
    address: str


NAMES = {"one.test": Place("127.77.0.1"), "two.test": Place("127.77.0.1"), "três.test": Place("127.77.0.3")}


def ask(name: str, kind: str = "A", **options: bool) -> dns.message.Message:
    packet = answer_query(NAMES, dns.message.make_query(name, kind, **options).to_wire())
    assert packet is not None
    return dns.message.from_wire(packet)


@pytest.mark.parametrize("name", ["one.test", "two.test.", "ONE.Test"])
def test_name_has_its_address(name: str) -> None:
    response = ask(name)
    assert response.rcode() == dns.rcode.NOERROR
    assert response.flags & dns.flags.AA
    (answer,) = response.answer
    assert (answer.ttl, [record.to_text() for record in answer]) == (TTL_S, ["127.77.0.1"])


def test_unknown_name_does_not_exist() -> None:
    response = ask("none.test")
    assert (response.rcode(), response.answer) == (dns.rcode.NXDOMAIN, [])
    assert response.authority[0].rdtype == dns.rdatatype.SOA
    assert ask(".").rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("kind", ["AAAA", "HTTPS", "MX"])
def test_name_without_such_records_has_no_data(kind: str) -> None:
    response = ask("one.test", kind)
    assert (response.rcode(), response.answer) == (dns.rcode.NOERROR, [])


def test_extended_question_gets_an_extended_answer() -> None:
    assert ask("one.test", use_edns=True).edns == 0


@pytest.mark.parametrize("packet", [b"", b"x", b"\x00" * 11, b"\xff" * 40, b"\x00\x01\x01\x00\x00\x01" + b"\xc0" * 30])
def test_malformed_packet_gets_no_answer(packet: bytes) -> None:
    assert answer_query(NAMES, packet) is None


def test_answers_are_not_answered() -> None:
    packet = dns.message.make_response(dns.message.make_query("one.test", "A")).to_wire()
    assert answer_query(NAMES, packet) is None


def test_other_operations_are_refused_politely() -> None:
    query = dns.message.make_query("one.test", "A")
    query.set_opcode(dns.opcode.STATUS)
    packet = answer_query(NAMES, query.to_wire())
    assert packet is not None
    assert dns.message.from_wire(packet).rcode() == dns.rcode.NOTIMP


def test_no_packet_makes_it_fail() -> None:
    seed = 20260301
    chance = random.Random(seed)
    good = dns.message.make_query("one.test", "A", use_edns=True).to_wire()
    for _ in range(5000):
        packet = bytearray(good[: chance.randrange(len(good) + 1)])
        for _ in range(chance.randrange(4)):
            if packet:
                packet[chance.randrange(len(packet))] = chance.randrange(256)
        answer = answer_query(NAMES, bytes(packet))
        assert answer is None or dns.message.from_wire(answer).flags & dns.flags.QR, f"seed {seed}"


def test_serves_over_udp_and_survives_nonsense() -> None:
    async def work() -> None:
        udp = open_datagram_socket("127.77.255.53", 0)
        address, port = udp.getsockname()
        transport = await serve_names(NAMES, udp)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.sendto(b"nonsense", (address, port))
            query = dns.message.make_query("two.test", "A")
            response = await dns.asyncquery.udp(query, address, timeout=20, port=port)
            assert response.answer[0][0].to_text() == "127.77.0.1"
        finally:
            transport.close()

    asyncio.run(work())


def test_queries_that_come_while_the_lab_is_busy_wait() -> None:
    """Half of a burst was dropped: on a busy machine hosts of a crawl looked as if they had no address."""
    with open_datagram_socket("127.77.255.53", 0) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        query = dns.message.make_query("one.test", "A").to_wire()
        for _ in range(LOOKUPS_AT_ONCE):
            client.sendto(query, server.getsockname())
        server.setblocking(False)
        received = 0
        with suppress(BlockingIOError):
            while server.recv(512):
                received += 1
    assert received == LOOKUPS_AT_ONCE


def test_address_in_use_names_it() -> None:
    with open_datagram_socket("127.77.255.53", 0) as taken:
        address, port = taken.getsockname()
        with pytest.raises(LabError, match=rf"{address}:{port} is in use; .*--dns-address"):
            open_datagram_socket(address, port)


def test_address_needs_a_port_and_loopback() -> None:
    assert split_address("127.77.255.53:8853") == ("127.77.255.53", 8853)
    for wrong in ("127.77.255.53", "127.77.255.53:x", "127.77.255.53:65536", "8.8.8.8:53", ":53"):
        with pytest.raises(LabError):
            split_address(wrong)
