"""The version of teia, as commands, pages and requests state it."""

from __future__ import annotations

__version__ = "0.1.0"
