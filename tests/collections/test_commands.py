"""The orders of A6, seen in what is fetched when: focused crawling and the Sydney strategy (T1)."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from teia.api import flags_of
from teia.clock import VirtualClock, WallClock
from teia.collections.commands import remove_collection
from teia.collections.control_file import ControlFile
from teia.crawler.child.focus import FILE_NAME
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.links import field_of
from teia.crawler.lookup import Lookup
from teia.errors import ConfigError
from teia.frontier.cell import trails
from teia.frontier.queue.order import ORDERS
from teia.frontier.queue.sydney import draw
from teia.lab.world.exchange import WorldAnswer
from teia.store.root import open_root
from teia.urls import key_of
from teia.views.why_waiting import why_waiting
from tests.crawler.offline import NOW_S, OfflineCrawl, Web, offline_crawl
from tests.crawler.webs import HTML, ScriptedWeb, crawl_web

ON = "The telescope shows planets, comets and a galaxy; astronomers measure the orbit of a moon."
OFF = "The oven is warm, the dough rests under a cloth, and the baker weighs flour for a loaf of rye."
HUB = "A list of departments, schools and institutes of the university, with people and rooms."
WORDS = ["telescope", "planets", "comet", "galaxy", "astronomers"]
FOCUSED = {"collection__order": "focused", "focus__words": WORDS}


def markup(text: str, *links: str) -> str:
    """A page that says something, and something of its own beside it: pages that are all alike look like a trap."""
    anchors = " ".join(f'<a href="{link}">more</a>' for link in links)
    chance = random.Random(f"{text} {links}")
    own = " ".join("".join(chance.choices("bdfgklmnprstvz", k=5)) for _ in range(12))
    return f"<html><head><title>Some page</title></head><body><p>{text}</p><p>{own}</p>{anchors}"


def topical_web(pages: int = 240, seed: int = 3) -> tuple[Web, set[str]]:
    """One site, one page in six about the topic. Half of the links stay with their page's subject, as on real sites; of
    links to the topic, half say so.
    """
    chance = random.Random(seed)
    urls = [f"http://a.test/{number}" for number in range(pages)]
    on_topic = {url for number, url in enumerate(urls) if number % 6 == 5}
    web = {}
    for number, url in enumerate(urls):
        same = [other for other in urls if (other in on_topic) == (url in on_topic)]
        links = [*chance.choices(same, k=4), *chance.choices(urls, k=3), urls[(number + 1) % pages]]
        told = {link: "a comet" if link in on_topic and chance.random() < 0.5 else "more" for link in links}
        anchors = "".join(f'<a href="/{link.rpartition("/")[2]}">{text}</a>' for link, text in told.items())
        web[url] = markup(f"{ON if url in on_topic else OFF} {number}") + anchors
    return web, on_topic


def taken(web: Web, folder: Path, pages: int = 10_000, **settings: Any) -> list[str]:
    """What is fetched from /0 on, in order."""
    with offline_crawl(web, folder, "http://a.test/0", **settings) as crawl:
        return crawl.run(pages)


def short(urls: list[str]) -> list[str]:
    return [url.partition("//")[2].partition("/")[2] for url in urls]


def test_a_program_sets_order_and_topic_by_name() -> None:
    flags = flags_of("http://a.test/", {"order": "focused", "focus": {"words": ("comet", "moon")}})
    assert flags["collection.order"] == "focused"
    assert flags["focus.words"] == ["comet", "moon"]


# ---- figure 1 of the paper -------------------------------------------------------------------------------------------

FIGURE_1 = {
    1: (2, 3, 4, 5),
    2: (6, 7),
    3: (8, 9),
    4: (10,),
    5: (11,),
    6: (12, 13),
    7: (8,),
    8: (14,),
    9: (15,),
    14: (3,),
}
"""The paper's hypothetical web, as its four paths tell it."""

ABOUT_Y = {2, 5, 6, 8, 12, 13, 14}


