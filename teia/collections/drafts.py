"""Collections drafted by remote users: checked, created, changed (T1, A8, A10).

Input is judged setting by setting, so that all errors are reported at once, each beside its field. Settings and rules
that name files or code of this machine are not accepted from remote users. Settings that are less polite than the
default need an explicit consent, and those that lead into private networks need an admin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.collections.control_file import ChangeSettings, Inbox
from teia.collections.preview_change import reconsider_now
from teia.collections.settings import SettingsChange, change, changed_keys, check, saved
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.config.tree import ADMIN, HERE, keys_of, read_tree, value_of
from teia.crawler.compiled_settings import is_bare_word
from teia.errors import ConfigError, StoreError, UsageError, WrongValue
from teia.frontier.queue.host_rules import agreements
from teia.frontier.rules.scope import WrongRule, compile_scope, regex_size
from teia.lib.message import Message
from teia.records import Edit
from teia.store.root import Root, check_name
from teia.urls import from_user

SEEDS, INCLUDE, EXCLUDE, NAME = "collection.seeds", "scope.include", "scope.exclude", "collection.name"
LOCAL = frozenset(key for key, each in keys_of(Config).items() if each.metadata["of_machine"] == HERE)
"""Settings that name files or code of this machine."""
ADMINS = frozenset(key for key, each in keys_of(Config).items() if each.metadata["of_machine"] == ADMIN)
"""Settings that lead to paths, addresses and networks of this machine, elsewhere than to the public web."""
MIN_DELAY_S = 1.0
MAX_SEEDS = 10_000
MAX_RULES = 2_000
MAX_REGEX_SIZE = 20_000
"""Steps of all expressions together: on the hardest URL of 2,048 characters they take half a second."""
RESERVED_BY_WEB = frozenset({"new"})
"""Names that are addresses of the web interface."""
_LOCAL_RULE = re.compile(r"\s*(?:py|list|copied):|\s*@|.*\bpy:", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SettingFault:
    """Error in one setting; in a list, `index` is the index of the item, from 0."""

    key: str
    message: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class DraftResult:
    """Result of a draft: a configuration, or the errors in it; `sound` has defaults for the wrong settings."""

    config: Config | None
    faults: tuple[SettingFault, ...]
    sound: Config


@dataclass(frozen=True, slots=True)
class RestrictedSetting:
    """A setting in a draft that not every user may decide; it may need the consent of those it concerns."""

    key: str
    what: str
    needs_consent: bool


# ---- judged ---------------------------------------------------------------------------------------------------------


def check_draft(values: Mapping[str, Any], base: Config | None = None) -> DraftResult:
    """Judge settings by their dotted keys; others are as in `base`, or have their defaults."""
    before = base or Config()
    faults = [fault for key, value in values.items() for fault in _check_setting(key, value)]
    faults += _check_local(values, before)
    wrong, whole = {fault.key for fault in faults}, {key: value_of(before, key) for key in keys_of(Config)}
    whole |= {key: value for key, value in values.items() if key not in wrong}
    config = read_tree(Config, whole)  # the part of it that makes sense
    faults += _check_name(config.collection.name) if base is None and NAME not in wrong else []
    faults += check_seeds(config.collection.seeds) if SEEDS not in wrong else []
    faults += _check_rules(config, before)
    more, sound = _check_whole(_without(config, {fault.key for fault in faults}))
    faults += more
    return DraftResult(None if faults else config, tuple(faults), sound)


def _check_setting(key: str, value: Any) -> list[SettingFault]:
    if key == NAME and isinstance(value, str):
        return _check_name(value)
    try:
        read_tree(Config, {key: value})
    except ConfigError as error:
        return [SettingFault(key, error.why if isinstance(error, WrongValue) else error.message)]
    return []


def _check_local(values: Mapping[str, Any], before: Config) -> list[SettingFault]:
    return [
        SettingFault(key, Message("refers to files or code on the server; set it there with `teia set`"))
        for key in values
        if key in LOCAL and _as_tuple(values[key]) != _as_tuple(value_of(before, key))
    ]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _check_name(name: str) -> list[SettingFault]:
    try:
        check_name(name)
    except StoreError as error:
        return [SettingFault(NAME, error.message)]
    return (
        [SettingFault(NAME, Message("{name!r} cannot be the name of a collection; choose another", name=name))]
        if name in RESERVED_BY_WEB
        else []
    )


def check_seeds(seeds: Sequence[str]) -> list[SettingFault]:
    """Return the errors in seeds that a user typed."""
    if not seeds:
        return [SettingFault(SEEDS, Message("at least one seed is required, such as https://example.org/"))]
    if len(seeds) > MAX_SEEDS:
        return [
            SettingFault(SEEDS, Message("{n:,} seeds exceed the maximum of {most:,}", n=len(seeds), most=MAX_SEEDS))
        ]
    wrong = [(index, seed) for index, seed in enumerate(seeds) if from_user(seed) is None or is_bare_word(seed)]
    return [
        SettingFault(SEEDS, Message("{url!r} is not an http or https URL", url=seed[:200]), index)
        for index, seed in wrong[:20]
    ]


def _check_rules(config: Config, before: Config) -> list[SettingFault]:
    faults = []
    for key in (INCLUDE, EXCLUDE):
        rules, known = value_of(config, key), value_of(before, key)
        if len(rules) > MAX_RULES:
            by = {"n": len(rules), "most": MAX_RULES}
            why = Message("{n:,} rules exceed the maximum of {most:,}; use a rule file on the server: @FILE", **by)
            faults.append(SettingFault(key, why))
            continue
        for index, rule in enumerate(rules):
            message = _rule_error(rule, is_include=key == INCLUDE, is_known=rule in known)
            if message:
                faults.append(SettingFault(key, message, index))
    rules = (*config.scope.include, *config.scope.exclude)
    if not faults and rules != (*before.scope.include, *before.scope.exclude) and regex_size(rules) > MAX_REGEX_SIZE:
        faults.append(
            SettingFault(
                INCLUDE, Message("the regular expressions are too large together; use fewer or smaller repetitions")
            )
        )
    return faults


def _rule_error(rule: str, *, is_include: bool, is_known: bool) -> str:
    """Return the error in a rule; empty if it can be used.

    A rule that existed before may name files and code of this machine, which are not opened here. The others are judged
    like new ones: an older version accepted expressions that cannot be used any more.
    """
    try:
        if not _LOCAL_RULE.match(rule):
            compile_scope((rule,) if is_include else (), () if is_include else (rule,))
        elif not is_known:
            why = Message("refers to a file or code on the server; set it there with `teia set`")
            return WrongRule(repr(rule), why).message
        else:
            # Files and code are not opened here, but expressions inside the rule must be usable.
            regex_size((rule,))
    except ConfigError as error:
        return error.message
    return ""


def _check_whole(config: Config) -> tuple[list[SettingFault], Config]:
    """Return the errors that only show in the whole configuration (dates, networks …), and the rest of it.

    A check ends at its first error: so a wrong setting gets its default, and the others are checked again.
    """
    faults = list[SettingFault]()
    while fault := _first_fault(config):
        faults.append(fault)
        config, former = _without(config, {fault.key}), config
        if config == former:  # no single setting is wrong
            break
    return faults, config


def _first_fault(config: Config) -> SettingFault | None:
    try:
        check(config)
    except (ConfigError, UsageError) as error:
        if isinstance(error, WrongValue):
            return SettingFault(error.key, error.why)
        # The others begin with the key of their setting.
        key = next((key for key in keys_of(Config) if re.match(rf"{re.escape(key)}\b", str(error))), "")
        return SettingFault(key, error.message)
    return None


def _without(config: Config, keys: set[str]) -> Config:
    """Return the configuration with the defaults of some settings."""
    if not keys & keys_of(Config).keys():
        return config
    return read_tree(Config, {key: value_of(config, key) for key in keys_of(Config) if key not in keys})


def restricted_settings(config: Config, before: Config | None = None) -> list[RestrictedSetting]:
    """Return the settings of a configuration that an admin has to approve, as far as they are new."""
    base = before or Config()
    courtesy, courtesy_before = config.courtesy, base.courtesy
    found = []
    too_short = Message("the delay between requests is below {n:g} s", n=MIN_DELAY_S)
    if courtesy.delay_s < MIN_DELAY_S and courtesy.delay_s < courtesy_before.delay_s:
        found.append(RestrictedSetting("courtesy.delay_s", too_short, True))
    agreed_before = agreements(courtesy_before.agreed_delays)
    for host, agreed in agreements(courtesy.agreed_delays).items():
        if agreed.delay_s < MIN_DELAY_S and agreed != agreed_before.get(host):
            found.append(RestrictedSetting("courtesy.agreed_delays", too_short, True))
            break
    if not courtesy.robots and courtesy_before.robots:
        found.append(RestrictedSetting("courtesy.robots", Message("robots.txt is ignored"), True))
    if courtesy.per_host > max(1, courtesy_before.per_host):
        found.append(RestrictedSetting("courtesy.per_host", Message("parallel requests are sent to one host"), True))
    changed = sorted(ADMINS.intersection(changed_keys(base, config)))
    return found + [
        RestrictedSetting(key, Message("addresses outside the public web are allowed"), False) for key in changed
    ]


# ---- done -----------------------------------------------------------------------------------------------------------


def create_collection(root: Root, config: Config, clock: Clock) -> None:
    """Create a collection; a crawler that serves the root notices it."""
    name = config.collection.name
    if name in root.collections():
        raise UsageError(Message("a collection named {name!r} already exists", name=name))
    check(config)
    root.create_collection(name, to_toml(config), config.collection.cells)
    with Inbox(root.control) as inbox:
        # An empty change only makes a running crawler look for new collections.
        inbox.send(name, ChangeSettings(()), clock.now_s())


def apply_change(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
    """Change a collection's settings; a running crawl applies them, and without one its URLs are judged here."""
    changed = change(root, name, edits, clock)
    if not changed.running:
        with suppress(StoreError), root.locked():  # if another process has the lock, the next crawl judges
            reconsider_now(root, name, saved(root, name).config)
    return changed


def crawl_command(config: Config, data: str) -> str:
    """Return the command that creates the same collection in a terminal, given its settings in a file."""
    name = config.collection.name
    return f"teia crawl --config {name}.toml --name {name} --data {data}"
