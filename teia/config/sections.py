"""All settings: sections as frozen dataclasses, `Config`, the tree of all sections, and the flags that stand for some.

docs/config.md is generated from this tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from teia.config import extensions
from teia.config.tree import ADMIN, HERE, setting
from teia.urls import DEFAULT_RULES, RULES, SLOTS

ORDERS = ("breadth", "depth", "backlinks", "pagerank", "focused", "sydney", "fifo", "klwf", "lwf")
"""Orders of a host's new URLs; frontier/queue/order.py has them."""

ARCHIVE = "archive"
KINDS = ("search", ARCHIVE)
"""Purposes of a collection."""

POLICIES = (
    "psp", "psp-centred", "psp-aged", "mp2", "m-wolf", "uniform", "proportional", "cho", "edf", "azar",
    "lambda-crawl", "ebr", "index", "rate-update", "round-robin", "sampling", "user-centric",
)  # fmt: skip
"""Policies of revisits; refresh/policies.py has them."""


RENDER_RULE = r"(host|domain|suffix|prefix|regex):\S+"
"""Rules for rendering: those that name neither files nor code."""


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """Name, seeds and order of a collection (T1)."""

    # Folders, web addresses and subjects of NATS contain the name.
    name: str = setting("main", "name of the collection and of its folder", matches=r"[a-z0-9][a-z0-9_-]{0,62}")
    seeds: tuple[str, ...] = setting((), "URLs where the crawl starts")
    kind: str = setting(
        "search",
        "purpose of the collection; an archive also fetches what pages need to be shown, like `archive.requisites`",
        choices=KINDS,
    )
    order: str = setting(
        "breadth",
        "order in which the new URLs of a host are fetched",
        choices=ORDERS,
        extended_by=extensions.ORDERS,
    )
    prefer: tuple[str, ...] = setting(
        (),
        "URLs that come first in the orders breadth and backlinks: domain:SUFFIX, or language:CODE of the linking page",
        matches=r"domain:[^\s/:]+|language:[a-z]{2,3}",
    )
    # A cell holds one slot at least.
    cells: int = setting(
        4, "number of cells (partitions) of the collection; fixed when it is created", at_least=1, at_most=SLOTS
    )


@dataclass(frozen=True, slots=True)
class FocusSettings:
    """Topic of a focused crawl; used if `collection.order` is `focused` (A6; see orders.md)."""

    words: tuple[str, ...] = setting((), "keywords of the topic")
    examples: tuple[str, ...] = setting(
        (),
        "example pages of the topic: files, folders, glob patterns, or URLs stored in the collection; needs"
        " `others` too",
        of_machine=HERE,
    )
    others: tuple[str, ...] = setting(
        (),
        "example pages of other topics, in the same forms; NAME=PATH makes a class whose links are ranked by where"
        " they led",
        of_machine=HERE,
    )
    mode: str = setting(
        "soft",
        "soft: links of relevant pages are fetched first; hard: links of irrelevant pages are not followed",
        choices=("soft", "hard"),
    )
    tunnel: int = setting(
        1,
        "number of consecutive irrelevant pages whose links a hard-focused crawl still follows",
        at_least=0,
        at_most=100,
    )
    threshold: float = setting(0.5, "minimum relevance score of a relevant page", at_least=0.01, at_most=1)


