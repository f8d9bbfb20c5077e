"""Every setting, in one typed tree.

A section is a frozen dataclass; a setting is a field made by `setting(default, meaning, ...)` (settings.py), which
carries its unit and what values are allowed. Values come from, in rising order: the default here, a TOML file, the
environment (`TEIA_COURTESY_DELAY_S=2`), flags. `load` reads them once at start; from then on sections are passed in as
values.

Unknown keys refuse to start and name the nearest one; a wrong value says the key, the value and what is allowed.
`teia config` prints the result with where each value came from; docs/config.md is generated from this tree.
The same reader serves the lab's world files (teia/lab/world/spec.py): `read_tree` knows nothing of crawling.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from teia.clustersettings import BalanceSettings, ClusterSettings, PlacementSettings
from teia.errors import ConfigError
from teia.settings import ADMIN, HERE, checked, setting
from teia.urls import DEFAULT_RULES, RULES, SLOTS

Tree = TypeVar("Tree")
ENVIRONMENT_PREFIX = "TEIA_"
NOT_SETTINGS = frozenset({"TEIA_CONFORMANCE", "TEIA_PYTHON", "TEIA_VENV"})
"""Variables that our scripts and tests read; everything else that begins with TEIA_ must be a setting."""


# ---- the tree -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """What a collection is (T1)."""

    name: str = setting("main", "name of the collection, and of its folder", matches=r"[a-z0-9][a-z0-9_-]{0,62}")
    seeds: tuple[str, ...] = setting((), "URLs to begin with")
    order: str = setting(
        "breadth",
        "which new URL of a host comes first (A6)",
        choices=("breadth", "depth", "backlinks", "pagerank", "focused", "sydney"),
    )
    cells: int = setting(4, "parts the collection is split into; fixed when it is made", at_least=1, at_most=SLOTS)


@dataclass(frozen=True, slots=True)
class FocusSettings:
    """What a focused crawl looks for, where `collection.order` is `focused` (A6; see orders.md)."""

    words: tuple[str, ...] = setting((), "words of the topic")
    examples: tuple[str, ...] = setting(
        (),
        "pages of the topic: files, folders, patterns, or URLs the collection holds; they need `others` beside them",
        of_machine=HERE,
    )
    others: tuple[str, ...] = setting(
        (),
        "pages of other topics, the same; NAME=PATH makes them a kind of which is learnt where it leads",
        of_machine=HERE,
    )
    mode: str = setting(
        "soft",
        "soft: links of relevant pages are taken first; hard: links of others are not taken",
        choices=("soft", "hard"),
    )
    tunnel: int = setting(1, "irrelevant pages in a row through which hard focus goes on", at_least=0, at_most=100)
    threshold: float = setting(0.5, "score from which a page is relevant", at_least=0.01, at_most=1)


@dataclass(frozen=True, slots=True)
class SydneySettings:
    """The Sydney strategy, where `collection.order` is `sydney` (A6; see orders.md)."""

    links: int = setting(
        12, "new links of a page to one host that go ahead; the others wait until the host has no more", at_least=1
    )
    seed: int = setting(1, "what decides which of them go ahead")


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Which URLs belong to the collection (A8, C4)."""

    include: tuple[str, ...] = setting((), "rules a URL must match one of; empty: the hosts of the seeds")
    exclude: tuple[str, ...] = setting((), "rules a URL must match none of")
    types: tuple[str, ...] = setting((), "media types kept, others are fetched no further; empty: all")
    max_depth: int = setting(20, "hops from a seed, by the shortest way found", at_least=0)
    queries: bool = setting(True, "whether URLs with a query are followed")
    url_rules: tuple[str, ...] = setting(DEFAULT_RULES, "rules of the canonical form", choices=tuple(RULES))


