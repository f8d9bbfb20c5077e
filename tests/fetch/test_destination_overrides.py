from __future__ import annotations

import pytest

from teia.errors import ConfigError
from teia.fetch.destination import AddressOverride, AddressOverrides


@pytest.mark.parametrize(
    ("item", "host", "override"),
    [
        ("*.test=127.0.0.1:8800", "a.b.test", AddressOverride("127.0.0.1", 8800)),
        ("*.test=127.0.0.1", "a.test", AddressOverride("127.0.0.1", None)),
        ("a.test=[::1]:80", "a.test", AddressOverride("::1", 80)),
        ("a.test=::1", "a.test", AddressOverride("::1", None)),
        ("A.Test=10.0.0.1", "a.test", AddressOverride("10.0.0.1", None)),
        ("*=127.0.0.1", "anything", AddressOverride("127.0.0.1", None)),
        ("h?.test=127.0.0.1", "h1.test", AddressOverride("127.0.0.1", None)),
        ("*.test=127.0.0.1", "test", None),
        ("*.test=127.0.0.1", "a.test.example", None),
    ],
)
def test_pattern_names_hosts(item: str, host: str, override: AddressOverride | None) -> None:
    assert AddressOverrides.parse([item]).find(host) == override


def test_first_match_wins() -> None:
    overrides = AddressOverrides.parse(["a.test=127.0.0.1", "*.test=127.0.0.2"])
    assert overrides.find("a.test") == AddressOverride("127.0.0.1")
    assert overrides.find("b.test") == AddressOverride("127.0.0.2")
    assert AddressOverrides().find("a.test") is None


@pytest.mark.parametrize(
    "item",
    ["", "a.test", "=127.0.0.1", "a.test=", "a.test=localhost", "a.test=1.2.3", "a.test=127.0.0.1:0", "a.test=[::1"],
)
def test_wrong_override_says_how_to_write_one(item: str) -> None:
    with pytest.raises(ConfigError, match=r"fetch\.resolve"):
        AddressOverrides.parse([item])