@dataclass(frozen=True, slots=True)
class SydneySettings:
    """The Sydney strategy; used if `collection.order` is `sydney` (A6; see orders.md)."""

    links: int = setting(
        12,
        "new links per page and target host that are queued first; the others wait until the host has no other URLs",
        at_least=1,
    )
    seed: int = setting(1, "random seed for the choice of these links")


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Rules for the URLs that belong to the collection (A8, C4)."""

    include: tuple[str, ...] = setting(
        (), "include rules: a URL must match at least one; empty: the hosts of the seeds"
    )
    exclude: tuple[str, ...] = setting((), "exclude rules: a URL must match none; they override include rules")
    types: tuple[str, ...] = setting(
        (), "media types to store; bodies of other types are not downloaded; empty: all types"
    )
    max_depth: int = setting(
        20, "maximum depth: links between a seed and a page, along the shortest path found", at_least=0
    )
    queries: bool = setting(True, "follow URLs that have a query string")
    url_rules: tuple[str, ...] = setting(DEFAULT_RULES, "URL normalization rules", choices=tuple(RULES))


@dataclass(frozen=True, slots=True)
class CourtesySettings:
    """Politeness towards servers: delays, robots.txt, identification (A7, C2, T5)."""

    delay_s: float = setting(
        5.0, "minimum delay between two requests to a server, from the last byte of a response", unit="s", at_least=0
    )
    response_factor: float = setting(
        2.0, "minimum delay as a multiple of the server's last response time; the longer delay applies", at_least=0
    )
    small_site_factor: float = setting(
        1.0,
        "delay of a small host as a multiple of delay_s; 4 gives small hosts 20 s where others have 5 s",
        at_least=1,
        at_most=100,
    )
    small_site_urls: int = setting(
        100, "number of known URLs up to which a host is small, if small_site_factor is above 1", at_least=0
    )
    per_host: int = setting(1, "parallel requests to one host; more than 1 only for hosts that are yours", at_least=1)
    robots: bool = setting(True, "obey robots.txt and robots meta tags")
    # RFC 9309: not used for more than 24 hours.
    robots_max_age_s: float = setting(86_400.0, "time after which robots.txt is fetched again", unit="s", at_least=60)
    max_crawl_delay_s: float = setting(
        3_600.0, "longest Crawl-delay that is accepted; hosts that demand more are parked", unit="s", at_least=1
    )
    retry_wait_s: float = setting(
        30.0, "delay before the first retry of a failed URL; doubled at each further failure", unit="s", at_least=0
    )
    shared_sites: int = setting(
        8,
        "maximum number of sites (registered domains) at one IP address that share one full delay;"
        " with more, it is divided",
        at_least=1,
    )
    shared_rest_s: float = setting(
        1.0,
        "minimum delay between two requests to an IP address shared by many sites, where delay_s is longer",
        unit="s",
        at_least=0.05,
    )
    cdn_nets: tuple[str, ...] = setting(
        (),
        "networks of content delivery networks, such as 104.16.0.0/13; the delay of their addresses is shared_rest_s",
        of_machine=ADMIN,
    )
    host_delays: tuple[str, ...] = setting((), "longer delay for single hosts, in seconds: www.example.org=20")
    agreed_delays: tuple[str, ...] = setting(
        (),
        "shorter delay for single hosts, in seconds, with the name of the owner who approved it:"
        " www.example.org=2 Ana Souza",
    )
    paused: tuple[str, ...] = setting((), "paused hosts: no requests are sent to them, their URLs stay queued")
    max_hosts: int = setting(2_000, "maximum number of hosts crawled in parallel", at_least=1)
    # RFC 9309: a product token has letters, `_` and `-` only.
    user_agent: str = setting(
        "teia",
        "product token of the User-Agent header; also selects the group in robots.txt",
        matches=r"[A-Za-z_-]+",
        in_header=True,
    )
    contact: str = setting(
        "https://teia.invalid/about",
        "contact URL or e-mail address for server owners; part of the User-Agent header",
        in_header=True,
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Limits of a crawl, a host or a page. Safety limits cannot be switched off."""

    pages: int = setting(0, "maximum number of pages stored per crawl; 0: unlimited", at_least=0)
    seconds: float = setting(0.0, "maximum duration of a crawl; 0: unlimited", unit="s", at_least=0)
    pages_per_host: int = setting(1_000_000, "maximum number of requests to one host", at_least=1)
    host_budgets: tuple[str, ...] = setting(
        (), "request limits for single hosts, instead of pages_per_host: www.example.org=500"
    )
    pages_per_site: int = setting(2_000_000, "maximum number of requests to one site (registered domain)", at_least=1)
    bytes_per_host: int = setting(
        50 * 2**30, "maximum number of bytes received from one host", unit="bytes", at_least=1024
    )
    bytes_per_site: int = setting(
        100 * 2**30, "maximum number of bytes received from one site (registered domain)", unit="bytes", at_least=1024
    )
    hosts_in_memory: int = setting(
        20_000,
        "maximum number of hosts of a collection in memory, 1.7 kB each; others with URLs wait on disk for their turn",
        at_least=1,
    )
    pages_kept: int = setting(
        0, "maximum number of pages kept fresh; once it is reached, no new pages are fetched; 0: unlimited", at_least=0
    )
    failures_per_host: int = setting(
        12, "consecutive failures after which a host is skipped for the rest of the run", at_least=1
    )
    failures_per_site: int = setting(
        200,
        "consecutive failures, over all hosts of a site, after which the site is skipped for the rest of the run",
        at_least=1,
    )
    body_bytes: int = setting(10 * 2**20, "maximum size of a response body as transferred", unit="bytes", at_least=1024)
    decoded_bytes: int = setting(
        32 * 2**20, "maximum size of a response body after decompression", unit="bytes", at_least=1024
    )
    decoded_ratio: int = setting(
        200, "maximum compression ratio of a response body, checked after the first MiB", at_least=2
    )
    header_line_bytes: int = setting(8 * 1024, "maximum size of one header line", unit="bytes", at_least=256)
    header_bytes: int = setting(64 * 1024, "maximum size of all headers of a response", unit="bytes", at_least=1024)
    header_count: int = setting(100, "maximum number of header lines of a response", at_least=10)
    connect_s: float = setting(10.0, "time limit for a connection, TLS handshake included", unit="s", at_least=0.1)
    slow_s: float = setting(
        15.0, "time limit for slow responses: time below 1 KiB/s after which a request is aborted", unit="s", at_least=1
    )
    fetch_s: float = setting(120.0, "time limit for a whole response", unit="s", at_least=1)
    redirects: int = setting(5, "maximum number of redirects in a chain", at_least=0, at_most=20)
    # RFC 9309: at least 500 KiB are read.
    robots_bytes: int = setting(
        500 * 1024, "maximum size of a robots.txt; the remainder is ignored", unit="bytes", at_least=1024
    )
    url_chars: int = setting(2_048, "maximum length of a URL", unit="characters", at_least=64)
    url_segments: int = setting(20, "maximum number of path segments of a URL", at_least=1)
    links_per_page: int = setting(6_000, "maximum number of links extracted from one page", at_least=1)
    parse_cpu_s: float = setting(10.0, "maximum CPU time for parsing one page", unit="s", at_least=0.1)
    parse_memory_bytes: int = setting(
        512 * 2**20, "maximum memory of a parse process", unit="bytes", at_least=64 * 2**20
    )
    disk_free_bytes: int = setting(
        2 * 2**30, "minimum free disk space; fetching pauses below it", unit="bytes", at_least=0
    )


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Name resolution and connections."""

    resolve: tuple[str, ...] = setting(
        (),
        "static name resolution, PATTERN=ADDRESS[:PORT]: matching host names connect to this address",
        of_machine=ADMIN,
    )
    dns: str = setting("", "DNS resolver, ADDRESS[:PORT]; empty: the resolver of the system", of_machine=ADMIN)
    bind: str = setting(
        "", "local IP address that requests are sent from; empty: chosen by the system", of_machine=ADMIN
    )
    allow_nets: tuple[str, ...] = setting(
        (),
        "networks that may be contacted although the address guard blocks them, such as 127.0.0.0/8",
        of_machine=ADMIN,
    )
    keep_alive: int = setting(1_000, "maximum number of idle connections kept open", at_least=0, of_machine=ADMIN)
    at_once: int = setting(2_000, "maximum number of parallel requests", at_least=1, at_most=20_000, of_machine=ADMIN)
    http2: str = setting(
        "needed",
        "HTTP/2 for TLS servers: needed (that give no answer to HTTP/1.1), offered (all that know it) or never",
        choices=("needed", "offered", "never"),
    )


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """The parse processes."""

    children: int = setting(0, "number of parse processes; 0: one per CPU core", at_least=0)
    waiting_pages: int = setting(
        512, "maximum number of pages waiting to be parsed; fetching slows down above it", at_least=1
    )
    waiting_bytes: int = setting(
        32 * 2**20,
        "maximum size of all pages waiting to be parsed; fetching slows down above it",
        unit="bytes",
        at_least=2**20,
    )
    processors: tuple[str, ...] = setting((), "custom document parsers, MEDIA_TYPE=module:function", of_machine=HERE)
    text: bool = setting(
        True, "extract the text of pages, for language detection and fingerprints; links are always extracted"
    )


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Pages rendered by a browser (see rendering.md)."""

    mode: str = setting(
        "auto",
        "auto: render pages whose scripts bring text or links, if Chromium is installed; always: all web pages; never",
        choices=("auto", "never", "always"),
    )
    always: tuple[str, ...] = setting(
        (), "rules of URLs that are always rendered, in the form of include rules", matches=RENDER_RULE
    )
    never: tuple[str, ...] = setting(
        (), "rules of URLs that are never rendered; they override `always`", matches=RENDER_RULE
    )
    budget: int = setting(10_000, "pages rendered in one run at most; 0: no limit", at_least=0)
    parallel: int = setting(4, "pages rendered at a time", at_least=1, at_most=64)
    busy_s: float = setting(
        15.0, "time that the scripts of a page may take, without the time for its requests", unit="s", at_least=0.1
    )
    longest_s: float = setting(600.0, "time after which a page is taken as it is", unit="s", at_least=1)
    requests: int = setting(50, "requests of one page at most; the others fail in the page", at_least=0)
    memory_bytes: int = setting(
        2**30, "memory of one process of the browser, above which it is killed", unit="bytes", at_least=2**26
    )


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The WARC files and the fetch log."""

    file_bytes: int = setting(
        2**30, "size at which a WARC file is closed and a new one begins", unit="bytes", at_least=2**20
    )
    requisites: bool = setting(False, "fetch page requisites too: images, style sheets and scripts")
    answers: bool = setting(True, "store responses in the archive; if false, the crawl only discovers links")
    content_seen: bool = setting(
        True, "recognise a body that another URL brought before: store a reference to it and do not parse it again"
    )
    fixity_days: float = setting(
        90.0,
        "time within which each WARC file is read again and compared with its signed digest; 0: never",
        unit="days",
        at_least=0,
    )


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Captures that stay in the archive (see commands.md); `teia retain` removes the others."""

    versions: int = setting(0, "newest versions kept of each page; 0: all", at_least=0)
    days: float = setting(0.0, "age up to which captures are kept; 0: any", unit="days", at_least=0)
    first: bool = setting(True, "always keep the first capture of a page")
    monthly: bool = setting(False, "always keep the last capture of each month")
    quota_bytes: int = setting(
        0,
        "disk space of the archive; near it a crawl removes the oldest captures, or pauses; 0: no limit",
        unit="bytes",
        at_least=0,
    )


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The search index."""

    enabled: bool = setting(True, "add pages to the search index")
    semantics: bool = setting(True, "train a semantic model from 300 pages on, and use it for ranking if it helps")
    cached_answers: int = setting(
        200,
        "number of answers kept for repeated searches, each for a minute or until the index changes; 0: none",
        at_least=0,
        at_most=100_000,
    )


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Group commit: pages are made durable in groups."""

    every_s: float = setting(0.2, "maximum time between fetching a page and committing it", unit="s", at_least=0.01)
    every_pages: int = setting(256, "number of pages that triggers a commit earlier", at_least=1)


