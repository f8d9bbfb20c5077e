"""The program that Squid runs: it answers every line, at once, and never waits for anybody (C7)."""

from __future__ import annotations

import ast
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import MissingComponent
from teia.lab.server.squid import find_squid, squid_process
from teia.signals import squid_helper
from teia.signals.announce import AnnouncementSocket, Datagram, decode
from teia.signals.squid_helper import (
    MAX_LINE_BYTES,
    MAX_WAITING,
    Announcer,
    AnnouncerProcess,
    Lines,
    answer,
    is_file_log,
    split_cache,
)
from tests.conftest import missing
from tests.waiting import until

EXTRAS = "192.0.2.7/- alice GET myip=192.0.2.1 myport=3128"


@pytest.fixture
def path() -> Iterator[Path]:
    """A short one: a socket's path has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="teia-") as folder:
        yield Path(folder) / "s"


@contextmanager
def helper(path: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program as Squid runs it: by another Python, without site packages, without a place to import teia from."""
    command = [sys.executable, "-IS", squid_helper.__file__, *words, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env={}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answers_of(path: Path, text: str, *words: str) -> tuple[bytes, bytes]:
    """What the program answers to some lines, and what it complains of."""
    with helper(path, *words) as process:
        return process.communicate(text.encode("latin-1"), timeout=30)


def hear(ear: AnnouncementSocket) -> tuple[dict[str, int], list[str]]:
    counts: dict[str, int] = {}
    urls: list[str] = []
    while some := list(ear.receive()):
        for heard in some:
            urls += heard.urls
            counts = {name: counts.get(name, 0) + heard.counts.get(name, 0) for name in {*counts, *heard.counts}}
    return counts, urls


def test_it_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(squid_helper.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_every_line_is_answered_unchanged_with_and_without_channels(path: Path) -> None:
    lines = [f"7 http://a.test/ {EXTRAS}", f"http://a.test/ {EXTRAS}", "", "12 ", "what is this", "8 \xff\xfe\x00"]
    out, _ = answers_of(path, "".join(f"{line}\n" for line in lines))
    assert out == b"7 ERR\nERR\nERR\n12 ERR\nERR\n8 ERR\n"


def test_pages_are_announced_and_people_are_not(path: Path) -> None:
    ear = AnnouncementSocket(path)
    lines = [
        f"0 http://a.test/one {EXTRAS}",
        f"1 HTTPS://a.test:8443/two#part {EXTRAS}",
        f"2 a.test:443 {EXTRAS.replace('GET', 'CONNECT')}",
        f"3 http://a.test/form {EXTRAS.replace('GET', 'POST')}",
        f"4 http://a.test/search?q=secret {EXTRAS}",
        f"5 http://alice:word@a.test/ {EXTRAS}",
        f"6 ftp://a.test/x {EXTRAS}",
        "7 nonsense",
        "8",
    ]
    answers_of(path, "".join(f"{line}\n" for line in lines))
    counts, urls = hear(ear)
    ear.close()
    assert urls == ["http://a.test/one", "HTTPS://a.test:8443/two"]
    assert counts == {"seen": 9, "skipped": 3, "private": 2, "malformed": 2}
    assert not any(word in repr(urls) + repr(counts) for word in ("alice", "192.0.2", "secret"))


def test_queries_are_announced_where_that_is_wanted(path: Path) -> None:
    ear = AnnouncementSocket(path)
    answers_of(path, f"http://a.test/search?q=x {EXTRAS}\nhttp://bob@a.test/?q=x {EXTRAS}\n", "--queries")
    assert hear(ear)[1] == ["http://a.test/search?q=x"]
    ear.close()


def test_answers_do_not_wait_for_a_crawl_that_is_down(path: Path) -> None:
    number = MAX_WAITING + 500
    out, complaint = answers_of(path, "".join(f"{n} http://a.test/{n} {EXTRAS}\n" for n in range(number)))
    assert out == b"".join(b"%d ERR\n" % n for n in range(number))
    assert complaint.count(b"\n") == 1, "it is said once"
    assert b"No such file" in complaint


def test_answers_do_not_wait_for_a_crawl_that_does_not_listen(path: Path) -> None:
    ear = AnnouncementSocket(path)  # and nobody reads from it: the socket's queue fills
    number = 15_000
    lines = (f"{n} http://a.test/{n:0200} {EXTRAS}\n" for n in range(number))
    out, _ = answers_of(path, "".join(lines))
    assert out.count(b"\n") == number
    urls = hear(ear)[1]
    ear.close()
    assert 0 < len(urls) < number


def test_what_is_dropped_is_counted_and_the_newest_is_kept(path: Path) -> None:
    announcer = Announcer(str(path), queries=False)
    for number in range(MAX_WAITING + 3):
        announcer.add_line(b"http://a.test/%d - - GET" % number, 0.0)
    announcer.send(10.0)  # nobody there
    assert announcer.wait_s(10.0) == 1.0
    ear = AnnouncementSocket(path)
    announcer.send(20.0)
    counts, urls = hear(ear)
    assert counts == {"seen": MAX_WAITING + 3, "dropped": 3}
    assert urls[0] == "http://a.test/3"
    assert urls[-1] == f"http://a.test/{MAX_WAITING + 2}"
    assert len(urls) == MAX_WAITING
    assert announcer.wait_s(20.0) is None
    ear.close()
    announcer.close()


def test_one_of_several_caches_says_which_it_is(path: Path) -> None:
    ear = AnnouncementSocket(path)
    answers_of(Path(f"{path}@rio-1"), f"0 http://a.test/one {EXTRAS}\n")
    (datagram,) = ear.receive()
    ear.close()
    assert datagram == Datagram({"seen": 1}, ("http://a.test/one",), "rio-1")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/run/teia/squid.sock@rio-1", ("/run/teia/squid.sock", "rio-1")),
        ("unix:/run/teia/s@rio", ("unix:/run/teia/s", "rio")),
        ("/run/teia@home/squid.sock", ("/run/teia@home/squid.sock", "")),
        ("/run/teia/squid@1.sock", ("/run/teia/squid@1.sock", "")),
        ("/run/teia/squid.sock@", ("/run/teia/squid.sock@", "")),
    ],
)
def test_the_name_of_a_cache_stands_behind_the_path_of_the_socket(path: str, found: tuple[str, str]) -> None:
    assert split_cache(path) == found
    assert not is_file_log(path) or not found[0].endswith(".sock")


