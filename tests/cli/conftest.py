"""Commands are tested as a person runs them: a process, its output and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

Finished = subprocess.CompletedProcess[str]


class Teia(Protocol):
    def __call__(self, *words: str, environ: Mapping[str, str] = ..., runner: Sequence[str] = ...) -> Finished: ...


@pytest.fixture
def teia(tmp_path: Path) -> Teia:
    """Run `teia WORDS…` in an empty folder, with nothing of this machine's settings in the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TEIA_")}

    def run(
        *words: str, environ: Mapping[str, str] = {}, runner: Sequence[str] = ("-m", "teia")
    ) -> Finished:  # never changed
        return subprocess.run(
            [sys.executable, *runner, *words],
            cwd=tmp_path,
            env=clean | {"COLUMNS": "200", "NO_COLOR": "1"} | dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,  # a test has less
        )

    return run
