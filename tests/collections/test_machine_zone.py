"""Which time zone a machine is set to."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.collections.calendar import machine_zone


def test_the_environment_says_more_than_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/Sao_Paulo")
    assert machine_zone() == "America/Sao_Paulo"
    monkeypatch.setenv("TZ", ":/usr/share/zoneinfo/Europe/Lisbon")
    assert machine_zone() == "Europe/Lisbon"


def test_a_link_to_a_zone_names_it_and_anything_else_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    zone = tmp_path / "zoneinfo" / "Europe" / "Lisbon"
    zone.parent.mkdir(parents=True)
    zone.touch()
    (tmp_path / "localtime").symlink_to(zone)
    (tmp_path / "copied").touch()
    assert machine_zone(tmp_path / "localtime") == "Europe/Lisbon"
    assert machine_zone(tmp_path / "copied") == "UTC"
    assert machine_zone(tmp_path / "missing") == "UTC"
