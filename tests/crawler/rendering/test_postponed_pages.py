"""Pages do not wait for trials that would hold up a crawl: they go on, and come again if their kind is rendered."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from teia.crawler.child.messages import ReadResult, RenderGain, ScriptSigns
from teia.crawler.rendering.kinds import CLEAR, MAX_KINDS, RenderKind, RenderVerdict, decode_kind, encode_kind
from teia.crawler.rendering.postponed_pages import (
    MAX_ASKED,
    PostponedPages,
    Scripts,
    StoredPages,
    decode_pages,
    stored_pages,
)
from teia.crawler.rendering.render_visits import HOLD_S, MANY, MAX_FOR_TRIAL, MAX_TRIALS, Rendering
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables import renderings
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.render.page import FetchForPage, RenderedPage
from teia.store.root import open_root
from tests.crawler.rendering.script_webs import filler
from tests.crawler.rendering.stub_browsers import use_stub
from tests.crawler.rendering.test_ends import EMPTY, FULL, StubCrawl, read_again
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html

PAGES = 30
SCRIPT = "<script src=/a.js></script>"


def visit_of(number: int) -> ActiveVisit:
    item = QueuedUrl(f"http://h.test/p/{number}", number, 1, 0, 0, 0.0)
    return ActiveVisit(HostQueue("h.test", 1, 0, 0, DelayTarget("h.test")), item)


SAME: Scripts = ("h.test", 7)


class Postponed:
    """Postponed pages, and the requests that they made."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.pages = PostponedPages(self.requested.append, lambda _host, _kind, _chars: None)

    def commit(self, *visits: ActiveVisit) -> None:
        self.pages.note_committed(visits)
        self.pages.request_due()

    def settle(self) -> None:
        self.pages.settle(SAME)
        self.pages.request_due()


def test_a_page_is_requested_again_only_when_it_is_committed_and_its_kind_is_rendered() -> None:
    each, kind = Postponed(), RenderKind("/p/0", 7, is_empty=False)
    first, second, other = visit_of(1), visit_of(2), visit_of(3)
    each.pages.add(first, kind, 300)
    each.pages.add(second, kind, 300)
    each.commit(first, other)
    assert each.requested == []
    kind.verdict = RenderVerdict.RENDERED
    each.settle()
    assert each.requested == [first.item.url]  # the other is not on disk yet
    each.commit(second)
    assert each.requested == [first.item.url, second.item.url]
    assert len(each.pages) == 0


def test_pages_of_a_kind_that_is_not_rendered_are_forgotten() -> None:
    each, kind = Postponed(), RenderKind("/p/0", 7, is_empty=False, verdict=RenderVerdict.STATIC)
    each.pages.add(visit := visit_of(1), kind, 300)
    each.commit(visit)
    assert each.requested == []
    assert len(each.pages) == 0


def test_of_all_kinds_with_the_same_scripts_the_page_with_the_least_text_is_requested_to_be_a_trial() -> None:
    each, kind, other = Postponed(), RenderKind("/p/0", 7, is_empty=False), RenderKind("/q/0", 7, is_empty=False)
    visits = [visit_of(number) for number in range(4)]
    for visit, chars in zip(visits[:3], (900, 400, 800), strict=True):
        each.pages.add(visit, kind, chars)
    each.pages.add(visits[3], other, 700)
    each.commit(*visits)
    assert each.requested == []
    assert each.pages.ask(SAME) == visits[1].item.url
    assert each.requested == [visits[1].item.url]
    kind.verdict = RenderVerdict.RENDERED
    each.settle()
    assert each.requested == [visits[at].item.url for at in (1, 0, 2)]
    assert each.pages.waiting() == [SAME], "the other kind waits for a trial of its own"
    assert each.pages.ask(SAME) == visits[3].item.url
    assert each.pages.ask(SAME) is None
    assert len(each.pages) == 0
    assert not each.pages.has_work


def test_a_kind_none_of_whose_pages_can_be_tried_is_given_up() -> None:
    each, kind = Postponed(), RenderKind("/p/0", 7, is_empty=False)
    visits = [visit_of(number) for number in range(10)]
    for visit in visits:
        each.pages.add(visit, kind, 300)
    each.commit(*visits)
    asked = [each.pages.ask(SAME) for _ in range(MAX_ASKED + 1)]
    assert None not in asked[:-1]
    assert asked[-1] is None
    assert not each.pages.has_work


