"""`teia users`: accounts without the web interface."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from teia.cli.main import run
from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from tests.web.conftest import QUICK

OLD, NEW = "the first password", "the second password"


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    root = open_root(tmp_path / "data", create=True)
    made = Accounts(root.path / "web.sqlite", WallClock(), QUICK)
    for name, role in (("ana", Role.ADMIN), ("rui", Role.VIEWER)):
        made.accept_invitation(made.invite(role), name, OLD)
    return made


def users(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run(["users", *words, "--data", str(tmp_path / "data")])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_a_forgotten_password_is_set_anew_and_ends_all_sessions(
    accounts: Accounts, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = accounts.sign_in("rui", OLD)
    assert session is not None
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert users(tmp_path, capsys, "password", "rui", "--stdin")[0] == 2
    assert accounts.find_session(session) is not None, "nothing was changed"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{NEW}\n"))
    assert users(tmp_path, capsys, "password", "rui", "--stdin")[0] == 0
    assert accounts.find_session(session) is None
    assert accounts.sign_in("rui", OLD) is None
    assert accounts.sign_in("rui", NEW) is not None
    status, said = users(tmp_path, capsys, "password", "nobody", "--stdin")
    assert (status, "there is no user 'nobody'" in said) == (2, True)


def test_an_invitation_is_a_whole_address_and_works_once(
    accounts: Accounts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("invite", "--role", "operator", "--hours", "48", "--address", "https://teia.example.org/")
    status, said = users(tmp_path, capsys, *words)
    address, _, code = said.strip().partition("#")
    assert (status, address) == (0, "https://teia.example.org/login")
    accounts.accept_invitation(code, "eva", OLD)
    assert {user.name: user.role for user in accounts.users()} == {"ana": "admin", "rui": "viewer", "eva": "operator"}
    assert users(tmp_path, capsys, "invite", "--role", "king")[0] == 2


def test_a_removal_asks_and_the_last_admin_stays(
    accounts: Accounts, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert users(tmp_path, capsys, "remove", "rui")[0] == 2
    assert len(accounts.users()) == 2
    assert users(tmp_path, capsys, "remove", "rui", "--yes")[0] == 0
    assert users(tmp_path, capsys, "remove", "ana", "--yes")[0] == 2
    listed = json.loads(users(tmp_path, capsys, "list", "--json")[1])["users"]
    assert [each["name"] for each in listed] == ["ana"]
