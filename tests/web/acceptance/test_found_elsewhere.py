"""What people found wrong in other places than the demo, each in a browser (docs/interface.md)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from teia.clock import WallClock
from teia.collections.account import FINE_S
from teia.collections.control_file import CrawlReports
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.frontier.cell.cell import FrontierCell
from teia.indexer.process import CollectionFollower
from teia.lab.world.exchange import WorldAnswer
from teia.store.root import open_root
from teia.web.access.roles import Role
from tests.crawler.webs import HTML, ScriptedWeb, crawl_web
from tests.frontier.cells import add_links, found
from tests.system.labs import running_lab
from tests.system.test_serve import serving
from tests.web.clusters import FixedSource, three_nodes
from tests.web.conftest import PASSWORD
from tests.web.pages.collection.test_monitor import LIVE
from tests.web.test_browser import Live, watched
from tests.web.test_live_browser import serving as serving_folder

from .demo import counted
from .test_operating import MORE, SPEC

pytestmark = pytest.mark.timeout(300)
WIDE: ViewportSize = {"width": 1280, "height": 800}
AT_ONCE_MS = 30_000


@pytest.fixture(scope="module")
def live(crawled_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    data = tmp_path_factory.mktemp("live") / "data"
    shutil.copytree(crawled_data, data)
    with serving_folder(data) as served:
        yield Live(served.web, served.base)


@pytest.fixture
def page(live: Live, browser: Browser) -> Iterator[Page]:
    """An admin."""
    context = live.context(browser, locale="en", viewport=WIDE)
    yield context.new_page()
    context.close()


# ---- forms ----------------------------------------------------------------------------------------------------------


def test_errors_of_forms_stay_on_the_form_with_what_was_typed(live: Live, browser: Browser, page: Page) -> None:
    """4: signing in, a subscription, a removal."""
    stranger = browser.new_context(base_url=live.base, locale="en", viewport=WIDE).new_page()
    stranger.goto("/login?to=/c/main/hosts")
    stranger.fill("#name", live.web.installation.accounts.users()[0].name)
    stranger.fill("#password", "not the password")
    stranger.click("button:text-is('Sign in')")
    expect(stranger.locator("#password-fault")).to_have_text("wrong user name or password")
    expect(stranger.locator("#password")).to_be_focused()
    assert stranger.input_value("#name"), "what was typed is still there"
    stranger.fill("#password", PASSWORD)
    stranger.click("button:text-is('Sign in')")
    stranger.wait_for_url("**/c/main/hosts")
    stranger.context.close()

    page.goto("/c/main/watches")
    page.fill("#w-url", "nowhere")
    page.fill("#w-webhook", "https://hooks.example/teia")
    page.click("button:text-is('Subscribe')")
    expect(page.locator("#w-url-fault")).to_be_visible()
    assert (page.input_value("#w-url"), page.input_value("#w-webhook")) == ("nowhere", "https://hooks.example/teia")
    page.fill("#w-url", live.web.some_url())
    page.fill("#w-webhook", "")
    page.click("button:text-is('Subscribe')")
    expect(page.locator("main .note")).to_contain_text("Subscribed.")

    page.goto("/c/main/edit")
    page.fill("#remove-name", "mian")
    page.click("button:text-is('Remove collection')")
    expect(page.locator("#remove-name-fault")).to_be_visible()
    assert page.input_value("#remove-name") == "mian"
    assert live.web.installation.names() == ["main"]


def test_a_wrong_host_name_is_named_at_once_and_corrected_in_one_step(browser: Browser, tmp_path: Path) -> None:
    """5, 6 and 22: with the crawler of `teia serve`; nothing is loaded again, and the alert outlives the crawl."""
    with running_lab(tmp_path / "lab", SPEC, 117) as lab, serving(tmp_path / "data") as served:
        assert served.process.stderr is not None
        code = served.process.stderr.readline().strip().partition("#")[2]
        page = browser.new_context(base_url=served.base, locale="en", viewport=WIDE).new_page()
        page.goto(f"/login#{code}")
        page.fill("#new-name", "ana")
        page.fill("#new-password", PASSWORD)
        page.click("text=Create account")
        page.wait_for_url("**/c")
        page.goto("/c/new")
        page.fill("#name", "news")
        page.fill("#seeds", "http://exmaple.test/")
        page.check("#delay-other")
        page.fill("#delay_s", "0.05")
        page.fill("#consent", "the lab is ours")
        page.click("summary:has-text('More settings')")
        page.fill("#more", MORE.format(dns=lab.dns))
        page.click("button:text-is('Create and start')")
        page.wait_for_url("**/c/news")
        page.evaluate("window.isTheSame = true")
        alerts, state = page.locator("[data-region=needs]"), page.locator("[data-region=head] .state")
        expect(alerts).to_contain_text("No such host: exmaple.test", timeout=AT_ONCE_MS)
        expect(page.locator("button[value=start]")).to_be_visible(timeout=AT_ONCE_MS)
        assert state.inner_text() != "running"
        expect(alerts).to_contain_text("No such host: exmaple.test")
        assert page.evaluate("window.isTheSame")
        assert page.locator("[data-region=needs] li .act").count() >= 2, "what can be done about it"
        tile = page.locator("[data-live=urls_queued]").inner_text()
        page.goto("/c/news/frontier")
        assert page.locator("h1 [data-live=urls_queued]").inner_text() == tile, "the same number of queued URLs"
        page.goto("/c/news")

        page.click("text=Correct the seed")
        page.fill("#seeds", lab.seed_url)
        page.click("text=Preview changes")
        page.click("section.note button:text-is('Save')")
        page.wait_for_url("**/c/news")
        expect(page.locator("main .note.done")).to_have_text("Saved; the crawl starts with it now.")
        expect(page.locator("[data-live=captures]")).not_to_have_text("0", timeout=AT_ONCE_MS)
        expect(alerts).not_to_contain_text("No such host", timeout=AT_ONCE_MS)
        page.context.close()


def test_an_archive_is_chosen_in_the_form_which_says_what_that_fetches(live: Live, page: Page) -> None:
    """10; the captures of one look like their pages: tests/web/pages/finding/test_archive_browser.py."""
    page.goto("/c/new")
    purpose = page.locator("[role=radiogroup]", has_text="Purpose")
    expect(purpose).to_contain_text("Search: pages and documents, without the files that only display them")
    page.get_by_label("Archive: also the images and styles of pages").check()
    page.fill("#name", "estante")
    page.fill("#seeds", "https://estante.test/")
    page.click("button:text-is('Create')")
    page.wait_for_url("**/c/estante")
    assert saved(live.web.installation.root, "estante").config.collection.kind == "archive"
    shutil.rmtree(live.web.installation.root.path / "estante")


def test_the_form_of_a_collection_can_be_used_without_scrolling_for_its_button(page: Page) -> None:
    """18: the button, pickers, a tester beside wrong fields, errors of now, numbers of rules in order."""
    said = watched(page)
    page.goto("/c/new")
    assert page.input_value("#contact") == "", "nobody is made to lie about a contact"
    for place in ("0", "document.body.scrollHeight / 2"):
        page.evaluate(f"window.scrollTo(0, {place})")
        box = page.locator(".savebar button").first.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= 800 - box["height"]
    assert page.get_attribute("#start", "type") == "datetime-local"
    assert page.get_attribute("#until", "type") == "date"
    assert page.locator("#zones option").count() > 300

    page.fill("#name", "Two words")
    page.fill("#max_depth", "deep")
    page.check("#scope-rules")
    page.locator("[name=rule_value]").nth(0).fill("example.org")
    page.locator("[name=rule_do]").nth(0).select_option("skip")
    page.locator("[name=rule_value]").nth(1).fill("example.net")
    page.fill("#tries", "https://example.org/")
    expect(page.locator("#tried li")).to_contain_text("seed", timeout=AT_ONCE_MS)
    page.fill("#seeds", "https://example.org/")
    page.fill("#fetch_s", "soon")
    expect(page.locator("#tried li")).to_contain_text("No", timeout=AT_ONCE_MS)
    page.click("button:text-is('Create')")
    expect(page.locator("#wrong")).to_have_text("Please fix 3 errors")
    numbers = [text for text in page.locator("#rules tr td:first-child").all_inner_texts() if text.strip()]
    assert numbers == sorted(numbers, key=int)
    assert len(numbers) == 2
    page.fill("#name", "two-words")
    expect(page.locator("#wrong")).to_have_text("Please fix 2 errors", timeout=AT_ONCE_MS)
    expect(page.locator("#name-fault")).to_have_text("")
    expect(page.locator("#max_depth-fault")).to_have_text("must be a whole number")
    page.fill("#max_depth", "9")
    page.fill("#fetch_s", "60")
    expect(page.locator("#wrong")).to_be_hidden(timeout=AT_ONCE_MS)
    remove = page.goto("/c/main/edit")
    assert remove is not None
    assert page.locator("form#draft button.danger").count() == 0, "a removal is a form of its own"
    assert [each for each in said if "400" not in each] == []


def test_every_action_on_a_host_says_what_happened(live: Live, browser: Browser) -> None:
    """6: in the reader's language. They were done without a word."""
    context = live.context(browser, locale="pt-BR", viewport=WIDE)
    page = context.new_page()
    page.goto("/c/main/hosts/x.test")
    for deed, says in (
        ("pause", "as requisições a x.test estão pausadas"),
        ("resume", "as requisições a x.test foram retomadas"),
        ("block", "x.test foi excluído"),
        ("unblock", "x.test foi incluído de novo"),
        ("robots", "o robots.txt será buscado de novo na próxima coleta da coleção"),
    ):
        page.click(f"button[value={deed}]")
        expect(page.locator("main .note.done")).to_contain_text(says)
    page.click("#own summary")
    page.fill("#own [name=delay_s]", "20")
    page.click("text=Definir intervalo")
    expect(page.locator("main .note.done")).to_contain_text("o intervalo de x.test é de 20 s", ignore_case=True)
    page.fill("#own [name=requests]", "1000")
    page.click("text=Definir orçamento")
    expect(page.locator("main .note.done")).to_contain_text("é de 1.000 requisições")
    context.close()


