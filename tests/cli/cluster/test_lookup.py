"""`teia cluster lookup`: where a host lives, and the way there (A2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import cell_of_host
from tests.cli.conftest import Teia
from tests.crawler.handmade import make


def test_an_imagined_cluster_says_who_would_keep_a_host(teia: Teia) -> None:
    nodes = ["--node", "a", "--node", "b=2", "--node", "c"]
    done = teia("cluster", "lookup", "https://www.jornal.com.br/x", "--hops", *nodes, "--from", "c", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    host_cell, circle = cell_of_host("www.jornal.com.br", 64), Circle({"a": 1.0, "b": 2.0, "c": 1.0})
    (home,) = found["homes"]
    assert (found["site"], found["slot"], found["start"]) == ("jornal.com.br", host_cell.slot, "c")
    assert (home["number"], home["keeper"]) == (host_cell.cell, circle.owner(host_cell.point))
    assert home["order"] == list(circle.order(host_cell.point))
    assert [found["start"], *(hop["end"] for hop in home["hops"])][-1] == home["keeper"]


def test_one_machine_keeps_everything(teia: Teia, tmp_path: Path) -> None:
    make(tmp_path / "data")
    done = teia("cluster", "lookup", "a.test", "--hops", "--data", "data")
    assert done.returncode == 0, done.stderr
    assert f"slot    {cell_of_host('a.test', 1).slot}" in done.stdout
    assert "main: cell 0" in done.stdout
    assert "0 hops from" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x.test"], "--data DIR"),
        (["http://", "--node", "a"], "is not a host name"),
        (["x.test", "--node", "a", "--from", "z"], "unknown node 'z'; available: a"),
        (["x.test", "--node", "a=much"], "--node a=much"),
    ],
)
def test_wrong_usage_is_one_line(teia: Teia, words: list[str], said: str) -> None:
    done = teia("cluster", "lookup", *words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
