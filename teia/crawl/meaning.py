"""What a configuration means: everything that can be wrong in it is found here, before anything is made or opened."""

from __future__ import annotations

from dataclasses import asdict

from teia import __version__
from teia.config import Config, CourtesySettings
from teia.crawl.messages import Reading, encode
from teia.errors import ConfigError
from teia.fetch.guard import AddressGuard
from teia.fetch.overrides import Overrides
from teia.frontier.order import order_named
from teia.frontier.scope import compile_scope, seeds_scope
from teia.parse.processors import with_users
from teia.urls import from_user


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
        seeds.append(url)
    return seeds


def reading_of(config: Config) -> bytes:
    """The parts of the configuration that parse children need, as bytes; wrong scope rules are refused here."""
    scope = config.scope
    include = scope.include or tuple(seeds_scope(seeds_of(config)))
    compile_scope(include, scope.exclude, types=scope.types)
    with_users(config.parse.processors)
    return encode(
        Reading(
            include,
            scope.exclude,
            scope.types,
            scope.queries,
            scope.max_depth,
            scope.url_rules,
            config.archive.requisites,
            config.courtesy.robots,
            config.courtesy.user_agent,
            asdict(config.limits),
            config.parse.text,
            config.archive.answers,
            config.parse.processors,
        )
    )


def check(config: Config) -> None:
    """Raise ConfigError for a setting whose text means nothing: a seed, a rule, an order, a network, an override."""
    reading_of(config)
    order_named(config.collection.order)
    AddressGuard(config.fetch.allow_nets)
    Overrides.parse(config.fetch.resolve)
