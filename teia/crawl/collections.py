"""Collections in a data folder: made, found, configured.

A collection's durable configuration is its `teia.toml`, written when it is made from whatever was set then. Later runs
read it as their file; flags of a later run hold for that run alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teia.config import Config, Effective, load, to_toml
from teia.crawl.meaning import check
from teia.errors import ConfigError, UsageError
from teia.store.root import Root


def choose(root: Root, name: str | None) -> str:
    """The collection a command means: the one named, or the only one there is."""
    names = root.collections()
    if name is not None:
        if name not in names:
            raise UsageError(f"there is no collection {name!r} in {root.path}; there is {', '.join(names) or 'none'}")
        return name
    if len(names) != 1:
        what = f"holds {', '.join(names)}; choose one with --collection" if names else "holds no collection yet"
        raise UsageError(f"{root.path} {what}")
    return names[0]


def configure(
    root: Root, name: str | None, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> Effective:
    """The settings of one run. A collection that is not there yet is made, with these settings as its own."""
    wanted = name or (load(file, environ, flags).config.collection.name if file else None)
    names = root.collections()
    wanted = wanted or (names[0] if len(names) == 1 else "main")
    if wanted in names:
        if file is not None:
            raise UsageError(
                f"{wanted!r} exists and has its own settings in {root.collection(wanted).config};"
                " edit that file, or give a new --name"
            )
        return load(root.collection(wanted).config, environ, flags)
    effective = load(file, environ, {**flags, "collection.name": wanted})
    if not effective.config.collection.seeds:
        raise UsageError("a new collection needs at least one SEED, like https://example.org/")
    check(effective.config)
    root.create_collection(wanted, to_toml(effective.config), effective.config.collection.cells)
    return effective


def configure_all(
    root: Root, name: str | None, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> list[Config]:
    """The settings of a run: of one collection, or of all there are when neither a name nor a seed says which."""
    names = root.collections()
    if name is None and file is None and not flags.get("collection.seeds") and len(names) > 1:
        return [configure(root, each, None, environ, flags).config for each in names]
    return [configure(root, name, file, environ, flags).config]


def saved(root: Root, name: str) -> Effective:
    """The settings a collection was made with."""
    path = root.collection(name).config
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file; was {root.path} copied whole?")
    return load(path)
