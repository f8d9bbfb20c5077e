"""`teia cluster up`, `status`, `down` and the mistakes that can be made with `teia node`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teia.cluster.nats.servers import allocate_servers, make_key
from tests.conftest import ROOT
from tests.system.labs import running_lab
from tests.waiting import until

from .conftest import Nats
from .nats.test_servers import is_there
from .nodes import SETTINGS
from .test_node import SPEC


def teia(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "teia", *words], capture_output=True, text=True, timeout=100, check=False, cwd=ROOT
    )


def settings(folder: Path) -> str:
    path = folder / "c.toml"
    path.write_text(SETTINGS.format(seed="http://a.test/", dns="127.77.0.1:9", delay_s=1, cells=2))
    return str(path)


@pytest.mark.slow
def test_a_node_that_cannot_start_says_why_in_one_line(nats: Nats, tmp_path: Path) -> None:
    """Issue 7: wrong credentials, an unreachable NATS, a strategy that is not there; nothing is damaged."""
    make_key(tmp_path / "other.key")
    good = ["--nats", nats.servers.urls[0], "--key", str(nats.servers.key)]
    cases = {
        "rejected this key": ["--nats", nats.servers.urls[0], "--key", str(tmp_path / "other.key")],
        "cannot be reached": ["--nats", allocate_servers(1)[0].url, "--key", str(nats.servers.key)],
        "key file not found": ["--nats", nats.servers.urls[0], "--key", str(tmp_path / "none.key")],
        "has no collection 'unheard-of'": [*good, "--collection", "unheard-of"],
        "cannot be the name of a node": [*good, "--name", "a b", "--config", settings(tmp_path)],
        "--strategy geo requires --region": [*good, "--strategy", "geo"],
        "--capacity": [*good, "--capacity", "0"],
    }
    for at, (says, flags) in enumerate(cases.items()):
        done = teia("node", "--data", str(tmp_path / f"data{at}"), *flags)
        assert done.returncode in {1, 2}, done.stderr
        assert says in done.stderr
        assert done.stderr.count("Traceback") == 0


def test_cluster_commands_say_what_is_missing(tmp_path: Path) -> None:
    for words, says in (
        (("status", "--data", str(tmp_path)), "no cluster is running in"),
        (("down", "--data", str(tmp_path)), "no cluster is running in"),
        (("up", "--data", str(tmp_path)), "at least one SEED"),
        (("up", "http://a.test/", "--data", str(tmp_path), "--servers", "2"), "2 are less reliable"),
    ):
        done = teia("cluster", *words)
        assert done.returncode in {1, 2}
        assert says in done.stderr


@pytest.mark.slow
def test_a_local_cluster_comes_up_survives_a_killed_node_and_goes_down(tmp_path: Path) -> None:
    """INTERFACES: cluster up, status, down; a node that is killed loses its cells to the others."""
    data = tmp_path / "try"
    with running_lab(tmp_path, SPEC.format(hosts=8, pages=100), 180) as lab:
        web = tmp_path / "c.toml"
        web.write_text(SETTINGS.format(seed=lab.seed_url, dns=lab.dns, delay_s=0.2, cells=4))
        flags = ("--nodes", "2", "--session", "3", "--config", str(web))
        assert teia("cluster", "up", "--data", str(data), *flags).returncode == 0
        local = json.loads((data / "up.json").read_text())
        try:

            def status() -> dict[str, list[dict[str, object]]]:
                return json.loads(teia("cluster", "status", "--data", str(data), "--json").stdout.splitlines()[-1])

            def owners() -> set[object]:
                return {cell["keeper"] for cell in status().get("cells", [])}  # an error while NATS elects

            until(lambda: owners() == {"node-1", "node-2"})
            assert "is already running in" in teia("cluster", "up", "--data", str(data)).stderr
            os.kill(local["nodes"]["node-1"], signal.SIGKILL)
            until(lambda: owners() == {"node-2"})
            states = {node["name"]: node["state"] for node in status()["nodes"]}
            assert states == {"node-1": "dead", "node-2": "alive"}
            text = teia("cluster", "status", "--data", str(data)).stdout
            assert "node-2" in text
        finally:
            down = teia("cluster", "down", "--data", str(data))
        assert down.returncode == 0, down.stderr
    assert not any(is_there(process) for process in (local["pid"], *local["nodes"].values()))
    assert not (data / "up.json").exists()
