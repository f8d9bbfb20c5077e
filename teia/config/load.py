"""Configurations read and written: defaults, a TOML file, the environment (`TEIA_COURTESY_DELAY_S=2`), flags.

The later ones win. `load` reads them once at start; from then on sections are passed in as values. `teia config` prints
the result with the origin of each value. A change of some values leaves a user's comments and order as they are.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from teia.config.sections import Config
from teia.config.tree import flatten, from_text, keys_of, read_tree, suggestion
from teia.errors import ConfigError

ENVIRONMENT_PREFIX = "TEIA_"
NOT_SETTINGS = frozenset({"TEIA_CONFORMANCE", "TEIA_PYTHON", "TEIA_VENV"})
"""Variables that our scripts and tests read; everything else that begins with TEIA_ must be a setting."""


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """A configuration and where each of its values came from: `default`, a file, a variable or `flag`."""

    config: Config
    origins: Mapping[str, str]


def load(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> EffectiveConfig:
    """Read file, environment and flags (`{"courtesy.delay_s": 2.0}`) into one configuration."""
    values: dict[str, Any] = {}
    origins = dict.fromkeys(keys_of(Config), "default")
    # Later sources win: file, then environment, then flags.
    for key, value in ({} if path is None else flatten(read_toml(path))).items():
        values[key], origins[key] = value, str(path)
    for variable, key in _settings_in(environ or {}).items():
        values[key], origins[key] = from_text(Config, key, (environ or {})[variable]), variable
    for key, value in (flags or {}).items():
        if value is not None:
            values[key], origins[key] = value, "flag"
    return EffectiveConfig(read_tree(Config, values), origins)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; every way this can fail is one line that names the file."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: file not found") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        # Not only TOMLDecodeError: bytes that are not UTF-8 and numbers of 5,000 digits end here too.
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def _settings_in(environ: Mapping[str, str]) -> dict[str, str]:
    by_variable = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in keys_of(Config)}
    found: dict[str, str] = {}
    for variable in environ:
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_SETTINGS:
            continue
        # A misspelt variable must not be ignored.
        if variable not in by_variable:
            raise ConfigError(f"unknown setting {variable} in the environment; {suggestion(variable, by_variable)}")
        found[variable] = by_variable[variable]
    return found


def to_toml(config: Config) -> str:
    """Return the settings that differ from their defaults, as a file that `load` reads back to the same values."""
    lines: list[str] = []
    for each in fields(config):
        section, standard = getattr(config, each.name), getattr(Config(), each.name)
        changed = [f.name for f in fields(section) if getattr(section, f.name) != getattr(standard, f.name)]
        if changed:
            lines += [f"[{each.name}]", *(f"{name} = {toml_value(getattr(section, name))}" for name in changed), ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Return a value as TOML text: strings, numbers, booleans and lists as JSON writes them, except for DEL."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


# ---- changes to a file -----------------------------------------------------------------------------------------------


_LONG = 2_000
"""Length in characters from which a list is not given to tomlkit, which takes some 15 µs for each item."""

_LONG_LIST = re.compile(rf"^([ \t]*[\w-]+[ \t]*=[ \t]*)(\[.{{{_LONG},}}\])[ \t]*$", re.MULTILINE)
"""A list on one line, as teia writes it."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text with `key` of `[table]` set, for each `table.key`; a value is itself TOML.

    Tables and keys are added if need be. ValueError if the text cannot be edited.
    """
    import tomlkit  # takes as long to import as a short command takes in all
    from tomlkit.exceptions import TOMLKitError

    mark = uuid4().hex
    long: list[str] = []

    def stand_in(value: str) -> str:
        long.append(value)
        return f'"{mark}{len(long) - 1}"'

    try:
        document = tomlkit.parse(_LONG_LIST.sub(lambda found: found[1] + stand_in(found[2]), text))
        for name, value in values.items():
            table, _, key = name.rpartition(".")
            # As in a text written by hand, a blank line comes before a new table.
            section = document.setdefault(table, tomlkit.table())
            section[key] = tomlkit.value(stand_in(value) if len(value) >= _LONG else value)
        edited = tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        raise ValueError(f"{', '.join(values)} cannot be set: {error}") from error
    return re.sub(f'"{mark}([0-9]+)"', lambda found: long[int(found[1])], edited)
