"""Deeds on all URLs of a filter, after a count (UX 2.8)."""

from __future__ import annotations

import re
import threading
import time
from html import escape, unescape
from typing import Any
from urllib.parse import unquote_plus

import pytest

from teia.collections import bulk
from teia.errors import StoreError, UsageError
from teia.web.access.roles import Role
from teia.web.events import Hub, Stream
from teia.web.pages.collection.bulk import live_bulk
from tests.waiting import until
from tests.web.conftest import Web
from tests.web.pages.collection.test_queue import cut, stopped  # noqa: F401  # fixtures


def queued(web: Web) -> int:
    return int(web.client(Role.VIEWER).get("/api/v1/c/main/status").json()["urls_queued"])


def until_done(web: Web) -> dict[str, object]:
    client = web.client(Role.VIEWER)

    def first() -> dict[str, object]:
        return client.get("/api/v1/c/main/frontier").json()["deeds"][0]

    return until(lambda: said if (said := first())["done"] else None, "it is done", state=first)


@pytest.mark.heavy
def test_the_number_announced_is_the_number_that_leaves_the_queue(cut: Web) -> None:  # noqa: F811
    client = cut.client(Role.OPERATOR)
    assert "/c/main/frontier/bulk?deed=drop&amp;contains=o" in client.get("/c/main/frontier?contains=o").text
    twin = client.get("/api/v1/c/main/frontier/bulk?deed=drop&contains=o").json()
    page = client.get("/c/main/frontier/bulk?deed=drop&contains=o").text
    assert twin["number"] == len(twin["examples"]) == 4
    assert "Drop 4 URLs?" in page
    before = queued(cut)
    sent = {"deed": "drop", "contains": "o", "csrf": cut.csrf(client)}
    answer = client.post("/c/main/frontier/bulk", data=sent)
    assert (answer.status_code, answer.headers["location"]) == (303, "/c/main/frontier")
    done = until_done(cut)
    assert (done["deed"], done["number"], done["contains"]) == ("drop", 4, "o")
    assert queued(cut) == before - 4
    assert "4 URLs" in client.get("/c/main/frontier").text
    assert client.get("/api/v1/c/main/frontier").json()["whys"]["total"] == before - 4, "it is counted anew"
    url = twin["examples"][0]
    assert "removed from the queue by a user" in client.get("/api/v1/c/main/page", params={"url": url}).text
    audit = cut.client(Role.ADMIN).get("/api/v1/settings/audit").json()["changes"]
    assert {"collection": "main", "contains": "o"} in [
        each["detail"] for each in audit if each["what"] == "many URLs: drop"
    ]
    again = client.post("/api/v1/c/main/frontier/bulk", json={"deed": "retry"}, headers=cut.token(Role.OPERATOR))
    assert again.status_code == 200, again.text
    assert until_done(cut)["number"] == 4
    assert queued(cut) == before
    cut.installation.close()


def test_an_empty_selection_is_reported_and_cannot_be_sent(cut: Web) -> None:  # noqa: F811
    page = cut.client(Role.OPERATOR).get("/c/main/frontier/bulk?contains=zzz").text
    assert "No URL matches" in page
    assert 'name="csrf" value' in page
    assert '<input type="hidden" name="contains"' not in page
    cut.installation.close()


@pytest.mark.parametrize("query", ["deed=burn", "depth=x", "source=evil", "source=refresh", f"contains={'x' * 501}"])
def test_nonsense_is_refused(web: Web, query: str) -> None:
    client = web.client(Role.OPERATOR)
    assert client.get(f"/c/main/frontier/bulk?{query}").status_code == 400
    key, _, value = query.partition("=")
    sent = {"deed": "drop", key: value}
    answer = client.post("/api/v1/c/main/frontier/bulk", json=sent, headers=web.token(Role.OPERATOR))
    assert answer.status_code == 400


