"""A lab's web kept for days of its own time, and what is said of it beside what is true.

UX.md section 6, checks 13 and 19: the lab knows every version of every page, and when it came to be.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from teia.clock import from_iso
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.store.root import open_root
from teia.urls import split
from teia.views.reports.freshness import FreshnessReport, freshness
from teia.views.reports.source import open_source
from teia.web.access.roles import Role
from tests.crawler.fresh_crawls import DAY_S, FreshWeb, fresh_web, quiet_world
from tests.web.test_browser import Live

from .demo import counted, serving_at

pytestmark = pytest.mark.timeout(300)
WEB = {"pages": 60, "hosts": 2, "seed": 3, "changes__rates": "zipf:1.5", "changes__fastest": 20.0}
WEB |= {"changes__cosmetic": 0}
SLOT_S = 1_800.0
DAYS, FROM_DAY, STEP_DAYS = 6.0, 1.5, 0.25


@dataclass
class Kept:
    """What was kept, the world it is of, and what was estimated and true of it at some instants."""

    data: Path
    world: World
    now_s: float
    points: list[tuple[float, FreshnessReport]]
    visits: dict[str, list[float]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return keep(tmp_path_factory.mktemp("kept"), quiet_world(**WEB))


def keep(folder: Path, world: World) -> Kept:
    points = []
    with fresh_web(world, folder, courtesy__delay_s=SLOT_S) as web:
        web.run(FROM_DAY, SLOT_S)
        for _ in range(int((DAYS - FROM_DAY) / STEP_DAYS)):
            web.run(STEP_DAYS, SLOT_S)
            with open_source(open_root(folder / "data"), "main") as source:
                points.append((true_share(web), freshness(source, clock=web.clock)))
        return Kept(folder / "data", world, web.clock.now_s(), points, web.visits())


def true_share(web: FreshWeb) -> float:
    """The share of copies that are what their pages are at this instant: no model, no estimate."""
    held = [page for page in web.truth().values() if page.visits_s]
    fresh = [bisect_right(page.changes_s, page.visits_s[-1]) == len(page.changes_s) for page in held]
    return sum(fresh) / len(held)


def test_the_truth_is_within_the_estimates_interval_and_the_parts_add_up(kept: Kept, tmp_path: Path) -> None:
    """19: at 90% of the points at least; what is lost adds up to what is not fresh.

    Points of one web are much alike: a page whose rate is misjudged is so at all of them.
    """
    others = [keep(tmp_path / str(seed), quiet_world(**WEB | {"seed": seed})) for seed in (1, 2)]
    points = [point for each in (kept, *others) for point in each.points]
    assert len(points) >= 54
    within = []
    for true, said in points:
        assert said.fresh is not None
        assert said.fresh_error is not None
        assert said.lost is not None
        within.append(abs(true - said.fresh) <= said.fresh_error)
        lost = said.lost.courtesy + said.lost.learning + said.lost.schedule + said.lost.failures
        assert said.fresh + lost == pytest.approx(1.0, abs=1e-5)
    assert sum(within) >= 0.9 * len(within), " ".join(
        f"{true:.3f}:{said.fresh:.3f}±{said.fresh_error:.3f}" for true, said in points
    )
    spread = max(true for true, _ in kept.points) - min(true for true, _ in kept.points)
    assert spread > 0.02, "there was something to estimate"


def optimum(rates: Sequence[float], visits_per_day: float) -> float:
    """The sum of how fresh pages can be kept with so many visits, by nothing but their true rates.

    A page that changes at random at rate r and is visited evenly, n times a day, is fresh for n/r (1 - exp(-r/n)) of
    the time. The visits are shared out best where one more is worth the same for every page: that worth is bisected.
    """

    def visits(rate: float, worth: float) -> float:
        low, high = 1e-9, 1e3  # changes between two visits; one more visit is worth (1 - exp(-x) (1 + x)) / rate
        for _ in range(60):
            middle = math.sqrt(low * high)
            is_less = 1 - math.exp(-middle) * (1 + middle) < worth * rate
            low, high = (middle, high) if is_less else (low, middle)
        return rate / low if worth * rate < 1 else 0.0

    low, high = 0.0, max(1 / rate for rate in rates)
    for _ in range(60):
        middle = (low + high) / 2
        is_too_much = sum(visits(rate, middle) for rate in rates) > visits_per_day
        low, high = (middle, high) if is_too_much else (low, middle)
    shares = [(rate, visits(rate, high)) for rate in rates]
    return sum(n / rate * (1 - math.exp(-rate / n)) for rate, n in shares if n > 0)


def test_possible_freshness_is_what_the_true_rates_allow_and_nothing_is_above_it(kept: Kept) -> None:
    """19: live <= bound at every point, as they are computed: nothing brings them together.

    The bound goes by rates that visits told; here is one of the long run that knows the true ones.
    """
    total, pages = 0.0, 0
    for host in kept.world.hosts:
        space = kept.world.spaces[host.index]
        slots = [slot for slot in range(host.size) if space.kind(slot) is UrlKind.PAGE]
        total += optimum(
            [kept.world.changes.change_process(host.content, slot).rate_per_day for slot in slots], DAY_S / SLOT_S
        )
        pages += len(slots)
    bound = total / pages
    for _, said in kept.points:
        assert said.fresh is not None
        assert said.fresh_error is not None
        assert said.best is not None
        assert said.possible is not None
        assert said.fresh <= said.possible
        assert said.best <= said.possible
        assert all(row.fresh <= row.possible for row in said.rows)
        assert said.best == pytest.approx(bound, abs=0.05), "what was learnt of the rates is not far off"
        assert said.fresh - said.fresh_error <= min(bound, said.best)
    assert sum(said.fresh or 0.0 for _, said in kept.points) / len(kept.points) <= bound
    assert sum(true for true, _ in kept.points) / len(kept.points) <= bound
    assert 0.5 < bound < 0.95, "there was something to choose"


@pytest.fixture(scope="module")
def served(kept: Kept) -> Iterator[Live]:
    with serving_at(kept.data, kept.now_s) as running:
        yield Live(running.web, running.base)


def test_the_page_shows_the_estimate_its_interval_and_the_parts_that_were_judged(
    kept: Kept, served: Live, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """19: the numbers that the tests above compare with the truth are those that people see."""
    _, said = kept.points[-1]
    monkeypatch.setattr("teia.web.pages.collection.freshness.ENOUGH", 50)  # the web has 60 pages
    served.web.installation.clock.hold()  # type: ignore[attr-defined]  # a Later
    context = served.context(browser, locale="en", viewport={"width": 1280, "height": 800})
    page = context.new_page()
    counted(served.web.client(Role.VIEWER), "/c/main/freshness")
    page.goto("/c/main/freshness")
    sentence = " ".join(page.inner_text("[data-region=freshness] p >> nth=0").split())
    found = re.match(
        r"([\d.]+)% of the captures.*\(± ([\d.]+)%\)\. .* above ([\d.]+)% now, nor above ([\d.]+)% \(±", sentence
    )
    assert found is not None, sentence
    shown = [float(each) / 100 for each in found.groups()]
    assert shown == pytest.approx([said.fresh, said.fresh_error, said.possible, said.best], abs=0.006)
    assert shown[0] <= shown[2], "nothing is above what is possible"
    assert said.uniform is not None
    assert said.best is not None
    assert said.uniform <= said.best + 0.001, "visits that are shared out evenly keep no more fresh than the best"
    page.locator("#lost summary").click()
    parts = [float(row.split("\t")[1]) for row in page.locator("#lost tbody tr").all_inner_texts()]
    assert sum(parts) == pytest.approx(100 * (1 - shown[0]), abs=0.25)
    context.close()


def texts_of(world: World, url: str, at_s: float) -> list[str]:
    """What the lab wrote on a page at an instant: its title, and its paragraphs."""
    parts = split(url)
    place = world.resolve_target(world.names[parts.host], parts.target.encode())
    state = world.changes.state(place.space.host.content, place.slot, world.days(at_s))
    texts = world._writer.texts(place.space, place.slot, state.meaningful)  # what its bodies are made of
    return [text.decode(place.space.lexicon.codec) for text in texts]


def plain(text: str) -> list[str]:
    """Words without case and accents, which count for nothing."""
    letters = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in letters if not unicodedata.combining(char)).split()


def in_common(a: list[str], b: list[str]) -> int:
    """How many words at most two texts have in common, in their order."""
    row = [0] * (len(b) + 1)
    for word in a:
        before, row = row, [0]
        for at, other in enumerate(b):
            row.append(before[at] + 1 if word == other else max(row[-1], before[at + 1]))
    return row[-1]


def test_a_diff_marks_exactly_the_words_that_the_lab_changed(kept: Kept, served: Live, browser: Browser) -> None:
    """13, by the lab's own record of what it wrote: what is not marked is the same, and as much as can be is not."""
    context = served.context(browser, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    compared = 0
    for url in kept.visits:
        view = served.web.client().get("/api/v1/c/main/page", params={"url": url}).json()
        versions = [mark["time"] for mark in view["marks"] if mark["is_version"]]
        texts = [texts_of(kept.world, url, from_iso(each)) for each in versions[-2:]]
        if len(texts) < 2 or texts[0][0] != texts[1][0]:
            continue
        page.goto(f"/c/main/diff?url={quote(url, safe='')}&a={versions[-2]}&b={versions[-1]}")
        removed, added = (plain(" ".join(page.locator(f"main {tag}").all_inner_texts())) for tag in ("del", "ins"))
        before, after = (plain(" ".join(each)) for each in texts)
        fewest = len(before) - in_common(before, after)
        assert Counter(before) - Counter(removed) == Counter(after) - Counter(added), url
        assert fewest <= len(removed) <= 1.05 * fewest + 1, "a word that stands alone among others may go with them"
        compared += 1
        if compared == 3:
            break
    context.close()
    assert compared == 3
