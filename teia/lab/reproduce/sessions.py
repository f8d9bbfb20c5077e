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
HTML_GIB, OTHER_GIB = 6.4, 1.9
MEAN_HTML_KIB, MEAN_OTHER_KIB = 6.0, 129.2
SERVERS, PER_SERVER = 35_508, 32
ERRORS = {"400": 4_013, "403": 4_338, "404": 99_957, "server not found": 52_497, "other": 802}
# CoBWeb has one line for both: names that do not resolve, and servers whose connections fail.
NOT_FOUND = frozenset({"dns", "connect"})
DOCS_PER_MINUTE, DOCS_PER_DAY = 73.2, 77_169
PUBLISHED_DAYS = "63, 107, 70, 62 and 64 documents a minute; 72,274, 99,629, 89,969, 52,090 and 71,820 a day"
STOP_AT = 0.72
"""Share of the world's URLs at which the session stops: about as many documents per waiting URL as CoBWeb had."""

WORLD = {"text.mail": 0.2}


@experiment(
    "C5",
    title="CoBWeb's session statistics",
    paper="the CoBWeb paper, section 3 and tables 2, 4, 5 and 6",
    input_lines=world_input_lines(types=INDEXABLE, world=WORLD),
)
def sessions(run: ExperimentInput) -> Results:
    """Crawl a world and show CoBWeb's statistics of a session."""
    with crawled_world(run, types=INDEXABLE, world=WORLD, stop_at=STOP_AT) as crawled:
        yield size_table(types(crawled.source))
        visited = servers(crawled.source)
        yield server_table(visited)
        yield error_table(errors(crawled.source))
        found = links(crawled.source)
        yield reference_table(found)
        yield reference_figure(found)
        yield rate_table(visited, crawled)


def size_table(found: Types) -> Table:
    """Return table 4: quantities and bytes, and shares, because the two webs differ in size by three orders."""
    html = [row for row in found.rows if row.media_type in HTML]
    other = [row for row in found.rows if row.media_type not in HTML | LISTS]
    ours, theirs = _documents(html) + _documents(other), COLLECTED_HTML + COLLECTED_OTHER
    rows: list[ResultRow] = []
    for name, part, number, total_gib, mean_kib in (
        ("HTML collected", html, COLLECTED_HTML, HTML_GIB, MEAN_HTML_KIB),
        ("other collected", other, COLLECTED_OTHER, OTHER_GIB, MEAN_OTHER_KIB),
    ):
        rows += (
            ResultRow((name, "number"), _documents(part), number),
            ResultRow((name, "% of all collected"), 100 * _documents(part) / ours, 100 * number / theirs),
            ResultRow((name, "total, MiB"), _bytes(part) / KIB**2, total_gib * KIB),
            ResultRow((name, "mean, KiB"), _bytes(part) / max(1, _answers(part)) / KIB, mean_kib),
        )
    rows += (
        ResultRow(("total collected", "number"), ours, theirs),
        ResultRow(("total collected", "total, MiB"), _bytes(html + other) / KIB**2, (HTML_GIB + OTHER_GIB) * KIB),
        ResultRow(("URLs to be collected", "number"), found.to_collect, WAITING),
        ResultRow(
            ("URLs to be collected", "% of all collected"), 100 * found.to_collect / ours, 100 * WAITING / theirs
        ),
    )
    note = (
        "Sitemaps and feeds, which CoBWeb did not know, are omitted, and so are answers of types that are not kept."
        " CoBWeb's 15 days were not enough for all documents; ours stops when it has"
        f" {STOP_AT:.0%} of the world's URLs."
    )
    return Table("size", "What was collected (table 4)", ("URL", "measure"), tuple(rows), note=note, varies=True)


def _documents(rows: list[TypeRow]) -> int:
    return sum(row.documents for row in rows)


def _answers(rows: list[TypeRow]) -> int:
    return sum(row.answers for row in rows)


def _bytes(rows: list[TypeRow]) -> int:
    return sum(row.decoded_bytes for row in rows)


def server_table(found: Servers) -> Table:
    rows = (
        ResultRow(("visited servers",), found.servers, SERVERS),
        ResultRow(("documents per server (mean)",), found.documents_per_server, PER_SERVER),
    )
    return Table("servers", "Servers visited (table 5)", ("measure",), rows, varies=True)


def error_table(found: Errors) -> Table:
    """Return table 6, with the share of each error; URLs that a rule of the crawl refused are no errors."""
    ours = dict.fromkeys(ERRORS, 0)
    by_class: dict[str, int] = {}
    for row in found.rows:
        by_class[row.kind] = by_class.get(row.kind, 0) + row.urls
        if row.kind != "refused":
            known = row.outcome if row.outcome in ERRORS else "other"
            ours["server not found" if row.outcome in NOT_FOUND else known] += row.urls
    total, theirs = sum(ours.values()), sum(ERRORS.values())
    rows = [
        ResultRow((name, f"{ERRORS[name]:,}", f"{ours[name]:,}"), 100 * ours[name] / max(1, total), 100 * each / theirs)
        for name, each in ERRORS.items()
    ]
    rows.append(ResultRow(("total", f"{theirs:,}", f"{total:,}"), 100.0 if total else 0.0, 100.0))
    note = (
        f"Ours by class: {', '.join(f'{kind} {number}' for kind, number in sorted(by_class.items()))}; refused are"
        " URLs that robots.txt or a rule of the collection excludes. The lab fails in T8's proportions: most failures"
        " are interrupted connections, counted here with servers that are not found."
    )
    columns = ("error", "published count", "our count")
    return Table("errors", "Errors, in per cent of all errors (table 6)", columns, tuple(rows), note=note, varies=True)


def reference_table(found: Links) -> Table:
    rows = (
        ResultRow(("references found",), found.references),
        ResultRow(("of them in scope",), found.references_in_scope),
        ResultRow(("of them to unindexable objects, by file extension",), found.references_unindexable),
        ResultRow(("images shown by pages",), found.images),
        ResultRow(("e-mail addresses linked by pages",), found.mail_links),
        ResultRow(("references per page",), found.references_per_page),
        ResultRow(("references per known URL",), found.references_per_url),
        ResultRow(("entries of sitemaps and feeds",), found.named_by_lists),
    )
    note = (
        "The paper counts these (references to figures, executables, e-mail addresses) and prints no numbers."
        " Unindexable by extension are links to a file of a type that is not stored."
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


def rate_table(found: Servers, crawled: CrawledWorld) -> Table:
    """Return table 2: the rates of each day, and their means."""
    rows = []
    for day in found.by_day:
        rows += [
            ResultRow((day.day, "documents a minute"), day.documents_per_minute, DOCS_PER_MINUTE),
            ResultRow((day.day, "documents"), day.documents, DOCS_PER_DAY),
        ]
    per_minute = crawled.summary.pages / crawled.summary.seconds * 60
    rows += [
        ResultRow(("whole session", "documents a minute"), per_minute, DOCS_PER_MINUTE),
        ResultRow(("whole session", "documents a day, at this rate"), per_minute * 1440, DOCS_PER_DAY),
    ]
    note = (
        f"Beside ours are the means of CoBWeb's five days: {PUBLISHED_DAYS}. Ours: loopback, our own servers, almost no"
        " delay, so that the session is over within a day; a session of several days has a row for each (also in"
        " `teia report servers`). Theirs: 60 collectors, a delay of one minute, a real network."
    )
    return Table("rates", "Collection rates (table 2)", ("day", "measure"), tuple(rows), note=note, varies=True)
