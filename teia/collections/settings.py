"""Settings of the collections in a data folder: found, created, read, and changed while a crawl runs or not (T1, A10).

A collection's durable configuration is its `teia.toml`, written from the settings in effect when the collection is
created. Later runs read it as their file; flags of a later run apply to that run alone. Seeds are the exception: a seed
that a later run names is added to the file, because the pages found from it stay in the collection.

A change is a list of edits:

    courtesy.delay_s=2            a value
    scope.exclude+=domain:a.test  one more in a list
    scope.exclude-=domain:a.test  one less

Edits are idempotent: adding an existing item and setting the current value change nothing. `change` edits the file
atomically, and then notifies the running crawler, if there is one, through its inbox. The crawler (poll_requests.py)
applies the same edits to the settings it runs with, which may differ from the file by the flags of the run. A death at
any instant leaves the old file or the new one, and the next crawl uses that.

Cells of a collection that a cluster crawls are replicas of a log (docs/cluster.md). A request on such a collection
concerns all nodes. A running node receives it through its folder, as any crawl does, and the cluster agrees on it.
Where no node runs, nothing would process the request, so it is refused.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from teia.clock import Clock
from teia.collections.control_file import ChangeSettings, Inbox
from teia.collections.stored_settings import choose as choose  # for many callers
from teia.collections.stored_settings import saved as saved
from teia.config.load import EffectiveConfig, load, to_toml, toml_value, with_values
from teia.config.sections import FLAGS, Config
from teia.config.tree import flatten, from_text, keys_of, read_tree, value_of
from teia.errors import ClusterError, ConfigError, CorruptFile, StoreError, TeiaError, UsageError
from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.schema import SCHEMA
from teia.frontier.queue.order import focused
from teia.frontier.rules.rule_lists import read_list, with_whole_path
from teia.frontier.rules.scope import list_of, seeds_scope
from teia.lib.message import Message, decoded
from teia.records import Edit, Operator
from teia.sqlite import open_to_read
from teia.store.root import CollectionFolder, Root
from teia.urls import from_user

SEEDS = "collection.seeds"
RULE_LISTS = ("scope.include", "scope.exclude")
ANSWER_TIMEOUT_S = 10.0
MAX_SHOWN = 5
"""Most rules that one line of a message shows."""

FIXED = frozenset({"collection.name", "collection.cells"})
"""Settings fixed when a collection is created; they cannot be changed."""


def _keys(**sections: str) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for section, names in sections.items() for name in names.split())


LIVE = _keys(
    collection="seeds",
    scope="include exclude types queries max_depth",
    courtesy="delay_s response_factor small_site_factor small_site_urls per_host max_hosts retry_wait_s"
    " robots robots_max_age_s max_crawl_delay_s host_delays agreed_delays paused",
    limits="pages seconds pages_per_host host_budgets pages_per_site redirects body_bytes decoded_bytes decoded_ratio"
    " robots_bytes url_chars url_segments links_per_page disk_free_bytes",
    parse="text processors waiting_pages waiting_bytes",
    archive="requisites answers",
    retention="quota_bytes",
    commit="every_s every_pages",
    refresh="budget",
)
"""Settings that a running crawl applies at once. The others are read at its start and take effect at the next."""

SHARED = _keys(
    courtesy="delay_s response_factor small_site_factor small_site_urls per_host max_hosts robots_max_age_s"
    " max_crawl_delay_s",
    limits="robots_bytes disk_free_bytes",
    parse="waiting_pages waiting_bytes",
)
"""Settings shared by collections that run together: those of the first collection apply."""


# ---- collections -----------------------------------------------------------------------------------------------------


def check(config: Config) -> None:
    """Raise ConfigError for a setting with an invalid text: a seed, a rule, a date, a network …"""
    # Imported here: a search reads settings and checks none, and its command should answer at once.
    from teia.collections.calendar import parse_schedule
    from teia.crawler.compiled_settings import check_crawl

    check_crawl(config)
    parse_schedule(config.schedule)


def configure(
    root: Root, name: str | None, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> EffectiveConfig:
    """Return the settings of one run. A collection that does not exist is created with these settings."""
    wanted = name or (load(file, environ, flags).config.collection.name if file else None)
    names = root.collections()
    wanted = wanted or (names[0] if len(names) == 1 else "main")
    # Paths in flags are relative to the current folder, those in a file to the file's folder.
    flags = {**flags, **{key: _with_paths(flags.get(key), Path.cwd()) for key in RULE_LISTS}}
    if wanted in names:
        if file is not None:
            raise UsageError(
                f"{wanted!r} already exists with its own settings in {root.collection(wanted).config}; edit that"
                " file, or choose a new --name"
            )
        with root.collection(wanted).editing():
            amend(root, wanted, [Edit(SEEDS, Operator.ADD, seed) for seed in flags.get(SEEDS) or ()])
        # The seeds are in the file by now.
        return load(root.collection(wanted).config, environ, {**flags, SEEDS: None})
    effective = load(file, environ, {**flags, "collection.name": wanted})
    if not effective.config.collection.seeds:
        raise UsageError("a new collection needs at least one SEED, such as https://example.org/")
    config = with_whole_paths(effective.config, Path.cwd() if file is None else file.absolute().parent)
    check(config)
    if config.collection.order == focused.name:
        from teia.crawler.child.focus import examples_of

        examples_of(config.focus)  # missing ones are reported before the collection is made
    root.create_collection(wanted, to_toml(config), config.collection.cells)
    return EffectiveConfig(config, effective.origins)


def with_whole_paths(config: Config, base: Path) -> Config:
    """Return settings in which every rule list has its absolute path."""
    scope = config.scope
    include, exclude = (tuple(_with_paths(rules, base)) for rules in (scope.include, scope.exclude))
    return replace(config, scope=replace(scope, include=include, exclude=exclude))


def _with_paths(rules: Any, base: Path) -> Any:
    """Make the path of every list in the rules absolute, so that later commands may run in any folder."""
    return [with_whole_path(rule, base) for rule in rules] if rules else rules


def configure_all(
    root: Root,
    name: str | None,
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    park: Callable[[str, TeiaError], None] | None = None,
) -> list[Config]:
    """Return the settings of a run: of one collection, or of all if neither a name nor a seed selects one.

    With `park`, a collection with invalid settings is passed to it and left out; if none is left, its error is raised.
    """
    names = root.collections()
    if name is None and file is None and not flags.get("collection.seeds") and len(names) > 1:
        configs, wrong = [], None
        for each in names:
            try:
                configs.append(configure(root, each, None, environ, flags).config)
            except ConfigError as error:
                wrong = error
                if park is None:
                    raise
                park(each, error)
        if wrong is not None and not configs:
            raise wrong
        return configs
    return [configure(root, name, file, environ, flags).config]


# ---- edits as people write them --------------------------------------------------------------------------------------

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


# ---- edits applied ---------------------------------------------------------------------------------------------------


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


def diff_configs(before: Config, after: Config) -> list[Edit]:
    """Return the edits that make one configuration the other."""
    values = [(key, value_of(after, key)) for key in changed_keys(before, after)]
    return [Edit(key, Operator.SET, list(value) if isinstance(value, tuple) else value) for key, value in values]


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


def check_excluded(excluded: Sequence[str], edits: Sequence[Edit], path_of: Callable[[str], str] = list_of) -> None:
    """Refuse to remove a rule from `scope.exclude` that is not there; `path_of` returns the path of a rule's list."""
    known = {normal_form("scope.exclude", rule) for rule in excluded}
    for edit in edits:
        is_removal = (edit.key, edit.operator) == ("scope.exclude", Operator.REMOVE)
        if not is_removal or normal_form(edit.key, edit.value) in known:
            continue
        # A rule inside a list file cannot be removed here; the error names the file.
        for rule in filter(path_of, excluded):
            if edit.value in read_list(Path(path_of(rule))):
                path = list_of(rule)
                raise UsageError(f"{edit.value} is in {path}; remove it there, then run: teia block @{path}")
        listed = ", ".join(excluded[:MAX_SHOWN]) + (" …" if len(excluded) > MAX_SHOWN else "")
        raise UsageError(f"{edit.value} is not excluded; excluded: {listed or 'nothing'}")


