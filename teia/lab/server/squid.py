"""A real Squid on loopback, in its own process and folder, for experiments that need a real one (C7).

It caches in memory, uses no name server (names are in its own hosts file), listens on loopback and sends requests from
its own address. By that address the lab's log distinguishes its users' requests from a crawler's. It is ended with the
block.

Squid does not work as root: started by root it switches to its own user, who then owns its folder. The helper is
installed there as an operator would install it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from teia.clock import Clock, WallClock
from teia.errors import LabError, MissingComponent
from teia.lib.child_process import DEVNULL, ChildProcess
from teia.signals import squid_conf, squid_helper
from teia.signals.squid_conf import Way

USER = "proxy"
START_S = 20.0
POLL_S = 0.02
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # where Linux has it
OUTGOING = "127.0.0.9"
"""Address from which servers receive the users' requests."""

CONFIG = """\
http_port 127.0.0.1:{port}
visible_hostname squid.test
pid_filename {folder}/pid
cache_store_log none
cache_log {folder}/cache.log
coredump_dir {folder}
netdb_filename none
pinger_enable off
hosts_file {folder}/hosts
dns_nameservers 127.0.0.1
tcp_outgoing_address {outgoing}
shutdown_lifetime 0 seconds
cache_mem 64 MB
maximum_object_size_in_memory 1 MB
http_access allow all
refresh_pattern . 0 20% 4320
"""


@dataclass(frozen=True, slots=True)
class Squid:
    """A running Squid: its port on 127.0.0.1, its folder, and the socket of its helper, if it has one."""

    port: int
    folder: Path
    socket: Path
    pid: int


def find_squid() -> str:
    """Return the path of Squid; MissingComponent if it is not installed."""
    found = shutil.which("squid", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise MissingComponent("this needs Squid; on Debian: apt-get install squid")
    return found


@contextmanager
def squid_process(
    hosts: Mapping[str, str],
    *,
    way: Way | None = squid_conf.DEFAULT,
    ttl_s: int = squid_conf.TTL_S,
    words: Sequence[str] = (),
    extra: str = "",
    clock: Clock | None = None,
    socket: Path | None = None,
    name: str = "",
) -> Iterator[Squid]:
    """Run a Squid that knows these names; a helper attached by `way`, if any, announces requests to `socket`.

    An ACL is notified of a page once in `ttl_s`, the other ways of every request. `words` are flags of rewriter and
    ACL. One of several caches of a crawler has a `name`, and may announce to the socket of another.
    """
    command = find_squid()
    with tempfile.TemporaryDirectory(prefix="teia-squid-") as made:
        folder, port = Path(made), _free_port()
        socket = socket or folder / "run" / "teia.sock"
        # A unique name, because Squid names its shared memory after the service.
        service = f"teia{os.getpid()}x{port}"
        # The helper recognises by the end of its name that it runs as a log daemon.
        script = folder / ("teia-announce-log" if way == "log" else "teia-announce")
        shutil.copyfile(squid_helper.__file__, script)
        script.chmod(0o755)
        config = extra + CONFIG.format(port=port, folder=folder, outgoing=OUTGOING)
        if way is not None:
            where = f"{socket}@{name}" if name else str(socket)
            config += squid_conf.lines(way, where, program=str(script), words=words, ttl_s=ttl_s)
        if way != "log":
            config += "access_log none\n"
        (folder / "run").mkdir()
        (folder / "hosts").write_text("".join(f"{where} {host}\n" for host, where in hosts.items()), "ascii")
        (folder / "squid.conf").write_text(config, "utf-8")
        _chown_to_squid(folder)
        arguments = [command, "-N", "-n", service, "-f", str(folder / "squid.conf")]
        process = ChildProcess(arguments, stdout=DEVNULL, log=folder / "complaints")
        try:
            _await_ready(process, port, folder, clock or WallClock())
            yield Squid(port, folder, socket, process.pid)
        finally:
            _kill(process, service)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _chown_to_squid(folder: Path) -> None:
    """Give the folder to Squid's own user, if we are root; the socket's folder stays ours, usable by Squid's group."""
    if os.geteuid() != 0:
        return
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        raise MissingComponent(f"Squid's user {USER!r} is missing; on Debian: apt-get install squid") from None
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    os.chown(folder / "run", os.geteuid(), user.pw_gid)
    (folder / "run").chmod(0o750)


def _await_ready(process: ChildProcess, port: int, folder: Path, clock: Clock) -> None:
    until = clock.ticks_s() + START_S
    while clock.ticks_s() < until and process.status is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(POLL_S)
    raise LabError(f"Squid did not start: {_last_error(folder / 'complaints', folder / 'cache.log')}")


def _last_error(*logs: Path) -> str:
    lines = [line for log in logs if log.exists() for line in log.read_text("utf-8", "replace").splitlines()]
    errors = [line for line in lines if "FATAL" in line or "ERROR" in line]
    return (errors or lines or ["no message"])[-1]


def _kill(process: ChildProcess, service: str) -> None:
    """Kill Squid, which has no state to save (a regular stop takes two seconds); helpers end when their pipe closes.

    A killed Squid leaves its shared memory behind, which would block another user's Squid of the same name.
    """
    process.end()
    for segment in SHARED_MEMORY.glob(f"{service}-*.shm"):
        segment.unlink(missing_ok=True)
