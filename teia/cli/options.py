"""Options that many commands share, so that they are called and explained alike."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder that holds everything.")]
Collection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Which collection, where there are several.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on the last line.")]


class When(Enum):
    """When collections are crawled: as each is configured, those with a schedule alone, a run now, as people say."""

    AS_CONFIGURED = "as configured"
    SCHEDULED = "scheduled"
    NOW = "now"
    AS_ORDERED = "as ordered"
