"""The choice of `--quick`: all tests but those that start processes, and those that are marked `heavy` or `slow`.

A test starts processes if its code does, or a fixture of it, or a helper of tests/ that one of these names: the code is
read, so a new test is in the right class without a mark. A fixture that many tests share may crawl a small web in this
process (`CRAWLS`), which starts parse children: it takes a second, once.

`heavy` marks what computes or waits for more than a second. The quick run fails a test that starts a process although
its code does not tell, and names at its end the tests that took long: both are to be marked.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import settings

PROCESSES = {
    "ChildProcess",
    "Popen",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "fork",
    "posix_spawn",
    "ProcessPoolExecutor",
}
"""Names of what starts a process, wherever it comes from."""
MODULES = {"subprocess", "multiprocessing"}
CRAWLS = {
    "teia.api.crawl",
    "teia.api.crawl_async",
    "teia.collections.coordinator.Coordinator",
    "teia.crawler.start.open_crawler",
    "teia.indexer.past_search.PastSearch",
    "teia.parse.children.pool.ChildPool",
}
SERVERS = {"teia.cluster.nats.servers.NatsServers"}
"""What of teia's starts other programs, though a test may name it by a function of another module alone."""
WHOLE = [Path(__file__).parent / "system", Path(__file__).parent / "web" / "acceptance"]
"""Folders of tests that run whole programs."""
PARSE_CHILDREN = "teia.parse.children.zygote:main"
"""The function that the process of a crawl in this process runs."""
EXAMPLES = 20
EVENTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"}
"""Audit events of Python's own ways to start a process."""
LONG_S = 5.0
TOOK = "processor_s"


def is_heavy(item: pytest.Item) -> bool:
    """Say if `--quick` leaves out a test."""
    if item.get_closest_marker("heavy") or item.get_closest_marker("slow") or any(map(item.path.is_relative_to, WHOLE)):
        return True
    if not isinstance(item, pytest.Function):
        return False
    fixtures = [each for several in item._fixtureinfo.name2fixturedefs.values() for each in several]
    return bool(
        starts(item.function)
        or any(starts(each.func) - (CRAWLS if each.scope != "function" else set()) for each in fixtures)
    )


@cache
def starts(function: Any) -> frozenset[str]:
    """Name what starts processes among all that a function reaches; helpers of teia's are followed in their module."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [_inner(function)]
    while waiting:
        here = waiting.pop()
        if id(here) not in seen:
            seen.add(id(here))
            _, named, following = _seen_itself(here)
            found |= named
            waiting += following
    return frozenset(found)


_known: dict[int, tuple[Any, frozenset[str], list[Any]]] = {}
"""By identity, because not all values have a hash. The value itself is held, so that no other gets its identity."""


def _seen_itself(here: Any) -> tuple[Any, frozenset[str], list[Any]]:
    """Return a value, what it starts by itself, and the values to follow from it; most are reached by many tests."""
    if (known := _known.get(id(here))) is not None:
        return known
    found: set[str] = set()
    following = []
    for value in _named(here):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        if isinstance(value, ModuleType):
            found |= {value.__name__} & MODULES
        elif name in CRAWLS | SERVERS or name.startswith("playwright.") or name.partition(".")[0] in MODULES:
            found.add(name)
        elif name.startswith("tests.") or (name.startswith("teia.") and _is_near(here, value)):
            following.append(_inner(value))
    if isinstance(here, FunctionType):
        found |= PROCESSES & set(_names(here.__code__))
    _known[id(here)] = here, frozenset(found), following
    return _known[id(here)]


def _is_near(here: Any, value: Any) -> bool:
    """Say if something of teia's is named by a test, or by its own module."""
    return bool(here.__module__.startswith("tests.") or here.__module__ == value.__module__)


def _inner(function: Any) -> Any:
    """Take off what wraps a function: decorators, properties, and Hypothesis, which keeps it elsewhere."""
    function = getattr(function, "fget", None) or getattr(function, "func", None) or function
    function = inspect.unwrap(function)
    return function.hypothesis.inner_test if hasattr(function, "hypothesis") else function


def _named(here: Any) -> Iterator[Any]:
    """Give the values of all global names in a function; of a class, its bases and methods."""
    if isinstance(here, type):
        yield from here.__bases__
        yield from (each for each in map(_inner, vars(here).values()) if isinstance(each, FunctionType))
    elif isinstance(here, FunctionType):
        names = set(_names(here.__code__))
        for name in names & here.__globals__.keys():
            value = here.__globals__[name]
            yield value
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in {"tests", "teia"}:
                yield from (vars(value)[each] for each in names & vars(value).keys())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def with_few_examples(item: pytest.Item) -> None:
    """Let Hypothesis try no more than `EXAMPLES`, whatever a test says of itself; the whole suite tries them all."""
    function = getattr(item, "function", None)
    if function is not None and hasattr(function, "hypothesis"):
        own: settings = function._hypothesis_internal_use_settings
        function._hypothesis_internal_use_settings = settings(own, max_examples=min(own.max_examples, EXAMPLES))


class Watch:
    """Plugin of a quick run: fails a test of it that starts a process, and notes those that take long.

    A fixture that tests share may start parse children, and nothing else.
    """

    def __init__(self) -> None:
        self._is_on = self._is_shared = False
        self._started: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_on and event in EVENTS:
            words = args[1] if event == "subprocess.Popen" else ()
            if not (self._is_shared and PARSE_CHILDREN in words):
                self._started.append(f"{event} {words}")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        was, self._is_shared = self._is_shared, fixturedef.scope != "function"
        try:
            return (yield)
        finally:
            self._is_shared = was

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self._started.clear()
        self._is_on = True
        try:
            return (yield)
        finally:
            self._is_on = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._is_on = True
        before_s = time.process_time()
        try:
            result = yield
        finally:
            self._is_on = False
            item.user_properties.append((TOOK, time.process_time() - before_s))
        if self._started:
            pytest.fail(f"not for --quick, mark it heavy: it starts a process ({self._started[0]})", pytrace=False)
        return result


def took_long(reports: Iterable[pytest.TestReport]) -> list[str]:
    """List the tests of a quick run that took longer than those should, the longest first."""
    took = [(float(value), each.nodeid) for each in reports for name, value in each.user_properties if name == TOOK]
    return [f"{seconds:.1f} s {name}" for seconds, name in sorted(took, reverse=True) if seconds > LONG_S]
