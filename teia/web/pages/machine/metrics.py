"""`/metrics`: the status of every collection in the Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from teia.web.access.roles import Role
from teia.web.pages.collection.monitor import account_of
from teia.web.pages.machine.cluster_metrics import ClusterCounts
from teia.web.server.json_routes import PageRoutes, SiteDep

COUNTERS = {
    "requests": "requests sent since the run began, including robots.txt and redirects",
    "pages": "responses with a stored body",
    "bytes": "bytes of responses, including headers",
    "links": "links found in pages",
    "archive_records": "records written to the archive",
}
GAUGES = {
    "urls_known": "known URLs",
    "urls_queued": "queued URLs",
    "hosts": "hosts known to the crawler",
}
# The media type of Prometheus' text format.
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class CollectionMetrics(Collector):
    """Status of all collections, by name."""

    def __init__(self, accounts: dict[str, tuple[dict[str, Any], bool]]) -> None:
        self._accounts = accounts

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        for name, description in COUNTERS.items():
            yield self._family(CounterMetricFamily(f"teia_{name}", description, labels=["collection"]), name)
        for name, description in GAUGES.items():
            yield self._family(GaugeMetricFamily(f"teia_{name}", description, labels=["collection"]), name)
        yield self._running()
        yield self._outcomes()
        yield from self._freshness()
        yield self._early()

    def _family(self, family: Any, key: str) -> Metric:
        for collection, (account, _) in self._accounts.items():
            family.add_metric([collection], account[key])
        return family  # type: ignore[no-any-return]

    def _running(self) -> Metric:
        family = GaugeMetricFamily("teia_running", "1 if a crawler is running, otherwise 0", labels=["collection"])
        for collection, (_, is_running) in self._accounts.items():
            family.add_metric([collection], float(is_running))
        return family

    def _outcomes(self) -> Metric:
        family = CounterMetricFamily("teia_outcomes", "visits by outcome", labels=["collection", "outcome"])
        for collection, (account, _) in self._accounts.items():
            for outcome, count in sorted(account["outcomes"].items()):
                family.add_metric([collection, outcome], count)
        return family

    def _freshness(self) -> Iterator[Metric]:
        descriptions = {
            "fresh": "share of captures that are fresh",
            "best": "share that could be kept fresh in the long run",
            "possible": "upper bound of the share for any polite crawler, now",
        }
        for key, description in descriptions.items():
            family = GaugeMetricFamily(f"teia_freshness_{key}", description, labels=["collection"])
            for collection, (account, _) in self._accounts.items():
                if account.get("freshness") and key in account["freshness"]:
                    family.add_metric([collection], account["freshness"][key])
            yield family

    def _early(self) -> Metric:
        description = "requests sent before the delay of their server had passed"
        family = CounterMetricFamily("teia_early_requests", description, labels=["collection"])
        for collection, (account, _) in self._accounts.items():
            if account.get("live"):
                family.add_metric([collection], account["live"]["early"])
        return family


def add_routes(pages: PageRoutes) -> None:
    pages.add("GET", "/metrics", Role.VIEWER, metrics, response_class=PlainTextResponse, include_in_schema=False)


def metrics(site: SiteDep) -> PlainTextResponse:
    """Return all metrics for a Prometheus server."""
    found = {name: account_of(site, name) for name in site.names()}
    registry = CollectorRegistry()
    registry.register(CollectionMetrics({name: (account, run is not None) for name, (account, run) in found.items()}))
    registry.register(ClusterCounts(site.cluster.view()))
    return PlainTextResponse(generate_latest(registry).decode(), media_type=TYPE)