@pytest.mark.parametrize(
    ("start", "path", "settings"),
    [
        (1, [*range(1, 16)], {"collection__order": "breadth"}),
        (1, [1, 4, 10, 5, 11, 2, 6, 12, 13, 7, 8, 14, 3, 9, 15], {"collection__order": "depth"}),
        # It fetches page 7 too, to see that it is not about Y, and does not find 8, 14 and 5.
        (2, [2, 6, 12, 13, 7], {**FOCUSED, "focus__mode": "hard", "focus__tunnel": 0}),
        (2, [2, 6, 12, 13, 7, 8, 14, 3, 9], {**FOCUSED, "focus__mode": "hard", "focus__tunnel": 1}),
    ],
    ids=["horizontal", "vertical", "focused", "extended focused"],
)
def test_four_visit_orders_take_the_paths_of_figure_1(
    tmp_path: Path, start: int, path: list[int], settings: dict[str, Any]
) -> None:
    """A6: the paper numbers pages by level and draws its vertical path from the other side."""
    names = {page: f"comet-{page}" if page in ABOUT_Y else f"page-{page}" for page in range(1, 16)}
    is_depth, web = settings["collection__order"] == "depth", {}
    for page, name in names.items():
        links = (3, 2, 5, 4) if is_depth and page == 1 else FIGURE_1.get(page, ())[:: -1 if is_depth else 1]
        text = f"{ON if page in ABOUT_Y else OFF} {page}"
        web[f"http://a.test/{name}"] = markup(text, *(f"/{names[to]}" for to in links))
    with offline_crawl(web, tmp_path, f"http://a.test/{names[start]}", **settings) as crawl:
        assert [int(each.partition("-")[2]) for each in short(crawl.run(100))] == path


# ---- preferences -----------------------------------------------------------------------------------------------------

PT = "O telescópio mostra planetas e cometas; os astrônomos medem a órbita de uma lua que não se vê daqui. "
EN = "The telescope shows planets and comets; astronomers measure the orbit of a moon that is not seen from here. "


def in_portuguese(*links: str) -> str:
    return markup(PT * 3, *links).replace("<html>", '<html lang="pt-BR">')


def test_pages_that_pages_in_a_preferred_language_link_to_come_first(tmp_path: Path) -> None:
    """F: the language modifies the metric; without it breadth goes level by level."""
    web = {
        "http://a.test/0": markup(EN * 3, "/en", "/pt"),
        "http://a.test/en": markup(EN * 3, "/en1", "/both"),
        "http://a.test/pt": in_portuguese("/pt1", "/both"),
        "http://a.test/pt1": in_portuguese("/pt2"),
    } | {f"http://a.test/{name}": markup(EN * 3) for name in ("en1", "both", "pt2")}
    plain = short(taken(web, tmp_path / "plain"))
    assert plain == ["0", "en", "pt", "en1", "both", "pt1", "pt2"]
    mixed = short(taken(web, tmp_path / "mixed", collection__prefer=["language:pt"]))
    assert mixed == ["0", "en", "pt", "both", "pt1", "pt2", "en1"]


def test_a_preferred_domain_comes_first_over_all_hosts_and_by_links_within(tmp_path: Path) -> None:
    """F: backlinks mixed with a domain."""
    home = markup(OFF, "http://a.com.test/1", "http://b.br.test/1", "http://b.br.test/2")
    web = {"http://a.test/0": home, "http://a.com.test/1": markup(OFF), "http://b.br.test/2": markup(OFF)}
    web["http://b.br.test/1"] = markup(OFF, "http://b.br.test/3", "http://a.com.test/4")
    web |= {f"http://{name}": markup(OFF) for name in ("b.br.test/3", "a.com.test/4")}
    mixed = taken(web, tmp_path, collection__prefer=["domain:br.test"], collection__order="backlinks")
    assert [url.partition("//")[2] for url in mixed] == [
        "a.test/0", "b.br.test/1", "b.br.test/2", "b.br.test/3", "a.com.test/1", "a.com.test/4",
    ]  # fmt: skip


def test_a_preference_that_is_set_later_ranks_the_queue_anew(tmp_path: Path) -> None:
    web = {"http://a.test/0": markup(OFF, "http://a.com.test/1", "http://z.br.test/2")}
    web |= {f"http://{name}": markup(OFF) for name in ("a.com.test/1", "z.br.test/2")}
    assert taken(web, tmp_path, 1) == ["http://a.test/0"]
    later = taken(web, tmp_path, collection__prefer=["domain:br.test"])
    assert later == ["http://z.br.test/2", "http://a.com.test/1"]


