"""Settings of a cluster: snapshots of cells, placement of sites, load balancing (docs/cluster.md)."""

from __future__ import annotations

from dataclasses import dataclass

from teia.settings import ADMIN, setting


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Snapshots of cells and the collection's stream in NATS (A3; see cluster.md)."""

    snapshots: str = setting(
        "nats",
        "destination of cell snapshots: nats (its object store), or a path such as /mnt/teia or s3://bucket/teia",
        of_machine=ADMIN,
    )
    snapshot_s: float = setting(600.0, "interval between two snapshots of a cell that changed", unit="s", at_least=1)
    snapshot_log_bytes: int = setting(
        256 * 2**20, "growth of a cell's log that triggers a snapshot earlier", unit="bytes", at_least=64 * 1024
    )
    ship_archive: bool = setting(
        False, "copy archive files to the same destination, and fetch them from there when a cell moves"
    )
    stream_bytes: int = setting(
        0, "maximum size of the collection's stream in NATS; 0: the limit of the NATS server", unit="bytes", at_least=0
    )


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Choice of the node that crawls a site, for the strategy rtt (see cluster.md)."""

    minimum_kb_s: float = setting(
        0.0,
        "minimum transfer rate from a site; a slower node hands the site over; 0: the fastest region crawls it",
        unit="kB/s",
        at_least=0,
    )
    measured_pages: int = setting(
        3, "number of pages used to measure the transfer rate of a site", at_least=1, at_most=1_000
    )
    again_s: float = setting(
        86_400.0, "time after which the transfer rate of a site is measured again", unit="s", at_least=1
    )


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Load balancing between the nodes of a cluster (A5, A14; see cluster.md)."""

    enabled: bool = setting(True, "transfer cells from overloaded nodes to others")
    idle_urls: int = setting(100, "queued URLs per unit of capacity below which a node is idle", at_least=0)
    overloaded_urls: int = setting(
        1_000, "queued URLs per unit of capacity above which a node is overloaded", at_least=1
    )
    hysteresis: float = setting(
        0.2,
        "hysteresis of both limits, as a fraction: a state ends only when its limit is passed by this much",
        at_least=0,
        at_most=0.9,
    )
    slack: float = setting(
        0.1, "fraction above its fair share that a node may hold before it transfers cells", at_least=0, at_most=10
    )
    quantity: int = setting(0, "number of URLs transferred at once; 0: as many as exceed the fair share", at_least=0)
    scheme: str = setting(
        "many-to-many",
        "number of nodes on both sides of a transfer",
        choices=("one-to-one", "one-to-many", "many-to-many"),
    )
    split_urls: int = setting(
        10_000_000, "number of known URLs above which a cell is split; 0: only on command", at_least=0
    )
    every_s: float = setting(
        60.0,
        "interval between two balancing decisions; each transfer interrupts the cells that move",
        unit="s",
        at_least=0.1,
    )
