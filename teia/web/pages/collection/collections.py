"""Collections page: the state and next run of each; start, pause, stop or remove one (T1, T2, T7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from teia.collections.commands import give_command
from teia.collections.overview import ScheduleOverview, schedule_overview
from teia.errors import StoreError, TeiaError
from teia.lib.message import Message
from teia.records import Command
from teia.views.alerts import Alert
from teia.web.access.roles import Role
from teia.web.background.crawler import CrawlerState
from teia.web.parts.collection_state import account_of, freshness_of, last_day, open_alerts
from teia.web.parts.start_crawl import start
from teia.web.server.installation import Installation
from teia.web.server.json_routes import ActionResult, InstallationDep, PageRoutes, VisitorDep

MESSAGES = {
    "pause": Message("pausing: requests in progress are finished, no new ones are sent"),
    "resume": Message("resuming"),
    "stop": Message("stopping: requests in progress are finished; start it again at any time, nothing is lost"),
}
NO_CRAWLER = CrawlerState("off")
ACCOUNT_KEYS = (
    "state", "pages", "captures", "indexed", "urls_known", "urls_queued", "pages_per_s", "paused_why",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CollectionLine:
    """One collection in the list.

    `next_run` is the next scheduled start; `words` describe its schedule. `day` is its requests per second over the
    last 24 hours, `needs` its open alerts.
    """

    name: str
    state: str
    pages: int
    captures: int
    indexed: int
    urls_known: int
    urls_queued: int
    pages_per_s: float
    fresh: float | None
    bound: float | None
    paused_why: str
    next_run: str | None
    words: str
    day: list[tuple[float, float | None]]
    needs: list[Alert]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CollectionsView:
    """All collections of a root, and the state of the crawler that this server supervises."""

    collections: list[CollectionLine]
    crawler: CrawlerState

    def shape(self) -> dict[str, Any]:
        """Return the values on which states and buttons depend, by their paths in the JSON."""
        found: dict[str, Any] = {"collections.length": len(self.collections), "crawler.state": self.crawler.state}
        for number, line in enumerate(self.collections):
            found |= {f"collections.{number}.state": line.state, f"collections.{number}.needs.length": len(line.needs)}
        return found


ACTIONS = (Message("start"), Message("pause"), Message("resume"), Message("stop"))
"""Names of the commands in the log of changes, for the catalogues."""


class CommandForm(BaseModel):
    """Command for a collection."""

    command: Literal["start", "pause", "resume", "stop"]


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c", "collections.html", Role.VIEWER)(collections)
    pages.action("/c/{collection}/command", Role.OPERATOR)(command)


def collections(installation: InstallationDep) -> CollectionsView:
    """List the collections and the state of each."""
    crawler = NO_CRAWLER if installation.supervisor is None else installation.supervisor.state
    return CollectionsView([_line(installation, name) for name in installation.names()], crawler)


def _line(installation: Installation, name: str) -> CollectionLine:
    account, _ = account_of(installation, name)
    freshness = freshness_of(installation, name, account)
    agenda, problem = _agenda(installation, name)
    return CollectionLine(
        name=name,
        **{key: account.get(key, 0) for key in ACCOUNT_KEYS},
        fresh=freshness.get("fresh"),
        bound=freshness.get("possible"),
        next_run=None if agenda is None else agenda.next_run,
        words="" if agenda is None else agenda.words,
        day=last_day(installation, name),
        needs=[] if problem else open_alerts(installation, name, account),
        problem=problem,
    )


def _agenda(installation: Installation, name: str) -> tuple[ScheduleOverview | None, str]:
    """Return a collection's schedule, or the error in its settings, which a user may have edited by hand."""
    try:
        return schedule_overview(installation.root, name, installation.clock, with_notes=False), ""
    except TeiaError as error:
        return None, error.message


def command(installation: InstallationDep, visitor: VisitorDep, collection: str, form: CommandForm) -> ActionResult:
    """Start, pause, resume or stop the crawl of a collection."""
    installation.check(collection)
    message = (
        start(installation, collection)
        if form.command == "start"
        else _send_command(installation, collection, form.command)
    )
    installation.accounts.log_action(visitor.name, form.command, collection=collection)
    return ActionResult(Message("{field}: {why}", field=collection, why=message), f"/c/{collection}")


def _send_command(installation: Installation, collection: str, word: str) -> str:
    account, run = account_of(installation, collection)
    if run is None and account["state"] not in {"paused", "starting"}:
        raise StoreError(Message("no crawl of {name} is running", name=collection))
    give_command(installation.root, collection, Command(word), installation.clock)
    if installation.supervisor is not None:
        installation.supervisor.wake()
    return MESSAGES[word]
