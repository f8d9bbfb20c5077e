"""T8: Tarântula's table of statuses, its largest servers and its documents over time, from a crawl of a lab world.

The lab's servers fail in the table's own proportions (`lab.world.url_kinds`). So the shares agree by construction, as
far as the crawler classifies every failure correctly; that is the purpose of the table. Tarântula's system error (-11)
is a connection that was cut, here `connect`; a server that does not answer (-10) is `timeout`.

The sizes of the servers have the paper's skew: 80% of the documents on 8% of the servers. The paper's own numbers
follow Zipf's law in Mandelbrot's form, with the exponent 1.2 and 8 added to the ranks: then 80.2% of the documents are
on 8% of 14,068 servers, 3.8% on the largest (published 4.1%) and 31% on the first 25 (36%). With few servers that law
is less skewed, so the world has another exponent and offset, and its largest servers weigh more.
"""

from __future__ import annotations

from collections import Counter

from teia.clock import from_iso
from teia.lab.reproduce.crawled import INDEXABLE, CrawledWorld, crawled_world, world_input_lines
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.world.url_kinds import TABLE, UrlKind
from teia.views.reports.links import links
from teia.views.reports.outcomes import Outcomes, describe_outcome, outcomes
from teia.views.reports.servers import Servers, servers
from teia.views.reports.types import types

OWN_CODES = {
    UrlKind.PAGE: 200,
    UrlKind.RESET: -11,
    UrlKind.FORBIDDEN_TYPE: -3,
    UrlKind.SILENT: -10,
    UrlKind.TOO_LARGE: -4,
    UrlKind.EXCLUDED: -7,
    UrlKind.GARBAGE: -1,
}
OWN_MEANINGS = {
    -1: "invalid HTTP response",
    -3: "media type not allowed",
    -4: "too large",
    -7: "excluded by robots.txt",
    -10: "timed out",
    -11: "system error",
}
# The values of all other kinds in the table are HTTP statuses.
PUBLISHED = {OWN_CODES.get(kind) or int(kind): count for kind, count in TABLE.items()}
"""Table 1 of the paper, by its codes."""

REQUESTS = sum(PUBLISHED.values())
DOCUMENTS = PUBLISHED[200]
SERVERS = 14_068
LARGEST_25 = (
    27568, 22964, 16253, 14842, 13625, 13341, 11313, 10629, 10387, 10240, 9848, 8740, 8678,
    8607, 8038, 7515, 7038, 6177, 5055, 4960, 4648, 3649, 3538, 3439, 3294,
)  # fmt: skip
"""Table 2 of the paper: documents on its 25 largest servers."""

# The paper's crawl: four days and five hours, with 51% of the documents in the first twelve hours.
HOURS = 4 * 24 + 5
FIRST_HOURS, SHARE_BY_THEN = 12, 0.51


WORLD = {
    "text.pdfs": 0.0,
    "sites.theta": 2.0,
    "sites.offset": 0.018,
    # In 2001 sites had neither; here they would count as documents.
    **dict.fromkeys(("sitemaps.honest", "sitemaps.lying", "sitemaps.bare", "feeds.rss", "feeds.atom"), 0.0),
}
PAGES_PER_HOST = 25
"""Half of the paper's, so that a small web has enough servers for a twelfth of them to be several."""


@experiment(
    "T8",
    title="Tarântula's statuses, servers and documents over time",
    paper="the Tarântula paper, section IV: tables 1 and 2, figure 4",
    input_lines=world_input_lines(types=INDEXABLE, world=WORLD, pages_per_host=PAGES_PER_HOST),
)
def statuses(run: ExperimentInput) -> Results:
    """Crawl a world that fails as the Portuguese web did, and count the outcomes."""
    with crawled_world(run, types=INDEXABLE, world=WORLD, pages_per_host=PAGES_PER_HOST) as crawled:
        yield status_table(outcomes(crawled.source), links(crawled.source).references_unindexable, crawled.unrequested)
        yield server_table(servers(crawled.source, top=25))
        yield time_figure(servers(crawled.source))
        yield rate_table(crawled)