# ---- soft focus -----------------------------------------------------------------------------------------------------


def test_soft_focus_harvests_the_topic_long_before_breadth_does(tmp_path: Path) -> None:
    """A6: the share of relevant pages among the first, which Chakrabarti et al. call the harvest rate."""
    web, on_topic = topical_web(480)
    harvest = {}
    for order, settings in {"breadth": {}, "focused": FOCUSED}.items():
        with offline_crawl(web, tmp_path / order, "http://a.test/5", **settings) as crawl:
            first = crawl.run(60)
        harvest[order] = sum(url in on_topic for url in first) / len(first)
    assert harvest["breadth"] < 0.4
    assert harvest["focused"] > 0.9


@pytest.mark.slow
def test_a_real_crawl_takes_up_what_it_finds_at_once(tmp_path: Path) -> None:
    """The same over HTTP: buffers of URLs that were read before must not stand in the way."""
    web, on_topic = topical_web(180)
    site = {url.removeprefix("http://a.test"): WorldAnswer(200, HTML, page.encode()) for url, page in web.items()}
    harvest = {}
    for order, settings in {"breadth": {}, "focused": FOCUSED}.items():
        crawled = crawl_web(ScriptedWeb({"a.test": site}), tmp_path / order, "a.test/5", limits__pages=30, **settings)
        first = [f"http://{path}" for path in crawled.requested() if f"http://{path}" in web]
        harvest[order] = sum(url in on_topic for url in first) / len(first)
    assert harvest["focused"] > 0.2 + harvest["breadth"]


@pytest.mark.heavy
def test_orders_change_when_pages_are_fetched_and_not_which(tmp_path: Path) -> None:
    web, _ = topical_web(60)
    ways = {name: FOCUSED if name == "focused" else {"collection__order": name, "sydney__links": 2} for name in ORDERS}
    crawled = {name: taken(web, tmp_path / name, **settings) for name, settings in ways.items()}
    assert {name: sorted(urls) for name, urls in crawled.items()} == dict.fromkeys(ORDERS, sorted(web))
    of_their_own = ("breadth", "depth", "backlinks", "focused", "sydney")
    assert len({tuple(crawled[name]) for name in of_their_own}) == len(of_their_own)


@pytest.mark.parametrize("order", ["focused", "sydney"])
def test_a_crawl_that_was_stopped_goes_on_in_the_same_order(tmp_path: Path, order: str) -> None:
    web, _ = topical_web(60)
    settings = FOCUSED if order == "focused" else {"collection__order": order, "sydney__links": 3}
    whole = taken(web, tmp_path / "whole", **settings)
    pieces: list[str] = []
    for pages in (1, 7, 20, 10_000):
        pieces += taken(web, tmp_path / "pieces", pages, **settings)
    assert pieces == whole


def test_the_words_of_a_link_decide_between_links_of_one_page(tmp_path: Path) -> None:
    home = markup(OFF, "/a", "/b") + '<a href="/c">Comets seen by telescope</a><a href="/galaxy/d">this</a>'
    web = {"http://a.test/0": home} | {f"http://a.test/{name}": markup(OFF) for name in ("a", "b", "c", "galaxy/d")}
    order = short(taken(web, tmp_path, **FOCUSED))
    assert set(order[1:3]) == {"c", "galaxy/d"}
    assert order[3:] == ["a", "b"]


def test_a_promise_fades_on_irrelevant_pages(tmp_path: Path) -> None:
    web = {
        "http://a.test/0": markup(ON, "/near"),
        "http://a.test/near": markup(OFF, "/far"),
        "http://a.test/far": markup(OFF, "/farther"),
        "http://a.test/farther": markup(OFF),
    }
    with offline_crawl(web, tmp_path, "http://a.test/0", **FOCUSED) as crawl:
        crawl.run()
        scores = trail_scores(crawl)
    assert scores["near"] > scores["far"] > scores["farther"] > 0


def trail_scores(crawl: OfflineCrawl) -> dict[str, int]:
    sql = "SELECT u.tail, t.score FROM urls AS u JOIN trails AS t USING (slot, host_id, key)"
    rows = [row for cell in crawl.crawl.committer.cells for row in cell.frontier.db.execute(sql)]
    return {tail.removeprefix("/"): score for tail, score in rows}