def test_a_line_without_end_is_bounded_and_answered_once() -> None:
    lines = Lines()
    assert lines.split(b"5 http://a.test/") == []
    for _ in range(50):
        assert lines.split(b"x" * MAX_LINE_BYTES) == []
    (line,) = lines.split(b" - - GET\n")
    assert len(line) <= 2 * MAX_LINE_BYTES + 16
    assert answer(line) == b"5 ERR\n"


@given(st.lists(st.binary(max_size=200)))
def test_there_are_as_many_answers_as_lines_whatever_they_are(chunks: list[bytes]) -> None:
    lines = Lines()
    announcer = Announcer("/nowhere", queries=True)
    answered = 0
    for chunk in chunks:
        for line in lines.split(chunk):
            assert answer(line).endswith(b"ERR\n")
            assert answer(line).count(b"\n") == 1
            announcer.add_line(line, 0.0)
            answered += 1
    announcer.close()
    assert answered == b"".join(chunks).count(b"\n")


@given(st.binary(max_size=500))
def test_any_datagram_can_be_read(datagram: bytes) -> None:
    heard = decode(datagram)
    assert isinstance(heard, Datagram)
    assert all(url.isprintable() for url in heard.urls)


def test_wrong_words_are_reported() -> None:
    for words in ([], ["--wrong"], ["a", "b"]):
        assert squid_helper.main(words) == 2


