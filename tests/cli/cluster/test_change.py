"""`teia cluster move` and `drain`, and who crawls what: bad input is told in one line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Teia

NOWHERE = ("--nats", "nats://127.0.0.1:9")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cluster", "move", "3", "b"), "missing cluster; use --data DIR for a local cluster, or --nats URL"),
        (("cluster", "drain", "b", "--data", "x"), "no cluster is running in x"),
        (("node", "--data", "x", *NOWHERE, "--strategy", "near"), "must be one of hash, geo, rtt, isolated"),
        (("node", "--data", "x", *NOWHERE, "--strategy", "geo"), "--strategy geo requires --region"),
    ],
)
def test_bad_input_is_reported_in_one_line(teia: Teia, words: tuple[str, ...], told: str) -> None:
    done = teia(*words)
    assert done.returncode != 0
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