# ---- people ---------------------------------------------------------------------------------------------------------


def test_accounts_have_a_place_in_the_menu_whole_invitations_and_removals_that_ask(
    live: Live, browser: Browser, page: Page
) -> None:
    """13; passwords that were forgotten: tests/cli/test_users.py."""
    page.goto("/c")
    page.click("nav >> text=Accounts")
    page.select_option("#minutes", "60")
    page.click("button:text-is('Create invitation')")
    invitation = page.inner_text("main .note code")
    assert invitation.startswith(f"{live.base}/login#")
    expect(page.locator("main .note")).to_contain_text("for 1 h")
    guest = browser.new_context(locale="en", viewport=WIDE).new_page()
    guest.goto(invitation)
    guest.fill("#new-name", "guest")
    guest.fill("#new-password", PASSWORD)
    guest.click("text=Create account")
    guest.wait_for_url("**/c")
    guest.context.close()
    page.goto("/settings/users")
    row = page.locator("tr", has=page.get_by_role("rowheader", name="guest", exact=True))
    assert not row.get_by_role("button", name="Remove guest").is_visible(), "one click removes nobody"
    row.locator("summary").click()
    row.get_by_role("button", name="Remove guest").click()
    expect(page.locator("main .note.done")).to_contain_text("the user guest was removed")
    stranger = browser.new_context(base_url=live.base, locale="en").new_page()
    stranger.goto("/login")
    expect(stranger.locator("main")).to_contain_text("teia users password NAME")
    stranger.context.close()
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    assert "/login#" in readme, "it says how to sign in"


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_no_page_claims_a_freshness_that_another_calls_unknown(live: Live, page: Page) -> None:
    """1: of pages that were visited once."""
    counted(live.web.client(Role.VIEWER), "/c/main/freshness")
    page.goto("/c/main/freshness")
    expect(page.locator("[data-region=freshness]")).to_contain_text("Not enough visits to estimate: 0 of 200 pages")
    page.goto("/c/main/reports/freshness")
    assert "%" not in page.inner_text("main h1 ~ p, main dl"), "a report of nothing"
    assert "likely fresh" not in page.inner_text("main")
    page.goto("/c/main")
    assert "%" not in page.locator("[data-region=tiles] div", has_text="fresh").inner_text()
    page.goto("/c")
    expect(page.locator("[data-label='fresh / bound']").first).to_have_text("–")


