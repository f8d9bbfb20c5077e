"""How the helper is attached to a real Squid: no request is refused, whatever becomes of the helper (C7)."""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from teia.cli.signals import squid_helper as command
from teia.errors import MissingComponent, UsageError
from teia.lab.server.squid import Squid, find_squid, squid_process
from teia.signals.announce import AnnouncementSocket
from teia.signals.squid_conf import AT_ONCE, DEFAULT, GRACE, PROGRAM, PYTHON, TTL_S, WAYS, Way, lines
from tests.conftest import missing
from tests.waiting import until

NAMES = {"a.test": "127.0.0.1"}
PASSED = 503
"""Squid's answer to a request that it let through: nobody listens at port 1. One that is refused gets 403."""

DOCS = Path(__file__).parents[2] / "docs" / "signals.md"


@pytest.fixture(autouse=True)
def _squid() -> None:
    try:
        find_squid()
    except MissingComponent:
        missing("squid is not installed")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that Squid's own user can read."""
    with tempfile.TemporaryDirectory(prefix="teia-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def ask(squid: Squid, path: str, *, method: str = "GET", header: str = "") -> int:
    with socket.create_connection(("127.0.0.1", squid.port), 15) as user:
        user.sendall(f"{method} http://a.test:1{path} HTTP/1.0\r\n{header}\r\n".encode("latin-1"))
        answer = b""
        while data := user.recv(65_536):
            answer += data
    return int(answer.split(b" ")[1])


def test_a_page_is_announced_once_in_its_time_and_what_is_no_page_never() -> None:
    """C7: what Squid has an answer to costs its users nothing. Queries do not leave Squid (`strip_query_terms`)."""
    with squid_process(NAMES, way="acl") as squid:
        ear = AnnouncementSocket(squid.socket)
        squid.socket.chmod(0o666)
        assert ask(squid, "/mine", header="Cache-Control: only-if-cached\r\n") == 504
        asked = [("/one", "GET"), ("/s?secret", "GET"), ("/form", "POST"), ("/%C3%A9'a%2Fb", "GET")]
        asked += [("/one", "GET")] * 20 + [("/last", "GET")]
        assert {ask(squid, path, method=method) for path, method in asked} == {PASSED}
        urls: list[str] = []
        seen = 0

        def last_is_heard() -> bool:
            nonlocal seen
            for heard in ear.receive():
                urls.extend(heard.urls)
                seen += heard.counts.get("seen", 0)
            return "http://a.test:1/last" in urls

        until(last_is_heard, state=lambda: urls)
        ear.close()
    assert urls == [f"http://a.test:1/{path}" for path in ("one", "%C3%A9'a%2Fb", "last")]
    assert seen == 4, "three pages and one with a query, each once"


@pytest.mark.parametrize("way", ["acl", "rewriter"])
def test_squid_lets_requests_through_and_lives_when_the_program_is_not_there(way: Way) -> None:
    """A program that Squid must have at its start (`startup=1`) would end Squid when it dies before it answers."""
    with squid_process(NAMES, extra=lines(way, "/nowhere", program="/nowhere/teia-announce"), way=None) as squid:
        assert [ask(squid, f"/{number}") for number in range(5)] == [PASSED] * 5


@pytest.mark.parametrize(
    ("answer", "line", "status"), [("BH", "cache", PASSED), ("x", "cache", PASSED), ("BH", "http_access", 403)]
)
def test_where_the_acl_stands_decides_whether_a_program_that_cannot_tell_refuses_requests(
    open_folder: Path, answer: str, line: str, status: int
) -> None:
    """Ours is in a `cache` line; in `http_access` Squid refuses what it cannot be told of."""
    fake = open_folder / "fake"
    fake.write_text(f"import sys\nfor line in sys.stdin: print(line.split()[0], {answer!r}, flush=True)\n", "utf-8")
    configured = lines("acl", "/nowhere", program=str(fake)).replace("cache deny", f"{line} deny")
    with squid_process(NAMES, extra=configured, way=None) as squid:
        assert [ask(squid, f"/{number}") for number in (1, 2, 1)] == [status] * 3


# ---- the log daemon -------------------------------------------------------------------------------------------------


def test_other_logs_are_written_and_rotated_as_before_and_pages_announced_to_a_crawl_that_comes_later(
    open_folder: Path,
) -> None:
    """Squid has one program for all its logs; this is Debian's usual line beside ours."""
    logs = open_folder / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    log, rotated = logs / "access.log", logs / "access.log.0"
    usual = f"logfile_rotate 2\naccess_log daemon:{log} squid\n"

    def has(where: Path, path: str) -> bool:
        return where.exists() and f"http://a.test:1{path} " in where.read_text("ascii")

    with squid_process(NAMES, extra=usual, way="log") as squid:
        socket.create_connection(("127.0.0.1", squid.port), 15).close()
        assert ask(squid, "/early") == PASSED
        until(lambda: has(log, "/early"))
        assert not squid.socket.exists(), "nothing was written there"
        assert "error:transaction-end-before-headers" in log.read_text("ascii")
        assert "without an HTTP request" not in (squid.folder / "cache.log").read_text("ascii")
        subprocess.run([find_squid(), "-k", "rotate", "-f", str(squid.folder / "squid.conf")], check=True, timeout=20)
        until(rotated.exists)
        ear = AnnouncementSocket(squid.socket)
        squid.socket.chmod(0o666)
        assert ask(squid, "/late") == PASSED
        until(lambda: has(log, "/late"))
        urls: list[str] = []

        def both_heard() -> bool:
            urls.extend(url for heard in ear.receive() for url in heard.urls)
            return len(urls) >= 2

        until(both_heard)
        ear.close()
    assert (has(rotated, "/early"), has(rotated, "/late"), has(log, "/early")) == (True, False, False)
    assert urls == ["http://a.test:1/early", "http://a.test:1/late"]


# ---- a program that hangs -------------------------------------------------------------------------------------------

TELLING = """\
import os, sys, time
with open({log!r}, "a", 1) as log:
    print(os.getpid(), file=log)
    for line in sys.stdin:
        channel, url = line.split()[:2]
        print(time.time(), url, file=log)
        print(channel, "OK" if "/short" in url else "ERR", flush=True)
"""


class Attached:
    """A Squid with a program that writes down what it is asked, and can be stopped and go on."""

    def __init__(self, stack: ExitStack, folder: Path, ttl_s: int, change: tuple[str, str] = ("", "")) -> None:
        folder.mkdir()
        folder.chmod(0o777)
        self._log = folder / "asked"
        (folder / "telling").write_text(TELLING.format(log=str(self._log)), "utf-8")
        configured = lines("acl", "/nowhere", program=str(folder / "telling"), ttl_s=ttl_s).replace(*change)
        self.squid = stack.enter_context(squid_process(NAMES, extra=configured, way=None))
        assert ask(self.squid, "/first") == PASSED
        self._pid = int(self._log.read_text("utf-8").split("\n")[0])
        self._users = stack.enter_context(selectors.DefaultSelector())
        stack.callback(self.go_on)
        self._stack = stack

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        with suppress(ProcessLookupError):  # its Squid has died, and it thereafter
            os.kill(self._pid, signal.SIGCONT)

    def asked(self, path: str) -> list[float]:
        """When the program was asked about a page."""
        rows = [row.split() for row in self._log.read_text("utf-8").splitlines()[1:]]
        return [float(when) for when, url in rows if url.endswith(path)]

    def begin(self, paths: Iterable[str]) -> None:
        """Ask for pages, and wait for no answer."""
        for path in paths:
            user = self._stack.enter_context(socket.create_connection(("127.0.0.1", self.squid.port), 15))
            user.sendall(f"GET http://a.test:1{path} HTTP/1.0\r\n\r\n".encode())
            self._users.register(user, selectors.EVENT_READ)

    def answers(self, count: int, within_s: float = 20.0) -> list[int]:
        """The first so many answers to what was begun."""
        found: list[int] = []
        until = time.monotonic() + within_s
        while len(found) < count and time.monotonic() < until:
            for key, _ in self._users.select(0.1):
                user = cast("socket.socket", key.fileobj)
                self._users.unregister(user)
                with user:
                    found.append(int(user.recv(100).split(b" ")[1]))
        return found

    def lives(self) -> bool:
        try:
            return ask(self.squid, "/late") == PASSED
        except (OSError, IndexError):
            return False


def test_what_does_not_fit_into_the_queue_of_a_program_that_hangs_is_let_through(open_folder: Path) -> None:
    """Others wait until it goes on."""
    with ExitStack() as stack:
        attached = Attached(stack, open_folder / "one", TTL_S)
        attached.stop()
        attached.begin(f"/{number}" for number in range(2 * AT_ONCE + 20))
        assert attached.answers(20) == [PASSED] * 20
        attached.go_on()
        assert attached.answers(2 * AT_ONCE) == [PASSED] * 2 * AT_ONCE


def test_squid_requests_nothing_again_before_an_answer_is_too_old(open_folder: Path) -> None:
    """It would even if the queue were full, and in the end stop for that: see the slow test."""
    with ExitStack() as stack:
        attached = Attached(stack, open_folder / "one", 3)
        began = time.time()

        def is_asked_anew() -> bool:
            assert ask(attached.squid, "/busy") == PASSED
            return len(attached.asked("/busy")) >= 2

        until(is_asked_anew)
        assert attached.asked("/busy")[1] - began > 2.9


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_squid_outlives_a_program_that_hangs_for_more_than_three_minutes(open_folder: Path) -> None:
    """Issue 8. With `grace=50` it does not: what it asks anew goes past the limit of the queue, for three minutes."""
    short = ("ttl=190 negative", "ttl=5 negative")
    with ExitStack() as stack:
        ours = Attached(stack, open_folder / "ours", 190, short)
        other = Attached(
            stack,
            open_folder / "other",
            190,
            (f"ttl=190 negative_ttl=190 grace={GRACE}", "ttl=5 negative_ttl=190 grace=50"),
        )
        began = time.monotonic()
        for each in (ours, other):
            assert {ask(each.squid, f"/{name}") for name in ("short1", "short2", "short3", "late")} == {PASSED}
            each.stop()
            each.begin(f"/{number}" for number in range(2 * AT_ONCE + 20))
            assert each.answers(20) == [PASSED] * 20
        while time.monotonic() < began + 8:
            assert {ask(each.squid, f"/short{number}") for each in (ours, other) for number in (1, 2, 3)} == {PASSED}
            time.sleep(0.1)  # users ask now and then
        time.sleep(began + 186 - time.monotonic())  # Squid waits for three minutes before it gives up
        until(lambda: not other.lives(), "the other Squid gives up")
        time.sleep(max(0.0, began + 200 - time.monotonic()))  # nothing happens to ours
        assert ours.lives()


# ---- lines for operators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "is_announced"), [("cache allow ours\n", False), ("cache deny !ours\n", True)])
def test_an_earlier_line_that_allows_keeps_pages_from_being_announced_and_one_that_denies_others_does_not(
    line: str, is_announced: bool
) -> None:
    """So `cache allow X` has to be written as `cache deny !X`; the printed lines say so."""
    with squid_process(NAMES, extra=f"acl ours dstdomain a.test\n{line}", way="acl") as squid:
        ear = AnnouncementSocket(squid.socket)
        squid.socket.chmod(0o666)
        assert ask(squid, "/page") == PASSED

        def announced() -> list[str]:
            return [url for heard in ear.receive() for url in heard.urls]

        if is_announced:
            until(announced)
        else:
            time.sleep(0.5)  # nothing happens for a while
            assert announced() == []
        ear.close()
    assert "`cache allow X` is written `cache deny !X`" in lines("acl", "/nowhere")


def test_the_lines_in_the_documents_are_those_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    told = re.sub(r"(?m)^    ", "", DOCS.read_text("utf-8"))
    for way in WAYS:
        command(Path("/run/teia/squid.sock"), conf=True, way=way)
        printed = capsys.readouterr().out
        assert printed == lines(way, "/run/teia/squid.sock")
        assert printed in told, way
    command(Path("/run/teia/squid.sock"), conf=True)
    assert capsys.readouterr().out == lines(DEFAULT, "/run/teia/squid.sock")
    assert f"{PYTHON} {PROGRAM} " in told


def test_what_squid_could_not_read_is_not_printed() -> None:
    for path, way, queries in (
        ("run/s", "acl", False),
        ("/a b", "acl", False),
        ("/s", "other", False),
        ("/s", "log", True),
        ("/s", None, True),
    ):
        with pytest.raises(UsageError):
            command(Path(path), conf=True, way=way, queries=queries)


@pytest.mark.parametrize(
    ("words", "message"),
    [({"way": "log"}, "--way requires --conf"), ({"print_it": True, "conf": True}, "cannot be combined")],
)
def test_flags_that_would_be_ignored_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command(Path("/run/teia/squid.sock"), **words)
