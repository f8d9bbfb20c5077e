"""`teia demo`, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

from teia.store.root import open_root
from teia.transfer.read_all import audit_archives

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(%r))
"""
"""A `sitecustomize` with which every process, children too, fails to import these."""


def packages_of_extras() -> list[str]:
    """The modules that only extras bring, as pyproject.toml names their packages."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = [re.split(r"[<>=]", each)[0] for extra in ("cluster", "gpu", "lab") for each in extras[extra]]
    return [{"nats-py": "nats"}.get(name, name.replace("-", "_")) for name in names]


@pytest.mark.timeout(180)
def test_demo_once_crawls_a_web_politely_and_reports(tmp_path: Path) -> None:
    """In an empty folder, and with no package of an extra."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(WITHOUT_EXTRAS % packages_of_extras(), "utf-8")
    path = os.pathsep.join([str(tmp_path / "bare"), str(ROOT)])
    words = ["demo", "--once", "--json", "--pages", "120", "--data", str(tmp_path / "demo")]
    done = subprocess.run(
        [sys.executable, "-m", "teia", *words], capture_output=True, text=True, check=False,
        cwd=tmp_path / "bare", env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    summary = json.loads(lines[-1])
    assert len(lines) == 1
    assert summary["state"] == "finished"
    assert summary["pages"] > 80
    assert summary["politeness_violations"] == 0
    assert "120 pages" in done.stderr
    assert "responses: 200" in done.stderr
    assert audit_archives(open_root(tmp_path / "demo"), "demo").violations == 0
    again = subprocess.run([sys.executable, "-m", "teia", *words], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)


@pytest.mark.timeout(180)
def test_demo_says_what_to_look_at_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "teia", "demo", "--pages", "30", "--seed", "3", "--web-port", "0"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environ, start_new_session=True) as process:
        assert process.stderr is not None
        said = b""
        while b"/login#" not in said:
            line = process.stderr.readline()
            assert line, said.decode()
            said += line
        home = re.search(r"http://127.0.0.1:\d+/", said.decode())
        assert home is not None
        with urllib.request.urlopen(home[0], timeout=30) as answer:
            assert b'type="search"' in answer.read()
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)  # as an impatient user does
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()
    for command in ("teia page http://", "teia trace http://", "teia export graph", "teia audit politeness"):
        assert command in said.decode()
    assert "is deleted when the demo ends" in said.decode()
    assert "teia search WORDS" not in said.decode(), "the folder is deleted"
    assert "no contact address" not in said.decode(), "the generated web has no owners"
    assert list(tmp_path.iterdir()) == []
