"""Deeds on all URLs of a filter, after a count (UX 2.8)."""

from __future__ import annotations

import time

import pytest

from teia.web.roles import Role

from .conftest import Web
from .test_frontier import cut, stopped  # noqa: F401  # fixtures


def queued(web: Web) -> int:
    return int(web.client(Role.VIEWER).get("/api/v1/c/main/status").json()["urls_queued"])


def until_done(web: Web) -> dict[str, object]:
    client, until = web.client(Role.VIEWER), time.monotonic() + 30
    while time.monotonic() < until:
        first: dict[str, object] = client.get("/api/v1/c/main/frontier").json()["deeds"][0]
        if first["done"]:
            return first
        time.sleep(0.05)
    raise AssertionError("it was not done")


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
    assert "somebody took it out of the queue" in client.get("/api/v1/c/main/page", params={"url": url}).text
    audit = cut.client(Role.ADMIN).get("/api/v1/settings/audit").json()["changes"]
    assert {"collection": "main", "contains": "o"} in [
        each["detail"] for each in audit if each["what"] == "many URLs: drop"
    ]
    again = client.post("/api/v1/c/main/frontier/bulk", json={"deed": "retry"}, headers=cut.token(Role.OPERATOR))
    assert again.status_code == 200, again.text
    assert until_done(cut)["number"] == 4
    assert queued(cut) == before
    cut.site.close()


def test_nothing_matches_is_said_and_cannot_be_sent(cut: Web) -> None:  # noqa: F811
    page = cut.client(Role.OPERATOR).get("/c/main/frontier/bulk?contains=zzz").text
    assert "No URL matches" in page
    assert 'name="csrf" value' in page
    assert '<input type="hidden" name="contains"' not in page
    cut.site.close()


@pytest.mark.parametrize("query", ["deed=burn", "depth=x", "source=evil", "source=refresh", f"contains={'x' * 501}"])
def test_nonsense_is_refused(web: Web, query: str) -> None:
    client = web.client(Role.OPERATOR)
    assert client.get(f"/c/main/frontier/bulk?{query}").status_code == 400
    key, _, value = query.partition("=")
    sent = {"deed": "drop", key: value}
    answer = client.post("/api/v1/c/main/frontier/bulk", json=sent, headers=web.token(Role.OPERATOR))
    assert answer.status_code == 400


def test_a_viewer_sees_no_deeds(cut: Web) -> None:  # noqa: F811
    client = cut.client(Role.VIEWER)
    assert "/frontier/bulk" not in client.get("/c/main/frontier").text
    assert client.get("/c/main/frontier/bulk").status_code == 403
    cut.site.close()
