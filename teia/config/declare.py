"""Settings: their declaration, and the check of their values.

`setting` makes a field of a frozen dataclass that carries the setting's description, unit and limits; `checked` judges
a value by them. The tree of sections is sections.py, and the lab's world files have one of their own (spec.py).
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping
from dataclasses import field
from datetime import date
from typing import Any, Union, get_args, get_origin

from teia.errors import WrongValue
from teia.lib.message import Message

MAX_NUMBER = 2**63
"""Upper limit of whole numbers, exclusive: SQLite could not store it, nor, at some size, a float."""


ADMIN = "admin"
"""Mark of a setting that leads to a path, an address or a network of the machine: an admin may change it remotely."""
HERE = "here"
"""Mark of a setting that names files to read or code to run: it is changed at the machine alone (`teia set`)."""


def setting(
    default: Any,
    description: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    matches: str = "",
    of_machine: str = "",
    in_header: bool = False,
) -> Any:
    """Declare one setting: its default, one line of description, and the values it may take.

    `of_machine`: the setting names something of the machine or of its networks, so not every remote user may change it.
    `in_header`: its text becomes part of a header of requests.
    """
    assert of_machine in {"", ADMIN, HERE}
    metadata = {
        "description": description,
        "unit": unit,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "matches": matches,
        "of_machine": of_machine,
        "in_header": in_header,
    }
    # A dictionary of its own for each tree: a shared one could be changed by one user for all.
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_value(key: str, value: Any, kind: Any, allowed: Mapping[str, Any]) -> Any:
    """Return the value in the type of its setting; the error names the allowed values."""
    # Optional: the type beside None.
    if get_origin(kind) in {types.UnionType, Union}:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise WrongValue(key, value, Message("must be a list"))
        return tuple(check_value(key, item, get_args(kind)[0], allowed) for item in value)
    if kind is str and isinstance(value, date):  # TOML has dates of its own, and people write them without quotes
        value = str(value)
    # A whole number will do for a float; True is no number, though Python counts it as an int.
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < MAX_NUMBER else math.inf
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise WrongValue(key, value, _KIND_ERRORS.get(kind, f"must be {kind.__name__}"))
    _check_allowed(key, value, allowed)
    return value


_KIND_ERRORS = {
    int: Message("must be a whole number"),
    float: Message("must be a number"),
    bool: Message("must be true or false"),
    str: Message("must be text"),
}


def _check_allowed(key: str, value: Any, allowed: Mapping[str, Any]) -> None:
    low, high = allowed.get("at_least"), allowed.get("at_most")
    unit = f" {allowed['unit']}" if allowed.get("unit") else ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Not a number fails this comparison too.
        if not -MAX_NUMBER < value < MAX_NUMBER:
            raise WrongValue(key, value, Message("must be a number below 2^63"))
        if low is not None and value < low:
            raise WrongValue(key, value, Message("must be at least {low}{unit}", low=low, unit=unit))
        if high is not None and value > high:
            raise WrongValue(key, value, Message("must be at most {high}{unit}", high=high, unit=unit))
    if isinstance(value, str) and not _is_unicode(value):
        raise WrongValue(key, value, Message("must be valid UTF-8"))
    if allowed.get("choices") and value not in allowed["choices"]:
        raise WrongValue(key, value, Message("must be one of {choices}", choices=", ".join(allowed["choices"])))
    if allowed.get("matches") and not re.fullmatch(allowed["matches"], value):
        raise WrongValue(key, value, Message("must look like {pattern}", pattern=allowed["matches"]))
    if isinstance(value, str) and allowed.get("in_header") and not (value.isascii() and value.isprintable()):
        raise WrongValue(key, value, Message("must be plain ASCII on one line; it is sent in a header"))


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be written to a file: non-UTF-8 bytes of a command line arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
