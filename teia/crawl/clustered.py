"""Collections that a cluster crawls, as its folders show it: their cells are copies of a log (docs/cluster.md).

What is asked of such a collection is asked of all nodes. A node that runs hears it through its folder, as any crawl
does, and the cluster agrees on it; where no node runs nobody would, so it is refused.
"""

from __future__ import annotations

from pathlib import Path

from teia.errors import ClusterError, CorruptFile, StoreError
from teia.frontier.database import open_to_read, sqlite_errors
from teia.frontier.journal import CLUSTER
from teia.frontier.schema import VERSION
from teia.store.root import CollectionFolder


def is_clustered(folder: CollectionFolder) -> bool:
    """Whether a collection's cells belong to a cluster."""
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
    """What is said where a cluster's collection is asked for something and no node of it runs here."""
    root: Path = folder.path.parent
    return ClusterError(
        f"{folder.name!r} is crawled by a cluster, and no node runs on {root}; start it (`teia node`),"
        " or say --data of one that runs"
    )
