"""Make, change or clone a collection, by form and by API, with a preview of the effects (T1, A8, A10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import Depends, Form, Query, Request
from pydantic import BaseModel, Field

from teia.collections.commands import remove_collection
from teia.collections.drafts import (
    SEEDS,
    DraftResult,
    RestrictedSetting,
    SettingFault,
    apply_change,
    check_draft,
    create_collection,
    restricted_settings,
)
from teia.collections.overview import SchedulePreview, preview_schedule
from teia.collections.preview_change import ChangeEffect, count_effect
from teia.collections.preview_url import MAX_URLS
from teia.collections.settings import diff_configs, has_edits
from teia.config.sections import Config, ScheduleSettings
from teia.config.tree import flatten
from teia.errors import ConfigError, StoreError, UsageError
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.web.access.accounts import ChangeLine
from teia.web.access.roles import Role
from teia.web.collection_form import (
    CONSENT_CHARS,
    DraftView,
    Fields,
    UrlTestView,
    changes_between,
    draft_view,
    fields_from_config,
    judge_form,
    redact_changes,
    schedule_warning,
    url_test_view,
)
from teia.web.language.translate import translator_for
from teia.web.parts.collection_state import account_of
from teia.web.parts.start_crawl import start
from teia.web.server.auth import Refused, Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import (
    API,
    ActionResult,
    FormAgain,
    FormProblem,
    InstallationDep,
    PageRoutes,
    VisitorDep,
)
from teia.web.server.preferences import language_of

Settings = dict[str, dict[str, Any]]


class NewCollectionForm(BaseModel):
    """Collection to make: settings as in teia.toml, by section."""

    name: Annotated[str, Field(max_length=63)]
    settings: Settings = Field(default_factory=dict)
    start: bool = False
    consent: Annotated[str, Field(max_length=CONSENT_CHARS[1])] = ""


class SettingsForm(BaseModel):
    """Settings to change, by section; others keep their values. `dry_run` only reports the effect."""

    settings: Settings
    consent: Annotated[str, Field(max_length=CONSENT_CHARS[1])] = ""
    dry_run: bool = False


REMEDIES = frozenset({SEEDS, "fetch.allow_nets", "fetch.resolve", "fetch.dns"})
"""Settings that a user changes to get failed seeds fetched."""


@dataclass(frozen=True, slots=True)
class EditEffect:
    """Effect of a change. `now` applies to the running crawl, `later` from its next start."""

    message: str
    to: str
    is_done: bool
    effect: ChangeEffect
    changes: list[ChangeLine]
    now: list[str]
    later: list[str]


class UrlTestForm(BaseModel):
    """URLs to test, and settings to test them against, if they differ from the saved ones."""

    urls: Annotated[list[str], Field(max_length=MAX_URLS)]
    settings: Settings = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScheduleView(SchedulePreview):
    """Preview of a schedule: in words, the next five starts, and a warning."""

    warning: str = ""


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/new", "draft.html", Role.OPERATOR)(new)
    pages.page("/c/{collection}/edit", "draft.html", Role.OPERATOR)(edit)
    pages.page("/c/{collection}/clone", "draft.html", Role.OPERATOR)(clone)
    pages.action("/c/{collection}/remove", Role.ADMIN, "draft.html", remove_again)(remove)
    pages.form("/c/new", Role.OPERATOR, "draft.html")(make_by_form)
    pages.form("/c/{collection}/edit", Role.OPERATOR, "draft.html")(edit_by_form)
    pages.add("POST", "/draft", Role.OPERATOR, preview_translated, include_in_schema=False, response_model=DraftView)
    pages.api("/c", Role.OPERATOR, "make_collection")(make)
    pages.api("/c/{collection}/edit", Role.OPERATOR, "edit_collection")(change_settings)
    pages.api("/c/{collection}/scope/test", Role.OPERATOR, "try_urls")(try_urls)
    pages.api("/scope/test", Role.OPERATOR, "try_draft")(try_draft)
    pages.api("/draft", Role.OPERATOR, "look_at_draft")(preview_draft)
    pages.add("GET", f"{API}/schedule/preview", Role.VIEWER, preview, response_model=ScheduleView)


def remove_again(
    problem: FormProblem, installation: Installation, collection: str, form: RemovalForm, **_: object
) -> DraftView:
    """Return the form of a collection that was not removed, with what was typed."""
    return replace(edit(installation, collection), removal=problem, removal_typed=form.name)


def form_fields(fields: Annotated[Fields, Form()]) -> Fields:
    return fields


FieldsDep = Annotated[Fields, Depends(form_fields)]
DelayParameter = Annotated[float | Literal[""], Query()]


# ---- pages ----------------------------------------------------------------------------------------------------------


def new(installation: InstallationDep) -> DraftView:
    """Return the form of a new collection."""
    fields = fields_from_config(Config()).model_copy(update={"name": _free_name(installation, "")})
    return draft_view(installation, fields, judge_form(installation, fields, "", with_faults=False))


def edit(
    installation: InstallationDep,
    collection: str,
    delay_s: DelayParameter = "",
    policy: Annotated[str, Query(max_length=50)] = "",
) -> DraftView:
    """Return the form of an existing collection; a delay or a policy may be filled in."""
    config = installation.config(collection)
    wanted = {"courtesy.delay_s": delay_s, "refresh.policy": policy}
    values = {key: value for key, value in wanted.items() if value != ""}
    shown = _config_or_raise(check_draft(values, config)) if values else config
    fields = fields_from_config(shown)
    return draft_view(installation, fields, judge_form(installation, fields, collection), samples=True)


def clone(installation: InstallationDep, collection: str) -> DraftView:
    """Return the form of a new collection with the settings of another."""
    fields = fields_from_config(installation.config(collection)).model_copy(
        update={"name": _free_name(installation, collection)}
    )
    return draft_view(installation, fields, judge_form(installation, fields, ""))


def _free_name(installation: Installation, like: str) -> str:
    names, number = set(installation.names()), 2
    if not like:
        return "" if names else "main"
    # A name has at most 63 characters: 58, a dash and four digits.
    while f"{like[:58]}-{number}" in names:
        number += 1
    return f"{like[:58]}-{number}"


def make_by_form(installation: InstallationDep, visitor: VisitorDep, fields: FieldsDep) -> ActionResult | FormAgain:
    """Handle a button of the form of a new collection: more rows, a test, or saving."""
    return _by_form(installation, visitor, fields, "")


def edit_by_form(
    installation: InstallationDep, visitor: VisitorDep, collection: str, fields: FieldsDep
) -> ActionResult | FormAgain:
    """Handle a button of a collection's form: more rows, a test, a preview of the effect, or saving."""
    return _by_form(installation, visitor, fields, installation.check(collection))