def test_a_redirect_passes_on_what_was_promised_of_it(tmp_path: Path) -> None:
    moved = WorldAnswer(302, HTML + b"Location: /new\r\n", b"<p>moved")
    page = WorldAnswer(200, HTML, markup(ON, "/old").encode())
    web = ScriptedWeb({"a.test": {"/": page, "/old": moved, "/new": WorldAnswer(200, HTML, markup(ON).encode())}})
    crawled = crawl_web(web, tmp_path, "a.test/", **FOCUSED, focus__mode="hard", focus__tunnel=0)
    assert crawled.outcomes()["a.test/new"] == "200"
    with Lookup(open_root(crawled.data), "main") as lookup:
        rows = [row for cell in lookup.cells for row in cell.db.execute("SELECT score, off_topic FROM trails")]
    assert len(rows) == 3
    assert len(set(rows)) == 2, "the target's trail is that of the page that moved"


# ---- hard focus -----------------------------------------------------------------------------------------------------

#   /  on --> 1 off --> 2 off --> 3 off --> 4 on --> 5 off
#   |                   ^
#   +--> x off --> y on +            (so page 2 is also one step from a relevant page, by a longer way)
CHAIN = {
    "/": markup(ON, "/1", "/x"),
    "/1": markup(OFF, "/2"),
    "/2": markup(OFF, "/3"),
    "/3": markup(OFF, "/4"),
    "/4": markup(ON, "/5"),
    "/5": markup(OFF, "/6"),
    "/6": markup(OFF),
    "/x": markup(OFF, "/y"),
    "/y": markup(ON, "/2"),
}
REACHED = {
    0: {"/", "/1", "/x"},
    1: {"/", "/1", "/x", "/2", "/y", "/3"},
    2: {"/", "/1", "/x", "/2", "/y", "/3", "/4", "/5", "/6"},
}


@pytest.mark.parametrize("tunnel", REACHED)
def test_hard_focus_goes_through_as_many_irrelevant_pages_as_it_may_and_no_more(tmp_path: Path, tunnel: int) -> None:
    pages = {path: WorldAnswer(200, HTML, text.encode()) for path, text in CHAIN.items()}
    settings = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": tunnel}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", **settings)
    asked = {path for path in CHAIN if f"a.test{path}" in crawled.requested()}
    assert asked == REACHED[tunnel]


def test_what_hard_focus_brings_does_not_depend_on_which_way_is_found_first(tmp_path: Path) -> None:
    """Page 2 is read with an irrelevant page before it; then a relevant one links to it."""
    web = {f"http://a.test{path}": text for path, text in CHAIN.items()}
    for tunnel in (1, 2):
        settings = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": tunnel}
        with offline_crawl(web, tmp_path / str(tunnel), "http://a.test/", **settings) as crawl:
            order = short(crawl.run())
        assert order.index("2") < order.index("y"), "or this test shows nothing"
        assert {f"/{path}" for path in order} == REACHED[tunnel]
        assert order.count("2") == 2, "it was fetched again for its links"


@pytest.mark.parametrize("seed", range(5))
def test_hard_focus_brings_what_the_web_says_whatever_the_web(tmp_path: Path, seed: int) -> None:
    """Random webs in any order, against the definition: a URL is reached if some way to it has nowhere more than
    `tunnel` irrelevant pages in a row.
    """
    chance = random.Random(seed)
    urls = [f"http://a.test/{number}" for number in range(40)]
    on_topic = {urls[0], *(url for url in urls if chance.random() < 0.2)}
    targets = {url: chance.sample(urls, 2) for url in urls}
    web = {
        url: markup(
            f"{ON if url in on_topic else OFF} {url}", *(to.removeprefix("http://a.test") for to in targets[url])
        )
        for url in urls
    }
    for tunnel in (1, 2):
        ways, waiting = {urls[0]: 0}, [urls[0]]
        while waiting:
            page = waiting.pop()
            count = 0 if page in on_topic else ways[page] + 1
            for to in targets[page] if count <= tunnel else ():
                if count < ways.get(to, tunnel + 1):
                    ways[to] = count
                    waiting.append(to)
        hard = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": tunnel}
        with offline_crawl(web, tmp_path / str(tunnel), urls[0], **hard) as crawl:
            assert set(crawl.run(chance=chance)) == set(ways)


