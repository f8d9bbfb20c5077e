"""`teia config`: the effective settings and where each came from.

On a terminal a table; elsewhere a TOML file with the meanings as comments, so `teia config > teia.toml` is how a
configuration is begun.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from teia.cli.output import print_json, result_console
from teia.config.load import Effective, load, toml_value
from teia.config.sections import Config
from teia.config.tree import keys_of, value_of


def config(
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A TOML file to read before the environment.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on the last line.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", hidden=True, help="The text of docs/config.md.")] = False,
) -> None:
    """Show every setting: its value, its unit, what it means and where the value came from.

    Examples: teia config > teia.toml · teia config --config teia.toml --json
    """
    if as_markdown:
        print(markdown(), end="")
        return
    effective = load(file, os.environ)
    console = result_console()
    if as_json:
        print_json({"file": None if file is None else str(file), "settings": as_records(effective)})
    elif console.is_terminal:
        console.print(as_table(effective))
    else:
        print(as_toml(effective), end="")


def as_records(effective: Effective) -> dict[str, dict[str, Any]]:
    """Every setting by its dotted key, ready for JSON."""
    return {
        key: {
            "value": value_of(effective.config, key),
            "unit": each.metadata["unit"],
            "meaning": each.metadata["meaning"],
            "origin": effective.origins[key],
        }
        for key, each in keys_of(Config).items()
    }


def as_table(effective: Effective) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("setting", "value", "unit", "from", "meaning"):
        table.add_column(column, overflow="fold")
    for key, record in as_records(effective).items():
        style = None if record["origin"] == "default" else "bold"
        table.add_row(
            key, toml_value(record["value"]), record["unit"], record["origin"], record["meaning"], style=style
        )
    return table


def as_toml(effective: Effective) -> str:
    """The configuration as a file that `--config` reads back to the same values."""
    lines: list[str] = []
    section = ""
    for key, record in as_records(effective).items():
        table, _, name = key.rpartition(".")
        if table != section:
            lines += ["", f"[{table}]"] if lines else [f"[{table}]"]
            section = table
        unit = f"{record['unit']}; " if record["unit"] else ""
        lines += [f"# {unit}{record['meaning']} ({record['origin']})", f"{name} = {toml_value(record['value'])}"]
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """The text of docs/config.md: every section with its settings, defaults and allowed values."""
    lines = [
        "# Settings",
        "",
        "Made by `teia config --markdown > docs/config.md` from [config/sections.py](../teia/config/sections.py).",
        "Values come from, in rising order: the default, a TOML file (`--config`), the environment",
        "(`TEIA_COURTESY_DELAY_S=2`), flags. `teia config` shows the result and where each value came from.",
    ]
    defaults = Config()
    section = ""
    for key, each in keys_of(Config).items():
        table, _, name = key.rpartition(".")
        if table != section:
            section = table
            about = (type(getattr(defaults, table)).__doc__ or "").strip()
            lines += ["", f"## {table}", "", about, "", "| setting | default | unit | allowed | meaning |"]
            lines += ["|---|---|---|---|---|"]
        cells = (f"`{name}`", f"`{toml_value(value_of(defaults, key))}`", each.metadata["unit"], allowed(each.metadata))
        lines.append(f"| {' | '.join(cells)} | {each.metadata['meaning']} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def allowed(metadata: Any) -> str:
    """The values a setting may take, in words short enough for a table."""
    low, high = metadata["at_least"], metadata["at_most"]
    words = [f"at least {low:,}"] if low is not None else []
    words += [f"at most {high:,}"] if high is not None else []
    words += [", ".join(f"`{choice}`" for choice in metadata["choices"])] if metadata["choices"] else []
    words += [f"`{metadata['matches']}`"] if metadata["matches"] else []
    return ", ".join(words)
