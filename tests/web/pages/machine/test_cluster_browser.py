"""The circle in Debian's Chromium: arcs and rows light up together and follow their keepers (UX 2.11, 20, 21, 23)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.web.clusters import FixedSource, three_nodes
from tests.web.test_browser import Live, browser, live, watched

__all__ = ["browser", "live"]
WITH_HOPS = "/cluster?host=www.jornal.com.br&from=node-a"


@pytest.fixture
def told(live: Live) -> Iterator[FixedSource]:
    alone, told = live.web.installation.cluster, FixedSource(three_nodes())
    live.web.installation.cluster = told
    yield told
    live.web.installation.cluster = alone


def lit(page: Page) -> set[str | None]:
    return {each.get_attribute("data-node") for each in page.locator(".lit").all()}


@pytest.mark.usefixtures("told")
def test_the_circle_is_sound_in_light_and_dark_and_on_a_phone(live: Live, browser: Browser) -> None:
    for scheme, width, address in (("light", 1280, WITH_HOPS), ("dark", 320, "/cluster/nodes/node-c")):
        context = live.context(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
        page = context.new_page()
        said = watched(page)
        page.goto(address)
        found = Axe().run(page).response["violations"]
        assert [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found] + said == [], (address, scheme)
        wide = "document.querySelector('main').scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0, address
        context.close()


def test_arc_and_row_light_up_together_and_follow_the_owner(live: Live, browser: Browser, told: FixedSource) -> None:
    context = live.context(browser, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto("/cluster")
    cell = next(each for each in told.fixed.cells if each.keeper == "node-c")
    arc = page.locator(f'[data-cell="{cell.id}"]')
    arc.hover()
    assert lit(page) == {"node-c"}
    assert page.locator("table.nodes tr.lit").count() == 1
    page.hover("h1")
    assert lit(page) == set()
    page.locator("table.nodes tr[data-node=node-a] a").focus()
    assert lit(page) == {"node-a"}
    assert page.locator("g.cell.lit").count() == told.fixed.nodes[0].cells
    moved = [replace(each, keeper="node-a") if each.id == cell.id else each for each in told.fixed.cells]
    told.fixed = replace(told.fixed, cells=moved)
    page.wait_for_selector(f'[data-cell="{cell.id}"][data-node=node-a]', timeout=10_000, state="attached")
    assert arc.locator("text").text_content() == "a"
    told.fixed = replace(told.fixed, nodes=told.fixed.nodes[:2])
    page.wait_for_selector("[data-ring-changed]:not([hidden])", timeout=10_000)
    context.close()


def test_a_look_up_follows_a_move_and_a_dead_node_looks_dead_without_a_reload(
    live: Live, browser: Browser, told: FixedSource
) -> None:
    context = live.context(browser, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(WITH_HOPS)
    where = page.locator("[data-region=where] li")
    (home,) = page.request.get(f"{live.base}/api/v1{WITH_HOPS}").json()["where"]["homes"]
    other = "node-c" if home["keeper"] == "node-a" else "node-a"
    assert home["keeper"] in (where.text_content() or "")
    page.evaluate("window.isSame = true")
    cells = [replace(each, keeper=other) if each.number == home["number"] else each for each in told.fixed.cells]
    nodes = [replace(each, state="dead") if each.name == "node-b" else each for each in told.fixed.nodes]
    told.fixed = replace(told.fixed, cells=cells, nodes=nodes)
    page.wait_for_function(
        "name => document.querySelector('[data-region=where] li a').textContent === name", arg=other, timeout=20_000
    )
    row = page.locator("table.nodes tr[data-node=node-b]")
    row.locator(".state.dead").wait_for(timeout=20_000)
    assert row.locator("th a").evaluate("each => getComputedStyle(each).textDecorationLine") == "line-through"
    assert page.evaluate("window.isSame"), "the page was not loaded anew"
    context.close()
