"""The scripts, the licence and the version: what a clean clone relies on."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections import defaultdict

import pytest

from teia import __version__

from .tree import ROOT, modules, walk

MAX_MODULES = 25


@pytest.mark.parametrize(
    "script",
    [
        "scripts/teia",
        "scripts/test",
        "scripts/check",
        "scripts/release",
        "scripts/docs",
        "scripts/container",
        ".ci/run",
    ],
)
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    metadata = project["project"]
    assert metadata["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "teia.version.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert metadata["license"] == "Apache-2.0"


def test_every_folder_is_mapped_completely() -> None:
    """A newcomer reads a folder's `__init__` first: it names every module of the folder."""
    missing = []
    for path in (ROOT / "teia").rglob("*.py"):
        readme = path.parent / "__init__.py"
        if path.name not in {"__init__.py", "__main__.py"}:
            said = readme.read_text(encoding="utf-8") if readme.exists() else ""
            if not re.search(rf"\b{path.stem}\b", said):
                missing.append(str(path.relative_to(ROOT)))
    assert not missing, f"their folder's __init__ does not name them: {missing}"


def test_no_folder_holds_more_than_can_be_looked_over() -> None:
    full = {}
    for readme in (ROOT / "teia").rglob("__init__.py"):
        number = len(list(readme.parent.glob("*.py"))) - 1
        if number > MAX_MODULES:
            full[str(readme.parent.relative_to(ROOT))] = number
    assert not full, f"more than {MAX_MODULES} modules: {full}"


def test_every_folder_says_what_it_is() -> None:
    readmes = [path for path in (ROOT / "teia").rglob("__init__.py") if len(list(path.parent.glob("*.py"))) > 1]
    silent = [str(path.relative_to(ROOT)) for path in readmes if not path.read_text(encoding="utf-8").startswith('"""')]
    assert not silent, f"each of these is its folder's readme and is empty: {silent}"


def test_no_two_public_classes_share_a_name() -> None:
    """A name that is searched for, or read in a traceback, leads to one class."""
    places = defaultdict(list)
    for module in modules():
        for node in walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.path}:{node.lineno}")
    shared = {name: found for name, found in sorted(places.items()) if len(found) > 1}
    assert not shared, f"several classes have these names: {shared}"
