"""Output of commands: results, tables, progress and JSON.

Results go to standard output, everything else (progress, warnings, errors) to standard error, so that a pipe only ever
sees results. With `--json` the last line of standard output is exactly one JSON object. It is plain ASCII with escapes:
a path or a page title may hold half a surrogate pair, and no terminal setting can then break the line. Nor is `:x:` in
a path or title ever taken for the name of an emoji.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from rich.console import Console

INDENT = "    "
_STYLES = re.compile(r"(?<!\\)\[/?(?:bold|red|yellow)\]")


class PlainConsole:
    """Standard error that is no terminal: whole lines without styles, and without rich.

    To import rich takes a tenth of the time in which a crawl starts, and only terminals need it.
    """

    is_terminal = False

    def print(self, text: str = "", *, markup: bool = True, soft_wrap: bool = True, highlight: bool = False) -> None:  # noqa: ARG002
        """Print a line as rich's console would, but without wrapping it."""
        plain = _STYLES.sub("", text).replace("\\[", "[") if markup else text
        print(plain, file=sys.stderr, flush=True)

    @contextmanager
    def status(self, text: str) -> Iterator[Self]:  # noqa: ARG002
        """Show nothing: a line that changes would be noise in a file."""
        yield self

    def update(self, text: str) -> None: ...


def print_json(result: Mapping[str, Any]) -> None:
    """Print one object on a line of its own; a value that JSON cannot hold (NaN, infinity) is an error of ours."""
    print(json.dumps(result, allow_nan=False), flush=True)


def print_blocks(blocks: Sequence[Mapping[str, Any]]) -> None:
    """Print blocks of text (search/show/text_blocks.py) on standard output."""
    console = result_console() if _is_terminal(sys.stdout) else None
    for block in blocks:
        if "grid" in block:
            print_grid(*block["grid"])
            continue
        parts = [(printable(text), style) for text, style in block.get("line") or block["folded"]]
        if console is None:
            print(("" if "line" in block else INDENT) + "".join(text for text, _ in parts).rstrip())
        else:
            _print_parts(console, parts, is_folded="folded" in block)


def _print_parts(console: Console, parts: Sequence[tuple[str, str]], *, is_folded: bool) -> None:
    from rich.text import Text

    text = Text.assemble(*parts)
    lines = text.wrap(console, max(20, console.width - len(INDENT))) if is_folded else [text]
    for line in lines:
        console.print(Text(INDENT if is_folded else "").append_text(line), soft_wrap=True)


def _is_terminal(stream: TextIO) -> bool:
    """Tell whether rich would write styles to a stream; without importing it, because it rarely does."""
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"))


def result_console() -> Console:
    """Return the console for tables; plain text without colour when standard output is not a terminal."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def progress_console() -> Console | PlainConsole:
    """Return the console for all output that is not a result: standard error."""
    if not _is_terminal(sys.stderr):
        return PlainConsole()
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def count_of(number: float, noun: str) -> str:
    """Return a number with its noun: `1 host`, `1,204 hosts`."""
    return f"{number:,.0f} {noun}" + ("" if number == 1 else "s")


# ---- tables: drawn on a terminal, plain aligned text with nothing cut off elsewhere ----------------------------------

Cells = Sequence[str]


def print_grid(columns: Cells, rows: Sequence[Cells], numeric: Sequence[bool], title: str = "") -> None:
    """Print one table on standard output; columns that are `numeric` are aligned to the right."""
    if _is_terminal(sys.stdout) and (console := result_console()).is_terminal:
        _draw(console, columns, rows, numeric, title)
    else:
        print("\n".join(plain_lines(columns, rows, numeric, title)))


def _draw(console: Console, columns: Cells, rows: Sequence[Cells], numeric: Sequence[bool], title: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", title_style="bold")
    for name, is_number in zip(columns, numeric, strict=True):
        # Folded, not cut off: a URL in a cell stays complete.
        table.add_column(Text(printable(name)), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def plain_lines(columns: Cells, rows: Sequence[Cells], numeric: Sequence[bool], title: str = "") -> list[str]:
    """Return the table as lines of text, two blanks between columns."""
    shown = [tuple(map(printable, row)) for row in (columns, *rows)]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    lines = [title] if title else []
    for row in shown:
        cells = zip(row, widths, numeric, strict=True)
        lines.append("  ".join(f"{text:>{width}}" if right else f"{text:<{width}}" for text, width, right in cells))
    return [line.rstrip() for line in lines]


def printable(text: str) -> str:
    """Return text from the web on one line: control characters, as of escape sequences, are shown and not obeyed."""
    if text.isprintable():
        return text
    shown = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    # A terminal that cannot show a character gets its escape, not an error.
    return shown.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8")
