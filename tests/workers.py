"""Several files of tests at a time: `--workers N`.

Tests are collected once, by the process that was started. The workers are forked from it, and each takes one file after
another, in the order in which they were collected. What they report is told by the first process, as if it had run the
tests itself. pytest-xdist collects in every worker: with four of them 45 s of processor time more, and three times the
memory.
"""

from __future__ import annotations

import atexit
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

import pytest

ENDED_BADLY = "a worker of --workers ended (wait status {status}) while it ran {nodeid}"
FOLDER = "worker-"
"""Beginning of the name of a worker's folder."""

_NUMBER_BYTES = 2

Location = tuple[str, int | None, str]
NextFile = Callable[[], list[pytest.Item]]


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run so many files of tests at a time, in processes")


@dataclass
class _Worker:
    """A worker as the first process sees it."""

    process_id: int
    messages: Connection
    running: tuple[str, Location] = ("its fixtures", ("", None, ""))
    is_done: bool = False


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of a run have in common."""
    base = factory.getbasetemp()
    return base.parent if base.name.startswith(FOLDER) else base


class Workers:
    """Plugin that runs the collected tests in workers."""

    def __init__(self, number: int) -> None:
        self._number = number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop knows what to do
        files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
        waiting = _numbers(len(files))
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        workers = []
        for number in range(min(self._number, len(files))):
            receiving, sending = Pipe(duplex=False)
            process_id = os.fork()
            if process_id == 0:
                receiving.close()
                _work(session, self, sending, lambda: _next_file(files, waiting), base / f"{FOLDER}{number}")
            sending.close()
            workers.append(_Worker(process_id, receiving))
        try:
            _tell_reports(session, workers, waiting)
        finally:
            os.close(waiting)
            for worker in workers:
                worker.messages.close()  # a worker that still has something to tell ends
            statuses = [os.waitpid(worker.process_id, 0)[1] for worker in workers]
        for worker, status in zip(workers, statuses, strict=True):
            if not worker.is_done:
                _report_death(session, worker, status)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True


def _numbers(count: int) -> int:
    """Return a pipe from which `count` numbers can be read, each by one process."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_NUMBER_BYTES) for number in range(count)))
    os.close(writing)
    return reading


def _next_file(files: Sequence[list[pytest.Item]], waiting: int) -> list[pytest.Item]:
    """Return the tests of the next file, none at the end."""
    number = os.read(waiting, _NUMBER_BYTES)
    return list(files[int.from_bytes(number)]) if number else []


def _tell_reports(session: pytest.Session, workers: Sequence[_Worker], waiting: int) -> None:
    """Hand on what the workers report until all have ended."""
    config = session.config
    if (terminal := config.pluginmanager.getplugin("terminalreporter")) is not None:
        terminal.showfspath = False
    left = {worker.messages: worker for worker in workers}
    while left:
        for ready in wait(list(left)):
            assert isinstance(ready, Connection)
            worker = left[ready]
            try:
                kind, content = ready.recv()
            except EOFError:
                del left[ready]
                continue
            if kind == "start":
                worker.running = content
            elif kind == "report":
                report = config.hook.pytest_report_from_serializable(config=config, data=content)
                config.hook.pytest_runtest_logreport(report=report)
            elif kind == "finish":
                nodeid, location = content
                config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
            else:
                worker.is_done = True
        if session.shouldfail:
            while os.read(waiting, 1 << 16):  # the workers end what they have begun
                pass


def _report_death(session: pytest.Session, worker: _Worker, status: int) -> None:
    nodeid, location = worker.running
    report = pytest.TestReport(nodeid, location, {}, "failed", ENDED_BADLY.format(status=status, nodeid=nodeid), "call")
    session.config.hook.pytest_runtest_logreport(report=report)


class _Sender:
    """Plugin of a worker: sends what would be printed."""

    def __init__(self, config: pytest.Config, messages: Connection) -> None:
        self._config = config
        self._messages = messages

    def pytest_runtest_logstart(self, nodeid: str, location: Location) -> None:
        self._messages.send(("start", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        content = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._messages.send(("report", content))

    def pytest_runtest_logfinish(self, nodeid: str, location: Location) -> None:
        self._messages.send(("finish", (nodeid, location)))


def _work(session: pytest.Session, parent: Workers, messages: Connection, next_file: NextFile, base: Path) -> None:
    """Run files of tests until there are none; the process does not return."""
    status = 1
    try:
        atexit._clear()
        random.seed()
        plugins = session.config.pluginmanager
        plugins.unregister(parent)
        plugins.unregister(name="terminalreporter")
        plugins.register(_Sender(session.config, messages))
        # What is captured goes to files, whose position forked processes would share.
        capture = plugins.getplugin("capturemanager")
        assert capture is not None
        capture.stop_global_capturing()
        capture.start_global_capturing()
        base.mkdir()
        session.config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
        for item, following in _pairs(next_file):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        session._setupstate.teardown_exact(None)
        messages.send(("done", None))
        status = 0
    except BrokenPipeError:
        pass  # nobody hears it
    finally:
        atexit._run_exitfuncs()
        os._exit(status)


def _pairs(next_file: NextFile) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test of one file after another, with the one that follows it."""
    items = next_file()
    while items:
        item = items.pop(0)
        items = items or next_file()
        yield item, items[0] if items else None
