"""Every setting: sections as frozen dataclasses, and `Config`, the tree of all sections.

docs/config.md is generated from this tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from teia.config.choices import ORDERS, POLICIES
from teia.config.declare import ADMIN, HERE, setting
from teia.urls import DEFAULT_RULES, RULES, SLOTS


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """Name, seeds and parts of a collection (T1)."""

    # Folders, web addresses and subjects of NATS contain the name.
    name: str = setting("main", "name of the collection, and of its folder", matches=r"[a-z0-9][a-z0-9_-]{0,62}")
    seeds: tuple[str, ...] = setting((), "URLs to begin with")
    order: str = setting(
        "breadth",
        "which new URL of a host comes first (A6)",
        choices=ORDERS,
    )
    # A cell holds one slot at least.
    cells: int = setting(4, "parts the collection is split into; fixed when it is made", at_least=1, at_most=SLOTS)


@dataclass(frozen=True, slots=True)
class FocusSettings:
    """Topic of a focused crawl, where `collection.order` is `focused` (A6; see orders.md)."""

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
    """URLs that belong to the collection (A8, C4)."""

    include: tuple[str, ...] = setting((), "rules a URL must match one of; empty: the hosts of the seeds")
    exclude: tuple[str, ...] = setting((), "rules a URL must match none of")
    types: tuple[str, ...] = setting((), "media types kept, others are fetched no further; empty: all")
    max_depth: int = setting(20, "hops from a seed, by the shortest way found", at_least=0)
    queries: bool = setting(True, "whether URLs with a query are followed")
    url_rules: tuple[str, ...] = setting(DEFAULT_RULES, "rules of the canonical form", choices=tuple(RULES))


@dataclass(frozen=True, slots=True)
class CourtesySettings:
    """Treatment of servers (A7, C2, T5)."""

    delay_s: float = setting(5.0, "rest of a server after its last answer", unit="s", at_least=0)
    response_factor: float = setting(2.0, "a server also rests this many times its last response time", at_least=0)
    per_host: int = setting(1, "requests at once to one host; more only for hosts that are yours", at_least=1)
    robots: bool = setting(True, "whether robots.txt and meta robots are obeyed")
    # RFC 9309: not used for more than 24 hours.
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
    # RFC 9309: a product token has letters, `_` and `-` only.
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
    """Limits on the cost of one crawl, host or page. None of these can be switched off."""

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
    # RFC 9309: at least 500 KiB are read.
    robots_bytes: int = setting(500 * 1024, "of a robots.txt that are read", unit="bytes", at_least=1024)
    url_chars: int = setting(2_048, "length of a URL", unit="characters", at_least=64)
    url_segments: int = setting(20, "segments of a URL's path", at_least=1)
    links_per_page: int = setting(6_000, "links taken from one page", at_least=1)
    parse_cpu_s: float = setting(10.0, "processor time for one page", unit="s", at_least=0.1)
    parse_memory_bytes: int = setting(512 * 2**20, "memory of a parse child", unit="bytes", at_least=64 * 2**20)
    disk_free_bytes: int = setting(2 * 2**30, "free space below which fetching pauses", unit="bytes", at_least=0)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Names, addresses and connections."""

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
        choices=POLICIES,
    )
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
    """Announcements of others: the cache parasite (C7; see signals.md)."""

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
    """Times at which the collection is crawled (T1; see schedules.md)."""

    start: str = setting("", "when the first run begins, like 2026-11-21 02:00; empty: there is no schedule")
    zone: str = setting("", "time zone of start and until, like America/Sao_Paulo; empty: the machine's")
    every: str = setting("once", "from one start to the next: once, or like 7 days, 12 hours, 1 month")
    stop_after: str = setting("", "a run ends after so long, like 4 hours; empty: when it is done or the next begins")
    until: str = setting("", "last day on which a run begins, like 2027-06-30; empty: there is none")
    keep_fresh: bool = setting(False, "whether known pages are kept fresh between runs")


@dataclass(frozen=True, slots=True)
class PublicSettings:
    """Parts of the collection that people who are not signed in may see in the web interface (see web.md)."""

    search: bool = setting(True, "whether they may search it, and see what is known of its pages")
    copies: bool = setting(True, "whether they may read copies of its pages")


# ---- many machines (docs/cluster.md) ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Many machines: what is kept of cells beside their logs (A3; see cluster.md)."""

    snapshots: str = setting(
        "nats",
        "where copies of cells go: nats, its object store; or a path, like /mnt/teia or s3://bucket/teia",
        of_machine=ADMIN,
    )
    snapshot_s: float = setting(600.0, "a cell that changed is copied after so long", unit="s", at_least=1)
    snapshot_log_bytes: int = setting(
        256 * 2**20, "and when its log has grown by so much", unit="bytes", at_least=64 * 1024
    )
    ship_archive: bool = setting(False, "whether archive files go there too, and come along when a cell moves")
    stream_bytes: int = setting(
        0, "room of the collection's stream in NATS; 0: as much as NATS has", unit="bytes", at_least=0
    )


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Choice of the node of a cluster that crawls a site, with the strategy rtt (see cluster.md)."""

    minimum_kb_s: float = setting(
        0.0, "a node that gets less from a site passes it on; 0: the fastest region has it", unit="kB/s", at_least=0
    )
    measured_pages: int = setting(3, "pages of a site by which its speed is judged", at_least=1, at_most=1_000)
    again_s: float = setting(86_400.0, "how long a measurement holds", unit="s", at_least=1)


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """Distribution of work between the nodes of a cluster (A5, A14; see cluster.md)."""

    enabled: bool = setting(True, "whether overloaded nodes hand cells to others")
    idle_urls: int = setting(100, "a node with fewer URLs waiting, for each unit of capacity, is idle", at_least=0)
    overloaded_urls: int = setting(1_000, "one with more is overloaded", at_least=1)
    hysteresis: float = setting(
        0.2, "so far beyond these lines, as a part of them, a state ends", at_least=0, at_most=0.9
    )
    slack: float = setting(0.1, "what a node may have above its share before it gives", at_least=0, at_most=10)
    quantity: int = setting(0, "URLs that a node gives at once; 0: until it has its share", at_least=0)
    scheme: str = setting(
        "many-to-many",
        "who takes part in a transfer",
        choices=("one-to-one", "one-to-many", "many-to-many"),
    )
    split_urls: int = setting(
        10_000_000, "a cell that knows more URLs is split; 0: only when somebody says so", at_least=0
    )
    every_s: float = setting(60.0, "time between two decisions; each costs a hand-over", unit="s", at_least=0.1)


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
