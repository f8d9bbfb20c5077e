"""The collections of a data folder and their stored settings, for readers.

It imports little, because `teia search` waits for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from teia.errors import ConfigError, UsageError
from teia.store.root import Root

if TYPE_CHECKING:
    from teia.config.load import EffectiveConfig


MAX_CACHED = 100_000


class SearchSettings(NamedTuple):
    """Settings of the section `index` that a search reads, with their defaults."""

    semantics: bool = True
    cached_answers: int = 200


def choose(root: Root, name: str | None) -> str:
    """Return the collection that a command names, or the only one."""
    names = root.collections()
    if name is not None:
        if name not in names:
            raise UsageError(f"there is no collection {name!r} in {root.path}; available: {', '.join(names) or 'none'}")
        return name
    if len(names) != 1:
        what = f"contains {', '.join(names)}; choose one with --collection" if names else "contains no collection yet"
        raise UsageError(f"{root.path} {what}")
    return names[0]


def saved(root: Root, name: str) -> EffectiveConfig:
    """Return the stored settings of a collection."""
    path = root.collection(name).config
    if not path.exists():
        raise ConfigError(f"{path}: file not found; check that {root.path} was copied completely")
    from teia.config.load import load

    return load(path)


def search_settings(root: Root, name: str) -> SearchSettings:
    """Return the stored settings that a search reads; other sections of the file are not read."""
    try:
        with root.collection(name).config.open("rb") as file:
            index = tomllib.load(file).get("index", {})
        if _is_valid(index):
            return SearchSettings(**{key: index[key] for key in SearchSettings._fields if key in index})
    except (OSError, ValueError, AttributeError):
        pass
    # This raises an error with the reason.
    config = saved(root, name).config.index
    return SearchSettings(config.semantics, config.cached_answers)


def _is_valid(index: Mapping[str, object]) -> bool:
    semantics, cached = index.get("semantics", True), index.get("cached_answers", 0)
    # True and False are integers for Python.
    return isinstance(semantics, bool) and type(cached) is int and 0 <= cached <= MAX_CACHED
