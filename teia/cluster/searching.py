"""A data folder opened to be searched: the whole cluster where a node of one runs in it, otherwise what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from teia.clock import Clock
from teia.cluster.library import post_of
from teia.cluster.scattering import ClusterSearch
from teia.cluster.searchwire import Post
from teia.crawl.searching import CollectionSearch
from teia.store.root import Root

OpenedSearch: TypeAlias = CollectionSearch | ClusterSearch


def open_search(root: Root, names: Sequence[str], clock: Clock) -> OpenedSearch:
    """Open collections of a folder. One of a cluster is searched on all its nodes; several, as they lie here."""
    post = post_of(root, names[0]) if len(names) == 1 else None
    return CollectionSearch(root, names, clock) if post is None else cluster_of(post, clock)


def cluster_of(post: Post, clock: Clock) -> ClusterSearch:
    key, ca = (None if each is None else Path(each) for each in (post.key, post.ca))
    return ClusterSearch(post.servers, key, post.shared, clock, ca=ca)