@dataclass(frozen=True, slots=True)
class SitesSettings:
    """Aliases (several names of one site), soft 404 pages and traps (A7; see sites.md)."""

    aliases: bool = setting(
        True, "detect host names that serve the same site (aliases), and crawl the site under one name"
    )
    alias_pages: int = setting(
        3,
        "number of identical pages, besides robots.txt, required to treat two host names as aliases",
        at_least=2,
        at_most=32,
    )
    alias_check_s: float = setting(
        604_800.0, "interval between checks of an alias that pages still link to", unit="s", at_least=0
    )
    probe_after_pages: int = setting(
        20,
        "number of known URLs of a host before one nonexistent URL is fetched to detect soft 404 pages; 0: never",
        at_least=0,
    )
    identity_after_pages: int = setting(
        0,
        "number of requests to a host before one of its pages is requested under a second User-Agent, to find servers"
        " that answer differently by client; 0: never",
        at_least=0,
    )
    traps: bool = setting(True, "detect endless URL patterns (traps) by their pages, and park their URLs")


@dataclass(frozen=True, slots=True)
class RefreshSettings:
    """Revisits that keep known pages fresh (P9, A13; see keep-fresh.md)."""

    keep: bool = setting(False, "revisit known pages to keep them fresh; the crawl then runs until it is stopped")
    policy: str = setting(
        "edf",
        "policy that schedules revisits; edf gives the best freshness over weeks",
        choices=POLICIES,
        extended_by=extensions.POLICIES,
    )
    budget: int = setting(
        0,
        "maximum number of requests a day (or bytes: budget_unit) of all hosts together; each host gets what gains most"
        " freshness; 0: unlimited",
        at_least=0,
    )
    budget_unit: str = setting("requests", "unit of the budget", choices=("requests", "bytes"))
    discovery: str = setting(
        "auto",
        "division of requests between known pages and new URLs; value: where a visit gains most freshness; share:"
        " refresh.share goes to known pages; auto: value with a budget, share without",
        choices=("auto", "value", "share"),
    )
    share: float = setting(
        0.5, "share of a host's requests for known pages while it also has new ones", at_least=0, at_most=1
    )
    least_s: float = setting(3_600.0, "minimum interval between two visits to a page", unit="s", at_least=0.001)
    floor: float = setting(
        0.05,
        "share of a host's visits distributed equally over all its pages, so that every page is revisited",
        at_least=0,
        at_most=1,
    )
    explore: float = setting(
        0.05,
        "share of pages revisited earlier, at the highest plausible change rate, to learn their true rate",
        at_least=0,
        at_most=1,
    )
    weights: str = setting(
        "equal",
        "importance of pages; changes: how often they change; file: read from weights_file; hits: from access logs"
        " (teia signals import-log)",
        choices=("equal", "in_links", "pagerank", "changes", "file", "hits"),
    )
    weights_file: str = setting(
        "", "file with one URL and weight per line; pages that are not listed have weight 1", of_machine=HERE
    )
    signals: bool = setting(
        True, "use change signals of sites (sitemaps, feeds, pings) to schedule visits, weighted by their past accuracy"
    )
    horizon_s: float = setting(
        86_400.0, "period covered by one plan, for policies with timetables (psp …)", unit="s", at_least=1
    )
    replan_s: float = setting(900.0, "minimum interval between two plans of a host", unit="s", at_least=0.1)