# ---- live pages -----------------------------------------------------------------------------------------------------


def test_charts_follow_a_crawl_and_have_ticks_and_a_time_range(
    crawled_data: Path, browser: Browser, tmp_path: Path
) -> None:
    """17 and 21: without a reload; and no word about the end while the queue grows."""
    shutil.copytree(crawled_data, tmp_path / "data")
    with Lookup(open_root(tmp_path / "data"), "main") as lookup:
        number = lookup.cell_of_host("x.test")
    cells = open_root(tmp_path / "data").collection("main").cells()
    with closing(FrontierCell(cells[number].frontier)) as cell:  # so that there is a host which decides
        add_links(cell, *(found(f"http://x.test/{each}") for each in range(30)))
    with serving_folder(tmp_path / "data") as served, CrawlReports(tmp_path / "data" / "control.sqlite") as reports:
        clock = served.web.installation.clock
        account = served.web.client(Role.VIEWER).get("/api/v1/c/main/status").json()

        def report(number: int) -> None:
            said = {**account, "state": "running", "urls_queued": 100 + number, "pages": number, "live": LIVE}
            reports.write_account("main", said, clock.now_s())

        def point(ago_s: float, number: int) -> None:
            sums = (20 * number, 10 * number, 300 + 40 * number, 100 + 30 * number, None, None, None)
            reports.note_point("main", FINE_S, clock.now_s() - ago_s, sums)

        reports.begin("main", clock.now_s())
        for number in range(24):
            point(FINE_S * (25 - number), number)
        report(24)
        context = Live(served.web, served.base).context(browser, locale="en", viewport=WIDE)
        context.clock.install()
        page = context.new_page()
        page.goto("/c/main")
        finish = page.locator("[data-region=tiles] div", has_text="Time remaining")
        expect(finish).to_contain_text("No estimate yet: queue still growing")
        page.evaluate("window.isTheSame = true")
        chart = page.locator("#rate svg.wide")
        axes = chart.locator("text:not(.name)").all_text_contents()
        assert len(axes) >= 5, axes
        assert len(axes) == len(set(axes)), "every tick is another value"
        before = chart.locator("polyline").first.get_attribute("points")
        point(0, 60)
        for number in range(25, 40):
            report(number)
            context.clock.fast_forward(11_000)
            if chart.locator("polyline").first.get_attribute("points") != before:
                break
            page.wait_for_timeout(300)  # the page gets its regions anew
        assert chart.locator("polyline").first.get_attribute("points") != before
        assert page.evaluate("window.isTheSame")
        page.click("nav >> text=7 days")
        expect(page.locator("nav [aria-current=true]")).to_have_text("7 days")
        context.close()


