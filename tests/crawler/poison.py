"""Readers of documents with a fault in them. Children load this module, so it imports little."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from teia.parse.document import Document

POISON = b"something no parser can take"


def die(document: Document) -> None:
    """Die of a page."""
    if POISON in document.payload:
        os.kill(os.getpid(), signal.SIGSEGV)


def spin(document: Document) -> None:
    """Never come to an end with a page."""
    while POISON in document.payload:
        pass


def sicken(document: Document) -> None:
    """Die of every page while the file that `TEIA_TEST_SICK` names is there."""
    if Path(os.environ["TEIA_TEST_SICK"]).exists():
        os.kill(os.getpid(), signal.SIGSEGV)