def test_pages_that_wait_at_the_end_of_a_crawl_are_stored_and_taken_again() -> None:
    each, kind, later = Postponed(), RenderKind("/p/0", 7, is_empty=False), Postponed()
    visits = [visit_of(number) for number in range(3)]
    for visit, chars in zip(visits, (900, 400, 800), strict=True):
        each.pages.add(visit, kind, chars)
    each.commit(*visits[:2])
    ((url, (number, record)),) = each.pages.take_all()
    assert url == visits[1].item.url
    assert len(each.pages) == 0
    assert decode_kind(record) is None
    stored = decode_pages(record)
    assert stored is not None
    assert stored_pages(kind, [])[0] == number
    kind.verdict = RenderVerdict.RENDERED
    later.pages.load("h.test", kind, stored.pages)
    later.pages.request_due()
    assert sorted(later.requested) == [visit.item.url for visit in visits]


def test_few_pages_wait_for_a_trial_and_no_trial_begins_when_many_pages_are_before_the_browser() -> None:
    stub = StubCrawl()
    for number in range(1 + MAX_FOR_TRIAL + 5):
        assert stub.take(number, FULL)[1]
    assert len(stub.accepted) == 5
    assert len(stub.jobs) == 1
    assert not stub.rendering.is_full("h.test")
    busy = StubCrawl()
    busy.browsers.waiting = MAX_TRIALS
    assert busy.take(1, FULL)[1]
    assert len(busy.accepted) == 1, "it goes on as received, and may be tried later"
    assert busy.take(2)[1], "a nearly empty page waits all the same"
    assert len(busy.accepted) == busy.rendering.counts.postponed == 1


def test_no_third_trial_begins_while_one_with_the_same_scripts_has_brought_nothing_and_another_is_under_way() -> None:
    stub = StubCrawl()
    first, _ = stub.take(1, ScriptSigns(7, is_empty=False, chars=900), path="a")
    stub.rendering.note_read(first, ReadResult("200", gain=RenderGain(0, 0, [])))
    second, _ = stub.take(1, ScriptSigns(7, is_empty=False, chars=800), path="b/b")
    stub.take(1, ScriptSigns(7, is_empty=False, chars=700), path="c/c/c")
    assert len(stub.jobs) == 2
    stub.rendering.note_read(second, ReadResult("200", gain=RenderGain(0, 0, [])))
    assert len(stub.jobs) == 2
    assert len(stub.accepted) == 3


def test_pages_with_as_much_text_as_one_to_which_their_scripts_brought_nothing_are_no_trials() -> None:
    stub = StubCrawl()
    first, _ = stub.take(1, ScriptSigns(7, is_empty=False, chars=900), path="a")
    stub.rendering.note_read(first, ReadResult("200", gain=RenderGain(0, 0, [])))
    assert not stub.take(1, ScriptSigns(7, is_empty=False, chars=900), path="b/b")[1]
    assert stub.take(2, ScriptSigns(7, is_empty=False, chars=300), path="b/b")[1], "it has less text"
    assert len(stub.jobs) == 2


def test_a_host_without_a_delay_has_no_trial_before_the_crawl_has_nothing_else_to_do() -> None:
    stub = StubCrawl(is_fast=True)
    visits = [stub.take(number, FULL)[0] for number in range(5)]
    empty = [stub.take(number, ScriptSigns(8, is_empty=True), path="e")[0] for number in range(3)]
    stub.rendering.note_committed(visits)
    assert stub.accepted == visits
    assert stub.jobs == stub.requested == []
    assert stub.rendering.wants_idle_time
    assert stub.rendering.held == len(empty)
    stub.rendering.use_idle_time()
    assert [job.url for job in stub.jobs] == [empty[0].item.url]
    assert stub.requested == [visits[0].item.url]
    assert stub.rendering.held == 0
    again, is_taken = stub.take(0, FULL, visits=1)
    assert is_taken
    assert [job.url for job in stub.jobs] == [empty[0].item.url, again.item.url]


def test_nearly_empty_pages_and_a_verdict_for_many_pages_do_not_wait_for_the_end_of_a_long_crawl() -> None:
    stub = StubCrawl(is_fast=True)
    stub.take(0, EMPTY)
    stub.rendering.note_committed([])
    assert stub.jobs == []
    asyncio.run(stub.clock.advance(HOLD_S))
    stub.rendering.note_committed([])
    assert len(stub.jobs) == 1
    for number in range(MANY - 1):
        stub.rendering.note_committed([stub.take(number, ScriptSigns(8, is_empty=False), path="q")[0]])
    assert stub.requested == []
    for number in (MANY, MANY + 1):
        stub.rendering.note_committed([stub.take(number, ScriptSigns(8, is_empty=False), path="q")[0]])
    assert len(stub.requested) == 1, "one trial at a time"


