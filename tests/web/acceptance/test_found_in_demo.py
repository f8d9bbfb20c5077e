"""What people found wrong in `teia demo`, each in a browser (docs/interface.md)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from teia.collections.account import FINE_S
from teia.collections.control_file import CrawlReports
from teia.views.reports.catalogue import REPORTS
from teia.web.access.roles import Role
from tests.web.test_browser import Live

from .demo import NAME, counted

pytestmark = pytest.mark.timeout(300)
WIDE: ViewportSize = {"width": 1280, "height": 800}
BASE = f"/c/{NAME}"
ONE_LINE = 26
"""Pixels that a line of facts takes at most, in 13 px."""


@pytest.fixture
def page(demo: Live, browser: Browser) -> Iterator[Page]:
    """An admin, at one instant: what is asked twice is answered alike."""
    demo.web.installation.clock.hold()  # type: ignore[attr-defined]  # a Later
    context = demo.context(browser, locale="en", viewport=WIDE)
    yield context.new_page()
    context.close()
    demo.web.installation.clock.let_go()  # type: ignore[attr-defined]


def number(text: str | None) -> int:
    """The first number of a text."""
    found = re.search(r"[\d,]+", text or "")
    assert found is not None, text
    return int(found[0].replace(",", ""))


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_freshness_is_one_number_wherever_it_is_shown(demo: Live, page: Page) -> None:
    """1: on its page, the monitor, the list of collections, in its report and on the front page.

    That it is right, the lab knows: test_kept.py.
    """
    counted(demo.web.client(Role.VIEWER), f"{BASE}/freshness")
    page.goto(f"{BASE}/freshness")
    sentence = " ".join(page.inner_text("[data-region=freshness] p >> nth=0").split())
    said = re.match(r"([\d.]+%) of the captures.* above ([\d.]+%) now, nor above ([\d.]+%)", sentence)
    assert said is not None, sentence
    fresh, possible, best = said.groups()
    page.goto(BASE)
    for name, value in (("fresh", fresh), ("possible", possible), ("best", best)):
        expect(page.locator(f"[data-live='freshness.{name}']")).to_have_text(value)
    page.goto("/c")
    expect(page.locator("tr", has=page.get_by_role("rowheader", name=NAME))).to_contain_text(f"{fresh} / {possible}")
    counted(demo.web.client(Role.VIEWER), f"{BASE}/reports/freshness")
    page.goto(f"{BASE}/reports/freshness")
    expect(page.locator("main")).to_contain_text(f"{fresh} of the captures, by weight, are likely fresh; {possible}")
    page.goto("/")
    # 87.5% may be 87.46%, which is 87%.
    rounded = {f"{float(fresh[:-1]) + off:.0f}%" for off in (-0.05, 0.05)}
    expect(page.locator(".pie-words")).to_contain_text(re.compile("|".join(sorted(rounded))))


def test_a_young_crawl_has_a_line_of_its_freshness_in_the_time_range_that_is_shown_first(
    demo: Live, page: Page
) -> None:
    """1: the range that was shown first had been empty for ten minutes."""
    clock = demo.web.installation.clock
    with CrawlReports(demo.web.installation.root.control) as reports:
        for ago in range(6, 0, -1):
            reports.note_point(NAME, FINE_S, clock.now_s() - FINE_S * ago, (9, 9, 9, 0, 0.81, 0.9, 0.93))
    page.goto(f"{BASE}/freshness")
    chart = page.locator("#fresh svg.wide")
    expect(chart).to_be_visible()
    names = chart.locator("text.name").all_text_contents() or page.locator("#fresh text").all_text_contents()
    assert any("fresh" in name for name in names)
    page.locator("#fresh summary").click()
    rows = page.locator("#fresh tbody tr").all_inner_texts()
    assert any("81%" in row and "93%" in row for row in rows), rows


def test_pages_are_linked_by_as_many_pages_as_they_list(page: Page) -> None:
    """2: however often those were visited again; but for pages of which the index has not the last version yet."""
    page.goto("/search?q=de")
    results = [
        (hit.locator("[data-versions]").get_attribute("href"), hit.locator(".facts").inner_text())
        for hit in page.locator(".hits > li").all()
    ]
    compared = 0
    for address, facts in results:
        linked = re.search(r"linked by ([\d,]+) page", facts)
        if linked is None:
            continue
        page.goto(address or "")
        listed, unread = number(page.inner_text("#links-here")), page.locator("p", has_text="may link here too:")
        missing = number(unread.inner_text()) if unread.count() else 0
        assert abs(number(linked[1]) - listed) <= missing, address
        assert page.locator("section[aria-labelledby=links-here] li a").count() == min(listed, 50)
        compared += 1
    assert compared >= 5


def test_a_page_is_a_searchable_page_everywhere_and_queued_urls_are_counted_once(demo: Live, page: Page) -> None:
    """8: on the front page, in the list, on the monitor and in the terminal."""
    page.goto("/")
    searchable = number(page.inner_text("h1"))
    page.goto("/c")
    row = page.locator("tr", has=page.get_by_role("rowheader", name=NAME))
    assert number(row.locator("[data-label='searchable pages']").inner_text()) == searchable
    captures, queued = (
        number(row.locator(f"[data-label='{name}']").inner_text()) for name in ("captures", "queued URLs")
    )
    page.goto(BASE)
    tiles = {name: number(page.inner_text(f"[data-live={name}]")) for name in ("indexed", "captures", "urls_queued")}
    assert tiles == {"indexed": searchable, "captures": captures, "urls_queued": queued}
    page.goto(f"{BASE}/frontier")
    assert number(page.inner_text("h1")) == queued
    words = ["status", "--data", str(demo.web.installation.root.path)]
    said = subprocess.run([sys.executable, "-m", "teia", *words], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"(?<![\d,]){searchable:,} searchable", said), said


def test_a_finished_crawl_says_nothing_about_second_requests(page: Page) -> None:
    """11; while one runs: tests/web/test_live_browser.py."""
    page.goto(BASE)
    tile = page.locator("[data-region=tiles] div", has_text="politeness violations")
    expect(tile.get_by_role("link", name="Audit")).to_be_visible()
    assert "second request" not in page.inner_text("main")
    assert "starting" not in page.inner_text("[data-region=head]"), "nobody is there who would start it"


def test_a_host_has_the_same_numbers_in_the_list_on_its_page_and_in_the_report(demo: Live, page: Page) -> None:
    """12."""
    counted(demo.web.client(Role.VIEWER), f"{BASE}/reports/errors")
    page.goto(f"{BASE}/reports/errors")
    shares = {row.split("\t")[0]: row.split("\t") for row in page.locator("#of-by_host ~ .scroll tr").all_inner_texts()}
    page.goto(f"{BASE}/hosts?sort=errors")
    rows = {}
    for row in page.locator("main tbody tr").all()[:4]:
        cells = {each.get_attribute("data-label"): each.inner_text() for each in row.locator("td").all()}
        cells["at"] = row.locator("[data-label='last request'] time").get_attribute("datetime") or ""
        rows[row.locator("th").inner_text()] = cells
    assert len(rows) == 4
    for host, cells in rows.items():
        page.goto(f"{BASE}/hosts/{host}")
        tiles = dict(
            zip(
                page.locator(".tiles dt").all_inner_texts(),
                page.locator(".tiles dd:first-of-type").all_inner_texts(),
                strict=True,
            )
        )
        assert (tiles["known URLs"], tiles["queued"]) == (cells["URLs"], cells["queued"])
        page.wait_for_function("document.querySelector('[data-live=last_asked]') !== null")
        shown = page.request.get(f"/api/v1{BASE}/hosts/{host}").json()["about"]
        assert shown["last_asked"][:19] == cells["at"][:19]
        assert cells["delay"] == "0.5 s"
        feasibility = " ".join(page.inner_text("section[aria-labelledby=feasibility] p").split())
        assert f"({tiles['visited']} page" in feasibility, "all that were visited, and nothing waits"
        if host in shares:
            assert cells["errors"] in shares[host], (host, shares[host])
        seen = re.search(r"Of the last ([\d,]+) requests", page.inner_text("main"))
        assert seen is not None
        assert number(seen[1]) >= number(tiles["requests"])


# ---- pages ----------------------------------------------------------------------------------------------------------


def test_the_title_of_a_result_opens_its_capture_also_by_keyboard(page: Page) -> None:
    """7: names of the demo lead nowhere."""
    page.goto("/search?q=casa")
    titles = page.eval_on_selector_all(".hits h2 a", "links => links.map(link => link.getAttribute('href'))")
    assert len(titles) == 10
    assert all(each.startswith(f"{BASE}/copy?") for each in titles)
    page.locator(".hits h2 a").first.click()
    expect(page.locator("iframe.copy")).to_be_visible()
    page.goto("/search?q=casa")
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/copy?**")
    expect(page.locator("iframe.copy")).to_be_visible()


def test_the_page_of_a_url_is_in_words_and_its_versions_are_near(page: Page) -> None:
    """9; that it follows a visit: tests/web/test_live_browser.py."""
    found = page.request.get("/api/v1/search?q=de&n=30").json()["hits"]
    views = [page.request.get(f"/api/v1{BASE}/page?url={quote(hit['url'], safe='')}").json() for hit in found]
    for view in (max(views, key=lambda view: len(view["links_in"])), min(views, key=lambda view: view["visits"])):
        page.goto(f"{BASE}/page?url={quote(view['url'], safe='')}")
        text = page.inner_text("main")
        assert not re.search(r"\d{4}-\d\d-\d\dT", text), "instants as people write them"
        assert "since –" not in text
        facts = page.inner_text("[data-region=facts]")
        assert {"Portuguese": "pt", "English": "en"}.get(facts.split(" · ")[2]) == view["lang"], facts
        answers = page.inner_text("section[aria-labelledby=is-current]")
        assert not ("Too early" in answers and "%" in answers), "no claim beside its denial"
        if view["visits"] < 5:
            assert "Estimated from similar pages" in answers or "%" not in answers, "the evidence of a guess"
        tabs = 0
        while page.evaluate("document.activeElement.getAttribute('href')") != "#versions":
            page.keyboard.press("Tab")
            tabs += 1
            assert tabs <= 30, "versions are before links"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('section')?.getAttribute('aria-labelledby')") == "versions"


@pytest.mark.parametrize("locale", ["en", "pt-BR"])
def test_results_use_the_width_and_keep_their_facts_on_a_line(demo: Live, browser: Browser, locale: str) -> None:
    """14."""
    context = browser.new_context(base_url=demo.base, locale=locale, viewport=WIDE)
    page = context.new_page()
    page.goto("/search?q=casa+livro")
    field = page.locator("#q").bounding_box()
    assert field is not None
    assert field["width"] >= 600
    tops = {round(box["y"]) for each in page.locator("form.search select").all() if (box := each.bounding_box())}
    assert len(tops) == 1, "no filter wraps"
    for hit in page.locator(".hits > li").all():
        where, facts = hit.locator(".where").bounding_box(), hit.locator(".facts").bounding_box()
        assert where is not None
        assert facts is not None
        assert where["height"] <= ONE_LINE, hit.inner_text()
        if not hit.locator(".facts a[href*='site%3A']").count():  # where more of a site is offered, it may be too long
            assert facts["height"] <= ONE_LINE, hit.inner_text()
    assert "cells" not in page.inner_text(".sum")
    assert page.locator(".paging a").count() >= 3, "numbers of pages"
    page.goto("/search?q=qwertyzxcv")
    footer = page.locator("footer").bounding_box()
    assert footer is not None
    assert abs(footer["y"] + footer["height"] - 800) <= 1, "at the foot of the window"
    context.close()


# ---- reports --------------------------------------------------------------------------------------------------------


def test_reports_have_charts_with_a_time_range_and_every_row_has_its_own_label(demo: Live, page: Page) -> None:
    """17."""
    for name in ("outcomes", "errors", "space", "growth", "types", "servers"):
        counted(demo.web.client(Role.VIEWER), f"{BASE}/reports/{name}")
        page.goto(f"{BASE}/reports/{name}")
        assert page.locator("figure svg.wide").first.is_visible(), name
    page.goto(f"{BASE}/reports/outcomes")
    page.click("nav >> text=15 minutes")
    expect(page.locator("nav [aria-current=true]")).to_have_text("15 minutes")
    chart = page.locator("#activity-chart svg.wide")
    ticks = chart.locator("text:not(.name)").all_text_contents()
    assert len([tick for tick in ticks if ":" in tick]) >= 2, ticks
    counts = [tick for tick in ticks if tick.replace(",", "").isdigit()]
    assert len(counts) == len(set(counts)) >= 3, counts
    page.goto(f"{BASE}/reports/growth")
    labels = [row.split("\t")[0] for row in page.locator("#of-over_time ~ .scroll tbody tr").all_inner_texts()]
    assert len(labels) == len(set(labels)) > 1, labels


def test_sql_has_its_tables_examples_and_links_and_rows_of_one_line(page: Page) -> None:
    """23."""
    page.goto(f"{BASE}/sql")
    assert page.locator("main details[open] code").count() > 20, "tables with their columns"
    page.click("text=Hosts by number of URLs")
    rows = page.locator("main .scroll tbody tr")
    assert rows.count() >= 3
    heights = rows.evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
    assert max(heights) <= 40
    before = rows.all_inner_texts()
    page.locator("main .scroll th a").first.click()
    assert rows.all_inner_texts() != before, "sorted by another column"
    assert "ORDER BY" in page.input_value("#sql")
    assert page.locator("ul.views a").count() == len(REPORTS) + 1, "the reports stay in view"
    page.goto(f"{BASE}/sql?q=SELECT+host+FROM+hosts+LIMIT+1")
    rows.locator("a").first.click()
    page.wait_for_url("**/hosts/**")
    page.goto(f"{BASE}/sql?q=SELECT+*+FROM+fetchs")
    expect(page.locator("#sql-error")).to_contain_text('Did you mean "fetches"?')


def test_reports_show_words_and_all_their_links_lead_somewhere(demo: Live, page: Page) -> None:
    """24: no key of the JSON, no number of a paper's table, nothing that is not found."""
    keys = re.compile(r"\b[a-z]+_[a-z_]+\b|\b[TACFP]\d{1,2}\b")
    followed: set[str] = set()
    for name in REPORTS:
        counted(demo.web.client(Role.VIEWER), f"{BASE}/reports/{name}")
        page.goto(f"{BASE}/reports/{name}")
        shown = [*page.locator("main th, main dt, main .facts").all_inner_texts(), page.inner_text("main h1 + p, h1")]
        codes = set(page.locator("main .facts code").all_inner_texts())
        left = [text for text in shown if keys.search(re.sub("|".join(map(re.escape, codes)) or "$^", "", text))]
        assert left == [], (name, left)
        links = page.eval_on_selector_all("main table a", "links => links.map(link => link.getAttribute('href'))")
        for address in {*links[:2], *links[-2:]} - followed:
            assert page.request.get(address).status == 200, (name, address)
            followed.add(address)
    assert len(followed) >= 10