@dataclass(frozen=True, slots=True)
class SignalsSettings:
    """Change signals of other programs: Squid (the cache parasite), IndexNow, WebSub (C7; see signals.md)."""

    socket: str = setting(
        "", "path of the socket where the Squid helper announces pages; empty: disabled", of_machine=ADMIN
    )
    proxy: str = setting(
        "",
        "address of the cache from which announced pages are fetched, ADDRESS:PORT; empty:"
        " they are fetched from their servers",
        of_machine=ADMIN,
    )
    caches: tuple[str, ...] = setting(
        (),
        "several caches, NAME=ADDRESS:PORT: pages that the helper of one announces (SOCKET@NAME) are fetched from it"
        " instead of signals.proxy",
        of_machine=ADMIN,
    )
    delay_s: float = setting(
        10.0,
        "delay before an announced page is requested from the cache, which needs time to store it",
        unit="s",
        at_least=0,
    )
    max_age_s: float = setting(
        86_400.0, "minimum age of a capture before an announcement renews it", unit="s", at_least=0
    )
    not_cached: str = setting(
        "skip",
        "action for announced pages that are not in the cache; visit: fetch them from their server, with its usual"
        " delay",
        choices=("skip", "visit"),
    )
    new_pages: bool = setting(True, "add announced pages that are not known yet")
    indexnow: bool = setting(False, "accept IndexNow pings at `teia serve`")
    websub: str = setting(
        "",
        "public URL of `teia serve`, where WebSub hubs report changed feeds; empty: no subscriptions to hubs",
        of_machine=ADMIN,
    )
    queries: bool = setting(False, "accept announced URLs with a query string; they may contain personal data")


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Schedule of the collection's runs (T1; see schedules.md)."""

    start: str = setting("", "date and time of the first run, such as 2026-11-21 02:00; empty: no schedule")
    zone: str = setting(
        "", "time zone of start and until, such as America/Sao_Paulo; empty: the time zone of the machine"
    )
    every: str = setting(
        "once", "interval between the starts of two runs: once, or a period such as 7 days, 12 hours, 1 month"
    )
    stop_after: str = setting(
        "", "maximum duration of a run, such as 4 hours; empty: until it is complete or the next run starts"
    )
    until: str = setting("", "last day on which a run starts, such as 2027-06-30; empty: no end")
    keep_fresh: bool = setting(False, "keep known pages fresh between runs")


