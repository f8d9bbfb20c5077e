"""The form in which a collection is drafted: its fields, the settings they stand for, errors and effects (T1).

Every field is text as typed, so that nothing is lost when there is an error. An empty field means the setting's
default. Settings without a field of their own are written as TOML in the last field.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from teia.collections.calendar import parse_schedule
from teia.collections.drafts import (
    EXCLUDE,
    INCLUDE,
    NAME,
    SEEDS,
    RestrictedSetting,
    SettingFault,
    check_draft,
    crawl_command,
    restricted_settings,
)
from teia.collections.overview import SchedulePreview, largest_host, preview_schedule, warn_too_long
from teia.collections.preview_change import ChangeEffect, count_effect, sample_effect
from teia.collections.preview_url import MAX_URLS, UrlTester, UrlTestResult, UrlTestStep
from teia.collections.settings import diff_configs, implied_scope
from teia.config.load import to_toml, toml_value
from teia.config.sections import Config, CourtesySettings, ScheduleSettings
from teia.config.tree import flatten, from_text, keys_of, value_of
from teia.crawler.lookup import Lookup
from teia.errors import ConfigError, StoreError
from teia.frontier.rules.lint import lint
from teia.lib.message import Message
from teia.notify.subscriptions import redact_webhook
from teia.web import limits
from teia.web.access.accounts import ChangeLine
from teia.web.access.roles import Role
from teia.web.server.auth import Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import NO_PROBLEM, FormProblem

MEBIBYTE = 1 << 20
PRESETS = {"5": 5.0, "60": 60.0, "1": 1.0}
KINDS = ("domain", "host", "suffix", "prefix", "regex", "query", "type", "lang", "rule")
UNITS = ("minutes", "hours", "days", "weeks", "months")
BLANK_ROWS = 3
MAX_ROWS = 150
"""Most rules shown as rows; further ones are shown as lines of text."""
NARROWING = ("type:", "lang:", "query:no")
"""Rules that narrow the matches of other rules, and match nothing by themselves."""

TEXT_FIELDS = {
    "max_pages": "limits.pages",
    "max_seconds": "limits.seconds",
    "max_depth": "scope.max_depth",
    "fetch_s": "limits.fetch_s",
    "pages_per_host": "limits.pages_per_host",
    "pages_per_site": "limits.pages_per_site",
    "contact": "courtesy.contact",
    "start": "schedule.start",
    "zone": "schedule.zone",
    "until": "schedule.until",
    "order": "collection.order",
    "kind": "collection.kind",
}
"""Fields that hold the text of one setting."""
CHECKBOXES = {
    "queries": "scope.queries",
    "robots": "courtesy.robots",
    "keep_fresh": "schedule.keep_fresh",
    "keep": "refresh.keep",
    "index": "index.enabled",
    "semantics": "index.semantics",
    "requisites": "archive.requisites",
    "public_search": "public.search",
    "public_copies": "public.copies",
}
"""Fields that are check boxes."""
OTHER_FIELDS = {
    "name": NAME,
    "seeds": SEEDS,
    "rules": INCLUDE,
    "body_mib": "limits.body_bytes",
    "delay_s": "courtesy.delay_s",
    "every": "schedule.every",
    "stop": "schedule.stop_after",
    "types": "scope.types",
}
FIELD_OF = {key: field for names in (TEXT_FIELDS, CHECKBOXES, OTHER_FIELDS) for field, key in names.items()} | {
    EXCLUDE: "rules"
}


class Fields(BaseModel):
    """Values of the form."""

    name: str = ""
    seeds: str = ""
    kind: str = ""
    scope: str = "sites"
    suffix: str = ""
    rule_do: list[str] = Field(default_factory=list)
    rule_kind: list[str] = Field(default_factory=list)
    rule_value: list[str] = Field(default_factory=list)
    rule_lines: str = ""
    queries: str = ""
    max_pages: str = ""
    max_seconds: str = ""
    max_depth: str = ""
    body_mib: str = ""
    fetch_s: str = ""
    pages_per_host: str = ""
    pages_per_site: str = ""
    delay: str = "5"
    delay_s: str = ""
    robots: str = ""
    contact: str = ""
    consent: str = ""
    start: str = ""
    zone: str = ""
    every_number: str = ""
    every_unit: str = "once"
    stop_number: str = ""
    stop_unit: str = "hours"
    until: str = ""
    keep_fresh: str = ""
    keep: str = ""
    types: str = ""
    order: str = ""
    index: str = ""
    semantics: str = ""
    requisites: str = ""
    public_search: str = ""
    public_copies: str = ""
    more: str = ""
    tries: str = ""
    step: str = ""
    shown: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True)
class FormRule:
    """One rule of the form."""

    do: str
    kind: str
    value: str

    @property
    def rule(self) -> str:
        value = self.value.strip()
        return value if self.kind == "rule" else f"{self.kind}:{value}"


def form_rules(fields: Fields) -> list[FormRule]:
    """Return the typed rules, `keep` rules first: the order in which the crawler numbers them."""
    # A form sends three lists of one length; an API client may send others.
    typed = zip(fields.rule_do, fields.rule_kind, fields.rule_value, strict=False)
    rows = [FormRule("skip" if do == "skip" else "keep", kind, value) for do, kind, value in typed if value.strip()]
    for line in fields.rule_lines.splitlines():
        do, _, rule = line.strip().partition(" ")
        if do:
            rows.append(
                _parse_rule(do if do in {"keep", "skip"} else "keep", rule if do in {"keep", "skip"} else line.strip())
            )
    # The sort is stable: rules of one kind stay in their order.
    return sorted(rows, key=lambda row: row.do != "keep")


def _parse_rule(do: str, rule: str) -> FormRule:
    kind, colon, value = rule.strip().partition(":")
    return FormRule(do, kind, value) if colon and kind in KINDS[:-1] else FormRule(do, "rule", rule.strip())


# ---- from settings --------------------------------------------------------------------------------------------------


def fields_from_config(config: Config) -> Fields:
    """Return the form that stands for a configuration."""
    include, exclude = config.scope.include, config.scope.exclude
    scope = "sites" if not include else "rules"
    suffix = include[0].removeprefix("suffix:") if len(include) == 1 and include[0].startswith("suffix:") else ""
    included = [] if suffix else [_parse_rule("keep", rule) for rule in include]
    rows = [*included, *(_parse_rule("skip", rule) for rule in exclude)]
    shown, others = rows[:MAX_ROWS], rows[MAX_ROWS:]
    every, stop = _split_amount(config.schedule.every), _split_amount(config.schedule.stop_after)
    preset = next((name for name, delay_s in PRESETS.items() if delay_s == config.courtesy.delay_s), "other")
    plain = {name: _format_value(config, key) for name, key in TEXT_FIELDS.items()}
    # The default is no contact at all; an empty field stands for it.
    if plain["contact"] == CourtesySettings().contact:
        plain["contact"] = ""
    checks = {name: "yes" if value_of(config, key) else "" for name, key in CHECKBOXES.items()}
    return Fields(
        **{**plain, **checks},
        name=config.collection.name,
        seeds="\n".join(config.collection.seeds),
        scope="suffix" if suffix else scope,
        suffix=suffix,
        rule_do=[row.do for row in shown],
        rule_kind=[row.kind for row in shown],
        rule_value=[row.value for row in shown],
        rule_lines="\n".join(f"{row.do} {row.rule}" for row in others),
        body_mib=f"{config.limits.body_bytes / MEBIBYTE:g}",
        delay=preset,
        delay_s="" if preset != "other" else f"{config.courtesy.delay_s:g}",
        every_number=every[0],
        every_unit=every[1] or "once",
        stop_number=stop[0],
        stop_unit=stop[1] or "hours",
        types=" ".join(config.scope.types),
        more=_other_settings(config),
    )


def _format_value(config: Config, key: str) -> str:
    value = value_of(config, key)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _split_amount(text: str) -> tuple[str, str]:
    """Split `7 days` into its two fields; return empty fields for other spellings."""
    number, _, unit = text.strip().lower().partition(" ")
    if not number.isdigit():
        number, unit = "1", number
    unit = unit.strip().removesuffix("s") + "s"
    return (number, unit) if unit in UNITS else ("", "")


def _join_amount(number: str, unit: str) -> str:
    """Return the setting of two fields, spelt as `_split_amount` takes it apart; empty without a number."""
    typed = f"{number.strip()} {unit}" if number.strip() else ""
    return " ".join(_split_amount(typed)).strip() or typed


def _other_settings(config: Config) -> str:
    """Return the settings without a field that differ from their defaults, as TOML."""
    # Reset every setting that has a field to its default; `to_toml` then writes only the others.
    hidden = replace(config)
    for key in (*FIELD_OF, "collection.cells"):
        section, _, name = key.partition(".")
        part = replace(getattr(hidden, section), **{name: value_of(Config(), key)})
        hidden = replace(hidden, **{section: part})
    return to_toml(hidden)


# ---- to settings ----------------------------------------------------------------------------------------------------


def settings_from_fields(fields: Fields, base: Config | None = None) -> tuple[dict[str, Any], list[SettingFault]]:
    """Return the settings of a form by dotted keys, and errors of fields that cannot be parsed."""
    values, faults = _more(fields.more)
    default = Config()
    for name, key in TEXT_FIELDS.items():
        text = getattr(fields, name).strip()
        values[key] = from_text(Config, key, text.replace(",", "")) if text and _is_number(key) else text
        if not text:
            values[key] = value_of(default, key)
    # A `datetime-local` input sends `2026-11-21T02:00`.
    if values["schedule.start"]:
        values["schedule.start"] = values["schedule.start"].replace("T", " ")
    values |= {key: bool(getattr(fields, name)) for name, key in CHECKBOXES.items()}
    # The name of an existing collection cannot be changed.
    if base is None:
        values[NAME] = fields.name.strip()
    values[SEEDS] = [line.strip() for line in fields.seeds.splitlines() if line.strip()]
    values["scope.types"] = [word for word in fields.types.replace(",", " ").split() if word]
    values["limits.body_bytes"] = _mebibytes(fields.body_mib, default.limits.body_bytes)
    # A preset, or the number typed for `other`.
    values["courtesy.delay_s"] = PRESETS.get(fields.delay, fields.delay_s.strip())
    if isinstance(values["courtesy.delay_s"], str):
        values["courtesy.delay_s"] = from_text(Config, "courtesy.delay_s", values["courtesy.delay_s"].replace(",", "."))
    once = fields.every_unit == "once" or not fields.every_number.strip()
    values["schedule.every"] = "once" if once else _join_amount(fields.every_number, fields.every_unit)
    values["schedule.stop_after"] = _join_amount(fields.stop_number, fields.stop_unit)
    values[INCLUDE], values[EXCLUDE] = _rules(fields)
    # A rule that keeps has no effect unless the scope is “my rules”; saying nothing would lose it silently.
    ineffective = [row for row in form_rules(fields) if row.do == "keep" and not row.rule.startswith(NARROWING)]
    if ineffective and fields.scope != "rules":
        faults.append(
            SettingFault("scope", Message("include rules need Scope = custom rules: {rule}", rule=ineffective[0].rule))
        )
    return values, faults


def _rules(fields: Fields) -> tuple[list[str], list[str]]:
    rows = form_rules(fields)
    included, excluded = ([row.rule for row in rows if row.do == do] for do in ("keep", "skip"))
    narrowing = [rule for rule in included if rule.startswith(NARROWING)]
    if fields.scope == "suffix":
        included = [f"suffix:{fields.suffix.strip()}", *narrowing]
    elif fields.scope != "rules":  # narrowing rules alone would admit every URL, so the implied scope is added
        included = [*implied_scope(fields.seeds.splitlines()), *narrowing] if narrowing else []
    return included, excluded


def _is_number(key: str) -> bool:
    return isinstance(value_of(Config(), key), (int, float))


def _mebibytes(text: str, default: int) -> Any:
    text = text.strip().replace(",", ".")
    if not text:
        return default
    try:
        return int(float(text) * MEBIBYTE)
    except (ValueError, OverflowError):
        return text


def _more(text: str) -> tuple[dict[str, Any], list[SettingFault]]:
    try:
        values = flatten(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return {}, [SettingFault("more", Message("not valid TOML: {why}", why=error))]
    known = keys_of(Config)
    faults = [SettingFault("more", Message("unknown setting {key!r}", key=key)) for key in values if key not in known]
    faults += [
        SettingFault("more", Message("{key} has its own field above", key=key)) for key in values if key in FIELD_OF
    ]
    faults += [
        SettingFault("more", Message("{key} is fixed when a collection is created", key=key))
        for key in values
        if key == "collection.cells"
    ]
    return {key: value for key, value in values.items() if key in known and key not in FIELD_OF}, faults


def field_of(fault: SettingFault) -> str:
    """Return the field that a fault concerns; settings without a field are in `more`."""
    return fault.key if fault.key in Fields.model_fields else FIELD_OF.get(fault.key, "more")


# ---- the draft and its effects ---------------------------------------------------------------------------------------

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
    `removal` is the problem of a removal that failed, with what was typed.
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
    removal: FormProblem = NO_PROBLEM
    removal_typed: str = ""

    def problem(self, field: str) -> str:
        return next((each.message for each in self.problems if each.field == field), "")

    def picker(self, field: str) -> tuple[str, str]:
        """Return the type and the value of the input for a date or a time: a picker, unless its text is no date."""
        typed = str(self.fields[field]).strip()
        kind, form = ("date", "%Y-%m-%d") if field == "until" else ("datetime-local", "%Y-%m-%dT%H:%M")
        if not typed:
            return kind, ""
        with suppress(ValueError):
            shown = datetime.fromisoformat(typed).strftime(form)
            # A picker must send the same again: it has neither seconds nor a zone.
            if shown == typed.replace(" ", "T"):
                return kind, shown
        return "text", typed


@dataclass(frozen=True, slots=True)
class UrlTestView:
    """Results of testing URLs against the rules, and the numbered rules."""

    rules: list[str]
    tried: list[UrlTestResult]


@dataclass(frozen=True, slots=True)
class JudgedForm:
    """A form that was read: its settings, and the errors in them. Without errors there is a configuration."""

    collection: str
    before: Config | None
    values: dict[str, Any]
    config: Config | None
    problems: list[FieldProblem]
    needs: list[RestrictedSetting]
    changes: list[ChangeLine]

    @property
    def shown(self) -> str:
        """Digest of the changes, which a user confirms on saving."""
        text = json.dumps([(each.key, each.after) for each in self.changes])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def judge_form(
    installation: Installation,
    fields: Fields,
    collection: str,
    visitor: Visitor | None = None,
    *,
    with_faults: bool = True,
) -> JudgedForm:
    """Read the fields of a form and judge the settings they stand for."""
    before = installation.config(collection) if collection else None
    # 1. The typed text becomes settings; these are checked against the rules of the collection.
    values, unreadable = settings_from_fields(fields, before)
    draft = check_draft(values, before)
    faults = [*unreadable, *draft.faults] if with_faults else []
    # Settings from the readable half of a form would mislead.
    config = draft.config if not unreadable else None
    # Also beside errors, so that all wrong fields are marked at once.
    needs = restricted_settings(draft.sound, before)
    problems = _problems(faults, form_rules(fields))
    # 2. Settings that an admin must decide, or that need the consent of a site's owner.
    if visitor is not None:
        problems += _consent_problems(installation, visitor, fields, needs, collection)
    changes = [] if before is None or config is None else changes_between(before, config)
    return JudgedForm(collection, before, values, config, problems, needs, changes)


def draft_view(
    installation: Installation, fields: Fields, judged: JudgedForm, *, counts: bool = False, samples: bool = False
) -> DraftView:
    """Compute the effects of a form that was judged.

    `counts` counts its effect on the queue exactly; `samples` estimates how many URLs its rules match.
    """
    collection, before, config, problems = judged.collection, judged.before, judged.config, judged.problems
    sampled = (
        sample_effect(installation.root, collection, config, installation.clock)
        if samples and collection and config
        else None
    )
    must_count = counts and not problems
    effect = count_effect(installation.root, collection, before, config) if must_count and before and config else None
    schedule, warning = _schedule(installation, collection, judged.values, config)
    return DraftView(
        collection=collection,
        fields=fields.model_dump(),
        rules=_rule_rows(fields, config, problems, None if sampled is None else sampled.matches),
        known=0 if sampled is None else sampled.effect.known,
        problems=problems,
        preview=schedule,
        warning=warning,
        tried=_test_urls(installation, fields, collection, config),
        needs=judged.needs,
        changes=judged.changes,
        effect=effect,
        shown=judged.shown,
        toml="" if config is None else to_toml(config),
        command="" if config is None else crawl_command(config, str(installation.root.path)),
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
    installation: Installation, visitor: Visitor, fields: Fields, needs: list[RestrictedSetting], collection: str
) -> list[FieldProblem]:
    problems = []
    if needs and not visitor.may(Role.ADMIN):
        problems.append(FieldProblem("consent", Message("an admin must approve this: {what}", what=needs[0].what)))
    elif any(setting.needs_consent for setting in needs) and len(fields.consent.strip()) < CONSENT_CHARS[0]:
        problems.append(FieldProblem("consent", Message("enter who approved this; it is logged")))
    if not collection and fields.name.strip() in installation.names():
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
    installation: Installation, collection: str, values: dict[str, Any], config: Config | None
) -> tuple[SchedulePreview, str]:
    try:
        texts = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("schedule.")}
        settings = ScheduleSettings(**texts)
        found = preview_schedule(settings, installation.clock.now_s())
    except (ConfigError, TypeError):
        return SchedulePreview(), ""
    return found, "" if config is None else schedule_warning(installation, collection, config)


def schedule_warning(installation: Installation, collection: str, config: Config) -> str:
    """Return a warning if runs will stop before the end, judged by the largest known host; otherwise empty."""
    schedule = parse_schedule(config.schedule)
    if schedule is None or not collection:
        return ""

    def make() -> tuple[str, int]:
        return largest_host(installation.root, collection)

    found = installation.cache.get_or_none(("largest host", collection), make, LARGEST_S, 0.5)
    return "" if found is None else warn_too_long(*found.value, config.courtesy.delay_s, schedule)


TESTED = ("collection.seeds", "scope.")
"""Settings that decide whether a URL is crawled."""

UNTESTED = {"scope.max_depth"}
"""Settings of these sections that do not: a URL that was typed has no depth."""


def _test_urls(
    installation: Installation, fields: Fields, collection: str, config: Config | None
) -> list[UrlTestResult]:
    typed = [line.strip() for line in fields.tries.splitlines() if line.strip()][:MAX_URLS]
    if not typed:
        return []
    if config is None:
        # Errors in other fields do not matter to the test: it uses the seeds and the scope.
        before = installation.config(collection) if collection else None
        values = settings_from_fields(fields, before)[0]
        tested = {key: values[key] for key in values if key.startswith(TESTED) and key not in UNTESTED}
        draft = check_draft(tested if collection else {**tested, "collection.name": "untitled"}, before)
        config, untested = draft.config, [UrlTestStep("rules", "unknown", each.message) for each in draft.faults]
        if config is None:
            return [UrlTestResult(url, None, False, untested[0].detail, tuple(untested[:1])) for url in typed]
    return url_test_view(installation, collection, config, typed).tried


def changes_between(before: Config, after: Config) -> list[ChangeLine]:
    found = []
    for each in diff_configs(before, after):
        section, _, name = each.key.partition(".")
        old = getattr(getattr(before, section), name)
        found.append(ChangeLine(each.key, toml_value(old), toml_value(each.value)))
    return found


def redact_changes(changes: Sequence[ChangeLine]) -> list[ChangeLine]:
    """Return changes as they may be recorded: the address of a webhook may contain a key."""
    return [
        replace(each, before=redact_webhook(each.before.strip('"')), after=redact_webhook(each.after.strip('"')))
        if each.key == "alerts.webhook"
        else each
        for each in changes
    ]


def url_test_view(installation: Installation, collection: str, config: Config, urls: list[str]) -> UrlTestView:
    until_s = installation.clock.ticks_s() + limits.TRY_S

    def view(lookup: Lookup | None) -> UrlTestView:
        trial = UrlTester(config, lookup)
        return UrlTestView(list(trial.rules), trial.test_all(urls, lambda: installation.clock.ticks_s() > until_s))

    if not collection:
        return view(None)
    try:
        with Lookup(installation.root, collection) as lookup:
            return view(lookup)
    except StoreError:  # the collection was never crawled
        return view(None)
