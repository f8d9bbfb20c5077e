"""An operator's evening with `teia serve`, its crawler and a lab's web, in a browser without scripts.

UX.md section 6, checks 6, 10 and 11: a collection is made, 50 URLs are tried and then crawled, a rule is added while it
is paused, and everything works without JavaScript. Each test goes on where the one before ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import Error as PlaywrightError

from tests.system.labs import Lab, running_lab
from tests.system.test_serve import Served, serving
from tests.waiting import until
from tests.web.conftest import PASSWORD

pytestmark = pytest.mark.timeout(300)
NAME = "diario"
SPEC = """
seed = 11
hosts = 5
pages = 150

[errors]
scale = 0

[sites]
theta = 0
nxdomain = 0
unreachable = 0
mirrors = 0
aliases = 0

[links]
orphans = 0
nofollow = 0

[robots]
present = 0

[urls]
sessions = 0

[text]
pdfs = 0
"""
MORE = """[fetch]
dns = "{dns}"
allow_nets = ["127.77.0.0/16"]
[sites]
probe_after_pages = 0
"""


@dataclass
class Evening:
    """What all tests share, and what the tester said of each URL: whether it would be crawled, and the rule."""

    lab: Lab
    served: Served
    page: Page
    kept: list[str]
    skipped: str
    dropped: str
    said: dict[str, tuple[bool, str]] = field(default_factory=dict)

    def queued(self) -> int:
        return int(self.served.status(NAME)["urls_queued"])

    def reload_until(self, is_so: Callable[[], bool], within_s: float = 60.0) -> None:
        """Load the page again and again, as a user without scripts does, until it is so."""

        def look() -> bool:
            if is_so():
                return True
            try:
                self.page.reload()
            except PlaywrightError as error:  # a click before it is still on its way to another page
                if "Not attached to an active page" not in error.message:
                    raise
                self.page.wait_for_load_state()
            return False

        until(look, within_s=within_s, state=lambda: self.page.inner_text("main"))


@pytest.fixture(scope="module")
def evening(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evening]:
    folder = tmp_path_factory.mktemp("operating")
    with running_lab(folder, SPEC, 105, truth=True) as lab, serving(folder / "data") as served:
        assert served.process.stderr is not None
        code = served.process.stderr.readline().strip().partition("#")[2]
        context = browser.new_context(
            base_url=served.base, java_script_enabled=False, locale="en", viewport={"width": 1280, "height": 800}
        )
        page = context.new_page()
        page.goto("/login")
        for at, value in (("#code", code), ("#new-name", "ana"), ("#new-password", PASSWORD)):
            page.fill(at, value)
        page.click("text=Create account")
        page.wait_for_url("**/c")
        hosts = sorted({line["host"] for line in lab.truth().values()} - {re.split("[/:]", lab.seed_url)[3]})
        yield Evening(lab, served, page, hosts[2:], hosts[0], hosts[1])
        context.close()


def fifty(evening: Evening) -> list[str]:
    """URLs of the lab: some that the rules below skip, for one reason or another, and more that they keep."""
    truth = [line for line in evening.lab.truth().values() if line["kind"] == "page"]
    by_host = {
        host: [line["url"] for line in truth if line["host"] == host] for host in (*evening.kept, evening.skipped)
    }
    urls = [url for urls in by_host.values() for url in urls[:17]]
    assert len(urls) >= 50
    return urls[:50]


def test_a_collection_is_tried_with_fifty_urls_before_it_is_made(evening: Evening) -> None:
    """6: create. 10: the tester sends no request."""
    page = evening.page
    page.goto("/c")
    page.click("text=New collection >> nth=0")
    page.fill("#name", NAME)
    page.fill("#seeds", evening.lab.seed_url)
    page.check("#scope-rules")
    rules = (("keep", "suffix", ".test"), ("skip", "domain", evening.skipped), ("skip", "regex", r"[05]\.\w+$"))
    for at, (do, kind, value) in enumerate(rules):
        page.locator("[name=rule_do]").nth(at).select_option(do)
        page.locator("[name=rule_kind]").nth(at).select_option(kind)
        page.locator("[name=rule_value]").nth(at).fill(value)
    page.check("#queries")
    page.check("#delay-other")
    page.fill("#delay_s", "0.25")
    page.fill("#consent", "the lab is ours")
    page.click("summary:has-text('More settings')")
    page.fill("#more", MORE.format(dns=evening.lab.dns))
    urls = fifty(evening)
    page.fill("#tries", "\n".join(urls))
    page.click("button:text-is('Test')")
    verdicts = page.locator("#tried > li").all_inner_texts()
    assert len(verdicts) == 50
    for url, verdict in zip(urls, verdicts, strict=True):
        rule = re.search(r"(?:included|excluded) by rule (\d)", verdict)
        assert rule is not None, verdict
        evening.said[url] = (verdict.startswith("Yes"), rule[1])
    assert set(evening.said.values()) == {(True, "1"), (False, "2"), (False, "3")}
    assert evening.lab.requests() == 0
    assert page.input_value("#name") == NAME, "nothing typed is lost"
    page.click("button:text-is('Create and start')")
    page.wait_for_url(f"**/c/{NAME}")


def test_it_is_paused_and_resumed_and_a_rule_takes_out_of_the_queue_what_was_announced(evening: Evening) -> None:
    """6: pause, resume. 11: the number announced is by how many `urls_queued` falls."""
    page = evening.page
    evening.reload_until(lambda: page.get_by_role("button", name="Pause").is_visible() and evening.lab.requests() > 12)
    page.get_by_role("button", name="Pause").click()
    evening.reload_until(lambda: page.get_by_role("button", name="Resume").is_visible())
    time.sleep(1.0)  # what was under way ends; then nothing is requested any more
    at_rest = evening.lab.requests()
    page.click("nav.sub >> text=Settings")
    blank = page.locator("[name=rule_value]").count() - 3
    page.locator("[name=rule_do]").nth(blank).select_option("skip")
    page.locator("[name=rule_kind]").nth(blank).select_option("domain")
    page.locator("[name=rule_value]").nth(blank).fill(evening.dropped)
    page.click("text=Preview changes")
    sentence = page.locator("section", has_text="Effect of these changes").locator("p").first.inner_text()
    found = re.match(r"([\d,]+) of [\d,]+ known URLs leave the queue, 0 enter", sentence)
    assert found is not None, sentence
    announced, before = int(found[1].replace(",", "")), evening.queued()
    assert announced > 0, "the web has pages there that wait"
    page.click("button:text-is('Save')")
    page.wait_for_url(f"**/c/{NAME}")
    evening.reload_until(lambda: before - evening.queued() == announced, 15)
    assert evening.lab.requests() == at_rest, "nothing was asked while it was paused"
    page.get_by_role("button", name="Resume").click()
    evening.reload_until(lambda: evening.lab.requests() > at_rest)


def test_the_tester_predicts_for_fifty_urls_what_the_crawler_does(evening: Evening) -> None:
    """10: verdict and rule."""
    evening.reload_until(lambda: "finished" in evening.page.inner_text("main .facts"), 120)
    asked = {f"http://{entry.host}{entry.path}" for entry in evening.lab.settled_entries()}
    for url, (is_crawled, rule) in evening.said.items():
        try:
            view = evening.served.ask(f"/c/{NAME}/page?url={quote(url, safe='')}")
        except HTTPError:  # it is not known at all
            view = {}
        assert is_crawled == (view.get("state") == "done"), (url, view.get("state"), view.get("why_waiting"))
        if not is_crawled:
            why = evening.served.ask(f"/c/{NAME}/unknown?url={quote(url, safe='')}")["why"]
            assert why.startswith("it is out of scope: ")
            assert ("domain:" if rule == "2" else "regex:") in why
            assert re.sub(r":\d+/", "/", url) not in asked


def test_reports_and_everything_else_is_read_without_scripts(evening: Evening) -> None:
    """6: search, page, copy, reports; two versions are compared in tests/web/pages/finding/test_capture_browser.py."""
    page = evening.page
    page.click("nav.sub >> text=Reports")
    page.click("text=Types")
    assert page.locator("main table tbody tr").count() >= 1
    page.click("nav.sub >> text=Hosts")
    evening.reload_until(lambda: page.locator("main tbody tr").count() >= 3)
    page.goto("/")
    page.locator(".examples a").first.click()
    page.click("text=Links & versions >> nth=0")
    page.wait_for_selector("#links-here")
    page.click(".headline >> text=Capture")
    page.wait_for_selector("iframe.copy")