def _by_form(installation: Installation, visitor: Visitor, fields: Fields, collection: str) -> ActionResult | FormAgain:
    form = judge_form(installation, fields, collection, visitor)
    if fields.step in {"save", "start"} and not form.problems and form.config is not None:
        if form.before is None:
            return _make(installation, visitor, form.config, fields.consent, is_started=fields.step == "start")
        # Changes are saved only if the user has seen the effect of exactly these; otherwise it is shown first.
        if fields.shown == form.shown:
            done = _change(installation, visitor, collection, form.before, form.config, fields.consent, ChangeEffect())
            return ActionResult(done.message, done.to)
    is_checked = fields.step in {"check", "save", "start"}
    return FormAgain(
        draft_view(installation, fields, form, counts=is_checked), 400 if is_checked and form.problems else 200
    )


# ---- a draft and its effects ----------------------------------------------------------------------------------------


def preview_draft(installation: InstallationDep, visitor: VisitorDep, fields: FieldsDep, c: str = "") -> DraftView:
    """Validate a form being filled in: errors, dates, effects of the rules; change nothing."""
    form = judge_form(installation, fields, installation.check(c) if c else "", visitor)
    return draft_view(installation, fields, form, samples=True)


def preview_translated(
    request: Request, visitor: VisitorDep, view: Annotated[DraftView, Depends(preview_draft)]
) -> DraftView:
    """Like `preview_draft`, with sentences in the reader's language, for our own pages."""
    return translator_for(language_of(request, visitor).tag).translate_record(view)


