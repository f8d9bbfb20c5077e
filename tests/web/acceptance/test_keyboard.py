"""By keyboard alone, on a fresh `teia demo` (UX.md section 6, check 22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from teia.collections.settings import saved
from tests.web.test_browser import Live

from .demo import NAME

pytestmark = pytest.mark.timeout(300)
MOST_TABS = 400
SEEN = """() => {
  const at = document.activeElement;
  if (at === document.body) return true;
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  const isMarked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const isThere = box.bottom > 0 && box.top < innerHeight && box.width > 0;
  const over = document.elementFromPoint(
    Math.min(Math.max(box.left + box.width / 2, 1), innerWidth - 2),
    Math.min(Math.max(box.top + Math.min(box.height, 20) / 2, 1), innerHeight - 2));
  const isFree = !over?.closest("header.top") || at.closest("header.top") !== null;
  return isMarked && isThere && isFree;
}"""


@pytest.fixture
def page(demo: Live, browser: Browser) -> Iterator[Page]:
    context = demo.context(browser, locale="en", viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def told(page: Page, script: str, about: str | None = None) -> Any:
    """What a script says that only looks. A busy browser may still be putting a page that has come in its place."""
    try:
        return page.evaluate(script, about)
    except Error as error:
        if "context was destroyed" not in str(error):
            raise
        page.wait_for_load_state()
        return page.evaluate(script, about)


def tab_to(page: Page, is_there: str) -> None:
    """Press Tab until the focus is on what a selector names; it can be seen all the way, and leads nowhere else."""
    here = page.url
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        assert told(page, SEEN), told(page, "document.activeElement.outerHTML").strip()[:200]
        if told(page, "(selector) => document.activeElement.matches(selector)", is_there):
            assert page.url == here
            return
    raise AssertionError(f"no way to {is_there}")


def changed_page(demo: Live) -> str:
    """The title of a page of which there are two versions, to be searched for."""
    client = demo.web.client()
    for hit in client.get("/api/v1/search?q=de&n=40").json()["hits"]:
        marks = client.get(f"/api/v1/c/{NAME}/page", params={"url": hit["url"]}).json()["marks"]
        if sum(mark["is_version"] for mark in marks) > 1:
            return str(hit["url"])
    raise AssertionError("the demo saw nothing change")


def test_from_a_search_to_two_versions_compared(demo: Live, page: Page) -> None:
    """Search, result, versions, compare: with Tab, Enter and Space."""
    url = changed_page(demo)
    host = url.split("/")[2].split(":")[0]
    page.goto("/")
    assert page.evaluate("document.activeElement.id") == "q", "the field is where one begins"
    page.keyboard.type(f"site:{host} de")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    row = f".hits > li:has(a[href='{url}'])"
    expect(page.locator(row)).to_be_visible()
    tab_to(page, f"{row} [data-versions]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/page?**")
    tab_to(page, "form[action$='/diff'] button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/diff?**")
    assert page.locator("ins, del, .note").first.is_visible()


def test_a_collection_is_made(demo: Live, page: Page) -> None:
    page.goto("/c")
    tab_to(page, "a[href='/c/new']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/c/new")
    tab_to(page, "#name")
    page.keyboard.type("teclado")
    page.keyboard.press("Tab")
    page.keyboard.type("https://teclado.test/")
    tab_to(page, "button[name=step][value=save]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/c/teclado")
    assert saved(demo.web.installation.root, "teclado").config.collection.seeds == ("https://teclado.test/",)


def test_keys_lead_where_they_say(demo: Live, page: Page) -> None:
    page.goto("/search?q=casa")
    page.locator("main").focus()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.goto(f"/c/{NAME}")
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).not_to_be_visible()
    for keys, to in ((("g", "h"), "**/hosts"), (("g", "f"), "**/frontier"), (("g", "r"), "**/reports/**")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_url(to)
        page.locator("main").focus()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/c")
    page.goto("/search?q=casa")
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator(".hits h2 a").nth(1).get_attribute("href")
    assert page.evaluate("document.activeElement.getAttribute('href')") == second
    page.keyboard.press("v")
    page.wait_for_url("**/page?**")
    page.goto("/search?q=casa")
    page.locator("main").focus()
    page.keyboard.press("c")
    page.wait_for_url("**/copy?**")


def test_keys_do_nothing_where_they_were_turned_off_or_somebody_writes(demo: Live, page: Page) -> None:
    page.goto("/search?q=casa")
    page.focus("#q")
    page.keyboard.type(" ?gcjv/")
    assert " ?gcjv/" in page.input_value("#q")
    assert not page.is_visible("#keys")
    with page.expect_navigation():
        page.click("footer button[name=keys][value=off]")
    page.locator("main").focus()
    for key in ("?", "/", "j", "g", "c", "v"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)  # nothing happens for a while
    assert "/search?q=casa" in page.url
    assert not page.is_visible("#keys")
    assert page.evaluate("document.activeElement.id") == "main"
    page.goto(f"/c/{NAME}")
    page.locator("main").focus()
    for key in ("p", "t"):
        page.keyboard.press(key)
    assert page.get_attribute("[data-pause]", "aria-pressed") == "false"
    with page.expect_navigation():
        page.click("footer button[name=keys][value=on]")
    page.locator("main").focus()
    page.keyboard.press("p")
    assert page.get_attribute("[data-pause]", "aria-pressed") == "true"
