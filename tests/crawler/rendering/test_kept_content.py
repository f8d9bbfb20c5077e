"""What a page shows is kept: when its scripts fail, when it cannot be rendered, and when rendering is turned off."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawler.lookup import Lookup
from teia.crawler.rendering.render_visits import Rendering
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.render.page import FetchForPage, RenderedPage
from teia.store.root import open_root
from tests.crawler.rendering.script_webs import filler
from tests.crawler.rendering.stub_browsers import use_stub
from tests.crawler.webs import Crawled, ScriptedWeb, crawl_web, html

SCRIPT = "<script src=/a.js></script>"
TEXT = " ".join(f"{first}{second}" for first in filler(1).split()[:6] for second in filler(2).split()[:6])


def visits_of(crawled: Crawled, path: str) -> tuple[str, list[bool | None]]:
    """The outcome of a page, and the comparisons of its visits."""
    with Lookup(open_root(crawled.data), "main") as lookup:
        entry = lookup.find(f"http://h.test:{crawled.port}{path}")
        assert entry is not None
        return entry.outcome, [visit.changed for visit in lookup.visits(entry)]


def test_a_page_keeps_its_text_whatever_becomes_of_its_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails, accepts = [False], list[str]()

    async def render(url: str, fetch: FetchForPage) -> RenderedPage:
        if fails[0]:
            return RenderedPage(error="it did not answer")
        await fetch(url.rpartition("/")[0] + "/data", True)
        return RenderedPage(b"<p>Application error" if "/long" in url else f"<p>{TEXT}".encode())

    def data(request: WorldRequest) -> WorldAnswer:
        accepts.append({name.lower(): value for name, value in request.headers.items()}["accept"])
        return WorldAnswer(200, b"Content-Type: text/plain\r\n", b"data")

    def visit(port: int = 0, mode: str = "auto") -> Crawled:
        pages = {"/": html("/app", "/long"), "/app": html(head=SCRIPT), "/long": html(head=SCRIPT, text=TEXT)}
        web = ScriptedWeb({"h.test": {**pages, "/data": data}})
        return crawl_web(web, tmp_path, "h.test/", port=port, again=port > 0, render__mode=mode)

    use_stub(monkeypatch, render)
    crawled = visit()
    rendering = crawled.crawls[0].rendering
    assert isinstance(rendering, Rendering)
    assert (rendering.counts.gained, rendering.counts.failed) == (1, 1)  # the long one would have lost its text
    assert accepts == ["*/*"]
    port = crawled.port
    fails[0] = True
    crawled = visit(port, "always")
    assert visits_of(crawled, "/app")[0] == "not_rendered"
    assert visits_of(crawled, "/long") == ("200", [None, False])
    crawled = visit(port, "never")
    outcome, changes = visits_of(crawled, "/app")
    assert outcome == "200"
    assert changes[-1] is None  # two forms of a page are not compared
    assert visits_of(crawled, "/long") == ("200", [None, False, False])
