"""Collections that a cluster crawls, as seen from its folders: their cells are replicas of a log (docs/cluster.md).

A request on such a collection concerns all nodes. A running node receives it through its folder, as any crawl does, and
the cluster agrees on it. Where no node runs, nothing would process the request, so it is refused.
"""

from __future__ import annotations

from pathlib import Path

from teia.errors import ClusterError, CorruptFile, StoreError
from teia.frontier.cell.database import open_to_read, sqlite_errors
from teia.frontier.cell.journal import CLUSTER
from teia.frontier.cell.schema import VERSION
from teia.store.root import CollectionFolder


def is_clustered(folder: CollectionFolder) -> bool:
    """Tell whether a collection's cells belong to a cluster."""
    for cell in folder.cells()[:1]:
        try:
            db = open_to_read(cell.frontier, VERSION)
        except CorruptFile:
            raise
        except StoreError:
            return False
        try:
            with sqlite_errors(cell.frontier):
                return db.execute("SELECT 1 FROM meta WHERE name = ?", (CLUSTER,)).fetchone() is not None
        finally:
            db.close()
    return False


def nobody_hears(folder: CollectionFolder) -> ClusterError:
    """Return the error for a request on a cluster's collection while none of its nodes runs here."""
    root: Path = folder.path.parent
    return ClusterError(
        f"{folder.name!r} is crawled by a cluster, but no node is running on {root}; start it with `teia node`, or"
        " use --data of a running node"
    )