@dataclass(frozen=True, slots=True)
class PublicSettings:
    """Access to the collection in the web interface without signing in (see web.md)."""

    search: bool = setting(True, "allow searches and page details without signing in")
    copies: bool = setting(True, "allow reading captures without signing in")
    noarchive: bool = setting(True, "except captures of pages that say noarchive")
    titles_open: str = setting(
        "page", "what the title of a result opens: the page itself, or our capture of it", choices=("page", "capture")
    )


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Messages about alerts of the collection, sent by `teia serve` (see web.md)."""

    email: tuple[str, ...] = setting((), "e-mail addresses that receive a message about every new alert")
    smtp: str = setting(
        "127.0.0.1:25", "mail server that accepts these messages, HOST:PORT, such as a relay of yours", of_machine=ADMIN
    )
    sender: str = setting("teia@localhost", "sender of these messages")
    webhook: str = setting(
        "", "URL that receives a POST with JSON about every new alert, such as an incoming webhook of a chat program"
    )


# ---- many machines (docs/cluster.md) ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Snapshots of cells and the collection's stream in NATS (A3; see cluster.md)."""

    snapshots: str = setting(
        "nats",
        "destination of cell snapshots: nats (its object store), or a path such as /mnt/teia or s3://bucket/teia",
        of_machine=ADMIN,
    )
    snapshot_s: float = setting(600.0, "interval between two snapshots of a cell that changed", unit="s", at_least=1)
    snapshot_log_bytes: int = setting(
        256 * 2**20, "growth of a cell's log that triggers a snapshot earlier", unit="bytes", at_least=64 * 1024
    )
    ship_archive: bool = setting(
        False, "copy archive files to the same destination, and fetch them from there when a cell moves"
    )
    stream_bytes: int = setting(
        0, "maximum size of the collection's stream in NATS; 0: the limit of the NATS server", unit="bytes", at_least=0
    )


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Choice of the node that crawls a site (see cluster.md)."""

    minimum_kb_s: float = setting(
        0.0,
        "minimum transfer rate from a site; a slower node hands the site over; 0: the fastest region crawls it",
        unit="kB/s",
        at_least=0,
    )
    measured_pages: int = setting(
        3, "number of pages used to measure the transfer rate of a site", at_least=1, at_most=1_000
    )
    again_s: float = setting(
        86_400.0, "time after which the transfer rate of a site is measured again", unit="s", at_least=1
    )
    rules: tuple[str, ...] = setting(
        (),
        "rules before the strategy of the cluster, RULE TARGET: sites that match a scope rule go to the nodes of a"
        " region, or to a node, such as suffix:.br br",
        of_machine=HERE,
    )


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Load balancing between the nodes of a cluster (A5, A14; see cluster.md)."""

    enabled: bool = setting(True, "transfer cells from overloaded nodes to others")
    idle_urls: int = setting(100, "queued URLs per unit of capacity below which a node is idle", at_least=0)
    overloaded_urls: int = setting(
        1_000, "queued URLs per unit of capacity above which a node is overloaded", at_least=1
    )
    hysteresis: float = setting(
        0.2,
        "hysteresis of both limits, as a fraction: a state ends only when its limit is passed by this much",
        at_least=0,
        at_most=0.9,
    )
    slack: float = setting(
        0.1, "fraction above its fair share that a node may hold before it transfers cells", at_least=0, at_most=10
    )
    quantity: int = setting(0, "number of URLs transferred at once; 0: as many as exceed the fair share", at_least=0)
    scheme: str = setting(
        "many-to-many",
        "number of nodes on both sides of a transfer",
        choices=("one-to-one", "one-to-many", "many-to-many"),
    )
    split_urls: int = setting(
        10_000_000, "number of known URLs above which a cell is split; 0: only on command", at_least=0
    )
    landmarks: tuple[str, ...] = setting(
        (),
        "addresses (HOST:PORT) to which nodes measure round trips, to find which are near; empty: the NATS servers",
        matches=r".+:[0-9]{1,5}",
        of_machine=ADMIN,
    )
    every_s: float = setting(
        60.0,
        "interval between two balancing decisions; each transfer interrupts the cells that move",
        unit="s",
        at_least=0.1,
    )


