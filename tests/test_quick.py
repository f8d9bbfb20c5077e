"""The choice of `--quick`, by what the code of tests says."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given, strategies

from teia.clock import VirtualClock
from teia.indexer.past_search import PastSearch
from teia.lab.lookup.over_nats import measure_look_ups
from teia.store.root import open_root
from tests import quick
from tests.conftest import ROOT
from tests.crawler import webs
from tests.crawler.webs import ScriptedWeb, crawl_web
from tests.system.labs import running_lab


def by_a_helper() -> None:
    starting()


def starting() -> None:
    subprocess.run(["true"], check=True)


def by_a_module() -> None:
    webs.crawl_web(ScriptedWeb({}), ROOT)


def by_a_lambda() -> Callable[[], object]:
    return lambda: crawl_web(ScriptedWeb({}), ROOT)


@given(strategies.booleans())
def by_hypothesis(_: bool) -> None:
    starting()


class Starting:
    @property
    def lab(self) -> object:
        return running_lab(ROOT, "", 1)


def by_a_class() -> None:
    Starting()


def by_itself() -> None:
    os.fork()


def by_a_name_of_a_module() -> None:
    run(["true"], check=True)


def by_a_function_of_teia() -> None:
    asyncio.run(measure_look_ups(ROOT, 8, 100, seed=3))


def by_a_search_of_the_past() -> None:
    PastSearch(open_root(ROOT), "main", 0.0, VirtualClock())


STARTING = [
    by_a_helper, by_a_module, by_a_lambda, by_hypothesis, by_a_class, by_itself, by_a_name_of_a_module,
    by_a_function_of_teia, by_a_search_of_the_past,
]  # fmt: skip


@pytest.mark.parametrize("function", STARTING)
def test_what_starts_a_process_is_seen(function: Callable[[], None]) -> None:
    assert quick.starts(function)


def quietly() -> None:
    ScriptedWeb({})
    quick.took_long([])


def test_what_starts_none_is_not_taken_for_it() -> None:
    assert quick.starts(quietly) == set()


def test_crawls_are_distinguished_from_other_processes() -> None:
    assert quick.starts(by_a_module) <= quick.CRAWLS
    assert not quick.starts(by_a_class) <= quick.CRAWLS


@pytest.mark.parametrize("name", sorted(quick.CRAWLS | quick.SERVERS))
def test_every_crawl_that_is_named_is_there(name: str) -> None:
    module, _, what = name.rpartition(".")
    assert getattr(importlib.import_module(module), what).__module__ == module


TESTS = """
import os, pytest
from tests.test_quick import starting

@pytest.fixture(scope="session")
def shared(): os.__dict__["popen"]("true").close()

def test_quick(): pass
def test_shares(shared): pass
def test_reads(): starting()
def test_hides(): os.__dict__["popen"]("true").close()
@pytest.mark.heavy
def test_marked(): pass
"""


def test_a_quick_run_leaves_out_what_starts_a_process_and_fails_what_does_so_unseen(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--quick"]
    command += ["-c", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert "2 failed, 1 passed, 2 deselected" in done.stdout, done.stdout + done.stderr
    assert "mark it heavy: it starts a process" in done.stdout
