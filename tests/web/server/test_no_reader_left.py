"""Every page leaves the files that it has read: a reader in the middle of a query lets SQLite's log grow."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from teia.web.access.roles import Role
from teia.web.app import list_routes
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.readers import is_read, without_garbage_collection
from tests.waiting import until
from tests.web.conftest import Web, indexed

from .test_auth import address_of

STREAMS = ("/events", "/api/v1/events")
WORDS = ["casa", "rio", "lua", "mar", "sol", "pedra", "vento", "fogo", "terra", "nuvem", "folha", "areia"]


@pytest.fixture(scope="session")
def crawled_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that was stopped with URLs waiting; more than a page of the interface shows at once."""
    chance = random.Random(1)
    pages = {f"/{word}/{other}": html(text=" ".join(chance.choices(WORDS, k=40))) for word in WORDS for other in WORDS}
    web = ScriptedWeb({"x.test": {"/": html(*pages), **pages}})
    return indexed(crawl_web(web, tmp_path_factory.mktemp("waiting"), "x.test/", limits__pages=3).data)


@pytest.mark.heavy
def test_no_page_leaves_a_reader_behind(web: Web) -> None:
    files = sorted(web.installation.root.path.glob("*/cells/*/frontier.sqlite"))
    client, url = web.client(Role.ADMIN), "http://x.test/casa/rio"
    routes = [route for route in list_routes(web.app) if route.method == "GET" and not route.path.endswith(STREAMS)]
    assert len(routes) > 100
    with without_garbage_collection():
        for route in routes:
            address, params = address_of(route, web), {"url": url, "q": "casa", "n": "1", "host": "x.test"}
            # Some are counted in the background first.
            until(lambda: client.get(address, params=params).status_code != 503, address, within_s=20)  # noqa: B023
            until(lambda: not any(map(is_read, files)), f"{address} leaves the files", within_s=5)
