"""Options that many commands share, so that they are called and explained alike."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from teia.store.root import Root

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Data folder of the installation.")]
Collection = Annotated[
    str | None,
    typer.Option("--collection", metavar="NAME", help="Name of the collection; needed if there are several."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="TOML file with the settings of a new collection.")
]
NewName = Annotated[
    str | None, typer.Option("--name", "--collection", help="Name of the collection; created if it does not exist.")
]
Settings = Annotated[
    list[str],
    typer.Argument(metavar="KEY=VALUE...", help="Setting and value: KEY=VALUE; KEY+=ITEM and KEY-=ITEM change lists."),
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="File with the key for the NATS servers.")]
Ca = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="File with the CA certificate of the NATS servers (TLS).")
]


class RunMode(Enum):
    """Times at which collections are crawled: as configured, by schedules alone, a run now, by standing commands."""

    AS_CONFIGURED = "as configured"
    SCHEDULED = "scheduled"
    NOW = "now"
    AS_ORDERED = "as ordered"


def open_collection(data: Path, collection: str | None) -> tuple[Root, str]:
    """Open a data folder, and return the collection that a command names, or the only one."""
    from teia.collections.settings import choose
    from teia.store.root import open_root

    root = open_root(data)
    return root, choose(root, collection)
