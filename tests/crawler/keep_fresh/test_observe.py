"""Pages visited again: what is learnt in the transaction that settles the visit, and what is said of them then."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from teia.collections.settings import saved
from teia.crawler.child.messages import decode_result, encode
from teia.crawler.child.read_answer import read
from teia.crawler.commit import CommitGroup
from teia.crawler.keep_fresh.estimate import LIFETIME_S, PageFreshness, freshness_of
from teia.crawler.lookup import Lookup
from teia.crawler.verdicts import task_for, verdict_of
from teia.crawler.visit import ActiveVisit
from teia.errors import CorruptFile
from teia.frontier.cell import histories
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_DUE, STATE_DONE
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.retry import verdict
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables.page_changes import pages_for_index
from teia.frontier.tables.pages import find_url
from teia.records import Fetched
from teia.refresh.history import DAY_S, History, VisitResult
from teia.refresh.trust import Trust
from teia.store.root import open_root
from teia.store.warc import page_members
from teia.urls import key_of, site_of, slot_of
from teia.views.page import PageView, page_view
from tests.crawler.offline import OfflineCrawl, offline_crawl

HOST = "a.test"
URL = f"http://{HOST}/"
WEB = {URL: "<p>first</p>"} | {f"{URL}news/{n}.html": f"<p>page {n}</p>" for n in range(12)}
PARAGRAPHS = "".join(f"<p>Paragraph {word} of a page that says a good deal more.</p>" for word in "abcdefgh")


class Revisited:
    """A collection whose pages are visited again, day by day, with answers made by hand."""

    def __init__(self, offline: OfflineCrawl) -> None:
        self.offline = offline

    @property
    def frontier(self) -> FrontierCell:
        for cell in self.offline.crawl.committer.cells:
            if cell.frontier.db.execute("SELECT 1 FROM hosts WHERE name = ?", (HOST,)).fetchone():
                return cell.frontier
        raise AssertionError("the host is not known")

    @property
    def host_id(self) -> int:
        return int(self.frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (HOST,)).fetchone()[0])

    def place(self, url: str) -> tuple[int, int, int]:
        return slot_of(site_of(HOST)), self.host_id, key_of(url)

    def visit(
        self,
        body: str,
        status: int = 200,
        url: str = URL,
        after_days: float = 1.0,
        truncated: str = "",
        **headers: str,
    ) -> None:
        """Ask for a page again, some days later."""
        asyncio.run(self.offline.clock.advance(after_days * DAY_S))
        now_s = self.offline.clock.now_s()
        cell = next(each for each in self.offline.crawl.committer.cells if each.frontier is self.frontier)
        with self.frontier.transaction():
            self.frontier.requeue(*self.place(url), lane=LANE_DUE, rank=int(now_s * 1000))
            sql = "UPDATE urls SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?"
            self.frontier.db.execute(sql, (LANE_DUE, int(now_s * 1000), *self.place(url)))
        queue = HostQueue(HOST, self.host_id, cell.number, 0, DelayTarget(HOST))
        (item,) = self.frontier.next_urls(self.host_id, HOST, 1, (), now_s)
        assert item.url == url
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: text/html\r\n{lines}\r\n".encode()
        fetched = Fetched(url, str(status), status, now_s, now_s, head=head, body=body.encode(), truncated=truncated)
        visit = ActiveVisit(queue, item, fetched=fetched)
        visit.result = decode_result(read(encode(task_for(self.offline.crawl.read_settings, "page", item, fetched))))
        visit.outcome = visit.result.outcome
        visit.verdict = verdict(visit.outcome, 99, 1.0)
        if truncated:
            visit.verdict = verdict_of(visit, self.offline.crawl.config, random.Random(1))
        self.offline.crawl.committer.commit(CommitGroup(visits=[visit]))

    def sights(self) -> list[tuple[int | None, int | None]]:
        """What each visit of the URL saw, and whether that is a change."""
        sql = "SELECT comparison, changed FROM visits WHERE slot = ? AND host_id = ? AND key = ? ORDER BY time_s"
        return self.frontier.db.execute(sql, self.place(URL)).fetchall()

    def history(self) -> History:
        known = histories.load_page(self.frontier, self.place(URL))
        assert known is not None
        return History.decode(known.record)

    def freshness(self, url: str = URL) -> PageFreshness | None:
        now_s = self.offline.clock.now_s()
        cells = [each.frontier for each in self.offline.crawl.committer.cells]
        return freshness_of(cells, cells.index(self.frontier), HOST, self.host_id, key_of(url), now_s)


@pytest.fixture
def revisited(tmp_path: Path) -> Iterator[Revisited]:
    with offline_crawl(WEB, tmp_path, *WEB) as offline:
        offline.run()
        yield Revisited(offline)


def count(frontier: FrontierCell, table: str) -> int:
    return int(frontier.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_first_visit_writes_no_history(revisited: Revisited) -> None:
    assert count(revisited.frontier, "pages") == len(WEB)
    assert (count(revisited.frontier, "histories"), count(revisited.frontier, "host_histories")) == (0, 0)
    assert revisited.freshness() is None


def test_a_page_that_has_become_too_large_keeps_its_last_capture_and_its_place_in_search(
    revisited: Revisited, tmp_path: Path
) -> None:
    """It left the index, and its links were those of the part that came."""
    indexable = {url: belongs for url, _, _, belongs, _ in pages_for_index(revisited.frontier)}
    assert indexable[URL]
    revisited.visit("<p>first and very much more</p><a href='/new'>new</a>", truncated="length")
    row = find_url(revisited.frontier, revisited.place(URL))
    assert row is not None
    assert (row.outcome, row.state) == ("too_large", STATE_DONE)
    assert {url: belongs for url, _, _, belongs, _ in pages_for_index(revisited.frontier)} == indexable
    assert revisited.sights()[-1] == (None, None)
    with Lookup(open_root(tmp_path / "data"), "main") as lookup:
        assert lookup.capture(URL).payload == b"<p>first</p>"


def test_every_visit_stores_the_result_of_its_comparison(revisited: Revisited) -> None:
    """A13, F3."""
    revisited.visit("<p>first</p>")
    revisited.visit("", status=304)
    revisited.visit("<p class=other>FIRST</p>")
    revisited.visit("<p>second</p>")
    revisited.visit("nothing here", status=404)
    revisited.visit("still nothing here", status=404)
    revisited.visit("<p>second</p>")
    assert revisited.sights() == [
        (None, None),
        (VisitResult.SAME_BYTES, 0),
        (VisitResult.NOT_MODIFIED, 0),
        (VisitResult.SAME_TEXT, 0),
        (VisitResult.CHANGED, 1),
        (VisitResult.GONE, 1),
        (VisitResult.GONE, 0),
        (VisitResult.CHANGED, 1),
    ]
    history = revisited.history()
    assert history.visits == pytest.approx(7, rel=0.03)
    assert history.changes == pytest.approx(3, rel=0.03)
    assert history.quiet_s == pytest.approx(4 * DAY_S, rel=0.04)


def test_an_error_is_no_observation(revisited: Revisited) -> None:
    revisited.visit("<p>first</p>")
    before = revisited.history()
    revisited.visit("out of order", status=503)
    assert revisited.history() == before
    assert revisited.sights()[-1] == (None, None)
    revisited.visit("<p>first</p>")
    assert revisited.history().quiet_s == pytest.approx(3 * DAY_S, rel=0.02)


def test_what_comes_and_goes_is_no_change_once_it_is_known(revisited: Revisited) -> None:
    """The first difference has nothing to be compared with, and counts; the third in a row is the counter's habit."""
    for visitors in range(100, 800, 100):
        revisited.visit(f"{PARAGRAPHS}<p>You are visitor {visitors}</p>")
    saw = [sight for sight, _ in revisited.sights()[1:]]
    assert saw == [VisitResult.CHANGED] * 3 + [VisitResult.COSMETIC] * 4
    revisited.visit(f"{PARAGRAPHS.replace('Paragraph d', 'News')}<p>You are visitor 900</p>")
    assert revisited.sights()[-1] == (VisitResult.CHANGED, 1)


