"""The page of the API: every route of the document, with a line that runs (UX 1, the embedder)."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import pytest

from teia.collections.settings import change
from teia.records import Edit, Operator
from teia.web.access.roles import Role
from teia.web.app import list_routes
from tests.web.conftest import Web, some_crawl
from tests.web.labs import keep_plan

ELSEWHERE = {"/api/v1/lab/compare"}
"""What needs two of something: one line cannot have both."""


def parsed(line: str, token: str) -> tuple[str, str, dict[str, str], Any]:
    """A line as a shell and curl would take it: method, address, headers, body."""
    words = shlex.split(line.replace("$TOKEN", token))
    assert words[0] == "curl"
    headers, body, method = {}, None, "GET"
    rest = iter(words[1:-1])
    for word in rest:
        value = next(rest)
        if word == "-H":
            name, _, said = value.partition(": ")
            headers[name] = said
        elif word == "-d":
            method, body = "POST", json.loads(value)
        else:
            assert word == "-X"
            method = value
    return method, urlsplit(words[-1])._replace(scheme="", netloc="").geturl(), headers, body


@pytest.mark.heavy
def test_every_route_of_the_document_has_a_line_that_runs(web: Web) -> None:
    keep_plan(web.installation.lab.stored)
    some_crawl(web)
    token = web.token(Role.ADMIN)["authorization"].partition(" ")[2]
    view = web.client().get("/api/v1/api", headers={"authorization": f"Bearer {token}"}).json()
    document = web.client().get("/api/v1/openapi.json").json()
    listed = {(each["method"].lower(), each["path"]) for each in view["routes"]}
    assert listed == {(method, path) for path, each in document["paths"].items() for method in each}
    assert view["others"] == 0
    client = web.client()
    for each in view["routes"]:
        method, address, headers, body = parsed(each["curl"], token)
        assert method == each["method"], each["curl"]
        if method == "GET" and each["path"] not in ELSEWHERE:
            answer = client.get(address, headers=headers)
            assert answer.status_code in {200, 303}, (each["curl"], answer.text[:300])
        elif body is not None:
            content = document["paths"][each["path"]]["post"]["requestBody"]["content"]["application/json"]["schema"]
            jsonschema_rs.validate({**content, "components": document["components"]}, body)


def test_a_seed_that_was_typed_without_its_slash_is_an_example_too(web: Web) -> None:
    """Seeds are kept as somebody typed them; the lines have what they mean."""
    for typed in ("x.test", "https://x.test", "HTTP://X.test "):
        change(web.installation.root, "main", [Edit("collection.seeds", Operator.SET, [typed])], web.installation.clock)
        answer = web.client().get("/api")
        assert answer.status_code == 200, typed
        assert "%2F%2Fx.test%2F" in answer.text


def test_the_page_has_what_a_role_may_and_each_line_is_whole(web: Web) -> None:
    roles = {(gate.method, gate.path): gate.role for gate in list_routes(web.app)}
    seen = {}
    for role in Role:
        page = web.client(role).get("/api")
        twin = web.client(role).get("/api/v1/api").json()
        assert page.status_code == 200
        assert len(page.content) < 100_000
        assert all(roles[each["method"], each["path"]] <= role for each in twin["routes"])
        found = re.findall(r'<pre class="paste" tabindex="0"[^>]*><code>(.*?)</code>', page.text)
        lines = [unescape(line) for line in found]
        assert lines == [each["curl"] for each in twin["routes"]]
        assert ("$TOKEN" in page.text) == (role > Role.PUBLIC), "what needs no token has none"
        seen[role] = len(lines)
    assert sorted(seen.values()) == list(seen.values())
    assert len(set(seen.values())) == len(Role)


def test_a_name_from_elsewhere_cannot_leave_its_line(web: Web) -> None:
    """The host of a request is repeated in lines that people paste; so a shell takes it for one word."""
    for host in ("127.0.0.1:80;id", "127.0.0.1:80$(id)", "127.0.0.1:80 -o x"):
        assert web.client().get("/api/v1/api", headers={"host": host}).status_code == 421, "it is no name of ours"
    for host in ("localhost", "127.0.0.1:8700", "[::1]:8700"):
        routes = web.client().get("/api/v1/api", headers={"host": host}).json()["routes"]
        assert all(len(shlex.split(each["curl"], posix=True)) == 2 for each in routes if each["method"] == "GET")
        assert all("$(" not in each["curl"].replace("'", "") or f"'http://{host}" in each["curl"] for each in routes)


def test_every_route_is_described_in_the_readers_language(web: Web) -> None:
    page = web.client(Role.ADMIN).get("/api", headers={"accept-language": "pt-BR"}).text
    assert "Lista as coleções e o estado de cada uma." in page
    assert 'lang="en"' not in page.partition("<main")[2].partition("</main>")[0]