@dataclass(frozen=True, slots=True)
class CourtesySettings:
    """How servers are treated (A7, C2, T5)."""

    delay_s: float = setting(5.0, "rest of a server after its last answer", unit="s", at_least=0)
    response_factor: float = setting(2.0, "a server also rests this many times its last response time", at_least=0)
    per_host: int = setting(1, "requests at once to one host; more only for hosts that are yours", at_least=1)
    robots: bool = setting(True, "whether robots.txt and meta robots are obeyed")
    robots_max_age_s: float = setting(86_400.0, "how long a robots.txt is believed", unit="s", at_least=60)
    max_crawl_delay_s: float = setting(
        3_600.0, "a host that asks for a longer Crawl-delay is parked", unit="s", at_least=1
    )
    retry_wait_s: float = setting(30.0, "first wait before a failed URL is tried again; doubles", unit="s", at_least=0)
    shared_sites: int = setting(
        8, "registered domains at one address that share one rest; with more it is divided (sharing.py)", at_least=1
    )
    shared_rest_s: float = setting(
        1.0, "shortest rest of an address that many sites share, if the delay is longer", unit="s", at_least=0.05
    )
    cdn_nets: tuple[str, ...] = setting(
        (), "networks of content delivery, like 104.16.0.0/13: an address there rests shared_rest_s", of_machine=ADMIN
    )
    host_delays: tuple[str, ...] = setting(
        (), "hosts that rest longer than delay_s, like www.example.org=20, in seconds"
    )
    agreed_delays: tuple[str, ...] = setting(
        (), "hosts that rest less than delay_s and who of their owners agreed to it: www.example.org=2 Ana Souza"
    )
    paused: tuple[str, ...] = setting((), "hosts that are not asked for anything now; their URLs wait")
    max_hosts: int = setting(2_000, "servers visited at the same time (T4)", at_least=1)
    user_agent: str = setting(
        "teia", "product token, also what robots.txt groups are matched with", matches=r"[A-Za-z_-]+", in_header=True
    )
    contact: str = setting(
        "https://teia.invalid/about",
        "where a server's owner can reach you; part of the User-Agent header",
        in_header=True,
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What one crawl, host or page may cost. None of these can be switched off."""

    pages: int = setting(0, "pages stored before the crawl stops; 0: as many as there are", at_least=0)
    seconds: float = setting(0.0, "time before the crawl stops; 0: as long as it takes", unit="s", at_least=0)
    pages_per_host: int = setting(1_000_000, "requests to one host", at_least=1)
    host_budgets: tuple[str, ...] = setting((), "hosts with a number of their own instead: www.example.org=500")
    pages_per_site: int = setting(2_000_000, "requests to one registered domain", at_least=1)
    bytes_per_host: int = setting(50 * 2**30, "received from one host", unit="bytes", at_least=1024)
    bytes_per_site: int = setting(100 * 2**30, "received from one registered domain", unit="bytes", at_least=1024)
    pages_kept: int = setting(
        0, "pages that are kept fresh; when there are so many, no new ones are asked for (F2); 0: any", at_least=0
    )
    failures_per_host: int = setting(12, "failures in a row after which a host is given up for the run", at_least=1)
    failures_per_site: int = setting(200, "the same for all hosts of a registered domain together", at_least=1)
    body_bytes: int = setting(10 * 2**20, "body on the wire", unit="bytes", at_least=1024)
    decoded_bytes: int = setting(32 * 2**20, "body after decompression", unit="bytes", at_least=1024)
    decoded_ratio: int = setting(200, "decompressed to compressed, after the first MiB", at_least=2)
    header_line_bytes: int = setting(8 * 1024, "one header line", unit="bytes", at_least=256)
    header_bytes: int = setting(64 * 1024, "all headers of an answer", unit="bytes", at_least=1024)
    header_count: int = setting(100, "header lines of an answer", at_least=10)
    connect_s: float = setting(10.0, "to connect, TLS included", unit="s", at_least=0.1)
    slow_s: float = setting(15.0, "below 1 KiB/s for so long, an answer is given up", unit="s", at_least=1)
    fetch_s: float = setting(120.0, "for a whole answer", unit="s", at_least=1)
    redirects: int = setting(5, "hops of one redirect chain", at_least=0, at_most=20)
    robots_bytes: int = setting(500 * 1024, "of a robots.txt that are read", unit="bytes", at_least=1024)
    url_chars: int = setting(2_048, "length of a URL", unit="characters", at_least=64)
    url_segments: int = setting(20, "segments of a URL's path", at_least=1)
    links_per_page: int = setting(6_000, "links taken from one page", at_least=1)
    parse_cpu_s: float = setting(10.0, "processor time for one page", unit="s", at_least=0.1)
    parse_memory_bytes: int = setting(512 * 2**20, "memory of a parse child", unit="bytes", at_least=64 * 2**20)
    disk_free_bytes: int = setting(2 * 2**30, "free space below which fetching pauses", unit="bytes", at_least=0)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How addresses are found and reached."""

    resolve: tuple[str, ...] = setting((), "PATTERN=ADDRESS[:PORT], where matching names are reached", of_machine=ADMIN)
    dns: str = setting("", "resolver to ask, ADDRESS[:PORT]; empty: the system's", of_machine=ADMIN)
    bind: str = setting("", "own address that requests are sent from; empty: as the system chooses", of_machine=ADMIN)
    allow_nets: tuple[str, ...] = setting(
        (), "networks the address guard would refuse, e.g. 127.0.0.0/8", of_machine=ADMIN
    )
    keep_alive: int = setting(1_000, "idle connections kept", at_least=0, of_machine=ADMIN)
    at_once: int = setting(
        2_000, "requests under way at the same time (A9)", at_least=1, at_most=20_000, of_machine=ADMIN
    )


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """The parse children."""

    children: int = setting(0, "processes; 0: as many as there are cores", at_least=0)
    waiting_pages: int = setting(512, "pages that may wait for a child before fetching slows", at_least=1)
    waiting_bytes: int = setting(32 * 2**20, "the same in bytes", unit="bytes", at_least=2**20)
    processors: tuple[str, ...] = setting(
        (), "MEDIA_TYPE=module:function, your own readers of documents (A15)", of_machine=HERE
    )
    text: bool = setting(True, "whether the text of pages is read, for language and fingerprints; links always are")


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The WARC files and the fetch log."""

    file_bytes: int = setting(2**30, "size at which a WARC file is closed", unit="bytes", at_least=2**20)
    requisites: bool = setting(False, "whether images, styles and scripts of a page are fetched too (T12)")
    answers: bool = setting(True, "whether answers are kept; without, a crawl finds links and nothing else")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The search index."""

    enabled: bool = setting(True, "whether pages are put into the search index")
    semantics: bool = setting(False, "whether a model of meaning is learnt from 2,000 pages on, and helps to rank")


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Group commit."""

    every_s: float = setting(0.2, "longest wait of a page for its commit", unit="s", at_least=0.01)
    every_pages: int = setting(256, "pages that make a commit before that", at_least=1)


@dataclass(frozen=True, slots=True)
class SitesSettings:
    """Names that are one site, and pages that are not there (A7; see sites.md)."""

    aliases: bool = setting(True, "whether two names of one site are recognised and crawled as one")
    alias_pages: int = setting(
        3, "different pages that both names must show alike, robots.txt being the same too", at_least=2, at_most=32
    )
    alias_check_s: float = setting(
        604_800.0, "after so long an alias that is still linked to is looked at again", unit="s", at_least=0
    )
    probe_after_pages: int = setting(
        20, "known URLs of a host before it is asked for one that cannot exist, to find soft 404s; 0: never", at_least=0
    )
    traps: bool = setting(False, "whether kinds of URLs that have no end are found by their pages and parked (T9)")


@dataclass(frozen=True, slots=True)
class RefreshSettings:
    """Keeping known pages fresh (P9, A13; see keep-fresh.md)."""

    keep: bool = setting(False, "whether known pages are visited again; the crawl then ends only when told to")
    policy: str = setting(
        "edf",
        "which page is visited again when; edf is the one that is best over weeks",
        choices=(
            "psp", "psp-centred", "psp-aged", "mp2", "m-wolf", "uniform", "proportional", "cho", "edf", "index",
            "rate-update", "round-robin", "sampling", "user-centric",
        ),
    )  # fmt: skip
    share: float = setting(
        0.5, "of a host's requests that go to known pages while it also has new ones", at_least=0, at_most=1
    )
    least_s: float = setting(3_600.0, "no page is visited more often than this", unit="s", at_least=0.001)
    floor: float = setting(
        0.05, "of a host's visits that all its pages share alike, so that none is given up", at_least=0, at_most=1
    )
    explore: float = setting(
        0.05, "of pages that come sooner, by the best rate they may have, to learn the true one", at_least=0, at_most=1
    )
    weights: str = setting(
        "equal",
        "what makes a page important; file: as weights_file says; hits: as access logs do (teia signals import-log)",
        choices=("equal", "in_links", "pagerank", "file", "hits"),
    )
    weights_file: str = setting(
        "", "lines of URL and weight; pages that are not there have the weight 1", of_machine=HERE
    )
    signals: bool = setting(
        True, "whether what sites say of changes (sitemaps, feeds, pings) moves visits, as far as it proved true"
    )
    horizon_s: float = setting(86_400.0, "how far ahead timetables are made (psp …)", unit="s", at_least=1)
    replan_s: float = setting(900.0, "a host that has news is planned anew after so long", unit="s", at_least=0.1)


@dataclass(frozen=True, slots=True)
class SignalsSettings:
    """What others announce: the cache parasite (C7; see signals.md)."""

    socket: str = setting(
        "", "path where the helper beside a Squid announces pages; empty: nobody does", of_machine=ADMIN
    )
    proxy: str = setting(
        "", "the cache they are then taken from, ADDRESS:PORT; empty: they are visited like others", of_machine=ADMIN
    )
    delay_s: float = setting(
        10.0, "wait before the cache is asked, so that it has the page by then", unit="s", at_least=0
    )
    max_age_s: float = setting(86_400.0, "a copy that is younger is not renewed", unit="s", at_least=0)
    not_cached: str = setting(
        "skip",
        "what becomes of a page that the cache does not have; visit: we ask its server, as courteously as ever",
        choices=("skip", "visit"),
    )
    new_pages: bool = setting(True, "whether announced pages that are not known are collected")
    indexnow: bool = setting(False, "whether `teia serve` takes pings of sites whose pages changed (IndexNow)")
    websub: str = setting(
        "",
        "public address of `teia serve`, where hubs tell of changed feeds (WebSub); empty: they are not asked to",
        of_machine=ADMIN,
    )
    queries: bool = setting(False, "whether announced URLs with a query are taken; they may tell of a person")


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """When the collection is crawled (T1; see schedules.md)."""

    start: str = setting("", "when the first run begins, like 2026-11-21 02:00; empty: there is no schedule")
    zone: str = setting("", "time zone of start and until, like America/Sao_Paulo; empty: the machine's")
    every: str = setting("once", "from one start to the next: once, or like 7 days, 12 hours, 1 month")
    stop_after: str = setting("", "a run ends after so long, like 4 hours; empty: when it is done or the next begins")
    until: str = setting("", "last day on which a run begins, like 2027-06-30; empty: there is none")
    keep_fresh: bool = setting(False, "whether known pages are kept fresh between runs")


@dataclass(frozen=True, slots=True)
class PublicSettings:
    """What people who are not signed in may see of the collection in the web interface (see web.md)."""

    search: bool = setting(True, "whether they may search it, and see what is known of its pages")
    copies: bool = setting(True, "whether they may read copies of its pages")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole tree; one section per stage."""

    collection: CollectionSettings = field(default_factory=CollectionSettings)
    focus: FocusSettings = field(default_factory=FocusSettings)
    sydney: SydneySettings = field(default_factory=SydneySettings)
    scope: ScopeSettings = field(default_factory=ScopeSettings)
    courtesy: CourtesySettings = field(default_factory=CourtesySettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    parse: ParseSettings = field(default_factory=ParseSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    commit: CommitSettings = field(default_factory=CommitSettings)
    sites: SitesSettings = field(default_factory=SitesSettings)
    refresh: RefreshSettings = field(default_factory=RefreshSettings)
    signals: SignalsSettings = field(default_factory=SignalsSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    public: PublicSettings = field(default_factory=PublicSettings)


@dataclass(frozen=True, slots=True)
class Effective:
    """A configuration and where each of its values came from: `default`, a file, a variable or `flag`."""

    config: Config
    origins: Mapping[str, str]


def to_toml(config: Config) -> str:
    """Return the settings that differ from their defaults, as a file that `load` reads back to the same values."""
    lines: list[str] = []
    for each in fields(config):
        section, standard = getattr(config, each.name), getattr(Config(), each.name)
        changed = [f.name for f in fields(section) if getattr(section, f.name) != getattr(standard, f.name)]
        if changed:
            lines += [f"[{each.name}]", *(f"{name} = {toml_value(getattr(section, name))}" for name in changed), ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """One value in TOML. Its strings, numbers, booleans and lists are written as JSON writes them, but for DEL."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def value_of(tree: Any, key: str) -> Any:
    """Value of a dotted key in a tree of sections."""
    for name in key.split("."):
        tree = getattr(tree, name)
    return tree


# ---- reading --------------------------------------------------------------------------------------------------------


def load(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Effective:
    """Read file, environment and flags (`{"courtesy.delay_s": 2.0}`) into one configuration."""
    values: dict[str, Any] = {}
    origins = dict.fromkeys(keys_of(Config), "default")
    for key, value in ({} if path is None else flatten(read_toml(path))).items():
        values[key], origins[key] = value, str(path)
    for variable, key in _settings_in(environ or {}).items():
        values[key], origins[key] = from_text(Config, key, (environ or {})[variable]), variable
    for key, value in (flags or {}).items():
        if value is not None:
            values[key], origins[key] = value, "flag"
    return Effective(read_tree(Config, values), origins)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; every way this can fail is one line that names the file."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        # Not only TOMLDecodeError: bytes that are not UTF-8 and numbers of 5,000 digits end here too.
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


_hints: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)
"""The types of a section's fields. Finding them takes a while, and web pages read settings all the time."""


def keys_of(tree: type[Any]) -> Mapping[str, dataclasses.Field[Any]]:
    """Every dotted key of a tree of sections, with its field, in the order they are declared."""
    return _keys(tree, "")


def _keys_below(tree: type[Any], prefix: str) -> Mapping[str, dataclasses.Field[Any]]:
    keys: dict[str, dataclasses.Field[Any]] = {}
    hints = _hints(tree)
    for each in fields(tree):
        if dataclasses.is_dataclass(hints[each.name]):
            keys.update(_keys_below(hints[each.name], f"{prefix}{each.name}."))
        else:
            keys[f"{prefix}{each.name}"] = each
    return keys


_keys: Callable[[Any, str], Mapping[str, dataclasses.Field[Any]]] = cache(_keys_below)


def read_tree(tree: type[Tree], values: Mapping[str, Any]) -> Tree:
    """Build a tree of sections from dotted keys; unknown keys and wrong values are refused."""
    known = keys_of(tree)
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown setting {key!r}{_nearest(key, known)}")
    return _build(tree, values, "")


def _build(tree: type[Tree], values: Mapping[str, Any], prefix: str) -> Tree:
    hints = _hints(tree)
    arguments: dict[str, Any] = {}
    for each in fields(tree):  # type: ignore[arg-type]  # every caller passes a dataclass
        key = f"{prefix}{each.name}"
        if dataclasses.is_dataclass(hints[each.name]):
            arguments[each.name] = _build(hints[each.name], values, f"{key}.")
        elif key in values:
            arguments[each.name] = checked(key, values[key], hints[each.name], each.metadata)
    return tree(**arguments)


def from_text(tree: type[Any], key: str, text: str) -> Any:
    """Turn the text of an environment variable into the type of its setting; lists are split at commas."""
    kind = _hint_of(tree, key)
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        lowered = text.strip().lower()
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(lowered, text)
    for number in (int, float):
        if kind is number:
            try:
                return number(text)
            except ValueError:
                return text
    return text


def _hint_of(tree: type[Any], key: str) -> Any:
    for name in key.split("."):
        tree = _hints(tree)[name]
    return tree


def _settings_in(environ: Mapping[str, str]) -> dict[str, str]:
    by_variable = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in keys_of(Config)}
    found: dict[str, str] = {}
    for variable in environ:
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable not in by_variable:
            raise ConfigError(f"unknown setting {variable} in the environment{_nearest(variable, by_variable)}")
        found[variable] = by_variable[variable]
    return found


def _nearest(key: str, known: Mapping[str, Any]) -> str:
    last = key.rpartition(".")[2]
    close = [each for each in known if each.rpartition(".")[2] == last][:1]
    close = close or difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "; `teia config` lists them all"
