"""What all tests share: where other people's test data is, and what to do when something is not there."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from teia.parse.children.child import JobLoader
from teia.parse.children.spawn import ZygoteProcess
from tests import durations, figures, quick, workers
from tests.conformance import upstream

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the tests that start processes or take long")
    workers.add_option(parser)
    parser.addoption("--figures", action="store_true", help="save the ten figures of reliability, and print all")
    parser.addoption("--write-durations", action="store_true", help="write tests/durations.txt anew")


def pytest_configure(config: pytest.Config) -> None:
    """Start processes with their signals as a terminal would, also under `nohup`."""
    hear_signals()
    if config.getoption("--quick"):
        config.pluginmanager.register(quick.Watch())
    if number := config.getoption("--workers"):
        config.pluginmanager.register(workers.Workers(number))
    if config.getoption("--write-durations"):
        config.pluginmanager.register(durations.Measure())


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
    """The folder with other people's test data."""
    folder = upstream.data_folder()
    if not folder.is_dir():
        missing(upstream.absence())
    return folder


@pytest.fixture(scope="session")
def conformance_file(conformance: Path) -> Callable[[str], Path]:
    """Return a file of other people's test data that not everybody has, or skip (fail under CI)."""

    def find(name: str) -> Path:
        if not (conformance / name).exists():
            missing(upstream.absence(name))
        return conformance / name

    return find


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Return the path of an installed program, or skip (fail under CI)."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            missing(f"{name} is not installed")
        return str(path)

    return find


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not quick, if that is wanted; put the files that take longest first.

    With few files at a time, a long one at the end would be waited for. Of those that look at a fresh `teia demo` the
    longest starts it; the others should come when it is there, which takes half a minute.
    """
    if config.getoption("--quick"):
        heavy = [item for item in items if quick.is_heavy(item)]
        config.hook.pytest_deselected(items=heavy)
        left_out = set(heavy)
        items[:] = [item for item in items if item not in left_out]
        for item in items:
            quick.with_few_examples(item)
    items.sort(key=lambda item: -durations.known().get(item.nodeid.partition("::")[0], 0.0))


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: there is hardly any."""
    gc.disable()


GARBAGE_AFTER = 20_000
"""New objects between two collections of garbage, as in commands (teia/cli/main.py)."""


def pytest_collection_finish() -> None:
    """Thousands of tests stay as long as the process: the collector of garbage need not walk over them each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, 10, 10)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures, if that is wanted; name the tests that took too long for a quick run."""
    if terminalreporter.config.getoption("--figures"):
        terminalreporter.section("figures of reliability (docs/security.md)")
        reports = [each for name in ("passed", "failed") for each in terminalreporter.stats.get(name, [])]
        measured = figures.with_reports(figures.load(), reports, f"{datetime.now(UTC):%Y-%m-%d}")
        figures.save(measured)
        for line in figures.table(measured):
            terminalreporter.write_line(line)
    for line in quick.took_long(terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(f"long for --quick, mark it heavy: {line}")


@atexit.register
def _unfreeze() -> None:
    """Now it may: libraries that count what is left at the end would complain.

    Not before: pytest collects garbage ten times when it ends.
    """
    gc.unfreeze()


@pytest.fixture
def zygotes(monkeypatch: pytest.MonkeyPatch) -> list[ZygoteProcess]:
    """Those that were started."""
    started: list[ZygoteProcess] = []
    start = ZygoteProcess.start

    def noted(job: JobLoader) -> ZygoteProcess:
        started.append(start(job))
        return started[-1]

    monkeypatch.setattr(ZygoteProcess, "start", noted)
    return started
