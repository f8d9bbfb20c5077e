"""Search in the browser and its JSON twin (F7, F8)."""

from __future__ import annotations

import pytest

from .conftest import Web


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


def test_notes_are_said_in_the_readers_language(web: Web) -> None:
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
