"""What a configuration means: everything that can be wrong in it is found here, before anything is made or opened.

A list of rules is a file of the user's, who may change or remove it at any time. A crawl reads it once and keeps a copy
with the collection, under the digest of what it says. Parse children read the copy: they may be started at any time,
and all must judge alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from teia import __version__
from teia.config import Config, CourtesySettings
from teia.crawl.messages import Reading, encode
from teia.crawl.schedule import schedule_of
from teia.durable import disk_errors, write_atomically
from teia.errors import ConfigError
from teia.fetch.guard import AddressGuard
from teia.fetch.overrides import Overrides, proxy_of
from teia.frontier.hostrules import agreements, budget_of, host_budgets, host_delays
from teia.frontier.order import focused, order_named
from teia.frontier.reconsider import Judged
from teia.frontier.schema import AS_SITEMAP, BY_REQUISITE, BY_SEED
from teia.frontier.scope import COPIED, Lists, Scope, canonical_list, compile_scope, list_of, seeds_scope
from teia.frontier.sharing import Networks
from teia.records import Outcome
from teia.signals.websub import base_of
from teia.urls import from_user, host_of, resolve

ASKED_FOR = BY_SEED | BY_REQUISITE | AS_SITEMAP
"""Ways to find a URL that need no rule of `scope.include`: somebody named it, or a page cannot be shown without it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A configuration as a running crawl uses it.

    `mark` stands for all that decides whether a URL may be asked for: with another mark, URLs that were refused are
    looked at again (frontier/reconsider.py).
    """

    config: Config
    seeds: tuple[str, ...]
    scope: Scope
    reading: bytes
    mark: str

    def admits(self, url: str, depth: int, found_by: int) -> bool:
        """Whether a URL of the frontier belongs to the collection as it is configured now."""
        if found_by & ASKED_FOR:
            return not self.scope.excludes(url)
        return depth <= self.config.scope.max_depth and self.scope.holds(url)

    def wants_link(self, url: str, depth: int, found_by: int) -> bool:
        """The same for a link that is about to be followed; a rule of the user's own that fails wants nothing."""
        try:
            return self.admits(url, depth, found_by)
        except Exception:  # noqa: BLE001  # a function of the user's own
            return False

    def blocks(self, url: str) -> bool:
        """Whether the host of a URL is excluded as a whole: then not even its robots.txt is asked for."""
        try:
            return self.scope.excludes(resolve("/", url) or url)
        except Exception:  # noqa: BLE001  # a rule that is a function of the user's own
            return False

    def wants(self, judged: Judged) -> bool:
        """Whether a URL that waits, or that was refused, may be asked for."""
        has_budget = judged.requests < budget_of(self.config.limits, host_of(judged.url))
        may_come_back = has_budget or judged.outcome != Outcome.BUDGET
        return may_come_back and self.wants_link(judged.url, judged.depth, judged.found_by)


def meaning_of(config: Config, lists_folder: Path) -> Meaning:
    """Work out what a configuration means, and copy its lists of rules into the folder."""
    scope, seeds = config.scope, seeds_of(config)
    include = scope.include or tuple(seeds_scope(seeds))
    lists = _read_lists((*include, *scope.exclude))
    compiled = compile_scope(include, scope.exclude, types=scope.types, queries=scope.queries, lists=lists)
    copies = {path: lists_folder / f"{_digest(rules)}.rules" for path, rules in lists.items()}
    _keep_copies(lists_folder, {copies[path]: rules for path, rules in lists.items()})
    as_copied = replace(scope, include=_renamed(include, copies), exclude=_renamed(scope.exclude, copies))
    reading = _encoded(replace(config, scope=as_copied))
    return Meaning(config, tuple(seeds), compiled, reading, _mark(config, include, copies))


def _mark(config: Config, include: Sequence[str], copies: dict[str, Path]) -> str:
    names = {path: Path(copy.name) for path, copy in copies.items()}
    rules = [_renamed(each, names) for each in (include, config.scope.exclude)]
    other = replace(config.scope, include=(), exclude=())
    limits = config.limits
    budgets = (limits.pages_per_host, limits.pages_per_site, limits.bytes_per_host, limits.bytes_per_site)
    own = [list(limits.host_budgets)] if limits.host_budgets else []
    return _digest([json.dumps([sorted(config.collection.seeds), rules, asdict(other), budgets, *own])])


