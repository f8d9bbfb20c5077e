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

from teia.config.declare import setting
from teia.config.load import read_toml
from teia.config.tree import flatten, read_tree
from teia.errors import ConfigError

PAGES_PER_HOST = 100
"""Number of pages per host if `hosts` is 0."""


def share(default: float, meaning: str) -> Any:
    """Declare a setting that is a probability."""
    return setting(default, meaning, at_least=0, at_most=1)


@dataclass(frozen=True, slots=True)
class SitesSpec:
    """The hosts and how they differ. All shares are of hosts."""

    theta: float = setting(1.0, "exponent of Zipf's law for pages per host (P6)", at_least=0, at_most=3)
    portuguese: float = share(0.6, "in Portuguese; the others are in English")
    same_domain: float = share(0.2, "another host of the domain before it (blog.x.test)")
    shared_address: float = share(0.1, "at the address of the host before it")
    aliases: float = share(0.04, "with a second name for the same bytes; among the smaller half of hosts")
    mirrors: float = setting(0.02, "copies of another site, canonical links to it", at_least=0, at_most=0.5)
    nxdomain: float = share(0.01, "names that are linked but do not exist, as a share of hosts")
    unreachable: float = share(0.01, "names that are linked and resolve, where nobody listens, as a share of hosts")
    sloppy: float = share(0.2, "that write careless HTML (T6)")
    latin1: float = share(0.2, "in ISO-8859-1 or windows-1252, told by header, meta or both; the others in UTF-8")
    gzip: float = share(0.5, "that compress when asked to")
    chunked: float = share(0.2, "that answer in chunks")
    soft_404: float = share(0.0, "that answer 200 and a page for what does not exist; half of them name its path")
    slow: float = share(0.0, "that take `slow_s` more for every answer (A7)")
    slow_s: float = setting(5.0, "what a slow host adds", unit="s", at_least=0)
    dripping: float = share(0.0, "that send every answer a little at a time, over `drip_s`")
    drip_s: float = setting(10.0, "how long an answer of a dripping host takes", unit="s", at_least=0)


@dataclass(frozen=True, slots=True)
class TextSpec:
    """The texts of pages."""

    paragraphs: int = setting(
        7, "mean number of paragraphs; half to one and a half times as many", at_least=1, at_most=200
    )
    images: float = share(0.3, "of pages with a picture")
    pdfs: float = share(0.02, "of pages that are PDF documents")


@dataclass(frozen=True, slots=True)
class LinksSpec:
    """Links besides those of the trees that make every page reachable."""

    inside: int = setting(6, "mean number to pages of the same host", at_least=0, at_most=500)
    outside: int = setting(2, "mean number to other hosts", at_least=0, at_most=100)
    power: float = setting(3.0, "target = size * u ** power: the larger, the fewer pages get most links", at_least=1)
    same_topic: float = share(0.5, "of outside links that stay with the topic of their page (A6)")
    nofollow: float = share(0.03, "of these links that carry rel=nofollow")
    orphans: float = share(0.01, "of pages that no page links to; only sitemaps name them (C9)")
    changing: float = share(0.0, "of these links that lead to another page after every meaningful change of theirs")


@dataclass(frozen=True, slots=True)
class UrlsSpec:
    """The forms of URLs. All shares are of hosts."""

    relative: float = share(0.3, "whose links are relative to the page; the others begin with a slash")
    queries: float = share(0.15, "whose pages are query URLs (C4)")
    sessions: float = share(0.04, "that put a session id into every link, another one each hour")
    calendars: float = share(0.0, "with a calendar without end, a trap (A8)")
    parks: float = share(0.0, "with a trap park: every kind of trap, linked from every page (T9)")


@dataclass(frozen=True, slots=True)
class ChangesSpec:
    """The change processes of pages (P7). The three processes' shares are relative to their sum."""

    poisson: float = share(0.6, "of pages that change at independent instants")
    pareto: float = share(0.3, "of pages that change in bursts with long silences")
    regular: float = share(0.1, "of pages that change almost periodically")
    pareto_shape: float = setting(1.5, "exponent of the Pareto gaps", at_least=1.05, at_most=20)
    jitter: float = share(0.1, "of its period by which a regular change may be early or late")
    rates: str = setting("uniform", "how mean rates spread: uniform or zipf:THETA", matches=r"uniform|zipf:\d+(\.\d+)?")
    slowest: float = setting(0.01, "lowest mean rate", unit="changes per day", at_least=0)
    fastest: float = setting(1.0, "highest mean rate", unit="changes per day", at_least=0, at_most=1e6)
    cosmetic: float = share(0.3, "of changes that touch only a counter, a proverb and an advertisement")


