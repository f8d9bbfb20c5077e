"""F9: types x quantity, space used and times, as the FURB system shows them (its tables 23 and 24), from a lab world.

That crawler requested everything it found a link to, pictures and styles too, and counted types; so does this one, with
requisites on. It writes no search index: the paper's space and times of sorting and indexing are beside ours in F11.
"""

from __future__ import annotations

from teia.lab.reproduce.crawled import CrawledWorld, crawled_world, world_input_lines
from teia.lab.reproduce.registry import ExperimentInput, ResultRow, Results, Table, experiment
from teia.views.reports.outcomes import Outcomes, outcomes
from teia.views.reports.space import SpaceReport, space
from teia.views.reports.types import Types, types

# The paper's numbers: table 23 (types), table 24 (space), and its rate in pages a second.
ACCESSED, LINKS = 936_956, 1_812_143
HTML_PAGES = 609_212
# The paper lists missing pages as a type of this name.
NOT_FOUND = "erro/404"
QUANTITY = {
    "text/html": HTML_PAGES,
    NOT_FOUND: 42_608,
    "text/css": 21_227,
    "application/pdf": 18_473,
    "image/jpeg": 10_597,
    "application/msword": 5_196,
    "application/x-zip-compressed": 3_146,
    "application/zip": 2_295,
    "application/octet-stream": 2_245,
    "image/gif": 1_578,
}
MB, KB = 2**20, 2**10
CRAWLER_BYTES = 3_002 * MB + 29_269 * KB
URL_SERVER_BYTES = 302_217 * KB + 106_612 * KB
PAGES_PER_S = 3.0
REQUISITES = {"archive.requisites": True}


@experiment(
    "F9",
    title="FURB's tables of types, space and times",
    paper="the distributed incremental crawler and search system (FURB), section 3.4.7, tables 23 and 24",
    input_lines=world_input_lines(crawl=REQUISITES),
)
def types_space_times(run: ExperimentInput) -> Results:
    """Crawl a world with the requisites of its pages, and count types, bytes and seconds."""
    with crawled_world(run, crawl=REQUISITES) as crawled:
        yield quantity_table(types(crawled.source), outcomes(crawled.source))
        yield space_table(space(crawled.source))
        yield time_table(crawled)


def quantity_table(found: Types, came_to: Outcomes) -> Table:
    """Return table 23, as shares of all requested URLs; its ten types, and those of ours that it lacks."""
    ours = {row.media_type: row.documents for row in found.rows}
    ours[NOT_FOUND] = sum(row.count for row in came_to.rows if row.outcome == "404")
    rows = []
    for name in [*QUANTITY, *(each for each in ours if each not in QUANTITY)]:
        count, published = ours.get(name, 0), QUANTITY.get(name)
        labels = (name, str(published or ""), str(count))
        rows.append(ResultRow(labels, 100 * count / came_to.count, published and 100 * published / ACCESSED))
    note = (
        f"Ours: {came_to.count:,} URLs; theirs: {ACCESSED:,} of 130 types, the ten most frequent printed. The lab"
        " chooses the types; the crawler recognizes the type of each response, by its content where the server does"
        " not declare it. Failures other than 404 have no type and are in neither column."
    )
    columns = ("type", "published count", "our count")
    return Table("types", "Types x quantity, in per cent", columns, tuple(rows), note=note, varies=True)


def space_table(found: SpaceReport) -> Table:
    """Return table 24, in bytes a page."""
    by_kind = {each.what: each.per_document_bytes for each in found.total}
    rows = (
        ResultRow(("page contents", "crawlers: data, indexes", "WARC"), by_kind["warc"], CRAWLER_BYTES / HTML_PAGES),
        ResultRow(
            ("URLs and their state", "URL server: data, indexes", "frontier"),
            by_kind["frontier"],
            URL_SERVER_BYTES / HTML_PAGES,
        ),
        ResultRow(("locations of captures", "", "CDXJ"), by_kind["cdxj"]),
        ResultRow(("log of requests", "", "fetch log"), by_kind["log"]),
        ResultRow(("received", "", "bytes on the wire"), by_kind["wire"]),
        ResultRow(("decoded", "", "bodies"), by_kind["decoded"]),
    )
    note = (
        f"Ours: {found.documents:,} documents, every response stored in full and compressed, with its request and"
        " history; theirs: normalized text. A CDXJ file is written when its WARC file is closed, which never"
        " happens in a small crawl. The sorter/indexer (2,053 MB of data, 1,377 MB of indexes) is in F11."
    )
    columns = ("what", "theirs", "ours is")
    return Table("space", "Space, in bytes a page", columns, rows, note=note, varies=True)


def time_table(crawled: CrawledWorld) -> Table:
    """Compare the times that the paper gives, where we have the same measure."""
    sql = "SELECT avg(date_diff('microsecond', started, ended)) / 1e6 FROM fetches WHERE status = 200"
    response_s = float(crawled.source.log.query(sql).rows[0][0])
    rows = (
        ResultRow(("pages a second",), crawled.summary.pages / crawled.summary.seconds, PAGES_PER_S),
        ResultRow(("whole crawl, s",), crawled.summary.seconds),
        ResultRow(("mean time of an answer, s",), response_s),
    )
    note = (
        "Theirs was limited by a line of 512 kbit/s, ours by processor cores that also run the lab. Sorting (943.89"
        " and 2,200.21 s) and indexing (3,189.88 s) are in F11."
    )
    return Table("times", "Times", ("measure",), rows, note=note, varies=True)
