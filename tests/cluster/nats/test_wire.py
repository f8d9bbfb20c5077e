"""The connection to NATS: who is let in, and what is said to the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.js.errors import BadRequestError

from teia.cluster.nats.servers import allocate_servers, make_key
from teia.cluster.nats.wire import NO_PEERS, connect
from teia.errors import ClusterError
from tests.cluster.conftest import Nats


def test_another_key_is_refused_at_once(nats: Nats, tmp_path: Path) -> None:
    """RELIABILITY 56: no secret or a wrong one is refused."""
    make_key(tmp_path / "other.key")
    for key in (tmp_path / "other.key", None):
        with pytest.raises(ClusterError, match="rejected this key"):
            asyncio.run(connect(nats.servers.urls, key, "stranger"))


def test_servers_that_are_not_there_are_reported(nats: Nats) -> None:
    nowhere = allocate_servers(1)[0].url
    with pytest.raises(ClusterError, match="cannot be reached"):
        asyncio.run(connect([nowhere], nats.servers.key, "lost", within_s=1.5))


def test_a_key_that_is_not_there_is_reported(nats: Nats, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="key file not found"):
        asyncio.run(connect(nats.servers.urls, tmp_path / "none", "keyless"))


def test_a_message_that_nats_does_not_take_is_reported(nats: Nats) -> None:
    async def main() -> None:
        wire = await nats.wire()
        with pytest.raises(ClusterError, match="larger than the limit of NATS"):
            await wire.request(wire.client.publish("anywhere", bytes(wire.client.max_payload + 1)))

    nats.run(main())


def test_a_stream_whose_servers_are_not_all_there_yet_is_tried_again(nats: Nats) -> None:
    """One node of a schedule of faults started while a server of NATS came back, and ended with this error."""
    offline = BadRequestError(400, "no suitable peers for placement, peer offline", NO_PEERS)
    answers = iter([offline, offline, "made"])

    async def make() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        wire = await nats.wire()
        assert await wire.retry(make, nats.clock) == "made"

    nats.run(main())
