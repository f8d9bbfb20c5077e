"""Trees of settings: how a setting is declared, the dotted keys of a tree, and values checked and read into it.

`setting` makes a field of a frozen dataclass that carries the setting's description, unit and limits; `check_value`
judges a value by them. Unknown keys are refused with the nearest known one; a wrong value is refused with the key, the
value and what is allowed. Nothing here knows of crawling: the settings of a crawl are sections.py, and the lab's world
files (teia/lab/world/spec.py) are read by the same code.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from datetime import date
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from teia.config.extensions import extension_names
from teia.errors import ConfigError, WrongValue
from teia.lib.message import Message

Tree = TypeVar("Tree")

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
    extended_by: str = "",
    of_machine: str = "",
    in_header: bool = False,
) -> Any:
    """Declare one setting: its default, one line of description, and the values it may take.

    `of_machine`: the setting names something of the machine or of its networks, so not every remote user may change it.
    `in_header`: its text becomes part of a header of requests. `extended_by`: installed packages offer more choices in
    this group (extensions.py).
    """
    assert of_machine in {"", ADMIN, HERE}
    metadata = {
        "description": description,
        "unit": unit,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "extended_by": extended_by,
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
        offered = extension_names(allowed["extended_by"]) if allowed.get("extended_by") else ()
        if value not in offered:
            choices = ", ".join((*allowed["choices"], *offered))
            raise WrongValue(key, value, Message("must be one of {choices}", choices=choices))
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


# ---- dotted keys -----------------------------------------------------------------------------------------------------

_hints: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)
"""The types of a section's fields. Finding them takes a while, and web pages read settings all the time."""


def value_of(tree: Any, key: str) -> Any:
    """Return the value of a dotted key in a tree of sections."""
    for name in key.split("."):
        tree = getattr(tree, name)
    return tree


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables with dotted keys: `{"a.b": 1}` for `{"a": {"b": 1}}`."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def keys_of(tree: type[Any]) -> Mapping[str, dataclasses.Field[Any]]:
    """Return every dotted key of a tree of sections with its field, in the order of declaration."""
    return _keys(tree, "")


def _keys_below(tree: type[Any], prefix: str) -> Mapping[str, dataclasses.Field[Any]]:
    keys: dict[str, dataclasses.Field[Any]] = {}
    hints = _hints(tree)
    for each in fields(tree):
        # A field whose type is a dataclass is a section.
        if dataclasses.is_dataclass(hints[each.name]):
            keys.update(_keys_below(hints[each.name], f"{prefix}{each.name}."))
        else:
            keys[f"{prefix}{each.name}"] = each
    return keys


_keys: Callable[[Any, str], Mapping[str, dataclasses.Field[Any]]] = cache(_keys_below)


def read_tree(tree: type[Tree], values: Mapping[str, Any]) -> Tree:
    """Build a tree of sections from dotted keys; unknown keys and wrong values are refused."""
    known = keys_of(tree)
    for key in values:
        if key not in known:
            raise ConfigError(Message("unknown setting {key!r}; {hint}", key=key, hint=suggestion(key, known)))
    return _build(tree, values, "")


def _build(tree: type[Tree], values: Mapping[str, Any], prefix: str) -> Tree:
    hints = _hints(tree)
    arguments: dict[str, Any] = {}
    for each in fields(tree):  # type: ignore[arg-type]  # every caller passes a dataclass
        key = f"{prefix}{each.name}"
        if dataclasses.is_dataclass(hints[each.name]):
            arguments[each.name] = _build(hints[each.name], values, f"{key}.")
        # A setting that is not given keeps its default.
        elif key in values:
            arguments[each.name] = check_value(key, values[key], hints[each.name], each.metadata)
    return tree(**arguments)


def from_text(tree: type[Any], key: str, text: str) -> Any:
    """Turn the text of an environment variable into the type of its setting; lists are split at commas."""
    kind = _hint_of(tree, key)
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        lowered = text.strip().lower()
        # Any other text stays as it is: `checked` refuses it with a message of its own.
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(lowered, text)
    for number in (int, float):
        if kind is number:
            try:
                return number(text)
            except ValueError:
                return text
    return text


def _hint_of(tree: type[Any], key: str) -> Any:
    for name in key.split("."):
        tree = _hints(tree)[name]
    return tree


def suggestion(key: str, known: Mapping[str, Any]) -> str:
    """Return the end of an error about an unknown key: the known key that was probably meant."""
    last = key.rpartition(".")[2]
    # The same name in another section is the likeliest mistake.
    close = [each for each in known if each.rpartition(".")[2] == last][:1]
    close = close or difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return Message("did you mean {what!r}?", what=close[0]) if close else Message("`teia config` lists them all")
