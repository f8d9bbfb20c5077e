"""Fields of the form in which a collection is drafted, and the settings they stand for (T1).

Every field is text as typed, so that nothing is lost when there is an error. An empty field means the setting's
default. Settings without a field of their own are written as TOML in the last field.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from teia.collections.drafts import EXCLUDE, INCLUDE, NAME, SEEDS, SettingFault
from teia.collections.edits import implied_scope
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.config.tree import flatten, from_text, keys_of, value_of
from teia.lib.message import Message

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
    values["schedule.every"] = "once" if once else f"{fields.every_number.strip()} {fields.every_unit}"
    stop = fields.stop_number.strip()
    values["schedule.stop_after"] = f"{stop} {fields.stop_unit}" if stop else ""
    values[INCLUDE], values[EXCLUDE] = _rules(fields)
    # A rule that keeps has no effect unless the scope is “my rules”; saying nothing would lose it silently.
    ineffective = [row for row in form_rules(fields) if row.do == "keep" and not row.rule.startswith(NARROWING)]
    if ineffective and fields.scope != "rules":
        faults.append(
            SettingFault(
                "scope", Message("the include rule {rule} needs the scope “my rules”", rule=ineffective[0].rule)
            )
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