def status_table(found: Outcomes, unindexable: int, unrequested: int) -> Table:
    """Return table 1: the share of each code, with both counts; `unindexable` counts references refused by ending."""
    ours: Counter[int] = Counter()
    names: dict[int, list[str]] = {}
    without_code = [row for row in found.rows if row.code is None]
    for row in found.rows:
        if row.code is not None:
            ours[row.code] += row.count
            names.setdefault(row.code, []).append(row.outcome)
    rows = []
    # In the order of the paper's counts; codes that only our crawl has come last.
    for code in sorted({*PUBLISHED, *ours}, key=lambda each: (-PUBLISHED.get(each, 0), -ours[each])):
        name = " ".join(names.get(code, ())) if code < 0 else ""
        meaning = OWN_MEANINGS.get(code) or describe_outcome(str(code))
        labels = (str(code), meaning, name, str(PUBLISHED.get(code, "")), str(ours[code]))
        published = PUBLISHED.get(code)
        rows.append(ResultRow(labels, 100 * ours[code] / found.count, published and 100 * published / REQUESTS))
    rows += [
        ResultRow(("", row.meaning, row.outcome, "", str(row.count)), 100 * row.count / found.count)
        for row in without_code
    ]
    note = (
        f"Ours are {found.count:,} URLs by their last outcome; the paper counts {REQUESTS:,} requests. The lab sets"
        " the frequency of each failure; the crawler classifies them. -11 is `connect` here, an interrupted"
        " connection, and `dns`, a name without an address. -3 are files that passed the filter of file extensions,"
        " in the paper too; the archives and sounds of the lab all have correct extensions, so none does: "
        f"{unindexable} references were not followed because of theirs. Redirect loops have no Tarântula code. Rare"
        f" statuses vary strongly in a small web. {unrequested} URLs were never requested, because their host was"
        " skipped after failures; they count as -11 or -10. -10 here is mostly the limit of 2 s for a whole"
        " response."
    )
    columns = ("code", "meaning", "our name", "published count", "our count")
    return Table("statuses", "Statuses, in per cent", columns, tuple(rows), note=note, varies=True)


def server_table(found: Servers) -> Table:
    """Return table 2 and the remark below it, as numbers that do not depend on the size of the web."""
    top_25 = sum(row.documents for row in found.top)
    rows = (
        ResultRow(("documents a server",), found.documents_per_server, DOCUMENTS / SERVERS),
        ResultRow(("servers that hold 80% of the documents, %",), 100 * found.part_with_80, 8.0),
        ResultRow(("documents of the largest server, %",), 100 * found.top[0].share, 100 * LARGEST_25[0] / DOCUMENTS),
        ResultRow(
            ("documents of the 25 largest servers, %",),
            100 * top_25 / found.documents,
            100 * sum(LARGEST_25) / DOCUMENTS,
        ),
    )
    note = (
        f"{found.documents:,} documents on {found.servers} servers. The lab sets their sizes so that 80% of the pages"
        f" are on about 8% of the servers, as in the paper: on {round(0.08 * found.servers)} servers here and on 1,125"
        " there. So the largest servers weigh more here."
    )
    return Table("servers", "Servers", ("measure",), rows, note=note, varies=True)


def time_figure(found: Servers) -> Figure:
    """Draw figure 4: documents collected over time, both as shares of the total."""
    starts = [from_iso(bucket.start) for bucket in found.over_time]
    span_s = starts[-1] - starts[0] + found.bucket_s
    ours = PlotLine(
        "ours",
        (0.0, *((start - starts[0] + found.bucket_s) / span_s for start in starts)),
        (0.0, *(bucket.cumulative_share for bucket in found.over_time)),
    )
    theirs = PlotLine("published", (0.0, FIRST_HOURS / HOURS, 1.0), (0.0, SHARE_BY_THEN, 1.0), ours=False)
    note = (
        "The paper gives one point in words: 51% of the documents after 12 of 101 hours. Both slow down as fewer"
        " servers have documents left, because each server gets one request at a time."
    )
    axes = ("share of the time", "share of the documents")
    return Figure("over-time", "Documents over time", *axes, (ours, theirs), note=note, varies=True)


def rate_table(crawled: CrawledWorld) -> Table:
    html = next(row for row in types(crawled.source).rows if row.media_type == "text/html")
    rows = (
        ResultRow(("documents a second",), html.documents / crawled.summary.seconds, DOCUMENTS / (HOURS * 3600)),
        ResultRow(("mean size of an HTML document, kB",), html.mean_decoded_bytes / 1000, 23.9),
    )
    note = (
        "A whole crawl on this machine, including delays and retries; theirs used 7 machines on a 4 Mbit/s line in"
        " 2001."
    )
    return Table("rates", "Rates and sizes", ("measure",), rows, note=note, varies=True)
