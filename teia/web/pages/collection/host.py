"""Host page: one host, and whether its pages can be crawled in time (C1, C2, A7)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import isclose
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from teia.clock import iso_utc
from teia.collections.control_file import FetchRobots, Inbox
from teia.collections.drafts import MIN_DELAY_S
from teia.collections.settings import apply_edits, change, has_edits, normal_form
from teia.config.sections import Config, CourtesySettings
from teia.errors import StoreError, UsageError
from teia.frontier.queue.host_rules import (
    MAX_BUDGET,
    MAX_DELAY_S,
    MIN_AGREED_S,
    WHO_CHARS,
    AgreedDelay,
    agreements,
    budget_of,
    delay_of,
    host_budgets,
    host_delays,
    paused_hosts,
    with_agreement,
    with_budget,
    with_delay,
)
from teia.lib.message import Message, joined, plain
from teia.records import Edit, Operator
from teia.urls import split
from teia.views.host import (
    RHYTHM_S,
    Feasibility,
    HostFreshnessEstimate,
    HostView,
    WeekPlan,
    compute_feasibility,
    estimate_freshness,
    find_line,
    host_view,
    week_plan,
)
from teia.views.host_budget import BudgetPaces
from teia.views.hosts import HostLine
from teia.web.access.accounts import ChangeLine
from teia.web.access.roles import Role
from teia.web.language.numbers import whole_number
from teia.web.parts.collection_state import all_hosts
from teia.web.parts.last_requests import last_requests
from teia.web.server.auth import Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, ActionResult, FormAgain, InstallationDep, PageRoutes, VisitorDep
from teia.web.server.templates import link

ESTIMATE_S, ESTIMATE_PATIENCE_S = 60.0, 0.02
MAX_COLLECTIONS = 20


@dataclass(frozen=True, slots=True)
class Mistyped:
    """Form to show again: the wrong field, the error, and all typed values."""

    field: str
    message: str
    typed: dict[str, str]


@dataclass(frozen=True, slots=True)
class HostPage:
    """One host, and its current and possible freshness: with its settings, and with the requested ones.

    `is_paused`, `is_blocked`, `own_delay_s` and `own_budget` are settings of this host; `rereads` are the origins whose
    robots.txt is to be fetched again. `usual_delay_s` and `usual_budget` are the collection's; `agreed_by` is the
    person who agreed to a shorter delay. `plan` is the distribution of a week's visits, if pages are kept fresh.
    `also_in` are other collections that know this host: they share its state and its delay, all else is of this one.
    """

    time: str
    about: HostView
    now: Feasibility
    plan: WeekPlan | None
    is_asked: bool
    possible: HostFreshnessEstimate | None
    possible_asked: HostFreshnessEstimate | None
    is_paused: bool
    is_blocked: bool
    own_delay_s: float | None
    agreed_by: str
    usual_delay_s: float
    own_budget: int | None
    usual_budget: int
    rereads: list[str]
    also_in: list[str]
    mistyped: Mistyped | None = None

    def typed(self, field: str, otherwise: object) -> object:
        """Return the value of a field: the typed one if the form is shown again."""
        return otherwise if self.mistyped is None else self.mistyped.typed[field]

    def fault(self, field: str) -> str:
        return self.mistyped.message if self.mistyped is not None and self.mistyped.field == field else ""

    def ticks(self) -> list[tuple[float, str]]:
        """Return the request times for a chart, with their looks."""
        return [(_unix(each.time), "early" if each.is_early else "s1") for each in self.about.rhythm]

    def chart_span(self) -> tuple[float, float]:
        """Return the time span of the chart."""
        return _unix(self.time) - RHYTHM_S, _unix(self.time)


def _unix(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/hosts/{host}", "host.html", Role.VIEWER)(host_page)
    pages.add("GET", API + "/c/{collection}/hosts/{host}/feasibility", Role.VIEWER, feasibility)
    pages.form("/c/{collection}/hosts/{host}", Role.OPERATOR, "host.html")(change_by_form)
    pages.api("/c/{collection}/hosts/{host}", Role.OPERATOR, "hosts_treat")(change_host)


# ---- one host -------------------------------------------------------------------------------------------------------

Delay = Annotated[float | None, Query(ge=0, le=86_400)]
HowMany = Annotated[int | None, Query(ge=1, le=10**9)]


def host_page(
    installation: InstallationDep, collection: str, host: str, delay_s: Delay = None, pages: HowMany = None
) -> HostPage:
    """Return one host: its settings, its responses, and the time of one pass, at this delay or another."""
    table = all_hosts(installation, collection)
    line = find_line(table, host)
    config, now_s = installation.config(collection), installation.clock.now_s()
    with installation.lookup(collection) as lookup:
        about = host_view(lookup, table, line.host, config, now_s, delay_s, pages)
        if about.last_asked is None and (last_s := last_requests(installation, collection).get(line.host)):
            about = replace(about, last_asked=iso_utc(last_s))
        plan = week_plan(*BudgetPaces(lookup, config, now_s).of_host(line))
    is_asked = delay_s is not None or pages is not None
    # A slot is the time of one request: the response and the delay after it.
    requested_slot_s = about.feasibility.delay_s + about.feasibility.response_s
    return HostPage(
        time=iso_utc(installation.clock.now_s()),
        about=about,
        now=compute_feasibility(line),
        plan=plan,
        is_asked=is_asked,
        possible=_estimate(installation, collection, line, line.slot_s),
        possible_asked=_estimate_at(installation, collection, line, requested_slot_s) if is_asked else None,
        also_in=_other_collections(installation, collection, line.host),
        **_host_settings(installation, collection, line.host),
    )


def _other_collections(installation: Installation, collection: str, host: str) -> list[str]:
    """Return other collections with URLs of a host; only some are looked at."""
    found = []
    for name in [name for name in installation.names() if name != collection][:MAX_COLLECTIONS]:
        with suppress(StoreError), installation.lookup(name) as lookup:  # one may never have been crawled
            found += [name] if lookup.urls_of_host(host, 1) else []
    return found


def _host_settings(installation: Installation, collection: str, host: str) -> dict[str, Any]:
    """Return the settings that users made for a host."""
    config = installation.config(collection)
    with Inbox(installation.root.control) as inbox:
        wanted = [each.body.origin for each in inbox.pending(collection, FetchRobots)]
    own_delay_s, agreed_by = _own_delay(config.courtesy, host)
    return {
        "is_paused": host in paused_hosts(config.courtesy.paused),
        # Only a rule for exactly this host, which `unblock` can remove.
        "is_blocked": rule_of(host) in {normal_form(EXCLUDE, rule) for rule in config.scope.exclude},
        "own_delay_s": own_delay_s,
        "agreed_by": agreed_by,
        "usual_delay_s": config.courtesy.delay_s,
        "own_budget": host_budgets(config.limits.host_budgets).get(host),
        "usual_budget": config.limits.pages_per_host,
        "rereads": [origin for origin in wanted if split(f"{origin}/").host == host],
    }


def _estimate(
    installation: Installation, collection: str, line: HostLine, slot_s: float
) -> HostFreshnessEstimate | None:
    def make() -> HostFreshnessEstimate:
        return estimate_freshness(installation.root, collection, line, slot_s, installation.clock.now_s())

    key = ("standing", collection, line.host, round(slot_s, 3))
    found = installation.cache.get_or_none(key, make, ESTIMATE_S, ESTIMATE_PATIENCE_S)
    return None if found is None else found.value


def _estimate_at(
    installation: Installation, collection: str, line: HostLine, slot_s: float
) -> HostFreshnessEstimate | None:
    """Like `_estimate`, for a hypothetical slot.

    The `possible` freshness follows from visits at the actual slot, so it is unknown for another.
    """
    found = _estimate(installation, collection, line, slot_s)
    return found if found is None or isclose(slot_s, line.slot_s) else replace(found, possible=None)


def feasibility(
    installation: InstallationDep, collection: str, host: str, delay_s: Delay = None, pages: HowMany = None
) -> Feasibility:
    """Compute the time of one pass over a host, at this delay or another, over all its pages or some."""
    return compute_feasibility(find_line(all_hosts(installation, collection), host), delay_s, pages)


def live_host(installation: Installation, collection: str, host: str) -> dict[str, Any]:
    """Return the live part of the page, updated every second."""
    table = all_hosts(installation, collection)
    with installation.lookup(collection) as lookup:
        about = host_view(
            lookup, table, find_line(table, host).host, installation.config(collection), installation.clock.now_s()
        )
    wanted = ("state", "ready_at", "last_asked", "requests_seen", "waiting", "early", "rest_s", "response_s")
    return {name: getattr(about, name) for name in wanted}


# ---- changes --------------------------------------------------------------------------------------------------------

EXCLUDE, PAUSED_KEY, DELAYS = "scope.exclude", "courtesy.paused", "courtesy.host_delays"
AGREED, BUDGETS = "courtesy.agreed_delays", "limits.host_budgets"

ACTIONS = (
    *(Message("pause"), Message("resume"), Message("block"), Message("unblock"), Message("delay"), Message("budget")),
)
"""Names of the actions, for the catalogues; the request has them as plain words."""


class HostActionForm(BaseModel):
    """Action on a host.

    `delay_s` is for `delay`: the host's own delay in seconds, empty for the collection's. A shorter one needs
    `agreed_by`, the owner of the host who agreed to it. `requests` is for `budget`: the most requests in all, empty for
    the collection's limit.
    """

    deed: Literal["pause", "resume", "block", "unblock", "delay", "budget", "robots"]
    delay_s: str = Field(default="", max_length=12)
    agreed_by: str = Field(default="", max_length=WHO_CHARS[1])
    requests: str = Field(default="", max_length=12)


def rule_of(host: str) -> str:
    """Return the scope rule that matches this host alone."""
    return f"host:{host}"


def change_host(
    installation: InstallationDep, visitor: VisitorDep, collection: str, host: str, form: HostActionForm
) -> ActionResult:
    """Pause, resume, block or unblock a host, set its delay or its budget, or have its robots.txt fetched again."""
    line, before = find_line(all_hosts(installation, collection), host), installation.config(collection)
    to = link(f"/c/{collection}/hosts/{line.host}")
    if form.deed == "robots":
        message, after = _request_robots(installation, collection, line), before
    else:
        edits, message = _edits(before, visitor, line.host, form)
        after = apply_edits(before, edits)
        try:
            changed = change(installation.root, collection, edits, installation.clock)
        except StoreError:  # the edits may be saved all the same: a crawl that did not answer in time reads them later
            if has_edits(installation.config(collection), edits):
                _log_change(installation, visitor, collection, line.host, form, before, after)
            raise
        message = Message("{what} at once", what=message) if changed.running and changed.now else message
    _log_change(installation, visitor, collection, line.host, form, before, after)
    return ActionResult(message, to)


def change_by_form(
    installation: InstallationDep, visitor: VisitorDep, collection: str, host: str, form: HostActionForm
) -> ActionResult | FormAgain:
    """Change a host; if there is an error, show the form again with the typed text."""
    try:
        return change_host(installation, visitor, collection, host, form)
    except WrongTreatment as wrong:
        mistyped = Mistyped(wrong.field, wrong.why, form.model_dump(exclude={"deed"}))
        return FormAgain(replace(host_page(installation, collection, host), mistyped=mistyped))


def _log_change(
    installation: Installation,
    visitor: Visitor,
    collection: str,
    host: str,
    form: HostActionForm,
    before: Config,
    after: Config,
) -> None:
    """Log an action on a host, and have the host table recomputed.

    `after` is the settings with this action only: changes that other users made in the meantime are not logged here.
    """
    was, now = _effective_settings(before, host), _effective_settings(after, host)
    changes = [ChangeLine(key, was[key], now[key]) for key in was if was[key] != now[key]]
    installation.accounts.log_action(
        visitor.name, Message("treat host: {deed}", deed=plain(form.deed)), changes, collection=collection, host=host
    )
    installation.cache.invalidate(("hosts", collection))


def _effective_settings(config: Config, host: str) -> dict[str, str]:
    """Return the settings of a host, empty if it has none of its own, and the values in effect."""
    own_s, who = _own_delay(config.courtesy, host)
    longer_s = host_delays(config.courtesy.host_delays).get(host, 0.0)
    own_budget = host_budgets(config.limits.host_budgets).get(host)
    return {
        "own_delay_s": "" if own_s is None else f"{own_s:g}",
        "delay_s": f"{max(delay_of(config.courtesy, host), longer_s):g}",
        "agreed_by": who,
        "own_requests": "" if own_budget is None else f"{own_budget}",
        "requests": f"{budget_of(config.limits, host)}",
    }


def _own_delay(courtesy: CourtesySettings, host: str) -> tuple[float | None, str]:
    """Return the host's own delay, if it has one, and the person who agreed to a shorter one."""
    agreed = agreements(courtesy.agreed_delays).get(host)
    longer_s = host_delays(courtesy.host_delays).get(host)
    if agreed is None:
        return longer_s, ""
    return max(agreed.delay_s, longer_s or 0.0), agreed.who


