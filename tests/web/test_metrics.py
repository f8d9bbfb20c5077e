"""What Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from teia.web.roles import Role

from .conftest import Web


def test_metrics_are_those_of_the_accounts(web: Web) -> None:
    answer = web.client().get("/metrics", headers=web.token(Role.VIEWER))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    of_main = (("collection", "main"),)
    assert found["teia_pages_total", of_main] == 4
    assert found["teia_urls_known", of_main] == 4
    assert found["teia_running", of_main] == 0
    assert found["teia_outcomes_total", (("collection", "main"), ("outcome", "200"))] == 4