def test_pausing_is_a_small_control_where_something_moves(live: Live, page: Page) -> None:
    """19: after those of the page, and not where nothing runs."""
    for address in ("/c/main", "/c/main/frontier", "/c/main/freshness", "/c/main/hosts/x.test", "/c"):
        with page.expect_response("**/events?**"):
            page.goto(address)
        expect(page.locator("[data-pause]")).to_be_hidden()
    first = page.evaluate("document.querySelector('main').querySelector('a, button').outerHTML")
    assert "data-pause" not in first
    clock = live.web.installation.clock
    account = live.web.client(Role.VIEWER).get("/api/v1/c/main/status").json()
    with CrawlReports(live.web.installation.root.control) as reports:
        reports.begin("main", clock.now_s())
        reports.write_account("main", {**account, "state": "running", "pages": 0, "live": LIVE}, clock.now_s())
        page.goto("/c/main")
        button = page.locator("[data-pause]")
        for pages in range(1, 40):
            reports.write_account("main", {**account, "state": "running", "pages": pages, "live": LIVE}, clock.now_s())
            if button.is_visible():
                break
            page.wait_for_timeout(500)  # an event a second
        box = button.bounding_box()
        assert box is not None
        assert box["width"] <= 160
        assert box["height"] <= 32
        assert box["x"] > 640, "at the side"
        button.click()
        expect(button).to_contain_text("Resume updates")
        reports.end("main")


