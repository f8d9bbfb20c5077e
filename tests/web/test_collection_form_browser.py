"""Collections made and changed in Debian's Chromium: by keyboard, without scripts, and while typing (UX 6, 22)."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from teia.collections.settings import saved
from tests.web.test_browser import Live, browser, live, watched

__all__ = ["browser", "live"]


def test_a_collection_is_made_and_changed_without_scripts(live: Live, browser: Browser) -> None:
    context = live.context(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto("/c")
    page.click("text=New collection")
    page.fill("#name", "Nova!")
    page.fill("#seeds", "https://nova.test/")
    page.click("button:text-is('Create')")
    expect(page.locator("#name-fault")).to_contain_text("cannot be the name of a collection")
    assert page.input_value("#seeds") == "https://nova.test/", "nothing typed is lost"
    page.fill("#name", "nova")
    page.click("button:text-is('Create')")
    page.wait_for_url("**/c/nova")
    page.click("nav >> text=Settings")
    page.locator("[name=rule_do]").first.select_option("skip")
    page.locator("[name=rule_kind]").first.select_option("regex")
    page.locator("[name=rule_value]").first.fill("/busca")
    page.click("text=Preview changes")
    expect(page.locator("section", has_text="Effect of these changes")).to_contain_text(
        "0 of 0 known URLs leave the queue"
    )
    page.click("button:text-is('Save')")
    page.wait_for_url("**/c/nova")
    assert saved(live.web.installation.root, "nova").config.scope.exclude == ("regex:/busca",)
    context.close()


def test_the_form_answers_while_somebody_types_and_by_keyboard_alone(live: Live, browser: Browser) -> None:
    context = live.context(browser, locale="en")
    page = context.new_page()
    said = watched(page)
    page.goto("/c/main/edit")
    page.focus("#start")
    page.keyboard.type("11202027")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("0200AM")
    page.focus("#zone")
    page.keyboard.type("UTC")
    page.keyboard.press("Tab")
    page.keyboard.type("7")
    page.keyboard.press("Tab")
    page.keyboard.type("days")
    expect(page.locator("#preview")).to_contain_text("Every 7 days at 02:00 (UTC)")
    expect(page.locator("#preview")).to_contain_text("Sat 27 Nov 2027")
    page.locator("[name=rule_value]").first.fill("x.test")
    page.locator("[name=rule_do]").first.select_option("skip")
    expect(page.locator("#rule-1")).to_contain_text("4")
    page.fill("#tries", "http://x.test/lei\nftp://x")
    expect(page.locator("#tried li").nth(0)).to_contain_text("excluded by rule 2: domain:x.test")
    expect(page.locator("#tried li").nth(1)).to_contain_text("No")
    page.fill("#max_depth", "deep")
    expect(page.locator("#max_depth-fault")).to_have_text("must be a whole number")
    assert said == []
    assert not Path(live.web.installation.root.path / "main" / "lists").exists()
    context.close()
