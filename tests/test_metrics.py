"""Counters, and the text that Prometheus reads."""

from __future__ import annotations

from dataclasses import fields

from prometheus_client.parser import text_string_to_metric_families

from teia.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_everything_starts_at_nought() -> None:
    assert set(samples(Metrics()).values()) == {0.0}


def test_every_number_is_exposed_with_help() -> None:
    families = {family.name: family for family in text_string_to_metric_families(Metrics().exposition().decode())}
    assert set(families) == {f"teia_{each.name}" for each in fields(Metrics)}
    assert all(family.documentation for family in families.values())


def test_counters_and_gauges_are_distinguished() -> None:
    metrics = Metrics()
    metrics.requests += 3
    metrics.in_flight = 2.5
    found = samples(metrics)
    assert found["teia_requests_total", ()] == 3
    assert found["teia_in_flight", ()] == 2.5


def test_outcomes_and_stages_carry_a_label() -> None:
    metrics = Metrics()
    metrics.outcomes["200"] += 2
    metrics.outcomes['od"d\nname\\'] += 1
    found = samples(metrics)
    assert found["teia_outcomes_total", ("200",)] == 2
    assert found["teia_outcomes_total", ('od"d\nname\\',)] == 1


def test_two_processes_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.pages += 1
    one.outcomes["404"] += 1
    assert other.pages == 0
    assert not other.outcomes


def test_scraping_twice_changes_nothing() -> None:
    metrics = Metrics(pages=7)
    assert metrics.exposition() == metrics.exposition()
