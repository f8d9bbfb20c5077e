"""`--supervised`: a command that another program started and looks after: of the lab, or an audit.

It ends when its standard input does, so that it never outlives who started it. How far a run of the lab is goes to
standard error as JSON lines, `{"share": 0.4, "doing": "edf: 20,000 pages for 8 days"}`; a share that nobody knows is
null.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from threading import Thread
from typing import Annotated

import typer

from teia.cli.exits import INTERRUPTED
from teia.cli.output import progress_console

STEP = 0.005
"""Shares nearer to each other than this are not worth a line."""

Supervised = Annotated[
    bool,
    typer.Option(
        "--supervised", help="Write progress as JSON lines to standard error; exit when standard input is closed."
    ),
]


class Progress:
    """Says how far a command is: to a person, or to the program that looks after it."""

    def __init__(self, supervised: bool) -> None:
        self._print: Callable[[str], None] | None = None
        self._doing, self._share = "", None if supervised else 1.0
        if supervised:
            end_with_input()
        else:
            self._print = progress_console().print

    def say(self, doing: str) -> None:
        """What is done from now on."""
        self._doing = doing
        if self._print is not None:
            self._print(doing)
        else:
            self._line()

    def reached(self, share: float) -> None:
        """How much of everything is done, 0 to 1; for programs alone."""
        if self._print is None and (self._share is None or share - self._share >= STEP):
            self._share = share
            self._line()

    def _line(self) -> None:
        share = None if self._share is None else round(self._share, 4)
        print(json.dumps({"share": share, "doing": self._doing}), file=sys.stderr, flush=True)


def end_with_input() -> None:
    """End when standard input does, from now on."""
    Thread(target=_end_with_input, name="input", daemon=True).start()


def _end_with_input() -> None:
    """Wait for the end of standard input; then end everything that was started with us."""
    while os.read(0, 4_096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(INTERRUPTED)
