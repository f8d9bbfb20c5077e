"""Who may what: every route with every role, and what a foreign page can send (RELIABILITY 40, 41)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from httpx2 import Response

from teia.web.access.roles import ALL_SCOPES, Role, TokenScope
from teia.web.app import list_routes
from teia.web.server.json_routes import API, RouteAccess
from tests.web.conftest import PASSWORD, Web, some_crawl
from tests.web.labs import some_run


def address_of(gate: RouteAccess, web: Web, **here: str) -> str:
    """An address a gate stands at, with something there for every part of its path; `here` are other parts."""
    node = web.installation.cluster.view().here
    parts = {"collection": "main", "host": "x.test", "name": "outcomes", "node": node}
    if "{number}" in gate.path:
        parts["number"] = str(some_run(web))
    if "{run}" in gate.path:
        parts["run"] = str(some_crawl(web))
    return re.sub(r"{(\w+)(:path)?}", lambda part: (parts | here).get(part[1], "x"), gate.path)


def ask(web: Web, gate: RouteAccess, client: Any, url: str, **how: Any) -> Response:
    answer: Response = client.request(gate.method, address_of(gate, web), params={"url": url}, **how)
    return answer


def test_every_route_has_its_role(web: Web) -> None:
    known = {(gate.method, gate.path) for gate in list_routes(web.app)}
    found, others = set(), set()
    waiting = list(web.app.routes)
    while waiting:
        route = waiting.pop()
        if isinstance(route, APIRoute):
            found |= {(method, route.path) for method in route.methods - {"HEAD"}}
        elif hasattr(route, "original_router"):
            waiting += route.original_router.routes
        else:
            others.add(route.path)
    assert found == known
    assert others == {"/api/v1/openapi.json", "/static"}, "what has no role is for everybody"
    assert len(known) == len(list_routes(web.app)), "a route is there twice"


@pytest.mark.heavy
def test_the_table_of_routes_and_roles_is_kept(web: Web) -> None:
    """Every route x every role, by session and by token: refused exactly where the role is too small."""
    people, url, anybody = {role: web.client(role) for role in Role}, web.some_url(), web.client()
    tokens = {role: web.token(role) for role in Role if role is not Role.PUBLIC}
    for gate in list_routes(web.app):
        for role, client in people.items():
            if gate.path == "/logout":
                continue  # would sign the client out
            headers = {} if role is Role.PUBLIC or gate.method == "GET" else {"x-csrf-token": web.csrf(client)}
            by_session = ask(web, gate, client, url, headers=headers)
            refused = by_session.status_code in (401, 403) or "/login" in by_session.headers.get("location", "")
            is_sign_in = gate.path.startswith("/login")
            assert refused == (role < gate.role) or is_sign_in, (gate, role, by_session.status_code)
            if role is not Role.PUBLIC:
                by_token = ask(web, gate, anybody, url, headers=tokens[role])
                assert (by_token.status_code in (401, 403)) == (role < gate.role) or is_sign_in, (gate, role)


SCOPES: dict[TokenScope | None, str] = {
    None: "GET /api /health /help/figures /help/query",
    TokenScope.METRICS: "GET /metrics",
    TokenScope.SEARCH: """
        GET / /complete /copy /indexnow /login /opensearch.xml /page /pages /raw/{signed:path} /search /search.rss
            /c/{collection}/calendar
            /c/{collection}/copy /c/{collection}/diff /c/{collection}/feed/{key} /c/{collection}/page
            /c/{collection}/unknown /websub/{collection}/{key} /c/{collection}/cdx /c/{collection}/cdx/search/cdx
            /c/{collection}/memento/{stamp}/{uri:path} /c/{collection}/timegate/{uri:path}
            /c/{collection}/timemap/{part}/{uri:path}
        POST /choose /indexnow /login /login/first /logout /websub/{collection}/{key}
    """,
    TokenScope.READ: """
        GET /c /c/new /cluster /cluster/nodes/{node} /events /hosts /schedule/preview /settings/data /status
            /c/{collection} /c/{collection}/clone /c/{collection}/data /c/{collection}/edit /c/{collection}/freshness
            /c/{collection}/frontier /c/{collection}/frontier.jsonl /c/{collection}/frontier/add
            /c/{collection}/frontier/bulk /c/{collection}/hosts /c/{collection}/hosts.csv
            /c/{collection}/hosts/{host} /c/{collection}/hosts/{host}/feasibility /c/{collection}/reports
            /c/{collection}/reports/{name} /c/{collection}/reports/{name}/csv /c/{collection}/sql
            /c/{collection}/sql.csv /c/{collection}/status /c/{collection}/watches
            /c/{collection}/runs /c/{collection}/runs/{run}
            /lab /lab/compare /lab/plan /lab/reproduce /lab/runs/{number} /lab/runs/{number}/csv
            /lab/runs/{number}/files/{file} /lab/runs/{number}/svg /lab/simulate /lab/whatif
    """,
    TokenScope.CRAWL: """
        POST /c /c/new /draft /scope/test
            /c/{collection}/add /c/{collection}/check /c/{collection}/command /c/{collection}/data/audit
            /c/{collection}/edit /c/{collection}/frontier/add /c/{collection}/frontier/bulk
            /c/{collection}/hosts/{host} /c/{collection}/needs /c/{collection}/remove /c/{collection}/scope/test
            /c/{collection}/watches/add /c/{collection}/watches/remove /c/{collection}/watches/try
    """,
    TokenScope.LAB: "POST /lab/plan /lab/reproduce /lab/runs/{number}/cancel /lab/simulate /lab/whatif",
    TokenScope.SETTINGS: """
        GET /settings/audit /settings/tokens /settings/users /settings/you
        POST /settings/tokens/make /settings/tokens/remove /settings/users/invite /settings/users/remove
            /settings/users/role /settings/you/password
    """,
}
"""What tokens of each scope are for; paths without the prefix of the API."""


def test_every_route_has_the_scope_that_is_written_down_for_it(web: Web) -> None:
    """RELIABILITY 40: a new route gets a scope by its path; here somebody says that it is the right one."""
    written = set()
    for scope, text in SCOPES.items():
        method = ""
        for word in text.split():
            method = word if word.isupper() else method
            written |= {(method, word, scope)} if not word.isupper() else set()
    found = {(gate.method, gate.path.removeprefix(API) or "/", gate.scope) for gate in list_routes(web.app)}
    assert found == written


@pytest.mark.heavy
def test_a_token_is_refused_exactly_where_its_scopes_are_not_for(web: Web) -> None:
    """UX 2.13: every route x a token that is for all but it; and what is read x a token that is for it alone."""
    url, anybody, accounts = web.some_url(), web.client(), web.installation.accounts
    but = {scope: accounts.make_token(f"but-{scope}", "ana", Role.ADMIN, ALL_SCOPES - {scope}) for scope in TokenScope}
    only = {scope: accounts.make_token(f"only-{scope}", "ana", Role.ADMIN, frozenset({scope})) for scope in TokenScope}
    for gate in list_routes(web.app):
        for scope, token in [*but.items()] if gate.scope is None else [(gate.scope, but[gate.scope])]:
            answer = ask(web, gate, anybody, url, headers={"authorization": f"Bearer {token}"})
            is_refused = answer.status_code == 403 and "this requires the scope" in answer.text
            assert is_refused == (gate.scope is scope), (gate, scope, answer.status_code)
        if gate.method == "GET" and gate.scope is not None and "/api/" in gate.path:
            answer = ask(web, gate, anybody, url, headers={"authorization": f"Bearer {only[gate.scope]}"})
            assert answer.status_code != 403, gate


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("headers", "brings_token"),
    [
        ({}, False),
        ({"origin": "http://evil.test"}, True),
        ({"referer": "http://evil.test/page"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),
    ],
)
def test_no_foreign_page_changes_anything(web: Web, headers: dict[str, str], brings_token: bool) -> None:
    client, url = web.client(Role.ADMIN), web.some_url()
    changes = [gate for gate in list_routes(web.app) if gate.method != "GET"]
    assert changes
    for gate in changes:
        token = {"x-csrf-token": web.csrf(client)} if brings_token else {}
        assert ask(web, gate, client, url, headers=headers | token).status_code == 403, gate
    assert web.installation.accounts.find_session(client.cookies["teia_session"]) is not None


def test_a_form_of_our_own_pages_is_taken(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    sent = {"command": "pause", "csrf": web.csrf(client)}
    answer = client.post("/c/main/command", data=sent, headers={"origin": "http://127.0.0.1:8700"})
    assert answer.status_code == 404, answer.text
    assert "no crawl of main is running" in answer.text


def test_a_foreign_name_is_not_answered(web: Web) -> None:
    """A page whose name was made to lead here reads nothing."""
    for host in ("evil.test", "127.0.0.1.evil.test", "", "localhost.evil.test:8700"):
        assert web.client().get("/", headers={"host": host}).status_code == 421
    for host in ("localhost", "localhost:8700", "127.0.0.1", "[::1]:8700", "LOCALHOST"):
        assert web.client().get("/", headers={"host": host}).status_code == 200


def test_a_bad_token_is_refused_even_where_nobody_needs_one(web: Web) -> None:
    for value in ("Bearer no", "Basic YTpi", "Bearer", "x"):
        assert web.client().get("/api/v1/search", headers={"authorization": value}).status_code == 401


def test_the_first_account_is_made_once(web: Web) -> None:
    code = web.installation.accounts.invite(Role.ADMIN)
    first = {"code": code, "name": "ana", "password": PASSWORD}
    assert web.client().post("/login/first", data=first).status_code == 303
    again = web.client().post("/login/first", data={**first, "name": "eva"})
    assert again.status_code == 400
    assert [user.name for user in web.installation.accounts.users()] == ["ana"]


@pytest.mark.parametrize(
    ("name", "password"), [("ana", "short"), ("", PASSWORD), ("a b", PASSWORD), ("x" * 65, PASSWORD)]
)
def test_a_bad_name_or_password_costs_no_invitation(web: Web, name: str, password: str) -> None:
    code = web.installation.accounts.invite(Role.ADMIN)
    refused = web.client().post("/login/first", data={"code": code, "name": name, "password": password})
    assert refused.status_code == 400
    good = web.client().post("/login/first", data={"code": code, "name": "ana", "password": PASSWORD})
    assert good.status_code == 303


def test_signing_in_needs_the_password_and_signing_out_ends_it(web: Web) -> None:
    web.client(Role.VIEWER)
    name = web.installation.accounts.users()[0].name
    client = web.client()
    assert client.post("/login", data={"name": name, "password": "something else"}).status_code == 401
    assert client.post("/login", data={"name": "nobody", "password": PASSWORD}).status_code == 401
    signed_in = client.post("/login", data={"name": name, "password": PASSWORD, "to": "/c"})
    assert signed_in.headers["location"] == "/c"
    assert "httponly" in signed_in.headers["set-cookie"].lower()
    assert "samesite=lax" in signed_in.headers["set-cookie"].lower()
    assert client.get("/c").status_code == 200
    secret = client.cookies["teia_session"]
    assert client.post("/logout", data={"csrf": web.csrf(client)}).status_code == 303
    assert web.installation.accounts.find_session(secret) is None


@pytest.mark.parametrize("to", ["http://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", "\n/x"])
def test_nobody_is_led_away_after_signing_in(web: Web, to: str) -> None:
    web.client(Role.VIEWER)
    sent = {"name": web.installation.accounts.users()[0].name, "password": PASSWORD, "to": to}
    assert web.client().post("/login", data=sent).headers["location"] == "/"


def test_attempts_to_sign_in_are_counted(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 3)
    client = web.client()
    codes = [client.post("/login", data={"name": "x", "password": "y" * 10}).status_code for _ in range(5)]
    assert codes == [401, 401, 401, 429, 429]


def test_secrets_are_kept_as_hashes_in_a_file_of_the_owners(web: Web) -> None:
    token = web.token(Role.ADMIN)["authorization"].partition(" ")[2]
    client = web.client(Role.ADMIN)
    path = web.installation.root.path / "web.sqlite"
    assert path.stat().st_mode & 0o077 == 0
    stored = path.read_bytes() + path.with_name("web.sqlite-wal").read_bytes()
    for secret in (token, client.cookies["teia_session"], PASSWORD):
        assert secret.encode() not in stored


def test_where_nothing_can_be_written_people_are_let_in_all_the_same(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the operator has to see that it is full; only when somebody was last here is not known."""
    monkeypatch.setattr("teia.web.access.accounts.SEEN_RESOLUTION_S", -1.0)
    viewer, token = web.client(Role.VIEWER), web.token(Role.VIEWER)
    web.installation.accounts._db.execute("PRAGMA query_only = ON")
    for _ in range(2):
        assert viewer.get("/c/main").status_code == 200
        assert web.client().get("/c/main", headers=token).status_code == 200
    web.installation.accounts._db.execute("PRAGMA query_only = OFF")
