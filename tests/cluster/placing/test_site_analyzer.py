"""The Analyzer of a node: it measures sites, again and again, and lets those go that are faster elsewhere (A4)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from teia.clock import VirtualClock
from teia.cluster.cells.site_homes import SiteHomes
from teia.cluster.members.session import NodeState
from teia.cluster.placing.site_analyzer import Analyzer
from teia.cluster.placing.site_strategies import Rtt, SiteNote
from teia.config.sections import PlacementSettings
from teia.crawler.child.messages import ReadResult, in_columns
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.move_site import MovedSite
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import BY_LINK, BY_REQUISITE
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.urls import cell_starts

HOST = "www.casa.test"
SITE = "casa.test"
AGAIN_S = 1_000.0
TARGET = DelayTarget(HOST)


class Desk:
    """An Analyzer of node a, in a cluster of one node for each region, and a site that it fetches pages of."""

    def __init__(self, minimum_kb_s: float = 0.0, *, pages: int = 2, with_requisites: bool = False) -> None:
        self.clock = VirtualClock(1_000_000.0)
        regions = {"a": "br", "b": "pt", "c": "jp"}
        nodes = {
            name: NodeState(name, name, region=region, cells={str(number): 0})
            for number, (name, region) in enumerate(regions.items())
        }
        self.homes = SiteHomes(cell_starts(3), [])
        settings = PlacementSettings(minimum_kb_s, pages, AGAIN_S)
        self.analyzer = Analyzer(
            Rtt(minimum_kb_s), settings, "a", lambda: nodes, self.homes, self.clock, with_requisites
        )
        self.queue = HostQueue(HOST, 1, 0, 0, TARGET)
        self.homes.guests[SITE] = 0  # it lives in the cell of node a
        self.analyzer.add_queue(self.queue)
        self._key = 0

    def wait(self, seconds: float) -> None:
        asyncio.run(self.clock.advance(seconds))

    def begin(self, kb: float, seconds: float, *, status: int = 200, by: int = BY_LINK, key: int = 0) -> ActiveVisit:
        """Let an answer come; it is committed later (`note_end`)."""
        self._key += 1
        item = QueuedUrl(f"http://{HOST}/{self._key}", key or self._key, 0, 0, 1, 0.0, found_by=by)
        fetched = SimpleNamespace(status=status, started_s=0.0, ended_s=seconds)
        visit = ActiveVisit(self.queue, item, bytes_received=int(1_000 * kb), fetched=fetched)  # type: ignore[arg-type]
        self.analyzer.note_start(visit)
        self.analyzer.note_answer(visit, TARGET)
        return visit

    def fetch(self, kb: float, seconds: float, count: int = 1, *, status: int = 200) -> None:
        for _ in range(count):
            self.analyzer.note_end(self.begin(kb, seconds, status=status))

    def accepts(self) -> bool:
        return self.analyzer.accepts(self.queue)

    def leave(self) -> SiteNote:
        """Let the site leave; returns the note that goes with it."""
        (leaving,) = self.analyzer.departures(0.0, self.clock.now_s())
        assert leaving.site == SITE
        self.analyzer.finish_departure(leaving, MovedSite((HOST,), 1, 1))
        return SiteNote.read(leaving.note)


def test_an_accepted_site_is_measured_again_and_leaves_when_it_has_become_slow() -> None:
    """A4, "continuously": a site that was fast once and is now slow for days does not stay accepted."""
    desk = Desk(minimum_kb_s=10.0)
    desk.fetch(100.0, 1.0, count=2)
    assert desk.accepts()
    desk.fetch(0.1, 1.0, count=20)
    assert desk.accepts(), "its last measurement still counts"
    desk.wait(AGAIN_S + 1)
    desk.fetch(0.1, 1.0)
    assert desk.accepts(), "one page is not enough"
    desk.fetch(0.1, 1.0)
    assert not desk.accepts()
    assert desk.analyzer.is_leaving(desk.queue)
    assert desk.leave().speeds == {"br": 0.1}
    assert desk.analyzer.measurements() == {"measured": 1, "slow": 1.0, "sites_sent": 1}


def test_a_site_that_stays_fast_is_measured_again_and_stays() -> None:
    desk = Desk(minimum_kb_s=10.0)
    for _ in range(3):
        desk.fetch(100.0, 1.0, count=2)
        assert desk.accepts()
        desk.wait(AGAIN_S + 1)
    assert desk.analyzer.measurements()["slow"] == 0


def test_a_site_that_settled_is_moved_when_another_region_is_clearly_faster() -> None:
    """A4: our rule has no minimum; every `again_s` the regions that could be faster are compared anew."""
    desk = Desk()
    note = SiteNote().measured("pt", 60.0, desk.clock.now_s()).measured("jp", 1.0, desk.clock.now_s())
    note = note.measured("br", 100.0, desk.clock.now_s())
    desk.homes.notes[SITE] = SiteNote(note.speeds, note.since_s, "br", note.times).text
    desk.fetch(1.0, 1.0, count=5)
    assert desk.accepts(), "it settled here, and is not measured again yet"
    desk.wait(0.9 * AGAIN_S)
    assert desk.accepts()
    desk.wait(0.2 * AGAIN_S)
    desk.fetch(50.0, 1.0, count=2)
    assert not desk.accepts(), "a region about as fast is tried again"
    left = desk.leave()
    assert left.speeds["br"] == 50.0
    assert left.settled == "", "it is measured there first"
    # There it is faster: it settles there, and comes back only when that is over.
    far = left.measured("pt", 80.0, desk.clock.now_s()).valid(desk.clock.now_s(), AGAIN_S)
    assert set(far.speeds) == {"br", "pt", "jp"}, "the region that was far slower is not tried"


def test_answers_without_a_page_say_nothing_about_speed() -> None:
    """A crawl that keeps pages fresh gets a 304 for most of them: 200 bytes in a round trip."""
    desk = Desk(minimum_kb_s=10.0)
    desk.fetch(0.2, 1.0, count=50, status=304)
    desk.fetch(0.2, 1.0, count=50, status=404)
    assert desk.accepts()
    assert desk.analyzer.measurements()["measured"] == 0


def test_a_page_is_measured_with_its_requisites() -> None:
    """A4: the paper's response time is that of a page with its images and style sheets."""
    desk = Desk(minimum_kb_s=10.0, pages=1, with_requisites=True)
    page = desk.begin(20.0, 1.0)
    assert desk.analyzer.measurements()["measured"] == 0, "its requisites are not known yet"
    page.result = ReadResult(
        links=in_columns(
            [
                (HOST, 901, "/style.css", 1, "", BY_REQUISITE),
                ("img.casa.test", 902, "/big.png", 1, "", BY_REQUISITE),
                ("cdn.test", 903, "/other.js", 1, "", BY_REQUISITE),
                (HOST, 904, "/next", 1, "", BY_LINK),
            ]
        )
    )
    desk.analyzer.note_end(page)
    for key in (901, 902):
        assert desk.accepts()
        desk.analyzer.note_end(desk.begin(1.0, 4.0, by=BY_REQUISITE, key=key))
    assert not desk.accepts(), "22 kB in 9 s are too slow, though the page alone was not"
    assert desk.leave().speeds == {"br": round(22 / 9, 3)}


def test_a_requisite_that_never_comes_does_not_end_the_measuring() -> None:
    desk = Desk(minimum_kb_s=10.0, pages=1, with_requisites=True)
    page = desk.begin(1.0, 1.0)
    page.result = ReadResult(links=in_columns([(HOST, 901, "/known.css", 1, "", BY_REQUISITE)]))
    desk.analyzer.note_end(page)
    assert desk.accepts()
    desk.fetch(1.0, 1.0)
    assert not desk.accepts()


def test_no_request_is_under_way_when_a_site_leaves() -> None:
    desk = Desk(minimum_kb_s=10.0)
    under_way = desk.begin(1.0, 1.0)
    desk.fetch(1.0, 1.0)
    assert not desk.accepts()
    assert not desk.analyzer.departures(0.0, desk.clock.now_s())
    desk.analyzer.note_end(under_way)
    assert desk.leave().speeds == {"br": 1.0}