def test_lines_to_a_log_daemon_are_announced_and_not_answered(path: Path) -> None:
    ear = AnnouncementSocket(path)
    lines = [
        "Lhttp://a.test/one - - GET",
        "F",
        "Lhttp://a.test/two - - POST",
        "R",
        "Lhttp://a.test/s?q=x - - GET",
        "b0",
    ]
    out, _ = answers_of(path, "".join(f"{line}\n" for line in lines), "--log")
    assert (out, hear(ear)) == (b"", ({"seen": 3, "skipped": 1, "private": 1}, ["http://a.test/one"]))
    ear.close()


def test_a_log_daemon_is_known_by_its_name(path: Path) -> None:
    ear = AnnouncementSocket(path)
    daemon = path.parent / "teia-announce-log"
    daemon.write_bytes(Path(squid_helper.__file__).read_bytes())
    command = [sys.executable, "-IS", str(daemon), str(path)]
    done = subprocess.run(command, input=b"Lhttp://a.test/ - - GET\n", capture_output=True, timeout=30, check=True)
    assert (done.stdout, hear(ear)[1]) == (b"", ["http://a.test/"])
    ear.close()


def test_answers_go_on_when_the_second_process_dies_and_another_is_started(path: Path) -> None:
    ear = AnnouncementSocket(path)
    with helper(path) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(number: int) -> bytes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"%d http://a.test/%d - - GET\n" % (number, number))
            process.stdin.flush()
            return process.stdout.readline()

        assert ask(0) == b"0 ERR\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (second,) = children.read_text().split()
        os.kill(int(second), signal.SIGKILL)
        numbers = count(1)

        def announced_again() -> list[str]:
            number = next(numbers)
            assert ask(number) == b"%d ERR\n" % number
            return [url for url in hear(ear)[1] if not url.endswith("/0")]

        until(announced_again, "another process announces")
        assert children.read_text().split() not in ([], [second])
    ear.close()


