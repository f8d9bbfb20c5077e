"""Compiled settings: every error in a configuration is found here, before anything is created or opened.

A rule list is a file of the user, who may change or remove it at any time. A crawl reads it once and stores a copy with
the collection, named by the digest of its content. Parse children read the copy: they may start at any time, and all
must decide alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from teia.config.sections import Config, CourtesySettings
from teia.crawler.child.messages import ReadSettings, encode
from teia.durable import disk_errors, write_atomically
from teia.errors import ConfigError
from teia.fetch.destination import AddressOverrides, read_caches
from teia.fetch.guard import AddressGuard
from teia.frontier.cell.reconsider import ReconsideredUrl
from teia.frontier.cell.schema import AS_SITEMAP, BY_REQUISITE, BY_SEED, BY_SIGNAL
from teia.frontier.queue.host_rules import agreements, budget_of, host_budgets, host_delays
from teia.frontier.queue.order import focused, order_named
from teia.frontier.queue.shared_addresses import Networks
from teia.frontier.rules.scope import COPIED, Lists, Scope, canonical_list, compile_scope, list_of, seeds_scope
from teia.frontier.rules.site_rules import compile_site_rules
from teia.records import Outcome
from teia.render.program import find_browser
from teia.signals.websub import parse_base_url
from teia.urls import from_user, host_of, resolve
from teia.version import __version__

EXPLICIT = BY_SEED | BY_REQUISITE | AS_SITEMAP
"""Ways to find a URL that need no rule of `scope.include`: a user named it, or a page cannot be shown without it."""


@dataclass(frozen=True, slots=True)
class CompiledSettings:
    """A configuration as a running crawl uses it.

    `mark` identifies everything that decides whether a URL may be fetched. When it changes, refused URLs are evaluated
    again (frontier/cell/reconsider.py).
    """

    config: Config
    seeds: tuple[str, ...]
    scope: Scope
    read_settings: bytes
    mark: str
    seed_set: frozenset[str]

    def admits(self, url: str, depth: int, found_by: int) -> bool:
        """Tell whether a URL of the frontier belongs to the collection under its current settings."""
        # The exclude list holds even for URLs that a user or a page requires.
        if found_by & EXPLICIT:
            return not self.scope.excludes(url)
        return depth <= self.config.scope.max_depth and self.scope.allows(url)

    def wants_link(self, url: str, depth: int, found_by: int) -> bool:
        """Like `admits`, for a link that is about to be followed; return False if a user's own rule fails."""
        try:
            return self.admits(url, depth, found_by)
        except Exception:  # noqa: BLE001  # a function of the user's own
            return False

    def wants_announced(self, url: str) -> bool:
        """Tell whether a page that another party announces may be visited; its URL may have any length."""
        return len(url) <= self.config.limits.url_chars and self.wants_link(url, 1, BY_SIGNAL)

    def blocks(self, url: str) -> bool:
        """Tell whether the host of a URL is excluded as a whole: then not even its robots.txt is fetched."""
        try:
            return self.scope.excludes(resolve("/", url) or url)
        except Exception:  # noqa: BLE001  # a rule that is a function of the user's own
            return False

    def may_fetch(self, url: ReconsideredUrl) -> bool:
        """Tell whether a URL that waits, or that was refused, may be fetched."""
        has_budget = url.requests < budget_of(self.config.limits, host_of(url.url))
        may_come_back = has_budget or url.outcome != Outcome.BUDGET
        found_by = url.found_by if url.is_known_seed else self.sources_in_force(url.url, url.found_by)
        return may_come_back and self.wants_link(url.url, url.depth, found_by)

    def sources_in_force(self, url: str, found_by: int) -> int:
        """Return the sources of a URL that was never visited; a former seed that nothing else named has none.

        It then needs a rule of the scope like every other URL: a mistyped seed leaves with its correction.
        """
        return 0 if found_by == BY_SEED and url not in self.seed_set else found_by


def compile_settings(config: Config, lists_folder: Path) -> CompiledSettings:
    """Compile a configuration, and copy its rule lists into the folder."""
    scope, seeds = config.scope, seeds_of(config)
    include = scope.include or tuple(seeds_scope(seeds))
    paths = dict.fromkeys(map(list_of, (*include, *scope.exclude)))
    lists: Lists = {path: canonical_list(path) for path in paths if path}
    compiled_scope = compile_scope(include, scope.exclude, types=scope.types, queries=scope.queries, lists=lists)
    copies = {path: lists_folder / f"{_digest(rules)}.rules" for path, rules in lists.items()}
    _write_copies(lists_folder, {copies[path]: rules for path, rules in lists.items()})
    as_copied = replace(scope, include=_with_copies(include, copies), exclude=_with_copies(scope.exclude, copies))
    read_settings = _encoded(replace(config, scope=as_copied))
    mark = _mark(config, include, copies)
    return CompiledSettings(config, tuple(seeds), compiled_scope, read_settings, mark, frozenset(seeds))


def _mark(config: Config, include: Sequence[str], copies: dict[str, Path]) -> str:
    # By name: the mark does not depend on where the data folder is.
    names = {path: Path(copy.name) for path, copy in copies.items()}
    rules = [_with_copies(each, names) for each in (include, config.scope.exclude)]
    other = replace(config.scope, include=(), exclude=())
    limits = config.limits
    budgets = (limits.pages_per_host, limits.pages_per_site, limits.bytes_per_host, limits.bytes_per_site)
    # Only where there are any, so that the marks of older collections stay valid.
    own: list[Any] = [list(limits.host_budgets)] if limits.host_budgets else []
    # A refused address may be allowed by another network, or replaced by another address of its host.
    addresses = {key: sorted(each) for key in ("allow_nets", "resolve") if (each := getattr(config.fetch, key))}
    own += [addresses] if addresses else []
    return _digest([json.dumps([sorted(config.collection.seeds), rules, asdict(other), budgets, *own])])