def test_the_monitor_of_a_node_is_of_the_whole_cluster_and_a_dead_node_looks_dead(live: Live, page: Page) -> None:
    """20; the look-up and the ring: tests/web/pages/machine/test_cluster_browser.py."""
    alone, view = live.web.installation.cluster, three_nodes()
    nodes = [replace(each, state="dead") if each.name == "node-b" else each for each in view.nodes]
    live.web.installation.cluster = FixedSource(replace(view, nodes=nodes))
    try:
        page.goto("/c/main")
        whole = page.locator("[data-region=whole]")
        expect(whole.locator("h2")).to_have_text("Whole cluster: 3 nodes")
        expect(whole).to_contain_text("1 dead")
        queued = sum(cell.queued or 0 for cell in view.cells)
        expect(page.locator("[data-live='cluster.urls_queued']")).to_have_text(f"{queued:,}")
        expect(page.locator("h2", has_text="This node:")).to_contain_text("node-a")
        page.goto("/cluster")
        dead, well = (page.locator(f"tr[data-node={name}] .state") for name in ("node-b", "node-a"))
        colours = [each.evaluate("each => getComputedStyle(each).color") for each in (dead, well)]
        assert colours[0] != colours[1]
        assert colours[0] == page.evaluate(
            "(() => { const one = document.createElement('p'); one.className = 'bad'; document.body.append(one);"
            " const colour = getComputedStyle(one).color; one.remove(); return colour; })()"
        )
    finally:
        live.web.installation.cluster = alone


def test_the_form_of_results_has_two_rows_also_where_a_collection_is_chosen(live: Live, browser: Browser) -> None:
    """14: the button beside the field, all filters below, in Portuguese."""
    folder = live.web.installation.root.path
    shutil.copytree(folder / "main", folder / "outra")
    context = live.context(browser, locale="pt-BR", viewport=WIDE)
    page = context.new_page()
    page.goto("/search?q=renda")
    places = {
        each: page.locator(f".search {each}").bounding_box() for each in ("#q", "button", "#c", "#s-dated", "#as-of")
    }
    middles = {each: round(box["y"] + box["height"] / 2) for each, box in places.items() if box is not None}
    assert len(middles) == 5
    assert abs(middles["#q"] - middles["button"]) <= 4
    assert middles["#c"] == middles["#s-dated"] == middles["#as-of"] > middles["#q"]
    notes = page.locator("main .note").all_inner_texts()
    assert len(notes) == len(set(notes)), "nothing is said twice"
    context.close()
    shutil.rmtree(folder / "outra")
    live.web.installation.forget("outra")


# ---- search ---------------------------------------------------------------------------------------------------------

NAVIGATION = (
    '<div class="related"><h3>Navigation</h3><ul><li><a href="/genindex">index</a><li><a href="/">modules</a> |</li>'
    '<li><a href="/pt">next</a> |</li></ul></div>'
)
TOPICS = {
    "backup": "A backup of the archive is made while no crawl is running. Keep it on another disk, and restore it.",
    "harbour": "The harbour master writes a report about every ship that comes into the Harbour on this day of May.",
    "lantern": "A lantern shows the way to the harbour at night, and the keeper of it must write down who has come by.",
    "bridge": "The bridge over the river was closed for repairs, and nobody knows when it is going to be opened again.",
}
TEMAS = {
    "copia": "Um backup do arquivo se faz enquanto não há coleta. Guarde-o em outro disco e tente restaurá-lo depois.",
    "porto": "O capitão do Porto publica um edital sobre cada navio que chega neste dia, e os navios chegam de manhã.",
    "lanterna": "A lanterna mostra o caminho do porto durante a noite, e quem cuida dela deve anotar quem passou.",
    "ponte": "A ponte sobre o rio foi fechada para obras, e ninguém sabe quando ela será aberta de novo ao público.",
}


def manual_page(title: str, text: str, lang: str, *links: str) -> WorldAnswer:
    anchors = "".join(f'<a href="{link}">{link[1:]}</a> ' for link in links)
    body = f'{NAVIGATION}<h1>{title}<a class="headerlink" href="#x">¶</a></h1><p>{text}</p><p>{anchors}</p>{NAVIGATION}'
    head = f"<html lang={lang}><head><title>{title} — Manual</title></head><body>"
    return WorldAnswer(200, HTML, f"{head}{body}</body></html>".encode())


