"""One body under several URLs: parsed once, stored once, and found again by other tools."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from teia.clock import WallClock
from teia.collections.settings import configure, saved
from teia.config.sections import CourtesySettings
from teia.crawler import content_seen
from teia.crawler.child.messages import ReadResult, SeenAnswer
from teia.crawler.content_seen import ContentSeen
from teia.crawler.lookup import Lookup
from teia.crawler.ownership import OneMachine
from teia.crawler.start import open_cell, open_crawls
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import CaptureLocation, QueuedUrl
from teia.frontier.cell.take import read_url
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostQueue
from teia.lab.world.exchange import WorldAnswer
from teia.records import Fetched
from teia.store.root import open_root
from teia.store.seen_bodies import SeenBody
from teia.urls import key_of, site_of, slot_of
from teia.views.captures import read_capture
from teia.views.reports.duplicates import duplicates
from teia.views.reports.source import open_source
from tests.crawler.webs import HTML, Crawled, ScriptedWeb, crawl_web, html, text_of

SAME = html(text=text_of(1))
MENU = html("next", text=text_of(2))
"""A page whose link depends on the folder it is in."""

DEEP = html("next", text=text_of(10))
C = "c.test"

HOME = html("/", "/index.html", "/x", "/y", "/one/page", "/two/page", "/one/again", text=text_of(3))
A, B = "a.test", next(f"b{n}.test" for n in range(99) if slot_of(site_of(f"b{n}.test")) >> 9 != slot_of("a.test") >> 9)
"""Hosts of different cells, of which the collection has two."""

CHUNKED = WorldAnswer(SAME.status, SAME.headers, SAME.body, chunked=True)
PAGES = {
    A: {
        "/": HOME, "/index.html": HOME, "/x": SAME, "/y": SAME, "/one/page": MENU, "/one/again": MENU,
        "/two/page": MENU, "/one/next": html(text=text_of(4)), "/two/next": html(text=text_of(5)),
    },
    C: {
        "/": html("/d1/page", "/hop", text=text_of(6)), "/hop": html("/d2/page", text=text_of(7)),
        "/d1/page": DEEP, "/d2/page": DEEP, "/d1/next": html(text=text_of(8)), "/d2/next": html(text=text_of(9)),
    },
    B: {"/x": CHUNKED, "/later": SAME, "/same-text": WorldAnswer(200, HTML + b"X-Robots-Tag: nofollow\r\n", SAME.body)},
}  # fmt: skip


class Records:
    """The archive of a crawl, read with warcio: answers by path, metadata by path."""

    def __init__(self, data: Path) -> None:
        self.kinds: dict[str, list[str]] = defaultdict(list)
        self.headers: dict[str, dict[str, str]] = {}
        self.metadata: dict[str, str] = {}
        for path in sorted(data.glob("main/cells/*/archive/*.warc.gz")):
            with path.open("rb") as stream:
                for record in ArchiveIterator(stream):
                    url = record.rec_headers.get_header("WARC-Target-URI") or ""
                    name = _short(url)
                    if record.rec_type in {"response", "revisit"}:
                        self.kinds[name].append(record.rec_type)
                        self.headers[name] = dict(record.rec_headers.headers)
                    elif record.rec_type == "metadata":
                        self.metadata[name] = record.content_stream().read().decode()

    def refers_to(self, name: str) -> str:
        """Short URL that a revisit record refers to, after its date and digest were compared with that one's."""
        own = self.headers[name]
        other = self.headers[_short(own["WARC-Refers-To-Target-URI"])]
        assert own["WARC-Profile"].endswith("/identical-payload-digest")
        assert own["WARC-Refers-To-Date"] == other["WARC-Date"]
        assert own["WARC-Refers-To"] == other["WARC-Record-ID"]
        assert own["WARC-Payload-Digest"] == other["WARC-Payload-Digest"]
        return _short(own["WARC-Refers-To-Target-URI"])

    def was_parsed(self, name: str) -> bool:
        return "linksOf:" not in self.metadata[name]


def _short(url: str) -> str:
    host, _, path = url.partition("://")[2].partition("/")
    return f"{host.partition(':')[0]}/{path}"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    folder = tmp_path_factory.mktemp("seen")
    web = ScriptedWeb(PAGES)
    seeds = [f"{A}/", f"{B}/x", f"{C}/"]
    first = crawl_web(web, folder, *seeds, courtesy__delay_s=0.0, scope__max_depth=2)
    assert f"{C}/d2/next" not in first.requested(), "it is three links away"
    # In another process, as it were: what was seen is read from the disk.
    seeds += [f"{B}/later", f"{B}/same-text", f"{C}/d2/page"]
    return crawl_web(web, folder, *seeds, port=first.port)


