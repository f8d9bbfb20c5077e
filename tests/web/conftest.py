"""A small crawled and indexed root behind the application, and people who may ask it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import anyio.from_thread
import argon2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.datastructures import State

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.indexer.process import CollectionFollower
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.app import make_app
from teia.web.events import Hub
from teia.web.server.installation import Installation
from tests.crawler.webs import ScriptedWeb, crawl_web, html

BASE = "http://127.0.0.1:8700"
PASSWORD = "uma senha comprida"  # of nobody
QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
XSS = "<script>alert(1)</script>"
PAGES = {
    "/": html("/lei", "/renda", "/xss", text="O começo de tudo."),
    "/lei": html("/renda", text="A lei do imposto de renda de 2026."),
    "/renda": html("/", text="A renda das pessoas."),
    "/xss": html("/", text=f"perigo {escape(XSS)} &lt;img src=x onerror=alert(2)&gt; perigo"),
}  # fmt: skip


@pytest.fixture(scope="session")
def crawled_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawled and indexed collection; copied by who writes in it."""
    return indexed(crawl_web(ScriptedWeb({"x.test": PAGES}), tmp_path_factory.mktemp("web"), "x.test/").data)


def indexed(data: Path) -> Path:
    """The same folder, once all its pages can be found."""

    async def index() -> None:
        following = CollectionFollower(open_root(data), "main", WallClock())
        try:
            await following.finish()
        finally:
            await following.close()

    asyncio.run(index())
    return data


@dataclass
class Web:
    """The application, and clients that are signed in as somebody."""

    app: FastAPI
    installation: Installation

    def client(self, role: Role = Role.PUBLIC) -> TestClient:
        """A browser; the roles but PUBLIC are signed in."""
        client = TestClient(self.app, BASE, follow_redirects=False, raise_server_exceptions=False)
        client.portal = EVENT_LOOPS[0] if EVENT_LOOPS else None  # none outside of tests: scripts/screenshots
        if role is not Role.PUBLIC:
            code, name = (
                self.installation.accounts.invite(role),
                f"{role.word}-{len(self.installation.accounts.users())}",
            )
            answer = client.post("/login/first", data={"code": code, "name": name, "password": PASSWORD})
            assert answer.status_code == 303, answer.text
        return client

    def token(self, role: Role) -> dict[str, str]:
        """The header of a program of this role."""
        name = f"test-{len(self.installation.accounts.tokens())}"
        return {"authorization": f"Bearer {self.installation.accounts.make_token(name, 'test', role)}"}

    def csrf(self, client: TestClient) -> str:
        """The token that forms of this client's pages carry."""
        session = self.installation.accounts.find_session(client.cookies["teia_session"])
        assert session is not None
        return session.csrf

    def some_url(self) -> str:
        return str(self.client().get("/api/v1/search?q=imposto").json()["hits"][0]["url"])


def some_crawl(web: Web) -> int:
    """The number of a run of the collection that is recorded."""
    with CrawlReports(web.installation.root.control) as reports:
        found = reports.recorded_runs("main", 1)
        return int(found[0][0]) if found else reports.begin_run("main", web.installation.clock.now_s())


EVENT_LOOPS: list[anyio.from_thread.BlockingPortal] = []
"""The one event loop of all clients of this process, in a thread. By itself, a client starts one for each request."""


@pytest.fixture(scope="session", autouse=True)
def event_loop() -> Iterator[None]:
    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        EVENT_LOOPS.append(portal)
        yield
        EVENT_LOOPS.clear()


@pytest.fixture(scope="module", autouse=True)
def as_fast_as_they_can() -> Iterator[None]:
    """Let tests send requests as fast as the machine can; those of the limits set them themselves.

    Seen: with 429 requests of Memento clients were refused where the tests ran quickly.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 100_000)
        patch.setattr("teia.web.limits.REFUSED_S", 0.0)
        yield


APPS: list[FastAPI] = []
"""The one application of this process, once it was made: its routes take a quarter of a second, the rest nothing."""


def app_of(installation: Installation) -> FastAPI:
    """The application of an installation, new but for its routes."""
    if not APPS:
        APPS.append(make_app(installation))
    app = APPS[0]
    app.state = State({"installation": installation, "hub": Hub(), "access_table": app.state.access_table})
    app.middleware_stack = None  # with what it counted
    return app


@pytest.fixture
def web(crawled_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    shutil.copytree(crawled_data, tmp_path / "data")
    monkeypatch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
    clock = WallClock()
    installation = Installation(
        open_root(tmp_path / "data"), clock, Accounts(tmp_path / "data" / "web.sqlite", clock, QUICK)
    )
    yield Web(app_of(installation), installation)
    installation.close()
