"""Changes to the settings of a collection, as people write them (A10).

    courtesy.delay_s=2            a value
    scope.exclude+=domain:a.test  one more in a list
    scope.exclude-=domain:a.test  one less

Edits are idempotent: adding an existing item and setting the current value change nothing. So one process can write a
change to the file, another can apply it, and an unsure user can repeat it, in any order of deaths.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from teia.config.flags import FLAGS
from teia.config.sections import Config
from teia.config.tree import from_text, keys_of, read_tree, value_of
from teia.errors import ConfigError, UsageError
from teia.frontier.rules.scope import seeds_scope
from teia.lib.message import Message
from teia.urls import from_user

FIXED = frozenset({"collection.name", "collection.cells"})
"""Settings fixed when a collection is created; they cannot be changed."""


def _keys(**sections: str) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for section, names in sections.items() for name in names.split())


LIVE = _keys(
    collection="seeds",
    scope="include exclude types queries max_depth",
    courtesy="delay_s response_factor per_host max_hosts retry_wait_s robots robots_max_age_s max_crawl_delay_s"
    " host_delays agreed_delays paused",
    limits="pages seconds pages_per_host host_budgets pages_per_site redirects body_bytes decoded_bytes decoded_ratio"
    " robots_bytes url_chars url_segments links_per_page disk_free_bytes",
    parse="text processors waiting_pages waiting_bytes",
    archive="requisites answers",
    commit="every_s every_pages",
)
"""Settings that a running crawl applies at once. The others are read at its start and take effect at the next."""

SHARED = _keys(
    courtesy="delay_s response_factor per_host max_hosts robots_max_age_s max_crawl_delay_s",
    limits="robots_bytes disk_free_bytes",
    parse="waiting_pages waiting_bytes",
)
"""Settings shared by collections that run together: those of the first collection apply."""


class Operator(StrEnum):
    """Operator of an edit on its value."""

    SET = "="
    ADD = "+="
    REMOVE = "-="


class Edit(NamedTuple):
    """One change of one setting; `value` is a value of JSON and TOML."""

    key: str
    operator: Operator
    value: Any


# ---- as people write them -------------------------------------------------------------------------------------------

_EDIT = re.compile(r"\s*([\w.-]+?)\s*(\+=|-=|=)(.*)", re.DOTALL)


def parse_edit(text: str) -> Edit:
    """Parse `KEY=VALUE`, `KEY+=ITEM` or `KEY-=ITEM`; the key may be the name of a flag of `teia crawl`."""
    match = _EDIT.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r}: must be KEY=VALUE, KEY+=ITEM or KEY-=ITEM, such as courtesy.delay_s=2")
    name, operator, value = match[1], Operator(match[2]), match[3].strip()
    key = FLAGS.get(name.replace("-", "_"), name)
    if key not in keys_of(Config):
        alike = difflib.get_close_matches(name.replace("-", "_"), FLAGS, n=1)
        if alike:
            hint = Message("did you mean {what!r}?", what=alike[0].replace("_", "-"))
            raise UsageError(Message("unknown setting {key!r}; {hint}", key=name, hint=hint))
        read_tree(Config, {key: value})  # raises, with the key that was probably meant
    if not value and operator is not Operator.SET:
        raise UsageError(f"{text!r}: value missing after {operator}")
    return Edit(key, operator, value if operator is not Operator.SET else _value(key, value))


def _value(key: str, text: str) -> Any:
    """Parse a value; a list is split at commas, unless it is written as TOML writes one."""
    if text.startswith("[") and isinstance(value_of(Config(), key), tuple):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{key} = {text}: not a list: {error}") from error
    return from_text(Config, key, text)


# ---- effects --------------------------------------------------------------------------------------------------------


def apply_edits(config: Config, edits: Sequence[Edit]) -> Config:
    """Return the configuration with the edits made; a wrong value is refused as it would be in a file."""
    values = {key: value_of(config, key) for key in keys_of(Config)}
    for (key, operator), run in groupby(edits, attrgetter("key", "operator")):
        if key in FIXED:
            raise UsageError(Message("{key} cannot be changed: it was fixed when the collection was created", key=key))
        given = [edit.value for edit in run]
        values[key] = given[-1] if operator is Operator.SET else _edit_list(values, key, operator, given)
    return read_tree(Config, values)


def has_edits(config: Config, edits: Sequence[Edit]) -> bool:
    """Tell whether a configuration already has the edits, so that applying them again changes nothing."""
    return apply_edits(config, edits) == config


def changed_keys(before: Config, after: Config) -> list[str]:
    return [key for key in keys_of(Config) if value_of(before, key) != value_of(after, key)]


def _edit_list(values: dict[str, Any], key: str, operator: Operator, given: Sequence[Any]) -> list[Any]:
    """Return a list with items added or removed.

    All edits of one run are applied at a time: there may be thousands, and each item is parsed once.
    """
    if not isinstance(values[key], (tuple, list)):
        raise UsageError(f"{key} is not a list; set it with {key}=VALUE")
    items: list[Any] = list(values[key])
    # Adding to an empty list would drop the rules it implies, so these become explicit first.
    if key == "scope.include" and not items:
        items = implied_scope(values["collection.seeds"])
    if operator is Operator.REMOVE:
        gone = {normal_form(key, item) for item in given}
        return [item for item in items if normal_form(key, item) not in gone]
    known = {normal_form(key, item) for item in items}
    for item in given:
        if (form := normal_form(key, item)) not in known:
            known.add(form)
            items.append(item)
    return items


def implied_scope(seeds: Iterable[str]) -> list[str]:
    """Return the rules that an empty `scope.include` implies."""
    return seeds_scope([url for seed in seeds if (url := from_user(seed)) is not None])


def normal_form(key: str, item: Any) -> Hashable:
    """Return a normal form in which two spellings of the same item are equal."""
    if not isinstance(item, str):
        return repr(item)  # no valid item of a setting; the whole list is refused later, with the error
    text = item.strip()
    if key == "collection.seeds":
        return from_user(text) or text
    kind, _, name = text.partition(":")
    return f"{kind}:{name.lower().strip('.')}" if kind in {"host", "domain"} else text
