"""Schedules and what can be done in a week, on a fresh `teia demo` (UX.md section 6, checks 14 and 15)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect

from teia.config import CourtesySettings, ScheduleSettings
from teia.crawl.duties import Task, duty_of
from teia.crawl.runs import ScheduledRun
from teia.crawl.schedule import schedule_of
from teia.frontier.politeness import Politeness
from teia.web.words import ENGLISH
from tests.web.test_browser import Live

from .demo import NAME

pytestmark = pytest.mark.timeout(300)
WEEK_S = 7 * 86_400.0


@pytest.fixture
def page(demo: Live, browser: Browser) -> Iterator[Page]:
    context = demo.context(browser, locale="en", viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


def begun(settings: ScheduleSettings, now_s: float, number: int) -> list[float]:
    """When the coordinator begins runs: it waits until its duty is to run, runs, and asks for its duty again."""
    schedule, last, found = schedule_of(settings), None, []
    while len(found) < number:
        duty = duty_of(schedule, last, now_s)
        if duty.task is Task.RUN:
            assert duty.due_s is not None
            found.append(now_s)
            last = ScheduledRun(NAME, len(found), duty.due_s, now_s, now_s, duty.until_s, ended_s=now_s + 60)
            now_s += 61
        else:
            assert duty.task is Task.WAIT
            now_s = duty.until_s
    return found


@pytest.mark.parametrize("zone", ["Europe/Lisbon", "America/Sao_Paulo"])
def test_the_five_dates_are_those_on_which_the_coordinator_begins(demo: Live, page: Page, zone: str) -> None:
    """14: Lisbon goes back an hour between the third and the fourth."""
    page.goto("/c/new")
    page.fill("#start", "2027-10-10 01:30")
    page.fill("#zone", zone)
    page.fill("#every_number", "7")
    page.select_option("[name=every_unit]", "days")
    page.fill("#stop_number", "4")
    expect(page.locator("#preview [data-dates]")).to_contain_text("Nov 2027")
    expect(page.locator("#preview [data-words]")).to_contain_text("Every 7 days at 01:30")
    shown = page.inner_text("#preview [data-dates]").removeprefix("Next:").split("·")
    said = [datetime.strptime(each.strip(), "%a %d %b %Y %H:%M").replace(tzinfo=ZoneInfo(zone)) for each in shown]
    settings = ScheduleSettings(start="2027-10-10 01:30", zone=zone, every="7 days", stop_after="4 hours")
    due = begun(settings, demo.web.site.clock.now_s(), 5)
    assert [each.timestamp() for each in said] == due
    assert len({datetime.fromtimestamp(at, UTC).hour for at in due}) == (2 if zone == "Europe/Lisbon" else 1)


def test_a_pass_is_pages_times_rest_and_the_weekly_delay_is_enough(demo: Live, page: Page) -> None:
    """15: within 1%, by the sentence on the page; the delay it proposes, simulated, has everything asked in a week."""
    host = demo.web.client().get("/api/v1/search?q=casa&n=1").json()["hits"][0]["host"]
    page.goto(f"/c/{NAME}/hosts/{host}")
    page.fill("input[name=pages]", "535700")
    page.fill("form.filter input[name=delay_s]", "5")
    page.click("button:text-is('What if')")
    page.wait_for_url("**pages=535700**")
    said = re.search(r"A rest of 5 s, 535,700 pages: a pass needs (.+?)\.", page.inner_text("main"))
    assert said is not None
    twin = page.request.get(f"/api/v1/c/{NAME}/hosts/{host}/feasibility?delay_s=5&pages=535700").json()
    response_s = twin["response_s"]
    assert twin["pass_s"] == pytest.approx(535_700 * (5 + response_s), rel=0.01)
    assert twin["pass_s"] == pytest.approx(535_700 * 5, rel=0.01), "answers of the demo take no time"
    assert said[1] == ENGLISH.span(twin["pass_s"])
    assert simulated(twin["week_delay_s"], response_s, 535_700) <= WEEK_S * 1.001
    assert simulated(twin["week_delay_s"] * 1.02, response_s, 535_700) > WEEK_S, "and no shorter than need be"


def simulated(delay_s: float, response_s: float, pages: int, sample: int = 5_000) -> float:
    """How long a pass takes by the politeness that the crawler goes by, from a part of it."""
    politeness = Politeness(CourtesySettings(delay_s=delay_s, response_factor=1.0))
    server, address = politeness.server("x.test"), politeness.address("10.0.0.1")
    at = 0.0
    for _ in range(sample):
        at = max(at, server.ready_at, address.ready_at)
        politeness.started(server, address)
        politeness.finished(server, address, at, at + response_s)
        at += response_s
    return max(server.ready_at, at) / sample * pages
