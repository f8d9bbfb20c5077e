"""Counters and gauges that every stage reports to.

A counter is a plain number bumped in place, because the crawler bumps some of them tens of thousands of times a second;
`prometheus_client` only formats them on a scrape. One labelled family counts answers by outcome. A `Metrics` object is
made once per process and passed in; nothing is global.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(slots=True, eq=False)
class Metrics:
    """Counters and gauges of one process since its start."""

    requests: int = field(default=0, metadata={"help": "requests sent, including robots.txt and redirects"})
    pages: int = field(default=0, metadata={"help": "responses with a stored body"})
    bytes_received: int = field(default=0, metadata={"help": "bytes of responses, including headers"})
    links: int = field(default=0, metadata={"help": "links found in pages"})
    urls_new: int = field(default=0, metadata={"help": "URLs discovered"})
    archive_records: int = field(default=0, metadata={"help": "records written to the archive"})
    commits: int = field(default=0, metadata={"help": "group commits"})
    parse_children_lost: int = field(default=0, metadata={"help": "parse processes killed or crashed"})
    hosts_active: float = field(default=0, metadata={"help": "hosts with queued URLs", "gauge": True})
    urls_queued: float = field(default=0, metadata={"help": "queued URLs", "gauge": True})
    in_flight: float = field(default=0, metadata={"help": "requests in progress", "gauge": True})
    waiting_parse: float = field(default=0, metadata={"help": "pages waiting to be parsed", "gauge": True})
    outcomes: Counter[str] = field(default_factory=Counter)

    def collect(self) -> Iterator[Metric]:
        """Yield every family in the form Prometheus' client library wants."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # only needed on a scrape

        for each in fields(self):
            # The only field with labels; its family is made below.
            if each.name == "outcomes":
                continue
            family = GaugeMetricFamily if each.metadata.get("gauge") else CounterMetricFamily
            yield family(f"teia_{each.name}", each.metadata["help"], value=getattr(self, each.name))
        yield _labelled("teia_outcomes", "responses by outcome", "outcome", self.outcomes)

    def exposition(self) -> bytes:
        """Return the text a Prometheus server reads at /metrics."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def _labelled(name: str, description: str, label: str, values: Counter[str]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, description, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family
