"""The hosts of a world: names, addresses, sizes and habits. The only thing a world keeps in memory.

Hosts are in order of size. They form a tree, eight children each, of links between home pages, so that all are
reachable from the first. Mirrors come last and are leaves of that tree, like hosts that robots.txt closes: a crawler
that obeys robots.txt, or skips mirrors, still finds everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from itertools import accumulate

from teia.errors import LabError
from teia.lab.text.prose import LANGUAGES, place_name, slug
from teia.lab.text.words import TOPICS, Language
from teia.lab.world.draws import bits64, pick, unit
from teia.lab.world.spec import RegionsSpec, SitesSpec, WorldSpec

BRANCHES = 8
SECTION_FRONTS = 6
FIRST_ADDRESS = "127.77.0.1"
SERVERS = ("Apache/2.4.62 (Debian)", "nginx/1.26.2", "nginx", "Microsoft-IIS/10.0", "LiteSpeed", "Apache")
EXTENSIONS = (".html", ".htm", "", ".php")


@dataclass(frozen=True, slots=True)
class WorldHost:
    """One site. `content` is the index of the host whose pages it shows: its own, or a mirror's original.

    Slots 0 to `first_leaf` - 1 have children and are always pages; slots 1 to `fronts` are the sections' first pages.
    """

    index: int
    content: int
    name: str
    aliases: tuple[str, ...]
    domain: str
    title: str
    address: str
    region: int
    size: int
    language: str
    topic: str
    salt: int
    charset: str
    charset_declared_in: str  # header, meta or both
    sloppy: bool
    relative: bool
    queries: bool
    session: str  # "", "path" or "query"
    calendar: bool
    park: bool
    extension: str
    canonical: bool
    robots: str  # none, some, closed or broken
    sitemap: str  # none, honest, lying or bare
    feed: str  # none, rss or atom
    validators: str  # none, honest, eager or frozen
    validator_form: str  # etag, date or both
    gzip: bool
    chunked: bool
    server: str
    soft_404: str  # "", plain or echo
    delay_s: float
    drip_s: float

    @property
    def first_leaf(self) -> int:
        return max(1, -(-(self.size - 1) // BRANCHES))

    @property
    def fronts(self) -> int:
        return min(SECTION_FRONTS, self.first_leaf - 1)

    @property
    def is_mirror(self) -> bool:
        return self.content != self.index

    @property
    def can_exclude(self) -> bool:
        """True if its robots.txt can forbid a section."""
        return self.robots == "some"

    @property
    def can_orphan(self) -> bool:
        """True if a crawler can discover pages without links to them, because robots.txt names the sitemap."""
        return self.robots == "some" and self.sitemap != "none"


@dataclass(frozen=True, slots=True)
class DeadName:
    """A name that pages link to and that has no server; without an address it does not exist (NXDOMAIN)."""

    name: str
    address: str


def make_hosts(spec: WorldSpec, first_address: str = FIRST_ADDRESS) -> tuple[list[WorldHost], list[DeadName]]:
    """Draw all hosts, and the names without a server."""
    sizes = zipf_sizes(spec.pages, spec.host_count, spec.sites.theta, spec.sites.offset)
    mirrors = min(int(spec.sites.mirrors * len(sizes) + 0.5), (len(sizes) - 1) // 2)
    addresses = _addresses(first_address)
    taken: set[str] = set()
    hosts: list[WorldHost] = []
    for index, size in enumerate(sizes[: len(sizes) - mirrors]):
        host = _make_host(spec, index, size, len(sizes) - mirrors, hosts, addresses, taken)
        hosts.append(_add_park(host) if unit(spec.seed, "host", index, "park") < spec.urls.parks else host)
    originals = len(hosts)
    for number in range(mirrors):
        hosts.append(_make_mirror(spec, hosts[originals - 1 - number], len(hosts), next(addresses), taken))
    mirrored = {mirror.content for mirror in hosts[originals:]}
    # A mirrored site names the canonical one on both sides, so that the bytes are the same.
    hosts = [replace(host, canonical=True) if host.content in mirrored else host for host in hosts]
    surplus = spec.pages - sum(host.size for host in hosts)
    hosts[0] = replace(hosts[0], size=max(1, hosts[0].size + surplus))
    return hosts, list(_make_dead_names(spec, addresses, taken))


def zipf_sizes(pages: int, hosts: int, theta: float, offset: float = 0.0) -> list[int]:
    """Distribute pages by Zipf's law, at least one each; the remainder of rounding goes to the first.

    `offset`, a share of the hosts, is added to all ranks (Mandelbrot's form of the law).
    """
    weights = [(rank + offset * hosts) ** -theta for rank in range(1, hosts + 1)]
    scale = (pages - hosts) / sum(weights)
    sizes = [1 + int(weight * scale) for weight in weights]
    sizes[0] += pages - sum(sizes)
    return sizes


def _addresses(first: str) -> Iterator[str]:
    """Yield addresses from the first on; none ends in .0 or .255, and the last /24 of a /16 is reserved for the lab."""
    number = int(IPv4Address(first))
    while number >> 8 & 0xFF != 0xFF:
        if 0 < number & 0xFF < 0xFF:
            yield str(IPv4Address(number))
        number += 1
    raise LabError(f"more servers than addresses from {first} on; use fewer hosts or a share of sites.shared_address")


def _make_host(
    spec: WorldSpec,
    index: int,
    size: int,
    count: int,
    hosts: list[WorldHost],
    addresses: Iterator[str],
    taken: set[str],
) -> WorldHost:
    key = (spec.seed, "host", index)
    sites = spec.sites
    sibling = hosts[-1] if hosts and unit(*key, "domain") < sites.same_domain else None
    code = sibling.language if sibling else "pt" if unit(*key, "language") < sites.portuguese else "en"
    language = LANGUAGES[code]
    name, domain, title = (
        _name_in_domain(sibling, language, key, taken) if sibling else _make_name(language, key, taken)
    )
    shares_address = hosts and unit(*key, "address") < sites.shared_address
    is_small, is_leaf = index >= count / 2 and index > 0, index > 0 and BRANCHES * index + 1 >= count
    latin = unit(*key, "charset") < sites.latin1
    session = pick(("path", "query"), *key, "session form") if unit(*key, "session") < spec.urls.sessions else ""
    return WorldHost(
        index=index,
        content=index,
        name=name,
        aliases=_make_aliases(name, domain, taken) if is_small and unit(*key, "alias") < sites.aliases else (),
        domain=domain,
        title=title,
        address=hosts[-1].address if shares_address else next(addresses),
        region=_draw_region(spec.regions, index, key),
        size=size,
        language=code,
        topic=sibling.topic if sibling else pick(TOPICS, *key, "topic"),
        salt=bits64(*key, "salt"),
        charset=pick(("iso-8859-1", "windows-1252"), *key, "latin") if latin else "utf-8",
        charset_declared_in=pick(("header", "meta", "both"), *key, "told by"),
        sloppy=unit(*key, "sloppy") < sites.sloppy,
        relative=unit(*key, "relative") < spec.urls.relative,
        queries=unit(*key, "queries") < spec.urls.queries,
        session=session,
        calendar=unit(*key, "calendar") < spec.urls.calendars,
        park=False,
        extension=pick(EXTENSIONS, *key, "extension"),
        canonical=unit(*key, "canonical") < 0.5,
        robots=_draw_robots(spec, key, is_leaf),
        sitemap=_draw_kind(spec.sitemaps, ("honest", "lying", "bare"), *key, "sitemap"),
        feed=_draw_kind(spec.feeds, ("rss", "atom"), *key, "feed"),
        # A page with a new session id at every visit has no honest validator.
        validators="none"
        if session
        else _draw_kind(spec.validators, ("honest", "eager", "frozen"), *key, "validators"),
        validator_form=pick(("both", "both", "etag", "date"), *key, "validator form"),
        gzip=unit(*key, "gzip") < sites.gzip,
        chunked=unit(*key, "chunked") < sites.chunked,
        server=pick(SERVERS, *key, "server"),
        soft_404=pick(("plain", "echo"), *key, "not found") if unit(*key, "soft 404") < sites.soft_404 else "",
        delay_s=_draw_delay_s(sites, key),
        drip_s=_draw_drip_s(sites, key),
    )


def _draw_region(regions: RegionsSpec, index: int, key: tuple[object, ...]) -> int:
    if not regions.hosted:
        return index % len(regions.names)
    ends, drawn = accumulate(regions.hosted), unit(*key, "region")
    return next((region for region, end in enumerate(ends) if drawn < end), len(regions.names) - 1)


def _make_mirror(spec: WorldSpec, original: WorldHost, index: int, address: str, taken: set[str]) -> WorldHost:
    """Return a mirror: same pages, robots and validators, but another name, address, region and server."""
    key = (spec.seed, "host", index)
    label = LANGUAGES[original.language].phrases["mirror"]
    name = _unique_name(f"{label}-{original.name.removeprefix('www.')}", taken)
    return replace(
        original,
        index=index,
        name=name,
        aliases=(),
        domain=name,
        address=address,
        region=_draw_region(spec.regions, index, key),
        server=pick(SERVERS, *key, "server"),
        gzip=unit(*key, "gzip") < spec.sites.gzip,
        chunked=unit(*key, "chunked") < spec.sites.chunked,
        delay_s=_draw_delay_s(spec.sites, key),
        drip_s=_draw_drip_s(spec.sites, key),
    )


def _add_park(host: WorldHost) -> WorldHost:
    """Return the host with a trap park: only its links show which of its URLs are pages."""
    plain = {"relative": False, "queries": False, "session": "", "sitemap": "none", "feed": "none"}
    return replace(host, park=True, canonical=False, calendar=False, **plain)  # type: ignore[arg-type]  # of their types


def _draw_delay_s(sites: SitesSpec, key: tuple[object, ...]) -> float:
    return sites.slow_s if unit(*key, "slow") < sites.slow else 0.0


def _draw_drip_s(sites: SitesSpec, key: tuple[object, ...]) -> float:
    return sites.drip_s if unit(*key, "dripping") < sites.dripping else 0.0


def _draw_robots(spec: WorldSpec, key: tuple[object, ...], is_leaf: bool) -> str:
    """Draw the robots.txt; closed and broken ones first, and only where no other host depends on this one."""
    chance = unit(*key, "robots trouble")
    if is_leaf and chance < spec.robots.closed:
        return "closed"
    if is_leaf and chance < spec.robots.closed + spec.robots.broken:
        return "broken"
    return "some" if unit(*key, "robots") < spec.robots.present else "none"


def _draw_kind(section: object, names: tuple[str, ...], *key: object) -> str:
    """Draw one of the named shares of a section; the rest up to 1 is `none`."""
    chance = unit(*key)
    for name in names:
        chance -= getattr(section, name)
        if chance < 0:
            return name
    return "none"


# ---- names ----------------------------------------------------------------------------------------------------------


def _unique_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number where it exists already."""
    label, dot, rest = name.partition(".")
    number = 2
    while name in taken:
        name = f"{label}-{number}{dot}{rest}"
        number += 1
    taken.add(name)
    return name


def _make_name(language: Language, key: tuple[object, ...], taken: set[str]) -> tuple[str, str, str]:
    """Return name, domain and title of an independent site: `www.gazeta-de-valmourisco.test`."""
    label, kind = pick(language.site_kinds, *key, "kind")
    place = place_name(language, *key, "site")
    if language.code == "pt":
        domain, title = f"{label}-de-{slug(place)}.test", f"{kind} de {place}"
    else:
        domain, title = f"{slug(place)}-{label}.test", f"{place} {kind}"
    domain = _unique_name(domain, taken)
    name = domain if unit(*key, "bare") < 0.3 else _unique_name(f"www.{domain}", taken)
    return name, domain, title


def _name_in_domain(
    sibling: WorldHost, language: Language, key: tuple[object, ...], taken: set[str]
) -> tuple[str, str, str]:
    """Return another host of the sibling's domain: `blog.gazeta-de-valmourisco.test`."""
    label = pick(language.subdomains, *key, "subdomain")
    name = _unique_name(f"{label}.{sibling.domain}", taken)
    return name, sibling.domain, f"{sibling.title} {label}"


def _make_aliases(name: str, domain: str, taken: set[str]) -> tuple[str, ...]:
    other = domain if name == f"www.{domain}" else f"{slug(name.removesuffix('.test'))}-online.test"
    if other == domain:
        return (other,)  # reserved for this site when it was named
    return (_unique_name(other, taken),)


def _make_dead_names(spec: WorldSpec, addresses: Iterator[str], taken: set[str]) -> Iterator[DeadName]:
    count = spec.host_count
    for number in range(int(spec.sites.nxdomain * count + 0.5)):
        yield DeadName(_make_name(LANGUAGES["pt"], (spec.seed, "nxdomain", number), taken)[0], "")
    for number in range(int(spec.sites.unreachable * count + 0.5)):
        name = _make_name(LANGUAGES["en"], (spec.seed, "unreachable", number), taken)[0]
        yield DeadName(name, next(addresses))