# ---- changes ---------------------------------------------------------------------------------------------------------


def amend(root: Root, name: str, edits: Sequence[Edit]) -> tuple[Config, Config]:
    """Apply edits to a collection's file; return the settings before and after. The caller holds `editing`."""
    folder, before = root.collection(name), saved(root, name).config
    after = apply_edits(before, edits)
    if edits:
        check(after)
    if after != before:
        folder.write_config(_text(folder, before, after))
    return before, after


def _text(folder: CollectionFolder, before: Config, after: Config) -> str:
    """Return the file with the new values; it is written anew if the user's TOML cannot be edited."""
    text = folder.config.read_text("utf-8")
    try:
        text = with_values(text, {key: toml_value(value_of(after, key)) for key in changed_keys(before, after)})
        # Read back: an edited text must give exactly the new settings.
        says = read_tree(Config, flatten(tomllib.loads(text)))
    except (ValueError, ConfigError):
        return to_toml(after)
    return text if says == after else to_toml(after)


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Result of a change.

    Old and new values by key, whether a crawl is running, and which keys it applies already (`now`) or after a restart
    (`later`).
    """

    collection: str
    settings: Mapping[str, tuple[Any, Any]]
    running: bool
    now: tuple[str, ...]
    later: tuple[str, ...]


def change(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
    """Change a collection's settings, and wait until a running crawl has applied them."""
    body, is_in_cluster = ChangeSettings(tuple(edits)), is_clustered(root.collection(name))
    with Inbox(root.control) as inbox:
        if is_in_cluster:
            # The node that runs here proposes the change to the cluster; each node writes the file once all agreed.
            before = after = saved(root, name).config
            apply_edits(before, edits)  # raise an error before anything is written
            number = inbox.send(name, body, clock.now_s()) if inbox.running_crawl(name) is not None else 0
        else:
            with root.collection(name).editing():
                # The file first, then the request: a death in between leaves the change in the file.
                before, after = amend(root, name, edits)
                number = inbox.send(name, body, clock.now_s())
        late = Message(
            "the settings of {name!r} were saved, but its crawl did not respond in time; check whether its process is"
            " stopped",
            name=name,
        )
        if is_in_cluster:
            late = Message(
                "the node of {name!r} has not answered yet: it may be reading files or learning a topic, and then makes"
                " the change; check whether its process is stopped",
                name=name,
            )
        request = inbox.wait(number, clock, ANSWER_TIMEOUT_S, late)
    answer = None if request is None else request.answer
    if is_in_cluster and answer is None:
        raise no_node_error(root.collection(name))
    if answer is not None and answer.error:
        why = decoded(answer.error)
        raise StoreError(Message("the running crawl of {name!r} rejected it: {why}", name=name, why=why))
    if is_in_cluster:
        after = saved(root, name).config
    keys = list(dict.fromkeys(edit.key for edit in edits))
    settings = {key: (value_of(before, key), value_of(after, key)) for key in keys}
    now = tuple(key for key in keys if answer is not None and key in answer.now)
    return SettingsChange(name, settings, answer is not None, now, tuple(key for key in keys if key not in now))


# ---- collections of a cluster ----------------------------------------------------------------------------------------


def is_clustered(folder: CollectionFolder) -> bool:
    """Tell whether a collection's cells belong to a cluster."""
    # The cells of a collection are all of one kind.
    for cell in folder.cells()[:1]:
        try:
            db = open_to_read(cell.frontier, SCHEMA)
        except CorruptFile:
            raise
        except StoreError:
            return False
        with closing(CellConnection(cell.frontier, db)) as frontier:
            return frontier.is_of_cluster
    return False


def no_node_error(folder: CollectionFolder) -> ClusterError:
    """Return the error for a request on a cluster's collection while none of its nodes runs here."""
    root: Path = folder.path.parent
    return ClusterError(
        f"{folder.name!r} is crawled by a cluster, but no node is running on {root}; start it with `teia node`, or"
        " use --data of a running node"
    )
