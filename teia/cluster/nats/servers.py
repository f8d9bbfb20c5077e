"""NATS servers of our own: one or three processes on this machine, watched and restarted.

They are for `teia cluster up` and the tests; a real installation has its own servers, and `teia node` gets their
addresses. Three servers keep everything three times, so any one may die. One is for trying and keeps it once. Two would
be worse than one.

Each server has an address of its own in 127.78.0.0/16 and ports that were free there, so that no other program on this
machine can take them between two starts. They refuse clients without the key in `node.key`; it and everything else here
may be read by its owner alone. `sync_interval: always`, because an acknowledged commit must survive a power cut. A
server whose disk was full switches its storage off and stays so until it is restarted: `/healthz` is requested to
notice that. The processes end with the process that started them, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import secrets
import shutil
import signal
import socket
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from teia.clock import Clock
from teia.durable import disk_errors
from teia.errors import ClusterError, MissingComponent
from teia.lib.child_process import ChildProcess

START_S = 20.0
END_S = 10.0
POLL_S = 1.0
SICK_S = 30.0
"""Time after which a server that reports `unhealthy` is restarted.

While one of three is away or has just started, and until a leader is elected, the others report it too: restarting
those would turn a fault into an outage.
"""

STARTING_S = 15.0
MAX_FILE_STORE = 64 << 30


@dataclass(frozen=True, slots=True)
class NatsServer:
    """The addresses of one server."""

    name: str
    address: str
    client: int
    route: int
    monitor: int

    @property
    def url(self) -> str:
        return f"nats://{self.address}:{self.client}"


def find_server() -> str:
    """Return the path of the program, from the wheel beside this Python or installed on the machine."""
    # The program beside this Python comes first.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which("nats-server", path=path)
    if found is None:
        raise MissingComponent("nats-server is not installed; install it with `pip install 'teia[cluster]'`")
    return found


def make_key(path: Path) -> str:
    """Write a new secret key for one user, readable by its owner alone; return the public half."""
    try:
        import nkeys
    except ImportError as error:
        raise MissingComponent("nkeys is not installed; install it with `pip install 'teia[cluster]'`") from error
    seed = bytes(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER))
    write_private(path, seed)
    return str(nkeys.from_seed(bytearray(seed)).public_key.decode())


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, for any umask."""
    with disk_errors(path, "written"):
        # A new file: the mode of an old one would stay.
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def allocate_servers(count: int) -> list[NatsServer]:
    """Return loopback addresses of this machine with ports that are free there."""
    servers = []
    for number in range(count):
        address = f"127.78.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
        # Bound together, so that the ports differ; they are free again after the block.
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind((address, 0))
            servers.append(NatsServer(f"nats-{number + 1}", address, *(each.getsockname()[1] for each in sockets)))
    return servers


