"""The cluster's part of `/metrics`: all nodes, cells and moves, as the local node knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from teia.cluster.views.view import ClusterView

NODE_COUNTERS = {
    "pages": "pages stored by a node since it started",
    "requests": "requests sent by a node since it started",
    "messages": "messages sent to NATS by a node, for its cells and address leases",
    "sent_bytes": "bytes of these messages",
}
NODE_GAUGES = {
    "queued": "queued URLs in the cells of a node",
    "inbox": "received link messages that are not committed yet, the backlog of a node",
    "unsaved_bytes": "bytes of the logs of a node's cells that are not in a snapshot yet",
    "kept": "pages kept fresh by a node",
    "load": "load of a node's machine per processor",
    "unknown": "instances of nodes found in cells and address leases that are not known as members",
}


class ClusterCounts(Collector):
    """Metric families of a cluster view; empty for a machine without a cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        if not self._view.counts:
            return
        yield self._nodes()
        yield from self._by_node()
        yield from self._cells()
        yield self._moves()

    def _nodes(self) -> Metric:
        family = GaugeMetricFamily("teia_cluster_nodes", "nodes by state", labels=["state"])
        for state, count in sorted(Counter(node.state for node in self._view.nodes).items()):
            family.add_metric([state], count)
        return family

    def _by_node(self) -> Iterator[Metric]:
        cells = GaugeMetricFamily("teia_cluster_node_cells", "cells owned by a node", labels=["node"])
        for node in self._view.nodes:
            cells.add_metric([node.name], node.cells)
        yield cells
        for names, kind in ((NODE_COUNTERS, CounterMetricFamily), (NODE_GAUGES, GaugeMetricFamily)):
            for name, description in names.items():
                family = kind(f"teia_cluster_node_{name}", description, labels=["node"])
                for reporter, counts in sorted(self._view.counts.items()):
                    if name in counts:
                        family.add_metric([reporter], counts[name])
                yield family

    def _cells(self) -> Iterator[Metric]:
        labels = ["collection", "cell"]
        known = GaugeMetricFamily("teia_cluster_cell_urls", "URLs known in a cell", labels=labels)
        owned = GaugeMetricFamily("teia_cluster_cell_kept", "1 if a cell has an owner, otherwise 0", labels=labels)
        for cell in self._view.cells:
            known.add_metric([cell.collection, str(cell.number)], cell.urls)
            owned.add_metric([cell.collection, str(cell.number)], float(cell.keeper is not None))
        yield known
        yield owned

    def _moves(self) -> Metric:
        description = "cells that changed their owner since the node of this folder joined, by reason; died: take-overs"
        family = CounterMetricFamily("teia_cluster_moves", description, labels=["why"])
        for why, count in sorted(self._view.moved.items()):
            family.add_metric([why], count)
        return family
