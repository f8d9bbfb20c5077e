"""The cluster's part of `/metrics`: all nodes, cells and moves, as the local node knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from teia.cluster.views.view import ClusterView

NODE_COUNTERS = {
    "pages": "pages that a node has stored since it started",
    "requests": "requests that it has sent",
    "messages": "messages that it has sent to NATS for its cells and addresses",
    "sent_bytes": "bytes of these messages",
}
NODE_GAUGES = {
    "queued": "URLs that wait in a node's cells",
    "inbox": "bulks of links that wait for their commit: how far it is behind with what others sent",
    "unsaved_bytes": "bytes of its cells' logs that are in no snapshot yet",
    "kept": "pages that it keeps fresh",
    "load": "load of its machine, by processor",
    "unknown": "instances of nodes that it found in cells and addresses and that nobody had told it of",
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
        cells = GaugeMetricFamily("teia_cluster_node_cells", "cells that a node keeps", labels=["node"])
        for node in self._view.nodes:
            cells.add_metric([node.name], node.cells)
        yield cells
        for names, kind in ((NODE_COUNTERS, CounterMetricFamily), (NODE_GAUGES, GaugeMetricFamily)):
            for name, meaning in names.items():
                family = kind(f"teia_cluster_node_{name}", meaning, labels=["node"])
                for said_by, counts in sorted(self._view.counts.items()):
                    if name in counts:
                        family.add_metric([said_by], counts[name])
                yield family

    def _cells(self) -> Iterator[Metric]:
        labels = ["collection", "cell"]
        known = GaugeMetricFamily("teia_cluster_cell_urls", "URLs known in a cell", labels=labels)
        kept = GaugeMetricFamily("teia_cluster_cell_kept", "whether a cell has a keeper", labels=labels)
        for cell in self._view.cells:
            known.add_metric([cell.collection, str(cell.number)], cell.urls)
            kept.add_metric([cell.collection, str(cell.number)], float(cell.keeper is not None))
        yield known
        yield kept

    def _moves(self) -> Metric:
        meaning = "cells that changed hands since the node of this folder joined, by reason; died: take-overs"
        family = CounterMetricFamily("teia_cluster_moves", meaning, labels=["why"])
        for why, count in sorted(self._view.moved.items()):
            family.add_metric([why], count)
        return family