# ---- the API --------------------------------------------------------------------------------------------------------


def make(installation: InstallationDep, visitor: VisitorDep, form: NewCollectionForm) -> ActionResult:
    """Make a collection, and optionally start it."""
    values = {**flatten(form.settings), "collection.name": form.name}
    return _make(installation, visitor, _config_or_raise(check_draft(values)), form.consent, is_started=form.start)


def _make(
    installation: Installation, visitor: Visitor, config: Config, consent: str, *, is_started: bool
) -> ActionResult:
    name = config.collection.name
    consent_detail = _check_restricted(visitor, restricted_settings(config), consent)
    create_collection(installation.root, config, installation.clock)
    installation.accounts.log_action(
        visitor.name, Message("make collection"), collection=name, seeds=len(config.collection.seeds), **consent_detail
    )
    if not is_started:
        return ActionResult(Message("{name} was created", name=name), f"/c/{name}")
    installation.accounts.log_action(visitor.name, Message("start"), collection=name)
    return ActionResult(
        Message("{name} was created, and {when}", name=name, when=start(installation, name)), f"/c/{name}"
    )


def change_settings(
    installation: InstallationDep, visitor: VisitorDep, collection: str, form: SettingsForm
) -> EditEffect:
    """Change settings of a collection, even during its crawl; or preview the effect."""
    before = installation.config(collection)
    after = _config_or_raise(check_draft(flatten(form.settings), before))
    effect = count_effect(installation.root, collection, before, after)
    if form.dry_run:
        changes = changes_between(before, after)
        return EditEffect("nothing was changed", f"/c/{collection}/edit", False, effect, changes, [], [])
    return _change(installation, visitor, collection, before, after, form.consent, effect)


def _change(
    installation: Installation,
    visitor: Visitor,
    name: str,
    before: Config,
    after: Config,
    consent: str,
    effect: ChangeEffect,
) -> EditEffect:
    # The form and the API both end here, so neither can go around the check.
    consent_detail = _check_restricted(visitor, restricted_settings(after, before), consent)
    changes = changes_between(before, after)
    if not changes:
        return EditEffect(Message("nothing is different"), f"/c/{name}", True, effect, [], [], [])
    edits = diff_configs(before, after)

    def note() -> None:
        installation.accounts.log_action(
            visitor.name, Message("change settings"), redact_changes(changes), collection=name, **consent_detail
        )
        if installation.supervisor is not None:
            installation.supervisor.wake()

    seeds_failed = bool(account_of(installation, name)[0].get("failed_seeds"))
    try:
        changed = apply_change(installation.root, name, edits, installation.clock)
    except StoreError:  # the edits may be saved all the same: a crawl that did not answer in time reads them later
        if has_edits(installation.config(name), edits):
            note()
        raise
    note()
    now, later = list(changed.now), list(changed.later) if changed.running else []
    message = _saved_message(now, later, changed.running)
    # A wrong seed was corrected, or its address allowed: there is nothing else that the crawl could have waited for.
    is_cure = not REMEDIES.isdisjoint(each.key for each in changes)
    if seeds_failed and not changed.running and is_cure and installation.supervisor:
        start(installation, name)
        message = Message("Saved; the crawl starts with it now.")
    return EditEffect(message, f"/c/{name}", True, effect, changes, now, later)