@dataclass(frozen=True, slots=True)
class ErrorsSpec:
    """Answers other than 200, in Tarântula's proportions (T8)."""

    scale: float = setting(1.0, "multiplies every share of T8's table; 0: no errors", at_least=0, at_most=5)
    silent_s: float = setting(150.0, "how long a server stays silent where T8 says -10", unit="s", at_least=0)
    large_bytes: int = setting(12 * 2**20, "a body where T8 says -4", unit="bytes", at_least=1024, at_most=256 * 2**20)
    chains: float = share(0.05, "of redirects that lead to another redirect")
    loops: float = share(0.01, "of redirects that never end")


@dataclass(frozen=True, slots=True)
class RobotsSpec:
    """robots.txt and its relatives. No host is reachable only through closed or broken hosts."""

    present: float = share(0.5, "of hosts with a robots.txt")
    excluded: float = share(414 / 796_629, "of pages in a section that robots.txt forbids (T8's -7)")
    own_group: float = share(0.2, "of those files with a group for the agent teia")
    wildcards: float = share(0.3, "of those files that forbid the section with a wildcard")
    crawl_delay: float = share(0.1, "of those files with a Crawl-delay")
    crawl_delay_s: float = setting(2.0, "that Crawl-delay", unit="s", at_least=0)
    closed: float = share(0.0, "of hosts whose robots.txt forbids everything")
    broken: float = share(0.0, "of hosts whose robots.txt answers 503")
    noindex: float = share(0.02, "of leaf pages with meta robots noindex")
    nofollow: float = share(0.02, "of leaf pages with meta robots nofollow")


@dataclass(frozen=True, slots=True)
class SitemapsSpec:
    """Sitemaps. The shares are of hosts; the rest up to 1 has none."""

    honest: float = share(0.4, "with the time of the last meaningful change as lastmod")
    lying: float = share(0.1, "with the present time as lastmod of every page")
    bare: float = share(0.1, "without lastmod")
    urls_per_file: int = setting(1_000, "URLs of a file; a larger site has an index", at_least=10, at_most=50_000)
    fast_dates: bool = setting(
        False, "whether sitemaps and feeds go by a calendar that is as fast as time_factor, for crawlers that do too"
    )


@dataclass(frozen=True, slots=True)
class FeedsSpec:
    """Feeds of the latest changes among a host's first pages. The shares are of hosts."""

    rss: float = share(0.25, "with an RSS 2.0 feed")
    atom: float = share(0.25, "with an Atom feed")
    items: int = setting(15, "entries of a feed", at_least=1, at_most=200)


@dataclass(frozen=True, slots=True)
class ValidatorsSpec:
    """ETag and Last-Modified. The shares are of hosts; the rest up to 1 sends none."""

    honest: float = share(0.5, "that tell the truth")
    eager: float = share(0.1, "that call every answer new, whatever it is")
    frozen: float = share(0.05, "that never admit a change, and answer 304 to whoever has any copy")


@dataclass(frozen=True, slots=True)
class RegionsSpec:
    """Regions of clients and servers, and the distances between them (A4, A12). By default one region without delay."""

    names: tuple[str, ...] = setting(("here",), "regions; servers are spread over them evenly", matches=r"[a-z0-9_-]+")
    clients: tuple[str, ...] = setting((), "NETWORK=REGION, where clients are; others are in the first region")
    latency_s: tuple[tuple[float, ...], ...] = setting(
        (), "a row per client region: seconds before the first byte, a column per server region", unit="s", at_least=0
    )
    bytes_per_s: tuple[tuple[float, ...], ...] = setting(
        (), "the same for bandwidth; 0: without limit", unit="bytes/s", at_least=0
    )


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The whole spec. `WorldSpec()` is a small web with a bit of everything."""

    seed: int = setting(1, "what the world is drawn from")
    pages: int = setting(4_000, "URLs of all hosts together, those that fail included", at_least=1, at_most=10**9)
    hosts: int = setting(
        0, f"hosts, mirrors included; 0: one for every {PAGES_PER_HOST} pages", at_least=0, at_most=60_000
    )
    time_factor: float = setting(1.0, "how much faster than real time pages change", at_least=0, at_most=1e7)
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
        return cls.of({**values, **{key: value for key, value in overrides.items() if value is not None}})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> WorldSpec:
        """Make a spec of dotted keys; raise ConfigError for invalid ones."""
        spec = read_tree(cls, values)
        _check(spec)
        return spec


def _check(spec: WorldSpec) -> None:
    """Check constraints between several values: sums, sizes and shapes."""
    if spec.pages < spec.host_count:
        raise ConfigError(f"pages = {spec.pages}: must be at least hosts = {spec.hosts}, every host has a home page")
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
    if total > 1 + 1e-9:
        raise ConfigError(f"{section}: {terms} = {total:g}: must be at most 1")


def _check_regions(regions: RegionsSpec) -> None:
    count = len(regions.names)
    if not count:
        raise ConfigError("regions.names = []: must name at least one region")
    for key, matrix in (("latency_s", regions.latency_s), ("bytes_per_s", regions.bytes_per_s)):
        if matrix and (len(matrix) != count or any(len(row) != count for row in matrix)):
            raise ConfigError(f"regions.{key}: must have {count} rows of {count} numbers, as there are regions")
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
