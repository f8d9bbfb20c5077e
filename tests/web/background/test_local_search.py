"""`teia search` answered by the server of its folder, over a socket for the same user alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from teia.cli.read.run_search import answer_here_or_there, make_request
from teia.web import local_socket
from teia.web.background import local_search
from teia.web.background.local_search import LocalSearch
from teia.web.local_socket import MAX_REQUEST_BYTES, NAME, VERSION, ask_server, socket_path
from tests.web.conftest import Web


@pytest.fixture
def served(web: Web) -> Iterator[Path]:
    commands = LocalSearch(web.installation)
    commands.start()
    yield web.installation.root.path
    commands.stop()


def without_times(answer: dict[str, Any]) -> Any:
    answer["json"].pop("took_ms")
    return json.loads(json.dumps(answer))


def test_the_server_answers_as_the_command_does_by_itself(web: Web, served: Path) -> None:
    request = make_request("imposto", json=True, facets=True)
    answer = ask_server(served, request)
    assert answer is not None
    assert answer["json"]["hits"]
    (served / NAME).unlink()
    assert without_times(answer) == without_times(answer_here_or_there(served, request))


def test_only_the_user_of_the_server_and_root_are_answered(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat.S_IMODE((served / NAME).stat().st_mode) == 0o600
    monkeypatch.setattr(local_search, "_user_of", lambda _: os.getuid() + 1)
    monkeypatch.setattr(local_search.os, "getuid", lambda: 12_345)
    assert ask_server(served, make_request("imposto")) is None


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b"no JSON",
        b'{"version": 0, "request": {}}',
        b'{"version": 1, "request": {"collection": null}}',
        json.dumps({"version": VERSION}).encode(),
        json.dumps({"version": VERSION, "request": {"collection": "other"}}).encode(),
        json.dumps({"version": VERSION, "request": {"collection": None, "query": 7}}).encode(),
        b"x" * (MAX_REQUEST_BYTES + 10),
    ],
)
def test_a_wrong_request_gets_no_answer_and_the_next_one_does(served: Path, octets: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection, socket_path(served) as path:
        connection.settimeout(10.0)
        connection.connect(path)
        try:
            connection.sendall(octets)
            connection.shutdown(socket.SHUT_WR)
            received = connection.recv(1_000)
        except OSError:  # closed by the server
            received = b""
    assert json.loads(received or b"{}") == {}
    assert ask_server(served, make_request("imposto")) is not None


def test_a_server_that_hangs_is_not_waited_for(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_socket, "PATIENCE_S", 0.1)
    folder = web.installation.root.path
    with socket.socket(socket.AF_UNIX) as deaf:
        with socket_path(folder) as path:
            deaf.bind(path)
        deaf.listen(1)
        assert ask_server(folder, make_request("imposto")) is None
        assert answer_here_or_there(folder, make_request("imposto", json=True))["json"]["total"] > 0


def test_a_second_server_does_not_wait_for_one_that_hangs(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connect to a Unix socket blocks while the queue of the other side is full."""
    monkeypatch.setattr(local_search, "PATIENCE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf, socket_path(web.installation.root.path) as path:
        deaf.bind(path)
        deaf.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(path)
            commands = LocalSearch(web.installation)
            commands.start()
            commands.stop()
    assert (web.installation.root.path / NAME).exists(), "it is the other server's"


def test_a_connection_that_could_not_be_accepted_is_not_the_last_one(web: Web) -> None:
    """With no descriptor left for a moment, the server answered no command any more."""

    class Refuses(socket.socket):
        failures = 2

        def accept(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    commands = LocalSearch(web.installation)
    folder = web.installation.root.path
    with Refuses(socket.AF_UNIX) as listener:
        with socket_path(folder) as path:
            listener.bind(path)
        listener.listen(4)
        thread = Thread(target=commands._accept, args=(listener,))
        thread.start()
        try:
            assert ask_server(folder, make_request("imposto")) is not None
        finally:
            commands.stop()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_collection_that_was_made_anew_is_opened_anew(web: Web, served: Path, tmp_path: Path) -> None:
    request = make_request("imposto", json=True)
    before = ask_server(served, request)
    shutil.copytree(served / "main", tmp_path / "copy")
    opened = web.installation.search("main")
    (served / "main").rename(tmp_path / "old")
    (tmp_path / "copy").rename(served / "main")
    assert without_times(ask_server(served, request) or {}) == without_times(before or {})
    assert web.installation.search("main") is not opened


def test_the_socket_of_a_killed_server_is_replaced_and_that_of_another_is_not(web: Web) -> None:
    folder = web.installation.root.path
    with socket.socket(socket.AF_UNIX) as killed, socket_path(folder) as path:
        killed.bind(path)
    assert ask_server(folder, make_request("imposto")) is None
    first, second = LocalSearch(web.installation), LocalSearch(web.installation)
    first.start()
    second.start()
    second.stop()
    assert ask_server(folder, make_request("imposto")) is not None
    first.stop()
    assert not (folder / NAME).exists()


def test_a_folder_with_a_long_path_has_a_socket_too(web: Web, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    web.installation.root.path.rename(folder)
    web.installation.root = type(web.installation.root)(folder)
    commands = LocalSearch(web.installation)
    commands.start()
    try:
        assert (folder / NAME).exists()
        assert ask_server(folder, {**make_request("imposto"), "collection": "none"}) is None
    finally:
        commands.stop()


def test_a_file_in_the_place_of_the_socket_stays(web: Web) -> None:
    path = web.installation.root.path / NAME
    path.write_text("mine")
    commands = LocalSearch(web.installation)
    commands.start()
    commands.stop()
    assert path.read_text() == "mine"
    assert ask_server(web.installation.root.path, make_request("imposto")) is None
