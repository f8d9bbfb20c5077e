"""The cluster that a command is for: its options, and a connection to its NATS servers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from teia.cli.options import Ca, Key
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.cluster.nats.wire import Wire

Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of a cluster started by `teia cluster up`.")
]
Nats = Annotated[list[str] | None, typer.Option("--nats", metavar="URL", help="NATS server of any other cluster.")]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="Name of the collection, with --nats.")]


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """NATS servers of a cluster, the files with the key and the certificate for them, and the collection."""

    servers: list[str]
    key: Path | None
    ca: Path | None
    collection: str

    @asynccontextmanager
    async def connect(self, purpose: str) -> AsyncIterator[Wire]:
        """Connect to the servers while the context is open."""
        from teia.cluster.nats.wire import connect

        wire = await connect(self.servers, self.key, purpose, ca=self.ca)
        try:
            yield wire
        finally:
            await wire.end()


def address_of(
    data: Data = None, nats: Nats = None, key: Key = None, ca: Ca = None, collection: Collection = "main"
) -> ClusterAddress:
    """Return the address of a cluster; its parameters are the options of every command on one."""
    if (data is None) == (not nats):
        raise UsageError("missing cluster; use --data DIR for a local cluster, or --nats URL")
    if data is not None:
        from teia.cluster.local import read_local

        local = read_local(data)
        nats, key, collection = local.urls, Path(local.key), local.collection
    logging.basicConfig(format="%(message)s", level=logging.ERROR)  # an error is printed once, at the end
    return ClusterAddress(nats or [], key, ca, collection)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `address_of`; its first parameter is the address that they make."""
    options = inspect.signature(address_of, eval_str=True).parameters

    def with_options(**given: Any) -> None:
        command(address_of(**{name: given.pop(name) for name in options}), **given)

    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[1:]
    parameters = [each.replace(annotation=hints[each.name]) for each in own] + list(options.values())
    # typer reads the parameters from the signature and passes them as keywords.
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([each.replace(kind=keyword) for each in parameters])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__doc__, with_options.__annotations__ = command.__doc__, {}
    return with_options
