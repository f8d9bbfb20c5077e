"""Output of commands: results, progress and JSON.

Results go to standard output, everything else (progress, warnings, errors) to standard error, so that a pipe only ever
sees results. With `--json` the last line of standard output is exactly one JSON object. It is plain ASCII with escapes:
a path or a page title may hold half a surrogate pair, and no terminal setting can then break the line. Nor is `:x:` in
a path or title ever taken for the name of an emoji.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def print_json(result: Mapping[str, Any]) -> None:
    """Print one object on a line of its own; a value that JSON cannot hold (NaN, infinity) is an error of ours."""
    print(json.dumps(result, allow_nan=False), flush=True)


def result_console() -> Console:
    """Return the console for tables; plain text without colour when standard output is not a terminal."""
    return Console(highlight=False, emoji=False)


def progress_console() -> Console:
    """Return the console for all output that is not a result: standard error."""
    return Console(stderr=True, highlight=False, emoji=False)


def count_of(number: float, noun: str) -> str:
    """Return a number with its noun: `1 host`, `1,204 hosts`."""
    return f"{number:,.0f} {noun}" + ("" if number == 1 else "s")
