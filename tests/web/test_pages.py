"""What we know of a page, the collections, and a crawl that is told something."""

from __future__ import annotations

import pytest

from teia.crawl.control import Command, Control
from teia.web.roles import Role

from .conftest import Web


def test_a_page_says_who_links_to_it(web: Web) -> None:
    url = web.some_url()
    twin = web.client().get("/api/v1/c/main/page", params={"url": url}).json()
    page = web.client().get("/c/main/page", params={"url": url}).text
    assert twin["url"] == url
    assert len(twin["links_in"]) == 1
    assert len(twin["versions"]) == 1
    assert twin["versions"][0]["digest"][:16] in page
    assert "Links here" in page
    assert web.client().get("/api/v1/pages", params={"url": url}).json() == twin
    assert web.client().get("/page", params={"url": url}).headers["location"].startswith("/c/main/page?url=")


@pytest.mark.parametrize("url", ["http://x.test/never", "nonsense", "", "javascript:alert(1)"])
def test_a_page_nobody_knows_is_said_to_be_unknown(web: Web, url: str) -> None:
    answer = web.client().get("/api/v1/c/main/page", params={"url": url})
    assert answer.status_code in (400, 404)
    assert answer.json()["message"]


def test_collections_are_for_those_who_signed_in(web: Web) -> None:
    assert web.client().get("/c").headers["location"].startswith("/login?to=")
    assert web.client().get("/api/v1/c").json()["next"] == "sign in"
    page = web.client(Role.VIEWER).get("/c").text
    assert ">main</a>" in page
    (line,) = web.client(Role.VIEWER).get("/api/v1/c").json()["collections"]
    assert (line["name"], line["state"], line["pages"]) == ("main", "finished", 4)
    status = web.client(Role.VIEWER).get("/api/v1/status").json()
    assert status["pages"] == 4
    assert status == web.client(Role.VIEWER).get("/api/v1/c/main/status").json()


def test_an_operator_pauses_a_running_crawl_and_it_is_written_down(web: Web) -> None:
    control = Control(web.site.root.path / "control.sqlite")
    now_s = web.site.clock.now_s()
    control.begin("main", now_s)
    control.account("main", {**web.client(Role.VIEWER).get("/api/v1/status").json(), "state": "running"}, now_s)
    assert ">Pause<" not in web.client(Role.VIEWER).get("/c").text, "what one may not do is not shown"
    client = web.client(Role.OPERATOR)
    assert ">Pause<" in client.get("/c").text
    answer = client.post("/c/main/command", data={"command": "pause", "csrf": web.csrf(client)})
    assert answer.headers["location"] == "/c/main"
    assert control.take("main", now_s) == [Command.PAUSE]
    by_api = web.client().post("/api/v1/c/main/command", json={"command": "stop"}, headers=web.token(Role.OPERATOR))
    assert "nothing is lost" in by_api.json()["message"]
    assert control.take("main", now_s) == [Command.STOP]
    assert [line.what for _, line in web.site.accounts.noted(10)][:2] == ["stop", "pause"]
    refused = web.client().post("/api/v1/c/main/command", json={"command": "explode"}, headers=web.token(Role.ADMIN))
    assert refused.status_code == 400
    control.close()