def _write_copies(folder: Path, copies: dict[Path, Sequence[str]]) -> None:
    """Write the missing copies. Old ones stay: a child may be about to read one."""
    for path, rules in copies.items():
        if not path.exists():
            with disk_errors(folder, "created"):
                folder.mkdir(exist_ok=True)
            write_atomically(path, "\n".join(rules).encode())


def remove_old_copies(folder: Path, compiled: CompiledSettings) -> None:
    """Remove the copies of rule lists that are no longer read; called before children start."""
    with disk_errors(folder, "read"):
        for path in folder.glob("*.rules") if folder.is_dir() else ():
            # The encoded settings contain the file names of all lists that children read.
            if path.name.encode() not in compiled.read_settings:
                path.unlink()


def _with_copies(rules: Sequence[str], copies: dict[str, Path]) -> tuple[str, ...]:
    return tuple(f"{COPIED}{copies[path]}" if (path := list_of(rule)) else rule for rule in rules)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def user_agent(courtesy: CourtesySettings) -> str:
    """Return the User-Agent of every request (T9): product, version and the operator's contact."""
    return f"{courtesy.user_agent}/{__version__} (+{courtesy.contact})"


def other_user_agent(courtesy: CourtesySettings) -> str:
    """Return the User-Agent of the second request of a page (sites/identity.py), which begins as those of browsers."""
    return f"Mozilla/5.0 (compatible; {courtesy.user_agent}/{__version__}; +{courtesy.contact})"


def seeds_of(config: Config) -> list[str]:
    """Return the collection's seeds in canonical form; raise an error if one is no web address."""
    seeds = []
    for text in config.collection.seeds:
        url = from_user(text)
        if url is None:
            raise ConfigError(f"seed {text!r}: must be an http or https URL, such as https://example.org/")
        if is_bare_word(text):
            raise ConfigError(f"seed {text!r} is not a URL; did you mean https://{host_of(url)}/?")
        seeds.append(url)
    return seeds


def is_bare_word(text: str) -> bool:
    """Tell whether a user typed a bare word, which is hardly ever a host: resolving its name would take minutes."""
    url = None if "://" in text else from_user(text)
    return url is not None and not {".", ":"} & set(host_of(url)) and host_of(url) != "localhost"


def encode_read_settings(config: Config) -> bytes:
    """Encode the parts of the configuration that parse children need; wrong scope rules are refused here."""
    scope = config.scope
    include = scope.include or tuple(seeds_scope(seeds_of(config)))
    compile_scope(include, scope.exclude, types=scope.types)
    return _encoded(replace(config, scope=replace(scope, include=include)))


def _encoded(config: Config) -> bytes:
    _check_processors(config.parse.processors)
    signals = (config.refresh.keep and config.refresh.signals) or bool(config.signals.websub)
    # Children need no budgets of hosts, of which there may be thousands.
    limits, courtesy = replace(config.limits, host_budgets=()), config.courtesy
    archive = replace(config.archive, requisites=config.wants_requisites)
    sections = (config.scope, limits, config.parse, archive)
    wanted = (config.index.enabled, signals, config.refresh.keep)
    return encode(ReadSettings(*sections, courtesy.user_agent, courtesy.robots, *wanted, render=render_signs(config)))


def render_signs(config: Config) -> str:
    """Return the pages whose signs for rendering are wanted: `never`, `auto` or `always` (child/messages.py)."""
    render = config.render
    if render.mode == "never" and not render.always:
        return "never"
    # Without text there is nothing to gain, and nothing to compare.
    if not config.parse.text or not config.archive.answers or find_browser() is None:
        return "never"
    return "always" if render.mode == "always" or render.always else "auto"


def _check_processors(names: Sequence[str]) -> None:
    """Import the processors that the configuration names; the libraries that parse pages are loaded only here."""
    if names:
        from teia.parse.processors import with_user_processors

        with_user_processors(names)


def check_crawl(config: Config) -> None:
    """Raise ConfigError for a setting of a crawl with an invalid text: a seed, a rule, a network …"""
    seeds_of(config)
    encode_read_settings(config)
    order_named(config.collection.order, None, config.collection.prefer)
    if config.collection.order == focused.name:
        from teia.crawler.child.focus import check_focus

        check_focus(config)
    if not config.courtesy.contact.strip():
        raise ConfigError(
            "courtesy.contact is empty; set it to a web page or an e-mail address where server owners can reach you"
        )
    # Each of these raises ConfigError for a text that it cannot read; the values are made again when used.
    AddressGuard(config.fetch.allow_nets)
    read_caches(config.signals.proxy, config.signals.caches)
    parse_base_url(config.signals.websub)
    Networks(config.courtesy.cdn_nets)
    compile_site_rules(config.placement.rules)
    host_delays(config.courtesy.host_delays)
    agreements(config.courtesy.agreed_delays)
    host_budgets(config.limits.host_budgets)
    AddressOverrides.parse(config.fetch.resolve)
    compile_scope(config.render.always, config.render.never)
