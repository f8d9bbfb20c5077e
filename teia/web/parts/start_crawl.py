"""Start of a collection's crawl, by its own button or with its settings."""

from __future__ import annotations

from teia.collections.commands import give_command
from teia.errors import UsageError
from teia.lib.message import Message
from teia.records import Command
from teia.web.server.installation import Installation

STARTED = Message("starts now")


def start(installation: Installation, collection: str) -> str:
    """Let a collection be crawled from now on; return a sentence that tells when it starts."""
    is_running = give_command(installation.root, collection, Command.RUN, installation.clock)
    if installation.supervisor is None:
        if not is_running:
            # Take the command back: without a crawler it would start a crawl at some later time.
            give_command(installation.root, collection, Command.STOP, installation.clock)
            raise UsageError(Message("this server starts no crawler (--no-crawler)"))
        return STARTED
    installation.supervisor.wake()
    holder = installation.root.lock_holder()
    # Another process has the folder, for example `teia crawl` in a terminal.
    if not is_running and holder is not None and holder != installation.supervisor.state.pid:
        return Message(
            "starts as soon as process {pid}, which is crawling this folder, has ended or takes it over", pid=holder
        )
    return STARTED
