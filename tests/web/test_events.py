"""Streams: a snapshot, then what changed; few of them, and each for those who may hear it (UX 2.0)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi.sse import ServerSentEvent

from teia.web import events, limits
from teia.web.access.roles import Role
from teia.web.events import EventTopic, Hub, _stream_events
from tests.web.conftest import Web


async def first(stream: AsyncIterator[ServerSentEvent], number: int) -> list[tuple[str | None, Any]]:
    found = []
    async for event in stream:
        found.append((event.event, json.loads(event.raw_data or "null")))
        if len(found) == number:
            break
    return found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.EVENT_S", 0.02)


@pytest.mark.usefixtures("quick")
def test_a_stream_begins_with_everything_and_goes_on_with_what_changed(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([1, 1, 1, 2, 2, 3])
    monkeypatch.setitem(events.TOPICS, "status", EventTopic(lambda *_: {"n": next(answers)}, 0.02))

    async def listen() -> list[tuple[str | None, Any]]:
        hub = Hub()
        return await first(_stream_events(hub, hub.open_stream("me"), web.installation, ["status"], "main", ""), 3)

    assert asyncio.run(listen()) == [("status", {"n": 1}), ("status", {"n": 2}), ("status", {"n": 3})]


@pytest.mark.usefixtures("quick")
def test_many_listeners_cost_as_much_as_one(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def make(*_: object) -> dict[str, int]:
        nonlocal made
        made += 1
        return {"n": 1}

    monkeypatch.setitem(events.TOPICS, "status", EventTopic(make, 60.0))

    async def listen() -> None:
        hub = Hub()
        streams = [
            _stream_events(hub, hub.open_stream(f"s{n}"), web.installation, ["status"], "main", "") for n in range(50)
        ]
        await asyncio.gather(*(first(stream, 1) for stream in streams))

    asyncio.run(listen())
    assert made == 1


@pytest.mark.usefixtures("quick")
def test_what_goes_wrong_is_an_event_and_not_the_end(web: Web) -> None:
    async def listen() -> list[tuple[str | None, Any]]:
        hub = Hub()
        return await first(
            _stream_events(hub, hub.open_stream("me"), web.installation, ["host"], "main", "nobody.test"), 1
        )

    ((name, sent),) = asyncio.run(listen())
    assert name == "host"
    assert "nobody.test" in sent["error"]


def test_the_oldest_stream_of_a_session_yields() -> None:
    async def open_stream() -> None:
        hub = Hub()
        mine = [hub.open_stream("me") for _ in range(limits.STREAMS_PER_SESSION)]
        other = hub.open_stream("you")
        assert not any(stream.is_over.is_set() for stream in mine)
        hub.open_stream("me")
        assert [stream.is_over.is_set() for stream in mine] == [True, False, False, False]
        assert not other.is_over.is_set()
        hub.close_stream(mine[1])
        hub.open_stream("me")
        assert not mine[2].is_over.is_set(), "one that left makes room"
        for number in range(3 * limits.STREAMS):
            hub.open_stream(f"s{number}")
        assert len(hub.streams) == limits.STREAMS

    asyncio.run(open_stream())


@pytest.mark.parametrize(
    "query", ["", "topics=", "topics=weather&c=main", "topics=status,hosts,x&c=main", "topics=status"]
)
def test_bad_topics_are_refused_before_anything_is_sent(web: Web, query: str) -> None:
    answer = web.client(Role.ADMIN).get(f"/events?{query}")
    assert answer.status_code in (400, 404)


def test_a_stream_needs_the_role_of_its_topics(web: Web) -> None:
    assert web.client().get("/events?topics=status&c=main").status_code in (303, 401)
    assert web.client().get("/events?topics=page,status&c=main&of=x").status_code in (303, 401)
    assert {name for name, topic in events.TOPICS.items() if topic.role is Role.PUBLIC} == {"page"}


@pytest.mark.parametrize("name", [name for name in events.TOPICS if name not in ("host", "page")])
def test_every_topic_is_made_of_what_there_is(web: Web, name: str) -> None:
    made = events._compute_state(web.installation, events.TOPICS[name], "main", "")
    assert isinstance(json.loads(made.text), dict)


def test_a_page_and_a_host_tell_what_changes_of_them(web: Web) -> None:
    url = web.some_url()
    page = json.loads(events._compute_state(web.installation, events.TOPICS["page"], "main", url).text)
    assert (page["state"], page["shown_state"], page["why_waiting"], page["visits"]) == ("done", "200", None, 1)
    host = json.loads(events._compute_state(web.installation, events.TOPICS["host"], "main", "x.test").text)
    assert (host["state"], host["requests_seen"]) == ("idle", 5)