def test_dates_are_trusted_after_twenty_changes(revisited: Revisited) -> None:
    """Trust is the host's: pages share it."""
    now_s = revisited.offline.clock.now_s()
    for number in range(43):
        modified = formatdate(now_s + (number // 2 * 2 + 0.5) * DAY_S, usegmt=True)
        revisited.visit(f"<p>version {number // 2}</p>", Last_Modified=modified, ETag=f'"{number}"')
    slot, host_id, _ = revisited.place(URL)
    trust = Trust.decode(histories.host_trust(revisited.frontier, slot, host_id)[0])
    assert (trust.dates.compared, trust.tags.compared) == (21, 42), "the date of an unchanged page says nothing"
    assert trust.dates.is_trusted
    assert not trust.tags.is_trusted
    history = revisited.history()
    assert history.dated == pytest.approx(history.changes)


def test_a_failed_commit_leaves_no_history(revisited: Revisited, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is written with the visit, or not at all."""

    def broken(*_: object) -> None:
        raise RuntimeError("died")

    monkeypatch.setattr("teia.crawler.commit.note_position", broken)
    with pytest.raises(RuntimeError, match="died"):
        revisited.visit("<p>second</p>")
    assert count(revisited.frontier, "histories") == 0
    assert len(revisited.sights()) == 1


def test_a_page_that_changes_daily_has_a_higher_rate_than_one_that_does_not(revisited: Revisited) -> None:
    for number in range(12):
        revisited.visit(f"<p>version {number} {'abcdefghijkl'[number]}</p>")
        revisited.visit("<p>page 1</p>", url=f"{URL}news/1.html", after_days=0.0)
    busy, calm = revisited.freshness(), revisited.freshness(f"{URL}news/1.html")
    assert busy is not None
    assert calm is not None
    assert busy.rate_per_day > 1.0 > 0.1 > calm.rate_per_day
    assert busy.low_per_day < busy.rate_per_day < busy.high_per_day
    asyncio.run(revisited.offline.clock.advance(2 * DAY_S))
    later_busy, later_calm = revisited.freshness(), revisited.freshness(f"{URL}news/1.html")
    assert later_busy is not None
    assert later_calm is not None
    assert later_busy.fresh_probability < 0.35
    assert later_calm.fresh_probability > 0.8


def test_pages_of_one_kind_lend_each_other_what_they_know(revisited: Revisited) -> None:
    """Eleven quiet pages of a folder make the twelfth, seen twice only, look quiet too."""
    for _ in range(6):
        for number in range(1, 12):
            revisited.visit(f"<p>page {number}</p>", url=f"{URL}news/{number}.html", after_days=0.5)
    revisited.visit("<p>page 0</p>", url=f"{URL}news/0.html", after_days=0.5)
    among_peers = revisited.freshness(f"{URL}news/0.html")
    with revisited.frontier.transaction():
        revisited.frontier.db.execute("DELETE FROM histories WHERE key <> ?", (key_of(f"{URL}news/0.html"),))
    asyncio.run(revisited.offline.clock.advance(LIFETIME_S))  # so long the host's pages are not read again
    alone = revisited.freshness(f"{URL}news/0.html")
    assert among_peers is not None
    assert alone is not None
    assert among_peers.rate_per_day < alone.rate_per_day


def test_teia_page_says_how_fast_a_page_changes(revisited: Revisited, tmp_path: Path) -> None:
    root = open_root(tmp_path / "data")

    def view(url: str) -> PageView:
        with Lookup(root, "main") as lookup:
            return page_view(lookup, url, saved(root, "main").config, revisited.offline.clock)

    assert (view(URL).rate_per_day, view(URL).fresh_probability) == (None, None)
    for number in range(4):
        revisited.visit(f"<p>version {'abcd'[number]}</p>")
    asyncio.run(revisited.offline.clock.advance(DAY_S))
    page, known = view(URL), revisited.freshness()
    assert known is not None
    assert (page.rate_per_day, page.fresh_probability) == (known.rate_per_day, known.fresh_probability)
    assert view(f"{URL}news/1.html").rate_per_day is None


@pytest.mark.parametrize("change", ["histories SET record", "histories SET mask", "host_histories SET trust"])
def test_a_record_that_is_none_is_named_with_its_file(revisited: Revisited, change: str) -> None:
    revisited.visit("<p>second</p>", ETag='"a"')
    revisited.visit("<p>third</p>", ETag='"b"')
    with revisited.frontier.transaction():
        revisited.frontier.db.execute(f"UPDATE {change} = x'0909'")
    with pytest.raises(CorruptFile, match=r"frontier\.sqlite.*visit history of a page cannot be read"):
        revisited.visit("<p>fourth</p>")
    if change != "histories SET mask":
        with pytest.raises(CorruptFile, match="cannot be read"):
            revisited.freshness()


def archive_of(folder: Path, versions: list[str]) -> Path:
    """A WARC file from elsewhere with one page, a version a day."""
    path = folder / "theirs.warc.gz"
    with path.open("wb") as stream:
        for day, text in enumerate(versions):
            time_s, body = 1_700_000_000.0 + day * DAY_S, f"<p>{text}</p>".encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
            stream.write(page_members(Fetched(URL, "200", 200, time_s, time_s, head=head), body, {}, None).data)
    return path


def test_versions_in_an_imported_archive_are_a_history(tmp_path: Path) -> None:
    """What somebody else saw tells as much as what we saw."""
    file = archive_of(tmp_path, ["one", "one", "two", "two", "three", "three", "three"])
    command = [sys.executable, "-m", "teia"]
    subprocess.run([*command, "import", "warc", file, "--data", tmp_path / "data"], check=True, capture_output=True)
    told = subprocess.run(
        [*command, "page", URL, "--data", tmp_path / "data", "--json"], check=True, capture_output=True
    )
    page = json.loads(told.stdout)
    assert [version["changed"] for version in page["versions"]] == [None, False, True, False, True, False, False]
    assert 0.1 < page["rate_per_day"] < 0.8
    assert page["fresh_probability"] < 0.05
