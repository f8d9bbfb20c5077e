"""The scripts, the licence and the version: what a clean clone relies on."""

from __future__ import annotations

import os
import tomllib

import pytest

from teia import __version__

from .tree import ROOT


@pytest.mark.parametrize("script", ["scripts/teia", "scripts/test", "scripts/check", ".ci/run"])
def test_script_can_be_run(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK), f"{script} is not executable"
    assert path.read_text(encoding="utf-8").startswith("#!")


def test_ci_runs_the_tests() -> None:
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_tests_run_the_checks() -> None:
    assert "scripts/check" in (ROOT / "scripts" / "test").read_text(encoding="utf-8")


def test_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_package_and_metadata_have_one_version() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["version"] == __version__
    assert metadata["license"] == "Apache-2.0"


def test_every_folder_says_what_it_is() -> None:
    readmes = [path for path in (ROOT / "teia").rglob("__init__.py") if len(list(path.parent.glob("*.py"))) > 1]
    silent = [str(path.relative_to(ROOT)) for path in readmes if not path.read_text(encoding="utf-8").startswith('"""')]
    assert not silent, f"each of these is its folder's readme and is empty: {silent}"
