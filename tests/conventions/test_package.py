"""The package that is installed: its files, and the steps that make it."""

from __future__ import annotations

import json
import subprocess
import tomllib
from fnmatch import fnmatch

import pytest

from tests.conftest import missing

from .tree import ROOT

TO_COMPILE = {".pyx", ".pxi", ".po"}
"""Sources: the wheel has what is made of them."""


def test_every_file_that_teia_reads_is_in_the_wheel() -> None:
    """A template, style or translation that is not listed is missed by those who have no checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = {
        path for each in project["tool"]["setuptools"]["package-data"]["teia"] for path in (ROOT / "teia").glob(each)
    }
    files = subprocess.run(["git", "ls-files", "teia"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    data = [ROOT / name for name in files.splitlines() if not name.endswith(".py")]
    assert len(data) > 40
    left_out = [str(path.relative_to(ROOT)) for path in data if path.suffix not in TO_COMPILE and path not in shipped]
    assert not left_out, f"list them under package-data in pyproject.toml: {left_out}"


def test_every_compiled_part_is_built_and_has_its_types() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    for path in (ROOT / "teia").rglob("*.pyx"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert f'extension("{name}"' in setup
        assert path.with_suffix(".pyi").exists()


def test_supported_pythons_are_those_that_are_released() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    release = (ROOT / "scripts" / "release").read_text(encoding="utf-8")
    named = [each.rpartition(" ")[2] for each in classifiers if fnmatch(each, "Programming Language*3.*")]
    assert f"versions=({' '.join(named)})" in release


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_release_is_reproducible_and_works_in_an_empty_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a compiler and without a checkout: demo, crawl, search, serve, a cluster."""
    out = tmp_path_factory.mktemp("dist")
    command = [str(ROOT / "scripts" / "release"), "--out", str(out), "--python", "3.11"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "no Python to build with" in done.stderr:
        missing("a Python 3.11 with headers")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "works: version, demo, crawl, search, serve, cluster" in done.stdout
    assert sorted(path.suffix for path in out.iterdir()) == ["", ".gz", ".json", ".txt", ".whl"]
    pinned = next(out.glob("*.requirements.txt")).read_text("utf-8").splitlines()
    assert all("--hash=sha256:" in line and len(line.rpartition(":")[2]) == 64 for line in pinned)
    bill = json.loads(next(out.glob("*.cdx.json")).read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert len(bill["components"]) == len(pinned) > len(needed)