def test_each_request_for_a_trial_asks_for_a_page_or_ends_the_wait_whatever_is_known_of_the_kinds() -> None:
    each, visits = Postponed(), [visit_of(number) for number in range(40)]
    kinds = [RenderKind(f"/p/{number}", 7, is_empty=False) for number in range(4)]
    for visit in visits:
        each.pages.add(visit, kinds[visit.item.key % 4], 300)
    each.commit(*visits)
    for kind, verdict in zip(kinds, RenderVerdict, strict=True):
        kind.verdict = verdict
    asked = 0
    while each.pages.ask(SAME) is not None:
        asked += 1
    assert asked == 2 * MAX_ASKED
    each.pages.request_due()
    assert not each.pages.has_work
    assert len(each.requested) == asked + len(visits) / 4, "with all pages of the kind that is rendered"


def test_a_crawl_ends_if_a_page_with_much_text_changed_the_verdict_on_a_kind_of_which_shorter_pages_wait() -> None:
    stub = StubCrawl(is_fast=True)
    tried = RenderKind("/a/0", 7, is_empty=False, verdict=RenderVerdict.STATIC, rendered=1, barren_chars=500)
    stub.rendering.load("h.test", [encode_kind(tried)])
    short, is_taken = stub.take(1, ScriptSigns(7, is_empty=False, chars=100), path="b/b")
    assert is_taken
    stub.rendering.note_committed([short])
    assert not stub.take(2, ScriptSigns(7, is_empty=False, chars=600), path="b/b")[1]
    stub.rendering.use_idle_time()
    assert stub.requested == [short.item.url], "it may gain what the other would not"
    assert not stub.rendering.wants_idle_time


def test_pages_that_are_held_at_a_quota_go_on_and_come_again_to_be_tried() -> None:
    stub = StubCrawl(is_fast=True)
    visits = [stub.take(number)[0] for number in range(2)]
    assert stub.rendering.held == 2
    stub.rendering.postpone_held()
    assert stub.accepted == visits
    assert stub.jobs == []
    assert stub.rendering.held == 0
    stub.rendering.note_committed(visits)
    stub.rendering.use_idle_time()
    assert stub.requested == [visits[0].item.url]
    again, _ = stub.take(0, visits=1)
    assert [job.url for job in stub.jobs] == [again.item.url]
    stub.rendering.note_read(again, read_again())
    stub.rendering.note_committed([again])
    assert stub.requested == [visit.item.url for visit in visits]


def test_nearly_empty_pages_are_of_their_own_kind_in_the_next_run() -> None:
    records = [
        stored_pages(RenderKind("/p/0", 7, is_empty=empty), [(3, "http://h.test/p/1")]) for empty in (True, False)
    ]
    assert records[0][0] != records[1][0]
    stored = [decode_pages(record) for _, record in records]
    assert [each is not None and each.is_empty for each in stored] == [True, False]


def test_stored_pages_that_are_taken_are_stored_no_more_also_if_their_kind_is_that_of_many() -> None:
    """Else they would be taken each time that their host comes back, and bring it back for ever."""
    stub = StubCrawl()
    number, record = stored_pages(RenderKind("/q/0", 7, is_empty=True), [(3, "http://h.test/q/1")])
    many = [encode_kind(RenderKind("/p/0", scripts, is_empty=True)) for scripts in range(100, 100 + 2 * MAX_KINDS)]
    stub.rendering.load("h.test", [*many, record])
    assert stub.rendering.wants_idle_time
    ((emptied, rest),) = stub.stored
    assert emptied == number
    assert decode_pages(rest) == StoredPages("/q/0", 7, [], is_empty=True)


def test_stored_pages_that_are_not_taken_stay_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    _, record = stored_pages(RenderKind("/p/0", 7, is_empty=False), [(3, "http://h.test/p/1")])
    ending, full = StubCrawl(), StubCrawl()
    ending.crawl.is_ending = True
    ending.rendering.load("h.test", [record])
    monkeypatch.setattr("teia.crawler.rendering.postponed_pages.MAX_URLS", 0)
    full.rendering.load("h.test", [record])
    assert ending.stored == full.stored == []
    assert not ending.rendering.wants_idle_time


def test_what_is_known_of_a_host_leaves_memory_with_the_last_of_its_pages_that_wait() -> None:
    stub = StubCrawl(is_fast=True)
    visit, _ = stub.take(1, FULL)
    stub.rendering.note_committed([visit])
    stub.rendering.forget("h.test")
    assert "h.test" in stub.rendering._kinds, "pages of the host wait"
    stub.rendering.use_idle_time()
    assert "h.test" in stub.rendering._kinds
    stub.rendering.use_idle_time()  # the page does not come
    assert "h.test" not in stub.rendering._kinds


