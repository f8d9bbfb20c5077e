"""C5: the statistics CoBWeb keeps of a collecting session, from a crawl of a lab world (its tables 2, 4, 5 and 6).

The paper's numbers are of the Brazilian web in 1999; the lab's errors have Tarântula's proportions (T8), so the lines
need not agree. The experiment shows that a session of ours yields every number that CoBWeb's did, and the two that the
paper names without printing them: references to unindexable objects, and references per URL.
"""

from __future__ import annotations

from teia.lab.reproduce.crawled import INDEXABLE, CrawledWorld, crawled_world, world_input_lines
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.views.reports.errors import Errors, errors
from teia.views.reports.links import Links, links
from teia.views.reports.servers import Servers, servers
from teia.views.reports.types import TypeRow, Types, types

KIB = 1024
HTML = frozenset({"text/html", "application/xhtml+xml"})
LISTS = frozenset({"text/xml", "application/xml", "application/rss+xml", "application/atom+xml"})
# The paper's numbers: table 4 (documents, sizes), table 5 (servers), table 6 (errors), table 2 (rates).
COLLECTED_HTML, COLLECTED_OTHER, WAITING = 1_115_288, 15_707, 422_512
MEAN_HTML_KIB, MEAN_OTHER_KIB = 6.0, 129.2
SERVERS, PER_SERVER = 35_508, 32
ERRORS = {"400": 4_013, "403": 4_338, "404": 99_957, "server not found": 52_497, "other": 802}
# CoBWeb has one line for both: names that do not resolve, and servers whose connections fail.
NOT_FOUND = frozenset({"dns", "connect"})
DOCS_PER_MINUTE, DOCS_PER_DAY = 73.2, 77_169


@experiment(
    "C5",
    title="CoBWeb's session statistics",
    paper="the CoBWeb paper, section 3 and tables 2, 4, 5 and 6",
    input_lines=world_input_lines(types=INDEXABLE),
)
def sessions(run: ExperimentInput) -> Results:
    """Crawl a world and show CoBWeb's statistics of a session."""
    with crawled_world(run, types=INDEXABLE) as crawled:
        yield size_table(types(crawled.source), crawled)
        yield server_table(servers(crawled.source))
        yield error_table(errors(crawled.source))
        found = links(crawled.source)
        yield reference_table(found)
        yield reference_figure(found)
        yield rate_table(crawled)


def size_table(found: Types, crawled: CrawledWorld) -> Table:
    """Return table 4, as shares of the documents collected, because the two webs differ in size by three orders."""
    html = [row for row in found.rows if row.media_type in HTML]
    other = [row for row in found.rows if row.media_type not in HTML | LISTS]
    collected = _documents(html) + _documents(other)
    theirs = COLLECTED_HTML + COLLECTED_OTHER
    rows = (
        ResultRow(
            ("HTML collected, %", f"{_documents(html)}"),
            100 * _documents(html) / collected,
            100 * COLLECTED_HTML / theirs,
        ),
        ResultRow(("HTML, mean KiB", ""), _mean_kib(html), MEAN_HTML_KIB),
        ResultRow(
            ("other collected, %", f"{_documents(other)}"),
            100 * _documents(other) / collected,
            100 * COLLECTED_OTHER / theirs,
        ),
        ResultRow(("other, mean KiB", ""), _mean_kib(other), MEAN_OTHER_KIB),
        # Always 0: `crawled_world` raises an error if URLs are left.
        ResultRow(
            ("still to be collected, % of collected", f"{crawled.summary.urls_queued}"), 0.0, 100 * WAITING / theirs
        ),
    )
    note = "Sitemaps and feeds, which CoBWeb did not know, are omitted. Ours ran until the end, theirs for 15 days."
    return Table("size", "What was collected (table 4)", ("measure", "our count"), rows, note=note, varies=True)


def _documents(rows: list[TypeRow]) -> int:
    return sum(row.documents for row in rows)


def _mean_kib(rows: list[TypeRow]) -> float:
    answers = sum(row.answers for row in rows)
    return sum(row.decoded_bytes for row in rows) / answers / KIB if answers else 0.0


def server_table(found: Servers) -> Table:
    rows = (
        ResultRow(("visited servers",), found.servers, SERVERS),
        ResultRow(("documents per server (mean)",), found.documents_per_server, PER_SERVER),
    )
    return Table("servers", "Servers visited (table 5)", ("measure",), rows, varies=True)


def error_table(found: Errors) -> Table:
    """Return table 6, as shares of all errors."""
    ours = dict.fromkeys(ERRORS, 0)
    for row in found.rows:
        name = row.outcome if row.outcome in ERRORS else "server not found" if row.outcome in NOT_FOUND else "other"
        ours[name] += row.urls
    total, theirs = max(1, sum(ours.values())), sum(ERRORS.values())
    rows = tuple(
        ResultRow((name, str(ERRORS[name]), str(ours[name])), 100 * ours[name] / total, 100 * ERRORS[name] / theirs)
        for name in ERRORS
    )
    by_class: dict[str, int] = {}
    for each in found.rows:
        by_class[each.kind] = by_class.get(each.kind, 0) + each.urls
    note = (
        f"Ours by class: {', '.join((f'{kind} {number}' for kind, number in sorted(by_class.items())))}. The lab"
        " fails in T8's proportions: most failures are interrupted connections, counted here with servers that are"
        " not found."
    )
    columns = ("error", "published count", "our count")
    return Table("errors", "Errors, in per cent of all errors (table 6)", columns, rows, note=note, varies=True)


def reference_table(found: Links) -> Table:
    rows = (
        ResultRow(("references found",), found.references),
        ResultRow(("of them in scope",), found.references_in_scope),
        ResultRow(("of them to unindexable objects",), found.references_unindexable),
        ResultRow(("references per page",), found.references_per_page),
        ResultRow(("references per known URL",), found.references_per_url),
        ResultRow(("entries of sitemaps and feeds",), found.named_by_lists),
    )
    note = (
        "The paper mentions these counts without numbers. Unindexable are links whose file extension has a type"
        " that is not stored; CoBWeb also counts embedded images and e-mail addresses."
    )
    return Table("references", "References", ("measure",), rows, note=note, varies=True)


def reference_figure(found: Links) -> Figure:
    """Draw the number of URLs with at least a given number of references to them."""
    # A logarithmic axis cannot show URLs without references.
    steps = [step for step in found.per_url if step.least]
    at_least = [sum(step.urls for step in steps[at:]) for at in range(len(steps))]
    series = PlotLine("ours", tuple(float(step.least) for step in steps), tuple(map(float, at_least)))
    axes, name = ("references to a URL", "URLs with at least as many"), "references-per-url"
    return Figure(name, "References per URL", *axes, (series,), log_x=True, log_y=True, varies=True)


def rate_table(crawled: CrawledWorld) -> Table:
    """Return table 2."""
    per_minute = crawled.summary.pages / crawled.summary.seconds * 60
    rows = (
        ResultRow(("documents a minute",), per_minute, DOCS_PER_MINUTE),
        ResultRow(("documents a day, at this rate",), per_minute * 1440, DOCS_PER_DAY),
    )
    note = (
        "Ours: loopback, our own servers, almost no delay. Theirs: 60 collectors, a delay of one minute, a real"
        " network."
    )
    return Table("rates", "Collection rates (table 2)", ("measure",), rows, note=note, varies=True)
