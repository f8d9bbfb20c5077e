"""No setting is silently ignored by a cluster: it is honoured, refused or told of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from teia.cluster.crawl.settings import check_supported, ignored_settings
from teia.config.sections import Config
from teia.errors import ConfigError


def config_with(key: str, value: Any) -> Config:
    section, _, name = key.partition(".")
    config = Config()
    return replace(config, **{section: replace(getattr(config, section), **{name: value})})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("collection.cells", 901),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_with_the_reason(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{key}: not supported in a cluster: "):
        check_supported(config_with(key, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("refresh.keep", True),
        ("limits.pages", 5),
        ("limits.seconds", 5.0),
        ("collection.order", "pagerank"),
        ("signals.socket", "/run/teia/hits"),
        ("signals.proxy", "10.0.0.1:3128"),
        ("signals.indexnow", True),
        ("signals.websub", "https://crawl.example.org"),
        ("collection.order", "focused"),
        ("refresh.weights", "file"),
        ("scope.include", ("list:rules.txt",)),
    ],
)
def test_what_a_cluster_can_do_is_not(key: str, value: Any) -> None:
    check_supported(config_with(key, value))


def test_a_node_that_keeps_pages_fresh_or_waits_for_a_run_never_has_nothing_left_to_do() -> None:
    for config in (config_with("refresh.keep", True), config_with("schedule.start", "2026-11-21 02:00")):
        check_supported(config)
        with pytest.raises(ConfigError, match="--once"):
            check_supported(config, once=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [("index.semantics", True), ("refresh.weights", "hits"), ("parse.processors", ("a:b",))],
)
def test_ignored_settings_are_reported(key: str, value: Any) -> None:
    assert [line.partition(":")[0] for line in ignored_settings(config_with(key, value)) if line.startswith(key)] == [
        key
    ]
    assert ignored_settings(config_with("index.semantics", False)) == []