@pytest.fixture(scope="module")
def records(crawled: Crawled) -> Records:
    return Records(crawled.data)


def test_three_urls_with_one_body_are_parsed_and_stored_once_across_cells(records: Records) -> None:
    names = [f"{A}/x", f"{A}/y", f"{B}/x"]
    (first,) = [name for name in names if records.kinds[name] == ["response"]]
    others = [name for name in names if name != first]
    assert [records.kinds[name] for name in others] == [["revisit"], ["revisit"]]
    assert [records.refers_to(name) for name in others] == [first, first]
    assert [name for name in names if records.was_parsed(name)] == [first]


def test_a_later_crawl_knows_the_bodies_of_the_earlier_one(records: Records) -> None:
    assert records.kinds[f"{B}/later"] == ["revisit"]
    assert not records.was_parsed(f"{B}/later")


def test_root_and_index_are_one_document(records: Records) -> None:
    assert records.kinds[f"{A}/index.html"] == ["revisit"]
    assert records.refers_to(f"{A}/index.html") == f"{A}/"
    assert not records.was_parsed(f"{A}/index.html")


def test_a_page_whose_links_depend_on_its_folder_is_parsed_for_them(crawled: Crawled, records: Records) -> None:
    menus = [f"{A}/one/page", f"{A}/one/again", f"{A}/two/page"]
    assert sorted(records.kinds[name][0] for name in menus) == ["response", "revisit", "revisit"]
    assert [crawled.outcomes()[f"{A}/{folder}/next"] for folder in ("one", "two")] == ["200", "200"]
    # One page of each folder was parsed.
    assert [sum(records.was_parsed(name) for name in menus[:2]), records.was_parsed(menus[2])] == [1, True]


def test_links_of_a_duplicate_that_turns_out_to_be_nearer_are_its_own(crawled: Crawled, records: Records) -> None:
    assert records.kinds[f"{C}/d2/page"] == ["revisit"]
    assert crawled.outcomes()[f"{C}/d2/next"] == "200"


def test_an_answer_with_other_headers_is_parsed_again(records: Records) -> None:
    assert records.kinds[f"{B}/same-text"] == ["revisit"]
    assert records.was_parsed(f"{B}/same-text")