def test_no_other_page_is_asked_for_while_one_lies_in_the_queue_of_a_host_that_waits_for_its_delay() -> None:
    stub = StubCrawl(is_fast=True)
    visits = [stub.take(number, FULL)[0] for number in range(2 * MAX_ASKED)]
    stub.rendering.note_committed(visits)
    queue = stub.crawl.queues["h.test"] = visits[0].queue
    queue.buffer.append(visits[0].item)
    for _ in range(2 * MAX_ASKED):
        stub.rendering.use_idle_time()
    assert stub.requested == [visits[0].item.url]
    assert stub.rendering.wants_idle_time
    queue.parked = "paused"
    stub.rendering.use_idle_time()
    assert stub.requested == [visit.item.url for visit in visits[:2]], "a parked host does not send it"
    queue.parked = ""
    queue.buffer.clear()
    for _ in range(2 * MAX_ASKED):
        stub.rendering.use_idle_time()
    assert len(stub.requested) == MAX_ASKED
    assert not stub.rendering.wants_idle_time


def test_a_page_that_was_asked_for_is_tried_however_many_are_before_the_browser() -> None:
    """Else it would be requested again and again for as long as another crawl has the browser."""
    stub = StubCrawl(is_fast=True)
    visit, _ = stub.take(1, FULL)
    stub.rendering.note_committed([visit])
    stub.rendering.use_idle_time()
    stub.browsers.waiting = MAX_TRIALS
    stub.take(1, FULL, visits=1)
    assert len(stub.jobs) == 1
    assert not stub.rendering.wants_idle_time


def name_of(number: int) -> str:
    """Return a name of letters: words with digits do not count as a gain."""
    return chr(97 + number // 26) + chr(97 + number % 26)


class FastCrawls:
    """Crawls of a host without a delay; each page gets `added` with its own name by its script."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, added: str) -> None:
        self.folder = folder
        self.served: Counter[str] = Counter()
        self.trials_beside_the_crawl: list[str] = []
        self.texts = {f"/p/{name_of(number)}": filler(number) for number in range(PAGES)}
        self._added, self._port = added, 0
        use_stub(monkeypatch, self._render)
        self._web = ScriptedWeb({"h.test": {"/": html(*self.texts), **dict.fromkeys(self.texts, self._answer)}})

    def _answer(self, request: WorldRequest) -> WorldAnswer:
        self.served[request.target] += 1
        return html(text=f"{request.target[3:]} {self.texts[request.target]}", head=SCRIPT)

    async def _render(self, url: str, fetch: FetchForPage) -> RenderedPage:
        if len(self.served) < PAGES:
            self.trials_beside_the_crawl.append(url)
        name = url.rpartition("/")[2]
        text = f"{name} {self.texts['/p/' + name]} {self._added.replace('OWN', name)}"
        return RenderedPage(f"<title>T</title><p>{text}".encode())

    def crawl(self, **settings: object) -> Crawled:
        crawled = crawl_web(
            self._web, self.folder, "h.test/", port=self._port, courtesy__delay_s=0.0, courtesy__per_host=4,
            sites__traps=False, **settings,
        )  # fmt: skip
        self._port = crawled.port
        return crawled

    def rendered_pages(self) -> int:
        cell = open_root(self.folder / "data").collection("main").cells()[0]
        with closing(FrontierCell(cell.frontier, read_only=True)) as frontier:
            return renderings.count_rendered(frontier)


MUCH = " ".join(f"word{chr(97 + at)}OWN" for at in range(CLEAR + 1))


def test_pages_of_a_fast_crawl_are_rendered_after_it_if_a_trial_shows_that_it_brings_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = FastCrawls(tmp_path, monkeypatch, MUCH)
    crawled = each.crawl()
    rendering = crawled.crawls[0].rendering
    assert isinstance(rendering, Rendering)
    assert each.trials_beside_the_crawl == []
    assert rendering.counts.postponed == PAGES
    assert set(each.served.values()) == {2}
    assert each.rendered_pages() == PAGES


def test_one_page_of_a_fast_crawl_is_requested_again_if_scripts_bring_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = FastCrawls(tmp_path, monkeypatch, "")
    each.crawl()
    assert len(each.served) == PAGES
    assert sum(each.served.values()) == PAGES + 1
    assert each.trials_beside_the_crawl == []
    assert each.rendered_pages() == 0


def test_pages_that_were_requested_again_at_the_end_of_a_run_are_rendered_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.crawler.requests.AT_ONCE", 1)
    each = FastCrawls(tmp_path, monkeypatch, MUCH)
    each.crawl(limits__pages=PAGES + 4)
    assert 0 < each.rendered_pages() < PAGES / 2
    each.crawl(limits__pages=0)
    assert each.rendered_pages() == PAGES


def test_pages_that_waited_for_a_verdict_at_the_end_of_a_run_are_rendered_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = FastCrawls(tmp_path, monkeypatch, MUCH)
    each.crawl(limits__pages=PAGES // 2)
    assert 0 < len(each.served) < PAGES
    assert each.rendered_pages() == 0
    each.crawl(limits__pages=0)
    assert each.rendered_pages() == PAGES
    served = dict(each.served)
    each.crawl()
    assert each.served == served, "the next run has nothing left to do"
