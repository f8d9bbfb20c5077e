"""Schedules, what can be done in a week, how fresh it is: on a fresh `teia demo` (UX.md section 6, 14, 15, 19)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from teia.clock import from_iso
from teia.collections.account import FINE_S
from teia.collections.control_file import CrawlReports
from teia.collections.coordinator import Coordinator
from teia.collections.scheduled_runs import CrawlTask
from teia.config.sections import CourtesySettings
from teia.frontier.queue.politeness import Politeness
from teia.web.access.roles import Role
from teia.web.language.numbers import ENGLISH
from tests.collections.test_coordinator import LeapingClock, serve
from tests.crawler.webs import ScriptedWeb, html
from tests.web.test_browser import Live

from .demo import NAME, counted

pytestmark = pytest.mark.timeout(300)
WEEK_S = 7 * 86_400.0


@pytest.fixture
def page(demo: Live, browser: Browser) -> Iterator[Page]:
    context = demo.context(browser, locale="en", viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


SCHEDULES = {
    "Europe/Lisbon 2027-10-10 01:30": (
        ["Sun 10 Oct 2027 01:30", "Sun 17 Oct 2027 01:30", "Sun 24 Oct 2027 01:30", "Sun 31 Oct 2027 01:30",
         "Sun 7 Nov 2027 01:30"],
        ["2027-10-10T00:30Z", "2027-10-17T00:30Z", "2027-10-24T00:30Z", "2027-10-31T00:30Z", "2027-11-07T01:30Z"],
    ),
    "Europe/Lisbon 2028-03-12 01:30": (
        ["Sun 12 Mar 2028 01:30", "Sun 19 Mar 2028 01:30", "Sun 26 Mar 2028 02:30", "Sun 2 Apr 2028 01:30",
         "Sun 9 Apr 2028 01:30"],
        ["2028-03-12T01:30Z", "2028-03-19T01:30Z", "2028-03-26T01:30Z", "2028-04-02T00:30Z", "2028-04-09T00:30Z"],
    ),
    "America/Sao_Paulo 2027-10-10 01:30": (
        ["Sun 10 Oct 2027 01:30", "Sun 17 Oct 2027 01:30", "Sun 24 Oct 2027 01:30", "Sun 31 Oct 2027 01:30",
         "Sun 7 Nov 2027 01:30"],
        ["2027-10-10T04:30Z", "2027-10-17T04:30Z", "2027-10-24T04:30Z", "2027-10-31T04:30Z", "2027-11-07T04:30Z"],
    ),
}  # fmt: skip
"""By a zone and a first start, every 7 days: what people there call the five dates, and which instants these are.

