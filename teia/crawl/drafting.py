"""A collection drafted by somebody who is not at this machine's keyboard: checked, made, changed (T1, A8, A10).

What a person types is judged setting by setting, so that everything that is wrong is said at once and beside where it
stands. Settings and rules that name files or code of this machine are not taken from far away; those that are less
polite than usual need somebody's consent, and those that lead into networks of our own an admin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.config import Config, keys_of, read_tree, to_toml, value_of
from teia.crawl.changing import Changed, change
from teia.crawl.collections import saved
from teia.crawl.control import Control
from teia.crawl.edits import Edit, Operator, changed_keys
from teia.crawl.effects import judge_at_rest
from teia.crawl.meaning import check, is_a_word
from teia.errors import ConfigError, StoreError, UsageError
from teia.frontier.hostrules import agreements
from teia.frontier.scope import compile_scope
from teia.lib.slowregex import is_slow
from teia.store.root import Root, checked_name
from teia.urls import from_user

SEEDS, INCLUDE, EXCLUDE, NAME = "collection.seeds", "scope.include", "scope.exclude", "collection.name"
LOCAL = frozenset({"parse.processors", "refresh.weights_file", "focus.examples", "focus.others"})
"""Settings that name files or code of this machine."""
ADMINS = frozenset(
    {"fetch.allow_nets", "fetch.resolve", "fetch.dns", "fetch.keep_alive", "fetch.at_once", "courtesy.cdn_nets"}
)
"""Settings that lead elsewhere than names and addresses of the public web."""
LEAST_DELAY_S = 1.0
MAX_SEEDS = 10_000
MAX_RULES = 2_000
TAKEN = frozenset({"new"})
"""Names that are addresses of the web interface."""
_LOCAL_RULE = re.compile(r"\s*(?:py|list|copied):|\s*@|.*\bpy:", re.DOTALL)
_EXPRESSION = re.compile(r"regex:(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one setting; of a list, `place` is the item's, from 0."""

    key: str
    message: str
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """What somebody drafted: a configuration, or what is wrong with it."""

    config: Config | None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Freedom:
    """Something in a draft that not everybody may decide; it may need the consent of those it concerns."""

    key: str
    what: str
    needs_consent: bool


# ---- judged ---------------------------------------------------------------------------------------------------------


def drafted(values: Mapping[str, Any], base: Config | None = None) -> Drafted:
    """Judge settings by their dotted keys; those that are not named are as in `base`, or as they are by default."""
    before = base or Config()
    faults = [fault for key, value in values.items() for fault in _faults_of(key, value)]
    faults += _local_faults(values, before)
    wrong, whole = {fault.key for fault in faults}, {key: value_of(before, key) for key in keys_of(Config)}
    whole |= {key: value for key, value in values.items() if key not in wrong}
    config = read_tree(Config, whole)  # the part of it that makes sense
    faults += _name_faults(config.collection.name) if base is None and NAME not in wrong else []
    faults += seed_faults(config.collection.seeds) if SEEDS not in wrong else []
    faults += _rule_faults(config, before)
    faults += _other_faults(config) if not faults else []
    return Drafted(None if faults else config, tuple(faults))


def _faults_of(key: str, value: Any) -> list[Fault]:
    if key == NAME and isinstance(value, str):
        return _name_faults(value)
    try:
        read_tree(Config, {key: value})
    except ConfigError as error:
        return [Fault(key, _without_key(str(error), key))]
    return []


def _without_key(message: str, key: str) -> str:
    """`must be a number` of `courtesy.delay_s = 'x': must be a number`."""
    start = message.find(": ", len(key)) if message.startswith(f"{key} = ") else -1
    return message[start + 2 :] if start >= 0 else message


def _local_faults(values: Mapping[str, Any], before: Config) -> list[Fault]:
    return [
        Fault(key, "names files or code of this machine and is set there, with `teia set`")
        for key in values
        if key in LOCAL and _listed(values[key]) != _listed(value_of(before, key))
    ]


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _name_faults(name: str) -> list[Fault]:
    try:
        checked_name(name)
    except StoreError as error:
        return [Fault(NAME, str(error))]
    return [Fault(NAME, f"{name!r} cannot name a collection; choose another")] if name in TAKEN else []


def seed_faults(seeds: Sequence[str]) -> list[Fault]:
    """What is wrong with seeds that somebody typed."""
    if not seeds:
        return [Fault(SEEDS, "at least one seed is needed, like https://example.org/")]
    if len(seeds) > MAX_SEEDS:
        return [Fault(SEEDS, f"{len(seeds):,} seeds are more than {MAX_SEEDS:,}")]
    wrong = [(place, seed) for place, seed in enumerate(seeds) if from_user(seed) is None or is_a_word(seed)]
    return [Fault(SEEDS, f"{seed[:200]!r} is not http or https", place) for place, seed in wrong[:20]]