def _read_lists(rules: Iterable[str]) -> Lists:
    return {path: canonical_list(path) for path in dict.fromkeys(map(list_of, rules)) if path}


def _keep_copies(folder: Path, copies: dict[Path, Sequence[str]]) -> None:
    """Write the copies that are not there. Old ones stay: a child may be about to read one."""
    for path, rules in copies.items():
        if not path.exists():
            with disk_errors(folder, "created"):
                folder.mkdir(exist_ok=True)
            write_atomically(path, "\n".join(rules).encode())


def remove_old_copies(folder: Path, meaning: Meaning) -> None:
    """Remove the copies that nobody reads any more; before children are started."""
    with disk_errors(folder, "read"):
        for path in folder.glob("*.rules") if folder.is_dir() else ():
            if path.name.encode() not in meaning.reading:
                path.unlink()


def _renamed(rules: Sequence[str], copies: dict[str, Path]) -> tuple[str, ...]:
    return tuple(f"{COPIED}{copies[path]}" if (path := list_of(rule)) else rule for rule in rules)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def user_agent(courtesy: CourtesySettings) -> str:
    """Who we are, on every request (T9): product, version and where our operator can be reached."""
    return f"{courtesy.user_agent}/{__version__} (+{courtesy.contact})"


def seeds_of(config: Config) -> list[str]:
    """The collection's seeds in canonical form; one that is no web address stops the start."""
    seeds = []
    for text in config.collection.seeds:
        url = from_user(text)
        if url is None:
            raise ConfigError(f"seed {text!r}: must be an http or https URL, like https://example.org/")
        if is_a_word(text):
            raise ConfigError(f"seed {text!r}: a word is no URL; if it is a host, say https://{host_of(url)}/")
        seeds.append(url)
    return seeds


def is_a_word(text: str) -> bool:
    """Whether somebody typed a bare word, which is hardly ever a host: its name would be looked up for minutes."""
    url = None if "://" in text else from_user(text)
    return url is not None and not {".", ":"} & set(host_of(url)) and host_of(url) != "localhost"


def reading_of(config: Config) -> bytes:
    """The parts of the configuration that parse children need, as bytes; wrong scope rules are refused here."""
    scope = config.scope
    include = scope.include or tuple(seeds_scope(seeds_of(config)))
    compile_scope(include, scope.exclude, types=scope.types)
    return _encoded(replace(config, scope=replace(scope, include=include)))


def _encoded(config: Config) -> bytes:
    scope = config.scope
    _check_processors(config.parse.processors)
    return encode(
        Reading(
            scope.include,
            scope.exclude,
            scope.types,
            scope.queries,
            scope.max_depth,
            scope.url_rules,
            config.archive.requisites,
            config.courtesy.robots,
            config.courtesy.user_agent,
            {name: each for name, each in asdict(config.limits).items() if isinstance(each, (int, float))},
            config.parse.text,
            config.archive.answers,
            config.parse.processors,
            index=config.index.enabled,
            signals=(config.refresh.keep and config.refresh.signals) or bool(config.signals.websub),
        )
    )


def _check_processors(names: Sequence[str]) -> None:
    """Import what the configuration names; the libraries that parse pages are loaded here for nothing else."""
    if names:
        from teia.parse.processors import with_users

        with_users(names)


def check(config: Config) -> None:
    """Raise ConfigError for a setting whose text means nothing: a seed, a rule, a date, a network …"""
    seeds_of(config)
    reading_of(config)
    schedule_of(config.schedule)
    order_named(config.collection.order)
    if config.collection.order == focused.name:
        from teia.crawl.learning import check_focus

        check_focus(config)
    if not config.courtesy.contact.strip():
        raise ConfigError("courtesy.contact is empty; say where owners of servers can reach you: a page or an address")
    AddressGuard(config.fetch.allow_nets)
    proxy_of(config.signals.proxy)
    base_of(config.signals.websub)
    Networks(config.courtesy.cdn_nets)
    host_delays(config.courtesy.host_delays)
    agreements(config.courtesy.agreed_delays)
    host_budgets(config.limits.host_budgets)
    Overrides.parse(config.fetch.resolve)
