"""Collections in a data folder: create, find, configure.

A collection's durable configuration is its `teia.toml`, written from the settings in effect when the collection is
created. Later runs read it as their file; flags of a later run apply to that run alone. Seeds are the exception: a seed
that a later run names is added to the file, because the pages found from it stay in the collection.

Cells of a collection that a cluster crawls are replicas of a log (docs/cluster.md). A request on such a collection
concerns all nodes. A running node receives it through its folder, as any crawl does, and the cluster agrees on it.
Where no node runs, nothing would process the request, so it is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from teia.collections.calendar import parse_schedule
from teia.collections.edits import Edit, Operator, apply_edits, changed_keys
from teia.config.load import EffectiveConfig, load, to_toml, toml_value
from teia.config.sections import Config
from teia.config.tree import flatten, read_tree, value_of
from teia.crawler.compiled_settings import check_crawl
from teia.errors import ClusterError, ConfigError, CorruptFile, StoreError, TeiaError, UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.queue.order import focused
from teia.frontier.rules.rule_lists import with_whole_path
from teia.lib.tomledit import with_value
from teia.store.root import CollectionFolder, Root

SEEDS = "collection.seeds"
RULE_LISTS = ("scope.include", "scope.exclude")


def check(config: Config) -> None:
    """Raise ConfigError for a setting with an invalid text: a seed, a rule, a date, a network …"""
    check_crawl(config)
    parse_schedule(config.schedule)


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


def configure(
    root: Root, name: str | None, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> EffectiveConfig:
    """Return the settings of one run. A collection that does not exist is created with these settings."""
    wanted = name or (load(file, environ, flags).config.collection.name if file else None)
    names = root.collections()
    wanted = wanted or (names[0] if len(names) == 1 else "main")
    # Paths in flags are relative to the current folder, those in a file to the file's folder.
    flags = {**flags, **{key: _with_paths(flags.get(key), Path.cwd()) for key in RULE_LISTS}}
    if wanted in names:
        if file is not None:
            raise UsageError(
                f"{wanted!r} already exists with its own settings in {root.collection(wanted).config}; edit that"
                " file, or choose a new --name"
            )
        with root.collection(wanted).editing():
            amend(root, wanted, [Edit(SEEDS, Operator.ADD, seed) for seed in flags.get(SEEDS) or ()])
        # The seeds are in the file by now.
        return load(root.collection(wanted).config, environ, {**flags, SEEDS: None})
    effective = load(file, environ, {**flags, "collection.name": wanted})
    if not effective.config.collection.seeds:
        raise UsageError("a new collection needs at least one SEED, such as https://example.org/")
    config = _with_whole_paths(effective.config, Path.cwd() if file is None else file.absolute().parent)
    check(config)
    if config.collection.order == focused.name:
        from teia.crawler.child.focus import examples_of

        examples_of(config.focus)  # missing ones are reported before the collection is made
    root.create_collection(wanted, to_toml(config), config.collection.cells)
    return EffectiveConfig(config, effective.origins)


def _with_whole_paths(config: Config, base: Path) -> Config:
    scope = config.scope
    include, exclude = (tuple(_with_paths(rules, base)) for rules in (scope.include, scope.exclude))
    return replace(config, scope=replace(scope, include=include, exclude=exclude))


def _with_paths(rules: Any, base: Path) -> Any:
    """Make the path of every list in the rules absolute, so that later commands may run in any folder."""
    return [with_whole_path(rule, base) for rule in rules] if rules else rules


def configure_all(
    root: Root,
    name: str | None,
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    park: Callable[[str, TeiaError], None] | None = None,
) -> list[Config]:
    """Return the settings of a run: of one collection, or of all if neither a name nor a seed selects one.

    With `park`, a collection with invalid settings is passed to it and left out; if none is left, its error is raised.
    """
    names = root.collections()
    if name is None and file is None and not flags.get("collection.seeds") and len(names) > 1:
        configs, wrong = [], None
        for each in names:
            try:
                configs.append(configure(root, each, None, environ, flags).config)
            except ConfigError as error:
                wrong = error
                if park is None:
                    raise
                park(each, error)
        if wrong is not None and not configs:
            raise wrong
        return configs
    return [configure(root, name, file, environ, flags).config]


def saved(root: Root, name: str) -> EffectiveConfig:
    """Return the stored settings of a collection."""
    path = root.collection(name).config
    if not path.exists():
        raise ConfigError(f"{path}: file not found; check that {root.path} was copied completely")
    return load(path)


def amend(root: Root, name: str, edits: Sequence[Edit]) -> tuple[Config, Config]:
    """Apply edits to a collection's file; return the settings before and after. The caller holds `editing`."""
    folder, before = root.collection(name), saved(root, name).config
    after = apply_edits(before, edits)
    if edits:
        check(after)
    if after != before:
        folder.write_config(_text(folder, before, after))
    return before, after


def _text(folder: CollectionFolder, before: Config, after: Config) -> str:
    """Return the file with the new values; it is written anew if the user's TOML cannot be edited."""
    text = folder.config.read_text("utf-8")
    try:
        for key in changed_keys(before, after):
            table, _, name = key.rpartition(".")
            text = with_value(text, table, name, toml_value(value_of(after, key)))
        # Read back: an edited text must give exactly the new settings.
        says = read_tree(Config, flatten(tomllib.loads(text)))
    except (ValueError, ConfigError):
        return to_toml(after)
    return text if says == after else to_toml(after)


# ---- collections of a cluster ----------------------------------------------------------------------------------------


def is_clustered(folder: CollectionFolder) -> bool:
    """Tell whether a collection's cells belong to a cluster."""
    # The cells of a collection are all of one kind.
    for cell in folder.cells()[:1]:
        try:
            frontier = FrontierCell(cell.frontier, read_only=True)
        except CorruptFile:
            raise
        except StoreError:
            return False
        with closing(frontier):
            return frontier.is_of_cluster
    return False


def no_node_error(folder: CollectionFolder) -> ClusterError:
    """Return the error for a request on a cluster's collection while none of its nodes runs here."""
    root: Path = folder.path.parent
    return ClusterError(
        f"{folder.name!r} is crawled by a cluster, but no node is running on {root}; start it with `teia node`, or"
        " use --data of a running node"
    )
