"""The start of `teia serve`, and the token that `--token-out` writes for scripts."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.serve import SCRIPT_USER, serve, write_token
from tests.web.conftest import QUICK


def written(accounts: Accounts, path: Path) -> str:
    write_token(accounts, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_text("utf-8").strip()


def test_each_start_replaces_the_token_of_the_last_one(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "web.sqlite", WallClock(), QUICK)
    first, second = (written(accounts, tmp_path / "token") for _ in range(2))
    found = accounts.find_token(second)
    assert found is not None
    assert found[:2] == (SCRIPT_USER, Role.ADMIN)
    assert accounts.find_token(first) is None


def test_a_token_of_a_user_may_have_the_same_name(tmp_path: Path) -> None:
    """The server did not start: it wanted to remove the token of a user who had none of that name."""
    accounts = Accounts(tmp_path / "web.sqlite", WallClock(), QUICK)
    own = accounts.make_token(SCRIPT_USER, "ana", Role.ADMIN)
    for_scripts = written(accounts, tmp_path / "token")
    assert [accounts.find_token(secret) is not None for secret in (own, for_scripts)] == [True, True]
    assert written(accounts, tmp_path / "token") != for_scripts
    assert [accounts.find_token(secret) is not None for secret in (own, for_scripts)] == [True, False]


def test_a_signal_ends_the_server_from_its_first_line_on(tmp_path: Path) -> None:
    """A program that reads the address may end the server at once."""
    lines: list[str] = []

    def read(line: str) -> None:
        lines.append(line)
        os.kill(os.getpid(), signal.SIGTERM)

    def kill(*_: object) -> None:
        raise AssertionError("the server does not handle SIGTERM yet")

    before = signal.signal(signal.SIGTERM, kill)
    try:
        root = open_root(tmp_path / "data", create=True)
        assert serve(root, WallClock(), "127.0.0.1", 0, (), None, read, crawls=False) is signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert lines[0].startswith("http://127.0.0.1:")
