"""What holds for every request: sizes, rates, headers (RELIABILITY 38, 44)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teia.clock import VirtualClock
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.auth import Buckets
from teia.web.server.headers import SecurityMiddleware
from tests.web.conftest import XSS, Web

LOCAL = [(b"host", b"localhost")]


def test_every_answer_carries_the_policy(web: Web) -> None:
    for path in ("/", "/search?q=x", "/nowhere", "/c", "/static/teia.css", "/api/v1/search", "/api/v1/openapi.json"):
        headers = web.client().get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_hold_no_inline_script_or_style(web: Web) -> None:
    client = web.client(Role.ADMIN)
    for path in ("/", "/search?q=perigo", "/c", "/c/main", "/login", "/nowhere"):
        text = client.get(path).text.lower()
        assert " style=" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count('<script type="module" src="/static/'), path


def test_what_a_page_wrote_is_text(web: Web) -> None:
    text = web.client().get("/search?q=perigo").text
    assert "<mark>perigo</mark>" in text
    assert "&lt;script&gt;" in text
    assert XSS not in text
    assert "<img" not in text


def test_a_body_that_is_too_long_is_not_read(web: Web) -> None:
    long = b"x" * (limits.BODY_BYTES + 1)
    assert web.client().post("/login", content=long).status_code == 413
    chunks = (b"x" * 65_536 for _ in range(40))
    assert web.client().post("/login", content=chunks).status_code >= 400


def test_an_address_that_is_too_long_is_not_read(web: Web) -> None:
    assert web.client().get("/c?x=" + "x" * limits.TARGET_BYTES).status_code == 414


def test_a_bucket_gives_so_many_at_once_and_so_many_a_second() -> None:
    clock = VirtualClock(0)
    buckets = Buckets(clock, capacity=3, per_s=2)
    assert [buckets.acquire("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.acquire("b") == 0, "others have their own"
    asyncio.run(clock.advance(0.5))
    assert buckets.acquire("a") == 0
    asyncio.run(clock.advance(100))
    assert [buckets.acquire("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_too_many_requests_get_a_retry_after(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 5)
    monkeypatch.setattr("teia.web.limits.REQUESTS_PER_S", 1 / 600)  # however slow the machine, none is given back
    client = web.client()
    answers = [client.get("/health") for _ in range(8)]
    assert [answer.status_code for answer in answers][:5] == [200] * 5
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [(b"/c", b"localhost", 429), (b"/c", b"evil.test", 421), (b"/health", b"evil.test", 421)],
)
def test_a_refusal_comes_after_a_pause_unless_a_supervisor_asks(
    monkeypatch: pytest.MonkeyPatch, target: bytes, host: bytes, status: int
) -> None:
    """A client that sent the next request at once had 2,000 refusals a second, and others waited ten times as long."""
    monkeypatch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 1)
    monkeypatch.setattr("teia.web.limits.REFUSED_S", 0.1)
    middleware = SecurityMiddleware(_answer_ok, VirtualClock(0), ["localhost"])

    async def ask() -> tuple[list[int], float]:
        await _asked(middleware, b"/c", LOCAL)
        began = asyncio.get_running_loop().time()
        statuses = await asyncio.gather(*(_asked(middleware, target, [(b"host", host)]) for _ in range(20)))
        return statuses, asyncio.get_running_loop().time() - began

    statuses, took_s = asyncio.run(ask())
    assert statuses == [status] * 20
    assert (took_s >= 0.1) == (target != b"/health")


class Searches:
    """An application whose answers end when they may, behind the checks of every request."""

    def __init__(self) -> None:
        self.running, self.most, self.end = Counter[str](), Counter[str](), asyncio.Event()
        self.middleware = SecurityMiddleware(self._search, VirtualClock(0), ["localhost"])

    async def _search(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"][0]
        self.running[client] += 1
        self.most[client] = max(self.most[client], self.running[client])
        await self.end.wait()
        self.running[client] -= 1
        await _answer_ok(scope, receive, send)

    def ask(self, path: bytes, client: str = "127.0.0.5", query: bytes = b"") -> asyncio.Task[int]:
        return asyncio.create_task(_asked(self.middleware, path, LOCAL, client, query))


def test_searches_of_one_address_wait_for_each_other_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight connections of one address made searches of all others take ten times as long."""
    monkeypatch.setattr("teia.web.limits.SEARCHES_PER_ADDRESS", 2)

    async def scenario() -> None:
        searches = Searches()
        paths = [b"/search", b"/search.rss", b"/complete", b"/api/v1/search", b"/api/v1/complete"] * 2
        many = [searches.ask(path) for path in paths]
        many += [searches.ask(b"/search", query=each) for each in (b"q=x&as_of=%20", b"q=x&as_of=2026-01-01&as_of=")]
        many += [searches.ask(path, query=b"q=x&as_of=2026-01-01") for path in (b"/complete", b"/search.rss")]
        others = [
            searches.ask(b"/search", "127.0.0.6"),
            searches.ask(b"/", "127.0.0.7"),
            searches.ask(b"/c", "127.0.0.7"),
        ]
        await asyncio.sleep(0.05)  # time for a third search to begin, which must not
        assert searches.running == {"127.0.0.5": 2, "127.0.0.6": 1, "127.0.0.7": 2}
        searches.end.set()
        assert await asyncio.gather(*many, *others) == [200] * 17
        assert searches.most["127.0.0.5"] == 2
        assert searches.middleware._searching == {}, "addresses are not kept"

    asyncio.run(scenario())