def _saved_message(now: list[str], later: list[str], is_running: bool) -> Message:
    """Tell when saved settings take effect."""
    if not is_running:
        return Message("Saved; the next crawl uses it.")
    if not later:
        return Message("Saved; the running crawl uses it now.")
    if not now:
        return Message("Saved; the crawl uses it from its next start.")
    return Message("Saved; the running crawl uses it now, except from its next start: {keys}", keys=", ".join(later))


def _config_or_raise(draft: DraftResult) -> Config:
    if draft.config is None:
        fault = draft.faults[0]
        raise WrongSetting(fault)
    return draft.config


class WrongSetting(ConfigError):
    """Raised for an invalid setting; `field` is its dotted key."""

    def __init__(self, fault: SettingFault) -> None:
        key, why = fault.key, fault.message
        super().__init__(Message("{field}: {why}", field=key, why=why) if key else why)
        self.field = fault.key


def _check_restricted(visitor: Visitor, needs: list[RestrictedSetting], consent: str) -> dict[str, str]:
    """Refuse settings that the user may not decide; return the consent to note in the audit log."""
    if needs and not visitor.may(Role.ADMIN):
        message = Message("this requires the role admin: {what} ({key})", what=needs[0].what, key=needs[0].key)
        raise Refused(403, message, Message("ask an admin"))
    if not any(setting.needs_consent for setting in needs):
        return {}
    if len(consent.strip()) < CONSENT_CHARS[0]:
        raise UsageError(Message("{what}: enter in `consent` who approved it; it is logged", what=needs[0].what))
    return {"consent": consent.strip()[: CONSENT_CHARS[1]]}


def try_urls(installation: InstallationDep, collection: str, form: UrlTestForm) -> UrlTestView:
    """Test whether URLs would be crawled: every step, and the rule that decides; no request is sent."""
    before = installation.config(collection)
    config = _config_or_raise(check_draft(flatten(form.settings), before)) if form.settings else before
    return url_test_view(installation, collection, config, form.urls)


def try_draft(installation: InstallationDep, form: UrlTestForm) -> UrlTestView:
    """Test whether URLs would be crawled by a collection that does not exist yet."""
    values = {"collection.name": "main", **flatten(form.settings)}
    return url_test_view(installation, "", _config_or_raise(check_draft(values)), form.urls)


Text = Annotated[str, Query(max_length=100)]


def preview(
    installation: InstallationDep,
    start: Text = "",
    zone: Text = "",
    every: Text = "once",
    stop_after: Text = "",
    until: Text = "",
    keep_fresh: bool = False,
    c: Text = "",
) -> ScheduleView:
    """Describe a schedule in words, with the dates of its next five runs."""
    given = {"start": start, "zone": zone, "every": every, "stop_after": stop_after, "until": until}
    settings = ScheduleSettings(**given, keep_fresh=keep_fresh)
    found = preview_schedule(settings, installation.clock.now_s())
    warning = ""
    if c:
        base = installation.config(c)
        values = {f"schedule.{name}": value for name, value in {**given, "keep_fresh": keep_fresh}.items()}
        warning = schedule_warning(installation, c, _config_or_raise(check_draft(values, base)))
    return copy_fields(ScheduleView, found, warning=warning)


class RemovalForm(BaseModel):
    """Name of a collection, typed by the user to confirm its removal with all its data."""

    name: Annotated[str, Field(max_length=64)]


def remove(installation: InstallationDep, visitor: VisitorDep, collection: str, form: RemovalForm) -> ActionResult:
    """Remove a collection with all its data; the user types its name to confirm."""
    installation.check(collection)
    if form.name.strip() != collection:
        raise UsageError(Message("type the name {name} to remove it; nothing was removed", name=collection), "name")
    remove_collection(installation.root, collection, installation.clock)
    installation.forget(collection)
    installation.accounts.log_action(visitor.name, Message("remove collection"), collection=collection)
    return ActionResult(Message("{name} was removed", name=collection), "/c")