def test_hard_focus_still_fetches_what_an_irrelevant_page_needs_to_be_shown(tmp_path: Path) -> None:
    home = '<p>bread and butter</p><img src="/picture.png"><a href="/next">next</a>'
    web = {"http://a.test/0": home, "http://a.test/next": markup(OFF)}
    hard = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": 0, "archive__requisites": True}
    assert short(taken(web, tmp_path, **hard)) == ["0", "picture.png"]


def test_hard_focus_takes_nothing_from_sitemaps_and_soft_focus_does(tmp_path: Path) -> None:
    sitemap = "<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2</loc></url></urlset>"
    web = {"http://a.test/0": sitemap, "http://a.test/1": markup(OFF, "/2")}
    web |= {"http://a.test/2": markup(ON)}
    assert short(taken(web, tmp_path / "soft", **FOCUSED)) == ["0", "1", "2"]
    hard = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": 5}
    assert short(taken(web, tmp_path / "hard", **hard)) == ["0"]


def test_left_out_links_are_counted_as_out_of_scope(tmp_path: Path) -> None:
    pages = {"/": WorldAnswer(200, HTML, markup(OFF, "/1", "/2", "/2").encode())}
    settings = {**FOCUSED, "focus__mode": "hard", "focus__tunnel": 0}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", **settings)
    assert crawled.outcomes() == {"a.test/": "200"}
    with fetch_log(open_root(crawled.data), "main") as log:
        counted = log.query("SELECT links, links_in_scope FROM fetches WHERE kind = 'page'").rows
    assert [tuple(row) for row in counted] == [(2, 0)], "a link named twice on a page is one"


# ---- rules ----------------------------------------------------------------------------------------------------------


def rule_web(length: int) -> Web:
    """Two rows of pages off the topic, each page with five leaves; those of the hubs are about the topic."""
    web = {"http://a.test/0": markup("Hello.", "/b/0", "/h/0")}
    for n in range(length):
        web[f"http://a.test/h/{n}"] = markup(HUB, *(f"/p/{n}/{k}" for k in range(5)), f"/h/{n + 1}")
        web[f"http://a.test/b/{n}"] = markup(OFF, *(f"/q/{n}/{k}" for k in range(5)), f"/b/{n + 1}")
        web |= {f"http://a.test/p/{n}/{k}": markup(f"{ON} {n} {k}") for k in range(5)}
        web |= {f"http://a.test/q/{n}/{k}": markup(f"Nothing at all in here. {n} {k}") for k in range(5)}
    return web


def examples(folder: Path) -> dict[str, Any]:
    """Example files: one of the topic, one of each of two other kinds."""
    folder.mkdir()
    html = f"<title>Stars</title><p>{ON}"
    for name, text in {"stars.html": html, "hub.txt": HUB, "bread.txt": OFF}.items():
        (folder / name).write_text(text)
    return {
        "collection__order": "focused",
        "focus__examples": [str(folder / "*.html")],
        "focus__others": [f"hubs={folder / 'hub.txt'}", f"bread={folder / 'bread.txt'}"],
    }


