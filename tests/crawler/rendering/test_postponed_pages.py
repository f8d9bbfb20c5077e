"""Pages do not wait for long trials: they go on as received, and come again if their kind is rendered."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from teia.crawler.child.messages import ReadResult, RenderGain
from teia.crawler.rendering.kinds import CLEAR, RenderKind, RenderVerdict
from teia.crawler.rendering.postponed_pages import PostponedPages, Scripts
from teia.crawler.rendering.render_visits import MAX_FOR_TRIAL, MAX_TRIALS, Rendering
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
from tests.crawler.rendering.test_ends import FULL, StubCrawl
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html
from tests.waiting import until_async

PAGES = 30
WAIT_S = 30.0
SCRIPT = "<script src=/a.js></script>"


def visit_of(number: int) -> ActiveVisit:
    item = QueuedUrl(f"http://h.test/p/{number}", number, 1, 0, 0, 0.0)
    return ActiveVisit(HostQueue("h.test", 1, 0, 0, DelayTarget("h.test")), item)


class Postponed:
    """Postponed pages, the requests they made, and the verdict that their kinds get when they are looked at."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.pages = PostponedPages(self.requested.append, lambda _host, _kind: None)

    def commit(self, *visits: ActiveVisit, under_way: tuple[Scripts, ...] = ()) -> None:
        self.pages.note_committed(visits, under_way.__contains__)


def test_a_page_is_requested_again_only_when_it_is_committed_and_its_kind_is_rendered() -> None:
    each, kind, same = Postponed(), RenderKind("/p/0", 7, is_empty=False), ("h.test", 7)
    first, second, other = visit_of(1), visit_of(2), visit_of(3)
    each.pages.add(first, kind)
    each.pages.add(second, kind)
    each.commit(first, other, under_way=(same,))
    assert each.requested == []
    kind.verdict = RenderVerdict.RENDERED
    each.pages.settle(same)
    assert each.requested == [first.item.url]  # the other is not on disk yet
    each.commit(second)
    assert each.requested == [first.item.url, second.item.url]
    assert len(each.pages) == 0


def test_pages_of_a_kind_that_is_not_rendered_are_forgotten() -> None:
    each, kind = Postponed(), RenderKind("/p/0", 7, is_empty=False, verdict=RenderVerdict.STATIC)
    each.pages.add(visit := visit_of(1), kind)
    each.commit(visit)
    assert each.requested == []
    assert len(each.pages) == 0


def test_of_a_kind_without_a_trial_one_page_is_requested_again_to_be_the_trial() -> None:
    each, kind, same = Postponed(), RenderKind("/p/0", 7, is_empty=False), ("h.test", 7)
    visits = [visit_of(number) for number in range(4)]
    for visit in visits:
        each.pages.add(visit, kind)
    each.commit(*visits)
    assert each.requested == [visits[0].item.url]
    kind.verdict = RenderVerdict.RENDERED
    each.pages.settle(same)
    assert each.requested == [visit.item.url for visit in visits]
    assert len(each.pages) == 0


def test_a_host_that_leaves_memory_and_a_crawl_that_ends_forget_their_pages() -> None:
    each, kind, same = Postponed(), RenderKind("/p/0", 7, is_empty=False), ("h.test", 7)
    for number in (1, 2):
        each.pages.add(visit := visit_of(number), kind)
        each.commit(visit, under_way=(same,))
    each.pages.forget("h.test")
    assert len(each.pages) == 0
    each.pages.add(visit_of(3), kind)
    each.pages.clear()
    assert len(each.pages) == 0
    each.pages.settle(same)
    assert each.requested == []


def test_few_pages_wait_for_a_trial_and_no_trial_begins_when_many_pages_are_before_the_browser() -> None:
    stub = StubCrawl()
    for number in range(1 + MAX_FOR_TRIAL + 5):
        assert stub.take(number, FULL)[1]
    assert len(stub.accepted) == 5
    assert len(stub.jobs) == 1
    assert not stub.rendering.is_full("h.test")
    busy = StubCrawl()
    busy.browsers.waiting = MAX_TRIALS
    assert not busy.take(1, FULL)[1]
    assert busy.take(2)[1], "a nearly empty page waits all the same"
    assert busy.rendering.counts.untried == 1


def test_no_third_trial_begins_while_one_with_the_same_scripts_has_brought_nothing_and_another_is_under_way() -> None:
    stub = StubCrawl()
    first, _ = stub.take(1, FULL, path="a")
    stub.rendering.note_read(first, ReadResult("200", gain=RenderGain(0, 0, [])))
    second, _ = stub.take(1, FULL, path="b/b")
    stub.take(1, FULL, path="c/c/c")
    assert len(stub.jobs) == 2
    stub.rendering.note_read(second, ReadResult("200", gain=RenderGain(0, 0, [])))
    assert len(stub.jobs) == 2
    assert len(stub.accepted) == 3


def name_of(number: int) -> str:
    """Return a name of letters: words with digits do not count as a gain."""
    return chr(97 + number // 26) + chr(97 + number % 26)


def crawl_with_a_long_trial(folder: Path, monkeypatch: pytest.MonkeyPatch, added: str) -> tuple[Crawled, Counter[str]]:
    """Crawl a host whose first trial lasts until all its pages were requested; each gets `added` with its own name."""
    served: Counter[str] = Counter()
    waited: list[str] = []
    texts = {f"/p/{name_of(number)}": filler(number) for number in range(PAGES)}

    def answer(request: WorldRequest) -> WorldAnswer:
        served[request.target] += 1
        return html(text=f"{request.target[3:]} {texts[request.target]}", head=SCRIPT)

    async def render(url: str, fetch: FetchForPage) -> RenderedPage:
        try:
            await until_async(lambda: len(served) == PAGES, within_s=WAIT_S)
        except AssertionError:
            waited.append(url)
        name = url.rpartition("/")[2]
        return RenderedPage(f"<title>T</title><p>{name} {texts['/p/' + name]} {added.replace('OWN', name)}".encode())

    use_stub(monkeypatch, render)
    web = ScriptedWeb({"h.test": {"/": html(*texts), **dict.fromkeys(texts, answer)}})
    crawled = crawl_web(web, folder, "h.test/", courtesy__delay_s=0.0, courtesy__per_host=4, sites__traps=False)
    assert waited == []
    return crawled, served


def test_pages_that_did_not_wait_are_rendered_once_the_trial_has_shown_what_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = " ".join(f"word{chr(97 + at)}OWN" for at in range(CLEAR + 1))
    crawled, served = crawl_with_a_long_trial(tmp_path, monkeypatch, added)
    rendering = crawled.crawls[0].rendering
    assert isinstance(rendering, Rendering)
    postponed = rendering.counts.postponed
    assert 0 < postponed <= PAGES - 1 - MAX_FOR_TRIAL  # the last pages may be read after the trial
    assert sorted(served.values()) == [1] * (PAGES - postponed) + [2] * postponed
    cell = open_root(crawled.data).collection("main").cells()[0]
    with closing(FrontierCell(cell.frontier, read_only=True)) as frontier:
        assert renderings.count_rendered(frontier) == PAGES


def test_no_page_is_requested_again_if_the_trial_brought_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, served = crawl_with_a_long_trial(tmp_path, monkeypatch, "")
    assert len(served) == PAGES
    assert set(served.values()) == {1}
