"""A real cluster of two nodes behind the pages of one of them; the other is killed (UX 8 and 20)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext

from teia.clock import WallClock
from teia.cluster.search.messages import format_cells
from teia.store.root import open_root
from teia.urls import host_of
from teia.web.access.accounts import Accounts
from teia.web.app import make_app
from teia.web.server.installation import Installation
from tests.cluster.conftest import run_servers
from tests.cluster.search.test_search_nodes import Searchable
from tests.system.labs import running_lab
from tests.waiting import until
from tests.web.conftest import QUICK, Web
from tests.web.test_browser import Live, Served, watched

SPEC = """
seed = 21
hosts = 9
pages = 60
sites = { theta = 0.2 }
errors = { scale = 0 }
"""
SESSION_S = 6.0
SHOWN_S = 2.0
"""UX 20: so soon after a node was declared dead the ring shows the move."""

BUSY_S = 8.0
"""What a machine that is busy with other things may add."""


@dataclass(frozen=True)
class Two:
    """Nodes a and b, and the pages of a's folder."""

    nodes: Searchable
    live: Live
    context: BrowserContext
    hosts: list[str]

    def twin(self, address: str) -> Any:
        return self.context.request.get(f"/api/v1{address}").json()

    def is_searched_whole(self) -> bool:
        found = self.twin("/search?q=de")
        shards = found.get("shards", {})  # nobody may be there yet to answer
        return bool(found.get("total")) and shards["asked"] == shards["answered"]

    def kept_by(self, node: str) -> dict[str, int]:
        """The cells of a node, with their numbers."""
        return {cell["id"]: cell["number"] for cell in self.twin("/cluster")["cells"] if cell["keeper"] == node}


@contextmanager
def served(data: Path) -> Iterator[Live]:
    """The application over a node's folder, as `teia serve --data` has it."""
    clock = WallClock()
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    app = make_app(installation)
    server = Served(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, within_s=20)
        yield Live(Web(app, installation), f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(20)
        installation.close()


@pytest.fixture
def two(tmp_path: Path, browser: Browser) -> Iterator[Two]:
    with running_lab(tmp_path, SPEC, 207, truth=True) as lab:
        for nats in run_servers(tmp_path / "nats", 1):
            nodes = Searchable(tmp_path, nats, lab, 0.02, SESSION_S)
            try:
                nodes.start("a")
                nodes.start("b")
                until((nodes.data("a") / "cluster.json").exists)
                with served(nodes.data("a")) as live:
                    context = live.context(browser, viewport={"width": 1280, "height": 800}, locale="en")
                    yield Two(nodes, live, context, sorted({host_of(url) for url in lab.truth()}))
                    context.close()
            finally:
                nodes.end()


@pytest.mark.slow
def test_a_node_is_killed_and_the_ring_shows_who_has_its_cells(two: Two) -> None:
    """20; and 8, of a cluster: while nobody answers for its cells the others do, and it is said which are missing."""
    until(lambda: bool(two.kept_by("a") and two.kept_by("b")) and two.is_searched_whole())
    ring = two.context.new_page()
    said = watched(ring)
    ring.goto("/cluster")
    lost = two.kept_by("b")
    host = next(host for host in two.hosts if two.twin(f"/cluster?host={host}")["where"]["homes"][0]["keeper"] == "b")
    asked = len(two.kept_by("a")) + len(lost)

    two.nodes.kill("b")
    search = two.context.new_page()
    search.goto("/search?q=de")
    assert f"{asked - len(lost)} of {asked} cells answered" in search.inner_text(".sum")
    assert search.locator(".note").count() >= 1
    assert search.locator(".hits > li article").count() >= 1
    assert f"cells {format_cells(sorted(lost.values()))}" in " ".join(two.twin("/search?q=de")["warnings"])

    until(lambda: "declared dead node=b" in two.nodes.log_text("a"))
    within_ms = 1000 * (SHOWN_S + BUSY_S)
    for cell in lost:
        ring.wait_for_selector(f'[data-cell="{cell}"][data-node="a"]', state="attached", timeout=within_ms)
    rows = ring.locator('[data-live-list="moves"] tr', has_text="it died")
    ring.wait_for_function(
        "n => [...document.querySelectorAll('[data-live-list=\"moves\"] tr')]"
        ".filter(row => row.innerText.includes('it died')).length >= n",
        arg=len(lost), timeout=within_ms,
    )  # fmt: skip
    assert {row.locator("td.n").last.inner_text() for row in rows.all()} == {"0"}, "URLs lost"

    ring.fill("#where ~ form input[name=host]", host)
    ring.click("#where ~ form button")
    assert "node a" in ring.inner_text("section[aria-labelledby=where] ul.links")
    assert said == []
