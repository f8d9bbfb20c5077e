"""The specification of a world: a seed and a small TOML file. Every key has a default; docs/lab.md explains them all.

A *share* is a probability in [0, 1]. Shares of hosts are drawn per host, shares of pages per page, each from its own
key, so changing one leaves everything else of the world unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from teia.config.load import read_toml
from teia.config.tree import flatten, read_tree, setting
from teia.errors import ConfigError

PAGES_PER_HOST = 100
"""Number of pages per host if `hosts` is 0."""


def share(default: float, meaning: str) -> Any:
    """Declare a setting that is a probability."""
    return setting(default, meaning, at_least=0, at_most=1)


@dataclass(frozen=True, slots=True)
class SitesSpec:
    """The hosts and how they differ. All shares are of hosts."""

    theta: float = setting(1.0, "exponent of Zipf's law for the number of pages per host", at_least=0, at_most=3)
    offset: float = share(0.0, "offset of the ranks in that law (Mandelbrot), as a share of hosts; it levels the first")
    portuguese: float = share(0.6, "share of hosts in Portuguese; the others are in English")
    same_domain: float = share(0.2, "share of hosts in the same domain as the previous host (blog.x.test)")
    shared_address: float = share(0.1, "share of hosts at the same IP address as the previous host")
    aliases: float = share(
        0.04, "share of hosts with a second name that serves identical content; only in the smaller half of hosts"
    )
    mirrors: float = setting(
        0.02, "share of hosts that mirror another site, with canonical links to it", at_least=0, at_most=0.5
    )
    nxdomain: float = share(0.01, "number of linked host names that do not exist, as a share of hosts")
    unreachable: float = share(
        0.01, "number of linked host names that resolve but refuse connections, as a share of hosts"
    )
    sloppy: float = share(0.2, "share of hosts with malformed HTML")
    latin1: float = share(
        0.2, "share of hosts in ISO-8859-1 or windows-1252, declared by header, meta tag or both; the others use UTF-8"
    )
    gzip: float = share(0.5, "share of hosts that compress responses on request")
    chunked: float = share(0.2, "share of hosts that use chunked transfer encoding")
    soft_404: float = share(
        0.0,
        "share of hosts that answer 200 for missing pages (soft 404); half of these pages contain the requested path",
    )
    slow: float = share(0.0, "share of hosts that delay every response by `slow_s`")
    slow_s: float = setting(5.0, "delay of a slow host", unit="s", at_least=0)
    dripping: float = share(0.0, "share of hosts that send every response in small pieces over `drip_s`")
    drip_s: float = setting(10.0, "duration of a response from a dripping host", unit="s", at_least=0)


@dataclass(frozen=True, slots=True)
class TextSpec:
    """The texts of pages."""

    paragraphs: int = setting(
        7,
        "mean number of paragraphs per page; the number varies between half and one and a half times the mean",
        at_least=1,
        at_most=200,
    )
    images: float = share(0.3, "share of pages with an image")
    mail: float = share(0.0, "share of pages with a link to an e-mail address")
    pdfs: float = share(0.02, "share of pages that are PDF documents")


@dataclass(frozen=True, slots=True)
class LinksSpec:
    """Links besides those of the trees that make every page reachable."""

    inside: int = setting(6, "mean number of links to pages of the same host", at_least=0, at_most=500)
    outside: int = setting(2, "mean number of links to other hosts", at_least=0, at_most=100)
    power: float = setting(
        3.0,
        "skew of link targets (target = size * u ** power): the larger, the fewer pages receive most links",
        at_least=1,
    )
    same_topic: float = share(0.5, "share of links to other hosts that lead to a page of the same topic")
    nofollow: float = share(0.03, "share of these links with rel=nofollow")
    orphans: float = share(0.01, "share of pages without incoming links; only sitemaps list them")
    changing: float = share(0.0, "share of these links whose target changes with every meaningful change of their page")


@dataclass(frozen=True, slots=True)
class UrlsSpec:
    """The forms of URLs. All shares are of hosts."""

    relative: float = share(
        0.3, "share of hosts with links relative to the page; links of the others begin with a slash"
    )
    queries: float = share(0.15, "share of hosts whose page URLs have a query string")
    sessions: float = share(0.04, "share of hosts that put a session ID, renewed every hour, into every link")
    calendars: float = share(0.0, "share of hosts with an endless calendar (a trap)")
    parks: float = share(0.0, "share of hosts with a trap park: every kind of trap, linked from every page")


@dataclass(frozen=True, slots=True)
class ChangesSpec:
    """The change processes of pages (P7). The three processes' shares are relative to their sum."""

    poisson: float = share(0.6, "share of pages whose changes are a Poisson process")
    pareto: float = share(0.3, "share of pages that change in bursts (Pareto gaps)")
    regular: float = share(0.1, "share of pages that change almost periodically")
    pareto_shape: float = setting(1.5, "exponent of the Pareto distribution of gaps", at_least=1.05, at_most=20)
    jitter: float = share(0.1, "maximum deviation of a regular change, as a share of its period")
    rates: str = setting(
        "uniform", "distribution of mean change rates: uniform or zipf:THETA", matches=r"uniform|zipf:\d+(\.\d+)?"
    )
    slowest: float = setting(0.01, "lowest mean change rate", unit="changes per day", at_least=0)
    fastest: float = setting(1.0, "highest mean change rate", unit="changes per day", at_least=0, at_most=1e6)
    host_spread: float = setting(
        1.0, "largest factor by which the pages of a host change faster, or slower, than others", at_least=1
    )
    cosmetic: float = share(
        0.3, "share of cosmetic changes: they affect only a counter, a proverb and an advertisement"
    )