def test_a_viewer_sees_no_actions(cut: Web) -> None:  # noqa: F811
    client = cut.client(Role.VIEWER)
    assert "/frontier/bulk" not in client.get("/c/main/frontier").text
    assert client.get("/c/main/frontier/bulk").status_code == 403
    cut.installation.close()


def test_while_it_is_counted_the_page_waits_and_then_offers_what_was_counted(
    cut: Web,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """UX 1: nothing moves unasked, so the page is not loaded again by itself; without scripts there is a link."""
    client, go_on = cut.client(Role.OPERATOR), threading.Event()
    counts = bulk.count_urls

    def count(*args: Any) -> bulk.BulkCount:
        assert go_on.wait(60)
        return counts(*args)

    monkeypatch.setattr(bulk, "count_urls", count)
    address = "/c/main/frontier/bulk?deed=first&contains=o"
    page = client.get(address).text
    assert "Counting…" in page
    assert "<h1>Put first" in page, "which stays true when they are counted"
    assert 'http-equiv="refresh"' not in page
    assert f'<a href="{escape(address)}">Reload</a>' in page
    (query,) = re.findall(r"topics=bulk&amp;c=main&amp;of=([^\"]+)", page)
    of = unquote_plus(unescape(query))
    assert live_bulk(cut.installation, "main", of) == {
        "is_counting": True,
        "counted": None,
        "number": None,
        "failed": "",
    }
    go_on.set()
    until(lambda: not live_bulk(cut.installation, "main", of)["is_counting"], "they are counted")
    assert live_bulk(cut.installation, "main", of)["number"] == 4
    assert "Put 4 URLs first?" in client.get(address).text
    with pytest.raises(UsageError, match="is not a filter of URLs"):
        live_bulk(cut.installation, "main", "deed=burn")
    refused = cut.client(Role.VIEWER).get("/events?topics=bulk&c=main&of=deed%3Ddrop")
    assert refused.status_code == 403
    cut.installation.close()


def test_a_count_that_fails_is_reported_and_not_repeated_for_listeners(
    cut: Web,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, go_on, begun = cut.client(Role.OPERATOR), threading.Event(), 0

    def count(*_: Any) -> bulk.BulkCount:
        nonlocal begun
        begun += 1
        assert go_on.wait(60)
        time.sleep(1)  # long enough for a rest of half a minute
        raise StoreError("frontier.sqlite: the disk is full")

    monkeypatch.setattr(bulk, "count_urls", count)
    address = "/c/main/frontier/bulk?deed=drop&contains=o"
    assert 'data-live-if="failed" hidden>They could not be counted:' in client.get(address).text
    go_on.set()
    until(lambda: not live_bulk(cut.installation, "main", "contains=o")["is_counting"], "the count fails")
    said = live_bulk(cut.installation, "main", "contains=o")
    assert said == {
        "is_counting": False,
        "counted": None,
        "number": None,
        "failed": "frontier.sqlite: the disk is full",
    }
    assert live_bulk(cut.installation, "main", "contains=o") == said
    answer = client.get(f"/api/v1{address}")
    assert (answer.status_code, answer.json()["message"]) == (404, "frontier.sqlite: the disk is full")
    assert "the disk is full" in client.get(address).text
    assert begun == 1
    cut.installation.close()


@pytest.mark.heavy
def test_the_longest_filter_is_listened_to(cut: Web, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Each of its characters is four bytes, each of which is written as three characters."""
    client = cut.client(Role.OPERATOR)
    monkeypatch.setattr(bulk, "count_urls", lambda *_: threading.Event().wait(5))
    page = client.get("/c/main/frontier/bulk", params={"contains": "🕸" * 500, "host": "x" * 255}).text
    (address,) = re.findall(r'data-events="([^"]+)"', page)

    def over(_: Hub, session: str) -> Stream:
        stream = Stream(session)
        stream.is_over.set()
        return stream

    monkeypatch.setattr(Hub, "open_stream", over)
    assert client.get(unescape(address)).status_code == 200
    cut.installation.close()
