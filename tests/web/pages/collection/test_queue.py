"""The frontier explorer (UX 2.8)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teia.clock import VirtualClock, WallClock
from teia.collections.settings import change
from teia.errors import CorruptFile
from teia.records import Edit, Operator
from teia.store.root import open_root
from teia.views.queue import QueueFilter
from teia.web import limits
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.pages.collection.queue import as_lines
from teia.web.server.installation import Installation
from tests.crawler.webs import ScriptedWeb, crawl_web, html, text_of
from tests.web.conftest import QUICK, Web, app_of

WORDS = ["casa", "rio", "lua", "mar", "sol", "pedra", "vento", "fogo"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that was stopped while URLs waited; copied by who writes in it."""
    pages = {f"/{word}": html(text=text_of(n)) for n, word in enumerate(WORDS)}
    pages["/"] = html(*(f"/{word}" for word in WORDS))
    settings = {"limits__pages": 2, "courtesy__response_factor": 0}  # a slow answer makes no long rest
    return crawl_web(ScriptedWeb({"x.test": pages}), tmp_path_factory.mktemp("cut"), "x.test/", **settings).data


@pytest.fixture
def cut(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Web:
    """The same behind the application."""
    monkeypatch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
    data, clock = tmp_path / "data", WallClock()
    shutil.copytree(stopped, data)
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    return Web(app_of(installation), installation)


def test_what_waits_is_listed_in_its_order_with_why(cut: Web) -> None:
    client = cut.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/frontier").json(), client.get("/c/main/frontier").text
    assert twin["whys"]["total"] == len(twin["rows"]) == 7
    assert [row["why"] for row in twin["rows"]][1:] == ["behind"] * 6
    assert [row["ahead"] for row in twin["rows"]] == list(range(7))
    assert [row["expected"] for row in twin["rows"]] == sorted(row["expected"] for row in twin["rows"])
    assert page.index("lua</bdi>") < page.index("mar</bdi>") < page.index("fogo</bdi>")
    assert "queued URLs" in page
    status = client.get("/api/v1/c/main/status").json()
    assert status["urls_queued"] == 7
    assert status["finish"]["host"] == "x.test"
    assert status["finish"]["seconds"] == pytest.approx(7 * status["finish"]["slot_s"], abs=0.1)
    assert "/hosts/x.test" in client.get("/c/main").text
    cut.installation.close()


def test_filters_and_pages(cut: Web) -> None:
    client = cut.client(Role.VIEWER)

    def rows(query: str) -> list[str]:
        answer = client.get(f"/api/v1/c/main/frontier?{query}")
        assert answer.status_code == 200, answer.text
        return [row["url"].rpartition("/")[2] for row in answer.json()["rows"]]

    assert rows("contains=ento") == ["vento"]
    assert rows("host=y.test") == rows("source=retry") == rows("depth=0") == []
    assert len(rows("depth=1&host=x.test")) == 7
    assert rows("n=3") + rows("n=3&offset=3") + rows("n=3&offset=6") == rows("")
    assert client.get("/api/v1/c/main/frontier?n=3").json()["next"] == 3
    assert "No queued URL matches" in client.get("/c/main/frontier?contains=zzz").text
    for query in ("depth=x", "n=1000", "offset=-1", "source=evil"):
        assert client.get(f"/c/main/frontier?{query}").status_code == 400, query
    cut.installation.close()


def test_the_reasons_of_the_list_are_those_that_are_counted(cut: Web) -> None:
    """UX 2.8: each reason can be asked for, and gives as many URLs as its count says."""
    client = cut.client(Role.VIEWER)
    whys = client.get("/api/v1/c/main/frontier").json()["whys"]
    for why in ("next", "resting", "behind", "retry", "suspect", "parked", "not_due"):
        found = client.get(f"/api/v1/c/main/frontier?why={why}").json()
        assert [row["why"] for row in found["rows"]] == [why] * whys[why], why
    page = client.get("/c/main/frontier?why=behind").text
    assert '<option value="behind" selected>others ahead on the host (6)</option>' in page
    assert "No queued URL matches" in client.get("/c/main/frontier?why=suspect").text
    assert client.get("/c/main/frontier?why=evil").status_code == 400
    operator = cut.client(Role.OPERATOR)
    assert "Drop…" in operator.get("/c/main/frontier").text
    assert "Drop…" not in operator.get("/c/main/frontier?why=behind").text, "a deed does not go by reasons"
    cut.installation.close()


def test_all_that_waits_can_be_taken_along(cut: Web) -> None:
    """UX 2.8, Export JSONL: the same URLs, reasons and weights as on the page, a line each."""
    client = cut.client(Role.VIEWER)
    answer = client.get("/c/main/frontier.jsonl")
    assert answer.headers["content-type"].startswith("application/jsonl")
    assert "main-frontier.jsonl" in answer.headers["content-disposition"]
    taken = {line["url"]: line for line in map(json.loads, answer.text.splitlines())}
    shown = client.get("/api/v1/c/main/frontier").json()
    assert len(taken) == shown["whys"]["total"] == 7
    for row in shown["rows"]:
        same = ("host", "why", "source", "since", "depth", "failures", "weight")
        assert {name: taken[row["url"]][name] for name in same} == {name: row[name] for name in same}
    assert client.get("/c/main/frontier.jsonl?contains=ento").text.count("\n") == 1
    assert client.get("/c/main/frontier.jsonl?why=next").text.count("\n") == 1
    assert client.get("/c/main/frontier.jsonl?host=y.test").text == ""
    assert client.get("/c/main/frontier.jsonl?depth=x").status_code == 400
    assert "frontier.jsonl?why=behind" in client.get("/c/main/frontier?why=behind").text
    cut.installation.close()


def test_an_export_reads_a_little_at_a_time_and_gives_its_turn_back(cut: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    client = cut.client(Role.VIEWER)
    monkeypatch.setattr("teia.views.queue.AT_ONCE", 2)
    whole = client.get("/c/main/frontier.jsonl").text
    assert len({json.loads(line)["url"] for line in whole.splitlines()}) == 7
    for _ in range(2):
        assert cut.installation.export_slots.acquire(blocking=False)
    assert client.get("/c/main/frontier.jsonl").status_code == 429
    cut.installation.export_slots.release()
    assert client.get("/c/main/frontier.jsonl").text == whole
    monkeypatch.setattr("teia.web.limits.EXPORT_S", -1.0)
    cut_short = client.get("/c/main/frontier.jsonl").text.splitlines()
    assert json.loads(cut_short[-1])["error"] == "too_long"
    cut.installation.export_slots.release()
    cut.installation.close()


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
def test_who_stops_reading_an_export_gives_the_turn_back(
    cut: Web, monkeypatch: pytest.MonkeyPatch, spec_version: str
) -> None:
    monkeypatch.setattr("teia.web.limits.EXPORT_GRACE_S", 0.2 - limits.EXPORT_S)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "asgi": {"spec_version": spec_version}}
    asyncio.run(as_lines(cut.installation, "main", QueueFilter())(scope, receive, send))
    assert all(cut.installation.export_slots.acquire(timeout=60) for _ in range(limits.EXPORTS_AT_ONCE))
    cut.installation.close()


def test_an_export_that_fails_says_so(cut: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it begins as every page does, and on the way in its last line."""
    client = cut.client(Role.VIEWER)

    def fails(*_: object) -> Any:
        raise CorruptFile(Path("frontier.sqlite"), "so and so")

    with monkeypatch.context() as broken:
        broken.setattr("teia.web.pages.collection.queue.host_table", fails)
        assert client.get("/c/main/frontier.jsonl").status_code >= 400
    with monkeypatch.context() as broken:
        broken.setattr("teia.views.queue.read_lane_urls", fails)
        last = json.loads(client.get("/c/main/frontier.jsonl").text.splitlines()[-1])
        assert (last["error"], last["message"]) == ("interrupted", "frontier.sqlite: so and so")
    assert client.get("/c/main/frontier.jsonl").text.count("\n") == 7, "the turns are given back"
    cut.installation.close()


@pytest.mark.parametrize(("weights", "most"), [("equal", 1.0), ("in_links", 2.0), ("pagerank", 2.0)])
def test_what_a_page_weighs_is_shown(cut: Web, weights: str, most: float) -> None:
    path = cut.installation.root.path / "main" / "teia.toml"
    path.write_text(path.read_text() + f'\n[refresh]\nweights = "{weights}"\n')
    client = cut.client(Role.VIEWER)
    found = client.get("/api/v1/c/main/frontier").json()
    assert (found["weights"], found["rows"][0]["weight"]) == (weights, most), "one page links to it"
    assert f'data-label="weight">{most:.2f}</td>' in client.get("/c/main/frontier").text
    cut.installation.close()


def test_an_empty_queue_is_reported(web: Web) -> None:
    client = web.client(Role.VIEWER)
    assert "The queue is empty." in client.get("/c/main/frontier").text
    assert client.get("/api/v1/c/main/frontier").json()["next_run"] is None
    edits = [Edit("schedule.start", Operator.SET, "2099-01-03 02:00"), Edit("schedule.every", Operator.SET, "7 days")]
    change(web.installation.root, "main", edits, web.installation.clock)
    assert client.get("/api/v1/c/main/frontier").json()["next_run"].startswith("2099-01-03T02:00")
    assert "The next run begins" in client.get("/c/main/frontier").text


ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "waiting": lambda row: row["since"],
    "weight": lambda row: -row["weight"],
    "depth": lambda row: row["depth"],
    "host": lambda row: row["host"],
}


def test_other_orders_of_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UX 2.8: the same URLs, those that are alike in the order of the crawler; a page of it goes on with the next."""
    monkeypatch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
    sites = {}
    for host in ("x.test", "y.test"):
        pages = {f"/{word}": html(f"/sobre-{word}", "/fogo", text=text_of(n)) for n, word in enumerate(WORDS)}
        sites[host] = {"/": html(*(f"/{word}" for word in WORDS)), **pages}
    settings = {"limits__pages": 6, "refresh__weights": "in_links", "courtesy__delay_s": 0.6}  # found in two seconds
    data = crawl_web(ScriptedWeb(sites), tmp_path, "x.test/", "y.test/", **settings).data
    clock = VirtualClock(WallClock().now_s())  # who may be asked next depends on it
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    client = Web(app_of(installation), installation).client(Role.VIEWER)

    def rows(query: str) -> list[dict[str, Any]]:
        answer = client.get(f"/api/v1/c/main/frontier?{query}")
        assert answer.status_code == 200, answer.text
        return [{**row, "expected": None} for row in answer.json()["rows"]]  # which goes by the time of asking

    real = rows("")
    for sort, key in ORDERS.items():
        assert rows(f"sort={sort}") == sorted(real, key=key), sort
        assert len({key(row) for row in real}) > 1, sort
    assert rows("sort=weight&n=4") + rows("sort=weight&n=40&offset=4") == rows("sort=weight")
    assert rows("sort=depth&contains=sobre") == [row for row in rows("sort=depth") if "sobre" in row["url"]]
    page = client.get("/c/main/frontier?sort=weight&n=4").text
    assert '<option value="weight" selected>heaviest first</option>' in page
    assert "The first 1,000 in crawl order are sorted." in page
    assert "offset=4&amp;sort=weight" in page
    assert client.get("/c/main/frontier?sort=evil").status_code == 400
    installation.close()