@pytest.fixture(scope="module", autouse=True)
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manual in two languages with the navigation that such have, crawled and indexed.

    Before all tests, because no browser can be open beside the crawl's event loop.
    """
    topics = {f"/{name}": manual_page(name.title(), text, "en") for name, text in TOPICS.items()}
    topics |= {f"/{name}": manual_page(name.title(), text, "pt") for name, text in TEMAS.items()}
    words = [word for text in TOPICS.values() for word in text.split()]
    index = "".join(f'<li><a href="/{name}">{name}</a>, {word}</li>' for word in words for name in TOPICS)
    pages = {
        "/": manual_page("Manual", "The parts of this manual are listed below.", "en", *topics, "/genindex"),
        "/genindex": manual_page("Index", f"<ul>{index}</ul>", "en"),
    }
    data = crawl_web(
        ScriptedWeb({"manual.test": pages | topics}), tmp_path_factory.mktemp("manual"), "manual.test/"
    ).data

    async def follow() -> None:
        following = CollectionFollower(open_root(data), "main", WallClock())
        try:
            await following.finish()
        finally:
            await following.close()

    asyncio.run(follow())
    return data


@pytest.fixture(scope="module")
def library(manual: Path) -> Iterator[str]:
    with serving_folder(manual) as served:
        yield served.base


def titles(page: Page) -> list[str]:
    return page.locator(".hits h2").all_inner_texts()


def test_snippets_are_content_and_a_misspelt_query_is_searched_as_it_was_meant(library: str, browser: Browser) -> None:
    """15; how well pages are ranked is measured: `python -m bench.relevance`."""
    page = browser.new_context(base_url=library, locale="en", viewport=WIDE).new_page()
    page.goto("/search?q=harbour+master")
    assert titles(page)[0].startswith("Harbour")
    assert not titles(page)[0].startswith("Index")
    for snippet in page.locator(".snippet").all_inner_texts():
        assert not re.search("¶|Navigation|modules|\\| next", snippet), snippet
    page.goto("/search?q=harbuor")
    expect(page.locator(".corrected")).to_contain_text("Showing results for harbour")
    assert titles(page)
    page.click(".corrected a")
    expect(page.locator(".hits .none")).to_contain_text("On no page: harbuor")
    page.context.close()


def test_the_language_of_a_query_or_of_its_reader_decides_what_comes_first(library: str, browser: Browser) -> None:
    """16: in the browser and for programs."""
    for locale, query, first in (
        ("en", "backup", "Backup"),
        ("pt-BR", "backup", "Copia"),
        ("pt-BR", "how to make a backup", "Backup"),
        ("en", "como fazer um backup", "Copia"),
    ):
        context = browser.new_context(base_url=library, locale=locale, viewport=WIDE)
        page = context.new_page()
        page.goto(f"/search?q={query}")
        assert titles(page)[0].startswith(first), (locale, query)
        names = page.locator("aside h3 + ul").nth(1).locator("a").all_inner_texts()
        assert set(names) == ({"English", "Portuguese"} if locale == "en" else {"Inglês", "Português"})
        context.close()
    context = browser.new_context(base_url=library)
    hits = context.request.get("/api/v1/search?q=how+to+make+a+backup", headers={"accept-language": ""}).json()["hits"]
    assert hits[0]["lang"] == "en"
    context.close()


@pytest.mark.parametrize(("locale", "word"), [("en", "manual"), ("pt-BR", "copia")])
def test_every_example_of_the_help_finds_a_page_in_its_language(
    library: str, browser: Browser, locale: str, word: str
) -> None:
    """25; what a log on the disk may take: tests/crawler/test_open_cell.py."""
    context = browser.new_context(base_url=library, locale=locale, viewport=WIDE)
    page = context.new_page()
    page.goto("/help/query")
    examples = page.eval_on_selector_all("main a[href^='/search?'] code", "all => all.map(each => each.textContent)")
    assert len(examples) >= 20
    assert word in " ".join(examples).lower()
    nothing = []
    for example in examples:
        page.goto(f"/search?{urlencode({'q': example})}")
        if not page.locator(".hits > li article").count():
            nothing.append(example)
    assert nothing == []
    context.close()
