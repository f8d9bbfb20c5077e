"""`/metrics` in the Prometheus format: every collection, and all nodes, cells and moves that the local node knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from teia.cluster.views.view import ClusterView
from teia.collections.figures import FIGURES, AccountFigure
from teia.transfer.disk_use import free_space
from teia.web.access.roles import Role
from teia.web.parts.collection_state import account_of
from teia.web.server.json_routes import InstallationDep, PageRoutes

NODE_COUNTERS = {
    "pages": "pages stored by a node since it started",
    "requests": "requests sent by a node since it started",
    "messages": "messages sent to NATS by a node, for its cells and address leases",
    "sent_bytes": "bytes of these messages",
}
NODE_GAUGES = {
    "queued": "queued URLs in the cells of a node",
    "inbox": "received link messages that are not committed yet, the backlog of a node",
    "lag_s": "seconds from the storage of links in NATS to their commit by the node that receives them",
    "unsaved_bytes": "bytes of the logs of a node's cells that are not in a snapshot yet",
    "kept": "pages kept fresh by a node",
    "least_kept": "importance of the least important page that a node at its size limit keeps",
    "load": "load of a node's machine per processor",
    "unknown": "instances of nodes found in cells and address leases that are not known as members",
}
# The media type of Prometheus' text format.
TYPE = "text/plain; version=0.0.4; charset=utf-8"
Samples = Iterable[tuple[Any, ...]]
"""Values of the labels, and the number."""


class Families(Collector):
    """Metric families, ready to be printed."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        return self._families


def _counter(name: str, description: str, labels: str, samples: Samples) -> Metric:
    return _fill(CounterMetricFamily(f"teia_{name}", description, labels=labels.split()), samples)


def _gauge(name: str, description: str, labels: str, samples: Samples) -> Metric:
    return _fill(GaugeMetricFamily(f"teia_{name}", description, labels=labels.split()), samples)


def _fill(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for *labels, number in samples:
        family.add_metric([str(label) for label in labels], number)
    return family


def collection_families(accounts: dict[str, tuple[dict[str, Any], bool]]) -> Iterator[Metric]:
    """Yield the metrics of collections, from their accounts; the flag tells whether a crawl is running."""
    of = "collection"
    for figure in FIGURES.values():
        if figure.metric:
            yield _figure_family(figure, accounts)
    running = [(each, float(is_running)) for each, (_, is_running) in accounts.items()]
    yield _gauge("running", "1 if a crawler is running, otherwise 0", of, running)
    outcomes = {each: sorted(account["outcomes"].items()) for each, (account, _) in accounts.items()}
    by_outcome = [(each, *outcome) for each, counted in outcomes.items() for outcome in counted]
    yield _counter("outcomes", "visits by outcome", f"{of} outcome", by_outcome)


def _figure_family(figure: AccountFigure, accounts: dict[str, tuple[dict[str, Any], bool]]) -> Metric:
    """Return a figure of every collection that has it; Prometheus adds `_total` to the name of a counter itself."""
    values = [(each, figure.value(account)) for each, (account, _) in accounts.items()]
    known = [(each, value) for each, value in values if value is not None]
    name = figure.metric.removeprefix("teia_")
    family = _counter if name.endswith("_total") else _gauge
    return family(name.removesuffix("_total"), str(figure.meaning), "collection", known)


def cluster_families(view: ClusterView) -> Iterator[Metric]:
    """Yield the metrics of a cluster; none for a machine without one."""
    if not view.counts:
        return
    states = Counter(node.state for node in view.nodes)
    yield _gauge("cluster_nodes", "nodes by state", "state", sorted(states.items()))
    owned = [(node.name, node.cells) for node in view.nodes]
    yield _gauge("cluster_node_cells", "cells owned by a node", "node", owned)
    for names, family in ((NODE_COUNTERS, _counter), (NODE_GAUGES, _gauge)):
        for name, description in names.items():
            counts = [(node, counted[name]) for node, counted in sorted(view.counts.items()) if name in counted]
            yield family(f"cluster_node_{name}", description, "node", counts)
    of = "collection cell"
    urls = [(cell.collection, cell.number, cell.urls) for cell in view.cells]
    yield _gauge("cluster_cell_urls", "URLs known in a cell", of, urls)
    kept = [(cell.collection, cell.number, float(cell.keeper is not None)) for cell in view.cells]
    yield _gauge("cluster_cell_kept", "1 if a cell has an owner, otherwise 0", of, kept)
    description = "cells that changed their owner since the node of this folder joined, by reason; died: take-overs"
    yield _counter("cluster_moves", description, "why", sorted(view.moved.items()))


def add_routes(pages: PageRoutes) -> None:
    pages.add("GET", "/metrics", Role.VIEWER, metrics, response_class=PlainTextResponse, include_in_schema=False)


def metrics(installation: InstallationDep) -> PlainTextResponse:
    """Return all metrics for a Prometheus server."""
    found = {name: account_of(installation, name) for name in installation.names()}
    accounts = {name: (account, run is not None) for name, (account, run) in found.items()}
    registry = CollectorRegistry()
    of_machine = _gauge(
        "disk_free_bytes", "free bytes for the data folder", "", [(free_space(installation.root).free_bytes,)]
    )
    registry.register(
        Families([*collection_families(accounts), of_machine, *cluster_families(installation.cluster.view())])
    )
    return PlainTextResponse(generate_latest(registry).decode(), media_type=TYPE)
