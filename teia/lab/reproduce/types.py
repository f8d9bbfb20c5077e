"""F9: types x quantity, space used and times, as the FURB system shows them (its tables 23 and 24), from a lab world.

That crawler requested everything it found a link to, pictures and styles too, and counted types; so does this one, with
requisites on. Then its pages are indexed, so that the space and the times of the paper's sorter and indexer stand
beside ours. F11 has the same for an index of the paper's order of size.
"""

from __future__ import annotations

from dataclasses import dataclass

import uvloop

from teia.clock import WallClock
from teia.indexer.process import CollectionFollower, indexing_lock
from teia.lab.reproduce.crawled import COLLECTION, CrawledWorld, crawled_world, world_input_lines
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
SORTER_DATA_BYTES, SORTER_INDEX_BYTES = 2_053 * MB, 1_377 * MB
# Its sorter read the pages from the crawlers, wrote them into its tables, and MySQL indexed them.
SELECT_S, INSERT_S, INDEX_S = 943.89, 2_200.21, 3_189.88
PAGES_PER_S = 3.0
REQUISITES = {"archive.requisites": True}


@experiment(
    "F9",
    title="FURB's tables of types, space and times",
    paper="the distributed incremental crawler and search system (FURB), section 3.4.7, tables 23 and 24",
    input_lines=world_input_lines(crawl=REQUISITES),
)
def types_space_times(run: ExperimentInput) -> Results:
    """Crawl a world with the requisites of its pages, index it, and count types, bytes and seconds."""
    with crawled_world(run, crawl=REQUISITES) as crawled:
        run.progress("F9: indexing the pages")
        indexed = uvloop.run(index_world(crawled))
        yield quantity_table(types(crawled.source), outcomes(crawled.source))
        yield space_table(space(crawled.source), indexed.pages)
        sql = "SELECT avg(date_diff('microsecond', started, ended)) / 1e6 FROM fetches WHERE status = 200"
        response_s = float(crawled.source.log.query(sql).rows[0][0])
        yield time_table(crawled.summary.pages, crawled.summary.seconds, response_s, indexed)


@dataclass(frozen=True, slots=True)
class IndexedWorld:
    """The pages of a world in its index, and the time that indexing took."""

    pages: int
    seconds: float


async def index_world(crawled: CrawledWorld) -> IndexedWorld:
    """Index all pages of a crawl, with their anchor texts and ranks, as the indexer process does beside a crawl."""
    clock = WallClock()
    with indexing_lock(crawled.root, COLLECTION):
        started_s = clock.ticks_s()
        follower = CollectionFollower(crawled.root, COLLECTION, clock)
        try:
            await follower.finish()
            pages = follower.indexer.documents
        finally:
            await follower.close()
        return IndexedWorld(pages, clock.ticks_s() - started_s)


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


def space_table(found: SpaceReport, indexed: int) -> Table:
    """Return table 24, in bytes a page; the index has `indexed` pages, without images and styles."""
    by_kind = {each.what: each.per_document_bytes for each in found.total}
    index_bytes = next(each.total_bytes for each in found.total if each.what == "index")
    rows = (
        ResultRow(("page contents", "crawlers: data, indexes", "WARC"), by_kind["warc"], CRAWLER_BYTES / HTML_PAGES),
        ResultRow(
            ("URLs and their state", "URL server: data, indexes", "frontier"),
            by_kind["frontier"],
            URL_SERVER_BYTES / HTML_PAGES,
        ),
        ResultRow(
            ("text and index for search", "sorter/indexer: data, indexes", "index, per page in it"),
            index_bytes / max(1, indexed),
            (SORTER_DATA_BYTES + SORTER_INDEX_BYTES) / HTML_PAGES,
        ),
        ResultRow(("locations of captures", "", "CDXJ"), by_kind["cdxj"]),
        ResultRow(("log of requests", "", "fetch log"), by_kind["log"]),
        ResultRow(("received", "", "bytes on the wire"), by_kind["wire"]),
        ResultRow(("decoded", "", "bodies"), by_kind["decoded"]),
    )
    note = (
        f"Ours: {found.documents:,} documents, every response stored in full and compressed, with its request and"
        f" history; theirs: normalized text. {indexed:,} documents are pages with text and in the index; a small one"
        " costs more a page than the larger one of F11. A CDXJ file is written when its WARC file is closed, which"
        " never happens in a small crawl; rows of its fetch log stay in the frontier."
    )
    columns = ("what", "theirs", "ours is")
    return Table("space", "Space, in bytes a page", columns, rows, note=note, varies=True)


def time_table(pages: int, seconds: float, response_s: float, indexed: IndexedWorld) -> Table:
    """Compare the times that the paper gives, where we have the same measure."""
    rows = (
        ResultRow(("pages a second",), pages / seconds, PAGES_PER_S),
        ResultRow(("whole crawl, s",), seconds),
        ResultRow(("mean time of an answer, s",), response_s),
        ResultRow(
            ("sorting and indexing 1,000 pages, s",),
            1000 * indexed.seconds / max(1, indexed.pages),
            1000 * (SELECT_S + INSERT_S + INDEX_S) / HTML_PAGES,
        ),
    )
    note = (
        "Their crawl was limited by a line of 512 kbit/s, ours by processor cores that also run the lab. Their sorting"
        f" took {SELECT_S:,} s (SELECT) and {INSERT_S:,} s (INSERT), their indexing {INDEX_S:,} s, for"
        f" {HTML_PAGES:,} pages; ours took {indexed.seconds:.1f} s for {indexed.pages:,} pages,"
        " with anchor texts and PageRank."
    )
    return Table("times", "Times", ("measure",), rows, note=note, varies=True)