@dataclass(frozen=True, slots=True)
class ErrorsSpec:
    """Answers other than 200, in Tarântula's proportions (T8)."""

    scale: float = setting(
        1.0, "factor applied to every error share of T8's table; 0: no errors", at_least=0, at_most=5
    )
    silent_s: float = setting(150.0, "time without response before a timeout (status -10 in T8)", unit="s", at_least=0)
    large_bytes: int = setting(
        12 * 2**20,
        "body size of pages that are too large (status -4 in T8)",
        unit="bytes",
        at_least=1024,
        at_most=256 * 2**20,
    )
    unavailable: float = share(0.0, "share of URLs that answer 503 with Retry-After: 120, besides those of T8's table")
    chains: float = share(0.05, "share of redirects that lead to another redirect")
    loops: float = share(0.01, "share of redirects that loop")


@dataclass(frozen=True, slots=True)
class RobotsSpec:
    """robots.txt and its relatives. No host is reachable only through closed or broken hosts."""

    present: float = share(0.5, "share of hosts with a robots.txt")
    excluded: float = share(414 / 796_629, "share of pages in a section that robots.txt disallows (status -7 in T8)")
    own_group: float = share(0.2, "share of these files with a group for the user agent teia")
    wildcards: float = share(0.3, "share of these files that disallow the section with a wildcard")
    crawl_delay: float = share(0.1, "share of these files with a Crawl-delay")
    crawl_delay_s: float = setting(2.0, "value of the Crawl-delay", unit="s", at_least=0)
    closed: float = share(0.0, "share of hosts whose robots.txt disallows everything")
    broken: float = share(0.0, "share of hosts whose robots.txt answers 503")
    noindex: float = share(0.02, "share of leaf pages with meta robots noindex")
    nofollow: float = share(0.02, "share of leaf pages with meta robots nofollow")


@dataclass(frozen=True, slots=True)
class SitemapsSpec:
    """Sitemaps. The shares are of hosts; the rest up to 1 has none."""

    honest: float = share(0.4, "share of hosts whose lastmod is the time of the last meaningful change")
    lying: float = share(0.1, "share of hosts whose lastmod is always the current time")
    bare: float = share(0.1, "share of hosts whose sitemap has no lastmod")
    listed: float = share(1.0, "share of the live pages of a host that its sitemap lists")
    urls_per_file: int = setting(
        1_000, "maximum number of URLs per sitemap file; larger sites have a sitemap index", at_least=10, at_most=50_000
    )
    fast_dates: bool = setting(
        False, "accelerate the dates in sitemaps and feeds by time_factor, for crawlers whose clock is accelerated too"
    )


@dataclass(frozen=True, slots=True)
class FeedsSpec:
    """Feeds of the latest changes among a host's first pages. The shares are of hosts."""

    rss: float = share(0.25, "share of hosts with an RSS 2.0 feed")
    atom: float = share(0.25, "share of hosts with an Atom feed")
    items: int = setting(15, "number of entries of a feed", at_least=1, at_most=200)


@dataclass(frozen=True, slots=True)
class ValidatorsSpec:
    """ETag and Last-Modified. The shares are of hosts; the rest up to 1 sends none."""

    honest: float = share(0.5, "share of hosts with correct validators")
    eager: float = share(0.1, "share of hosts whose validators change with every response")
    frozen: float = share(
        0.05, "share of hosts whose validators never change: they answer 304 to every conditional request"
    )


