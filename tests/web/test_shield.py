"""What holds for every request: sizes, rates, headers (RELIABILITY 38, 44)."""

from __future__ import annotations

import asyncio

import pytest

from teia.clock import VirtualClock
from teia.web import limits
from teia.web.gate import Buckets
from teia.web.roles import Role

from .conftest import XSS, Web


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
    buckets = Buckets(clock, at_once=3, per_s=2)
    assert [buckets.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.wait_s("b") == 0, "others have their own"
    asyncio.run(clock.advance(0.5))
    assert buckets.wait_s("a") == 0
    asyncio.run(clock.advance(100))
    assert [buckets.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_who_asks_too_often_is_told_when_to_come_back(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 5)
    monkeypatch.setattr("teia.web.limits.REQUESTS_PER_S", 1 / 600)  # however slow the machine, none is given back
    client = web.client()
    answers = [client.get("/health") for _ in range(8)]
    assert [answer.status_code for answer in answers][:5] == [200] * 5
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
