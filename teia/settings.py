"""One setting: how it is declared, and whether a value may be its.

`setting` makes a field of a frozen dataclass that carries the setting's meaning, unit and limits; `checked` judges a
value by them. The tree of sections is config.py, and the lab's world files have one of their own (teia/lab/spec.py).
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping
from dataclasses import field
from datetime import date
from typing import Any, Union, get_args, get_origin

from teia.errors import ConfigError

MAX_NUMBER = 2**63
"""What a whole number may not reach: it would fit neither SQLite nor, at some size, a float."""


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    matches: str = "",
) -> Any:
    """Declare one setting: its default, one line of meaning, and the values it may take."""
    metadata = {
        "meaning": meaning,
        "unit": unit,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "matches": matches,
    }
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def checked(key: str, value: Any, kind: Any, allowed: Mapping[str, Any]) -> Any:
    """Return the value in the type of its setting, or say what is allowed."""
    if get_origin(kind) in {types.UnionType, Union}:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{key} = {value!r}: must be a list")
        return tuple(checked(key, item, get_args(kind)[0], allowed) for item in value)
    if kind is str and isinstance(value, date):  # TOML has dates of its own, and people write them without quotes
        value = str(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < MAX_NUMBER else math.inf
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ConfigError(f"{key} = {value!r}: must be {_KIND_NAMES.get(kind, kind.__name__)}")
    _check_allowed(key, value, allowed)
    return value


_KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _check_allowed(key: str, value: Any, allowed: Mapping[str, Any]) -> None:
    low, high = allowed.get("at_least"), allowed.get("at_most")
    unit = f" {allowed['unit']}" if allowed.get("unit") else ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -MAX_NUMBER < value < MAX_NUMBER:
            raise ConfigError(f"{key} = {value!r}: must be a number below 2^63")
        if low is not None and value < low:
            raise ConfigError(f"{key} = {value!r}: must be at least {low}{unit}")
        if high is not None and value > high:
            raise ConfigError(f"{key} = {value!r}: must be at most {high}{unit}")
    if isinstance(value, str) and not _is_unicode(value):
        raise ConfigError(f"{key} = {value!a}: must be valid UTF-8")
    if allowed.get("choices") and value not in allowed["choices"]:
        raise ConfigError(f"{key} = {value!r}: must be one of {', '.join(allowed['choices'])}")
    if allowed.get("matches") and not re.fullmatch(allowed["matches"], value):
        raise ConfigError(f"{key} = {value!r}: must look like {allowed['matches']}")


def _is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: bytes of a command line that are no UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
