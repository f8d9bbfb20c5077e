"""Draft of a collection: the form's fields so far, their errors, and the settings they would give."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from teia.collections.calendar import parse_schedule
from teia.collections.drafts import (
    EXCLUDE,
    INCLUDE,
    RestrictedSetting,
    SettingFault,
    check_draft,
    crawl_command,
    diff_configs,
    restricted_settings,
)
from teia.collections.edits import implied_scope
from teia.collections.overview import SchedulePreview, largest_host, preview_schedule, warn_too_long
from teia.collections.preview_change import ChangeEffect, count_effect, sample_effect
from teia.collections.preview_url import MAX_URLS, UrlTester, UrlTestResult
from teia.config.load import to_toml, toml_value
from teia.config.sections import Config, ScheduleSettings
from teia.crawler.lookup import Lookup
from teia.errors import ConfigError, StoreError
from teia.frontier.rules.lint import lint
from teia.lib.message import Message
from teia.web import limits
from teia.web.access.change_log import ChangeLine
from teia.web.access.roles import Role
from teia.web.forms.fields import BLANK_ROWS, Fields, FormRule, field_of, form_rules, settings_from_fields
from teia.web.server.auth import Visitor
from teia.web.server.installation import Installation

LARGEST_S = 60.0
CONSENT_CHARS = (3, 500)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """Error in one field; `row` is the number of a rule, from 1."""

    field: str
    message: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class RuleRow:
    """Row of the table of rules.

    `number` is the rule's number for the crawler; `matches` is the approximate number of known URLs that match it.
    """

    do: str
    kind: str
    value: str
    number: int | None = None
    problem: str = ""
    remark: str = ""
    matches: int | None = None


@dataclass(frozen=True, slots=True)
class DraftView:
    """A draft and its effects. `collection` is empty for one that does not exist yet.

    `shown` is a digest of the changes; a client sends it back on saving, to confirm that the user has seen them.
    """

    collection: str
    fields: dict[str, Any]
    rules: list[RuleRow]
    known: int
    problems: list[FieldProblem]
    preview: SchedulePreview
    warning: str
    tried: list[UrlTestResult]
    needs: list[RestrictedSetting]
    changes: list[ChangeLine]
    effect: ChangeEffect | None
    shown: str
    toml: str
    command: str
    zone: str

    def problem(self, field: str) -> str:
        return next((each.message for each in self.problems if each.field == field), "")


@dataclass(frozen=True, slots=True)
class UrlTestView:
    """Results of testing URLs against the rules, and the numbered rules."""

    rules: list[str]
    tried: list[UrlTestResult]


def make_draft_view(
    site: Installation,
    fields: Fields,
    collection: str,
    *,
    visitor: Visitor | None = None,
    counts: bool = False,
    samples: bool = False,
    with_faults: bool = True,
) -> DraftView:
    """Validate a draft and compute its effects.

    `counts` counts its effect on the queue exactly; `samples` estimates how many URLs its rules match.
    """
    before = site.config(collection) if collection else None
    # 1. The typed text becomes settings; these are checked against the rules of the collection.
    values, unreadable = settings_from_fields(fields, before)
    draft = check_draft(values, before)
    faults = [*unreadable, *draft.faults] if with_faults else []
    # Settings from the readable half of a form would mislead.
    config = draft.config if not unreadable else None
    needs = [] if config is None else restricted_settings(config, before)
    problems = _problems(faults, form_rules(fields))
    # 2. Settings that an admin must decide, or that need the consent of a site's owner.
    if visitor is not None and config is not None:
        problems += _consent_problems(site, visitor, fields, needs, collection)
    # 3. The effect on known URLs: estimated from a sample, or counted before saving.
    sampled = sample_effect(site.root, collection, config, site.clock) if samples and collection and config else None
    effect = (
        count_effect(site.root, collection, before, config) if counts and before and config and not problems else None
    )
    schedule, warning = _schedule(site, collection, values, config)
    changes = [] if before is None or config is None else changes_between(before, config)
    return DraftView(
        collection=collection,
        fields=fields.model_dump(),
        rules=_rule_rows(fields, config, problems, None if sampled is None else sampled.matches),
        known=0 if sampled is None else sampled.effect.known,
        problems=problems,
        preview=schedule,
        warning=warning,
        tried=_test_urls(site, fields, collection, config),
        needs=needs,
        changes=changes,
        effect=effect,
        shown=_digest(changes),
        toml="" if config is None else to_toml(config),
        command="" if config is None else crawl_command(config, str(site.root.path)),
        # Any start will do: only the name of the default time zone is wanted.
        zone=preview_schedule(ScheduleSettings(start="2026-01-01"), 0.0).zone,
    )


def _problems(faults: list[SettingFault], rows: list[FormRule]) -> list[FieldProblem]:
    includes = sum(row.do == "keep" for row in rows)
    problems = []
    for fault in faults:
        index = fault.index if fault.key in {INCLUDE, EXCLUDE} else None
        # `keep` rows come first in the table; the places of other rules begin again at 0.
        row = None if index is None else index + 1 + (includes if fault.key == EXCLUDE else 0)
        problems.append(FieldProblem(field_of(fault), fault.message, row))
    return problems


def _consent_problems(
    site: Installation, visitor: Visitor, fields: Fields, needs: list[RestrictedSetting], collection: str
) -> list[FieldProblem]:
    problems = []
    if needs and not visitor.may(Role.ADMIN):
        problems.append(FieldProblem("consent", Message("an admin must approve this: {what}", what=needs[0].what)))
    elif any(setting.needs_consent for setting in needs) and len(fields.consent.strip()) < CONSENT_CHARS[0]:
        problems.append(FieldProblem("consent", Message("enter who approved this; it is logged")))
    if not collection and fields.name.strip() in site.names():
        problems.append(
            FieldProblem("name", Message("a collection named {name} already exists", name=fields.name.strip()))
        )
    return problems


def _rule_rows(
    fields: Fields, config: Config | None, problems: list[FieldProblem], matches: tuple[int, ...] | None
) -> list[RuleRow]:
    """Return the table of rules: the non-empty ones, numbered, and some blank rows."""
    rows = form_rules(fields)
    implied = 0
    remarks: dict[int, str] = {}
    include = [row.rule for row in rows if row.do == "keep"]
    exclude = [row.rule for row in rows if row.do == "skip"]
    if config is not None:
        included = config.scope.include or implied_scope(config.collection.seeds)
        # Rules implied by the scope or the seeds come first, and shift the numbers of the typed ones.
        implied = len(included) - len(include)
        remarks = {each.index: each.message for each in lint(included, exclude, config.collection.seeds)}
    found = []
    for index, row in enumerate(rows):
        problem = next((each.message for each in problems if each.row == index + 1), "")
        at = index + implied
        count = matches[at] if matches is not None and at < len(matches) else None
        found.append(RuleRow(row.do, row.kind, row.value, at + 1, problem, remarks.get(at, ""), count))
    blank = BLANK_ROWS + (5 if fields.step == "rows" else 0)
    return found + [RuleRow("skip" if rows else "keep", "domain", "") for _ in range(blank)]


def _schedule(
    site: Installation, collection: str, values: dict[str, Any], config: Config | None
) -> tuple[SchedulePreview, str]:
    try:
        texts = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("schedule.")}
        settings = ScheduleSettings(**texts)
        found = preview_schedule(settings, site.clock.now_s())
    except (ConfigError, TypeError):
        return SchedulePreview(), ""
    return found, "" if config is None else schedule_warning(site, collection, config)


def schedule_warning(site: Installation, collection: str, config: Config) -> str:
    """Return a warning if runs will stop before the end, judged by the largest known host; otherwise empty."""
    schedule = parse_schedule(config.schedule)
    if schedule is None or not collection:
        return ""

    def make() -> tuple[str, int]:
        return largest_host(site.root, collection)

    found = site.cache.get_or_none(("largest host", collection), make, LARGEST_S, 0.5)
    return "" if found is None else warn_too_long(*found.value, config.courtesy.delay_s, schedule)


def _test_urls(site: Installation, fields: Fields, collection: str, config: Config | None) -> list[UrlTestResult]:
    typed = [line.strip() for line in fields.tries.splitlines() if line.strip()][:MAX_URLS]
    if not typed or config is None:
        return []
    return url_test_view(site, collection, config, typed).tried


def changes_between(before: Config, after: Config) -> list[ChangeLine]:
    found = []
    for each in diff_configs(before, after):
        section, _, name = each.key.partition(".")
        old = getattr(getattr(before, section), name)
        found.append(ChangeLine(each.key, toml_value(old), toml_value(each.value)))
    return found


def _digest(changes: list[ChangeLine]) -> str:
    """Return the digest of the changes that a user confirms on saving."""
    text = json.dumps([(each.key, each.after) for each in changes])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def url_test_view(site: Installation, collection: str, config: Config, urls: list[str]) -> UrlTestView:
    until_s = site.clock.ticks_s() + limits.TRY_S

    def view(lookup: Lookup | None) -> UrlTestView:
        trial = UrlTester(config, lookup)
        return UrlTestView(list(trial.rules), trial.test_all(urls, lambda: site.clock.ticks_s() > until_s))

    if not collection:
        return view(None)
    try:
        with Lookup(site.root, collection) as lookup:
            return view(lookup)
    except StoreError:  # the collection was never crawled
        return view(None)