class NatsServers:
    """One or three servers whose files are under one folder; see the module.

    The folder keeps addresses and keys, so servers that are started in it again are the same ones with the same data.
    """

    def __init__(self, folder: Path, count: int, clock: Clock) -> None:
        if count not in {1, 3}:
            raise ClusterError(f"{count} NATS servers are not supported: use 1, or 3 to tolerate the failure of one")
        self.folder = folder
        self.key = folder / "node.key"
        self._count = count
        self._clock = clock
        self._program = find_server()
        self._servers: list[NatsServer] = []
        self._processes: dict[str, ChildProcess] = {}
        self._began: dict[str, float] = {}
        self._watching: asyncio.Task[None] | None = None
        self.restarts = 0

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self._servers]

    def process_of(self, number: int) -> int:
        """Return the process id of a server, for tests of its failure."""
        return self._processes[self._servers[number].name].pid

    async def start(self) -> None:
        """Start all servers and wait until they have found each other; then watch them."""
        self._prepare()
        try:
            for server in self._servers:
                self._launch(server)
            await self._all_healthy()
        except BaseException:
            await self.stop()
            raise
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """End the servers in order; their data is on disk."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            await process.end_async(END_S)
        self._processes.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- files ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create addresses, keys and configurations, or read those of an earlier start."""
        known = self.folder / "places.json"
        with disk_errors(self.folder, "prepared"):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if known.exists():
                made = json.loads(known.read_text())
                self._servers = [NatsServer(**each) for each in made["places"]]
                if len(self._servers) != self._count:
                    raise ClusterError(
                        f"{self.folder} belongs to {len(self._servers)} NATS servers, not {self._count}; choose"
                        " another folder with --data"
                    )
                return
        self._servers = allocate_servers(self._count)
        public = make_key(self.key)
        secret = secrets.token_hex(24)
        for server in self._servers:
            text = _configuration(server, self._servers, self.folder, public, secret)
            write_private(self.folder / f"{server.name}.conf", text.encode())
        # Last: if this file exists, so do all the others.
        write_private(known, json.dumps({"places": [asdict(server) for server in self._servers]}).encode())

    # -- processes -----------------------------------------------------------------------------------------

    def _launch(self, server: NatsServer) -> None:
        self._began[server.name] = self._clock.ticks_s()
        command, log = [self._program, "-c", str(self.folder / f"{server.name}.conf")], f"{server.name}.log"
        try:
            self._processes[server.name] = ChildProcess(
                command, log=self.folder / log, keeps_log=True, on_parent_death=signal.SIGTERM
            )
        except OSError as error:
            raise ClusterError(f"{self._program} cannot be started: {error.strerror}") from error

    async def _all_healthy(self) -> None:
        until = self._clock.ticks_s() + START_S
        for server in self._servers:
            while await self._health(server) != "ok":
                if self._processes[server.name].status is not None or self._clock.ticks_s() > until:
                    raise ClusterError(f"{server.name} did not start: {self._last_error(server)}")
                await self._clock.sleep(0.05)

    def _last_error(self, server: NatsServer) -> str:
        with contextlib.suppress(OSError):
            lines = (self.folder / f"{server.name}.log").read_text(errors="replace").splitlines()
            for line in reversed(lines):
                if "[FTL]" in line or "[ERR]" in line or "nats-server:" in line:
                    return line.split("] ", 2)[-1][:200]
        return f"not ready after {START_S:g} s"

    async def _health(self, server: NatsServer) -> str:
        """Return the health that a server reports: `ok`, `unhealthy`, or an empty text if it does not answer."""
        try:
            async with asyncio.timeout(2.0):
                reader, writer = await asyncio.open_connection(server.address, server.monitor)
                try:
                    writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
                    status = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return ""
        return "ok" if b" 200 " in status else "unhealthy"

    async def _watch(self) -> None:
        """Restart servers that have died or have reported `unhealthy` for long: one at a time."""
        sick_since: dict[str, float] = {}
        while True:
            await self._clock.sleep(POLL_S)
            for server in self._servers:
                process = self._processes[server.name]
                is_old = self._clock.ticks_s() - self._began[server.name] > STARTING_S
                if is_old and await self._health(server) == "unhealthy":
                    sick_since.setdefault(server.name, self._clock.ticks_s())
                else:
                    sick_since.pop(server.name, None)
                if self._clock.ticks_s() - sick_since.get(server.name, math.inf) >= SICK_S:
                    process.terminate()
                    await process.end_async(END_S)
                if process.status is not None:
                    # The other servers report trouble until this one has started.
                    sick_since.clear()
                    self.restarts += 1
                    self._launch(server)


def _configuration(server: NatsServer, servers: list[NatsServer], folder: Path, public: str, secret: str) -> str:
    """Return a server's configuration file (the settings of docs/cluster.md)."""
    routes = ", ".join(
        f'"nats-route://teia:{secret}@{each.address}:{each.route}"' for each in servers if each is not server
    )
    cluster = (
        f'cluster {{ name: teia, listen: "{server.address}:{server.route}", routes: [{routes}],\n'
        f'  authorization {{ user: teia, password: "{secret}", timeout: 2 }} }}\n'
        if len(servers) > 1
        else ""
    )
    return (
        f"server_name: {server.name}\n"
        f'listen: "{server.address}:{server.client}"\n'
        f'http: "{server.address}:{server.monitor}"\n'
        'max_payload: 1MB\nwrite_deadline: "10s"\n'
        f"jetstream {{ store_dir: {json.dumps(str(folder / server.name))}, sync_interval: always,\n"
        f"  max_file_store: {MAX_FILE_STORE}, limits {{ batch {{ max_inflight_per_stream: 200 }} }} }}\n"
        f'authorization {{ timeout: 2, users: [{{ nkey: "{public}" }}] }}\n'
        f"{cluster}"
    )