def _edits(config: Config, visitor: Visitor, host: str, form: HostActionForm) -> tuple[list[Edit], Message]:
    match form.deed:
        case "pause":
            return [Edit(PAUSED_KEY, Operator.ADD, host)], Message("requests to {host} are paused", host=host)
        case "resume":
            left = [text for text in config.courtesy.paused if text.strip().lower() != host]
            message = Message("requests to {host} are resumed", host=host)
            return _list_edits(PAUSED_KEY, config.courtesy.paused, left), message
        case "block":
            return [Edit(EXCLUDE, Operator.ADD, rule_of(host))], Message("{host} is excluded", host=host)
        case "unblock":
            return [Edit(EXCLUDE, Operator.REMOVE, rule_of(host))], Message("{host} is included again", host=host)
        case "budget":
            budget = _parse_budget(form.requests)
            before = config.limits.host_budgets
            message = (
                Message("{host} has the usual budget again", host=host)
                if budget is None
                else Message("the budget of {host} is {n:,} requests", host=host, n=budget)
            )
            return _list_edits(BUDGETS, before, with_budget(before, host, budget)), message
        case _:
            return _delay_edits(config.courtesy, visitor, host, form)


def _list_edits(key: str, before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """Return the edits from one list to another, item by item.

    Replacing the whole list would undo edits of other hosts that another user made in the meantime.
    """
    gone = [Edit(key, Operator.REMOVE, text) for text in before if text not in after]
    return gone + [Edit(key, Operator.ADD, text) for text in after if text not in before]


class WrongTreatment(UsageError):
    """Raised for a value that a host cannot be given; `field` is the form's field."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(Message("{field}: {why}", field=field, why=why))
        self.field, self.why = field, why


def _delay_edits(
    courtesy: CourtesySettings, visitor: Visitor, host: str, form: HostActionForm
) -> tuple[list[Edit], Message]:
    """Return the edits for a host's own delay.

    A longer one is always accepted, a shorter one only if its owner agreed; below a second an admin must decide.
    """
    delay_s, who = _parse_delay(form.delay_s), form.agreed_by.strip()
    longer_s, agreed = delay_s, None
    if delay_s is not None and delay_s < courtesy.delay_s:
        if delay_s < MIN_DELAY_S and not visitor.may(Role.ADMIN):
            what = Message("the delay between requests is below {n:g} s", n=MIN_DELAY_S)
            raise WrongTreatment("delay_s", Message("an admin must approve this: {what}", what=what))
        if len(who) < WHO_CHARS[0]:
            usual = Message("the usual delay is {n:g} s", n=courtesy.delay_s)
            agreed_by = Message("enter who approved a shorter delay, it is logged")
            raise WrongTreatment("agreed_by", joined("; ", (usual, agreed_by)))
        longer_s, agreed = None, AgreedDelay(delay_s, " ".join(who.split()))
    # Both lists are set: a longer delay ends an agreement, and an agreement ends a longer delay.
    edits = [
        *_list_edits(DELAYS, courtesy.host_delays, with_delay(courtesy.host_delays, host, longer_s)),
        *_list_edits(AGREED, courtesy.agreed_delays, with_agreement(courtesy.agreed_delays, host, agreed)),
    ]
    if delay_s is None:
        return edits, Message("{host} has the usual delay again", host=host)
    return edits, Message("the delay of {host} is {n:g} s", host=host, n=delay_s)


def _parse_delay(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        delay_s = float(text.strip().replace(",", "."))
    except ValueError:
        delay_s = -1.0
    # Written so that NaN is refused, too.
    if not MIN_AGREED_S <= delay_s <= MAX_DELAY_S:
        raise WrongTreatment(
            "delay_s",
            Message(
                "{text!r} must be a number of seconds from {least:g} to {most:,.0f}",
                text=text,
                least=MIN_AGREED_S,
                most=MAX_DELAY_S,
            ),
        )
    return delay_s


def _parse_budget(text: str) -> int | None:
    if not text.strip():
        return None
    budget = whole_number(text.strip())
    if budget is None or not 1 <= budget <= MAX_BUDGET:
        raise WrongTreatment(
            "requests",
            Message("{text!r} must be a whole number from {low} to {high:,}", text=text, low=1, high=MAX_BUDGET),
        )
    return budget


def _request_robots(installation: Installation, collection: str, line: HostLine) -> Message:
    with installation.lookup(collection) as lookup:
        origins = [origin for origin, *_ in lookup.cells[line.cell].robots_of(line.host_id, line.host)]
    if not origins:
        raise UsageError(
            Message("robots.txt of {host} was not fetched yet; it is fetched before its first page", host=line.host)
        )
    with Inbox(installation.root.control) as inbox:
        for origin in origins:
            inbox.send(collection, FetchRobots(origin), installation.clock.now_s())
        is_running = inbox.running_crawl(collection) is not None
    if is_running:
        return Message("robots.txt will be fetched again as soon as the delay of {host} allows", host=line.host)
    return Message("robots.txt will be fetched again during the next crawl of the collection")
