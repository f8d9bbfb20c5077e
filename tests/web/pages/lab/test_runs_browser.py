"""A simulation from the browser: asked for, watched without reload, read and compared (UX 2.12)."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.web.labs import keep
from tests.web.test_browser import Live, browser, live, watched

__all__ = ["browser", "live"]


def test_a_run_is_requested_watched_and_compared(live: Live, browser: Browser) -> None:
    before = keep(live.web.installation.lab.stored)
    context = live.context(browser, locale="en", viewport={"width": 360, "height": 800})
    page = context.new_page()
    said = watched(page)
    page.goto("/lab")
    page.click("nav.sub summary")
    page.click("nav >> text=Simulate")
    page.fill("#pages", "sixty")
    page.click("button:text-is('Run')")
    expect(page.locator("#pages-fault")).to_contain_text("must be a whole number")
    assert page.input_value("#pages") == "sixty"
    said.clear()  # the browser tells of the 400
    for field, value in {"pages": "60", "servers": "3", "days": "3", "politeness_s": "5"}.items():
        page.fill(f"#{field}", value)
    page.click("button:text-is('Run')")
    page.wait_for_url(re.compile(r"/lab/runs/\d+"))
    ended = page.locator("text=Finished: view results")
    if page.locator("progress").count():  # a quick machine may be done already
        expect(ended).to_be_visible(timeout=60_000)
        expect(page.locator("p.state")).to_have_text("finished")
        ended.click()
    expect(page.locator("main")).to_contain_text("keeps captures least stale")
    expect(page.locator("figure.chart svg.narrow")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    number = page.url.rpartition("/")[2]
    page.goto("/lab")
    for run in (str(before.number), number):
        page.check(f"input[name=run][value='{run}']")
    page.click("text=Compare those chosen")
    expect(page.locator("#asked")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert said == []
    context.close()
