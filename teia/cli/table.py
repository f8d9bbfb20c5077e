"""Tables for people: drawn on a terminal, plain aligned text with nothing cut off where a program or a file reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from teia.cli.output import result_console

Cells = Sequence[str]


def print_grid(columns: Cells, rows: Sequence[Cells], numeric: Sequence[bool], title: str = "") -> None:
    """Print one table on standard output; columns that are `numeric` are aligned to the right."""
    console = result_console()
    if console.is_terminal:
        _draw(console, columns, rows, numeric, title)
    else:
        print("\n".join(plain_lines(columns, rows, numeric, title)))


def _draw(console: Console, columns: Cells, rows: Sequence[Cells], numeric: Sequence[bool], title: str) -> None:
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
