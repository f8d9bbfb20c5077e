"""The lab in a process of its own, started by its command line."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import pytest

from teia.errors import LabError
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from tests.waiting import NeverHeld, until

SMALL = ("--pages", "60", "--hosts", "3", "--port", "0", "--dns-address", "127.77.255.53:0")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def get(address: str, host: str, path: str, timeout_s: float = 30) -> tuple[int, bytes]:
    server, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(server, int(port), timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def seed_host(ready: dict[str, Any]) -> str:
    return str(ready["seeds"][0]).removeprefix("http://").partition(":")[0]


def test_names_pages_and_truth_are_served_and_the_log_is_whole(tmp_path: Path) -> None:
    log, truth = tmp_path / "log.jsonl", tmp_path / "truth.jsonl"
    with lab_process(*SMALL, "--log", str(log), "--truth", str(truth), "--time-factor", "1000") as ready:
        assert (ready["ready"], ready["hosts"], ready["pages"], ready["time_factor"]) == (True, 3, 60, 1000)
        host = seed_host(ready)
        server, _, port = ready["dns"].rpartition(":")
        found = dns.query.udp(dns.message.make_query(host, "A"), server, timeout=30, port=int(port))
        address = found.answer[0][0].to_text()
        assert address == "127.77.0.1"
        status, body = get(f"{address}:{ready['port']}", host, "/")
        assert status == 200
        assert b"<html" in body
        assert json.loads(get(ready["control"], "control", "/")[1])["seeds"] == ready["seeds"]
        assert ready["seeds"][0] in {json.loads(line)["url"] for line in truth.read_text().splitlines()}
    assert not is_alive(ready["pid"])
    (entry,) = read_log(log)
    assert (entry.host, entry.path, entry.status) == (host, "/", 200)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_ends_it_with_a_flushed_log(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "teia", "lab", "serve", "--ready-json", *SMALL, "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            for _ in range(20):
                assert get(f"127.77.0.1:{ready['port']}", seed_host(ready), "/")[0] == 200
            process.send_signal(sent)
            _, complaints = process.communicate(timeout=30)
            assert (process.returncode, complaints) == (status, b"")
        finally:
            process.kill()
    assert len(read_log(log)) == 20


def test_lab_ends_when_its_owner_is_killed() -> None:
    owner = (
        "import sys, time\nfrom teia.lab.server.process import lab_process\n"
        f"with lab_process(*{SMALL!r}) as ready:\n    print(ready['pid'], flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
        finally:
            process.kill()
    try:
        until(lambda: not is_alive(pid), "the lab ends with its owner", within_s=30)
    except NeverHeld:
        os.kill(pid, signal.SIGKILL)
        raise


def test_port_in_use_is_one_line() -> None:
    with lab_process(*SMALL) as ready:
        flags = [*SMALL[:4], "--port", str(ready["port"]), *SMALL[6:]]
        said = rf"127\.77\.0\.1:{ready['port']} is in use; .* --port"
        with pytest.raises(LabError, match=said), lab_process(*flags):
            pass


def test_name_server_in_use_is_one_line() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.77.255.53", 0))
        address = f"127.77.255.53:{taken.getsockname()[1]}"
        with pytest.raises(LabError, match=f"{address} is in use; .* --dns-address"):  # noqa: SIM117
            with lab_process(*SMALL[:6], "--dns-address", address):
                pass


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--address", "10.0.0.1"), "10.0.0.1 is not a loopback address"),
        (("--address", "192.168.0.1"), "not a loopback address"),
        (("--dns-address", "8.8.8.8:53"), "8.8.8.8 is not a loopback address"),
        (("--control-address", "0.0.0.0"), "0.0.0.0 is not a loopback address"),
        (("--epoch", "yesterday"), "--epoch yesterday is not a time"),
    ],
)
def test_wrong_flag_is_one_line(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(LabError, match=said), lab_process(*SMALL, *flags):
        pass