def test_a_process_that_cannot_be_started_leaves_nothing_to_wait_for_and_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No more processes (EAGAIN), for a moment: nothing is kept open that would be full after a while."""

    def refused() -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    def is_open(descriptor: int) -> bool:
        return Path(f"/proc/self/fd/{descriptor}").exists()

    made: list[int] = []
    pipe = os.pipe

    def noted() -> tuple[int, int]:
        made.extend(both := pipe())
        return both

    monkeypatch.setattr(os, "fork", refused)
    monkeypatch.setattr(os, "pipe", noted)
    announcer_process = AnnouncerProcess(str(path), queries=False)
    announcer_process.forward([b"http://a.test/"])
    assert (len(made), [is_open(each) for each in made]) == (2, [False, False])
    for _ in range(3):
        announcer_process.forward([b"x" * 4_000] * 10)
    assert "no more processes" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(squid_helper.time, "monotonic", lambda: 10**9)
    ear = AnnouncementSocket(path)
    announcer_process.forward([b"http://a.test/ - - GET"])
    announcer_process.close()
    counts, urls = until(lambda: heard if (heard := hear(ear))[1] else None, "the page is announced")
    ear.close()
    assert (urls, counts) == (["http://a.test/"], {"seen": 32, "dropped": 31})


def test_a_log_daemon_whose_second_process_dies_goes_on_for_squid_ends_with_it(path: Path) -> None:
    ear = AnnouncementSocket(path)
    with helper(path, "--log") as process:
        assert process.stdin is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        second, *_ = until(lambda: children.read_text().split(), "the second process runs")
        os.kill(int(second), signal.SIGKILL)

        def announced() -> list[str]:
            assert process.stdin is not None
            process.stdin.write(b"L\0not a number\nLhttp://a.test/ - - GET\n")
            process.stdin.flush()
            return hear(ear)[1]

        urls = until(announced, "another process announces")
        assert process.poll() is None
    ear.close()
    assert set(urls) == {"http://a.test/"}


def test_a_socket_is_distinguished_from_a_log_before_it_is_there(path: Path) -> None:
    """Squid may start before the crawl does. A log taken for a socket is lost, a socket taken for a log is blocked."""
    ear = AnnouncementSocket(path)
    (path.parent / "log").write_bytes(b"")
    assert not is_file_log(str(path)), "there is one"
    ear.close()
    assert not is_file_log(f"unix:{path}")
    assert not is_file_log(f"{path}.sock")
    assert is_file_log(str(path))
    assert is_file_log(str(path.parent / "log"))
    assert is_file_log("/nowhere/access.log")


def test_a_log_daemon_that_is_given_a_log_becomes_squid_s_own(path: Path) -> None:
    if not any(os.access(each, os.X_OK) for each in squid_helper.LOG_DAEMONS):
        missing("squid is not installed")
    path.write_bytes(b"before\n")
    with helper(path, "--log") as process:
        assert process.stdin is not None
        process.stdin.write(b"r2\nb1\nLa line\nF\n")
        process.stdin.flush()
        until(lambda: path.read_bytes() == b"before\na line\n", "the line is written", state=path.read_bytes)
        state = Path(f"/proc/{process.pid}/status").read_text()
        out, complaint = process.communicate(b"R\nLanother\n", timeout=30)
    assert "Name:\tlog_file_daemon" in state
    assert int(state.partition("SigIgn:")[2].split()[0], 16) == 0, "as Squid starts it"
    assert (out, complaint, path.read_bytes()) == (b"", b"", b"another\n")
    assert Path(f"{path}.0").read_bytes() == b"before\na line\n"


def test_without_squids_own_log_daemon_a_log_is_left_alone_and_that_is_reported(path: Path) -> None:
    """And read to its end: Squid ends when it cannot write to its log daemon. What is in it is nobody's business."""
    path.write_bytes(b"before\n")
    program_there = path.parent / "teia-announce-log"
    source = Path(squid_helper.__file__).read_text("utf-8")
    program_there.write_text(source.replace('"/usr/', '"/nowhere/'), "utf-8")
    command = [sys.executable, "-IS", str(program_there), str(path)]
    done = subprocess.run(command, input=b"Lline\n" * 50_000, capture_output=True, timeout=30, check=True)
    assert (done.stdout, path.read_bytes()) == (b"", b"before\n")
    assert done.stderr.count(b"\n") == 1
    assert b"log_file_daemon was not found" in done.stderr
    assert b"stdio:" in done.stderr


def test_a_rewriter_whose_socket_is_something_else_says_so_and_leaves_it_alone(path: Path) -> None:
    path.write_bytes(b"before\n")
    out, complaint = answers_of(path, "http://a.test/ - - GET\n")
    assert (out, path.read_bytes()) == (b"ERR\n", b"before\n")
    assert b"is not a socket" in complaint


def test_a_real_squid_announces_what_it_has_answered(path: Path) -> None:
    """C7, off the way of requests: the log daemon. The address leads nowhere, which is an answer too."""
    try:
        find_squid()
    except MissingComponent:
        missing("squid is not installed")
    with squid_process({"a.test": "127.0.0.1"}, way="log") as squid:
        ear = AnnouncementSocket(squid.socket)
        squid.socket.chmod(0o666)
        paths = cycle((b"page?secret", b"page"))

        def announced() -> list[str]:
            with socket.create_connection(("127.0.0.1", squid.port), 10) as user:
                user.sendall(b"GET http://a.test:1/%b HTTP/1.0\r\n\r\n" % next(paths))
                while user.recv(65_536):
                    pass
            return hear(ear)[1]

        urls = until(announced, "the page is announced")
        ear.close()
    assert set(urls) == {"http://a.test:1/page"}