Written down by the law of these zones (Portugal goes back an hour at 01:00 UTC of the last Sunday of October, where
01:30 comes twice, and forward in March, where there is no 01:30), not computed by anything of ours.
"""


EVERY = {"every": "7 days", "stop_after": "4 hours"}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """When a coordinator began five runs of each schedule: real crawls, on a clock that leaps while nothing runs."""
    found: dict[str, list[float]] = {}
    for year in ("2027", "2028"):
        schedules = {f"c{at}": first for at, first in enumerate(SCHEDULES) if f" {year}" in first}
        own = {name: {"schedule.zone": each.split()[0], "schedule.start": each.partition(" ")[2]}
               for name, each in schedules.items()}  # fmt: skip
        ended: Counter[str] = Counter()

        def heard(coordinator: Coordinator, clock: LeapingClock, line: str, ended: Counter[str] = ended) -> None:
            ended.update([line.partition(":")[0]] if "run 5 ended" in line else [])
            controllers = coordinator.controllers.values()
            if len(ended) == len(controllers):
                coordinator.stop()
            elif "waits until" in line and all(
                controller.due_task.task is CrawlTask.WAIT for controller in controllers
            ):
                clock.leap_to(min(controller.due_task.until_s for controller in controllers))

        flags = {f"schedule__{key}": value for key, value in EVERY.items()}
        now_s = datetime.fromisoformat(f"{year}-03-01T00:00Z").timestamp()
        web = ScriptedWeb({"a.test": {"/": html()}})
        served, _ = serve(web, tmp_path_factory.mktemp(year), heard, own, now_s=now_s, **flags)
        for name, first in schedules.items():
            runs = served.runs[name][:5]
            assert [run.why for run in runs] == ["finished"] * 5
            assert all(0 <= run.began_s - run.due_s < 60 for run in runs), "on time"
            found[first] = [run.due_s for run in runs]
    return found


@pytest.mark.parametrize("first", SCHEDULES)
def test_the_five_dates_are_those_on_which_the_coordinator_begins(
    begun: dict[str, list[float]], page: Page, first: str
) -> None:
    """14, also over a daylight-saving change; both are what the calendar says."""
    said, instants = SCHEDULES[first]
    zone, _, start = first.partition(" ")
    page.goto("/c/new")
    page.fill("#start", start.replace(" ", "T"))
    page.fill("#zone", zone)
    page.fill("#every_number", "7")
    page.select_option("[name=every_unit]", "days")
    page.fill("#stop_number", "4")
    expect(page.locator("#preview [data-dates]")).to_contain_text(said[-1])
    expect(page.locator("#preview [data-words]")).to_contain_text("Every 7 days at 01:30")
    shown = page.inner_text("#preview [data-dates]").removeprefix("Next:").split("·")
    assert [each.strip() for each in shown] == said
    true = [datetime.fromisoformat(each).timestamp() for each in instants]
    asked = {"start": start, "zone": zone, **EVERY}
    twin = page.request.get("/api/v1/schedule/preview", params=asked).json()
    assert [from_iso(each) for each in twin["starts"]] == true
    assert begun[first] == true


def test_a_pass_is_pages_times_delay_and_the_weekly_delay_is_enough(demo: Live, page: Page) -> None:
    """15: within 1%, by the sentence on the page; the delay it proposes, simulated, has everything asked in a week."""
    host = demo.web.client().get("/api/v1/search?q=casa&n=1").json()["hits"][0]["host"]
    page.goto(f"/c/{NAME}/hosts/{host}")
    page.fill("input[name=pages]", "535700")
    page.fill("form[action*='#feasibility'] input[name=delay_s]", "5")
    page.click("button:text-is('What if')")
    page.wait_for_url("**pages=535700**")
    said = re.search(r"A delay of 5 s, 535,700 pages: a full pass takes (.+?)\.", page.inner_text("main"))
    assert said is not None
    twin = page.request.get(f"/api/v1/c/{NAME}/hosts/{host}/feasibility?delay_s=5&pages=535700").json()
    response_s = twin["response_s"]
    assert twin["pass_s"] == pytest.approx(535_700 * (5 + response_s), rel=0.01)
    assert twin["pass_s"] == pytest.approx(535_700 * 5, rel=0.01), "answers of the demo take no time"
    assert said[1] == ENGLISH.span(twin["pass_s"])
    assert simulated(twin["week_delay_s"], response_s, 535_700) <= WEEK_S * 1.001
    assert simulated(twin["week_delay_s"] * 1.02, response_s, 535_700) > WEEK_S, "and no shorter than need be"


def test_the_page_never_shows_more_than_it_says_is_possible(demo: Live) -> None:
    """19: of all pages together and of every host; the chart shows what the crawler said; what is lost adds up."""
    installation = demo.web.installation
    said = [(0.9, 0.95, None), (0.97, 0.95, 0.98), (0.96, 0.95, 0.98)]  # the first by a version that did not say it
    with closing(
        CrawlReports(installation.root.path / "control.sqlite")
    ) as control:  # fresher than it can be kept, and less
        for ago_s, point in zip((20, 15, 10), said, strict=True):
            control.note_point(NAME, FINE_S, installation.clock.now_s() - ago_s, (9, 9, 9, 0, *point))
    view = counted(demo.web.client(Role.VIEWER), f"/api/v1/c/{NAME}/freshness?window=15min").json()
    assert 0 < view["fresh"] <= view["possible"] <= 1
    assert sum(view["lost"].values()) == pytest.approx(1 - view["fresh"], abs=1e-5)
    assert view["rows"]
    assert all(row["fresh"] <= row["possible"] for row in view["rows"])
    known = [(fresh, possible) for _, fresh, possible in view["series"] if fresh is not None]
    expected = [(fresh, possible) for fresh, _, possible in said]
    assert [each for each in known if each in expected] == expected  # the crawl may have written more, just before


def simulated(delay_s: float, response_s: float, pages: int, sample: int = 5_000) -> float:
    """How long a pass takes by the politeness that the crawler goes by, from a part of it."""
    politeness = Politeness(CourtesySettings(delay_s=delay_s, response_factor=1.0))
    server, address = politeness.server("x.test"), politeness.address("10.0.0.1")
    at = 0.0
    for _ in range(sample):
        at = max(at, server.ready_at, address.ready_at)
        politeness.begin_request(server, address)
        politeness.end_request(server, address, at, at + response_s)
        at += response_s
    return max(server.ready_at, at) / sample * pages
