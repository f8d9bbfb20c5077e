"""Search in the browser and its JSON twin (F7, F8)."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree as ET

import pytest

from teia.clock import WallClock
from teia.collections.settings import change
from teia.index.cell import CellIndex
from teia.index.entry import IndexEntry
from teia.records import Edit, Operator
from tests.index.pages import page
from tests.web.conftest import Web


def put(web: Web, *pages: IndexEntry) -> None:
    """Put pages into the index of the collection."""
    index = CellIndex(web.installation.root.collection("main").cells()[0].index)
    for each in pages:
        index.put(each)
    index.commit(index.position)
    index.close()


def test_the_page_shows_what_its_twin_says(web: Web) -> None:
    twin = web.client().get("/api/v1/search?q=renda").json()
    page = web.client().get("/search?q=renda")
    assert page.status_code == 200
    assert f"{twin['total']} pages" in page.text
    for hit in twin["hits"]:
        assert f'href="{hit["url"]}"' in page.text
        assert hit["title_html"] in page.text


def test_the_keys_are_those_of_the_command(web: Web) -> None:
    found = web.client().get("/api/v1/search?q=imposto&n=1&explain=true").json()
    assert {"query", "total", "took_ms", "hits", "warnings"} <= found.keys()
    hit = found["hits"][0]
    wanted = {"rank", "url", "title", "snippet", "score", "last_visit", "fresh_probability", "lang", "type"}
    assert wanted <= hit.keys()
    assert hit["explanation"]["components"]
    assert "notes" not in found


def test_a_question_to_the_front_page_leads_to_its_answer(web: Web) -> None:
    assert web.client().get("/?q=imposto+de+renda").headers["location"] == "/search?q=imposto+de+renda"
    assert "Search 4 pages" in web.client().get("/").text


@pytest.mark.parametrize(
    ("query", "message"),
    [("", ""), ('"imposto', "quote"), (" ".join(f"w{n}" for n in range(2_000)), "32"), ("nofield:x", ""), ("(((", "")],
)
def test_any_question_is_answered_with_a_message(web: Web, query: str, message: str) -> None:
    answer = web.client().get("/api/v1/search", params={"q": query})
    assert answer.status_code == 200, answer.text
    assert message in " ".join(answer.json()["warnings"]).lower()


@pytest.mark.parametrize("bad", ["n=-1", "n=1000000000", "n=x", "offset=-1", "offset=NaN", "c=nix"])
def test_bad_numbers_are_refused_with_the_field(web: Web, bad: str) -> None:
    answer = web.client().get(f"/api/v1/search?q=x&{bad}")
    assert answer.status_code in (400, 404)
    assert answer.json()["message"]
    assert web.client().get(f"/search?q=x&{bad}").status_code == answer.status_code


def test_notes_are_shown_in_the_readers_language(web: Web) -> None:
    english, portuguese = (
        web.client().get('/search?q="renda', headers={"accept-language": language}).text
        for language in ("en", "pt-BR,pt")
    )
    assert "quote" in english
    assert "aspas" in portuguese
    twins = [
        web.client().get('/api/v1/search?q="renda', headers={"accept-language": each}).json() for each in ("en", "pt")
    ]
    for twin in twins:
        twin.pop("took_ms")
    assert twins[0] == twins[1]


def test_the_examples_of_the_front_page_find_something(web: Web) -> None:
    """UX 2."""
    page = web.client().get("/").text
    examples = re.findall(r'<a href="(/search\?q=[^"]+)"><bdi>', page)
    assert examples
    for address in examples:
        assert web.client().get(f"/api/v1{unescape(address)}").json()["total"] >= 1, address


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_every_example_of_the_help_finds_something(web: Web, language: str) -> None:
    now_s = int(web.installation.clock.now_s())
    put(
        web,
        page(
            "http://a.test/en",
            "The Harbour master writes a report. Ships come.",
            "Harbour",
            language="en",
            date_s=now_s,
        ),
        page("http://b.test/pt", "O Porto publica um edital. Navios chegam.", "Porto", language="pt", date_s=now_s),
    )
    shown = web.client().get("/help/query", headers={"accept-language": language})
    assert ("harbour" if language == "en" else "porto") in shown.text
    examples = re.findall(r'<a href="(/search\?q=[^"]+)"><code>', shown.text)
    assert len(examples) >= 20
    for address in examples:
        answer = web.client().get(f"/api/v1{unescape(address)}")
        assert answer.status_code == 200, address
        assert answer.json()["understood"], address
        assert answer.json()["total"] >= 1, address


def test_why_a_result_is_where_it_is_adds_up(web: Web) -> None:
    assert "Why this result" in web.client().get("/search?q=imposto+renda").text
    found = web.client().get("/api/v1/search?q=imposto+renda&explain=true").json()
    page = web.client().get("/search?q=imposto+renda&explain=true").text
    assert page.count('<details class="why"') == len(found["hits"])
    for hit in found["hits"]:
        why = hit["explanation"]
        assert sum(each["score"] for each in why["components"]) == pytest.approx(why["text"], rel=1e-3)
        product = (why["text"] * why["authority"] * why["news"] * why["readable"] + why["semantics"]) * why["passages"]
        assert product == pytest.approx(hit["score"], rel=1e-3)
        assert f"<summary>Why this result: {hit['score']:.2f}</summary>" in page


def test_a_year_narrows_what_was_found(web: Web) -> None:
    facets = web.client().get("/api/v1/search?q=renda").json()["facets"]
    ((year, pages),) = facets["year"].items()
    page = web.client().get("/search?q=renda").text
    address = next(each for each in re.findall(r'href="(/search\?q=[^"]+)"', page) if "after%3A" in each)
    narrowed = web.client().get(f"/api/v1{unescape(address)}").json()
    assert f"after%3A{year}+before%3A{int(year) + 1}" in address
    assert narrowed["total"] == pages


def test_search_can_be_added_to_a_browser(web: Web) -> None:
    assert 'rel="search"' in web.client().get("/").text
    answer = web.client().get("/opensearch.xml")
    assert answer.headers["content-type"].startswith("application/opensearchdescription+xml")
    urls = [each.attrib["template"] for each in ET.fromstring(answer.text) if each.tag.endswith("Url")]
    assert urls[0] == "http://127.0.0.1:8700/search?q={searchTerms}"
    assert web.client().get(urls[0].replace("{searchTerms}", "renda")).status_code == 200


@pytest.mark.parametrize("query", ["renda", "perigo", "", "<b>&'\"\x00\ud800"])
def test_the_results_of_a_query_are_a_feed(web: Web, query: str) -> None:
    answer = web.client().get("/search.rss", params={"q": query.encode("utf-8", "replace")})
    assert answer.headers["content-type"].startswith("application/rss+xml")
    channel = ET.fromstring(answer.text).find("channel")
    assert channel is not None
    hits = web.client().get("/api/v1/search", params={"q": query.encode("utf-8", "replace")}).json()["hits"]
    assert [each.findtext("link") for each in channel.findall("item")] == [hit["url"] for hit in hits]
    assert [each.findtext("title") for each in channel.findall("item")] == [hit["title"] for hit in hits]


def test_language_type_and_date_are_chosen_beside_the_query(web: Web) -> None:
    """UX 2.1: the same as filters in the query, which stays as it was typed."""
    client = web.client()

    def found(query: str, q: str = "renda") -> tuple[str, list[str]]:
        answer = client.get(
            f"/api/v1/search?{query}", params={"q": q, **dict(part.split("=") for part in query.split("&"))}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["query"], [hit["url"] for hit in answer.json()["hits"]]

    query, urls = found("type=html&dated=7d")
    assert query == "renda"
    assert urls == [hit["url"] for hit in client.get("/api/v1/search?q=renda").json()["hits"]]
    assert found("type=pdf")[1] == []
    assert found("type=pdf", '"renda')[1] == [], "a quote that is not closed takes no filter with it"
    page = client.get("/search?q=renda&type=html&explain=false").text
    assert '<option value="html" selected>' in page
    assert "type=html" in re.findall(r'href="([^"]*)"[^>]*>Why this result', page)[0]
    for bad in ("language=xx", "type=exe", "dated=9z"):
        assert client.get(f"/search?q=renda&{bad}").status_code == 400


def test_the_front_page_says_how_new_its_newest_page_is(web: Web) -> None:
    page = web.client().get("/").text
    assert "newest <time" in page
    assert "likely current" not in page, "nothing was visited again, so nothing is said"


def test_the_reader_chooses_the_language_where_the_query_does_not_show_it(web: Web) -> None:
    """By the parameter, else by the header; the page and its twin alike."""
    index = CellIndex(web.installation.root.collection("main").cells()[0].index)
    for number in range(4):
        said = (
            "this is the part of it that tells you which of the" if number % 2 else "este é o que se diz para que não"
        )
        language = "en" if number % 2 else "pt"
        index.put(page(f"http://docs.test/{language}{number}", f"{said} backup {number}", language=language))
    index.commit(index.position)
    index.close()
    client = web.client()

    def first(path: str, **headers: str) -> str:
        hits = client.get(f"/api/v1/search?q={path}", headers=headers).json()["hits"]
        shown = client.get(f"/search?q={path}", headers=headers).text
        places = [shown.index(f'href="{hit["url"]}"') for hit in hits]
        assert places == sorted(places), "the page has them in the same order"
        return str(hits[0]["lang"])

    assert first("backup", **{"accept-language": "pt-BR, en;q=0.1"}) == "pt"
    assert first("backup", **{"accept-language": "en-GB, pt;q=0.1"}) == "en"
    assert first("backup&lang=en", **{"accept-language": "pt-BR"}) == "en"
    assert first("what+is+the+backup", **{"accept-language": "pt"}) == "en", "the query is plain"
    assert first("o+que+é+o+backup") == "pt"
    names = {tag: client.get("/search?q=backup", headers={"accept-language": tag}).text for tag in ("en", "pt-BR")}
    assert "<bdi>Portuguese</bdi>" in names["en"]
    assert "<bdi>Português</bdi>" in names["pt-BR"]


def test_a_misspelt_query_is_answered_as_it_was_meant_with_a_way_back(web: Web) -> None:
    client = web.client()
    found = client.get("/api/v1/search?q=impsoto&type=html").json()
    assert (found["query"], found["corrected"]) == ("impsoto", "imposto")
    assert found["total"] == client.get("/api/v1/search?q=imposto&type=html").json()["total"] > 0
    text = client.get("/search?q=impsoto&type=html").text
    assert "Showing results for <strong><bdi>imposto</bdi></strong>" in text
    (back,) = [each for each in re.findall(r'href="(/search[^"]+)"', text) if "verbatim" in each]
    assert unescape(back) == "/search?q=impsoto&type=html&verbatim=true"
    assert client.get(f"/api/v1{unescape(back)}").json()["total"] == 0
    assert "Did you mean" in client.get(unescape(back)).text
    assert "Mostrando resultados para" in client.get("/search?q=impsoto", headers={"accept-language": "pt-BR"}).text


def test_pages_of_results_are_numbered_and_cells_are_named_only_where_one_is_missing(web: Web) -> None:
    text = web.client().get("/search?q=renda+imposto+lei&n=1").text
    total = web.client().get("/api/v1/search?q=renda+imposto+lei&n=1").json()["total"]
    assert total > 1
    assert '<span aria-current="page">1</span>' in text
    assert re.findall(r'aria-label="Page (\d+)"', text) == [str(number) for number in range(2, total + 1)]
    assert "cells answered" not in text
    second = web.client().get("/search?q=renda+imposto+lei&n=1&offset=1").text
    assert '<span aria-current="page">2</span>' in second
    assert 'rel="prev"' in second
    assert 'class="paging"' in web.client().get("/search?q=renda").text
    assert "aria-current" not in web.client().get("/search?q=nowhere&verbatim=true").text.partition('class="paging"')[2]


def test_a_query_is_completed_while_it_is_typed(web: Web) -> None:
    index = CellIndex(web.installation.root.collection("main").cells()[0].index)
    index.put(page("http://docs.test/rivers", "About a bridge.", "Rivers and bridges"))
    index.commit(index.position)
    index.close()

    def completions(typed: str) -> list[tuple[str, str]]:
        said = web.client().get("/api/v1/complete", params={"q": typed}).json()
        assert said["query"] == typed
        return [(each["text"], each["kind"]) for each in said["completions"]]

    assert ("imposto", "word") in completions("impos")
    assert ("renda imposto", "word") in completions("renda impos")
    assert ("Rivers and bridges", "title") in completions("bridg")
    for typed in ("", "i", "xyzxyz", "site:a.te", "imposto "):
        assert all(text != typed for text, _ in completions(typed))
    assert completions("xyzxyz") == completions("site:a.te") == completions("") == []


def test_the_title_of_a_page_without_an_address_opens_the_capture(web: Web) -> None:
    """Names such as x.test do not resolve: in a lab's collection every title was a dead link."""
    put(web, page("http://reachable.org/renda", "A renda de todos.", "Renda"))
    hits = {hit["host"]: hit for hit in web.client().get("/api/v1/search?q=renda").json()["hits"]}
    assert hits["reachable.org"]["opens"] == "page"
    assert hits["x.test"]["opens"] == "capture"
    shown = web.client().get("/search?q=renda").text
    assert '<h2 lang=""><a href="/c/main/copy?url=http%3A%2F%2Fx.test' in shown
    assert f'<a href="{hits["x.test"]["url"]}" rel="nofollow noopener noreferrer">Original page</a>' in shown


def test_in_an_archive_titles_open_captures(web: Web) -> None:
    put(web, page("http://reachable.org/renda", "A renda de todos.", "Renda"))
    change(web.installation.root, "main", [Edit("public.titles_open", Operator.SET, "capture")], WallClock())
    hits = web.client().get("/api/v1/search?q=renda").json()["hits"]
    assert {hit["opens"] for hit in hits} == {"capture"}


def test_the_last_result_of_a_site_leads_to_its_other_results(web: Web) -> None:
    put(web, *(page(f"http://many.test/{n}", f"A renda número {n}. {'x' * n}", f"Renda {n}") for n in range(9)))
    found = web.client().get("/api/v1/search?q=renda&n=3").json()
    more = [hit["more_here"] for hit in found["hits"] if hit["host"] == "many.test"]
    assert sum(more) == more[-1] > 0
    shown = web.client().get("/search?q=renda&n=3").text
    assert f"{more[-1]} more from this site" in shown
    assert "q=renda+site%3Amany.test" in shown
