"""`teia signals …`: change signals from caches, logs and sites."""

from __future__ import annotations

import typer

from teia.cli.signals.import_log import import_log
from teia.cli.signals.squid import squid_helper, status

app = typer.Typer(help="Change signals: Squid caches, access logs, pings of sites.", no_args_is_help=True)
app.command("squid-helper")(squid_helper)
app.command("status")(status)
app.command("import-log")(import_log)
