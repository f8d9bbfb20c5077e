"""`teia serve`: the application on a socket.

It listens on loopback only, unless `--host` names another address. It never listens on another address before the first
account exists, because until then the first visitor may create one.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from teia.clock import Clock
from teia.collections.commands import remove_trash
from teia.errors import TeiaError, UsageError
from teia.indexer.repair_idle import IndexSupervisor
from teia.lib import free_memory
from teia.notify.keep_process import NotifierSupervisor
from teia.store.root import Root
from teia.web import limits
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.app import LOOPBACK_NAMES, make_app
from teia.web.background.alert_messages import AlertMessenger
from teia.web.background.crawler import Supervisor
from teia.web.background.fixity import FixityRunner
from teia.web.background.local_search import LocalSearch
from teia.web.pages.collection import collections
from teia.web.server.connections import WatchedConnection
from teia.web.server.installation import Installation

HTTP_OPTIONS: Any = {
    "http": WatchedConnection,
    "h11_max_incomplete_event_size": limits.SEARCH_TARGET_BYTES + (16 << 10),
}
"""Options of the HTTP parser.

It is h11: uvicorn's other parser takes no address of more than 64 KiB, and has no limit for all headers together.
"""

PROXIES = ("127.0.0.1", "::1")
"""Addresses of a reverse proxy whose word on its clients is taken."""

SCRIPT_USER = "scripts"
"""Name of the user that owns the tokens for scripts."""


def serve(
    root: Root,
    clock: Clock,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_out: Path | None,
    report: Callable[[str], None],
    *,
    crawls: bool = True,
    behind_proxy: bool = False,
) -> signal.Signals | None:
    """Serve a root until a signal ends the process, and return that signal; report the address with `report`.

    With `crawls` it also supervises a crawler, which crawls started collections and scheduled runs. `behind_proxy`: all
    requests come from a reverse proxy on this machine, which names the clients' addresses and scheme.
    """
    free_memory.limit_arenas()  # before threads are started
    accounts = Accounts(root.path / "web.sqlite", clock)
    listener = _bind(host, port)
    is_local = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    if not is_local and behind_proxy:
        listener.close()
        raise UsageError(f"--behind-proxy believes the proxy on this machine alone; listen on 127.0.0.1, not on {host}")
    if not is_local and accounts.is_empty:
        listener.close()
        raise UsageError(
            f"{host} is reachable by others, but no account exists yet; start the server once without --host and"
            " create one"
        )
    if token_out is not None:
        write_token(accounts, token_out)
    at, number = listener.getsockname()[:2]
    shown = f"[{at}]" if ":" in at else at
    address = f"http://{shown}:{number}"
    # Host names that the server answers to; all others are refused, against DNS rebinding (server/headers.py).
    own = {host, shown, *names}
    supervisor = Supervisor(root, clock) if crawls else None
    installation = Installation(root, clock, accounts, supervisor)
    app = make_app(installation, own | LOOPBACK_NAMES if is_local else own)
    server = _Server(_server_config(app, behind_proxy=behind_proxy))
    # Before anything is reported: who has read the address may end the server.
    with server.handled_signals():
        _report_address(accounts, address, report)
        return _run_all(server, installation, listener, address, crawls=crawls)


def _report_address(accounts: Accounts, address: str, report: Callable[[str], None]) -> None:
    report(f"{address}/")
    if accounts.is_empty:
        report(f"{address}/login#{accounts.invite(Role.ADMIN)}")
        report("  create the first account here; the link works once, within 10 minutes")
    else:
        report("  sign in with your name and password; `teia users` invites others and sets forgotten passwords")


def _run_all(
    server: _Server, installation: Installation, listener: socket.socket, address: str, *, crawls: bool
) -> signal.Signals | None:
    """Run the server and, with `crawls`, what works beside it, until a signal."""
    root, clock, supervisor = installation.root, installation.clock, installation.supervisor
    notifier = NotifierSupervisor(root, clock) if crawls else None
    indexes = IndexSupervisor(root, clock) if crawls else None
    if supervisor is not None and notifier is not None and indexes is not None:
        # Folders that were left when a removal was interrupted.
        remove_trash(root)
        supervisor.start()
        notifier.start()
        indexes.start()
    Thread(target=warm, args=(installation,), name="warm", daemon=True).start()
    commands = LocalSearch(installation)
    commands.start()
    try:
        with _background(installation, address) if crawls else nullcontext():
            return _run_server(server, listener, notifier, indexes)
    finally:
        commands.stop()


@contextmanager
def _background(installation: Installation, address: str) -> Iterator[None]:
    """Send alerts and check the fixity of archives until the block ends."""
    messenger, fixity = AlertMessenger(installation, address), FixityRunner(installation.root, installation.clock)
    messenger.start()
    fixity.start()
    try:
        yield
    finally:
        messenger.stop()
        fixity.stop()


def _server_config(app: ASGIApp, *, behind_proxy: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        # A client could forge X-Forwarded-For; rate limits use the address of the connection, or what a proxy of this
        # machine says.
        proxy_headers=behind_proxy,
        forwarded_allow_ips=list(PROXIES),
        limit_concurrency=limits.CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        **HTTP_OPTIONS,
    )


def _run_server(
    server: _Server, listener: socket.socket, notifier: NotifierSupervisor | None, indexes: IndexSupervisor | None
) -> signal.Signals | None:
    try:
        server.run(sockets=[listener])
    finally:
        if notifier is not None:
            notifier.stop(is_hurried=True)  # the next server delivers the waiting notifications
        if indexes is not None:
            indexes.stop()
    return server.ended_by


def warm(installation: Installation) -> None:
    """Open what the first request needs, and resume pending bulk actions, in a background thread."""
    for step in (
        installation.offline_bulk.start_if_needed,
        installation.warm,
        lambda: collections.collections(installation),
    ):
        with suppress(TeiaError):
            step()


class _Server(uvicorn.Server):
    """Server that ends by a signal without raising it again, because the caller has folders to remove."""

    ended_by: signal.Signals | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are handled since before the server runs

    @contextmanager
    def handled_signals(self) -> Iterator[None]:
        """End the server by SIGINT and SIGTERM, at once if it does not run yet."""
        before = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # Else the crawler would not be ended, and uvicorn would print how it ended its own task.
        if self.force_exit:
            await self.lifespan.shutdown()

    def _end(self, number: int, _: object) -> None:
        self.force_exit = self.should_exit  # a second signal does not wait for open connections
        self.should_exit = True
        self.ended_by = self.ended_by or signal.Signals(number)


def write_token(accounts: Accounts, path: Path) -> None:
    """Write a new admin token for scripts to a file that only its owner can read."""
    # With O_EXCL a link that another user has put there is not followed.
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    if any((token.name, token.user) == (SCRIPT_USER, SCRIPT_USER) for token in accounts.tokens()):
        accounts.remove_token(SCRIPT_USER, SCRIPT_USER)  # the token of the last start
    path.write_text(accounts.make_token(SCRIPT_USER, SCRIPT_USER, Role.ADMIN) + "\n", "utf-8")


def free_port(wanted: int) -> int:
    """Return the wanted port of this machine if it is free, else 0, which means any."""
    try:
        _bind("127.0.0.1", wanted).close()
    except UsageError:
        return 0
    return wanted


def _bind(host: str, port: int) -> socket.socket:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host != "localhost":
            raise UsageError(f"--host {host!r} is not an address; set host names with --name") from None
        address = ipaddress.ip_address("127.0.0.1")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    # A restart need not wait until old connections have left TIME_WAIT.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((str(address), port))
    except OSError as error:
        made.close()
        raise UsageError(
            f"port {port} of {host} cannot be used: {error.strerror}; use --port 0 for any free port"
        ) from error
    made.listen(256)
    return made
