"""Options that many commands share, so that they are called and explained alike."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Data folder of the installation.")]
Collection = Annotated[
    str | None,
    typer.Option("--collection", metavar="NAME", help="Name of the collection; needed if there are several."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]


class RunMode(Enum):
    """Times at which collections are crawled: as configured, by schedules alone, a run now, by standing commands."""

    AS_CONFIGURED = "as configured"
    SCHEDULED = "scheduled"
    NOW = "now"
    AS_ORDERED = "as ordered"
