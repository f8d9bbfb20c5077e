"""What Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from teia.cluster.views.view import CellView, ClusterView, NodeView
from teia.web.access.roles import Role
from teia.web.pages.machine.metrics import Families, cluster_families
from tests.web.conftest import Web


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_those_of_the_accounts(web: Web) -> None:
    answer = web.client().get("/metrics", headers=web.token(Role.VIEWER))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.text)
    assert not [name for name, _ in found if "cluster" in name]  # this machine is alone
    of_main = (("collection", "main"),)
    assert found["teia_pages_total", of_main] == 4
    assert found["teia_urls_known", of_main] == 4
    assert found["teia_running", of_main] == 0
    assert found["teia_outcomes_total", (("collection", "main"), ("outcome", "200"))] == 4


def test_a_cluster_is_counted_by_node_cell_and_move() -> None:
    """Issue 7: cells, take-overs, messages and bytes, from what sessions say."""
    nodes = [NodeView("a", "normal", 2), NodeView("b", "dead", 0)]
    cells = [CellView("main/00", "main", 0, 0, 512, "a", 70), CellView("main/01", "main", 1, 512, 1024, None, 30)]
    counts = {"a": {"messages": 12.0, "sent_bytes": 3000.0, "pages": 6.0, "inbox": 2.0, "unsaved_bytes": 99.0}}
    view = ClusterView("2026-11-16T00:00:00Z", "a", nodes, cells, [], [], counts, {"died": 3})
    registry = CollectorRegistry()
    registry.register(Families(cluster_families(view)))
    found = samples(generate_latest(registry).decode())
    assert found["teia_cluster_nodes", (("state", "dead"),)] == 1
    assert found["teia_cluster_node_cells", (("node", "a"),)] == 2
    assert found["teia_cluster_node_messages_total", (("node", "a"),)] == 12
    assert found["teia_cluster_node_sent_bytes_total", (("node", "a"),)] == 3000
    assert found["teia_cluster_node_unsaved_bytes", (("node", "a"),)] == 99
    assert found["teia_cluster_cell_urls", (("cell", "0"), ("collection", "main"))] == 70
    assert found["teia_cluster_cell_kept", (("cell", "1"), ("collection", "main"))] == 0
    assert found["teia_cluster_moves_total", (("why", "died"),)] == 3
