"""Search as of a date in the browser and its JSON twin."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.clock import VirtualClock, iso_utc
from teia.store.root import Root, open_root
from teia.web.access.accounts import Accounts
from teia.web.server.installation import Installation
from tests.crawler.offline import NOW_S
from tests.indexer.test_past_search import CHANGING, DAY_S, GONE, root
from tests.web.conftest import QUICK, Web, app_of

__all__ = ["root"]


@pytest.fixture
def past(root: Root, tmp_path: Path) -> Iterator[Web]:
    """A collection with a page in three versions, ten days apart."""
    shutil.copytree(root.path, tmp_path / "data")
    clock = VirtualClock(NOW_S + 30 * DAY_S)
    installation = Installation(
        open_root(tmp_path / "data"), clock, Accounts(tmp_path / "data" / "web.sqlite", clock, QUICK)
    )
    yield Web(app_of(installation), installation)
    installation.close()


def day(days: float) -> str:
    return iso_utc(NOW_S + days * DAY_S)


@pytest.mark.heavy
def test_a_query_is_answered_as_of_a_date(past: Web) -> None:
    client = past.client()
    first = {hit["url"]: hit for hit in client.get(f"/api/v1/search?q=bridge&as_of={day(1)}").json()["hits"]}
    assert "opened the <mark>bridge</mark>" in first[CHANGING]["snippet"]
    assert len(first[CHANGING]["versions"]) == 3
    assert first[CHANGING]["versions"][-1] <= day(1) < first[CHANGING]["versions"][0]
    later = {hit["url"]: hit for hit in client.get(f"/api/v1/search?q=bridge&as_of={day(11)}").json()["hits"]}
    assert "closed the <mark>bridge</mark>" in later[CHANGING]["snippet"]
    assert client.get(f"/api/v1/search?q=ferry&as_of={day(1)}").json()["hits"][0]["url"] == GONE
    assert client.get("/api/v1/search?q=ferry").json()["total"] == 0


@pytest.mark.heavy
def test_the_page_says_the_date_and_links_to_the_captures_of_that_time(past: Web) -> None:
    shown = past.client().get(f"/search?q=mayor+opened&as_of={day(1)[:10]}").text
    assert f"Pages as they were on {day(1)[:10]}." in shown
    assert f'name="as_of" value="{day(1)[:10]}"' in shown
    assert "/c/main/copy?url=http%3A%2F%2Fa.test%2F&amp;time=" in shown
    assert "3 versions" in shown
    assert '<a href="/search?q=mayor+opened&amp;c=main">Search the present</a>' in shown
    portuguese = (
        past.client().get(f"/search?q=mayor+opened&as_of={day(1)[:10]}", headers={"accept-language": "pt-BR"}).text
    )
    assert "As páginas como eram em" in portuguese
    assert "3 versões" in portuguese


@pytest.mark.parametrize("text", ["yesterday", "2026-13-40", "0"])
def test_a_text_that_is_no_date_is_refused_with_the_reason(past: Web, text: str) -> None:
    answer = past.client().get(f"/api/v1/search?q=bridge&as_of={text}")
    assert answer.status_code == 400
    assert "is no date" in answer.json()["message"]


def test_captures_that_are_closed_are_not_searched(past: Web) -> None:
    past.installation.closed = frozenset({"main"})
    assert past.client().get(f"/api/v1/search?q=bridge&as_of={day(1)}").status_code in {401, 403}


def test_a_date_without_a_collection_keeps_the_filled_form_and_offers_the_collections(past: Web) -> None:
    data = past.installation.root.path
    shutil.copytree(data / "main", data / "other")
    asked = f"q=bridge&language=en&as_of={day(1)[:10]}"
    answer = past.client().get(f"/search?{asked}")
    assert answer.status_code == 200
    for shown in (
        "choose a collection to search as of a date",
        'name="q" value="bridge"',
        '<option value="en" selected>',
        f'name="as_of" value="{day(1)[:10]}"',
        f"q=bridge&amp;c=other&amp;language=en&amp;as_of={day(1)[:10]}",
    ):
        assert shown in answer.text, shown
    assert past.client().get(f"/api/v1/search?{asked}").status_code == 400, "a program gets an error"
    wrong = past.client().get("/search?q=bridge&c=main&as_of=yesterday")
    assert "is no date" in wrong.text
    assert 'name="q" value="bridge"' in wrong.text
