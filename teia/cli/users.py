"""`teia users …`: the accounts of the web interface, without it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console, result_console
from teia.errors import UsageError
from teia.store.root import open_root

if TYPE_CHECKING:
    from teia.web.access.accounts import Accounts

app = typer.Typer(help="Manage the accounts of the web interface.", no_args_is_help=True)

BASE = "http://127.0.0.1:8700"
HOUR_S = 3_600.0
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user, as listed by `teia users list`.")]
RoleOption = Annotated[str, typer.Option("--role", help="Role of the new user: viewer, operator or admin.")]
Hours = Annotated[float, typer.Option("--hours", min=0.1, max=24 * 30, help="Hours for which the link works.")]
Address = Annotated[str, typer.Option("--address", help="Address of `teia serve`, as its users type it.")]
Stdin = Annotated[bool, typer.Option("--stdin", help="Read the password from standard input; do not ask for it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@contextmanager
def open_accounts(data: Path) -> Iterator[Accounts]:
    """Open the accounts of a data folder; a running server may use them too."""
    from teia.clock import WallClock
    from teia.web.access.accounts import Accounts

    accounts = Accounts(open_root(data).path / "web.sqlite", WallClock())
    try:
        yield accounts
    finally:
        accounts.close()


@app.command("list")
def list_users(data: Data, as_json: AsJson = False) -> None:
    """List the users, their roles, and when each was last seen."""
    with open_accounts(data) as accounts:
        users = accounts.users()
    if as_json:
        print_json({"users": [asdict(user) for user in users]})
        return
    for user in users:
        result_console().print(f"{user.name}  {user.role}  last seen {user.seen or 'never'}", markup=False)
    if not users:
        progress_console().print("no users yet; `teia serve` prints a link that creates the first one")


@app.command("invite")
def invite(data: Data, role: RoleOption = "viewer", hours: Hours = 24.0, address: Address = BASE) -> None:
    """Print a link with which one person can create an account, once.

    Example: teia users invite --role operator --hours 48 --address https://teia.example.org --data archive
    """
    from teia.web.access.roles import role_named

    wanted = role_named(role)
    if wanted is None:
        raise UsageError(f"--role {role!r}: must be viewer, operator or admin")
    with open_accounts(data) as accounts:
        code = accounts.invite(wanted, hours * HOUR_S)
    result_console().print(f"{address.rstrip('/')}/login#{code}", markup=False, soft_wrap=True)


@app.command("password")
def password(name: Name, data: Data, from_stdin: Stdin = False) -> None:
    """Set a new password for a user who forgot it; all sessions of the user end."""
    with open_accounts(data) as accounts:
        accounts.check_user(name)
        typed = sys.stdin.readline().rstrip("\n") if from_stdin else getpass(f"new password of {name}: ")
        if not from_stdin and getpass("once more: ") != typed:
            raise UsageError("the two passwords differ; nothing was changed")
        accounts.reset_password(name, typed)
    progress_console().print(f"{name} has a new password; sign in with it at /login")


@app.command("remove")
def remove(name: Name, data: Data, is_sure: Yes = False) -> None:
    """Remove a user with all sessions and tokens, after a question."""
    with open_accounts(data) as accounts:
        accounts.check_user(name)
        if not is_sure and not typer.confirm(f"Remove {name} with all sessions and tokens?", err=True):
            raise UsageError("nothing was removed")
        accounts.remove_user(name)
    progress_console().print(f"{name} was removed")
