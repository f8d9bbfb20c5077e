"""Sockets on loopback addresses only.

Linux answers on every address of 127.0.0.0/8 without any set-up, so a lab gives each of its servers its own address. A
crawler that applies its delay per address as well as per name can so be tested on one machine. No address outside that
network is ever bound, even if the spec names one.
"""

from __future__ import annotations

import errno
import ipaddress
import resource
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from teia.errors import LabError

BACKLOG = 512
WAITING_BYTES = 4 << 20
"""Room for queries while the lab is busy. By default 256 fit, and a crawl of many hosts sends 500 at once."""

SPARE_FILES = 64
"""Number of open files a process needs besides its listeners and connections."""

_LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")


def check_loopback(address: str) -> str:
    """Return the address itself, if it is one of 127.0.0.0/8; LabError otherwise."""
    try:
        is_loopback = ipaddress.IPv4Address(address) in _LOOPBACK
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise LabError(f"{address} is not a loopback address; the lab serves on 127.0.0.0/8 only, such as 127.77.0.1")
    return address


@contextmanager
def reserve_port(port: int = 0) -> Iterator[int]:
    """Reserve a TCP port (0: the kernel chooses one) that is free on every address, while the block runs.

    A world writes its port into its links, so the port must be known before there is a world, and so before there are
    addresses to listen on. The reservation is a socket that is bound everywhere but never listens. Linux admits
    listeners with SO_REUSEADDR beside it, and does not give the port to processes that request any free port.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(holder, "0.0.0.0", port)  # noqa: S104  # never listens, so nothing can be reached through it
        yield int(holder.getsockname()[1])


def open_listeners(addresses: Iterable[str], port: int) -> list[socket.socket]:
    """Return a listening socket for each address, all on one port; on failure none is left open."""
    made: list[socket.socket] = []
    try:
        for address in addresses:
            made.append(_open_socket(socket.SOCK_STREAM, address))
            _bind(made[-1], address, port, listen=True)
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def open_datagram_socket(address: str, port: int) -> socket.socket:
    """Return a UDP socket, with as much room for datagrams that wait as the kernel grants."""
    made = _open_socket(socket.SOCK_DGRAM, address)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING_BYTES)
        _bind(made, address, port)
    except BaseException:
        made.close()
        raise
    return made


def raise_file_limit(count: int) -> int:
    """Raise this process's limit on open files towards `count`, as far as its hard limit lets it; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def _open_socket(kind: socket.SocketKind, address: str) -> socket.socket:
    check_loopback(address)
    try:
        made = socket.socket(socket.AF_INET, kind)
    except OSError as error:
        raise LabError(f"no socket for {address}: {error.strerror}; use fewer --hosts") from error
    made.setblocking(False)
    if kind == socket.SOCK_STREAM:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _bind(made: socket.socket, address: str, port: int, *, listen: bool = False) -> None:
    flag = "--dns-address" if made.type == socket.SOCK_DGRAM else "--port"
    try:
        made.bind((address, port))
        if listen:
            made.listen(BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LabError(f"{address}:{port} is in use; stop the other lab, or choose another {flag}") from error
        raise LabError(f"cannot listen on {address}:{port}: {error.strerror}; choose another {flag}") from error