@pytest.fixture(scope="module")
def crawled_anew(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """A second crawl with a processor that the first did not have; one body at two URLs of A and one of C."""
    folder = tmp_path_factory.mktemp("anew")
    text = "This is a page in the English language, and it says that the weather of the day is good for all of us. " * 5
    pages = {A: {"/x": html(text=text), "/w": html(text=text)}, C: {"/y": html(text=text)}}
    settings: dict[str, Any] = {"scope__include": [f"or(domain:{A}, lang:pt)"], "courtesy__delay_s": 0.0}
    first = crawl_web(ScriptedWeb(pages), folder, f"{A}/x", **settings)
    pages[A]["/z"] = html("/w", f"http://{C}:{first.port}/y")
    settings["parse__processors"] = ["text/html=tests.crawler.test_loop:heading_words"]
    return crawl_web(ScriptedWeb(pages), folder, f"{A}/z", port=first.port, **settings)


def test_a_body_that_one_url_keeps_for_its_domain_is_refused_elsewhere_for_its_language(crawled_anew: Crawled) -> None:
    outcomes = crawled_anew.outcomes()
    assert (outcomes[f"{A}/x"], outcomes[f"{A}/w"], outcomes[f"{C}/y"]) == ("200", "200", "out_of_scope")


def test_a_repeated_body_is_parsed_for_a_processor_that_was_added_since(crawled_anew: Crawled) -> None:
    records = Records(crawled_anew.data)
    assert records.kinds[f"{A}/w"] == ["revisit"]
    assert records.was_parsed(f"{A}/w")


def test_the_body_of_every_url_can_be_read(crawled: Crawled) -> None:
    bodies: dict[str, bytes] = {}
    facts: dict[str, Any] = {}
    with Lookup(open_root(crawled.data), "main") as lookup:
        for name in (f"{A}/x", f"{A}/y", f"{B}/x", f"{B}/later", f"{B}/same-text"):
            host, _, path = name.partition("/")
            entry = lookup.find(f"http://{host}:{crawled.port}/{path}")
            assert entry is not None
            assert entry.page is not None
            bodies[name] = read_capture(lookup, entry, lookup.visits(entry)[-1]).body
            facts[name] = entry.page.title, entry.page.text_digest, entry.page.simhash, entry.page.language
            # The page's row names the record with the body, which the indexer reads.
            assert lookup.record(entry.cell, entry.page.file, entry.page.offset).kind == "response"
    assert set(bodies.values()) == {SAME.body}
    assert len(set(facts.values())) == 1


def test_a_revisit_of_a_duplicate_refers_to_the_record_with_the_body(crawled: Crawled) -> None:
    root = open_root(crawled.data)
    url = f"http://{A}:{crawled.port}/index.html"
    with Lookup(root, "main") as lookup:
        found = lookup.find(url)
    assert found is not None
    cell = open_cell(root.collection("main").cells()[found.cell], "main", saved(root, "main").config, WallClock())
    try:
        known = read_url(cell.frontier, A, slot_of(site_of(A)), found.host_id, key_of(url))
        assert known is not None
        item = cell.with_readable_capture(known.item)
    finally:
        cell.close()
    assert item.captured_url == f"http://{A}:{crawled.port}/"
    # The page itself was captured later than the record with its body.
    assert item.captured_s < known.item.captured_s


def test_the_report_counts_documents_contents_and_stored_bodies(crawled: Crawled) -> None:
    with open_source(open_root(crawled.data), "main") as source:
        found = duplicates(source, 2)
    assert (found.documents, found.contents, found.bodies) == (18, 10, 10)
    assert found.share == pytest.approx(8 / 18)
    assert [row.urls for row in found.rows] == [5, 3]
    assert found.rows[0].examples[0].endswith("/x")
    assert found.saved_bytes > 0


# ---- one machine and a node -----------------------------------------------------------------------------------------


def answered(cell: int, path: str) -> ActiveVisit:
    """A visit that brought SAME, of a host of its own in a cell."""
    url, host = f"http://h{cell}.test/{path}", f"h{cell}.test"
    server = Politeness(CourtesySettings()).server(host)
    queued = QueuedUrl(url, key_of(url), 0, 0, 1, 0.0)
    visit = ActiveVisit(HostQueue(host, 1, cell, 0, server), queued, address=f"10.0.0.{cell}")
    visit.fetched = Fetched(url, "200", 200, 0.0, 1.0, head=b"HTTP/1.1 200 OK\r\n\r\n", body=SAME.body)
    return visit


@pytest.mark.parametrize("archives_move", [False, True])
@pytest.mark.parametrize("cells_move", [False, True])
def test_a_node_refers_to_records_of_other_cells_unless_archives_move(
    tmp_path: Path, cells_move: bool, archives_move: bool
) -> None:
    """Two cells of a node that fetched one body stored it twice, though both bodies stay on its disk."""
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder, cells_move=cells_move, archives_move=archives_move)
    first = answered(0, "first")
    assert seen.begin(first, may_wait=True)
    same = answered(0, "same")
    assert not seen.begin(same, may_wait=True), "the first is not committed yet"
    first.result, first.capture = ReadResult(parsed=b"result"), CaptureLocation("file", 1, 2)
    seen.add([first])
    seen.end(first)
    assert seen.pop_released() == [same]
    other = answered(1, "other")
    assert seen.begin(same, may_wait=True)
    assert seen.begin(other, may_wait=True)
    record = seen.record_of(same)
    assert record is not None
    assert bool(record.file) == cells_move, "the file of a node may have moved with its cell, so a child opens it"
    assert (seen.record_of(other) is None) == archives_move
    seen.close()


@pytest.mark.parametrize("ship_archive", [False, True])
def test_a_node_keeps_bodies_of_cells_apart_if_their_archives_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ship_archive: bool
) -> None:
    monkeypatch.setattr(OneMachine, "cells_move", True)
    root, clock = open_root(tmp_path / "data", create=True), WallClock()
    flags = {"collection.seeds": ["http://a.test/"], "cluster.ship_archive": ship_archive}
    config = configure(root, "main", None, {}, flags).config
    ledger = Ledger(root.path / "ledger.sqlite")
    with root.locked(), open_crawls(root, [config], ledger, clock) as (crawl,):
        seen = crawl.content_seen
        assert seen is not None
        visits = [answered(cell, "page") for cell in (0, 1)]
        for visit in visits:
            assert seen.begin(visit, may_wait=False)
        assert (visits[0].checksum == visits[1].checksum) != ship_archive
        seen.release_all()
    ledger.close(clean=True, now_s=clock.now_s())


def read(visit: ActiveVisit, parsed: bytes = b"result") -> ReadResult:
    """Let a child have read a visit's answer, so that it waits for its commit."""
    visit.result = ReadResult("200", parsed=parsed, record_id="<urn:uuid:1>", payload_digest="sha256:1")
    visit.drop_bytes()
    return visit.result