# ---- the tree --------------------------------------------------------------------------------------------------------


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
    render: RenderSettings = field(default_factory=RenderSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
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
    alerts: AlertSettings = field(default_factory=AlertSettings)

    @property
    def wants_requisites(self) -> bool:
        """True if images, style sheets and scripts of pages are fetched: by the kind or by their own setting."""
        return self.collection.kind == ARCHIVE or self.archive.requisites


# ---- flags -----------------------------------------------------------------------------------------------------------

FLAGS = {
    "cells": "collection.cells",
    "order": "collection.order",
    "kind": "collection.kind",
    "max_pages": "limits.pages",
    "max_seconds": "limits.seconds",
    "max_depth": "scope.max_depth",
    "scope": "scope.include",
    "exclude": "scope.exclude",
    "delay": "courtesy.delay_s",
    "per_host": "courtesy.per_host",
    "max_hosts": "courtesy.max_hosts",
    "requisites": "archive.requisites",
    "resolve": "fetch.resolve",
    "dns": "fetch.dns",
    "allow_net": "fetch.allow_nets",
    "keep_fresh": "refresh.keep",
    "policy": "refresh.policy",
    "budget": "refresh.budget",
}
"""Flags of `teia crawl` that are also names of settings; every other setting is named by its section."""


def settings_of_flags(flags: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of flags under the keys of their settings. None and an empty list mean: not given."""
    return {FLAGS[name]: None if value == [] else value for name, value in flags.items()}
