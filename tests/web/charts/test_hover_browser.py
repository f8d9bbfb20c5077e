"""Charts in Debian's Chromium: the values below the pointer, in all charts of a page at once."""

from __future__ import annotations

from playwright.sync_api import Browser

from teia.collections.account import FINE_S
from teia.collections.control_file import CrawlReports
from tests.web.test_browser import Live, browser, live, watched

__all__ = ["browser", "live"]


def test_all_charts_show_the_values_of_the_instant_below_the_pointer(live: Live, browser: Browser) -> None:
    now_s = live.web.installation.clock.now_s()
    with CrawlReports(live.web.installation.root.control) as reports:
        for at in range(60):
            reports.note_point("main", FINE_S, now_s - 5 * (60 - at), (at * 10, at, 100 + at, 50, None, None, None))
    context = live.context(browser, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said = watched(page)
    page.goto("/c/main")
    readouts = page.locator(".readout")
    assert [each.is_visible() for each in readouts.all()] == [False, False]
    page.locator("#rate svg.wide").hover()
    texts = [each.text_content() or "" for each in readouts.all()]
    assert texts[0].endswith("requests 2.0"), "ten requests in five seconds"
    assert texts[0].partition(" · ")[0] == texts[1].partition(" · ")[0], "both are of one instant"
    assert page.locator("svg.wide line.crosshair").count() == 2
    page.locator("h1").hover()
    assert page.locator("line.crosshair").count() == 0
    page.goto("/c/main?window=7d")
    assert page.locator("nav [aria-current=true]").text_content() == "7 days"
    assert said == []
    context.close()