def test_bodies_in_memory_are_limited_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: their number was limited, and heads of 60 kB took 500 MB."""
    monkeypatch.setattr(content_seen, "MAX_RECENT_BYTES", 200_000, raising=False)
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder)

    def visit(number: int) -> ActiveVisit:
        made = answered(0, f"{number}")
        assert made.fetched is not None
        head = b"HTTP/1.1 200 OK\r\nX: %b\r\n\r\n" % (b"x" * 60_000)
        made.fetched = replace(made.fetched, head=head, body=SAME.body + b"%d" % number)
        assert seen.begin(made, may_wait=True)
        return made

    for number in range(5):
        first = visit(number)
        read(first)
        first.capture = CaptureLocation("file", number, 1)
        seen.add([first])
        seen.end(first)
    again = [seen.record_of(visit(number)) for number in range(5)]
    assert [each is not None and each.answer is not None for each in again] == [False, False, True, True, True]
    assert all(each is not None and (each.file or each.answer) for each in again), (
        "the others are read from the archive"
    )
    seen.close()


def test_visits_of_one_cell_wait_until_the_first_is_read_and_refer_to_its_record(tmp_path: Path) -> None:
    """Its record is committed with theirs or before, so they need not wait for its commit, up to 200 ms away."""
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder)
    first, same, other = answered(0, "first"), answered(0, "same"), answered(1, "other")
    assert [seen.begin(visit, may_wait=True) for visit in (first, same, other)] == [True, False, False]
    read(first)
    seen.note_read(first)
    assert seen.pop_released() == [same], "a crash between the commits of two cells may lose the other one's original"
    late = answered(0, "late")
    for visit in (same, late):
        assert seen.begin(visit, may_wait=True), "the first is read"
        record = seen.record_of(visit)
        assert record is not None
        assert (record.parsed, record.answer) == (
            b"result",
            SeenAnswer("http://h0.test/first", 0.0, "sha256:1", "<urn:uuid:1>", b"HTTP/1.1 200 OK\r\n\r\n"),
        )
    first.capture = CaptureLocation("file", 1, 2)  # by the commit, before the others in the same group are stored
    same.result = ReadResult("200", same_as="http://h0.test/first")
    assert same.body_at == first.capture
    seen.add([first])
    seen.end(first)
    assert seen.pop_released() == [other]
    for visit in (other, answered(0, "later")):
        assert seen.begin(visit, may_wait=True)
        assert (visit.original, visit.seen) == (None, SeenBody("file", 1, 2, b"result"))
        assert seen.record_of(visit) == record, "this run has stored it, so no file is read"
    assert seen.waiting == 0
    seen.close()


def test_a_node_refers_to_committed_records_alone(tmp_path: Path) -> None:
    """The visits of a cell that has moved to another node are dropped, and their records with them."""
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder, cells_move=True)
    first, same = answered(0, "first"), answered(0, "same")
    assert [seen.begin(visit, may_wait=True) for visit in (first, same)] == [True, False]
    read(first)
    seen.note_read(first)
    assert seen.pop_released() == []
    seen.close()


def test_a_visit_does_not_refer_to_an_answer_that_was_refused(tmp_path: Path) -> None:
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder)
    first, same = answered(0, "first"), answered(0, "same")
    assert [seen.begin(visit, may_wait=True) for visit in (first, same)] == [True, False]
    read(first, parsed=b"")
    seen.note_read(first)
    assert [seen.begin(visit, may_wait=True) for visit in seen.pop_released()] == [True]
    assert seen.record_of(same) is None
    seen.close()


def test_visits_wait_for_one_commit_also_if_that_answer_was_refused(tmp_path: Path) -> None:
    """Otherwise a body that the scope refuses would be read once for each commit, however many URLs have it."""
    folder = open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2)
    seen = ContentSeen(folder)
    visits = [answered(cell, "x") for cell in range(4)]
    assert [seen.begin(visit, may_wait=True) for visit in visits] == [True, False, False, False]
    visits[0].result = ReadResult("out_of_scope")
    seen.add(visits[:1])
    seen.end(visits[0])
    assert [seen.begin(visit, may_wait=True) for visit in seen.pop_released()] == [True, True, True]
    assert seen.waiting == 0
    seen.close()


def test_visits_that_wait_are_released_when_the_crawl_ends(tmp_path: Path) -> None:
    seen = ContentSeen(open_root(tmp_path / "data", create=True).create_collection("main", "", cells=2))
    visits = [answered(cell, "x") for cell in (0, 1)]
    assert [seen.begin(visit, may_wait=True) for visit in visits] == [True, False]
    assert seen.waiting == 1
    seen.release_all()
    assert seen.pop_released() == [visits[1]]
    assert seen.begin(visits[1], may_wait=False)
    assert seen.waiting == 0
    seen.close()
