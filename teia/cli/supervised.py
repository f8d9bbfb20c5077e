"""`--supervised`: mode of a run of the lab that another program has started and supervises.

Its progress goes to standard error as JSON lines, `{"share": 0.4, "doing": "edf: 20,000 pages for 8 days"}`; an unknown
share is null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from teia.cli.output import progress_console

STEP = 0.005
"""Shares nearer to each other than this are not worth a line."""

Supervised = Annotated[bool, typer.Option("--supervised", help="Write progress as JSON lines to standard error.")]


class Progress:
    """Progress of a command, reported to the user or to the supervisor."""

    def __init__(self, supervised: bool) -> None:
        self._print: Callable[[str], None] | None = None
        self._doing, self._share = "", None if supervised else 1.0
        if not supervised:
            self._print = progress_console().print

    def report_step(self, doing: str) -> None:
        """Report the step that begins now."""
        self._doing = doing
        if self._print is not None:
            self._print(doing)
        else:
            self._line()

    def report_share(self, share: float) -> None:
        """Report the share of the work that is done, 0 to 1; only a supervisor gets it."""
        # The first share is always reported, the next ones when they differ enough.
        if self._print is None and (self._share is None or share - self._share >= STEP):
            self._share = share
            self._line()

    def _line(self) -> None:
        share = None if self._share is None else round(self._share, 4)
        print(json.dumps({"share": share, "doing": self._doing}), file=sys.stderr, flush=True)