def _rule_faults(config: Config, before: Config) -> list[Fault]:
    faults = []
    for key in (INCLUDE, EXCLUDE):
        rules, known = value_of(config, key), value_of(before, key)
        if len(rules) > MAX_RULES:
            faults.append(
                Fault(key, f"{len(rules):,} rules are more than {MAX_RULES:,}; block them on the machine: @FILE")
            )
            continue
        for place, rule in enumerate(rules):
            message = "" if rule in known else _wrong_rule(rule, is_kept=key == INCLUDE)
            if message:
                faults.append(Fault(key, message, place))
    return faults


def _wrong_rule(rule: str, *, is_kept: bool) -> str:
    """What is wrong with a rule that was not there before; empty if nothing is."""
    if _LOCAL_RULE.match(rule):
        return f"scope rule {rule!r}: names a file or code of this machine and is set there, with `teia set`"
    try:
        compile_scope((rule,) if is_kept else (), () if is_kept else (rule,))
    except ConfigError as error:
        return str(error)
    found = _EXPRESSION.search(rule)
    if found and is_slow(found[1].strip().rstrip(")") if "(" in rule.partition("regex:")[0] else found[1]):
        return f"scope rule {rule!r}: too slow, it would hold up every page; write it without repeats inside repeats"
    return ""


def _other_faults(config: Config) -> list[Fault]:
    """What only shows when everything is put together: dates, networks, a focus without words."""
    try:
        check(config)
    except (ConfigError, UsageError) as error:
        message = str(error)
        key = next((key for key in keys_of(Config) if message.startswith((f"{key} = ", f"{key}:"))), "")
        return [Fault(key, _without_key(message, key))]
    return []


def freedoms(config: Config, before: Config | None = None) -> list[Freedom]:
    """What in a configuration an admin has to decide, as far as it is new."""
    base = before or Config()
    courtesy, was = config.courtesy, base.courtesy
    found = []
    if courtesy.delay_s < LEAST_DELAY_S and courtesy.delay_s < was.delay_s:
        found.append(Freedom("courtesy.delay_s", f"servers rest less than {LEAST_DELAY_S:g} s", True))
    agreed_before = agreements(was.agreed_delays)
    for host, agreed in agreements(courtesy.agreed_delays).items():
        if agreed.delay_s < LEAST_DELAY_S and agreed != agreed_before.get(host):
            found.append(Freedom("courtesy.agreed_delays", f"servers rest less than {LEAST_DELAY_S:g} s", True))
            break
    if not courtesy.robots and was.robots:
        found.append(Freedom("courtesy.robots", "robots.txt is not obeyed", True))
    if courtesy.per_host > max(1, was.per_host):
        found.append(Freedom("courtesy.per_host", "a host is asked for several pages at once", True))
    changed = sorted(ADMINS.intersection(changed_keys(base, config)))
    return found + [Freedom(key, "it leads elsewhere than to the public web", False) for key in changed]


# ---- done -----------------------------------------------------------------------------------------------------------


def make_collection(root: Root, config: Config, clock: Clock) -> None:
    """Make a collection; a crawler that serves the root notices it."""
    name = config.collection.name
    if name in root.collections():
        raise UsageError(f"there is a collection {name!r} already")
    check(config)
    root.create_collection(name, to_toml(config), config.collection.cells)
    control = Control(root.path / "control.sqlite")
    try:
        control.ask_change(name, "[]", clock.now_s())
    finally:
        control.close()


def edits_between(before: Config, after: Config) -> list[Edit]:
    values = [(key, value_of(after, key)) for key in changed_keys(before, after)]
    return [Edit(key, Operator.SET, list(value) if isinstance(value, tuple) else value) for key, value in values]


def apply(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> Changed:
    """Change a collection's settings; a crawl that runs takes them up, and where none does its URLs are judged here."""
    changed = change(root, name, edits, clock)
    if not changed.running:
        with suppress(StoreError), root.locked():  # somebody crawls other collections: then the next crawl judges
            judge_at_rest(root, name, saved(root, name).config)
    return changed


def as_command(config: Config, data: str) -> str:
    """The command that begins the same collection in a terminal, given its settings in a file."""
    name = config.collection.name
    return f"teia crawl --config {name}.toml --name {name} --data {data}"
