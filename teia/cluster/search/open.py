"""A data folder opened for search: the whole cluster if a node of one runs in it, otherwise the folder's own data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from teia.clock import Clock
from teia.cluster.search.ask_nodes import ClusterSearch
from teia.cluster.search.messages import LibrarianSettings
from teia.cluster.search.processes import read_librarian_settings
from teia.indexer.open_search import CollectionSearch
from teia.store.root import Root

OpenedSearch: TypeAlias = CollectionSearch | ClusterSearch


def open_search(root: Root, names: Sequence[str], clock: Clock) -> OpenedSearch:
    """Open collections of a folder. One of a cluster is searched on all its nodes; several, as they lie here."""
    settings = read_librarian_settings(root, names[0]) if len(names) == 1 else None
    return CollectionSearch(root, names, clock) if settings is None else open_cluster(settings, clock)


def open_cluster(settings: LibrarianSettings, clock: Clock) -> ClusterSearch:
    key, ca = (None if each is None else Path(each) for each in (settings.key, settings.ca))
    return ClusterSearch(settings.servers, key, settings.shared, clock, ca=ca)
