"""Every page of the route table, on a fresh `teia demo` (UX.md section 6, checks 5, 7, 21, 23 and 24).

A page is loaded once a language and looked at at every width: in English and light, in Portuguese and dark. No colour
depends on the language (`test_no_style_depends_on_the_language`), so that is light and dark of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Page

from teia import __version__
from teia.config.sections import ORDERS, POLICIES
from teia.records import Outcome
from teia.views.reports.catalogue import REPORTS
from teia.web.access.roles import Role
from teia.web.app import list_routes
from teia.web.language.numbers import ENGLISH
from teia.web.server.templates import HERE
from tests.web.labs import keep_plan
from tests.web.messages import current
from tests.web.server.test_auth import address_of
from tests.web.test_browser import NOT_PAGES, Live, watched

from .demo import NAME, counted

pytestmark = pytest.mark.timeout(400)
WIDTHS = (1440, 720, 360, 320)
VIOLATIONS = {"resultTypes": ["violations"], "preload": False, "iframes": False}
FULL = {"rules": {"target-size": {"enabled": True}}, **VIOLATIONS}
ROWS = 12
"""Of lists: one row is like another."""

CODES = frozenset({*REPORTS, *(outcome.value for outcome in Outcome), *ORDERS, *POLICIES})
"""Names that are shown as they are in every language, though some are English words."""

FILES = (".csv", "/csv", ".svg", "/svg", ".rss", ".xml", "/json", ".jsonl")
TOOK = re.compile(r'"took_ms":[\d.]+|"(counted|weighed)":"[^"]*"')
"""When it was looked, and how long that took; on a busy machine it may be looked again between two requests."""
MARKUP = """() => [...document.querySelectorAll("*")].flatMap((each) => [
  ...each.getAttributeNames().filter((name) => name === "style" || name.startsWith("on")),
  ...(each.matches("script:not([src])") ? ["inline script"] : []),
  ...(each.matches("style") ? ["style element"] : []),
])"""
SMALLEST = """() => Math.min(100, ...[...document.querySelectorAll("svg[viewBox] text")]
  .filter((text) => text.checkVisibility() && text.textContent.trim())
  .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
TEXTS = """() => {
  const foreign = "bdi, code, kbd, pre, script, template, textarea, iframe, [lang]:not(html), [translate=no]";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [document.title.split(" · ").at(-1)];
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest(foreign)) found.push(walker.currentNode.textContent);
  }
  for (const each of document.querySelectorAll("[aria-label], [title], [alt], [placeholder]")) {
    if (each.closest(foreign)) continue;
    found.push(...["aria-label", "title", "alt", "placeholder"].map((name) => each.getAttribute(name) ?? ""));
  }
  return found;
}"""


@dataclass
class Looked:
    """What was found on one page, in one language."""

    said: list[str]
    markup: list[str]
    axe: list[str] = field(default_factory=list)
    wide: dict[int, int] = field(default_factory=dict)
    smallest: float = 100.0
    texts: list[str] = field(default_factory=list)


def parts(demo: Live) -> tuple[dict[str, str], str]:
    """What the parts of addresses are in the demo, and a page of it."""
    hits = demo.web.client().get("/api/v1/search?q=casa&n=1").json()["hits"]
    return {"collection": NAME, "host": hits[0]["host"]}, str(hits[0]["url"])


def addresses(demo: Live) -> list[str]:
    """Every page there is, with something to show; the route table says which."""
    here, url = parts(demo)
    client = demo.web.client(Role.ADMIN)
    routes = [
        route for route in list_routes(demo.web.app) if route.method == "GET" and not route.path.startswith(NOT_PAGES)
    ]
    found = []
    for route in routes:
        if route.path.endswith(FILES):
            continue
        address = f"{address_of(route, demo.web, **here)}?url={quote(url, safe='')}&n={ROWS}"
        address += f"&q={'SELECT+count(*)+FROM+pages' if route.path.endswith('/sql') else 'casa'}" * (route.path != "/")
        answer = counted(client, address)
        assert answer.status_code < 500, address
        if answer.status_code == 200 and answer.headers["content-type"].startswith("text/html"):
            found.append(address)
    found += [f"/c/{NAME}/reports/{name}" for name in ("types", "links", "coverage")]
    found += [f"/c/{NAME}/copy?url={quote(url, safe='')}&tab={tab}" for tab in ("text", "record")]
    found += [f"/search?q={query}" for query in ("%22casa", "qwertyzxcv")]
    found.append(f"/lab/runs/{keep_plan(demo.web.installation.lab.stored).number}")
    assert len(found) >= 30
    return found


def look(page: Page, address: str, said: list[str]) -> Looked:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(address)
    found = Looked([], page.evaluate(MARKUP))
    violations = page.evaluate("async (options) => (await axe.run(document, options)).violations", FULL)
    found.axe = [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in violations]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        overhang = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if overhang > 0:
            found.wide[width] = overhang
        found.smallest = min(found.smallest, page.evaluate(SMALLEST))
    found.texts = page.evaluate(TEXTS)
    found.said = said.copy()
    said.clear()
    return found


@pytest.fixture(scope="module")
def everything(demo: Live) -> list[str]:
    return addresses(demo)


def looked_at(demo: Live, browser: Browser, language: str, scheme: str, shown: Sequence[str]) -> dict[str, Looked]:
    context = demo.context(browser, locale=language, color_scheme=scheme, viewport={"width": 1280, "height": 800})
    context.add_init_script(AXE_FILE_PATH.read_text("utf-8"))
    page = context.new_page()
    said = watched(page)
    found = {address: look(page, address, said) for address in shown}
    context.close()
    return found


@pytest.fixture(scope="module")
def english(demo: Live, browser: Browser, everything: list[str]) -> dict[str, Looked]:
    return looked_at(demo, browser, "en", "light", everything)


@pytest.fixture(scope="module")
def portuguese(demo: Live, browser: Browser, everything: list[str]) -> dict[str, Looked]:
    return looked_at(demo, browser, "pt-BR", "dark", everything)


@pytest.fixture(scope="module", params=["en", "pt-BR"])
def pages(request: pytest.FixtureRequest) -> dict[str, Looked]:
    found: dict[str, Looked] = request.getfixturevalue("english" if request.param == "en" else "portuguese")
    return found


def test_no_page_breaks_its_policy_or_complains(pages: dict[str, Looked]) -> None:
    """5: 0 violations of the policy, 0 errors on the console, no style=, on…= or inline script."""
    assert {address: each.said for address, each in pages.items() if each.said} == {}
    assert {address: each.markup for address, each in pages.items() if each.markup} == {}


def test_no_style_depends_on_the_language() -> None:
    """21: what is looked at in one language and dark, and in the other and light, holds for all four."""
    for sheet in (HERE / "static").glob("*.css"):
        assert not re.search(r":lang\(|\[lang|:dir\(", sheet.read_text("utf-8")), sheet.name
    for template in (HERE / "templates").glob("*.html"):
        named = re.findall(r'class="[^"]*{{[^}]*(?:locale|language)[^}]*}}', template.read_text("utf-8"))
        assert named == [], template.name


def test_axe_finds_nothing_in_light_and_in_dark(pages: dict[str, Looked]) -> None:
    """21: with the contrast of texts (4.5) and the size of targets (24 px)."""
    assert {address: each.axe for address, each in pages.items() if each.axe} == {}


def test_no_page_scrolls_sideways_and_charts_can_be_read(pages: dict[str, Looked]) -> None:
    """23: from 320 to 1440 px, which is also 400% of 1280."""
    assert {address: each.wide for address, each in pages.items() if each.wide} == {}
    assert {address: each.smallest for address, each in pages.items() if each.smallest < 10.99} == {}
    assert min(each.smallest for each in pages.values()) < 100, "there are charts"


# ---- Portuguese -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing(demo: Live, browser: Browser) -> dict[str, list[str]]:
    """The texts of pages that say that something is wrong, in Portuguese, by their status and address."""
    here, _ = parts(demo)
    installation, client = demo.web.installation, demo.web.client(Role.VIEWER)
    cookies: Any = [{"name": "teia_session", "value": client.cookies["teia_session"], "url": demo.base}]
    context = browser.new_context(base_url=demo.base, locale="pt-BR")
    context.add_cookies(cookies)
    page, found = context.new_page(), {}
    addresses = ["/nada", "/c/nada", f"/c/{NAME}/hosts/nada.test", "/lab/runs/99", "/c/new", f"/c/{NAME}/reports/nada"]
    addresses += ["/search?n=nada", f"/c/{NAME}/page", f"/c/{NAME}/page?url=ftp:x", "/cluster/nodes/x"]
    addresses += [f"/c/{NAME}/sql?q=DELETE+FROM+pages", f"/c/{NAME}/hosts/{here['host']}?delay_s=-1"]
    addresses += [f"/c/{NAME}/unknown?url=http://x.test/{'a' * 17_000}", "/settings/users", "/cluster"]
    alone, installation.cluster = installation.cluster, Broken()  # type: ignore[assignment]
    for address in addresses:
        answer = page.goto(address)
        assert answer is not None
        found[f"{answer.status} {address[:60]}"] = page.evaluate(TEXTS)
    installation.cluster = alone
    context.close()
    assert {each[:3] for each in found} == {"200", "400", "403", "404", "414", "500"}
    return found


class Broken:
    """Something of ours that fails."""

    def view(self) -> None:
        raise RuntimeError("broken on purpose")


def _words(text: str) -> set[str]:
    """The words of a text; SQL, operators of queries, names like `delay_s` and `CODES` are none."""
    bare = re.sub(r"%\(\w+\)s|\{\w+\}|\b[A-Z]{2,}\b|\b\w+[_.:/]\w[\w.:/]*|`[^`]*`", " ", text)
    return set(re.findall(r"(?<![-\w])[a-zà-ú]{2,}(?![-\w])", bare.lower())) - CODES


@pytest.fixture(scope="module")
def only_english() -> set[str]:
    """Every word that our sentences have in English and never in Portuguese."""
    catalog = current("pt_BR")
    english, portuguese = set(), set()
    for each in catalog:
        for text in each.id if isinstance(each.id, tuple) else (each.id,):
            english |= _words(text)
        for text in each.string if isinstance(each.string, tuple) else (each.string,):
            portuguese |= _words(text)
    found = english - portuguese
    assert len(found) > 500
    return found


def test_no_page_has_english_on_it_in_portuguese(
    english: dict[str, Looked],
    portuguese: dict[str, Looked],
    failing: dict[str, list[str]],
    only_english: set[str],
) -> None:
    """24: no word that only our English has, on any page, those of errors included."""
    texts = {address: each.texts for address, each in portuguese.items()} | failing
    strange = {}
    for address, shown in texts.items():
        found = [(text.strip(), sorted(_words(text) & only_english)) for text in shown if _words(text) & only_english]
        if found:
            strange[address] = found[:8]
    assert strange == {}


def test_what_reads_alike_in_both_languages_are_words_that_both_have(
    english: dict[str, Looked], portuguese: dict[str, Looked]
) -> None:
    """24: a sentence that nobody marked for translation would read alike."""
    same = {str(each.id) for each in current("pt_BR") if each.id == each.string}
    found: dict[str, set[str]] = {}
    for address, each in portuguese.items():
        alike = {text.strip() for text in each.texts} & {text.strip() for text in english[address].texts}
        for text in alike - same:
            if re.search(r"[a-zà-ú]{3,}", text):
                found.setdefault(text, set()).add(address)
    strange = {text: sorted(where)[:3] for text, where in found.items() if not ALIKE.fullmatch(text)}
    assert strange == {}


NAMES = ["teia", f"teia {__version__}", NAME, "casa", '"casa', "qwertyzxcv", "Last-Modified", "robots.txt", "Poisson"]
NAMES += [*POLICIES, *Outcome, "link, sitemap", ".gov.br", "count_star()", "OpenAPI"]
ALIKE = re.compile(
    "|".join([*map(re.escape, NAMES), r"https://example\.org/\S*", r"[0-9a-f]{16,}", r"\w+-\d+", r"[a-z_]+ [\d.,]+"])
)
"""Names, what was asked for, digests; outcomes, also with how many there are."""


def test_numbers_and_dates_are_written_as_in_brazil(portuguese: dict[str, Looked]) -> None:
    """24: 1.284 and 21 nov. 2026."""
    texts = " ".join(text for each in portuguese.values() for text in each.texts)
    assert re.search(r"\b\d{1,3}\.\d{3}\b", texts), "1.284"
    assert re.search(r"\b\d{1,2} nov\. 20\d\d\b", texts), "21 nov. 2026"
    assert not re.search(r"\b[1-9]\d{0,2},\d{3}\b", texts), "1,284"


def test_a_printed_report_has_its_table(demo: Live, browser: Browser) -> None:
    """23."""
    context = demo.context(browser, viewport={"width": 720, "height": 1000})
    page = context.new_page()
    for name in ("outcomes", "types", "servers"):
        page.goto(f"/c/{NAME}/reports/{name}")
        page.emulate_media(media="print")
        box = page.locator("main table").first.bounding_box()
        assert box is not None
        assert box["height"] > 20
        assert page.locator("main table tbody tr").count() > 0
        assert not page.is_visible("header.top")
        page.emulate_media(media="screen")
    context.close()


# ---- twins ----------------------------------------------------------------------------------------------------------


def numbers_in(value: Any) -> Iterator[float]:
    """Every number of a record, also of fields as they are typed, and how long its lists are."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(\.\d{1,6})?", value):
        yield float(value)
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from numbers_in(each)
    elif isinstance(value, list):
        yield len(value)
        for each in value:
            yield from numbers_in(each)


NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?%?(?: (?:B|kB|MB|GB|s|min|h|d)\b)?")


def as_shown(value: float) -> set[str]:
    """All ways in which pages write a number."""
    ways = {ENGLISH.number(value, digits) for digits in range(4)}
    ways |= {f"{ENGLISH.number(100 * value, digits)}%" for digits in range(5)} if 0 <= value <= 1 else set()
    return ways | {ENGLISH.size(value), ENGLISH.span(value)} if value >= 0 else ways


@pytest.fixture(scope="module")
def schema(demo: Live) -> dict[str, Any]:
    found: dict[str, Any] = demo.web.client().get("/api/v1/openapi.json").json()
    return found


def twins(demo: Live) -> list[tuple[str, str]]:
    """Pages that have a twin: the path in the document, and an address."""
    here, url = parts(demo)
    paths = {route.path for route in list_routes(demo.web.app) if route.method == "GET"}
    found = []
    for route in list_routes(demo.web.app):
        if route.method == "GET" and f"/api/v1{route.path}" in paths and not route.path.endswith(FILES):
            asked = "SELECT+count(*)+FROM+pages" if route.path.endswith("/sql") else "casa" if route.path != "/" else ""
            address = f"{address_of(route, demo.web, **here)}?url={quote(url, safe='')}&q={asked}"
            if route.path == "/search":  # the order of results is for readers of a language, which others may ask for
                address += "&lang=pt"
            found.append((route.path, address))
    assert len(found) >= 15
    return found


def test_every_page_has_a_twin_that_is_as_documented_and_has_its_numbers(demo: Live, schema: dict[str, Any]) -> None:
    """7: each twin validates against OpenAPI; five numbers of the page are the twin's, or all where it has fewer."""
    client = demo.web.client(Role.ADMIN)
    told = {number for each in current("pt_BR") for number in NUMBER.findall(str(each.id))}  # in sentences, always so
    told |= {"60", "60 s"}  # the delay that one of the papers' crawlers kept, offered on the form
    told |= {"10 min", "1 h", "1 d", "7 d"}  # lives of an invitation, offered on the form
    few = {}
    demo.web.installation.clock.hold()  # type: ignore[attr-defined]  # a Later: what is likely now is so for both
    for path, address in twins(demo):
        page, twin = counted(client, address), client.get(f"/api/v1{address}")
        assert page.status_code == twin.status_code, address
        if twin.status_code != 200:
            continue
        answer = schema["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        record = twin.json()
        jsonschema_rs.validate({**answer, "components": schema["components"]}, record)
        body = page.text[page.text.index("<main") : page.text.index("</main")]
        typed = re.findall(r'<input(?! type="hidden")[^>]* value="([^"]*)"', body)
        body = re.sub(r"<time[^>]*>[^<]*</time>", " ", body)  # how long ago, by the clock
        body = re.sub(r'<pre class="paste".*?</pre>', " ", body, flags=re.DOTALL)  # commands
        shown = set(NUMBER.findall(unescape(" ".join([re.sub(r"<[^>]*>", " ", body), *typed])))) - told
        values = set(numbers_in(record))
        known = {way for value in values for way in as_shown(value)} | set(re.findall(r"\d+", twin.text))
        there = sorted(each for each in shown if each in known)
        if len(there) < min(5, len(shown)):
            few[address] = (sorted(shown - set(there)), there)
    demo.web.installation.clock.let_go()  # type: ignore[attr-defined]
    assert few == {}, few


def test_every_page_leads_to_its_twin(demo: Live, everything: list[str]) -> None:
    """7: by the link at its foot, for a page of the same address, also with a query."""
    client = demo.web.client(Role.ADMIN)
    without = set()
    for address in everything:
        link = re.search(r'<a href="([^"]+)" rel="alternate" type="application/json">', client.get(address).text)
        if link is None:
            without.add(address.partition("?")[0])
            continue
        twin = client.get(unescape(link[1]))
        assert (twin.status_code, twin.headers["content-type"]) == (200, "application/json"), address
    assert without == {"/login"}, "there is nothing to know there"


def test_five_numbers_of_a_page_are_in_the_json_that_its_foot_leads_to(demo: Live, browser: Browser) -> None:
    """7: as people do it, with a click."""
    _, url = parts(demo)
    demo.web.installation.clock.hold()  # type: ignore[attr-defined]  # a Later
    context = demo.context(browser, locale="en")
    page = context.new_page()
    told = {number for each in current("pt_BR") for number in NUMBER.findall(str(each.id))}
    for address in (
        "/search?q=casa&lang=pt",
        "/c",
        *(f"/c/{NAME}{path}" for path in ("", "/hosts", "/frontier", "/freshness")),
    ):
        counted(demo.web.client(Role.VIEWER), address)
        page.goto(address)
        shown = (
            set(NUMBER.findall(re.sub(r"\d+ (?:s|min|h) ago|\d\d:\d\d(:\d\d)?", "", page.inner_text("main")))) - told
        )
        page.click("footer >> text=This page as JSON")
        record = json.loads(page.inner_text("body"))
        known = {way for value in set(numbers_in(record)) for way in as_shown(value)}
        known |= set(re.findall(r"\d+", json.dumps(record)))
        assert len(shown & known) >= min(5, len(shown)), (address, sorted(shown), sorted(shown & known))
    page.goto(f"/c/{NAME}/page?url={quote(url, safe='')}")
    linked = page.inner_text("#links-here .muted")
    page.click("footer >> text=This page as JSON")
    assert len(json.loads(page.inner_text("body"))["links_in"]) == int(linked)
    context.close()
    demo.web.installation.clock.let_go()  # type: ignore[attr-defined]


def difference(one: str, other: str) -> str:
    """Return where two texts begin to differ."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"{one[max(0, at - 200) : at + 80]!r} {other[at : at + 80]!r}"


def test_twins_are_the_same_in_every_language(demo: Live) -> None:
    """24: JSON is never translated."""
    client = demo.web.client(Role.ADMIN)
    demo.web.installation.clock.hold()  # type: ignore[attr-defined]  # a Later
    for path, address in twins(demo):
        # An answer is kept for a minute, with the scores of its time: no test has sent this search before.
        address += "&n=9" if path == "/search" else ""
        before, portuguese, after = (
            TOOK.sub("", client.get(f"/api/v1{address}", headers={"accept-language": each}).text)
            for each in ("en", "pt-BR", "en")
        )
        # What is computed beside may come between two answers.
        assert portuguese in {before, after}, f"{path}: {difference(before, portuguese)}"
    demo.web.installation.clock.let_go()  # type: ignore[attr-defined]
