"""What all tests share: where other people's test data is, and what to do when something is not there."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from teia.parse.children.spawn import ZygoteProcess

pytest_plugins = ["tests.crawler.crawled"]

UNDER_CI = os.environ.get("CI") == "true"
ROOT = Path(__file__).resolve().parent.parent

# How long an example takes says something of the machine alone; CI tries the same ones every time.
settings.register_profile(
    "teia", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=UNDER_CI, print_blob=True
)
settings.load_profile("teia")


IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that every Python ignores, and gives back to the programs that it starts."""


def pytest_configure() -> None:
    """Start processes with their signals as a terminal would, also under `nohup`."""
    hear_signals()


def hear_signals() -> None:
    """Handle the signals that a parent made this process ignore, so that programs under test start with the defaults.

    `nohup` and background jobs of shells ignore some. An ignored signal stays ignored in every program that is started
    from here, and programs under test are ended by signals; a handler does not outlive `exec`. In this process it does
    nothing, as the parent wished. SIGCHLD gets its default: ignored, it would lose the exit statuses of children.
    """
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else lambda *_: None)


def missing(what: str) -> None:
    """Skip where a component is not installed; fail under CI, where everything must be."""
    if UNDER_CI:
        pytest.fail(f"{what}: missing, and CI may not skip")
    pytest.skip(what)


@pytest.fixture(scope="session")
def conformance() -> Path:
    """The folder with other people's test data (TEIA_CONFORMANCE, by default ../shared/conformance)."""
    folder = Path(os.environ.get("TEIA_CONFORMANCE") or ROOT.parent / "shared" / "conformance")
    if not folder.is_dir():
        missing(f"conformance data is not at {folder}; set TEIA_CONFORMANCE")
    return folder


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Return the path of an installed program, or skip (fail under CI)."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            missing(f"{name} is not installed")
        return str(path)

    return find


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, then whole crawls and browsers: with few files at a time, one at the end is waited for.

    Of those that look at a fresh `teia demo` the longest starts it; the others come when it is there.
    """

    def turn(item: pytest.Item) -> int:
        path = item.path.as_posix()
        if "test_every_page" in path or "test_kill" in path:
            return 0
        return 1 if "/system/" in path or "browser" in path else 2 if "/acceptance/" in path else 3

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Thousands of tests stay as long as the process: the collector of garbage need not walk over them each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Now it may: libraries that count what is left at the end would complain."""
    gc.unfreeze()


@pytest.fixture
def zygotes(monkeypatch: pytest.MonkeyPatch) -> list[ZygoteProcess]:
    """Those that were started."""
    started: list[ZygoteProcess] = []
    start = ZygoteProcess.start

    def noted(job: str) -> ZygoteProcess:
        started.append(start(job))
        return started[-1]

    monkeypatch.setattr(ZygoteProcess, "start", noted)
    return started
