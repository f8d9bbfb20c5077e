"""Trees of sections: their dotted keys, and values read into them.

Unknown keys are refused with the nearest known one; a wrong value is refused with the key, the value and what is
allowed. Nothing here knows of crawling: the lab's world files (teia/lab/world/spec.py) are read by the same code.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_origin, get_type_hints

from teia.config.declare import check_value
from teia.errors import ConfigError
from teia.lib.message import Message

Tree = TypeVar("Tree")

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
