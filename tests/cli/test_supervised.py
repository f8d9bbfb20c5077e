"""`--supervised`: a command tells a program how far it is, and does not outlive it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from teia.cli.data.audit import app

COMMAND = [sys.executable, "-m", "teia", "lab", "simulate", "--pages", "60", "--servers", "3", "--policy", "edf,index"]
COMMAND += ["--politeness-s", "5", "--json", "--supervised"]


def test_how_far_it_is_goes_to_standard_error_as_json_lines() -> None:
    with subprocess.Popen(
        [*COMMAND, "--days", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed, said = process.stdout.read(), process.stderr.read()  # both are short
    assert process.returncode == 0
    lines = [json.loads(line) for line in said.splitlines()]
    shares = [line["share"] for line in lines if line["share"] is not None]
    assert lines[0] == {"share": None, "doing": "edf: 60 pages for 3 days"}
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
    assert {"edf", "index"} == set(json.loads(printed.splitlines()[-1])["policies"])


def test_it_ends_when_its_standard_input_does() -> None:
    ended = subprocess.run(
        [*COMMAND, "--days", "100000"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 130
    assert ended.stdout == b""


def test_with_its_group_when_it_leads_one() -> None:
    process = subprocess.Popen(
        [*COMMAND, "--days", "100000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b'{"share"')
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == -9
    finally:
        process.kill()
        process.wait()
        process.stderr.close() if process.stderr is not None else None


@pytest.mark.parametrize("kind", ["archive", "politeness", "index"])
def test_an_audit_ends_with_it_too(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr("teia.cli.data.audit.end_with_input", lambda: begun.append(kind))
    for more in ([], ["--supervised"]):
        CliRunner().invoke(app, [kind, "--data", str(tmp_path), *more])
    assert begun == [kind]
