"""However `teia crawl --json` ends, its output is one object; what goes wrong is one line (UX.md 6, check 25)."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
            until = time.monotonic() + 30
            while lab.requests() < asked + 4 and time.monotonic() < until:
                time.sleep(0.05)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=15)
        finally:
            kill_group(process)
        assert process.returncode == 130
        assert time.monotonic() - began <= 10
        (interrupted,) = out.decode().splitlines()
        assert json.loads(interrupted)["state"] == "stopped"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("crawl", "ftp://exemplo", "--data", "{0}/a"), "ftp://exemplo"),
        (("crawl", "http://x.test/", "--data", "{0}/newer"), "format"),
        (("crawl", "http://x.test/", "--config", "{0}/wrong.toml", "--data", "{0}/b"), "courtesy.delay_s"),
        (("crawl", "--data", "{0}/nowhere"), ""),
        (("serve", "--data", "{0}/good", "--port", "{1}"), "--port 0"),
        (("serve", "--data", "{0}/good", "--host", "0.0.0.0", "--port", "0"), "nobody has an account"),
    ],
)
def test_what_goes_wrong_is_one_line_that_says_what_to_do(tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "format").write_text("teia 99\n", "utf-8")
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "format").write_text("teia 1\n", "utf-8")
    (tmp_path / "wrong.toml").write_text("[courtesy]\ndelya_s = 2\n", "utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        filled = [word.format(tmp_path, taken.getsockname()[1]) for word in words]
        json_too = ["--json"] if words[0] == "crawl" else []
        status, said, complaints = ended([sys.executable, "-m", "teia", *filled, *json_too])
    assert status in (1, 2)
    assert "Traceback" not in complaints
    assert what in complaints
    if json_too:
        failure = json.loads(said.splitlines()[-1])
        assert set(failure) == {"error", "message", "next"}
        assert len(said.splitlines()) == 1
    assert len(complaints.splitlines()) == 1, complaints