@pytest.mark.slow
def test_a_crawl_learns_which_kind_of_page_leads_to_the_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: rules learnt to tunnel through off-topic pages (Altingovde & Ulusoy), and the same crawl without them."""
    web, harvest = rule_web(16), {}
    for name in ("rules", "none"):
        if name == "none":
            monkeypatch.setattr("teia.crawler.commit.learnt_promises", lambda _cells: {})
        with offline_crawl(web, tmp_path / name, "http://a.test/0", **examples(tmp_path / f"of-{name}")) as crawl:
            leaves = [path for path in short(crawl.run()) if path.startswith(("p/", "q/"))]
            seen = {tuple(rule) for cell in crawl.crawl.committer.cells for rule in trails.all_rules(cell.frontier)}
        harvest[name] = sum(path.startswith("p/") for path in leaves[:80]) / 80
    topic, bread, hubs, none = range(4)
    assert {(hubs, topic, 80), (bread, none, 80)} <= seen
    assert harvest["none"] <= 0.6
    assert harvest["rules"] >= 0.85


# ---- what a focused crawl learns from -------------------------------------------------------------------------------


@pytest.mark.heavy
def test_examples_are_read_from_files_and_what_was_learnt_outlives_them(tmp_path: Path) -> None:
    settings = examples(tmp_path / "examples")
    web, on_topic = topical_web(120)
    first = taken(web, tmp_path, 60, **settings)
    learnt = (tmp_path / "data" / "main" / FILE_NAME).read_bytes()
    for file in (tmp_path / "examples").iterdir():
        file.unlink()
    rest = taken(web, tmp_path, **settings)
    assert sorted(first + rest) == sorted(web)
    assert (tmp_path / "data" / "main" / FILE_NAME).read_bytes() == learnt
    assert sum(url in on_topic for url in first) > 0.9 * len(on_topic), "half of the pages held nearly all of the topic"


@pytest.mark.heavy
def test_pages_of_the_collection_can_be_examples(tmp_path: Path) -> None:
    web, on_topic = topical_web(120)
    first = taken(web, tmp_path, 40)
    examples = next(url for url in first if url in on_topic)
    others = next(url for url in first if url not in on_topic)
    settings = {"collection__order": "focused", "focus__examples": [examples], "focus__others": [others]}
    rest = taken(web, tmp_path, **settings)
    assert sorted(first + rest) == sorted(web)
    half = len(rest) // 2
    assert sum(url in on_topic for url in rest[:half]) > 2 * sum(url in on_topic for url in rest[half:])


def test_other_words_are_learnt_anew(tmp_path: Path) -> None:
    web = {"http://a.test/0": markup(OFF, "/1")}
    taken(web, tmp_path, **FOCUSED)
    before = (tmp_path / "data" / "main" / FILE_NAME).read_text()
    taken(web, tmp_path, **(FOCUSED | {"focus__words": ["dough", "loaf"]}))
    after = (tmp_path / "data" / "main" / FILE_NAME).read_text()
    assert '"telesc"' in before
    assert '"telesc"' not in after
    assert '"dough"' in after


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "has no topic: set keywords in focus.words"),
        ({"focus__examples": ["x.html"]}, "requires example pages of other topics"),
        ({"focus__words": ["a b", "telescope"]}, "'a b': must contain a word of three letters"),
        ({"focus__words": WORDS, "parse__text": False}, "set parse.text to true"),
        ({"focus__examples": ["no.html"], "focus__others": ["no"]}, "'no.html': is neither a file nor a URL"),
        ({"focus__words": WORDS, "focus__others": ["topic=x"]}, "the name 'topic' is reserved"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], complaint: str
) -> None:
    with (
        pytest.raises(ConfigError, match=complaint),
        offline_crawl({}, tmp_path, "http://a.test/0", collection__order="focused", **settings),
    ):
        pass
    assert not (tmp_path / "data" / "main").exists()


@pytest.mark.heavy
def test_examples_that_hold_nothing_are_named(tmp_path: Path) -> None:
    empty, other = tmp_path / "empty.html", tmp_path / "other.txt"
    empty.write_text("<html></html>")
    other.write_text(OFF)
    settings = {"focus__examples": [str(empty)], "focus__others": [str(other)]}
    with pytest.raises(ConfigError, match=r"empty\.html contains no text"):
        taken({}, tmp_path, collection__order="focused", **settings)
    settings["focus__examples"] = ["http://a.test/unknown"]
    with pytest.raises(ConfigError, match=r"http://a\.test/unknown is not in main"):
        taken({}, tmp_path / "other", collection__order="focused", **settings)


def test_how_relevant_a_page_was_is_in_the_archive(tmp_path: Path) -> None:
    web = {"http://a.test/0": markup(ON, "/1"), "http://a.test/1": markup(OFF)}
    taken(web, tmp_path, **FOCUSED)
    with Lookup(open_root(tmp_path / "data"), "main") as lookup:
        told = {url: field_of(block_after(lookup, url), "relevance") for url in web}
    assert float(told["http://a.test/0"]) > 0.9
    assert float(told["http://a.test/1"]) < 0.5


def block_after(lookup: Lookup, url: str) -> bytes:
    """The metadata record that follows a page's answer."""
    entry = lookup.find(url)
    assert entry is not None
    assert entry.page is not None
    return lookup.metadata(entry.cell, entry.page)


# ---- Sydney ---------------------------------------------------------------------------------------------------------