def test_pages_and_searches_of_the_past_do_not_wait_for_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.SEARCHES_PER_ADDRESS", 1)

    async def scenario() -> None:
        searches = Searches()
        asked = [searches.ask(b"/search"), searches.ask(b"/"), searches.ask(b"/c")]
        asked += [searches.ask(b"/search", query=b"q=x&as_of=2026-01-01") for _ in range(2)]
        await asyncio.sleep(0.05)  # time for all to begin
        assert searches.running["127.0.0.5"] == 5
        searches.end.set()
        assert await asyncio.gather(*asked) == [200] * 5

    asyncio.run(scenario())


def test_a_search_that_waits_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.SEARCHES_PER_ADDRESS", 1)
    monkeypatch.setattr("teia.web.limits.SEARCH_WAIT_S", 0.05)

    async def scenario() -> None:
        searches = Searches()
        first, second = searches.ask(b"/search"), searches.ask(b"/search")
        assert await second == 503
        searches.end.set()
        assert await first == 200
        assert await searches.ask(b"/search") == 200, "the turn was not lost"

    asyncio.run(scenario())


# ---- whom we answer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8700", "127.0.0.1:1", "127.0.0.1.", "127.0.0.1.:8700", "localhost", "LocalHost:8700",
        "LOCALHOST.", "[::1]", "[::1]:8700", "[0:0:0:0:0:0:0:1]:8700", "[0000::0001]",
    ],
)  # fmt: skip
def test_our_own_names_are_answered_at_any_port(web: Web, host: str) -> None:
    assert web.client().get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8700.evil.test", "127.0.0.1:evil.test", "127.0.0.1:", "127.0.0.1:87 00", "127.0.0.1:+80",
        "127.0.0.1:99999", "127.0.0.1:8700:8700", "127.0.0.1:8700,evil.test", "127.0.0.1..", "127.0.0.1..:8700",
        "127.0.0.1.evil.test", "evil.test", "x.localhost", "localhost.evil.test", "localhost@evil.test",
        "evil.test@localhost", "localhost/evil.test", "localhost#evil.test", "localhost?evil.test",
        "[::1].evil.test", "[::1]evil.test", "[::1]:8700.evil.test", "[::1", "::1", "[::1%25lo]", "[::2]", "[]",
        "[127.0.0.1]", ".", "..", "", " ", ":8700", "127.1", "0x7f.0.0.1", "http://127.0.0.1", "loc\u00e1lhost",
    ],
)  # fmt: skip
def test_a_host_that_only_begins_like_ours_is_not_answered(web: Web, host: str) -> None:
    answer = web.client().get("/health", headers={"host": host.encode("latin-1")})
    assert answer.status_code == 421


def test_a_request_without_a_host_or_with_two_is_refused(web: Web) -> None:
    for headers in ([], [(b"host", b"localhost"), (b"host", b"localhost")], [(b"host", b"localhost"), (b"host", b"e")]):
        assert asyncio.run(_status(web, b"/health", headers)) == 400


def test_a_target_in_absolute_form_is_judged_by_its_own_host(web: Web) -> None:
    ours = [(b"host", b"localhost:8700")]
    for target, status in {
        b"http://localhost:8700/health": 200,
        b"HTTP://LOCALHOST:8700/health": 200,
        b"http://evil.test/health": 421,
        b"http://localhost:8700.evil.test/health": 421,
        b"http://localhost:8700@evil.test/health": 421,
        b"http://127.0.0.1:8700/health": 421,
        b"ftp://localhost:8700/health": 421,
        b"evil.test:443": 421,
        b"http://localhost:8700/nowhere": 404,
    }.items():
        assert asyncio.run(_status(web, target, ours)) == status, target
    assert asyncio.run(_status(web, b"http://localhost/health", [(b"host", b"evil.test")])) == 421


def test_what_a_proxy_says_of_the_host_is_not_believed(web: Web) -> None:
    said = {"x-forwarded-host": "evil.test", "forwarded": "host=evil.test", "x-host": "evil.test"}
    answer = web.client().get("/search?q=renda", headers=said)
    assert answer.status_code == 200
    assert "evil.test" not in answer.text
    ours = {"x-forwarded-host": "localhost", "forwarded": "host=localhost"}
    assert web.client().get("/health", headers={"host": "evil.test", **ours}).status_code == 421


def test_a_name_with_a_port_is_answered_at_that_port_alone() -> None:
    shield = SecurityMiddleware(_answer_ok, VirtualClock(0), ["Teia.example:8443", "::1"])
    for host, status in {
        b"teia.example:8443": 200,
        b"teia.example": 421,
        b"teia.example:80": 421,
        b"[::1]:9": 200,
    }.items():
        assert asyncio.run(_asked(shield, b"/", [(b"host", host)])) == status, host


async def _answer_ok(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("ok")(scope, receive, send)


async def _status(web: Web, target: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return await _asked(web.app, target, headers)


async def _asked(
    app: ASGIApp,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    client: str = "127.0.0.1",
    query: bytes = b"",
) -> int:
    """Ask as the server does: clients that send such requests are hard to find."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": target.decode(), "raw_path": target, "query_string": query, "root_path": "", "headers": headers,
        "client": (client, 1), "server": ("127.0.0.1", 8700), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return int(sent[0]["status"])
