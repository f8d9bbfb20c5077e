"""How the helper is attached to a real Squid: no request is refused, whatever becomes of the helper (C7)."""

from __future__ import annotations

import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.cli.signals_squid import squid_helper as command
from teia.errors import MissingComponent, UsageError
from teia.lab.squid import Squid, program, squid_process
from teia.signals.datagrams import Ear
from teia.signals.squid_conf import PROGRAM, PYTHON, WAYS, Way, lines
from tests.conftest import missing

NAMES = {"a.test": "127.0.0.1"}
PASSED = 503
"""Squid's answer to a request that it let through: nobody listens at port 1. One that is refused gets 403."""

DOCS = Path(__file__).parents[2] / "docs" / "signals.md"


@pytest.fixture(autouse=True)
def _squid() -> None:
    try:
        program()
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
    """C7: what Squid has an answer to costs its users nothing. Queries do not leave Squid at all."""
    with squid_process(NAMES, way="acl") as squid:
        ear = Ear(squid.socket)
        squid.socket.chmod(0o666)
        assert ask(squid, "/mine", header="Cache-Control: only-if-cached\r\n") == 504
        asked = [("/one", "GET"), ("/s?secret", "GET"), ("/form", "POST"), ("/%C3%A9'a%2Fb", "GET")]
        asked += [("/one", "GET")] * 20 + [("/last", "GET")]
        assert {ask(squid, path, method=method) for path, method in asked} == {PASSED}
        urls: list[str] = []
        seen, until = 0, time.monotonic() + 20
        while "http://a.test:1/last" not in urls and time.monotonic() < until:
            for heard in ear.hear():
                urls += heard.urls
                seen += heard.counts.get("seen", 0)
            time.sleep(0.02)
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


def test_the_lines_in_the_documents_are_those_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    told = re.sub(r"(?m)^    ", "", DOCS.read_text("utf-8"))
    for way in WAYS:
        command(Path("/run/teia/squid.sock"), conf=True, way=way)
        printed = capsys.readouterr().out
        assert printed == lines(way, "/run/teia/squid.sock")
        assert printed in told, way
    assert f"{PYTHON} {PROGRAM} " in told


def test_what_squid_could_not_read_is_not_printed() -> None:
    for path, way, queries in (
        ("run/s", "acl", False),
        ("/a b", "acl", False),
        ("/s", "other", False),
        ("/s", "log", True),
    ):
        with pytest.raises(UsageError):
            command(Path(path), conf=True, way=way, queries=queries)
