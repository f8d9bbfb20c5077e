"""URLs added to what waits (UX 2.8)."""

from __future__ import annotations

import pytest

from teia.clock import WallClock
from teia.collections.add_urls import MAX_URLS, WrongUrls, check_urls
from teia.collections.settings import change, saved
from teia.records import Edit, Operator
from teia.web.access.roles import Role
from tests.web.conftest import Web

TO = "/c/main/frontier/add"


def seeds(web: Web) -> tuple[str, ...]:
    return saved(web.installation.root, "main").config.collection.seeds


def scoped(web: Web, **rules: list[str]) -> None:
    change(
        web.installation.root,
        "main",
        [Edit(f"scope.{key}", Operator.SET, value) for key, value in rules.items()],
        WallClock(),
    )


def test_urls_are_checked_like_seeds_and_are_seeds_then(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    scoped(web, include=[])
    known = web.some_url()
    sent = f"https://novo.test/a\r\n\r\n  outro.test/b \r\n{known}\r\nhttps://novo.test/a"
    done = client.post(TO, data={"urls": sent, "csrf": web.csrf(client)})
    assert done.status_code == 200
    assert "2 URLs are seeds now." in done.text
    assert "The next crawl begins with it." in done.text
    assert "known already" in done.text
    assert "<code>host:novo.test</code>, <code>host:outro.test</code>" in done.text, (
        "what comes into the scope with them is said"
    )
    assert {"https://novo.test/a", "http://outro.test/b"} <= set(seeds(web))
    again = client.post(f"/api/v1{TO}", json={"urls": ["https://novo.test/a"]}, headers=web.token(Role.OPERATOR)).json()
    assert [(each["fate"], each["state"]) for each in again["urls"]] == [("known", "seed")]
    (line,) = [line for _, line in web.installation.accounts.logged_actions(20) if line.what == "add"]
    assert "https://novo.test/a, http://outro.test/b" in line.detail["urls"]


def test_what_is_no_url_comes_back_beside_its_field_and_nothing_is_added(web: Web) -> None:
    client, before = web.client(Role.OPERATOR), seeds(web)
    sent = "https://novo.test/a\n\nftp://x.test/b\nexemplo"
    answer = client.post(TO, data={"urls": sent, "csrf": web.csrf(client)})
    assert answer.status_code == 400
    assert "line 3:" in answer.text
    assert "line 4:" in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert "ftp://x.test/b\nexemplo</textarea>" in answer.text, "nothing that was typed is lost"
    assert seeds(web) == before
    refused = client.post(f"/api/v1{TO}", json={"urls": ["ftp://x"]}, headers=web.token(Role.OPERATOR))
    assert (refused.status_code, refused.json()["field"]) == (400, "urls")
    for nothing in ("", " \n "):
        assert client.post(TO, data={"urls": nothing, "csrf": web.csrf(client)}).status_code == 400
    assert client.post(TO, data={"csrf": web.csrf(client)}).status_code == 400


def test_urls_outside_the_rules_are_reported_and_not_added(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    scoped(web, exclude=["domain:fora.test"])
    sent = {"urls": ["https://fora.test/x", "https://novo.test:25/"]}
    answer = client.post(f"/api/v1{TO}", json=sent, headers=web.token(Role.OPERATOR)).json()
    assert [each["fate"] for each in answer["urls"]] == ["refused", "refused"]
    assert "domain:fora.test" in answer["urls"][0]["why"]
    assert "port 25" in answer["urls"][1]["why"]
    assert not any("fora.test" in seed for seed in seeds(web))
    page = client.post(TO, data={"urls": "https://fora.test/x", "csrf": web.csrf(client)}).text
    assert "Nothing was added." in page
    assert "not added" in page


def test_a_collection_gets_no_more_seeds_than_its_form_takes(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 44: a program that adds in a loop is stopped before no change of the collection could be saved."""
    monkeypatch.setattr("teia.collections.add_urls.MAX_SEEDS", len(seeds(web)) + 2)
    client, token = web.client(), web.token(Role.OPERATOR)

    def add(*names: str) -> tuple[int, str]:
        sent = {"urls": [f"https://novo.test/{name}" for name in names]}
        answer = client.post(f"/api/v1{TO}", json=sent, headers=token)
        return answer.status_code, answer.json().get("message", "")

    assert add("a") == (200, "")
    before = seeds(web)
    assert add("b", "c") == (400, "4 seeds exceed the maximum of 3")
    assert seeds(web) == before
    assert add("a", "b") == (200, ""), "what is a seed already is none more"
    operator = web.client(Role.OPERATOR)
    page = operator.post(TO, data={"urls": "https://novo.test/d", "csrf": web.csrf(operator)})
    assert (page.status_code, "4 seeds exceed the maximum of 3" in page.text) == (400, True)


def test_so_many_are_taken_at_a_time(web: Web) -> None:
    config = saved(web.installation.root, "main").config
    many = [f"https://x.test/{n}" for n in range(MAX_URLS + 1)]
    with pytest.raises(WrongUrls, match="201 URLs exceed the maximum of 200 at a time"):
        check_urls(many, config, None)
    assert {each.fate for each in check_urls(many[:MAX_URLS], config, None)} == {"added"}
    scoped(web, include=[])
    page = web.client(Role.OPERATOR).get(TO).text
    assert "200 at most" in page
    assert "that of its seeds" in page
