"""The catalogue of figures names what an account has, once."""

from __future__ import annotations

from dataclasses import fields

from teia.collections.account import Summary
from teia.collections.figures import FIGURES

DERIVED = {"pages_per_s_now", "live.early"}
"""Figures of the server and of the crawler's activity, beside the summary."""


def test_every_figure_is_a_key_of_the_account() -> None:
    keys = {field.name for field in fields(Summary)}
    assert {name.partition(".")[0] for name in FIGURES if name not in DERIVED} <= keys


def test_labels_and_metrics_are_told_apart() -> None:
    labels = [each.label for each in FIGURES.values()]
    assert len(labels) == len(set(labels))
    metrics = [each.metric for each in FIGURES.values() if each.metric]
    assert len(metrics) == len(set(metrics))
    assert [each.name for each in FIGURES.values() if each.metric.endswith("_total") and each.of != "run"] == []


def test_a_nested_figure_is_found_and_a_missing_one_is_none() -> None:
    assert FIGURES["freshness.fresh"].value({"freshness": {"fresh": 0.5}}) == 0.5
    assert FIGURES["freshness.fresh"].value({"freshness": None}) is None
