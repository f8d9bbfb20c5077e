"""What we know of a page, the collections, and a crawl that is told something."""

from __future__ import annotations

import re
from html import unescape

import pytest

from teia.collections.control_file import GiveCommand, Inbox
from teia.records import Command
from teia.web.access.roles import Role

from .conftest import Web


def test_a_page_says_who_links_to_it(web: Web) -> None:
    url = web.some_url()
    twin = web.client().get("/api/v1/c/main/page", params={"url": url}).json()
    page = web.client().get("/c/main/page", params={"url": url}).text
    assert twin["url"] == url
    assert len(twin["links_in"]) == 1
    assert len(twin["versions"]) == 1
    assert twin["versions"][0]["digest"][:16] in page
    assert "Linked from" in page
    assert web.client().get("/api/v1/pages", params={"url": url}).json() == twin
    assert web.client().get("/page", params={"url": url}).headers["location"].startswith("/c/main/page?url=")


@pytest.mark.parametrize("url", ["http://x.test/never", "nonsense", "", "javascript:alert(1)"])
def test_a_page_nobody_knows_is_reported_as_unknown(web: Web, url: str) -> None:
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
    same = web.client(Role.VIEWER).get("/api/v1/c/main/status").json()
    same["disk"]["free"] = status["disk"]["free"]  # other processes write to the disk between the two
    assert same["span"] >= status["span"], "the span of the charts ends at the request"
    same["span"] = status["span"]
    assert status == same


def test_programs_find_twins_and_feeds_in_the_head_of_a_page(web: Web) -> None:
    """UX 2.0: `<link rel=alternate>`, the same address as at the foot; nothing where there is no twin."""
    client = web.client(Role.OPERATOR)
    client.post("/c/main/watches/add", data={"query": "imposto", "csrf": web.csrf(client)})
    pattern = r'<link rel="alternate" type="([^"]+)" title="[^"]*" href="([^"]+)">'
    for address in ("/", "/search?q=imposto&c=main", "/c", "/c/main", "/c/main/frontier?why=next", "/c/main/watches"):
        text = client.get(address).text
        found = dict(re.findall(pattern, text[: text.index("</head>")]))
        twin = found["application/json"]
        assert f'<a href="{twin}" rel="alternate" type="application/json">' in text
        assert client.get(unescape(twin)).headers["content-type"] == "application/json", address
        if address.startswith("/search"):
            assert client.get(unescape(found["application/rss+xml"])).status_code == 200
        if address.endswith("/watches"):
            assert client.get(unescape(found["application/atom+xml"])).status_code == 200
    for address in ("/login", "/nothing"):
        assert 'rel="alternate"' not in web.client().get(address).text


def test_an_operator_pauses_a_running_crawl_and_it_is_written_down(web: Web) -> None:
    control = Inbox(web.installation.root.path / "control.sqlite")
    now_s = web.installation.clock.now_s()
    control.begin("main", now_s)
    control.write_account("main", {**web.client(Role.VIEWER).get("/api/v1/status").json(), "state": "running"}, now_s)
    assert ">Pause<" not in web.client(Role.VIEWER).get("/c").text, "what one may not do is not shown"
    client = web.client(Role.OPERATOR)
    assert ">Pause<" in client.get("/c").text
    answer = client.post("/c/main/command", data={"command": "pause", "csrf": web.csrf(client)})
    assert answer.headers["location"] == "/c/main"
    (paused,) = control.pending("main", GiveCommand)
    assert paused.body.command is Command.PAUSE
    by_api = web.client().post("/api/v1/c/main/command", json={"command": "stop"}, headers=web.token(Role.OPERATOR))
    assert "nothing is lost" in by_api.json()["message"]
    assert control.pending("main", GiveCommand)[1].body.command is Command.STOP
    assert [line.what for _, line in web.installation.accounts.logged_actions(10)][:2] == ["stop", "pause"]
    refused = web.client().post("/api/v1/c/main/command", json={"command": "explode"}, headers=web.token(Role.ADMIN))
    assert refused.status_code == 400
    control.close()


def test_no_form_stands_in_a_paragraph(web: Web) -> None:
    """A form ends the paragraph that it is written in, and then stands outside of what should place it."""
    client, url = web.client(Role.ADMIN), web.some_url()
    for path in ("/c", "/c/main", "/c/main/data", "/c/main/hosts/x.test", "/c/main/watches", "/settings/tokens"):
        page = client.get(path).text
        assert "<form" in page
        assert not re.search(r"<p\b[^>]*>(?:(?!</p>).)*<form", page, re.DOTALL), path
    page = client.get("/c/main/page", params={"url": url}).text
    assert not re.search(r"<p\b[^>]*>(?:(?!</p>).)*<form", page, re.DOTALL)