def test_sydney_takes_a_sample_of_each_page_first_and_the_rest_when_nothing_else_waits(tmp_path: Path) -> None:
    """A web of three levels, followed by hand: two links of a page go ahead."""
    seed, links = 9, 2
    web = {"http://a.test/0": markup(OFF, *(f"/{n}" for n in range(1, 6)))}
    web |= {f"http://a.test/{n}": markup(OFF, f"/{n}/x", f"/{n}/y", f"/{n}/z") for n in range(1, 6)}

    def drawn(source: str, targets: list[str]) -> list[str]:
        best = sorted(targets, key=lambda target: draw(seed, key_of(source), key_of(target)))[:links]
        return [target for target in targets if target in best]

    def below(page: str) -> list[str]:
        return [f"{page}/{name}" for name in "xyz"]

    children = [f"http://a.test/{n}" for n in range(1, 6)]
    ahead = drawn("http://a.test/0", children)
    expected = ["http://a.test/0", *ahead]
    expected += [leaf for page in ahead for leaf in drawn(page, below(page))]
    # The primary queue is empty: of what waits aside the shallowest is next, and its own sample goes before the others.
    for page in [child for child in children if child not in ahead]:
        expected += [page, *drawn(page, below(page))]
    expected += [leaf for page in (*ahead, *(c for c in children if c not in ahead)) for leaf in below(page)]
    expected = list(dict.fromkeys(expected))
    settings = {"collection__order": "sydney", "sydney__links": links, "sydney__seed": seed}
    assert taken(web, tmp_path, **settings) == expected


def test_sydney_in_a_real_crawl_fetches_everything_once(tmp_path: Path) -> None:
    pages = {"/": WorldAnswer(200, HTML, markup(OFF, *(f"/{n}" for n in range(12))).encode())}
    pages |= {f"/{n}": WorldAnswer(200, HTML, markup(OFF, f"/{n}/x").encode()) for n in range(12)}
    settings = {"collection__order": "sydney", "sydney__links": 3}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", **settings)
    asked = crawled.requested()
    assert len(asked) == len(set(asked))
    assert {f"a.test{path}" for path in pages} | {f"a.test/{n}/x" for n in range(12)} <= set(asked)


# ---- why not yet ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["focused", "sydney"])
def test_a_url_knows_how_many_are_before_it(tmp_path: Path, order: str) -> None:
    web, _ = topical_web(60)
    settings = FOCUSED if order == "focused" else {"collection__order": order, "sydney__links": 2}
    before = taken(web, tmp_path, 12, **settings)
    with Lookup(open_root(tmp_path / "data"), "main") as lookup:
        waiting = [url for url in web if (entry := lookup.find(url)) and entry.state == "queued"]
        said = {url: why_waiting(lookup, lookup.find(url), VirtualClock(NOW_S).now_s()) or "" for url in waiting}
    rest = [url for url in taken(web, tmp_path, **settings) if url in waiting]
    assert len(rest) > 10
    # What a page adds may overtake; what is next is next.
    assert said[rest[0]].startswith("next in the queue")
    places = {url: int(said[url].split()[2]) if said[url].startswith("queued behind") else 0 for url in waiting}
    assert sorted(places.values()) == list(range(len(waiting)))
    assert len(before) == 12


def test_no_table_of_the_control_file_keeps_a_row_of_a_removed_collection(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.collection("main").path.mkdir()
    path = root.path / "control.sqlite"
    ControlFile(path).close()
    tables = fill(path)
    assert {"requests", "dismissed", "standing_commands", "scheduled_runs"} <= set(tables)
    remove_collection(root, "main", WallClock())
    with sqlite3.connect(path) as db:
        left = {table: [row[0] for row in db.execute(f"SELECT collection FROM {table}")] for table in tables}
    assert left == {table: ["other"] for table in tables}


def fill(path: Path) -> list[str]:
    """Put a row of two collections into every table that has a column of that name; return these tables."""
    with sqlite3.connect(path) as db:
        named = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        columns = {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in named}
        tables = [table for table in named if "collection" in [column[1] for column in columns[table]]]
        for number, collection in enumerate(("main", "other"), 1):
            for table in tables:
                row = [collection if column[1] == "collection" else number for column in columns[table]]
                marks = ", ".join("?" * len(row))
                db.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # our own names
    return tables
