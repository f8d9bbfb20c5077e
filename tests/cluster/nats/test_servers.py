"""NATS servers of our own: private, watched, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from nats.js.api import Placement, StreamConfig

from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServers, allocate_servers
from teia.errors import ClusterError
from tests.cluster.conftest import Nats
from tests.waiting import until, until_async

OWNER = """
import asyncio, json, sys
from pathlib import Path
from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServers

async def main():
    async with NatsServers(Path(sys.argv[1]), 1, WallClock()) as servers:
        print(json.dumps(servers.process_of(0)), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def is_there(process: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


def test_two_servers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="use 1, or 3"):
        NatsServers(tmp_path, 2, WallClock())


def test_places_are_on_this_machine_alone() -> None:
    places = allocate_servers(3)
    assert all(place.address.startswith("127.78.") for place in places)
    assert len({(place.address, port) for place in places for port in (place.client, place.route, place.monitor)}) == 9


def test_files_with_secrets_are_their_owners_alone(nats: Nats) -> None:
    """RELIABILITY 41: generated with owner-only permissions."""
    folder = nats.servers.folder
    secret = [nats.servers.key, folder / "nats-1.conf", folder / "places.json", folder / "nats-1.log"]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in secret} == {path.name: 0o600 for path in secret}


def test_a_server_that_dies_is_restarted_with_what_it_held(own_nats: Nats) -> None:
    async def main() -> None:
        wire = await own_nats.wire()
        name = await own_nats.stream(wire)
        await wire.js.publish(f"{name}.log.1", b"kept")
        os.kill(own_nats.servers.process_of(0), signal.SIGKILL)
        await until_async(lambda: own_nats.servers.restarts == 1)
        message = await wire.retry(lambda: wire.js.get_msg(f"TEIA_{name}", subject=f"{name}.log.1"), own_nats.clock)
        assert message.data == b"kept"

    own_nats.run(main())


def test_stopped_servers_are_gone_and_start_again_as_they_were(tmp_path: Path) -> None:
    async def main() -> None:
        servers = NatsServers(tmp_path, 1, WallClock())
        async with servers:
            urls, process = servers.urls, servers.process_of(0)
        assert not is_there(process)
        async with NatsServers(tmp_path, 1, WallClock()) as again:
            assert again.urls == urls
        with pytest.raises(ClusterError, match="belongs to 1"):
            await NatsServers(tmp_path, 3, WallClock()).start()

    asyncio.run(main())


def test_servers_end_with_their_owner_even_if_it_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "nats")], stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            assert owner.stdout is not None
            process = json.loads(owner.stdout.readline())
            assert is_there(process)
        finally:
            owner.kill()
    until(lambda: not is_there(process), "the server ends")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        servers = NatsServers(tmp_path, 1, WallClock())
        servers._prepare()
        conf = tmp_path / "nats-1.conf"
        conf.write_text(conf.read_text().replace("max_payload: 1MB", "max_payload: nonsense"))
        with pytest.raises(ClusterError, match="nats-1 did not start"):
            await servers.start()

    asyncio.run(main())


def test_three_servers_survive_the_death_of_one(three_nats: Nats) -> None:
    """A majority goes on: what was acknowledged stays, and new records are taken."""

    async def main() -> None:
        wire = await three_nats.wire()
        name = await three_nats.stream(wire)
        first = await wire.retry(lambda: wire.js.publish(f"{name}.log.1", b"one"), three_nats.clock)
        os.kill(three_nats.servers.process_of(0), signal.SIGKILL)
        second = await wire.retry(lambda: wire.js.publish(f"{name}.log.1", b"two"), three_nats.clock)
        assert second.seq > first.seq
        message = await wire.retry(lambda: wire.js.get_msg(f"TEIA_{name}", seq=first.seq), three_nats.clock)
        assert message.data == b"one"

    three_nats.run(main())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_says_it_is_not_well_is_restarted(three_nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/cluster.md: `/healthz` answers 503 and stays so; here because nobody is left to elect a leader with."""
    monkeypatch.setattr("teia.cluster.nats.servers.STARTING_S", 1.0)
    monkeypatch.setattr("teia.cluster.nats.servers.SICK_S", 2.0)
    servers = three_nats.servers
    sick, *others = (servers.process_of(at) for at in range(3))
    for process in others:
        os.kill(process, signal.SIGSTOP)

    async def main() -> None:
        await until_async(lambda: servers.restarts > 0, within_s=90)
        monkeypatch.setattr("teia.cluster.nats.servers.STARTING_S", 60.0)  # they have to find each other first
        for process in others:
            os.kill(process, signal.SIGCONT)
        assert not is_there(sick)
        wire = await three_nats.wire()
        name = await three_nats.stream(wire)
        await wire.retry(lambda: wire.js.publish(f"{name}.log.1", b"well again"), three_nats.clock)

    three_nats.run(main())


def test_a_stream_that_never_finds_its_servers_is_reported(three_nats: Nats) -> None:
    async def main() -> None:
        wire = await three_nats.wire()
        placed = StreamConfig(name="TEIA_nowhere", num_replicas=3, placement=Placement(tags=["nowhere"]))
        with pytest.raises(ClusterError, match="cannot place all copies"):
            await wire.retry(lambda: wire.js.add_stream(placed), three_nats.clock, within_s=0.5)

    three_nats.run(main())
