"""However `teia crawl --json` ends, its output is one object; what goes wrong is one line (UX.md 6, check 25)."""

from __future__ import annotations

import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

from .labs import crawl_command, kill_group, running_lab
from .test_serve import SPEC

FLAGS = ("--delay", "0.1", "--no-index")


def ended(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout, done.stderr


def test_its_output_is_one_object_however_it_ends(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 106) as lab:
        for data, flags, state in (("a", ("--max-pages", "5"), "limit"), ("c", (), "finished")):
            status, said, complaints = ended(crawl_command(lab, tmp_path / data, *FLAGS, *flags))
            (line,) = said.splitlines()
            assert (status, json.loads(line)["state"]) == (0, state), complaints
        command = crawl_command(lab, tmp_path / "b", "--delay", "0.5", "--no-index")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            asked = lab.requests()
            until(lambda: lab.requests() >= asked + 4, "the crawl is under way")
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=15)
        finally:
            kill_group(process)
        assert process.returncode == 130
        assert time.monotonic() - began <= 10
        (interrupted,) = out.decode().splitlines()
        assert json.loads(interrupted)["state"] == "stopped"


IN_USE = "import sys, time; from pathlib import Path; from teia.store.root import open_root\n"
IN_USE += "with open_root(Path(sys.argv[1])).locked(): print('ready', flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("words", "what", "following"),
    [
        (("crawl", "ftp://exemplo", "--data", "{0}/a"), "ftp://exemplo", "https://example.org/"),
        (("crawl", "exemplo", "--data", "{0}/a"), "is not a URL", "https://exemplo/"),
        (("crawl", "http://x.test/", "--data", "{0}/newer"), "format 99", "teia export"),
        (("crawl", "http://x.test/", "--config", "{0}/wrong.toml", "--data", "{0}/b"), "delya_s", "courtesy.delay_s"),
        (("crawl", "http://x.test/", "--config", "{0}/nobody.toml", "--data", "{0}/b"), "courtesy.contact", "reach"),
        (("crawl", "http://x.test/", "--data", "{0}/used"), "in use by process {2} since 20", "teia stop"),
        (("crawl", "--data", "{0}/nowhere"), "at least one SEED", "https://example.org/"),
        (("serve", "--data", "{0}/good", "--port", "{1}"), "port {1}", "--port 0"),
        (("serve", "--data", "{0}/good", "--host", "0.0.0.0", "--port", "0"), "no account exists yet", "without"),
    ],
)
def test_what_goes_wrong_is_one_line_that_says_what_to_do(
    tmp_path: Path, words: tuple[str, ...], what: str, following: str
) -> None:
    """25: seed, version, setting, contact, folder in use, port, host; a full disk: test_disk.py."""
    for name, version in (("newer", 99), ("good", 1), ("used", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "format").write_text(f"teia {version}\n", "utf-8")
    (tmp_path / "wrong.toml").write_text("[courtesy]\ndelya_s = 2\n", "utf-8")
    (tmp_path / "nobody.toml").write_text("[courtesy]\ncontact = ''\n", "utf-8")
    with socket.socket() as taken, holding(tmp_path / "used", is_wanted=any("used" in word for word in words)) as pid:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        places = (tmp_path, taken.getsockname()[1], pid)
        json_too = ["--json"] if words[0] == "crawl" else []
        command = [sys.executable, "-m", "teia", *(word.format(*places) for word in words), *json_too]
        status, said, complaints = ended(command)
    assert status in (1, 2)
    assert "Traceback" not in complaints
    assert what.format(*places) in complaints
    assert following in complaints.partition(what.format(*places))[2]
    if json_too:
        failure = json.loads(said.splitlines()[-1])
        assert set(failure) == {"error", "message", "next"}
        assert len(said.splitlines()) == 1
    assert len(complaints.splitlines()) == 1, complaints


@contextmanager
def holding(folder: Path, *, is_wanted: bool) -> Iterator[int]:
    """Another process that has a folder, and its id."""
    if not is_wanted:
        yield 0
        return
    with subprocess.Popen([sys.executable, "-c", IN_USE, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


class Forbidding(http.server.BaseHTTPRequestHandler):
    """A site whose robots.txt lets nobody in."""

    def do_GET(self) -> None:
        body = b"User-agent: *\nDisallow: /segredo\nDisallow: /\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("flags", "what", "following"),
    [
        ((), "blocked_address (127.0.0.1 is loopback)", "--allow-net"),
        (("--allow-net", "127.0.0.0/8"), "robots", "`Disallow: /`"),
    ],
)
def test_seeds_that_nobody_may_request_end_a_crawl_with_what_to_do(
    tmp_path: Path, flags: tuple[str, ...], what: str, following: str
) -> None:
    """25: an address that the guard refuses, and the risk of letting it; robots.txt that forbids all, and its line."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forbidding)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    seed = f"http://127.0.0.1:{server.server_port}/"
    command = [sys.executable, "-m", "teia", "crawl", seed, "--data", str(tmp_path / "data"), "--json", "--no-index"]
    status, said, complaints = ended([*command, *flags])
    server.shutdown()
    server.server_close()
    assert status == 1
    (line,) = said.splitlines()
    assert json.loads(line)["failed_seeds"] == [f"{seed}: {what}"]
    assert f"seed failed: {seed}: {what}" in complaints
    (advice,) = [each for each in complaints.splitlines() if each.strip().startswith("next: ")]
    assert following in advice
    assert "Traceback" not in complaints
    assert "the user agent has no contact address" in complaints