@dataclass(frozen=True, slots=True)
class RegionsSpec:
    """Regions of clients and servers, and the distances between them (A4, A12). By default one region without delay."""

    names: tuple[str, ...] = setting(
        ("here",), "names of the regions; servers are distributed evenly over them", matches=r"[a-z0-9_-]+"
    )
    hosted: tuple[float, ...] = setting((), "share of the servers in each region instead", at_least=0, at_most=1)
    clients: tuple[str, ...] = setting((), "regions of clients, NETWORK=REGION; other clients are in the first region")
    latency_s: tuple[tuple[float, ...], ...] = setting(
        (),
        "latency before the first byte: one row per client region, one column per server region",
        unit="s",
        at_least=0,
    )
    bytes_per_s: tuple[tuple[float, ...], ...] = setting(
        (), "bandwidth, in the same layout; 0: unlimited", unit="bytes/s", at_least=0
    )
    spread: float = setting(
        0.0,
        "standard deviation of the logarithm of the latency, drawn for each server and client region",
        at_least=0,
        at_most=3,
    )


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The whole spec. `WorldSpec()` is a small web with a bit of everything."""

    seed: int = setting(1, "random seed of the world")
    pages: int = setting(4_000, "number of URLs on all hosts, failing ones included", at_least=1, at_most=10**9)
    hosts: int = setting(
        0, f"number of hosts, mirrors included; 0: one per {PAGES_PER_HOST} pages", at_least=0, at_most=60_000
    )
    time_factor: float = setting(1.0, "speed of page changes relative to real time", at_least=0, at_most=1e7)
    sites: SitesSpec = field(default_factory=SitesSpec)
    text: TextSpec = field(default_factory=TextSpec)
    links: LinksSpec = field(default_factory=LinksSpec)
    urls: UrlsSpec = field(default_factory=UrlsSpec)
    changes: ChangesSpec = field(default_factory=ChangesSpec)
    errors: ErrorsSpec = field(default_factory=ErrorsSpec)
    robots: RobotsSpec = field(default_factory=RobotsSpec)
    sitemaps: SitemapsSpec = field(default_factory=SitemapsSpec)
    feeds: FeedsSpec = field(default_factory=FeedsSpec)
    validators: ValidatorsSpec = field(default_factory=ValidatorsSpec)
    regions: RegionsSpec = field(default_factory=RegionsSpec)

    @property
    def host_count(self) -> int:
        return self.hosts or max(1, self.pages // PAGES_PER_HOST)

    @classmethod
    def load(cls, path: Path | None = None, **overrides: Any) -> WorldSpec:
        """Read a TOML file, if given; overrides (`seed=3`, or `{"errors.scale": 0}`) win, None means not given."""
        values = {} if path is None else flatten(read_toml(path))
        return cls.from_values({**values, **{key: value for key, value in overrides.items() if value is not None}})

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> WorldSpec:
        """Make a spec of dotted keys; raise ConfigError for invalid ones."""
        spec = read_tree(cls, values)
        _check(spec)
        return spec


def _check(spec: WorldSpec) -> None:
    """Check constraints between several values: sums, sizes and shapes."""
    if spec.pages < spec.host_count:
        raise ConfigError(
            f"pages = {spec.pages}: must be at least hosts = {spec.hosts}, because every host has a home page"
        )
    _check_sum("sitemaps", "honest + lying + bare", spec.sitemaps.honest + spec.sitemaps.lying + spec.sitemaps.bare)
    _check_sum("feeds", "rss + atom", spec.feeds.rss + spec.feeds.atom)
    validators = spec.validators.honest + spec.validators.eager + spec.validators.frozen
    _check_sum("validators", "honest + eager + frozen", validators)
    changes = spec.changes
    if changes.poisson + changes.pareto + changes.regular <= 0:
        raise ConfigError("changes.poisson = 0: one of poisson, pareto and regular must be above 0")
    if changes.slowest > changes.fastest:
        raise ConfigError(f"changes.slowest = {changes.slowest}: must be at most changes.fastest = {changes.fastest}")
    _check_regions(spec.regions)


def _check_sum(section: str, terms: str, total: float) -> None:
    # Decimal shares that add up to 1 may exceed it by rounding.
    if total > 1 + 1e-9:
        raise ConfigError(f"{section}: {terms} = {total:g}: must be at most 1")


def _check_regions(regions: RegionsSpec) -> None:
    count = len(regions.names)
    if not count:
        raise ConfigError("regions.names = []: must name at least one region")
    for key, matrix in (("latency_s", regions.latency_s), ("bytes_per_s", regions.bytes_per_s)):
        if matrix and (len(matrix) != count or any(len(row) != count for row in matrix)):
            raise ConfigError(f"regions.{key}: must have {count} rows of {count} numbers, one per region")
    if regions.hosted and (len(regions.hosted) != count or abs(sum(regions.hosted) - 1) > 1e-9):
        raise ConfigError(f"regions.hosted: must have {count} shares that add up to 1, one per region")
    for entry in regions.clients:
        network, _, region = entry.partition("=")
        if region not in regions.names or not _is_network(network):
            raise ConfigError(f"regions.clients = {entry!r}: must look like 127.80.0.0/16={regions.names[0]}")


def _is_network(text: str) -> bool:
    if not re.fullmatch(r"[0-9a-fA-F.:]+(/\d+)?", text):
        return False
    try:
        ip_network(text)
    except ValueError:
        return False
    return True
