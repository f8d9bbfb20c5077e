"""`teia lab …`: the laboratory's commands."""

from __future__ import annotations

import typer

from teia.cli.lab.plan import plan
from teia.cli.lab.reproduce import reproduce
from teia.cli.lab.serve import serve
from teia.cli.lab.simulate import simulate
from teia.cli.lab.whatif import whatif

app = typer.Typer(
    help="Run experiments: a generated web, a simulator, and the papers' experiments.", no_args_is_help=True
)
app.command("serve")(serve)
app.command("plan")(plan)
app.command("simulate")(simulate)
app.command("whatif")(whatif)
app.command("reproduce")(reproduce)
