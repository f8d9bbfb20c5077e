"""`teia add`, `block`, `unblock`, `set`: the settings of a collection changed, also while it is being crawled (A10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.crawl.control import show
from teia.cli.options import AsJson, Collection, Data, Settings, open_collection
from teia.cli.output import print_json, progress_console
from teia.clock import WallClock
from teia.collections.overview import schedule_overview
from teia.collections.settings import (
    MAX_SHOWN,
    SettingsChange,
    change,
    check_excluded,
    implied_scope,
    is_clustered,
    parse_edit,
    saved,
)
from teia.config.load import toml_value
from teia.config.sections import Config
from teia.errors import UsageError
from teia.frontier.rules.rule_lists import rules_of_word, with_whole_path
from teia.frontier.rules.scope import compile_scope, why_out_of_scope
from teia.records import Edit, Operator
from teia.urls import from_user

SEEDS, INCLUDE, EXCLUDE = "collection.seeds", "scope.include", "scope.exclude"

Targets = Annotated[
    list[str], typer.Argument(metavar="WHAT...", help="Host name, URL, RULE, or @FILE with one of these per line.")
]
NewSeeds = Annotated[list[str] | None, typer.Argument(metavar="WHAT...", help="Seed URL, or host:NAME or domain:NAME.")]
Rules = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Add an include rule to the scope; may be repeated.")
]


def add(
    data: Data, what: NewSeeds = None, scope: Rules = None, collection: Collection = None, as_json: AsJson = False
) -> None:
    """Add seeds and domains to a collection; a running crawl fetches them at once.

    `host:NAME` and `domain:NAME` add an include rule to the scope and the seed http://NAME/. Example:
    teia add https://example.org/news/ domain:example.net --data archive
    """
    root, name = open_collection(data, collection)
    if not what and not scope:
        raise UsageError("nothing to add; name a URL, host:NAME, domain:NAME, or --scope RULE")
    edits = [edit for word in what or () for edit in _edits_for(word)]
    edits += [_rule(INCLUDE, Operator.ADD, rule) for rule in scope or ()]
    changed = change(root, name, edits, WallClock())
    _report(changed, as_json)
    if not as_json:
        _warn_out_of_scope(saved(root, name).config, [edit.value for edit in edits if edit.key == SEEDS])


def _edits_for(word: str) -> list[Edit]:
    """Return the edits for one word: a URL is a seed; a host or domain is a seed and a rule."""
    kind, _, value = word.strip().partition(":")
    if kind in {"host", "domain"}:
        return [
            _rule(INCLUDE, Operator.ADD, word.strip()),
            Edit(SEEDS, Operator.ADD, f"http://{value.strip().lstrip('.')}/"),
        ]
    return [Edit(SEEDS, Operator.ADD, word.strip())]


def _warn_out_of_scope(config: Config, seeds: Sequence[str]) -> None:
    """Print a warning for each seed outside the scope: it is fetched, but nothing else of its host."""
    scope = config.scope
    # Without rules of its own, a collection has the hosts of its seeds in scope.
    rules = scope.include or tuple(implied_scope(config.collection.seeds))
    for seed in seeds:
        url = from_user(seed)
        why = why_out_of_scope(url, rules, scope.exclude, scope.queries) if url else ""
        if why:
            is_excluded = url is not None and compile_scope((), scope.exclude).excludes(url)
            what = "not fetched" if is_excluded else "only this page of its host will be fetched"
            progress_console().print(f"{seed}: {what}: {why}", soft_wrap=True, markup=False)


def block(data: Data, what: Targets, collection: Collection = None, as_json: AsJson = False) -> None:
    """Exclude hosts, domains and URLs from a collection; they are not fetched any more.

    A name stands for the domain and all its subdomains, a URL for all URLs that begin with it. Repeat the command with
    @FILE to read a changed file again. Example:
    teia block tracker.example https://example.org/private/ @blocked.txt --data archive
    """
    root, name = open_collection(data, collection)
    edits = [_rule(EXCLUDE, Operator.ADD, rule) for word in what for rule in rules_of_word(word)]
    _report(change(root, name, edits, WallClock()), as_json)


def unblock(data: Data, what: Targets, collection: Collection = None, as_json: AsJson = False) -> None:
    """Remove rules added by `teia block` or --exclude; URLs that were excluded are queued again."""
    root, name = open_collection(data, collection)
    edits = [_rule(EXCLUDE, Operator.REMOVE, rule) for word in what for rule in rules_of_word(word)]
    if not is_clustered(root.collection(name)):  # else the folder names copies of lists, and its node decides
        check_excluded(saved(root, name).config.scope.exclude, edits)
    _report(change(root, name, edits, WallClock()), as_json)


def set_settings(data: Data, settings: Settings, collection: Collection = None, as_json: AsJson = False) -> None:
    """Change settings of a collection: KEY=VALUE, or KEY+=ITEM and KEY-=ITEM for lists.

    KEY is a setting (see `teia config`) or the name of an option of `teia crawl`. Example:
    teia set delay=10 max-pages=100000 scope.exclude+=query:yes --data archive
    """
    root, name = open_collection(data, collection)
    edits = [_with_path(parse_edit(text)) for text in settings]
    changed = change(root, name, edits, WallClock())
    _report(changed, as_json)
    if any(key.startswith("schedule.") for key in changed.settings) and not as_json:
        show(schedule_overview(root, changed.collection, WallClock()), progress_console())


# ---- what they share ------------------------------------------------------------------------------------------------


def _rule(key: str, operator: Operator, rule: str) -> Edit:
    # The crawler may run in another folder, so the path of a list is stored whole.
    return Edit(key, operator, with_whole_path(rule, Path.cwd()))


def _with_path(edit: Edit) -> Edit:
    """Return an edit of rules with the whole path of every list in it."""
    if edit.key not in {INCLUDE, EXCLUDE}:
        return edit
    if isinstance(edit.value, list):
        return Edit(edit.key, edit.operator, [with_whole_path(str(rule), Path.cwd()) for rule in edit.value])
    return _rule(edit.key, edit.operator, edit.value)


def _report(changed: SettingsChange, as_json: bool) -> None:
    """Print the changed settings, and from when on each applies."""
    if as_json:
        print_json(asdict(changed))
        return
    console = progress_console()
    for key, (before, after) in changed.settings.items():
        line = f"{changed.collection}: {key} {_difference(before, after)}; {_effective_from(changed, key)}"
        console.print(line, soft_wrap=True, markup=False)


def _difference(before: Any, after: Any) -> str:
    if before == after:
        return f"is already {_format_value(after)}"
    if not isinstance(after, tuple):
        return f"= {_format_value(after)} (was {_format_value(before)})"
    gone = [f"- {item}" for item in before if item not in after]
    new = [f"+ {item}" for item in after if item not in before]
    return ", ".join([*gone, *new][:MAX_SHOWN]) + (" …" if len(gone) + len(new) > MAX_SHOWN else "")


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return toml_value(value) if len(value) <= MAX_SHOWN else f"a list of {len(value):,}"
    return toml_value(value)


def _effective_from(changed: SettingsChange, key: str) -> str:
    if key in changed.now:
        return "applied to the running crawl"
    return "saved; the running crawl uses it after a restart" if changed.running else ("saved; no crawl is running")
