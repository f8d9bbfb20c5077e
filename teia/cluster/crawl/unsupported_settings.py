"""Settings that a cluster does not support: refused at a node's start or when set, or reported (docs/cluster.md).

A setting that is neither here nor in the table of docs/cluster.md has the same effect as on one machine.
"""

from __future__ import annotations

from teia.cluster.cells.log import MAX_CELLS
from teia.config.sections import Config
from teia.errors import ConfigError


def check_supported(config: Config, *, once: bool = False) -> None:
    """Refuse settings that a cluster does not support; `once` is a node that leaves when nothing is left to do."""
    for key, why in _unsupported(config).items():
        raise ConfigError(
            f"{key}: not supported in a cluster: {why}; crawl the collection on one machine, or change the setting"
        )
    if once and config.refresh.keep:
        raise ConfigError("--once: a crawl that keeps pages fresh does not end (refresh.keep)")
    if once and config.schedule.start:
        raise ConfigError("--once: a crawl with a schedule does not end (schedule.start)")


def _unsupported(config: Config) -> dict[str, str]:
    """Return the settings that are refused, and the reasons."""
    wrong = {
        "collection.cells": config.collection.cells > MAX_CELLS and f"at most {MAX_CELLS} cells are possible",
    }
    return {key: why for key, why in wrong.items() if why}


def ignored_settings(config: Config) -> list[str]:
    """Return the settings that a cluster ignores, for the first lines of a node's log."""
    ignored = {
        "index.semantics": config.index.semantics and "no semantic model is trained",
        "refresh.weights": config.refresh.weights == "hits" and "each node uses the hits.txt of its own folder",
        "parse.processors": config.parse.processors and "they must be installed on every node",
    }
    return [f"{key}: {why}" for key, why in ignored.items() if why]
