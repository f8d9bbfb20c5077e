"""The tree of commands (start.py is the way in).

A command appears here when it works; `teia --help` shows nothing that does not. To add one: a module beside this one
with a function (or a `typer.Typer`) that typer can read, a line in COMMANDS, and a section with its flags in
docs/commands.md (tests/conventions/test_docs.py).

Only the requested command is imported, all of them for `--help` and completion: the modules of a crawl take a second to
import, and `teia lab serve` should neither wait for them nor hold them in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from teia.cli.exits import Interrupted, ReaderLeft, exit_status
from teia.version import __version__, describe_build

CRAWLING = "Crawling"
LOOKING = "Reading the results"
LABORATORY = "Laboratory"
MACHINES = "Clusters"
SETTINGS = "Settings"

COMMANDS = {
    "demo": ("teia.cli.demo:demo", CRAWLING),
    "crawl": ("teia.cli.crawl.crawl:crawl", CRAWLING),
    "add": ("teia.cli.crawl.change:add", CRAWLING),
    "block": ("teia.cli.crawl.change:block", CRAWLING),
    "unblock": ("teia.cli.crawl.change:unblock", CRAWLING),
    "set": ("teia.cli.crawl.change:set_settings", CRAWLING),
    "queue": ("teia.cli.crawl.queue:queue", CRAWLING),
    "schedule": ("teia.cli.crawl.control:schedule", CRAWLING),
    "status": ("teia.cli.crawl.control:status", CRAWLING),
    "pause": ("teia.cli.crawl.control:pause", CRAWLING),
    "resume": ("teia.cli.crawl.control:resume", CRAWLING),
    "stop": ("teia.cli.crawl.control:stop", CRAWLING),
    "serve": ("teia.cli.serve:serve", LOOKING),
    "users": ("teia.cli.users:app", LOOKING),
    "search": ("teia.cli.read.search:search", LOOKING),
    "runs": ("teia.cli.read.runs:runs", LOOKING),
    "report": ("teia.cli.read.report:report", LOOKING),
    "sql": ("teia.cli.read.sql:sql", LOOKING),
    "page": ("teia.cli.read.page:page", LOOKING),
    "trace": ("teia.cli.read.page:trace_url", LOOKING),
    "watch": ("teia.cli.read.watch:app", LOOKING),
    "export": ("teia.cli.data.export:app", LOOKING),
    "import": ("teia.cli.data.import_:app", CRAWLING),
    "audit": ("teia.cli.data.audit:app", LOOKING),
    "manifest": ("teia.cli.data.manifest:app", LOOKING),
    "rebuild": ("teia.cli.data.rebuild:app", CRAWLING),
    "remove": ("teia.cli.data.remove:remove", CRAWLING),
    "retain": ("teia.cli.data.retain:retain", CRAWLING),
    "signals": ("teia.cli.signals:app", CRAWLING),
    "cluster": ("teia.cli.cluster.commands:app", MACHINES),
    "node": ("teia.cli.cluster.node:node", MACHINES),
    "lab": ("teia.cli.lab.commands:app", LABORATORY),
    "bench": ("teia.cli.bench:app", LABORATORY),
    "config": ("teia.cli.config:config", SETTINGS),
    "doctor": ("teia.cli.doctor:doctor", SETTINGS),
}
"""Every command: where it is (`module:name`) and the panel of `teia --help` that shows it."""

FIRST_WORDS = """\
teia crawls a part of the web politely, archives it, keeps it fresh and searches it.

  teia demo                    generate a web on this machine and crawl it
  teia crawl SEED --data DIR   crawl from a URL into a folder
  teia config                  list all settings, their values and where each came from

`teia --help` lists all commands."""


class RootGroup(TyperGroup):
    """The top of the command tree. Typer ends the process itself on these two, without our JSON and our statuses."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            raise ReaderLeft from None


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with these commands in it."""
    app = typer.Typer(
        name="teia",
        cls=RootGroup,
        help="Crawl a part of the web politely, archive it, keep it fresh, search it.",
        invoke_without_command=True,
        # Failures are printed by exits.py.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        source, panel = COMMANDS[name]
        module, _, attribute = source.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"teia {__version__} ({describe_build()})")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # typer calls `_version` for it
        bool,
        typer.Option("--version", help="Print the version and the build, and exit.", callback=_version, is_eager=True),
    ] = False,
    debug: Annotated[  # noqa: ARG001  # `exits` looks for it among the words, also when parsing fails
        bool, typer.Option("--debug", help="Print a traceback if a command fails.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(FIRST_WORDS)


def run(words: Sequence[str]) -> NoReturn:
    """Run one command line and raise SystemExit with its status; the process and its settings belong to the caller."""
    sys.exit(status_of(words))


def status_of(words: Sequence[str]) -> int:
    """Run one command line and return the status to leave with."""
    return exit_status(lambda: _invoke(words), words)


def _invoke(words: Sequence[str]) -> None:
    # Options before the command take no values, so the first other word is the command.
    wanted = next((word for word in words if not word.startswith("-")), "")
    names = [wanted] if wanted in COMMANDS else () if "--version" in words else COMMANDS
    app = application(names)
    typer.main.get_command(app)(args=words, prog_name="teia")
