"""A collection of two cells, written by the crawler's own writers, small enough to count by hand.

cell 0  a.test   /  /1  /2  /3    pages; / is the seed, /1 and /2 are linked and in the sitemap, /3 only in the sitemap
                 /4 404  /5 robots  /6 waits  /sitemap.xml
cell 1  b.test   /  /doc.pdf      pages, one of them PDF
                 /7               gave up after three time-outs
        c.test   /                has no address; parked
"""

from __future__ import annotations

from pathlib import Path

from teia.crawler.fetch_rows import roll_out, write_log
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import CaptureLocation, FoundUrl, PageRow, SettledVisit, tail_of
from teia.frontier.cell.schema import BY_LINK, BY_SEED, BY_SITEMAP, STATE_DONE, STATE_EXCLUDED, STATE_FAILED
from teia.store.fetchlog import FetchRow
from teia.store.root import CellFolder, Root, open_root
from teia.urls import key_of, split

NOW_S = 1_700_000_000.0
HTML, PDF, XML = "text/html", "application/pdf", "text/xml"
CONFIG = '[collection]\nseeds = ["http://a.test/"]\n'


def found(url: str, by: int, in_links: int = 1, depth: int = 1) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), depth, in_links, by=by)


def row(url: str, outcome: str, second: float, **more: object) -> FetchRow:
    """One request that took half a second."""
    host, began = split(url).host, NOW_S + second
    status = int(outcome) if outcome.isdigit() else None
    return FetchRow(began, began + 0.5, url, host, host, outcome, status, **more)  # type: ignore[arg-type]


class Cell:
    """One cell while it is written."""

    def __init__(self, folder: CellFolder) -> None:
        self.folder = folder
        self.frontier = FrontierCell(folder.frontier)
        self.rows: list[FetchRow] = []

    def settle(self, url: str, outcome: str, state: int, media_type: str = "", status: int = 0) -> None:
        """End the visit of a URL that waits."""
        host = split(url).host
        with self.frontier.transaction():
            host_id = self.frontier.host_id(host, NOW_S)
            (item,) = [
                each for each in self.frontier.next_urls(host_id, host, 100, set(), NOW_S + 1e6) if each.url == url
            ]
            status = status or (int(outcome) if outcome.isdigit() else 0)
            page = PageRow(status, b"d" * 32, media_type=media_type) if status else None
            archived = CaptureLocation("one.warc.gz", 0, 100) if media_type else CaptureLocation()
            self.frontier.settle(SettledVisit(host_id, item, outcome, state, NOW_S, page=page, archived=archived), host)

    def page(self, url: str, second: float, media_type: str = HTML, size: int = 1000, **more: object) -> None:
        """A page that was fetched and stored."""
        self.settle(url, "200", STATE_DONE, media_type)
        answer = {"bytes": size // 2, "decoded_bytes": size, "media_type": media_type, "cell": self.folder.number}
        self.rows.append(row(url, "200", second, **(answer | more)))

    def close(self, *, rolled_out: bool) -> None:
        with self.frontier.transaction():
            write_log(self.frontier, self.rows)
        if rolled_out:
            roll_out(self.frontier, self.folder.log, at_least=1)
        self.frontier.close()


def make(path: Path) -> Root:
    """Write the collection `main` of the module's text."""
    root = open_root(path, create=True)
    first, second = map(Cell, root.create_collection("main", CONFIG, cells=2).cells())
    _make_first(first)
    _make_second(second)
    return root


def _make_first(cell: Cell) -> None:
    with cell.frontier.transaction():
        cell.frontier.add_links(
            [
                found("http://a.test/", BY_SEED, in_links=0, depth=0),
                found("http://a.test/", BY_LINK, in_links=5, depth=0),
                *(found(f"http://a.test/{n}", BY_LINK, in_links=2) for n in (1, 2)),
                *(found(f"http://a.test/{n}", BY_SITEMAP, in_links=0) for n in (1, 2, 3)),
                *(found(f"http://a.test/{n}", BY_LINK) for n in (4, 5, 6)),
                found("http://a.test/sitemap.xml", BY_SITEMAP, in_links=0),
            ],
            NOW_S,
        )
        host_id = cell.frontier.host_id("a.test", NOW_S)
        robots = b"User-agent: *\nCrawl-delay: 3\nDisallow: /5\n"
        cell.frontier.store_robots(host_id, "a.test", "http://a.test", NOW_S, "200", 200, robots)
    cell.rows.append(row("http://a.test/robots.txt", "200", 0, kind="robots", bytes=50, decoded_bytes=44, cell=0))
    cell.page("http://a.test/", 4, links=12, links_in_scope=10, links_unindexable=2, rest_s=3.0, rested_s=3.5)
    for n in (1, 2, 3):
        cell.page(f"http://a.test/{n}", 4 + 4 * n, links=1, links_in_scope=1, links_unindexable=0, rest_s=3.0)
    cell.page("http://a.test/sitemap.xml", 20, XML, 500, links=3, links_in_scope=3, links_unindexable=0)
    cell.settle("http://a.test/4", "404", STATE_DONE)
    cell.rows.append(row("http://a.test/4", "404", 24, bytes=90, decoded_bytes=20, media_type=HTML, cell=0, links=0))
    cell.settle("http://a.test/5", "robots", STATE_EXCLUDED)
    (cell.folder.archive / "one.warc.gz").write_bytes(bytes(5000))
    cell.close(rolled_out=True)


def _make_second(cell: Cell) -> None:
    urls = ["http://b.test/", "http://b.test/doc.pdf", "http://b.test/7", "http://c.test/"]
    with cell.frontier.transaction():
        cell.frontier.add_links([found(url, BY_LINK) for url in urls], NOW_S)
    cell.page("http://b.test/", 5, size=3000, links=1, links_in_scope=0, links_unindexable=1)
    cell.page("http://b.test/doc.pdf", 6, PDF, 8000, links=0, links_in_scope=0, links_unindexable=0)
    cell.settle("http://b.test/7", "timeout", STATE_FAILED)
    for second in (7, 8, 9):
        cell.rows.append(row("http://b.test/7", "timeout", second, detail="too slow", tarantula_code=-10, cell=1))
    cell.settle("http://c.test/", "dns", STATE_FAILED)
    with cell.frontier.transaction():
        cell.frontier.park_host(cell.frontier.host_id("c.test", NOW_S), "no address")
    cell.close(rolled_out=False)
