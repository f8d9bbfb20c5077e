"""`--supervised`: a run of the lab reports its progress to the program that started it."""

from __future__ import annotations

import json
import subprocess
import sys

COMMAND = [sys.executable, "-m", "teia", "lab", "simulate", "--pages", "60", "--servers", "3", "--policy", "edf,index"]
COMMAND += ["--politeness-s", "5", "--json", "--supervised"]


def test_how_far_it_is_goes_to_standard_error_as_json_lines() -> None:
    with subprocess.Popen(
        [*COMMAND, "--days", "3"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
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
