"""Settings of a cluster: what is kept of cells, which node crawls a site, how work is shared out (docs/cluster.md)."""

from __future__ import annotations

from dataclasses import dataclass

from teia.settings import ADMIN, setting


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Many machines: what is kept of cells beside their logs (A3; see cluster.md)."""

    snapshots: str = setting(
        "nats",
        "where copies of cells go: nats, its object store; or a path, like /mnt/teia or s3://bucket/teia",
        of_machine=ADMIN,
    )
    snapshot_s: float = setting(600.0, "a cell that changed is copied after so long", unit="s", at_least=1)
    snapshot_log_bytes: int = setting(
        256 * 2**20, "and when its log has grown by so much", unit="bytes", at_least=64 * 1024
    )
    ship_archive: bool = setting(False, "whether archive files go there too, and come along when a cell moves")
    stream_bytes: int = setting(
        0, "room of the collection's stream in NATS; 0: as much as NATS has", unit="bytes", at_least=0
    )


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Which node of a cluster crawls a site, with the strategy rtt (see cluster.md)."""

    minimum_kb_s: float = setting(
        0.0, "a node that gets less from a site passes it on; 0: the fastest region has it", unit="kB/s", at_least=0
    )
    measured_pages: int = setting(3, "pages of a site by which its speed is judged", at_least=1, at_most=1_000)
    again_s: float = setting(86_400.0, "how long a measurement holds", unit="s", at_least=1)


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """How work is shared out between the nodes of a cluster (A5, A14; see cluster.md)."""

    enabled: bool = setting(True, "whether overloaded nodes hand cells to others")
    idle_urls: int = setting(100, "a node with fewer URLs waiting, for each unit of capacity, is idle", at_least=0)
    overloaded_urls: int = setting(1_000, "one with more is overloaded", at_least=1)
    hysteresis: float = setting(
        0.2, "so far beyond these lines, as a part of them, a state ends", at_least=0, at_most=0.9
    )
    slack: float = setting(0.1, "what a node may have above its share before it gives", at_least=0, at_most=10)
    quantity: int = setting(0, "URLs that a node gives at once; 0: until it has its share", at_least=0)
    scheme: str = setting(
        "many-to-many",
        "who takes part in a transfer",
        choices=("one-to-one", "one-to-many", "many-to-many"),
    )
    split_urls: int = setting(
        10_000_000, "a cell that knows more URLs is split; 0: only when somebody says so", at_least=0
    )
    every_s: float = setting(60.0, "time between two decisions; each costs a hand-over", unit="s", at_least=0.1)
