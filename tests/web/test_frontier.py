"""The frontier explorer (UX 2.8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.accounts import Accounts
from teia.web.roles import Role
from teia.web.site import Site
from tests.crawl.webs import ScriptedWeb, crawl_web, html, text_of

from .conftest import QUICK, Web, app_of

WORDS = ["casa", "rio", "lua", "mar", "sol", "pedra", "vento", "fogo"]


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Web:
    """A crawl that was stopped while URLs waited."""
    monkeypatch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
    pages = {f"/{word}": html(text=text_of(n)) for n, word in enumerate(WORDS)}
    pages["/"] = html(*(f"/{word}" for word in WORDS))
    data = crawl_web(ScriptedWeb({"x.test": pages}), tmp_path, "x.test/", limits__pages=2).data
    clock = WallClock()
    site = Site(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    return Web(app_of(site), site)


def test_what_waits_is_listed_in_its_order_with_why(cut: Web) -> None:
    client = cut.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/frontier").json(), client.get("/c/main/frontier").text
    assert twin["whys"]["total"] == len(twin["rows"]) == 7
    assert [row["why"] for row in twin["rows"]][1:] == ["behind"] * 6
    assert [row["ahead"] for row in twin["rows"]] == list(range(7))
    assert [row["expected"] for row in twin["rows"]] == sorted(row["expected"] for row in twin["rows"])
    assert page.index("lua</bdi>") < page.index("mar</bdi>") < page.index("fogo</bdi>")
    assert "URLs wait" in page
    status = client.get("/api/v1/c/main/status").json()
    assert status["urls_queued"] == 7
    assert status["finish"]["host"] == "x.test"
    assert status["finish"]["seconds"] == pytest.approx(7 * status["finish"]["slot_s"], abs=0.1)
    assert "/hosts/x.test" in client.get("/c/main").text
    cut.site.close()


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
    assert "Nothing that waits is like that" in client.get("/c/main/frontier?contains=zzz").text
    for query in ("depth=x", "n=1000", "offset=-1", "source=evil"):
        assert client.get(f"/c/main/frontier?{query}").status_code == 400, query
    cut.site.close()


def test_nothing_waits_is_said_so(web: Web) -> None:
    assert "Nothing waits." in web.client(Role.VIEWER).get("/c/main/frontier").text
